//! What goes wrong, and when.

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// [`Storage::open`](crate::Storage::open) and [`Storage::open_direct`](crate::Storage::open_direct) of a file that exists.
    Open,
    /// The same with [`OpenMode::CreateNew`](crate::OpenMode::CreateNew).
    Create,
    /// [`Storage::exists`](crate::Storage::exists), [`Storage::is_dir`](crate::Storage::is_dir), [`Storage::fs_kind`](crate::Storage::fs_kind), [`Storage::room`](crate::Storage::room) and [`File::len`](crate::File::len).
    LookUp,
    /// [`Storage::list`](crate::Storage::list).
    List,
    /// [`Storage::create_dir_all`](crate::Storage::create_dir_all).
    CreateDir,
    /// [`Storage::rename`](crate::Storage::rename) and [`Storage::rename_new`](crate::Storage::rename_new).
    Rename,
    /// [`Storage::link`](crate::Storage::link).
    Link,
    /// [`Storage::remove`](crate::Storage::remove).
    Remove,
    /// [`Storage::sync_dir`](crate::Storage::sync_dir).
    SyncDir,
    /// [`Storage::lock`](crate::Storage::lock).
    Lock,
    /// [`File::read_at`](crate::File::read_at).
    Read,
    /// [`File::write_at`](crate::File::write_at) and [`File::write_tail`](crate::File::write_tail).
    Write,
    /// [`File::set_len`](crate::File::set_len).
    SetLen,
    /// [`File::allocate`](crate::File::allocate).
    Allocate,
    /// [`File::sync`](crate::File::sync).
    Sync,
}

impl Op {
    /// Every kind of call.
    pub const ALL: [Op; 15] = [
        Op::Open,
        Op::Create,
        Op::LookUp,
        Op::List,
        Op::CreateDir,
        Op::Rename,
        Op::Link,
        Op::Remove,
        Op::SyncDir,
        Op::Lock,
        Op::Read,
        Op::Write,
        Op::SetLen,
        Op::Allocate,
        Op::Sync,
    ];
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with EIO and does nothing. A sync makes nothing durable, but leaves its
    /// changes for the next one; see [`Fault::SyncKept`] for what kernels do.
    Eio,
    /// A write writes the given number of bytes and fails with EIO.
    ShortWrite(usize),
    /// A call that needs space fails with ENOSPC and does nothing. Removals are among these: file systems that write nothing in place
    /// (btrfs, ZFS) need some to note that something has gone.
    NoSpace,
    /// As [`Fault::NoSpace`], with EDQUOT: there is room, but not for us.
    Quota,
    /// A call that opens something fails with EMFILE and does nothing: the process has as many descriptors as it may.
    NoDescriptor,
    /// The same with EACCES: the process may not open it.
    NoAccess,
    /// A link fails with EXDEV, as between two file systems.
    CrossesDevices,
    /// A read returns at most the given number of bytes, as if the file ended there.
    ShortRead(usize),
    /// A read returns, with one bit wrong, what lies there: the bit of this number, counted from
    /// the beginning of what was read, modulo its length.
    FlipBit(u64),
    /// A write reports success and does nothing.
    LostWrite,
    /// A write goes this many bytes behind its place.
    Misdirected(u64),
    /// A sync fails; over [`SimFs`](crate::sim::SimFs) readers still see what will never be durable by itself.
    SyncKept,
    /// A sync fails; over [`SimFs`](crate::sim::SimFs) readers see the durable content again.
    SyncDropped,
    /// A sync fails with ENOSPC (delayed allocation, thin volumes, quotas); else as [`Fault::SyncKept`].
    SyncNoSpace,
}

impl Fault {
    /// Whether this can befall `op`.
    pub fn befalls(self, op: Op) -> bool {
        match self {
            Fault::Eio => true,
            Fault::ShortWrite(_) | Fault::LostWrite | Fault::Misdirected(_) => op == Op::Write,
            Fault::NoDescriptor | Fault::NoAccess => matches!(
                op,
                Op::Open | Op::Create | Op::List | Op::SyncDir | Op::Lock
            ),
            Fault::NoSpace | Fault::Quota => matches!(
                op,
                Op::Create
                    | Op::CreateDir
                    | Op::Rename
                    | Op::Link
                    | Op::Remove
                    | Op::Lock
                    | Op::Write
                    | Op::SetLen
                    | Op::Allocate
            ),
            Fault::CrossesDevices => op == Op::Link,
            Fault::ShortRead(_) | Fault::FlipBit(_) => op == Op::Read,
            Fault::SyncKept | Fault::SyncDropped | Fault::SyncNoSpace => {
                matches!(op, Op::Sync | Op::SyncDir)
            }
        }
    }
}

/// How often a fault happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// At one call.
    Once,
    /// At that call and every later one that it can befall.
    Forever,
}

/// Which fault happens when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// What goes wrong.
    pub fault: Fault,
    /// Only at calls of this kind, or at all that the fault can befall.
    pub op: Option<Op>,
    /// At which of those calls, counted from 0 since the storage was made.
    pub at: u64,
    /// Once or from there on.
    pub repeat: Repeat,
}
