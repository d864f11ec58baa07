//! Reads of jobs are no reads of clients.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Result, Steps};
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, OpenMode, Storage};
use thermocline_exec::{BatchRead, BatchReader, BufPool, UnderWay};

/// Notes how many reads of clients are under way while a file is read.
#[derive(Debug)]
struct Noting {
    clients: UnderWay,
    noted: Mutex<Vec<usize>>,
}

impl Hooks for Noting {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        lock(&self.noted).push(self.clients.now());
        file.read_at(buf, offset)
    }
}

#[test]
fn a_read_of_a_job_is_none_of_a_client() {
    let disk = SimFs::new(Steps::new());
    let inner = disk.open(Path::new("/file"), OpenMode::CreateNew).unwrap();
    inner.write_at(b"some bytes", 0).unwrap();
    let clients = UnderWay::default();
    let noting = Noting {
        clients: clients.clone(),
        noted: Mutex::default(),
    };
    let file = Hooked::new(inner, Arc::new(noting));
    let reader = BatchReader::counted(BufPool::new(1 << 20), clients);
    let read = BatchRead {
        file: &*file,
        offset: 5,
        len: 3,
    };
    assert_eq!(reader.read_of_job(&read).unwrap()[..], b"byt"[..]);
    assert_eq!(reader.read(&[read]).pop().unwrap().unwrap()[..], b"byt"[..]);
    assert_eq!(*lock(&file.hooks.noted), [0, 1]);
    assert_eq!(reader.under_way(), 0);
}
