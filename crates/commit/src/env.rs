//! What committing is given: changes, how they are to be written, and a store to write them to.

use std::time::Duration;

use thermocline_base::{BatchEntry, Error, Result, SeqNo};

use crate::ring::Range;

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// When it survives a crash, together with everything before it.
    #[default]
    Immediate,
    /// When readers see it. A crash may take the last of such writes, at most about a second's worth,
    /// and never one without all that came after it.
    Buffered,
}

/// How a write is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// When it is acknowledged.
    pub durability: Durability,
    /// Whether to give up with [`Error::Busy`] rather than wait for the manifest, for the region's
    /// growth, for another writer's grant, for room among the writes in flight, for a flush that makes
    /// room, because flushing or compaction are behind, or because too many commits wait for their callbacks. It still waits for
    /// its own persist, and for those of writes before it. A batch over `memtable.item_bytes_max`, one for which the
    /// region has room in pieces alone, or one with a value over `blob.inline_bytes_max` always waits for the manifest.
    pub no_slowdown: bool,
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions {
            durability,
            ..WriteOptions::default()
        }
    }
}

/// The changes of a write, which can be gone through several times.
pub trait Entries<'a>: ExactSizeIterator<Item = BatchEntry<'a>> + Clone {}

impl<'a, T: ExactSizeIterator<Item = BatchEntry<'a>> + Clone> Entries<'a> for T {}

/// A group between grant and finish, with its place `P`.
#[derive(Debug)]
pub struct Group<P> {
    /// Where it goes, as the environment knows it.
    pub place: P,
    /// The bytes of its item there.
    pub range: Range,
    /// Its ticket of the ring.
    pub ticket: u64,
    /// The seqno of its first record.
    pub first: SeqNo,
    /// The seqno of its last record.
    pub last: SeqNo,
}

/// A group that has its place.
#[derive(Debug)]
pub struct Reserved<P> {
    /// The group.
    pub group: Group<P>,
    /// Whether the store has something to do in the background.
    pub due: bool,
}

/// What making written bytes durable needs of a store.
pub trait Persists {
    /// Whether no persist has failed.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    fn check_poison(&self) -> Result<()>;

    /// Makes stored bytes durable.
    ///
    /// # Errors
    /// A failed persist.
    fn write_back(&self, ranges: &[Range]) -> Result<()>;

    /// From now on the store takes no writes, because of `cause`, which is returned.
    fn poison(&self, cause: Error) -> Error;
}

/// What committing needs of a store.
pub trait CommitEnv: Persists {
    /// Where a group goes.
    type Place;

    /// Bytes of an item with these entries.
    fn item_bytes<'a>(&self, entries: impl Iterator<Item = BatchEntry<'a>>) -> u64;

    /// Whether the store still takes writes.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`], or [`Error::InvalidArgument`] if it never did.
    fn check(&self) -> Result<()>;

    /// Holds a write back for as long as it is to be for `bytes` bytes: none, if it was held back with others before.
    ///
    /// # Errors
    /// [`Error::Busy`] if it asked not to wait; [`Error::OutOfSpace`] if it would not fit however long it waited.
    fn admit<'a>(&self, entries: impl Entries<'a>, bytes: u64, no_slowdown: bool) -> Result<()>;

    /// As [`CommitEnv::admit`], for durable writes of several callers. If they are refused, each asks for itself: that these
    /// were refused together is not told to anybody.
    ///
    /// # Errors
    /// As [`CommitEnv::admit`].
    fn admit_together<'a>(&self, entries: impl Entries<'a>, bytes: u64) -> Result<()>;

    /// Gives a write its place and a ticket of the ring, waiting for room if need be.
    ///
    /// # Errors
    /// Why there is no place for it; nothing has happened then.
    fn reserve<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<Reserved<Self::Place>>;

    /// As [`CommitEnv::reserve`], for durable writes of several callers. Where there is no place for all of them, each asks
    /// for its own: that these were refused together is not told to anybody.
    ///
    /// # Errors
    /// As [`CommitEnv::reserve`].
    fn reserve_together<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
    ) -> Result<Reserved<Self::Place>>;

    /// Stores a group's item, persists it unless that is `deferred`, and indexes its records, beside other groups.
    ///
    /// # Errors
    /// A failed persist.
    fn apply<'a>(
        &self,
        group: &Group<Self::Place>,
        entries: impl Entries<'a>,
        deferred: bool,
    ) -> Result<()>;

    /// Whether every group's write-back is deferred, because something else makes it durable: a log.
    fn defers_all(&self) -> bool;

    /// Has `Commits::sync_up_to` called for what is visible, and `Commits::tell`, some time from now.
    fn sync_later(&self, delay: Duration);

    /// A group was written; `due` is that of [`Reserved`].
    fn wrote(&self, due: bool);

    /// Has `Commits::call_back` called, as a call of the user's and behind those before it. May be asked for under
    /// any lock.
    fn call_later(&self);

    /// Makes calls of the user's that nobody else would make.
    fn settle(&self);

    /// Counts a panic of the user's in a callback.
    fn count_panic(&self);

    /// Nanoseconds by the store's clock.
    fn now_ns(&self) -> u64;

    /// A commit waited for others' callbacks since `begun`, in nanoseconds by the clock.
    fn waited_for_callbacks(&self, begun: u64);

    /// Whether this thread is in a call of the user's, and so must wait for no other.
    fn is_in_call(&self) -> bool;
}
