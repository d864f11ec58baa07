//! A kernel that is interrupted.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::real::{Kernel, Syscalls};

/// A kernel that is interrupted before every transfer and then transfers only a little.
#[derive(Debug)]
pub struct Choppy {
    bytes_max: usize,
    calls: AtomicU64,
}

impl Choppy {
    /// Transfers at most `bytes_max` bytes at a time.
    pub fn new(bytes_max: usize) -> Choppy {
        Choppy {
            bytes_max,
            calls: AtomicU64::new(0),
        }
    }

    /// Transfers attempted so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn interrupt(&self) -> io::Result<()> {
        match self.calls.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Err(io::ErrorKind::Interrupted.into()),
            _ => Ok(()),
        }
    }
}

impl Syscalls for Choppy {
    fn pread(&self, file: &fs::File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.interrupt()?;
        let most = self.bytes_max.min(buf.len());
        Kernel.pread(file, &mut buf[..most], offset)
    }

    fn pwrite(&self, file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.interrupt()?;
        Kernel.pwrite(file, &bytes[..self.bytes_max.min(bytes.len())], offset)
    }

    fn fsync(&self, file: &fs::File) -> io::Result<()> {
        self.interrupt()?;
        Kernel.fsync(file)
    }
}
