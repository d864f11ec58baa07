//! Few descriptors: what a process may have open is bounded, and others have their part of it.
//!
//! A store keeps the files of tables open because that is quicker, and can do without. So
//! whenever something cannot be opened for want of a descriptor, those of all stores are closed ([`spares`](crate::spares)) that nobody reads at
//! that moment, and it is tried once more: wherever it was, since all files of a store are opened through [`Frugal`],
//! folders that are to be synced included. Nothing has happened when an open fails so, and therefore trying again is always right.
//!
//! What fails then, too, is an error that names the limit; it poisons nothing by itself (`observe::poison`).

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::direct::DeviceBytes;
use crate::spares::Spares;
use crate::{DiskRoom, File, FsKind, LockGuard, OpenMode, Storage};
use thermocline_base::{Error, Result, Site};

/// So many a store wants, for itself and for what its jobs read at the same time.
const WANTED: u64 = 64;

/// So often files are closed for one open before it fails.
const TRIES: usize = 8;

/// A storage that closes files of tables where descriptors are short.
#[derive(Debug)]
pub struct Frugal {
    inner: Arc<dyn Storage>,
}

impl Frugal {
    /// One in front of `inner`.
    pub fn new(inner: Arc<dyn Storage>) -> Arc<Frugal> {
        Arc::new(Frugal { inner })
    }

    fn with_descriptors<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        // Other threads may take what was freed.
        for _ in 0..TRIES {
            match call() {
                Err(error) if is_short(&error) => {}
                done => return done,
            }
            self.inner.spares().close();
            std::thread::yield_now();
        }
        call().map_err(|error| match is_short(&error) {
            true => self.short(error),
            false => error,
        })
    }

    #[cold]
    fn short(&self, error: Error) -> Error {
        let Error::Io {
            op, path, source, ..
        } = error
        else {
            return error;
        };
        let most = match self.inner.open_files_max() {
            Some(most) => format!("{most} (RLIMIT_NOFILE)"),
            None => "as many as it has".to_string(),
        };
        let text = match source.raw_os_error() {
            Some(ENFILE) => format!(
                "{source}: all processes of this machine together have as many files open as it allows; close some, or \
                 raise the machine's limit (on Linux fs.file-max)"
            ),
            _ => format!(
                "{source}: this process may have {most} files open, and all are; close some, or raise the limit, of \
                 which a store wants {WANTED} for itself"
            ),
        };
        Error::io(op, &path, io::Error::new(source.kind(), text))
    }
}

/// Whether the process, or the machine, has no descriptor left.
fn is_short(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => {
            matches!(source.raw_os_error(), Some(EMFILE | ENFILE))
        }
        _ => false,
    }
}

/// As Linux and all relatives number them.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

impl Storage for Frugal {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.with_descriptors(|| self.inner.open(path, mode))
    }

    fn open_direct(
        &self,
        path: &Path,
        mode: OpenMode,
        counter: &Arc<DeviceBytes>,
    ) -> Result<Arc<dyn File>> {
        self.with_descriptors(|| self.inner.open_direct(path, mode, counter))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        self.inner.is_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.with_descriptors(|| self.inner.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.with_descriptors(|| self.inner.create_dir_all(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        // Where the name could not be taken, nothing has happened.
        self.with_descriptors(|| self.inner.rename_new(from, to))
    }

    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, site: Site) -> Result<()> {
        // Where the folder could not be opened, nothing was renamed either.
        self.with_descriptors(|| self.inner.rename_and_sync(from, to, dir, site))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &Path, site: Site) -> Result<()> {
        // Where the folder could not be opened, nothing was synced.
        self.with_descriptors(|| self.inner.sync_dir(dir, site))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        self.with_descriptors(|| self.inner.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.with_descriptors(|| self.inner.lock_shared(path))
    }

    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        self.with_descriptors(|| self.inner.hold_folder(dir))
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        self.with_descriptors(|| self.inner.is_folder_held(dir))
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        self.inner.is_same(one, other)
    }

    fn is_within(&self, dir: &Path, outer: &Path) -> Result<bool> {
        self.inner.is_within(dir, outer)
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        self.inner.fs_kind(path)
    }

    fn room(&self, path: &Path) -> Result<Option<DiskRoom>> {
        self.inner.room(path)
    }

    fn same_disk(&self, one: &Path, other: &Path) -> Result<bool> {
        self.inner.same_disk(one, other)
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn spares(&self) -> &Spares {
        self.inner.spares()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::Steps;

    use super::*;
    use crate::sim::SimFs;

    /// Whoever raises the limit of a process where the machine has none left gains nothing.
    #[test]
    fn the_limit_that_is_in_the_way_is_named() {
        let fs = SimFs::new(Steps::new());
        fs.limit_descriptors(7);
        let frugal = Frugal::new(Arc::new(fs));
        let says = |code| {
            let refused = io::Error::from_raw_os_error(code);
            let error = frugal.short(Error::io("open", Path::new("/a"), refused));
            error.to_string()
        };
        let (process, machine) = (says(EMFILE), says(ENFILE));
        assert!(process.contains("7 (RLIMIT_NOFILE)"), "{process}");
        assert!(machine.contains("fs.file-max"), "{machine}");
        assert!(!machine.contains("RLIMIT_NOFILE"), "{machine}");
        for text in [process, machine] {
            assert!(text.starts_with("cannot open /a: "), "{text}");
        }
    }
}
