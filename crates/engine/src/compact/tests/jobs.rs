//! Jobs beside other things: drops, closing, other jobs, a limit of the rate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::time::Duration;

use thermocline_base::{CfOptions, Error, Site};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::simulated::SimClock;
use thermocline_env::{Clock, File};
use thermocline_sst::sites::TABLE_WRITTEN;

use super::*;
use crate::flush::tests::{files, get, tables};
use crate::sync::lock;
use crate::world::Setup;
use crate::{CompactionReason, Event, JobDone};

fn load(engine: &Engine, cf: CfId, keys: std::ops::Range<u64>) {
    for n in keys {
        put(engine, cf, &n.to_be_bytes(), &[n.to_le_bytes()[0]; 100]);
    }
}

fn has(engine: &Engine, keys: std::ops::Range<u64>) {
    for n in keys {
        let found = get(engine, &n.to_be_bytes());
        assert_eq!(
            found.as_deref(),
            Some(&[n.to_le_bytes()[0]; 100][..]),
            "{n}"
        );
    }
}

#[test]
fn a_family_that_is_dropped_during_a_job_is_gone() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    let other = engine.family("other", &CfOptions::default()).unwrap();
    for round in 0..6 {
        load(&engine, other.id, 0..50 + round);
        flush(&engine);
    }
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let snapshot = engine.snapshot();
    let job = engine.inner.compactor.picker.take_due().unwrap();
    engine.drop_family("other").unwrap();
    engine.inner.compactor.run(job).unwrap();
    // Everything was flushed before the drop, since somebody reads.
    assert_eq!(tables(&engine), 1);
    // What is gone can be read at the moment of before.
    let value = snapshot.value(other.id, &3u64.to_be_bytes()).unwrap();
    assert_eq!(value.as_deref(), Some(&[3; 100][..]));
    assert!(files(&machine) > 1);
    drop(value);
    drop(snapshot);
    engine.reclaim().unwrap();
    assert_eq!((tables(&engine), files(&machine)), (1, 1));
}

#[test]
fn jobs_in_disjoint_ranges_run_side_by_side_and_others_wait() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.compaction.dynamic = false;
    let engine = open(&machine, &options);
    load(&engine, CfId::DEFAULT, 0..1000);
    engine
        .compact(
            CfId::DEFAULT,
            (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
        )
        .unwrap();
    // Into all of level 1, which is too large then.
    for n in (0..1000).step_by(2) {
        load(&engine, CfId::DEFAULT, n..n + 1);
    }
    flush(&engine);
    let mut jobs = Vec::new();
    while let Some(job) = engine.inner.compactor.picker.take_due() {
        jobs.push(job);
        assert!(jobs.len() < 100, "jobs hold what others hold");
    }
    while jobs.len() < 2 {
        let job = jobs.pop().expect("there is something to do");
        engine.inner.compactor.run(job).unwrap();
        while let Some(job) = engine.inner.compactor.picker.take_due() {
            jobs.push(job);
        }
    }
    assert_eq!(engine.metrics().compaction.running, jobs.len() as u64);
    // Nothing else is due, and nobody else may touch what they hold.
    assert!(!engine.compact_once().unwrap());
    let threads: Vec<_> = jobs
        .into_iter()
        .map(|job| {
            let inner = engine.inner.clone();
            std::thread::spawn(move || inner.compactor.run(job).unwrap())
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(engine.metrics().compaction.running, 0);
    has(&engine, 0..1000);
    while engine.compact_once().unwrap() {}
    has(&engine, 0..1000);
    assert_eq!(files(&machine), tables(&engine));
}

/// Where the next table that is written waits before its sync.
#[derive(Debug)]
struct Halt {
    armed: AtomicBool,
    meets: Barrier,
}

impl Hooks for Halt {
    fn sync(&self, file: &dyn File, site: Site) -> thermocline_base::Result<()> {
        if site == TABLE_WRITTEN && self.armed.swap(false, Ordering::SeqCst) {
            self.meets.wait();
            self.meets.wait();
        }
        file.sync(site)
    }
}

/// While a job writes, what another one took away goes: no job keeps files that it does not read.
#[test]
fn a_job_keeps_the_files_that_it_reads_alone() {
    let machine = Machine::new(PM);
    let halt = Arc::new(Halt {
        armed: AtomicBool::new(false),
        meets: Barrier::new(2),
    });
    let world = machine.world();
    let world = World {
        env: Env {
            storage: Hooked::new(world.env.storage.clone(), halt.clone()),
            ..world.env
        },
        ..world
    };
    let engine = Engine::open(world, std::path::Path::new("/db"), tiny()).unwrap();
    let other = engine.family("other", &CfOptions::default()).unwrap();
    for _ in 0..6 {
        load(&engine, CfId::DEFAULT, 0..50);
        load(&engine, other.id, 0..50);
        flush(&engine);
    }
    let compactor = &engine.inner.compactor;
    let [first, second] = [(); 2].map(|()| compactor.picker.take_due().unwrap());
    assert_ne!(first.family(), second.family());
    halt.armed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| compactor.run(first).unwrap());
        halt.meets.wait();
        let before = files(&machine);
        compactor.run(second).unwrap();
        let after = files(&machine);
        halt.meets.wait();
        assert!(after < before, "{before} files, then {after}");
    });
    has(&engine, 0..50);
    assert_eq!(files(&machine), tables(&engine));
}

