//! A file system.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Result, Site};

use crate::direct::DeviceBytes;
use crate::file::{File, OpenMode};
use crate::spares::Spares;

/// Keeps a lock file locked until dropped.
pub trait LockGuard: Send + Sync + fmt::Debug {
    /// Tells the file systems of this process apart: 0 for that of the operating system, and for each simulated one
    /// another number as long as there is a guard of it.
    fn disk(&self) -> usize {
        0
    }
}

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

    /// Opens a file for [direct I/O](crate::direct), where the file system allows it, and as an ordinary
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

    /// Whether something has this name, were it a link that leads nowhere. Below a file there is nothing.
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

    /// Gives a file another name in its folder, one that nothing has. If several do so at the same time, in whatever process,
    /// one of them succeeds.
    ///
    /// # Errors
    /// Of kind `AlreadyExists` if something has the name `to`: it stays as it is. Others of the file system. The file has its
    /// first name then.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()>;

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
    /// process id into it, if there is room for that.
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
    /// held, or this one is not to be: somebody else has it alone, if only for the moment in which he looks whether anybody holds
    /// it ([`Storage::is_folder_held`]). Only who has the store's lock does that, so whoever must not miss the folder holds it
    /// under that lock, or looks at that lock once more behind it.
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

    /// Whether a folder lies in another one, however deep, or is that; both exist. It does not matter by which paths they are
    /// named.
    ///
    /// # Errors
    /// Those of the file system.
    fn is_within(&self, dir: &Path, outer: &Path) -> Result<bool>;

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
