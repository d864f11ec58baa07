//! The two system calls that the standard library does not offer. The only unsafe code here.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::FsKind;

/// Reserves `len` bytes at `offset` and extends the file over them. `Ok(false)` where the file
/// system cannot reserve space.
#[cfg(target_os = "linux")]
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let offset = libc::off_t::try_from(offset).map_err(out_of_range)?;
    let len = libc::off_t::try_from(len).map_err(out_of_range)?;
    loop {
        // SAFETY: `fallocate` touches no memory of this process; the descriptor belongs to `file`,
        // which stays borrowed over the call.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, len) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Reserving space is known on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// The kind of file system below `path`.
#[cfg(target_os = "linux")]
pub fn fs_kind(path: &Path) -> io::Result<FsKind> {
    use std::os::unix::ffi::OsStrExt;

    let path = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` is a C string and `answer` has room for one `statfs`; both live over the call.
    while unsafe { libc::statfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: the memory was zeroed, which is a valid `statfs`, and then filled by the kernel.
    let answer = unsafe { answer.assume_init() };
    Ok(if answer.f_type == libc::TMPFS_MAGIC {
        FsKind::Tmpfs
    } else {
        FsKind::Ordinary
    })
}

/// Elsewhere the kind is not asked for; a memory file system counts as ordinary there.
#[cfg(not(target_os = "linux"))]
pub fn fs_kind(path: &Path) -> io::Result<FsKind> {
    path.metadata().map(|_| FsKind::Ordinary)
}