#[test]
fn a_range_waits_for_the_job_that_holds_it() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    for _ in 0..5 {
        load(&engine, CfId::DEFAULT, 0..60);
        flush(&engine);
    }
    let job = engine.inner.compactor.picker.take_due().unwrap();
    let other = engine.clone();
    let thread = std::thread::spawn(move || {
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        other.compact(CfId::DEFAULT, all).unwrap();
    });
    engine.inner.compactor.run(job).unwrap();
    thread.join().unwrap();
    assert_eq!(levels(&engine)[0], 0);
    has(&engine, 0..60);
}

/// What keeps a call waiting may itself wait for who closes the store; so closing waits for no such call.
#[test]
fn who_waits_for_a_job_does_not_keep_the_store_from_closing() {
    let machine = Machine::new(PM);
    // Tables of all keys.
    let mut options = tiny();
    options.compaction.table_bytes = 64 << 10;
    options.compaction.base_bytes = 256 << 10;
    options.compaction.level0_tables = 2;
    let engine = open(&machine, &options);
    for _ in 0..2 {
        load(&engine, CfId::DEFAULT, 0..60);
        flush(&engine);
    }
    // A split waits for a job, and does not come when that has ended.
    let (inner, waiter) = (&engine.inner, Waiter::Hand(0));
    let (picker, compactions) = (&inner.compactor.picker, &inner.common.compactions);
    let job = picker.take_due().unwrap();
    let key = 30u64.to_be_bytes();
    assert!(picker.hold_for_split(CfId::DEFAULT, &key, waiter).is_none());
    inner.compactor.run(job).unwrap();
    load(&engine, CfId::DEFAULT, 0..60);
    flush(&engine);
    let other = engine.clone();
    let thread = std::thread::spawn(move || {
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        other.compact(CfId::DEFAULT, all)
    });
    // The call waits as a whole, and for a job.
    while compactions.awaited() < 2 {
        assert!(!thread.is_finished());
        std::thread::yield_now();
    }
    drop(lock(&compactions.jobs));
    assert!(compactions.is_waiting(waiter) && compactions.gate.is_empty());
    engine.close().unwrap();
    assert!(matches!(thread.join().unwrap(), Err(Error::Closed)));
    drop(engine);
    has(&open(&machine, &options), 0..60);
}

/// A clock that calls somebody before each nap.
#[derive(Default)]
struct Napping {
    clock: SimClock,
    call: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Napping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Napping")
    }
}

impl Clock for Napping {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn sleep_ms(&self, ms: u64) {
        if let Some(call) = self.call.lock().unwrap().take() {
            call();
        }
        self.clock.sleep_ms(ms);
    }

    fn unix_s(&self) -> u64 {
        self.clock.unix_s()
    }
}

