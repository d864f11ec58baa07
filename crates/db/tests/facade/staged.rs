//! Batches over `memtable.item_bytes_max`: a large one at the real limit, and the ways of committing.

use std::path::Path;
use std::thread;
use std::time::Duration;

use thermocline::limits::VALUE_INLINE_MAX;
use thermocline::{Db, Durability, ErrorKind, Options, WriteOptions};

fn home() -> tempfile::TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Persistent memory in use beside that of tables, once memtables are empty. How many zones tables have depends on what was merged;
/// a batch that was never committed is in none of them.
fn bytes_beside_tables(db: &Db) -> u64 {
    db.flush().unwrap();
    db.drain().unwrap();
    let now = db.metrics();
    now.pm_attached_bytes - now.pm_table_bytes
}

/// Over 64 MiB, as the default options have it; it would have been refused in one piece.
#[test]
fn a_batch_larger_than_any_item_is_committed_whole() {
    let home = home();
    let dir = home.path().join("db");
    let options = Options {
        pm: 256 << 20,
        ..Options::default()
    };
    let most = options.memtable.item_bytes_max;
    let db = Db::open(&dir, options.clone()).unwrap();
    db.put([0, 0], "before").unwrap();
    db.put("other", "before").unwrap();
    let snapshot = db.snapshot();
    let value = |n: u16| vec![n.to_le_bytes()[0] | 1; VALUE_INLINE_MAX];
    let mut batch = db.batch();
    let records = 66u16;
    for n in 0..records {
        batch.put(n.to_be_bytes(), value(n));
    }
    batch.delete("other").set_metadata("offset 66");
    assert!(u64::from(records) * VALUE_INLINE_MAX as u64 > most);
    let before = db.metrics();
    batch.commit(Durability::Immediate).unwrap();
    assert!(batch.is_empty());
    let after = db.metrics();
    assert_eq!(after.seqno_visible, after.seqno_durable);
    assert_eq!(after.seqno_visible - before.seqno_visible, 68);
    assert_eq!(
        snapshot.get([0, 0]).unwrap().as_deref(),
        Some(&b"before"[..])
    );
    assert!(snapshot.get([0, 1]).unwrap().is_none());
    drop(snapshot);
    db.put([0, 1], "after").unwrap();
    // As many again do not fit beside them; nothing of that shows or stays.
    let used = bytes_beside_tables(&db);
    for n in 0..3 * records {
        batch.put(n.to_be_bytes(), value(7));
    }
    let error = batch.commit(Durability::Immediate).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    // What jobs replace behind it goes a moment later, the batch's own room at once or never.
    let mut looks = (0..1000).map(|_| bytes_beside_tables(&db));
    let now = looks.find(|now| {
        let is_back = *now <= used;
        if !is_back {
            thread::sleep(Duration::from_millis(10));
        }
        is_back
    });
    assert!(now.is_some(), "more than {used} stay in use");
    drop((batch, db));
    let db = Db::open(&dir, options).unwrap();
    assert_eq!(db.get([0, 1]).unwrap().as_deref(), Some(&b"after"[..]));
    assert!(db.get("other").unwrap().is_none());
    assert_eq!(db.metadata().unwrap().as_deref(), Some(&b"offset 66"[..]));
    for n in (0..records).filter(|n| *n != 1) {
        assert!(
            *db.get(n.to_be_bytes()).unwrap().unwrap() == value(n),
            "{n}"
        );
    }
    assert_eq!(db.iter().count(), usize::from(records));
}

#[test]
fn every_way_to_commit_takes_one_but_that_which_must_not_wait() {
    let home = home();
    let dir = home.path().join("db");
    let mut options = Options {
        pm: 16 << 20,
        ..Options::default()
    };
    options.set("memtable.item_bytes_max", "4KiB").unwrap();
    let db = Db::open(&dir, options.clone()).unwrap();
    let mut batch = db.batch();
    let fill = |batch: &mut thermocline::Batch, n: u8| {
        for key in 0..100u8 {
            batch.put([key], [n; 100]);
        }
    };
    let all_are = |db: &Db, n: u8| {
        assert_eq!(db.iter().count(), 100);
        assert!(db.iter().all(|entry| *entry.unwrap().1 == [n; 100]));
    };
    fill(&mut batch, 1);
    let hurried = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let error = batch.commit(hurried).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!((batch.len(), db.iter().count()), (100, 0));
    batch.commit(Durability::Buffered).unwrap();
    all_are(&db, 1);
    let mut commits = Vec::new();
    for n in 2..6 {
        fill(&mut batch, n);
        commits.push(batch.commit_async().unwrap());
        all_are(&db, n);
        batch.put("small", "x").delete("small");
        commits.push(batch.commit_async().unwrap());
    }
    for commit in commits {
        commit.wait().unwrap();
    }
    fill(&mut batch, 7);
    let (tell, told) = std::sync::mpsc::channel();
    let done = move |result| tell.send(result).unwrap();
    batch.commit_with_callback(done).unwrap();
    told.recv().unwrap().unwrap();
    db.clone().close().unwrap();
    fill(&mut batch, 8);
    let error = batch.commit(Durability::Immediate).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    drop((batch, db));
    all_are(&Db::open(&dir, options).unwrap(), 7);
}
