//! Files, clock and randomness of the operating system.
//!
//! All transfers go through [`Syscalls`], which may be interrupted or do only a part: the loops
//! here finish the job, and a test puts a kernel of its own below them.
//!
//! Folders get mode 0700 and files 0600: a database is its owner's.

mod clock;
mod file;
mod lock;
mod open;
mod random;
mod syscalls;

pub use clock::RealClock;
pub use random::OsRandom;
pub use syscalls::{Kernel, Syscalls};

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use thermocline_base::{Error, Result, Site};

use crate::direct::{DeviceBytes, Transfers};
use crate::file::{File, OpenMode};
use crate::spares::Spares;
use crate::storage::{DiskRoom, FsKind, LockGuard, Storage};
use crate::sys;
use file::RealFile;
use open::{folder, folder_of, open_folder, open_in};
use syscalls::retry;

/// The operating system's file system.
#[derive(Debug, Clone)]
pub struct RealStorage {
    syscalls: Arc<dyn Syscalls>,
}

impl Default for RealStorage {
    fn default() -> RealStorage {
        RealStorage::new()
    }
}

impl RealStorage {
    /// Over the kernel.
    pub fn new() -> RealStorage {
        RealStorage::with_syscalls(Arc::new(Kernel))
    }

    /// Over `syscalls`, for tests of the loops.
    pub fn with_syscalls(syscalls: Arc<dyn Syscalls>) -> RealStorage {
        RealStorage { syscalls }
    }

    fn handle(&self, file: fs::File, path: &Path, transfers: Transfers) -> Arc<dyn File> {
        Arc::new(RealFile {
            file,
            path: path.to_path_buf(),
            syscalls: Arc::clone(&self.syscalls),
            transfers,
        })
    }

    /// Opening a folder for reading is how its names are synced.
    fn sync_folder(&self, dir: &Path) -> io::Result<()> {
        open_folder(dir).and_then(|folder| retry(|| folder.sync_all()))
    }
}

/// Whether there is nothing of a name that was looked up. What is above it may be a file.
fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

/// Whether a folder cannot be synced, which says nothing of a device: we may not read it, or its file system has no such call or
/// may not be written to.
fn cannot_be_synced(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
        || matches!(
            error.raw_os_error(),
            Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EROFS)
        )
}

impl Storage for RealStorage {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = open_in(mode, path)?;
        Ok(self.handle(file, path, Transfers::default()))
    }

    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>> {
        let file = open_in(mode, path)?;
        // Whatever the file system has against it: the file works without.
        let direct = self.syscalls.set_direct(&file, true).unwrap_or(false);
        Ok(self.handle(file, path, Transfers::new(direct, counter)))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match path.symlink_metadata() {
            Ok(_) => Ok(true),
            Err(e) if is_missing(&e) => Ok(false),
            Err(e) => Err(Error::io("look up", path, e)),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        match path.metadata() {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(e) if is_missing(&e) => Ok(false),
            Err(e) => Err(Error::io("look up", path, e)),
        }
    }

    /// Names that are not UTF-8 are not ours; they appear with replacement characters, so that a
    /// caller sees that something is there.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that lists folders"
    )]
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = |e| Error::io("list", dir, e);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Each level is durable before the next one is made. The deepest level that exists may have
    /// been made by a process that was killed before it could sync the name, so that name is
    /// synced too, where the folder above it can be synced: permissions may be in the way, or a file
    /// system that nobody writes to, on which another one is mounted, and that does not know it.
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |e| Error::io("create folder", &path, e)
        };
        let mut missing = Vec::new();
        let mut there = dir;
        while !self.is_dir(there)? {
            missing.push(there);
            there = folder_of(there);
            if missing.len() > 1000 {
                return Err(failed(dir)(io::ErrorKind::InvalidInput.into()));
            }
        }
        match self.sync_folder(folder_of(there)) {
            Err(e) if !cannot_be_synced(&e) => return Err(failed(there)(e)),
            _ => {}
        }
        for level in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(level) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && level.is_dir() => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && level.is_file() => {
                    let why = io::Error::new(e.kind(), "it is a file, not a folder");
                    return Err(failed(level)(why));
                }
                answer => answer.map_err(failed(level))?,
            }
            self.sync_folder(folder_of(level)).map_err(failed(level))?;
        }
        Ok(())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that renames files"
    )]
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| Error::io("rename", from, e))
    }

    /// Where the file system cannot do it in one step, a link refuses a name that is taken. The file has both names for a
    /// moment then, and keeps them if the process is killed. Where there are no hard links either the name is taken by an empty
    /// file, which is our own and may be replaced.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        let refused = |e: io::Error| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::io("rename", to, e),
            _ => Error::io("rename", from, e),
        };
        if sys::rename_new(from, to).map_err(refused)? {
            return Ok(());
        }
        let named = match fs::hard_link(from, to) {
            Ok(()) => self.remove(from),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(refused(e)),
            Err(_) => {
                open_in(OpenMode::CreateNew, to)?;
                self.rename(from, to)
            }
        };
        if named.is_err() {
            // It is ours in either case.
            let _ = self.remove(to);
        }
        named
    }

    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, _site: Site) -> Result<()> {
        let dir = folder(dir);
        let folder = open_folder(dir).map_err(|e| Error::io("open folder", dir, e))?;
        self.rename(from, to)?;
        retry(|| folder.sync_all()).map_err(|e| Error::io("sync folder", dir, e))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        fs::hard_link(from, to).map_err(|e| Error::io("link", to, e))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that removes files"
    )]
    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| Error::io("remove", path, e))
    }

    fn sync_dir(&self, dir: &Path, _site: Site) -> Result<()> {
        let dir = folder(dir);
        // Nothing was synced then, and nothing has failed that was to be.
        let folder = open_folder(dir).map_err(|e| Error::io("open folder", dir, e))?;
        retry(|| folder.sync_all()).map_err(|e| Error::io("sync folder", dir, e))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        lock::lock(path)
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        lock::lock_shared(path)
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        lock::hold_folder(dir)
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        lock::is_folder_held(dir)
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| {
            let found = fs::metadata(path).map_err(|e| Error::io("look up", path, e))?;
            Ok((found.dev(), found.ino()))
        };
        Ok(id(one)? == id(other)?)
    }

    fn is_within(&self, dir: &Path, outer: &Path) -> Result<bool> {
        let resolved = |path: &Path| {
            let resolved = path.canonicalize();
            resolved.map_err(|e| Error::io("look up", path, e))
        };
        Ok(resolved(dir)?.starts_with(resolved(outer)?))
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        sys::fs_kind(path).map_err(|e| Error::io("look up the file system of", path, e))
    }

    fn room(&self, path: &Path) -> Result<Option<DiskRoom>> {
        sys::room(path).map_err(|e| Error::io("look up the room of", path, e))
    }

    fn same_disk(&self, one: &Path, other: &Path) -> Result<bool> {
        use std::os::unix::fs::MetadataExt;

        let device = |path: &Path| {
            let metadata = path.metadata();
            let failed = |e| Error::io("look up the file system of", path, e);
            metadata.map(|m| m.dev()).map_err(failed)
        };
        Ok(device(one)? == device(other)?)
    }

    fn open_files_max(&self) -> Option<u64> {
        sys::open_files_max()
    }

    fn spares(&self) -> &Spares {
        static OF_PROCESS: LazyLock<Spares> = LazyLock::new(Spares::default);
        &OF_PROCESS
    }
}

#[cfg(test)]
mod tests;