#[test]
fn closing_ends_a_job_and_leaves_everything_as_before() {
    let machine = Machine::new(PM);
    let clock = Arc::new(Napping::default());
    let mut options = tiny();
    options.compaction.rate_bytes = 4 << 10;
    let engine = Engine::open(world_of(&machine, &clock), Path::new("/db"), options).unwrap();
    for _ in 0..4 {
        load(&engine, CfId::DEFAULT, 0..500);
        flush(&engine);
    }
    let closing: Arc<OnceLock<std::thread::JoinHandle<()>>> = Arc::default();
    let (closer, handle) = (engine.clone(), closing.clone());
    *clock.call.lock().unwrap() = Some(Box::new(move || {
        let engine = closer.clone();
        let thread = std::thread::spawn(move || {
            engine.close().unwrap();
            // It has waited.
            assert_eq!(engine.inner.reporter.compaction_use().running, 0);
        });
        handle.set(thread).unwrap();
        while !closer
            .inner
            .common
            .closed
            .load(crate::sync::Ordering::SeqCst)
        {
            std::thread::yield_now();
        }
    }));
    // Those that only move tables need no time.
    let ended = loop {
        match engine.compact_once() {
            Ok(true) => continue,
            ended => break ended,
        }
    };
    assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    let closing = Arc::try_unwrap(closing).unwrap().into_inner().unwrap();
    closing.join().unwrap();
    assert_eq!(files(&machine), tables(&engine));
    assert!(matches!(engine.compact_once(), Err(Error::Closed)));
    drop(engine);
    let engine = open(&machine, &tiny());
    has(&engine, 0..500);
    while engine.compact_once().unwrap() {}
    has(&engine, 0..500);
}

/// What events tell, and the setup of a store whose events do.
fn listening() -> (Arc<Mutex<Vec<Event>>>, Setup) {
    let told: Arc<Mutex<Vec<Event>>> = Arc::default();
    let listener = told.clone();
    let setup = Setup {
        listener: Some(Arc::new(move |event: &Event| {
            listener.lock().unwrap().push(event.clone());
        })),
        ..Setup::default()
    };
    (told, setup)
}

#[test]
fn a_store_says_how_far_jobs_give_way_to_clients() {
    let machine = Machine::new(PM);
    let clock = Arc::new(Napping::default());
    let mut options = tiny();
    for gives_way in [false, true] {
        options.compaction.rate_adapts = gives_way;
        let world = world_of(&machine, &clock);
        let engine = Engine::open(world, Path::new("/db"), options.clone()).unwrap();
        let percent = || engine.metrics().compaction.percent_worked;
        assert_eq!(percent(), gives_way.then_some(100));
        let read = engine.inner.common.catalog.table_files.reader();
        let read = read.one_under_way();
        // What was before is forgotten.
        clock.clock.advance_ns(10_000_000_000);
        assert_eq!(percent(), gives_way.then_some(5));
        assert_eq!(engine.plan().percent_worked, percent());
        engine.inner.common.compactions.needs(1.0);
        assert_eq!(percent(), gives_way.then_some(100));
        // What waits is asked for anew, and it is nothing.
        engine.inner.pressure.press();
        assert_eq!(percent(), gives_way.then_some(5));
        drop(read);
        engine.close().unwrap();
    }
}

#[test]
fn the_rate_is_kept_and_jobs_are_told_of_and_counted() {
    let machine = Machine::new(PM);
    let clock = Arc::new(Napping::default());
    let mut options = tiny();
    options.compaction.rate_bytes = 64 << 10;
    let (told, setup) = listening();
    let engine =
        Engine::open_with(world_of(&machine, &clock), Path::new("/db"), options, setup).unwrap();
    for _ in 0..4 {
        load(&engine, CfId::DEFAULT, 0..500);
        flush(&engine);
    }
    let started = clock.now_ns();
    assert!(engine.inner.common.compactions.behind().level0_runs >= 4);
    while engine.compact_once().unwrap() {}
    let took_ms = (clock.now_ns() - started) / 1_000_000;
    let usage = engine.metrics().compaction;
    let bytes: u64 = usage.levels[1..]
        .iter()
        .map(|l| l.bytes_read + l.bytes_written)
        .sum();
    let fair_ms = bytes * 1000 / (64 << 10);
    let jobs: u64 = usage.levels[1..].iter().map(|level| level.jobs).sum();
    assert!(
        took_ms <= fair_ms && took_ms + 2 * jobs >= fair_ms,
        "{took_ms} of {fair_ms} ms"
    );
    assert_eq!((usage.levels[0].jobs, usage.levels[0].bytes_read), (4, 0));
    assert!(usage.level0_runs < 4 && usage.pending_bytes == 0 && usage.running == 0);
    let dropped: u64 = usage.levels[1..]
        .iter()
        .map(|level| level.entries_dropped)
        .sum();
    assert!((500..=1500).contains(&dropped), "{dropped}");
    let told = told.lock().unwrap();
    let (mut begun, mut finished, mut written) = (0, 0, 0);
    for event in told.iter() {
        match event {
            Event::CompactionBegun { id, .. } => {
                begun += 1;
                assert_eq!(*id, begun);
            }
            Event::CompactionFinished {
                id,
                reason,
                from,
                bytes_written,
                error,
                ..
            } => {
                finished += 1;
                written += bytes_written;
                let wanted = match from {
                    0 => CompactionReason::Level0,
                    _ => CompactionReason::LevelSize,
                };
                assert_eq!((*id, *reason, error.as_deref()), (finished, wanted, None));
            }
            _ => {}
        }
    }
    assert_eq!((begun, finished), (jobs, jobs));
    assert_eq!(
        written,
        usage.levels[1..]
            .iter()
            .map(|l| l.bytes_written)
            .sum::<u64>()
    );
}

