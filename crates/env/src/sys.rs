//! The system calls that the standard library does not offer. The only unsafe code here.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::direct::DIRECT_UNIT;
use crate::storage::{DiskRoom, FsKind};

/// Signals in a row that keep a piece from being reserved, at most. The shortest one takes microseconds.
#[cfg(target_os = "linux")]
const SIGNALS_MAX: u32 = 1000;

/// Bytes of the shortest piece that is reserved by itself.
#[cfg(target_os = "linux")]
const PIECE_MIN: u64 = 64 << 10;

/// Reserves `len` bytes at `offset` and extends the file over them. `Ok(false)` where the file
/// system cannot reserve space.
#[cfg(target_os = "linux")]
pub fn allocate(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    fallocate(file, 0, offset, len)
}

/// Reserves `len` bytes at `offset` and leaves the file's length as it is. `Ok(false)` where the file
/// system cannot.
#[cfg(target_os = "linux")]
pub fn reserve_behind(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    fallocate(file, libc::FALLOC_FL_KEEP_SIZE, offset, len)
}

/// Reserving space is known on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn reserve_behind(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(target_os = "linux")]
fn fallocate(file: &File, mode: libc::c_int, offset: u64, len: u64) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    in_pieces(offset, len, |offset, len| {
        let out_of_range = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let offset = libc::off_t::try_from(offset).map_err(out_of_range)?;
        let len = libc::off_t::try_from(len).map_err(out_of_range)?;
        // SAFETY: `fallocate` touches no memory of this process; the descriptor belongs to `file`,
        // which stays borrowed over the call.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, len) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => Ok(false),
            _ => Err(error),
        }
    })
}

/// Has `call` reserve all of a range. A file system may give back what it has reserved when a signal ends the call (tmpfs does). A process
/// that gets signals all the time, as one that is profiled, would try a long range for ever: so each signal halves the pieces, and
/// many of them in a row, with no piece done between them, are an error.
#[cfg(target_os = "linux")]
fn in_pieces(
    offset: u64,
    len: u64,
    mut call: impl FnMut(u64, u64) -> io::Result<bool>,
) -> io::Result<bool> {
    let end = offset.checked_add(len).ok_or(io::ErrorKind::InvalidInput)?;
    let (mut at, mut piece, mut signals) = (offset, len, 0);
    while at < end {
        let now = piece.min(end - at);
        match call(at, now) {
            Ok(true) => (at, signals) = (at + now, 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted && signals < SIGNALS_MAX => {
                signals += 1;
                piece = (now / 2).max(PIECE_MIN);
            }
            refused => return refused,
        }
    }
    Ok(true)
}

/// Has transfers of an open file wait for the device again, whatever it was opened with.
pub fn set_blocking(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let fd = file.as_raw_fd();
    // SAFETY: `fcntl` with these commands touches no memory of this process; the descriptor belongs
    // to `file`, which stays borrowed over the call.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As for [`reserve_behind`].
#[cfg(not(target_os = "linux"))]
pub fn allocate(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// A path, for the kernel.
#[cfg(target_os = "linux")]
fn c_path(path: &Path) -> io::Result<std::ffi::CString> {
    use std::os::unix::ffi::OsStrExt;

    std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Renames, in one step, unless something has the name `to`. `Ok(false)` where the file system cannot.
#[cfg(target_os = "linux")]
pub fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    let (from, to) = (c_path(from)?, c_path(to)?);
    // SAFETY: both paths are C strings that live over the call, which writes no memory of this process.
    let renamed = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if renamed == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // The last one: a sandbox without the call.
        Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EPERM) => Ok(false),
        _ => Err(error),
    }
}

/// Such a rename is known on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn rename_new(_from: &Path, _to: &Path) -> io::Result<bool> {
    Ok(false)
}

/// What the kernel says of the file system below `path`.
#[cfg(target_os = "linux")]
fn statfs(path: &Path) -> io::Result<libc::statfs> {
    let path = c_path(path)?;
    let mut answer = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `path` is a C string and `answer` has room for one `statfs`; both live over the call.
    while unsafe { libc::statfs(path.as_ptr(), answer.as_mut_ptr()) } != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: the memory was zeroed, which is a valid `statfs`, and then filled by the kernel.
    Ok(unsafe { answer.assume_init() })
}

/// The kind of file system below `path`.
#[cfg(target_os = "linux")]
pub fn fs_kind(path: &Path) -> io::Result<FsKind> {
    Ok(match statfs(path)?.f_type {
        libc::TMPFS_MAGIC => FsKind::Tmpfs,
        _ => FsKind::Ordinary,
    })
}

/// The room of the file system below `path`, as far as this process may have it.
#[cfg(target_os = "linux")]
pub fn room(path: &Path) -> io::Result<Option<DiskRoom>> {
    let answer = statfs(path)?;
    // Blocks are counted in fragments, which are as large on most file systems.
    let units = [answer.f_frsize, answer.f_bsize];
    let unit = units
        .into_iter()
        .find_map(|unit| u64::try_from(unit).ok().filter(|n| *n > 0));
    let Some(unit) = unit else {
        return Ok(None);
    };
    let room = DiskRoom {
        free: answer.f_bavail.saturating_mul(unit),
        total: answer.f_blocks.saturating_mul(unit),
    };
    // Some file systems have no size.
    Ok((room.total > 0).then_some(room))
}

