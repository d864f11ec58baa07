//! A file in memory that can only be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::{Error, Result, Site};
use thermocline_env::File;

/// Bytes as a file.
#[derive(Debug)]
pub struct Bytes {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Bytes that were read so far.
    read: AtomicU64,
}

impl Bytes {
    /// The file `path`, with these bytes.
    pub fn new(path: &str, bytes: &[u8]) -> Arc<Bytes> {
        Arc::new(Bytes {
            path: PathBuf::from(path),
            bytes: bytes.to_vec(),
            read: AtomicU64::new(0),
        })
    }

    /// Bytes that were read so far: what bounds the work of whoever reads them.
    pub fn bytes_read(&self) -> u64 {
        // Read by the thread that counted.
        self.read.load(Ordering::Relaxed)
    }
}

fn refused<T>() -> Result<T> {
    Err(Error::Unsupported("this file can only be read".into()))
}

impl File for Bytes {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let behind = usize::try_from(offset)
            .ok()
            .and_then(|at| self.bytes.get(at..))
            .unwrap_or_default();
        let len = behind.len().min(buf.len());
        buf[..len].copy_from_slice(&behind[..len]);
        self.read.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        refused()
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn set_len(&self, _: u64) -> Result<()> {
        refused()
    }

    fn allocate(&self, _: u64, _: u64) -> Result<()> {
        refused()
    }

    fn sync(&self, _: Site) -> Result<()> {
        refused()
    }

    fn raw_fd(&self) -> Option<i32> {
        None
    }
}
