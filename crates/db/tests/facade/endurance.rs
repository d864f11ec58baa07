//! What must not add up, however often it is done: snapshots taken and dropped, iterators held while
//! everything under them is overwritten, one key written again and again.
//!
//! Bounds are on what the store says of itself: readers, DRAM of the indexes, persistent memory.
//! `THERMOCLINE_ENDURANCE` multiplies the number of steps (10 and more for a long run); the bounds stay. A plain run has a third of
//! the million.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use thermocline::{Cursor, Db, Durability, Metrics, Options, Scan, Snapshot, Value};
use thermocline_testkit::Rng;
use thermocline_testkit::explore::explored;

/// What may wait for a reader that the machine has put to sleep, in bytes: little beside what a leak of
/// 16 bytes a step adds up to.
const SLACK: u64 = 4 << 20;

fn times() -> u64 {
    let times = std::env::var("THERMOCLINE_ENDURANCE");
    times.map_or(1, |n| n.parse().expect("THERMOCLINE_ENDURANCE is a number"))
}

fn home() -> tempfile::TempDir {
    let shm = std::path::Path::new("/dev/shm");
    if shm.is_dir() {
        return tempfile::tempdir_in(shm).unwrap();
    }
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options(memtable_bytes: u64) -> Options {
    let mut options = Options {
        pm: 8 << 30,
        dram: 1 << 30,
        ..Options::default()
    };
    options.memtable.bytes_max = memtable_bytes;
    options
}

fn key(n: usize) -> Vec<u8> {
    format!("key {n:06}").into_bytes()
}

fn value(n: u64) -> Vec<u8> {
    let mut value = n.to_be_bytes().to_vec();
    value.resize(8 + usize::try_from(n % 50).unwrap(), 7);
    value
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(*value.first_chunk().expect("a value begins with a number"))
}

fn durability(rng: &mut Rng) -> Durability {
    *rng.pick(&[Durability::Immediate, Durability::Buffered])
}

/// Most persistent memory that may be in use, however much was written: what is alive, memtables that
/// readers hold, and those that wait to be dropped, each with a zone that it does not fill.
const PM_BYTES_MAX: u64 = 96 << 20;

fn assert_pm_is_bounded(metrics: &Metrics) {
    let used = metrics.pm_attached_bytes;
    let written = metrics.pm_bytes_written;
    assert!(
        used <= PM_BYTES_MAX,
        "{used} bytes in use of {written} written"
    );
}

/// Writes every key again, as often as it takes until what was there before is gone.
fn settle(db: &Db, memtables_max: usize, overwrite: impl Fn(&Db)) {
    for _ in 0..200 {
        overwrite(db);
        if db.metrics().memtables.len() <= memtables_max {
            return;
        }
    }
    panic!("memtables stay: {:?}", db.metrics().memtables);
}

/// How the snapshot test is made.
const KEYS: usize = 1000;
const READERS: u64 = 4;
const HELD: usize = 20;
const ROUNDS: u64 = 4;

#[test]
fn a_million_snapshots_come_and_go() {
    let snapshots = explored(300_000, 1_000_000) * times() / ROUNDS / READERS;
    let home = home();
    let db = Db::open(home.path().join("db"), options(2 << 20)).unwrap();
    overwrite_all(&db);
    let start = db.metrics().dram_index_bytes;
    // At most a version of 16 bytes for each moment, of each key, and lists grow by halves; spread
    // over the memtables that are held.
    let moments = READERS * HELD as u64 + 16;
    let most = start + KEYS as u64 * moments * 32 + SLACK;
    let after: Vec<u64> = (0..ROUNDS)
        .map(|round| {
            snapshots_come_and_go(&db, round, snapshots, most);
            assert_eq!(db.metrics().readers, 0);
            // What was held for snapshots is given back as the keys are written again.
            settle(&db, 4, overwrite_all);
            db.metrics().dram_index_bytes
        })
        .collect();
    let dropped = db.metrics().memtables_dropped;
    println!(
        "{snapshots} snapshots by {READERS} threads, {ROUNDS} times: index {start}, {after:?}; \
         {dropped} memtables dropped"
    );
    assert!(dropped > 0);
    // Some blocks of memory stay for the next round, each for a few lists that are left in it.
    let kept = start + SLACK;
    assert!(
        after.iter().all(|&bytes| bytes <= kept),
        "the index grew: {after:?}"
    );
    assert_pm_is_bounded(&db.metrics());
}

fn overwrite_all(db: &Db) {
    for k in 0..KEYS {
        db.put_with(key(k), value(0), Durability::Buffered).unwrap();
    }
}

/// Each reader takes this many snapshots and drops most of them at once, while two threads write.
fn snapshots_come_and_go(db: &Db, round: u64, snapshots: u64, index_bytes_max: u64) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        for writer in 0..2 {
            scope.spawn(move || {
                let mut rng = Rng::new(10 * round + writer);
                // No more than so many, so that a long run does not fill the region.
                for n in 1..=snapshots / 2 {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (k, durability) = (key(rng.below(KEYS)), durability(&mut rng));
                    db.put_with(k, value(n), durability).unwrap();
                    if n % 500 == 0 {
                        let metrics = db.metrics();
                        let bytes = metrics.dram_index_bytes;
                        assert!(bytes <= index_bytes_max, "{bytes} of {index_bytes_max}");
                        assert_pm_is_bounded(&metrics);
                    }
                }
            });
        }
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                scope.spawn(move || {
                    let mut rng = Rng::new(1000 + 10 * round + reader);
                    let mut held: Vec<(Snapshot, usize, u64)> = Vec::new();
                    for _ in 0..snapshots {
                        let snapshot = db.snapshot();
                        let k = rng.below(KEYS);
                        if rng.one_in(8) {
                            // So that moments change however threads are scheduled.
                            db.put_with(key(k), value(0), durability(&mut rng)).unwrap();
                        }
                        if !rng.one_in(16) {
                            continue;
                        }
                        let n = number(&snapshot.get(key(k)).unwrap().unwrap());
                        if held.len() == HELD {
                            let (old, k, n) = held.swap_remove(rng.below(HELD));
                            assert_eq!(number(&old.get(key(k)).unwrap().unwrap()), n);
                        }
                        held.push((snapshot, k, n));
                    }
                })
            })
            .collect();
        for reader in readers {
            reader.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// An iterator that was made before all the writing, and where it is.
enum Held {
    Scan(Box<Scan>),
    Cursor(Cursor),
}

#[test]
fn iterators_are_held_while_all_under_them_is_overwritten() {
    const KEYS: usize = 3000;
    const HELD: usize = 12;
    let writes = 60_000 * times();
    let home = home();
    // Memtables are sealed under the iterators.
    let db = Db::open(home.path().join("db"), options(1 << 20)).unwrap();
    for k in 0..KEYS {
        db.put_with(key(k), value(0), Durability::Buffered).unwrap();
    }
    let start = db.metrics().dram_index_bytes;
    let held: Vec<Held> = (0..HELD)
        .map(|i| match i % 2 {
            0 => Held::Scan(Box::new(db.iter())),
            _ => {
                let mut cursor = db.cursor().unwrap();
                assert!(cursor.seek_to_first().unwrap());
                Held::Cursor(cursor)
            }
        })
        .collect();
    assert_eq!(db.metrics().readers, HELD as u64);
    let writers = 3;
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let (db, done) = (&db, &done);
        for writer in 0..writers {
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                for n in 1..=writes {
                    let k = key(rng.below(KEYS));
                    let durability = durability(&mut rng);
                    match rng.below(8) {
                        0 => db.delete_with(k, durability),
                        1 => db.put_with([k, b"/new".to_vec()].concat(), value(n), durability),
                        _ => db.put_with(k, value(n), durability),
                    }
                    .unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for (i, held) in held.into_iter().enumerate() {
            // Each moves on as the writing does, and shows what there was.
            scope.spawn(move || {
                let mut held = held;
                for k in 0..KEYS {
                    while done.load(Ordering::Relaxed) < writers * writes * k as u64 / KEYS as u64 {
                        thread::yield_now();
                    }
                    match &mut held {
                        Held::Scan(scan) => {
                            let (there, value) = scan.next().unwrap().unwrap();
                            assert!(there == key(k) && number(&value) == 0, "iterator {i}");
                        }
                        Held::Cursor(cursor) => {
                            assert!(cursor.valid() && cursor.key() == key(k), "cursor {i}");
                            assert_eq!(number(cursor.value()), 0, "cursor {i}");
                            cursor.next().unwrap();
                        }
                    }
                }
                match held {
                    Held::Scan(mut scan) => assert!(scan.next().is_none()),
                    Held::Cursor(cursor) => assert!(!cursor.valid()),
                }
            });
        }
    });
    let held = db.metrics();
    assert_eq!(held.readers, 0);
    settle(&db, 4, |db| {
        for k in 0..KEYS {
            db.put_with(key(k), value(1), Durability::Buffered).unwrap();
            let new = [key(k), b"/new".to_vec()].concat();
            db.delete_with(new, Durability::Buffered).unwrap();
        }
    });
    let metrics = db.metrics();
    println!(
        "{} writes under {HELD} iterators: {} memtables and {} bytes of index were held, {} and {} \
         are left; the index was {start} bytes before",
        writers * writes,
        held.memtables.len(),
        held.dram_index_bytes,
        metrics.memtables.len(),
        metrics.dram_index_bytes
    );
    assert!(metrics.memtables_dropped > 0);
    assert!(metrics.dram_index_bytes <= start + SLACK);
    assert_pm_is_bounded(&metrics);
}

#[test]
fn one_key_is_overwritten_by_several_threads() {
    const THREADS: u64 = 4;
    let writes = explored(80_000, 250_000) * times();
    let home = home();
    let db = Db::open(home.path().join("db"), options(1 << 20)).unwrap();
    db.put("hot", value(0)).unwrap();
    let one = db.metrics().dram_index_bytes;
    let most = one + SLACK;
    let peak = AtomicU64::new(0);
    thread::scope(|scope| {
        let (db, peak) = (&db, &peak);
        for writer in 0..THREADS {
            scope.spawn(move || {
                let mut rng = Rng::new(writer);
                let mut held: Option<(Snapshot, u64)> = None;
                for n in 1..=writes {
                    let durability = durability(&mut rng);
                    db.put_with("hot", value(n), durability).unwrap();
                    if n % 64 == 0 {
                        if let Some((snapshot, n)) = held.take() {
                            let there = number(&snapshot.get("hot").unwrap().unwrap());
                            assert_eq!(there, n, "a held moment");
                        }
                        let snapshot = db.snapshot();
                        let n = number(&snapshot.get("hot").unwrap().unwrap());
                        held = Some((snapshot, n));
                    }
                    if n % 1000 == 0 {
                        let metrics = db.metrics();
                        let bytes = metrics.dram_index_bytes;
                        peak.fetch_max(bytes, Ordering::Relaxed);
                        assert!(bytes <= most, "{bytes} of {most}");
                        assert_pm_is_bounded(&metrics);
                    }
                }
            });
        }
    });
    let metrics = db.metrics();
    println!(
        "{} writes of one key: {} memtables dropped, an index of at most {} bytes, {} of \
         persistent memory of {} written",
        THREADS * writes,
        metrics.memtables_dropped,
        peak.into_inner(),
        metrics.pm_attached_bytes,
        metrics.pm_bytes_written
    );
    assert_eq!(metrics.readers, 0);
    assert_eq!(number(&db.get("hot").unwrap().unwrap()), writes);
    assert!(metrics.memtables_dropped > 0);
}

/// Readers that stand still beside many times what the region holds: writes go on, what the store takes stays
/// bounded, and the readers see what they saw.
#[test]
fn readers_that_stand_still_hold_nobody_up() {
    const OLD: usize = 20_000;
    let new = 200_000 * usize::try_from(times()).unwrap();
    let home = home();
    let options = Options {
        pm: 64 << 20,
        dram: 256 << 20,
        ..Options::default()
    };
    let db = Db::open(home.path().join("db"), options).unwrap();
    let old = |n: usize| vec![n.to_le_bytes()[0]; 100 + n % 50];
    for n in 0..OLD {
        db.put_with(key(n), old(n), Durability::Buffered).unwrap();
    }
    let snapshot = db.snapshot();
    let mut forwards = db.iter();
    let mut backwards = db.iter().rev();
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek(&key(OLD / 2)).unwrap());
    for n in 0..OLD / 3 {
        let (k, v) = forwards.next().unwrap().unwrap();
        assert!(k == key(n) && *v == old(n));
        let (k, v) = backwards.next().unwrap().unwrap();
        assert!(k == key(OLD - 1 - n) && *v == old(OLD - 1 - n));
    }
    for n in 0..new {
        let value = vec![7; 100 + n % 900];
        db.put_with(format!("new {n:09}"), value, Durability::Buffered)
            .unwrap();
        let again = n % OLD;
        db.put_with(key(again), [8; 50], Durability::Buffered)
            .unwrap();
    }
    let metrics = db.metrics();
    // One of the iterators has two ends.
    assert_eq!((metrics.readers, metrics.readers_told.len()), (5, 5));
    assert!(
        metrics
            .readers_told
            .iter()
            .all(|r| r.behind >= 2 * new as u64)
    );
    assert!(metrics.pm_attached_bytes <= 64 << 20);
    assert!(metrics.dram_index_bytes <= 256 << 20);
    for n in (0..OLD).step_by(7) {
        assert!(snapshot.get(key(n)).unwrap().map(Value::into_vec) == Some(old(n)));
    }
    for n in OLD / 2..OLD {
        assert!(cursor.key() == key(n) && cursor.value() == old(n));
        assert_eq!(cursor.next().unwrap(), n + 1 < OLD);
    }
    for n in OLD / 3..OLD {
        let (k, v) = forwards.next().unwrap().unwrap();
        assert!(k == key(n) && *v == old(n));
    }
    assert!(forwards.next().is_none());
    for n in (0..OLD - OLD / 3).rev() {
        let (k, v) = backwards.next().unwrap().unwrap();
        assert!(k == key(n) && *v == old(n));
    }
    assert!(backwards.next().is_none());
}
