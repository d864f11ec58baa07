//! The outside world behind traits: files, the clock, randomness.
//!
//! Everything the engine asks of the operating system goes through an [`Env`], except the mapping
//! of persistent memory, which `pm` does itself on a handle from here. So a test can put a file
//! system in memory in its place that crashes or fails on purpose (`sim`, `fault`).
//!
//! What a [`Storage`] promises, and nothing more:
//!
//! 1. [`File::sync`] makes the file's data and size durable, not its name.
//! 2. [`Storage::sync_dir`] makes the names in a folder durable: creations, renames, removals.
//! 3. What was not synced may be lost, kept or torn, in any order.
//! 4. After a failed sync nothing is known; the caller must not try again and trust the answer.
//! 5. Only ordinary files are opened, and no link in the last component of a path is followed, but
//!    by [`OpenMode::ReadInput`]: who may write into a folder cannot have another file changed
//!    through a name there, nor have an open wait for ever at a FIFO. A folder may be a link.
//!
//! | module | what it puts behind the traits |
//! |---|---|
//! | [`real`] | the operating system |
//! | [`direct`] | what direct I/O asks and promises, and the count of its bytes |
//! | [`sim`] | a file system in memory that can crash |
//! | [`fault`] | any of them, with faults on purpose |
//! | [`spares`] | files that are open and need not be |
//! | [`simulated`] | a clock that a test advances, randomness from a seed |
#![deny(unsafe_code)]

pub mod direct;
pub mod fault;
pub mod frugal;
pub mod real;
pub mod sim;
pub mod simulated;
pub mod sites;
pub mod spares;
#[expect(
    unsafe_code,
    reason = "the system calls that the standard library does not offer"
)]
mod sys;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Error, Result, Site};

use direct::{DeviceBytes, Transfers};
use spares::Spares;

/// How [`Storage::open`] treats a file that is there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; only reading.
    Read,
    /// As [`OpenMode::Read`], of a file that a user has named: it may be reached through a link.
    ReadInput,
    /// The file must exist; reading and writing.
    ReadWrite,
    /// The file must not exist; it is made, with mode 0600, empty.
    CreateNew,
}

/// An open file. All methods may be called from several threads at once.
pub trait File: Send + Sync + fmt::Debug {
    /// The path by which it was opened.
    fn path(&self) -> &Path;

    /// Reads up to `buf.len()` bytes at `offset`; returns how many there were. Fewer than asked
    /// means the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// Those of [`File::read_at`]; [`thermocline_base::Error::Io`] of kind `UnexpectedEof` if the
    /// file ends before. A caller that knows the file's length asks in this way, so that a read
    /// that came up short is an error and not a shorter file.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(buf, offset)?;
        if got < buf.len() {
            let short = std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("asked for {} bytes, got {got}", buf.len()),
            );
            return Err(Error::io_at("read", self.path(), offset, short));
        }
        Ok(())
    }

    /// Writes all of `bytes` at `offset`, extending the file where needed.
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()>;

    /// What offset, length and address of every transfer must be multiples of, because the file is
    /// transferred [directly](direct): [`direct::DIRECT_UNIT`]. `None` if it is not; a handle may
    /// change to that.
    fn direct_unit(&self) -> Option<usize> {
        None
    }

    /// Writes the last piece of a file, of any length and from anywhere in memory. A file that is
    /// [direct](direct) is not so any more from here on, through this handle.
    ///
    /// # Errors
    /// Those of [`File::write_at`]; of kind `InvalidInput` if `offset` is not a multiple of the
    /// [unit](File::direct_unit).
    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.write_at(bytes, offset)
    }

    /// The file's length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or extends it by a hole.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Reserves space on the device for `len` bytes at `offset`, so that later writes there cannot
    /// run out of space; extends the file.
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Reserves space on the device for `len` bytes at `offset` and does not extend the file, so that writes there
    /// will find room that others have taken all of. [`File::set_len`] gives it back. Where the file system knows no
    /// such thing nothing is done.
    ///
    /// # Errors
    /// Those of the file system, with the file as it was.
    fn reserve_behind(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    /// Makes data and size durable. `site` names what becomes durable.
    fn sync(&self, site: Site) -> Result<()>;

    /// Locks the file itself against other handles: `exclusive` against all, else against exclusive
    /// ones. Held until [`File::unlock`], or until the file is closed. Simulators grant it always.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Busy`] if another handle holds it.
    fn lock(&self, _exclusive: bool) -> Result<()> {
        Ok(())
    }

    /// Gives up the lock.
    fn unlock(&self) {}

    /// The file descriptor, for mapping. `None` where there is none (simulators).
    fn raw_fd(&self) -> Option<i32>;

    /// The way to hand reads of this file to the kernel oneself, several at once. `None` where they must
    /// come through [`File::read_at`]: from simulators, and from a kernel that a test has put in place.
    fn raw_reads(&self) -> Option<RawReads<'_>> {
        None
    }
}

/// A file of the operating system, for who asks the kernel for several reads at once.
#[derive(Debug, Clone, Copy)]
pub struct RawReads<'a> {
    fd: BorrowedFd<'a>,
    transfers: &'a Transfers,
}

impl<'a> RawReads<'a> {
    /// The file's descriptor.
    pub fn fd(&self) -> BorrowedFd<'a> {
        self.fd
    }

    /// What offset, length and address must be multiples of, as [`File::direct_unit`].
    pub fn direct_unit(&self) -> Option<usize> {
        self.transfers.unit()
    }

    /// Counts a read of `n` bytes at `offset` that was made; `direct` if there was a unit before it.
    pub fn has_read(&self, direct: bool, n: usize, offset: u64) {
        self.transfers.has_read(direct, n, offset);
    }
}