/// What events have told of flushes and compactions that wrote: bytes, and how long they took.
fn done_by_events(told: &[Event]) -> Vec<(u64, Duration)> {
    let done = told.iter().filter_map(|event| match event {
        Event::FlushFinished {
            bytes,
            took,
            error: None,
            ..
        } => Some((*bytes, *took)),
        Event::CompactionFinished {
            bytes_written,
            took,
            error: None,
            ..
        } => Some((*bytes_written, *took)),
        _ => None,
    });
    done.collect()
}

/// What events have told of flushes that wrote: why, memtables, bytes of these, and bytes that were read of files.
fn flushes_by_events(told: &[Event]) -> Vec<(String, u64, u64, u64)> {
    let flushes = told.iter().filter_map(|event| match event {
        Event::FlushFinished {
            because,
            memtables,
            bytes_in,
            bytes_read,
            error: None,
            ..
        } => Some((because.clone(), *memtables as u64, *bytes_in, *bytes_read)),
        _ => None,
    });
    flushes.collect()
}

#[test]
fn the_manifest_tells_of_jobs_what_events_did_but_for_those_that_failed() {
    let machine = Machine::new(PM);
    let clock = Arc::new(Napping::default());
    let (told, setup) = listening();
    let disk = FaultStorage::over_sim(machine.fs.clone());
    let mut world = world_of(&machine, &clock);
    world.env.storage = Arc::new(disk.clone());
    let engine = Engine::open_with(world, Path::new("/db"), tiny(), setup).unwrap();
    for _ in 0..4 {
        load(&engine, CfId::DEFAULT, 0..500);
        flush(&engine);
    }
    let (fault, op) = (Fault::Eio, Some(Op::Create));
    disk.arm(Plan {
        fault,
        op,
        at: disk.calls_for(fault, op),
        repeat: Repeat::Once,
    });
    assert!(engine.compact_once().is_err());
    disk.disarm();
    while engine.compact_once().unwrap() {}
    let jobs = engine.jobs_done();
    let by_manifest: Vec<_> = jobs
        .iter()
        .map(|(job, _)| (job.bytes_written, job.took))
        .collect();
    assert_eq!(by_manifest, done_by_events(&told.lock().unwrap()));
    let flushes = jobs.iter().map(|(job, _)| job);
    let flushes: Vec<_> = flushes
        .filter(|job| job.work == "flush")
        .map(|job| {
            let because = job.because.clone();
            (because, job.inputs, job.bytes_in, job.bytes_read)
        })
        .collect();
    assert!(flushes.iter().all(|(why, ..)| why.starts_with("flush: ")));
    assert_eq!(flushes, flushes_by_events(&told.lock().unwrap()));
    let (flush, none) = &jobs[0];
    assert_eq!((&*flush.work, flush.from, none), ("flush", None, &None));
    assert_eq!((flush.inputs, flush.entries_read), (1, 500));
    let is_merge = |(job, family): &(Arc<JobDone>, Option<String>)| {
        let why = job.because.starts_with("level0: level 0 is at ");
        why && job.work == "compact" && job.bytes_read > 0 && family.as_deref() == Some("default")
    };
    assert!(jobs.iter().any(is_merge), "{jobs:?}");
    drop(engine);
    let again = open(&machine, &tiny()).jobs_done();
    assert_eq!(again, jobs);
}

#[test]
fn families_take_turns() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    let other = engine.family("other", &CfOptions::default()).unwrap();
    for _ in 0..5 {
        load(&engine, CfId::DEFAULT, 0..60);
        load(&engine, other.id, 0..60);
        flush(&engine);
    }
    let first = engine.inner.compactor.picker.take_due().unwrap();
    let second = engine.inner.compactor.picker.take_due().unwrap();
    assert_eq!((first.family(), second.family()), (CfId::DEFAULT, other.id));
    engine.inner.compactor.run(second).unwrap();
    engine.inner.compactor.run(first).unwrap();
    has(&engine, 0..60);
}
