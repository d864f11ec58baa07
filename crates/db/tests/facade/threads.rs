//! Readers beside writers, handles that come and go, and closing under everybody's feet.
//!
//! Every write sets keys to a number that rises. So a reader that sees a number smaller than one
//! that it saw before has gone back in time, and one that sees different numbers in one batch's
//! keys has seen half of it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use thermocline::{CfOptions, Db, Durability, ErrorKind, Options, Result};
use thermocline_testkit::Rng;

/// Keys that every batch sets, in each of two families.
const TOGETHER: usize = 40;
const BATCHES: u64 = 2500;

fn options() -> Options {
    let mut options = Options {
        pm: 1 << 30,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 300_000;
    options.memtable.idle_ms = 1;
    options.manifest.bytes_max = 512;
    options
}

fn home() -> tempfile::TempDir {
    let shm = std::path::Path::new("/dev/shm");
    if shm.is_dir() {
        return tempfile::tempdir_in(shm).unwrap();
    }
    tempfile::tempdir().unwrap()
}

fn key(n: usize) -> Vec<u8> {
    format!("together/{n:03}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(
        value[..8]
            .try_into()
            .expect("a value has eight bytes at least"),
    )
}

/// Sets all keys of both families to `n`, in one batch.
fn write_together(db: &Db, n: u64) {
    let other = db.find_column_family("other").unwrap();
    let mut batch = db.batch();
    for k in 0..TOGETHER {
        batch.put(key(k), n.to_be_bytes());
        batch.put_cf(&other, key(k), n.to_be_bytes());
    }
    batch.commit(Durability::Immediate).unwrap();
}

/// Sees all keys with one number, both ways; returns it.
fn read_together(db: &Db, rng: &mut Rng) -> u64 {
    try_read_together(db, rng).unwrap()
}

fn try_read_together(db: &Db, rng: &mut Rng) -> Result<u64> {
    let family = db
        .find_column_family(["default", "other"][rng.below(2)])
        .unwrap();
    let mut numbers: Vec<u64> = Vec::new();
    match rng.below(4) {
        0 => {
            for entry in family.prefix("together/") {
                numbers.push(number(&entry?.1));
            }
        }
        1 => {
            for entry in family.prefix("together/").rev() {
                numbers.push(number(&entry?.1));
            }
        }
        2 => {
            let mut scan = family.prefix("together/");
            while let Some(entry) = if rng.one_in(2) {
                scan.next()
            } else {
                scan.next_back()
            } {
                numbers.push(number(&entry?.1));
            }
        }
        _ => {
            let mut cursor = family.cursor()?;
            let mut more = cursor.seek(b"together/")?;
            while more && cursor.key().starts_with(b"together/") {
                numbers.push(number(cursor.value()));
                more = cursor.next()?;
            }
            // And back again: the cursor still sees its moment.
            let mut more = cursor.seek_for_prev(&key(TOGETHER))?;
            for _ in 0..TOGETHER {
                assert!(more);
                assert_eq!(number(cursor.value()), numbers[0]);
                more = cursor.prev()?;
            }
        }
    }
    assert_eq!(numbers.len(), TOGETHER);
    assert!(numbers.iter().all(|&n| n == numbers[0]), "{numbers:?}");
    Ok(numbers[0])
}

#[test]
fn batches_are_seen_whole_and_time_goes_forward() {
    let home = home();
    let db = Db::open(home.path().join("db"), options()).unwrap();
    db.column_family("other", CfOptions::default()).unwrap();
    write_together(&db, 1);
    for w in 0..2u8 {
        db.put([b'w', w], 0u64.to_be_bytes()).unwrap();
    }
    // What the writers have been told is done.
    let done = AtomicU64::new(1);
    let puts_done = [AtomicU64::new(0), AtomicU64::new(0)];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (db, done, puts_done, stop) = (&db, &done, &puts_done, &stop);
        for r in 0..3 {
            scope.spawn(move || {
                let mut rng = Rng::new(r);
                let mut seen = [0; 4];
                while !stop.load(Ordering::Relaxed) {
                    for i in 0..2u8 {
                        let at_least = puts_done[usize::from(i)].load(Ordering::Acquire);
                        let n = number(&db.get([b'w', i]).unwrap().unwrap());
                        let seen = &mut seen[usize::from(i)];
                        assert!(n >= *seen && n >= at_least, "{n} after {seen}, {at_least}");
                        *seen = n;
                    }
                    let at_least = done.load(Ordering::Acquire);
                    let n = read_together(db, &mut rng);
                    assert!(n >= seen[2] && n >= at_least, "{n}, {seen:?}, {at_least}");
                    seen[2] = n;
                    // A get sees no less than a scan before it.
                    let k = key(rng.below(TOGETHER));
                    assert!(number(&db.get(k).unwrap().unwrap()) >= n);
                }
            });
        }
        let writers: Vec<_> = (0..2u8)
            .map(|w| {
                scope.spawn(move || {
                    let mut rng = Rng::new(u64::from(w));
                    for n in 1..=5 * BATCHES {
                        let mut value = n.to_be_bytes().to_vec();
                        value.resize(8 + rng.below(200), w);
                        db.put([b'w', w], &value).unwrap();
                        puts_done[usize::from(w)].store(n, Ordering::Release);
                        // Its own write, at once.
                        assert_eq!(db.get([b'w', w]).unwrap().as_deref(), Some(&value[..]));
                        // Keys around the batches' come and go.
                        let k = rng.below(TOGETHER);
                        let beside = [key(k), vec![0]].concat();
                        let beside = [b"tog/".to_vec(), beside].concat();
                        if rng.one_in(2) {
                            db.put(&beside, &value).unwrap();
                        } else {
                            db.delete(&beside).unwrap();
                        }
                    }
                })
            })
            .collect();
        for n in 2..=BATCHES {
            write_together(db, n);
            done.store(n, Ordering::Release);
        }
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    // However many are still there: those in which nothing lives go when the store's thread comes by.
    let newest = db.metrics().memtables.iter().map(|m| m.id).max();
    assert!(newest > Some(3), "memtables changed: {newest:?}");
    drop(db);
    let dir = home.path().join("db");
    assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
    let db = Db::open(&dir, options()).unwrap();
    assert_eq!(read_together(&db, &mut Rng::new(0)), BATCHES);
}

#[test]
fn the_last_handle_closes_whichever_it_is() {
    let home = home();
    let dir = home.path().join("db");
    let mut rng = Rng::new(1);
    for round in 0..150u64 {
        // At once after the last drop: never locked, never damaged.
        let db = Db::open(&dir, options()).unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert!(!db.metrics().recovery.after_crash, "round {round}");
        if round > 0 {
            assert_eq!(number(&db.get("n").unwrap().unwrap()), round - 1);
        }
        // Parts that are handles too: a batch and a family.
        let mut batch = db.batch();
        let family = db.column_family("other", CfOptions::default()).unwrap();
        let clones: Vec<Db> = (0..rng.below(4)).map(|_| db.clone()).collect();
        db.put("n", round.to_be_bytes()).unwrap();
        let cursor = db.cursor().unwrap();
        thread::scope(|scope| {
            for clone in clones {
                scope.spawn(move || {
                    clone.put("from a clone", "x").unwrap();
                    drop(clone);
                });
            }
        });
        match rng.below(3) {
            0 => {
                drop(db);
                batch.put("k", "v").commit(Durability::Immediate).unwrap();
                drop(batch);
                family.put("k", "v").unwrap();
                drop(family);
            }
            1 => {
                drop(family);
                drop(batch);
                drop(db);
            }
            _ => {
                drop(batch);
                drop(db);
                assert!(family.get("n").unwrap().is_none());
                drop(family);
            }
        }
        // Cursors keep the memory, not the lock.
        if rng.one_in(2) {
            drop(Db::open(&dir, options()).unwrap());
        }
        drop(cursor);
    }
}

#[test]
fn closing_under_readers_and_writers() {
    let home = home();
    let dir = home.path().join("db");
    let mut last = 0;
    for round in 0..40u64 {
        let db = Db::open(&dir, options()).unwrap();
        db.column_family("other", CfOptions::default()).unwrap();
        write_together(&db, last + 1);
        last += 1;
        let start = Barrier::new(6);
        let puts = [AtomicU64::new(0), AtomicU64::new(0)];
        let written = AtomicU64::new(last);
        thread::scope(|scope| {
            let (start, written, puts) = (&start, &written, &puts);
            for r in 0..2 {
                let db = db.clone();
                scope.spawn(move || {
                    let mut rng = Rng::new(r);
                    let mut seen = 0;
                    let before = db.snapshot();
                    let then = before.get(key(0)).unwrap();
                    start.wait();
                    // A handle reads until the close; what was being read then reads on.
                    for _ in 0..20 {
                        match try_read_together(&db, &mut rng) {
                            Ok(n) => {
                                assert!(n >= seen);
                                seen = n;
                            }
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
                        }
                        assert_eq!(before.get(key(0)).unwrap(), then);
                    }
                });
            }
            let writer = db.clone();
            scope.spawn(move || {
                start.wait();
                for n in last + 1.. {
                    let mut batch = writer.batch();
                    let other = writer.find_column_family("other").unwrap();
                    for k in 0..TOGETHER {
                        batch.put(key(k), n.to_be_bytes());
                        batch.put_cf(&other, key(k), n.to_be_bytes());
                    }
                    if let Err(error) = batch.commit(Durability::Immediate) {
                        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                        break;
                    }
                    written.store(n, Ordering::Release);
                }
            });
            // More of them, so that one is likely to be on its way when the store closes.
            for w in 0..2u8 {
                let db = db.clone();
                scope.spawn(move || {
                    start.wait();
                    for n in 1u64.. {
                        if db.put([b'p', w], n.to_be_bytes()).is_err() {
                            break;
                        }
                        puts[usize::from(w)].store(n, Ordering::Release);
                    }
                });
            }
            start.wait();
            for _ in 0..round * 40 {
                std::hint::spin_loop();
            }
            while round % 3 == 0 && written.load(Ordering::Acquire) < last + 5 {
                thread::yield_now();
            }
            db.close().unwrap();
        });
        last = written.load(Ordering::Acquire);
        assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
        let db = Db::open(&dir, options()).unwrap();
        assert_eq!(
            read_together(&db, &mut Rng::new(round)),
            last,
            "round {round}"
        );
        for w in 0..2u8 {
            let acknowledged = puts[usize::from(w)].load(Ordering::Acquire);
            if acknowledged > 0 {
                let found = number(&db.get([b'p', w]).unwrap().unwrap());
                assert_eq!(found, acknowledged, "round {round}");
            }
        }
    }
}
