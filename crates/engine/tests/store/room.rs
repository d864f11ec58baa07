//! Writers that find no room: who waits, who is refused, and what the error says.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, Error, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{
    Durability, Engine, Event, Runtime, RuntimeOptions, Setup, StallCause, World, WriteOptions,
};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::real::RealStorage;
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, Storage};
use thermocline_pm::SimPm;

const CF: CfId = CfId::DEFAULT;
const PM: u64 = 2 << 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Memtables are a quarter of what there is, so flushing is never due before all is full.
fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = PM;
    options.flush.pm_percent = 95;
    options.set("level0.shape", "global-index").unwrap();
    options
}

fn home() -> tempfile::TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// A world with faults: simulated and without background, or real.
fn world(background: bool) -> (World, FaultStorage) {
    let steps = Steps::new();
    let fs = SimFs::new(steps.clone());
    let disk = match background {
        true => FaultStorage::new(Arc::new(RealStorage::new())),
        false => FaultStorage::over_sim(fs.clone()),
    };
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let env = match background {
        true => Env::real(),
        false => Env::simulated(fs, 7),
    };
    let world = World {
        env: Env { storage, ..env },
        sim: (!background).then(|| SimPm::new(PM, steps)),
        shadow: None,
        background,
    };
    (world, disk)
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) -> Result<()> {
    put_as(engine, key, value, WriteOptions::default())
}

fn put_as(engine: &Engine, key: &[u8], value: &[u8], mode: WriteOptions) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value)?;
    engine.write(batch.iter(), mode)
}

fn delete(engine: &Engine, key: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(CF, key)?;
    engine.write(batch.iter(), Durability::Immediate)
}

fn check(engine: &Engine, model: &Model) {
    for (key, value) in model {
        let found = engine.get(CF, key, <[u8]>::to_vec).unwrap();
        assert!(found.as_ref() == Some(value), "{key:?}");
    }
}

/// Puts new keys until they are refused.
fn fill(engine: &Engine, model: &mut Model) -> Error {
    for n in 0..10_000u32 {
        let (key, value) = (n.to_be_bytes().to_vec(), vec![n.to_le_bytes()[0]; 3000]);
        match put(engine, &key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(error) => return error,
        }
    }
    panic!("nothing is refused")
}

#[track_caller]
fn assert_says(error: &Error, says: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "no '{part}' in: {error}");
    }
}

/// Tables cannot be written: writers learn why, readers go on, deletes are taken, and with the disk
/// writing comes back.
#[test]
fn a_disk_that_fails_is_named_and_deletes_go_on() {
    for background in [false, true] {
        for (fault, says) in [
            (Fault::NoSpace, "No space left"),
            (Fault::Eio, "os error 5"),
        ] {
            let home = home();
            let dir = home.path().join("db");
            let (world, disk) = world(background);
            let engine = Engine::open(world.clone(), &dir, options()).unwrap();
            let mut model = Model::new();
            disk.arm(Plan {
                fault,
                op: Some(Op::Create),
                at: disk.calls_for(fault, Some(Op::Create)),
                repeat: Repeat::Forever,
            });
            let error = fill(&engine, &mut model);
            assert_says(&error, &["full", "flushing", ".part", says]);
            assert!(model.len() as u64 > PM / 3000 / 2, "{} rows", model.len());
            check(&engine, &model);
            let keys: Vec<_> = model.keys().take(30).cloned().collect();
            for key in keys {
                delete(&engine, &key).unwrap();
                model.remove(&key);
            }
            assert_says(&put(&engine, b"k", &[1; 3000]).unwrap_err(), &[says]);
            check(&engine, &model);
            disk.disarm();
            for n in 0..1000u32 {
                let key = [&b"later"[..], &n.to_be_bytes()].concat();
                put(&engine, &key, &[5; 3000]).unwrap();
                model.insert(key, vec![5; 3000]);
            }
            check(&engine, &model);
            let stalls = engine.metrics().stalls;
            let flush = stalls.iter().find(|(cause, _)| *cause == StallCause::Flush);
            assert!(
                flush.is_some_and(|(_, stall)| stall.count > 0),
                "{stalls:?}"
            );
            engine.close().unwrap();
            let report = thermocline_engine::verify(&world, &dir, &options()).unwrap();
            assert_eq!(report.faults, []);
        }
    }
}