/// How many descriptors this process may have.
pub fn open_files_max() -> Option<u64> {
    let mut limit = std::mem::MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: `limit` has room for one `rlimit` and lives over the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the memory was zeroed, which is a valid `rlimit`, and then filled by the kernel.
    Some(unsafe { limit.assume_init() }.rlim_cur)
}

/// Elsewhere nobody is asked.
#[cfg(not(target_os = "linux"))]
pub fn room(_path: &Path) -> io::Result<Option<DiskRoom>> {
    Ok(None)
}

/// Elsewhere the kind is not asked for; a memory file system counts as ordinary there.
#[cfg(not(target_os = "linux"))]
pub fn fs_kind(path: &Path) -> io::Result<FsKind> {
    path.metadata().map(|_| FsKind::Ordinary)
}

/// Has the transfers of an open file go past the page cache, or through it again. `Ok(false)` where
/// the file system refuses, or would do as if.
#[cfg(target_os = "linux")]
pub fn set_direct(file: &File, direct: bool) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    if direct && !can_be_direct(file)? {
        return Ok(false);
    }
    let fd = file.as_raw_fd();
    // SAFETY: `fcntl` with these commands touches no memory of this process; the descriptor belongs
    // to `file`, which stays borrowed over the call.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = if direct {
        flags | libc::O_DIRECT
    } else {
        flags & !libc::O_DIRECT
    };
    // SAFETY: as above.
    if unsafe { libc::fcntl(fd, libc::F_SETFL, flags) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => Ok(false),
        _ => Err(error),
    }
}

/// Direct I/O is known on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn set_direct(_file: &File, direct: bool) -> io::Result<bool> {
    Ok(!direct)
}

/// Whether direct transfers in units of [`DIRECT_UNIT`] are more than a flag to the file system. A
/// kernel that does not say is asked by setting the flag.
#[cfg(target_os = "linux")]
fn can_be_direct(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    let mut kind = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `kind` has room for one `statfs` and lives over the call, as does the descriptor.
    while unsafe { libc::fstatfs(file.as_raw_fd(), kind.as_mut_ptr()) } != 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // SAFETY: the memory was zeroed, which is a valid `statfs`, and then filled by the kernel.
    if unsafe { kind.assume_init() }.f_type == libc::TMPFS_MAGIC {
        // Newer kernels take the flag and go through memory all the same.
        return Ok(false);
    }
    let mut answer = std::mem::MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty C string, which with the flag names the descriptor; `answer` has
    // room for one `statx`; all live over the call.
    let failed = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            answer.as_mut_ptr(),
        )
    };
    if failed != 0 {
        // A kernel before the call, or a sandbox without it.
        return Ok(true);
    }
    // SAFETY: the memory was zeroed, which is a valid `statx`, and then filled by the kernel.
    let answer = unsafe { answer.assume_init() };
    if answer.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(true);
    }
    let unit = u32::try_from(DIRECT_UNIT).expect("a small constant");
    // Zero says that the file cannot be transferred directly.
    let fits = |asked: u32| asked != 0 && unit.is_multiple_of(asked);
    Ok(fits(answer.stx_dio_offset_align) && fits(answer.stx_dio_mem_align))
}

/// Nanoseconds by a clock of the kernel; `None` if it has none such.
#[cfg(target_os = "linux")]
fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room for one `timespec` and lives over the call.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Nanoseconds by the clock that [`tick_ns`] tells the ticks of.
#[cfg(target_os = "linux")]
pub fn tick_start_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// When that clock ticked last. The kernel has it in memory, so nobody waits for the processor's counter.
#[cfg(target_os = "linux")]
pub fn tick_ns() -> Option<u64> {
    clock_ns(libc::CLOCK_MONOTONIC_COARSE)
}

/// Elsewhere no such clock is known.
#[cfg(not(target_os = "linux"))]
pub fn tick_start_ns() -> u64 {
    0
}

/// As for [`tick_start_ns`].
#[cfg(not(target_os = "linux"))]
pub fn tick_ns() -> Option<u64> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn interrupted() -> io::Result<bool> {
        Err(io::Error::from_raw_os_error(libc::EINTR))
    }

    /// As on a file system that gives all back of a call that a signal ends, where one comes during each long call.
    #[test]
    fn a_range_is_reserved_though_signals_end_each_long_call() {
        const LEN: u64 = (64 << 20) + 4096;
        let (mut reserved, mut calls) = (10, 0);
        let done = in_pieces(10, LEN, |at, len| {
            calls += 1;
            if len > 300_000 {
                return interrupted();
            }
            assert_eq!(at, reserved, "one behind the other");
            reserved += len;
            Ok(true)
        });
        assert!(done.unwrap());
        assert_eq!(reserved, 10 + LEN);
        assert!(calls < 600, "{calls}");
    }

    #[test]
    fn signals_that_let_nothing_be_done_are_an_error_in_the_end() {
        let mut calls = 0;
        let failed = in_pieces(0, 1 << 30, |_, _| {
            calls += 1;
            interrupted()
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(calls, SIGNALS_MAX + 1);
        // What is not supported is not tried in pieces.
        assert!(!in_pieces(0, 1 << 30, |_, _| Ok(false)).unwrap());
    }
}
