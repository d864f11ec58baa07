//! Files, clock and randomness of the operating system.
//!
//! All transfers go through [`Syscalls`], which may be interrupted or do only a part: the loops
//! here finish the job, and a test puts a kernel of its own below them.
//!
//! Folders get mode 0700 and files 0600: a database is its owner's.

mod file;

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use thermocline_base::{Error, Result, Site};

use crate::direct::{DeviceBytes, Transfers};
use crate::spares::Spares;
use crate::{Clock, DiskRoom, File, FsKind, LockGuard, OpenMode, Random, Storage, sys};
use file::RealFile;

/// The transfers of the kernel, each of which may be interrupted or come up short.
pub trait Syscalls: Send + Sync + std::fmt::Debug {
    /// Reads up to `buf.len()` bytes; 0 at the end of the file.
    fn pread(&self, file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes up to `bytes.len()` bytes.
    fn pwrite(&self, file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Makes data and size durable.
    fn fsync(&self, file: &fs::File) -> io::Result<()>;
    /// Whether it is the operating system's, which may be asked for reads by others too.
    fn is_kernel(&self) -> bool {
        false
    }
    /// Has transfers go past the page cache, or through it again; `false` if that is refused.
    fn set_direct(&self, file: &fs::File, direct: bool) -> io::Result<bool> {
        sys::set_direct(file, direct)
    }
}

/// The kernel itself.
#[derive(Debug, Clone, Copy)]
pub struct Kernel;

impl Syscalls for Kernel {
    fn pread(&self, file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buf, offset)
    }

    fn pwrite(&self, file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    fn fsync(&self, file: &fs::File) -> io::Result<()> {
        file.sync_data()
    }

    fn is_kernel(&self) -> bool {
        true
    }
}

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

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that opens files"
)]
fn open_with(options: &fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    options.open(path)
}

fn open_in(mode: OpenMode, path: &Path) -> Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    let (op, options) = match mode {
        OpenMode::Read | OpenMode::ReadInput => ("open", options.read(true)),
        OpenMode::ReadWrite => ("open", options.read(true).write(true)),
        OpenMode::CreateNew => (
            "create",
            options.read(true).write(true).create_new(true).mode(0o600),
        ),
    };
    open_file(options, path, mode == OpenMode::ReadInput).map_err(|e| Error::io(op, path, e))
}

/// Opens an ordinary file and nothing else (promise 5 of the crate). What was opened is looked at, so
/// nothing can be put in its place in between.
fn open_file(options: &mut fs::OpenOptions, path: &Path, follow: bool) -> io::Result<fs::File> {
    let links = if follow { 0 } else { libc::O_NOFOLLOW };
    // Without this flag a FIFO would wait for whoever opens its other end.
    let options = options.custom_flags(links | libc::O_NONBLOCK);
    let file = match retry(|| open_with(options, path)) {
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::ELOOP | libc::EISDIR | libc::ENXIO)
            ) =>
        {
            // For the message alone.
            let kind = path.symlink_metadata().map(|about| about.file_type());
            return Err(kind.ok().and_then(not_ordinary).unwrap_or(e));
        }
        opened => opened?,
    };
    if let Some(refusal) = not_ordinary(file.metadata()?.file_type()) {
        return Err(refusal);
    }
    // Whoever hands reads to the kernel in bulk would be told to come again.
    sys::set_blocking(&file)?;
    Ok(file)
}