/// Values that are read in place hold what was flushed.
#[test]
fn readers_that_hold_everything_are_named() {
    for background in [false, true] {
        let home = home();
        let (world, _) = world(background);
        let mut options = options();
        options.read.pins_percent_max = 100;
        let engine = Engine::open(world, &home.path().join("db"), options).unwrap();
        let mut held = Vec::new();
        let mut model = Model::new();
        let mut n = 0u32;
        let error = loop {
            let (key, value) = (n.to_be_bytes().to_vec(), vec![7; 3000]);
            match put(&engine, &key, &value) {
                Ok(()) => drop(model.insert(key, value)),
                Err(error) => break error,
            }
            // Each holds its memtable.
            if n.is_multiple_of(20) {
                let key = n.to_be_bytes();
                held.push(engine.value(CF, &key).unwrap().unwrap());
            }
            n += 1;
            assert!(n < 20_000, "nothing is refused");
        };
        assert_says(&error, &["full", "held by readers", "values in place"]);
        check(&engine, &model);
        delete(&engine, b"k").unwrap();
        drop(held);
        put(&engine, b"k", &[7; 3000]).unwrap();
        check(&engine, &model);
    }
}

/// Who asked not to wait is told that he would have to, not that there is no room; what he would have
/// waited for is done meanwhile.
#[test]
fn no_slowdown_is_busy_until_there_is_room() {
    for background in [false, true] {
        let home = home();
        let (world, _) = world(background);
        let engine = Engine::open(world, &home.path().join("db"), options()).unwrap();
        let mode = WriteOptions {
            durability: Durability::Immediate,
            no_slowdown: true,
        };
        let mut busy = 0;
        for n in 0..3000u32 {
            while let Err(error) = put_as(&engine, &n.to_be_bytes(), &[1; 3000], mode) {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                busy += 1;
                match background {
                    true => std::thread::yield_now(),
                    false => engine.work_ahead().unwrap(),
                }
            }
        }
        assert!(busy > 0);
        assert!(engine.metrics().flushes > 0);
    }
}

/// What can never fit is refused, and nothing is waited for.
#[test]
fn what_is_larger_than_all_there_is_is_refused() {
    for item_bytes_max in [64 << 10, 4 << 20] {
        let (world, _) = world(false);
        let mut options = options();
        options.memtable.item_bytes_max = item_bytes_max;
        let engine = Engine::open(world, Path::new("/db"), options).unwrap();
        put(&engine, b"k", &[7; 3000]).unwrap();
        for records in [22, 30, 60u8] {
            let mut batch = WriteBatch::new();
            for k in 0..records {
                batch.put(CF, &[k], &vec![k; 100_000]).unwrap();
            }
            let refused = engine.write(batch.iter(), Durability::Immediate);
            assert_says(&refused.unwrap_err(), &["full", "raise pm"]);
        }
        put(&engine, b"k", &[8; 3000]).unwrap();
    }
}