/// Keeps a lock file locked until dropped.
pub trait LockGuard: Send + Sync + fmt::Debug {}

/// What kind of file system a path lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// Kept in memory by the kernel: survives a process, not the machine.
    Tmpfs,
    /// Anything else.
    Ordinary,
}

/// A file system.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Opens an ordinary file.
    ///
    /// # Errors
    /// Of kind `InvalidInput` if there is something else of this name; others of the file system.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// Opens a file for [direct I/O](direct), where the file system allows it, and as an ordinary
    /// file where not. What is transferred is added to `counter` in either case.
    ///
    /// # Errors
    /// Those of [`Storage::open`].
    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>>;

    /// Whether something has this name, were it a link that leads nowhere.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// Whether this is a folder.
    fn is_dir(&self, path: &Path) -> Result<bool>;

    /// The names in a folder, sorted.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Makes a folder (mode 0700) and its missing parents; fine if it exists. The new names are
    /// durable on return.
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Renames a file, replacing the target atomically.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// [`Storage::rename`] within `dir`, and then [`Storage::sync_dir`] of that; whatever it takes to begin the sync is there
    /// before the name is changed.
    ///
    /// # Errors
    /// Those of the file system. With the operation "open folder" nothing has happened, as with "rename".
    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()>;

    /// Gives a file a second name, `to`, in another folder: a hard link. Both names are of one file,
    /// which goes with the last of them.
    ///
    /// # Errors
    /// Of kind `AlreadyExists` if `to` exists; of kind `CrossesDevices` if it would lie on another file
    /// system; others where the file system has no hard links.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Removes a file's name, and the file with its last one.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Makes the names in a folder durable. `site` names what becomes durable.
    ///
    /// # Errors
    /// Those of the file system. One with the operation "sync folder" leaves open what is durable, and whether a later
    /// call would tell. Any other has come before: it is as if nobody had called.
    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()>;

    /// Locks the file `path` against every other handle, making it if needed, and writes the
    /// process id into it.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Locked`] with the folder and the holder's process id; of kind
    /// `InvalidInput` if what has this name can be no lock file.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>>;

    /// Locks an existing lock file against writers, together with other readers, and changes
    /// nothing. `None` if there is no such file.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Locked`] with the folder and the writer's process id.
    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>>;

    /// Holds a folder, together with others who do; changes nothing. `None` where folders cannot be
    /// held.
    ///
    /// # Errors
    /// Those of the file system.
    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>>;

    /// Whether anybody holds a folder ([`Storage::hold_folder`]), in this process or another.
    ///
    /// # Errors
    /// Those of the file system.
    fn is_folder_held(&self, dir: &Path) -> Result<bool>;

    /// Whether two folders, which exist, are one, by whatever paths.
    ///
    /// # Errors
    /// Those of the file system.
    fn is_same(&self, one: &Path, other: &Path) -> Result<bool>;

    /// What kind of file system `path` (which exists) lies on.
    fn fs_kind(&self, path: &Path) -> Result<FsKind>;

    /// How much room there is on the file system that `path` (which exists) lies on; `None` where nobody knows.
    ///
    /// # Errors
    /// Those of the file system.
    fn room(&self, path: &Path) -> Result<Option<DiskRoom>>;

    /// Whether two paths, which exist, lie on one file system, so that one takes the room of the other.
    ///
    /// # Errors
    /// Those of the file system.
    fn same_disk(&self, one: &Path, other: &Path) -> Result<bool>;

    /// How many files this process may have open; `None` where nobody knows.
    fn open_files_max(&self) -> Option<u64>;

    /// Files that are open and need not be.
    fn spares(&self) -> &Spares;
}

/// The room of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// What may still be written.
    pub free: u64,
    /// All there is.
    pub total: u64,
}

/// Time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;
    /// Waits.
    fn sleep_ms(&self, ms: u64);
}

/// Unpredictable bytes, for UUIDs and nonces.
pub trait Random: Send + Sync + fmt::Debug {
    /// Fills `buf`.
    fn fill(&self, buf: &mut [u8]) -> Result<()>;
}

/// The outside world. Cloning shares it.
#[derive(Debug, Clone)]
pub struct Env {
    /// Files.
    pub storage: Arc<dyn Storage>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

impl Env {
    /// The operating system's files, clock and randomness.
    ///
    /// ```
    /// let env = thermocline_env::Env::real();
    /// assert!(env.clock.now_ns() <= env.clock.now_ns());
    /// ```
    pub fn real() -> Env {
        Env {
            storage: Arc::new(real::RealStorage::new()),
            clock: Arc::new(real::RealClock::new()),
            random: Arc::new(real::OsRandom),
        }
    }

    /// A simulated file system with a clock that stands still until advanced and randomness from
    /// `seed`: the same calls give the same world.
    pub fn simulated(fs: sim::SimFs, seed: u64) -> Env {
        Env {
            storage: Arc::new(fs),
            clock: Arc::new(simulated::SimClock::new()),
            random: Arc::new(simulated::SeededRandom::new(seed)),
        }
    }

    /// A random number.
    ///
    /// # Errors
    /// Whatever the source of randomness says.
    pub fn random_u64(&self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.random.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}
