//! The transfers of the kernel, behind a trait.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use crate::sys;

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

/// Makes a call until it is not interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}
