//! Reads of jobs are no reads of clients.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Result, Site, Steps};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, OpenMode, Storage};
use thermocline_exec::{BatchRead, BatchReader, BufPool, UnderWay};

/// A file that notes how many reads of clients are under way while it is read.
#[derive(Debug)]
struct Noting {
    inner: Arc<dyn File>,
    clients: UnderWay,
    noted: Mutex<Vec<usize>>,
}

impl File for Noting {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        lock(&self.noted).push(self.clients.now());
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }
    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)
    }
    fn sync(&self, site: Site) -> Result<()> {
        self.inner.sync(site)
    }
    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

#[test]
fn a_read_of_a_job_is_none_of_a_client() {
    let disk = SimFs::new(Steps::new());
    let inner = disk.open(Path::new("/file"), OpenMode::CreateNew).unwrap();
    inner.write_at(b"some bytes", 0).unwrap();
    let clients = UnderWay::default();
    let file = Noting {
        inner,
        clients: clients.clone(),
        noted: Mutex::default(),
    };
    let reader = BatchReader::counted(BufPool::new(1 << 20), clients);
    let read = BatchRead {
        file: &file,
        offset: 5,
        len: 3,
    };
    assert_eq!(reader.read_of_job(&read).unwrap()[..], b"byt"[..]);
    assert_eq!(reader.read(&[read]).pop().unwrap().unwrap()[..], b"byt"[..]);
    assert_eq!(*lock(&file.noted), [0, 1]);
    assert_eq!(reader.under_way(), 0);
}
