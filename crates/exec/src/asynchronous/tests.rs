use std::path::Path;

use thermocline_base::Steps;
use thermocline_env::real::RealStorage;
use thermocline_env::sim::SimFs;
use thermocline_env::{OpenMode, Storage};
use thermocline_testkit::block_on;

use super::*;

/// A future that keeps its answer among those that nobody has taken would slow down all others for as long as it is there.
#[test]
fn an_answer_is_untaken_until_its_future_has_it_or_goes() {
    let folder = tempfile::tempdir().unwrap();
    let file = RealStorage::new().open(&folder.path().join("file"), OpenMode::CreateNew);
    let file = file.unwrap();
    file.write_at(b"some bytes", 0).unwrap();
    let reader = AsyncReader::new(BufPool::new(0));
    let read = || reader.read(AsyncIo::Interrupt, file.clone(), 5, 5);
    let mut taken = read();
    // The system may refuse it.
    if reader.usage().way != Some(AsyncIo::Interrupt) {
        return;
    }
    let (_kept, gone) = (read(), read());
    let untaken = || reader.untaken.reads();
    assert_eq!(untaken(), 3);
    assert_eq!(block_on(&mut taken).unwrap()[..], b"bytes"[..]);
    assert_eq!(untaken(), 2);
    drop(gone);
    assert_eq!(untaken(), 1);
    drop(taken);
    assert_eq!(untaken(), 1);
}

/// What helpers read says nothing of who is behind in taking answers of the polling thread.
#[test]
fn reads_of_helpers_and_of_jobs_are_not_counted() {
    let disk = SimFs::new(Steps::new());
    disk.install(Path::new("/a"), b"some bytes");
    let file = disk.open(Path::new("/a"), OpenMode::Read).unwrap();
    let reader = AsyncReader::new(BufPool::new(0));
    let mut read = reader.read(AsyncIo::Interrupt, file.clone(), 0, 4);
    assert!(read.untaken.is_none());
    assert_eq!(block_on(&mut read).unwrap()[..], b"some"[..]);
    let held = UnderWay::default().hold();
    let pending = reader.send(AsyncIo::Interrupt, file, (0, 4), held);
    assert_eq!(block_on(pending).unwrap().unwrap()[..], b"some"[..]);
    assert_eq!(reader.untaken.reads(), 0);
}
