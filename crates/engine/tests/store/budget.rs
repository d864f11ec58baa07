//! The DRAM budget of a runtime: whatever its stores do, they stay below it together, and what one
//! gives back another may have.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Error, ErrorKind, Result, WriteBatch};
use thermocline_engine::{Durability, Engine, Runtime, RuntimeOptions, Setup, World};
use thermocline_testkit::Rng;

const CF: CfId = CfId::DEFAULT;
const LIMIT: u64 = 6 << 20;

pub(crate) fn home() -> tempfile::TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn runtime() -> Runtime {
    Runtime::new(RuntimeOptions {
        dram: LIMIT,
        workers: 2,
        ..RuntimeOptions::default()
    })
    .unwrap()
}

fn open(runtime: &Runtime, dir: &Path, dram: u64) -> Result<Engine> {
    let mut options = Options {
        dram,
        pm: 256 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.memtable.bytes_max = 1 << 20;
    let setup = Setup {
        runtime: Some(runtime.clone()),
        ..Setup::default()
    };
    Engine::open_with(World::real(), dir, options, setup)
}

fn put(engine: &Engine, cf: CfId, key: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(cf, &key.to_be_bytes(), b"v").unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

/// Puts new keys until they are refused.
fn fill(engine: &Engine, rng: &mut Rng) -> (u64, Error) {
    let mut done = 0;
    loop {
        match put(engine, CF, rng.next_u64()) {
            Ok(()) => done += 1,
            Err(error) => return (done, error),
        }
    }
}

#[track_caller]
fn assert_refused_by(error: &Error, what: &str) {
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(error.to_string().contains(what), "no '{what}' in: {error}");
}

#[test]
fn writers_of_several_stores_stay_below_the_limit_together() {
    let home = home();
    let runtime = runtime();
    let stores: Vec<Engine> = (0..4)
        .map(|n| open(&runtime, &home.path().join(format!("{n}")), 1 << 30).unwrap())
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8u64)
            .map(|w| {
                let engine = &stores[usize::try_from(w).unwrap() % stores.len()];
                let other = engine.family("other", &CfOptions::default()).unwrap().id;
                scope.spawn(move || {
                    let mut rng = Rng::new(w);
                    let mut held = None;
                    let mut refused = 0;
                    while refused < 50 {
                        if rng.one_in(100) {
                            held = rng.one_in(2).then(|| engine.snapshot());
                        }
                        let cf = [CF, other][rng.below(2)];
                        // Some keys come again and again, and grow lists.
                        let key = match rng.one_in(3) {
                            true => rng.next_u64() % 100,
                            false => rng.next_u64(),
                        };
                        match put(engine, cf, key) {
                            Ok(()) => (),
                            Err(error) => {
                                assert_refused_by(&error, "raise the runtime's dram");
                                refused += 1;
                            }
                        }
                    }
                    drop(held);
                })
            })
            .collect();
        let (runtime, stop) = (&runtime, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let metrics = runtime.metrics();
                assert!(metrics.dram_used_bytes <= LIMIT, "{metrics:?}");
                assert!(metrics.dram_held_bytes <= LIMIT, "{metrics:?}");
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let used = runtime.metrics().dram_used_bytes;
    assert!(used > LIMIT / 2, "{used}");
    for engine in &stores {
        let dram = engine.metrics().dram;
        assert_eq!(dram.overdrawn, 0);
        assert_eq!(dram.used, engine.metrics().index_bytes);
    }
    // What was kept back serves deletes.
    for engine in &stores {
        engine.cover_idle().unwrap();
    }
    assert_eq!(
        runtime.metrics().dram_held_bytes,
        runtime.metrics().dram_used_bytes
    );
    let mut batch = WriteBatch::new();
    for key in 0..50u64 {
        batch.delete(CF, &key.to_be_bytes()).unwrap();
    }
    stores[2]
        .write(batch.iter(), Durability::Immediate)
        .unwrap();
    drop(stores);
    let metrics = runtime.metrics();
    assert_eq!((metrics.dram_used_bytes, metrics.dram_held_bytes), (0, 0));
}

#[test]
fn what_one_store_gives_back_another_may_have() {
    let home = home();
    let runtime = runtime();
    let (a, b) = (home.path().join("a"), home.path().join("b"));
    let mut rng = Rng::new(1);
    let first = open(&runtime, &a, 1 << 30).unwrap();
    let second = open(&runtime, &b, 1 << 30).unwrap();
    let (many, error) = fill(&first, &mut rng);
    assert_refused_by(&error, "raise the runtime's dram");
    first.cover_idle().unwrap();
    let (few, error) = fill(&second, &mut rng);
    assert_refused_by(&error, "6 MiB");
    assert!(few < many / 4, "{few} of {many}");
    // A snapshot of a closed store keeps its indexes, and they count.
    let snapshot = first.snapshot();
    drop(first);
    assert_eq!(runtime.metrics().stores, 1);
    let (none, _) = fill(&second, &mut rng);
    assert!(none < many / 4, "{none}");
    drop(snapshot);
    let used = second.metrics().dram.used;
    assert_eq!(runtime.metrics().dram_used_bytes, used);
    let (more, error) = fill(&second, &mut rng);
    assert!(more > many / 2, "{more} of {many}");
    assert_refused_by(&error, "raise the runtime's dram");
    // There is no room to open the first again; then there is.
    let error = open(&runtime, &a, 1 << 30).unwrap_err();
    assert_refused_by(&error, "opening this store");
    let metrics = runtime.metrics();
    assert_eq!(metrics.dram_used_bytes, second.metrics().dram.used);
    assert_eq!(metrics.stores, 1);
    second.close().unwrap();
    drop(second);
    let first = open(&runtime, &a, 1 << 30).unwrap();
    let found = first
        .metrics()
        .memtables
        .iter()
        .map(|m| m.records)
        .sum::<u64>();
    assert_eq!(found, many);
    // A closed store promises nothing.
    drop(first);
    let engine = open(&runtime, &b.join("new"), 1 << 30).unwrap();
    put(&engine, CF, 1).unwrap();
    put(&engine, CF, 2).unwrap();
    let snapshot = engine.snapshot();
    assert!(engine.metrics().dram.held > engine.metrics().dram.used);
    drop(engine);
    let metrics = runtime.metrics();
    assert_eq!(metrics.dram_held_bytes, metrics.dram_used_bytes);
    assert!(metrics.dram_used_bytes > 0);
    drop(snapshot);
    assert_eq!(runtime.metrics().dram_held_bytes, 0);
}

#[test]
fn the_limit_that_is_in_the_way_is_named() {
    let home = home();
    let runtime = runtime();
    let engine = open(&runtime, home.path(), 2 << 20).unwrap();
    let (_, error) = fill(&engine, &mut Rng::new(1));
    assert_refused_by(&error, "2 MiB that dram allows");
    assert!(engine.metrics().dram.held <= 2 << 20);
    // Lowered, the store's own limit lets no write through, but it opens.
    drop(engine);
    let engine = open(&runtime, home.path(), 1 << 20).unwrap();
    assert_refused_by(&put(&engine, CF, 1).unwrap_err(), "1 MiB that dram allows");
}
