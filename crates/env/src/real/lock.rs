//! Lock files, and folders that are held.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use thermocline_base::{Error, Result};

use crate::real::open::{folder_of, open_file, open_folder};
use crate::real::syscalls::retry;
use crate::storage::LockGuard;

/// The lock belongs to the open file, so a second handle of the same process is refused too.
pub(super) fn lock(path: &Path) -> Result<Box<dyn LockGuard>> {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file =
        open_file(options.mode(0o600), path, false).map_err(|e| Error::io("create", path, e))?;
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
    named(file, path)
}

/// Gives a lock file that is locked the name of who has it. A file that may not have one is let go of at once.
pub(super) fn named(file: fs::File, path: &Path) -> Result<Box<dyn LockGuard>> {
    // An error gives the lock up, and does not only close the file (`RealLock`).
    let lock = RealLock { file };
    check_lock_file(&lock.file, path)?;
    // First the new name, then the cut: whoever reads in between finds a whole number.
    let pid = format!("{}\n", std::process::id());
    let written = lock.file.write_all_at(pid.as_bytes(), 0);
    written
        .and_then(|()| lock.file.set_len(pid.len() as u64))
        .map_err(|e| Error::io("write", path, e))
        .or_else(|error| without_name(&lock.file, error))?;
    Ok(Box::new(lock))
}

/// What is done where the name of who has the lock could not be written. Only who is refused reads it: so a full disk keeps nobody
/// from opening a database that is there, or from removing it to make room. An earlier name goes, if it can.
pub(super) fn without_name(file: &fs::File, error: Error) -> Result<()> {
    if !error.is_no_room() {
        return Err(error);
    }
    let _ = file.set_len(0);
    Ok(())
}

pub(super) fn lock_shared(path: &Path) -> Result<Option<Box<dyn LockGuard>>> {
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
pub(super) fn hold_folder(dir: &Path) -> Result<Option<Box<dyn LockGuard>>> {
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

pub(super) fn is_folder_held(dir: &Path) -> Result<bool> {
    let file = open_folder(dir).map_err(|e| Error::io("open", dir, e))?;
    // Given up at once, and not only as the file is closed (`RealLock`): whoever wants to hold the folder next could not.
    let lock = RealLock { file };
    retry(|| match lock.file.try_lock() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(e)) if e.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(fs::TryLockError::Error(e)) => Err(e),
    })
    .map_err(|e| Error::io("lock", dir, e))
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
