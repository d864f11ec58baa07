//! One worker, one job thread, one read or write of jobs at a time, little persistent memory and a small disk, beside
//! readers that never stop: nobody waits for ever.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_base::options::{Options, Scheduler};
use thermocline_base::{CfId, Codec, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, Runtime, RuntimeOptions, Setup, World};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_testkit::Replay;

const CF: CfId = CfId::DEFAULT;
const PM: u64 = 1 << 20;

/// Room for the region, and for some times what lives.
const DISK: u64 = 6 << 20;

/// Keys of each writer.
const KEYS: u32 = 300;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(scheduler: Scheduler) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    // Most reads ask the device.
    options.read.cache_bytes = 64 << 10;
    let compaction = &mut options.compaction;
    compaction.scheduler = scheduler;
    compaction.io_depth = 1;
    compaction.table_bytes = 64 << 10;
    compaction.base_bytes = 256 << 10;
    compaction.compression = Codec::None;
    compaction.compression_last = Codec::None;
    options
}

fn key(writer: u8, n: u32) -> Vec<u8> {
    [&[writer][..], &n.to_be_bytes()].concat()
}

/// Those who read until they are told to stop.
#[derive(Default)]
struct Readers {
    stop: AtomicBool,
    /// How often each has read.
    reads: [AtomicU64; 2],
}

impl Readers {
    fn have_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Returns when each of them has left the call that it is in.
    fn go_on(&self) {
        let reads = || self.reads.each_ref().map(|n| n.load(Ordering::SeqCst));
        let before = reads();
        let stands = || reads().iter().zip(&before).any(|(now, then)| now == then);
        while stands() && !self.have_stopped() {
            std::thread::yield_now();
        }
    }
}

/// Has readers stop, even if the test fails, or one of them.
struct Stops<'a>(&'a Readers);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

/// Writes all of its keys twice; what was acknowledged, and how often it was refused.
fn write(engine: &Engine, writer: u8, readers: &Readers) -> (Model, u32) {
    let (mut model, mut refused) = (Model::new(), 0);
    for n in 0..2 * KEYS {
        // Not in their order.
        let (key, value) = (key(writer, n * 7 % KEYS), vec![n.to_le_bytes()[0]; 2000]);
        let mut batch = WriteBatch::new();
        batch.put(CF, &key, &value).unwrap();
        match engine.write(batch.iter(), Durability::Immediate) {
            Ok(()) => drop(model.insert(key, value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                refused += 1;
                // What was flushed may be held by one that gets no turn, and by this clock no time passes until it does.
                readers.go_on();
            }
        }
    }
    (model, refused)
}

fn scan(engine: &Engine) -> Result<()> {
    let mut cursor = engine.cursor(Family::DEFAULT)?;
    let mut more = cursor.seek_to_first()?;
    while more {
        more = cursor.next()?;
    }
    Ok(())
}

/// Reads until it is told to stop, past the store's end.
fn read_on(engine: &Engine, reader: u8, readers: &Readers) {
    let _stops = Stops(readers);
    let mut n = 0;
    while !readers.have_stopped() {
        let read = match n % 16 {
            0 => scan(engine),
            _ => engine
                .get(CF, &key(reader, n * 11 % KEYS), <[u8]>::len)
                .map(drop),
        };
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        n = (n + 1) % (16 * KEYS);
        readers.reads[usize::from(reader)].fetch_add(1, Ordering::SeqCst);
    }
}

fn check(engine: &Engine, models: &[Model]) {
    for (key, value) in models.iter().flatten() {
        let found = engine.get(CF, key, <[u8]>::to_vec).unwrap();
        assert!(found.as_ref() == Some(value), "{key:?}");
    }
}

fn one_of_each(scheduler: Scheduler) {
    let steps = Steps::new();
    let fs = SimFs::new(steps.clone());
    fs.limit(DISK);
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(SimPm::new(PM, steps)),
        shadow: None,
        background: true,
    };
    let runtime = RuntimeOptions {
        workers: 1,
        jobs: 1,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::new(runtime).unwrap();
    let setup = Setup {
        runtime: Some(runtime.clone()),
        ..Setup::default()
    };
    let (dir, own) = (Path::new("/db"), options(scheduler));
    let engine = Engine::open_with(world.clone(), dir, own.clone(), setup).unwrap();
    let readers = Readers::default();
    let models = std::thread::scope(|scope| {
        let (engine, readers) = (&engine, &readers);
        let _stops = Stops(readers);
        for reader in 0..2 {
            scope.spawn(move || read_on(engine, reader, readers));
        }
        let writers = [0, 1].map(|writer| scope.spawn(move || write(engine, writer, readers)));
        let written = writers.map(|writer| writer.join().unwrap());
        let all = (Unbounded, Unbounded);
        let done = [
            engine.flush().map(drop),
            engine.drain(),
            engine.compact(CF, all),
        ];
        for error in done.into_iter().filter_map(Result::err) {
            assert!(error.is_no_room(), "{error}");
        }
        let levels = engine.metrics().compaction.levels;
        assert!(
            levels.iter().skip(1).any(|level| level.jobs > 0),
            "{levels:?}"
        );
        // What closing needs it may have; readers go on meanwhile.
        fs.limit(1 << 30);
        engine.close().unwrap();
        written.map(|(model, refused)| {
            assert!(refused < KEYS, "{refused} were refused");
            model
        })
    });
    let metrics = runtime.metrics();
    assert_eq!((metrics.jobs_running, metrics.jobs_waiting), (0, 0));
    assert!(metrics.job_threads <= 1, "{metrics:?}");
    let writes_behind = metrics.job_io.writers > 0;
    assert!(writes_behind || scheduler != Scheduler::Stages);
    drop(engine);
    check(&Engine::open(world, dir, own).unwrap(), &models);
}

#[test]
fn all_goes_on_with_one_thread_and_one_place_at_the_device() {
    for (n, scheduler) in (0..).zip(Scheduler::ALL) {
        let test = "-p thermocline-engine --test store all_goes_on_with_one_thread";
        let _replay = Replay::new(test, n);
        one_of_each(scheduler);
    }
}