/// Why what is of this kind is not opened; `None` for an ordinary file.
fn not_ordinary(kind: fs::FileType) -> Option<io::Error> {
    let what = match kind {
        _ if kind.is_file() => return None,
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let text = format!("it is {what}, and only an ordinary file is opened here; move it away");
    Some(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Opens a folder, which may be a link to one.
fn open_folder(dir: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_DIRECTORY);
    retry(|| open_with(options, dir))
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// The folder whose names include `path`.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
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
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io("look up", path, e)),
        }
    }

    fn is_dir(&self, path: &Path) -> Result<bool> {
        match path.metadata() {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
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
    /// synced too, where the permissions of the folder above it allow.
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
            Err(e) if e.kind() != io::ErrorKind::PermissionDenied => return Err(failed(there)(e)),
            _ => {}
        }
        for level in missing.into_iter().rev() {
            match fs::DirBuilder::new().mode(0o700).create(level) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && level.is_dir() => {}
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

    fn rename_and_sync(&self, from: &Path, to: &Path, dir: &Path, _site: Site) -> Result<()> {
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
        let dir = if dir.as_os_str().is_empty() {
            Path::new(".")
        } else {
            dir
        };
        // Nothing was synced then, and nothing has failed that was to be.
        let folder = open_folder(dir).map_err(|e| Error::io("open folder", dir, e))?;
        retry(|| folder.sync_all()).map_err(|e| Error::io("sync folder", dir, e))
    }

    /// The lock belongs to the open file, so a second handle of the same process is refused too.
    fn lock(&self, path: &Path) -> Result<Box<dyn LockGuard>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = open_file(options.mode(0o600), path, false)
            .map_err(|e| Error::io("create", path, e))?;
        match retry(|| match file.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }) {
            Ok(true) => {}
            Ok(false) => {
                // Readers leave no name; the one in the file is that of a writer before them.
                let by_readers = file.try_lock_shared().is_ok();
                if by_readers {
                    let _ = file.unlock();
                }
                return Err(Error::Locked {
                    path: folder_of(path).to_path_buf(),
                    pid: if by_readers { 0 } else { read_pid(&file) },
                });
            }
            Err(e) => return Err(Error::io("lock", path, e)),
        }
        check_lock_file(&file, path)?;
        // First the new name, then the cut: whoever reads in between finds a whole number.
        let pid = format!("{}\n", std::process::id());
        file.write_all_at(pid.as_bytes(), 0)
            .and_then(|()| file.set_len(pid.len() as u64))
            .map_err(|e| Error::io("write", path, e))?;
        Ok(Box::new(RealLock { file }))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        let file = match open_file(fs::OpenOptions::new().read(true), path, false) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", path, e)),
        };
        match retry(|| match file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }) {
            Ok(true) => Ok(Some(Box::new(RealLock { file }))),
            Ok(false) => Err(Error::Locked {
                path: folder_of(path).to_path_buf(),
                pid: read_pid(&file),
            }),
            Err(e) => Err(Error::io("lock", path, e)),
        }
    }

    /// A lock of the folder itself: no file is needed, so a reader may hold it that writes nothing.
    fn hold_folder(&self, dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
        let file = open_folder(dir).map_err(|e| Error::io("open", dir, e))?;
        match retry(|| match file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }) {
            Ok(held) => Ok(held.then(|| Box::new(RealLock { file }) as Box<dyn LockGuard>)),
            Err(e) => Err(Error::io("lock", dir, e)),
        }
    }

    fn is_folder_held(&self, dir: &Path) -> Result<bool> {
        let file = open_folder(dir).map_err(|e| Error::io("open", dir, e))?;
        // Given up as the file is closed.
        retry(|| match file.try_lock() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        })
        .map_err(|e| Error::io("lock", dir, e))
    }

    fn is_same(&self, one: &Path, other: &Path) -> Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let id = |path: &Path| {
            let found = fs::metadata(path).map_err(|e| Error::io("look up", path, e))?;
            Ok((found.dev(), found.ino()))
        };
        Ok(id(one)? == id(other)?)
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

/// Refuses a file that is too long to be a lock file of ours: the lock's name would replace somebody's
/// bytes.
fn check_lock_file(file: &fs::File, path: &Path) -> Result<()> {
    let len = file
        .metadata()
        .map_err(|e| Error::io("look up", path, e))?
        .len();
    if len <= LOCK_LEN_MAX {
        return Ok(());
    }
    let text = format!("it has {len} bytes, so it is no lock file of ours; move it away");
    let source = io::Error::new(io::ErrorKind::InvalidInput, text);
    Err(Error::io("lock", path, source))
}

/// More than any process id takes, with a line's end.
const LOCK_LEN_MAX: u64 = 64;

fn read_pid(file: &fs::File) -> u32 {
    let mut text = [0; 16];
    let len = file.read_at(&mut text, 0).unwrap_or(0);
    std::str::from_utf8(&text[..len])
        .ok()
        .and_then(|text| text.lines().next()?.trim().parse().ok())
        .unwrap_or(0)
}

/// Dropping it releases the lock. The lock file stays: removing it would let two processes lock
/// two files of one name.
#[derive(Debug)]
struct RealLock {
    file: fs::File,
}

impl Drop for RealLock {
    /// Closing alone would not do: the lock belongs to the open file, of which a child process that
    /// another thread is starting holds a copy for a moment.
    fn drop(&mut self) {
        // Should it fail, closing still releases the lock, if a little later.
        let _ = self.file.unlock();
    }
}

impl LockGuard for RealLock {}

/// The operating system's monotonic clock.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl RealClock {
    /// A clock that counts from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    pub fn new() -> RealClock {
        RealClock {
            start: Instant::now(),
        }
    }
}

impl Clock for RealClock {
    /// Stays at 2^64 - 1 after 584 years.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_ms(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy)]
pub struct OsRandom;

impl Random for OsRandom {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that draws randomness"
    )]
    fn fill(&self, buf: &mut [u8]) -> Result<()> {
        getrandom::fill(buf).map_err(|e| {
            let source = io::Error::other(e.to_string());
            Error::io("draw random bytes from", Path::new("the system"), source)
        })
    }
}

#[cfg(test)]
mod tests;