/// Batches that are staged, with one job thread, beside small writes and deletes: nobody waits for ever.
#[test]
fn staged_batches_in_a_full_region() {
    let home = home();
    let runtime = RuntimeOptions {
        jobs: 1,
        ..RuntimeOptions::default()
    };
    let setup = Setup {
        runtime: Some(Runtime::new(runtime).unwrap()),
        ..Setup::default()
    };
    let mut options = options();
    options.memtable.item_bytes_max = 64 << 10;
    let engine = Engine::open_with(World::real(), &home.path().join("db"), options, setup).unwrap();
    let large = |writer: u8, n: u32| {
        let mut batch = WriteBatch::new();
        for k in 0..100u32 {
            let key = [&[writer][..], &k.to_be_bytes()].concat();
            batch.put(CF, &key, &[n.to_le_bytes()[0]; 6000]).unwrap();
        }
        batch
    };
    std::thread::scope(|scope| {
        for writer in 0..2u8 {
            let engine = &engine;
            scope.spawn(move || {
                let mut refused = 0;
                let mut last = None;
                for n in 0..12 {
                    // Two of them may fill all there is.
                    match engine.write(large(writer, n).iter(), Durability::Immediate) {
                        Ok(()) => last = Some(n),
                        Err(error) => {
                            assert_says(&error, &["full"]);
                            refused += 1;
                        }
                    }
                }
                assert!(refused < 12, "all were refused");
                let found = engine.get(CF, &[writer, 0, 0, 0, 0], |v| v[0]).unwrap();
                assert_eq!(found, last.map(|n| n.to_le_bytes()[0]));
            });
        }
        for writer in 2..4u8 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..600u32 {
                    let key = [&[writer][..], &n.to_be_bytes()].concat();
                    if put(engine, &key, &[1; 2000]).is_ok() {
                        delete(engine, &key).unwrap();
                    }
                }
            });
        }
    });
    engine.close().unwrap();
}

/// Closing ends what runs, and whoever waits; what was acknowledged is there.
#[test]
fn closing_while_everybody_waits_for_a_flush() {
    let home = home();
    for round in 0..12u64 {
        let dir = home.path().join(round.to_string());
        let engine = Engine::open(World::real(), &dir, options()).unwrap();
        let stop = AtomicBool::new(false);
        let models: Vec<Model> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3u8)
                .map(|writer| {
                    let (engine, stop) = (&engine, &stop);
                    scope.spawn(move || {
                        let mut model = Model::new();
                        for n in 0..100_000u32 {
                            let key = [&[writer][..], &n.to_be_bytes()].concat();
                            match put(engine, &key, &[writer; 2500]) {
                                Ok(()) => drop(model.insert(key, vec![writer; 2500])),
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                    break;
                                }
                            }
                            if model.len() as u64 == 250 + 30 * round {
                                stop.store(true, Ordering::SeqCst);
                            }
                        }
                        model
                    })
                })
                .collect();
            while !stop.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            engine.close().unwrap();
            writers.into_iter().map(|w| w.join().unwrap()).collect()
        });
        drop(engine);
        let engine = Engine::open(World::real(), &dir, options()).unwrap();
        models.iter().for_each(|model| check(&engine, model));
    }
}

/// Many small stores in one runtime, each several times as large as its persistent memory.
#[test]
fn many_small_stores_share_the_job_threads() {
    let home = home();
    let runtime = Runtime::new(RuntimeOptions {
        jobs: 2,
        ..RuntimeOptions::default()
    })
    .unwrap();
    let stores: Vec<Engine> = (0..12)
        .map(|n| {
            let setup = Setup {
                runtime: Some(runtime.clone()),
                ..Setup::default()
            };
            let mut options = Options {
                pm: 512 << 10,
                ..options()
            };
            // Of some it is done in time.
            options.flush.pm_percent = [50, 95][n % 2];
            let dir = home.path().join(n.to_string());
            Engine::open_with(World::real(), &dir, options, setup).unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for part in stores.chunks(4) {
            scope.spawn(move || {
                for n in 0..800u32 {
                    for engine in part {
                        put(engine, &n.to_be_bytes(), &[7; 2000]).unwrap();
                    }
                }
            });
        }
    });
    let metrics = runtime.metrics();
    assert!((1..=2).contains(&metrics.job_threads), "{metrics:?}");
    for engine in &stores {
        assert!(engine.metrics().flushes > 0);
        for n in 0..800u32 {
            assert!(
                engine
                    .get(CF, &n.to_be_bytes(), |v| v == [7; 2000])
                    .unwrap()
                    == Some(true)
            );
        }
    }
    stores.iter().for_each(|engine| engine.close().unwrap());
    let metrics = runtime.metrics();
    assert_eq!((metrics.jobs_running, metrics.jobs_waiting), (0, 0));
}

/// DRAM that one store has and another needs.
#[test]
fn stores_make_room_for_each_other_in_dram() {
    let home = home();
    let runtime = Runtime::new(RuntimeOptions {
        dram: 4 << 20,
        ..RuntimeOptions::default()
    })
    .unwrap();
    let open = |name: &str| {
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        let mut options = Options {
            pm: 256 << 20,
            ..options()
        };
        options.memtable.bytes_max = 256 << 20;
        options.flush.dram_percent = 90;
        Engine::open_with(World::real(), &home.path().join(name), options, setup).unwrap()
    };
    let put = |engine: &Engine, n: u32| {
        let key = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        put_as(engine, &key, b"v", Durability::Buffered.into()).unwrap();
    };
    let (first, second) = (open("first"), open("second"));
    let mut written = 0;
    // It keeps what it has, and is idle.
    while first.metrics().dram.used < 3_600_000 {
        put(&first, written);
        written += 1;
    }
    assert_eq!(first.metrics().flushes, 0);
    for n in 0..100_000 {
        put(&second, n);
    }
    let metrics = runtime.metrics();
    assert!(metrics.dram_held_bytes <= 4 << 20, "{metrics:?}");
    for (engine, rows) in [(&first, written), (&second, 100_000)] {
        let metrics = engine.metrics();
        assert!(metrics.flushes > 0 && metrics.dram.overdrawn == 0);
        let mut cursor = engine.cursor(thermocline_engine::Family::DEFAULT).unwrap();
        let mut found = u32::from(cursor.seek_to_first().unwrap());
        while cursor.next().unwrap() {
            found += 1;
        }
        assert_eq!(found, rows);
    }
}

/// Each flush is told, with what it took and made.
#[test]
fn flushes_are_told() {
    let told: Arc<thermocline_base::sync::Mutex<Vec<Event>>> = Arc::default();
    let log = told.clone();
    let listener = move |event: &Event| thermocline_base::sync::lock(&log).push(event.clone());
    let setup = Setup {
        listener: Some(Arc::new(listener)),
        ..Setup::default()
    };
    let (world, _) = world(false);
    let mut options = options();
    options.memtable.bytes_max = 0;
    options.flush.pm_percent = 50;
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    for n in 0..1500u32 {
        put(&engine, &n.to_be_bytes(), &[1; 2000]).unwrap();
    }
    let metrics = engine.metrics();
    // In time.
    let stalls = &metrics.stalls;
    assert!(
        stalls
            .iter()
            .all(|(cause, stall)| *cause != StallCause::Flush || stall.count == 0)
    );
    let told = thermocline_base::sync::lock(&told).clone();
    let (mut open, mut decided) = (None, None);
    let (mut flushes, mut flushed) = (0, 0);
    for event in told {
        match event {
            Event::Decided { work, because } => decided = Some((work, because)),
            Event::FlushBegun { memtables, bytes } => {
                // Each was due, and it is said why.
                let (work, because) = decided.take().expect("nobody flushes by hand");
                assert_eq!(work, "flush");
                assert!(because.starts_with("flush: "), "{because}");
                assert!(open.is_none() && memtables > 1 && bytes > PM / 3, "{bytes}");
                open = Some(memtables);
            }
            Event::FlushFinished {
                memtables,
                tables,
                bytes,
                error,
                ..
            } => {
                assert_eq!((open.take(), error), (Some(memtables), None));
                assert!(tables > 0);
                flushes += 1;
                flushed += bytes;
            }
            _ => {}
        }
    }
    assert!(open.is_none() && flushes > 0);
    assert_eq!((metrics.flushes, metrics.flushed_bytes), (flushes, flushed));
}
