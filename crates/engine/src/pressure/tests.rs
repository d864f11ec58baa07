//! What a store owes, by a clock that stands still unless somebody waits.

mod apart;
mod starved;

use std::path::Path;

use thermocline_base::filter::{CompactionFilter, Entry, Verdict};
use thermocline_base::options::{Options, Shape};
use thermocline_base::{CfId, CfOptions, Codec, ErrorKind, Steps, WriteBatch};
use thermocline_catalog::View;
use thermocline_commit::CommitEnv;
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_policy::collect::{self, Allowance};
use thermocline_policy::pick::Reason;
use thermocline_policy::pressure::{Cause, Due, Limits};
use thermocline_policy::tuning::{AGAIN_MAX_NS, DELAY_NS_MAX};

use super::*;
use crate::pressure::gauge::Gauge;
use crate::sync::{Arc, Mutex, lock};
use crate::tests::Nothing;
use crate::{Durability, Engine, Event, Runtime, Setup, StallCause, StallUse, World, WriteOptions};

const PM: u64 = 4 << 20;

fn filled(percent: u64) -> Gauge {
    let pressure = Gauge::new(0, Due::of(&Options::default()));
    let debt = Debt {
        pm_bytes: PM / 100 * percent,
        ..Debt::default()
    };
    pressure.set(&debt, PM, (None, Limits::NONE), false);
    pressure
}

#[test]
fn nothing_is_owed_below_the_soft_limit() {
    for percent in [0, 50, 74] {
        assert_eq!(filled(percent).now.load(Ordering::Relaxed), 0);
    }
    let pressure = filled(90);
    assert!(pressure.now.load(Ordering::Relaxed) > 0);
    // What was freed is not owed for.
    pressure.set(&Debt::default(), PM, (None, Limits::NONE), false);
    assert_eq!(pressure.now.load(Ordering::Relaxed), 0);
}

/// What is in its place is no reason to hold writers back, and leaves less room for what is not.
#[test]
fn what_may_stay_in_persistent_memory_is_no_debt() {
    assert_eq!(waiting(700, 0, 1000), 700);
    assert_eq!(waiting(700, 700, 1000), 0);
    assert_eq!(waiting(900, 800, 1000), 500);
    assert_eq!(waiting(1000, 800, 1000), 1000);
    assert_eq!(waiting(1000, 1000, 1000), 0);
    for attached in 0..=100 {
        let ways: Vec<u64> = (0..=80).map(|home| waiting(attached, home, 100)).collect();
        assert!(ways.is_sorted_by(|a, b| a >= b), "{ways:?}");
        assert!(attached == 100 || ways[80] <= 5 * attached.saturating_sub(80));
    }
}

#[test]
fn small_writes_gather_a_piece_and_large_ones_wait_no_longer_than_allowed() {
    let mut before = 0;
    for percent in [80, 85, 90, 96, 100] {
        let pressure = filled(percent);
        let clock = 1_000_000_000;
        let mut writes = 0;
        let until = loop {
            writes += 1;
            if let Some((until, cause)) = pressure.owe(100, clock) {
                assert_eq!(cause, StallCause::PmFill);
                break until;
            }
        };
        let owed = until - clock;
        assert!(
            (DELAY_PIECE_NS..DELAY_PIECE_NS + DELAY_PIECE_NS / 4).contains(&owed),
            "{owed}"
        );
        // The fuller, the sooner: about so many nanoseconds for a byte.
        let nanos = DELAY_PIECE_NS / (100 * writes);
        assert!(nanos > before, "{percent}: {nanos} after {before}");
        before = nanos;
        // Whoever writes meanwhile waits behind.
        let (behind, _) = pressure.owe(100, clock).unwrap();
        assert!(behind >= until);
        let (large, _) = pressure.owe(1 << 40, clock).unwrap();
        assert_eq!(large, clock + DELAY_NS_MAX);
        // It is over when it is.
        assert_eq!(pressure.owe(1, clock + 2 * DELAY_NS_MAX), None);
    }
    assert!((900..=1000).contains(&before), "{before}");
}

fn open(background: bool) -> Engine {
    let steps = Steps::new();
    let world = World {
        env: Env::simulated(SimFs::new(steps.clone()), 7),
        sim: Some(SimPm::new(PM, steps)),
        shadow: None,
        background,
    };
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 128 << 10;
    // What is flushed leaves persistent memory.
    options.set("level0.shape", "global-index").unwrap();
    // Nothing else moves the clock.
    options.memtable.idle_ms = 0;
    Engine::open(world, Path::new("/db"), options).unwrap()
}

/// Fills it to so many percent with what reads under way hold, so that no flush helps.
fn fill(engine: &Engine, percent: u64, held: &mut Vec<Arc<View>>) {
    for n in 0..u32::MAX {
        let space = engine.metrics().space;
        if space.attached_bytes >= space.limit_bytes / 100 * percent {
            return;
        }
        let mut batch = WriteBatch::new();
        batch
            .put(CfId::DEFAULT, &n.to_be_bytes(), &[7; 2000])
            .unwrap();
        engine.write(batch.iter(), Durability::Buffered).unwrap();
        if n % 10 == 0 {
            held.push(engine.inner.common.catalog.view_to_keep());
        }
    }
}

fn held_back(engine: &Engine) -> StallUse {
    engine.inner.common.stalls.get(StallCause::PmFill)
}

#[test]
fn writers_of_a_store_that_fills_are_held_back_a_little_and_told_why() {
    let engine = open(true);
    let mut held = Vec::new();
    fill(&engine, 70, &mut held);
    assert_eq!(held_back(&engine).count, 0);
    fill(&engine, 90, &mut held);
    let stall = held_back(&engine);
    assert!(stall.count > 10, "{stall:?}");
    assert!(stall.nanos_max <= DELAY_NS_MAX, "{stall:?}");
    assert!(stall.nanos >= stall.count * DELAY_PIECE_NS, "{stall:?}");
    // Who asked not to wait is told so, once enough is owed.
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"k", &[7; 1000]).unwrap();
    let mode = WriteOptions {
        durability: Durability::Buffered,
        no_slowdown: true,
    };
    // However far others move the clock.
    let owed_until = &engine.inner.pressure.gauge.owed_until;
    owed_until.store(u64::MAX, Ordering::Relaxed);
    let error = engine.write(batch.iter(), mode).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("behind"), "{error}");
    owed_until.store(0, Ordering::Relaxed);
    // With space comes speed: as soon as threads of the store have let go of what they looked at.
    drop(held);
    engine.flush().unwrap();
    while engine.inner.pressure.gauge.now.load(Ordering::Relaxed) > 0 {
        engine.reclaim().unwrap();
        std::thread::yield_now();
    }
    let before = held_back(&engine);
    // One that may wait for those threads, which the other may not.
    let mode = Durability::Buffered;
    engine.write(batch.iter(), mode).unwrap();
    assert_eq!(held_back(&engine), before);
}

/// A sleep ends late. Here it does since it is one of whole milliseconds, elsewhere since the system lets others run.
#[test]
fn the_longest_delay_is_what_was_asked_for_and_the_sum_what_it_took() {
    // Without threads, which would reckon the delay anew.
    let engine = open(false);
    let gauge = &engine.inner.pressure.gauge;
    let debt = Debt {
        pm_bytes: PM,
        ..Debt::default()
    };
    gauge.set(&debt, PM, (None, Limits::NONE), false);
    gauge.owed_until.store(0, Ordering::Relaxed);
    let clock = &engine.inner.common.world.env.clock;
    let begun = clock.now_ns();
    let admission = &engine.inner.admission;
    admission.hold_back(1500, false, || false).unwrap();
    let asked = gauge.owed_until.load(Ordering::Relaxed) - begun;
    let took = clock.now_ns() - begun;
    assert!(DELAY_PIECE_NS < asked && asked < took, "{asked}, {took}");
    let stall = held_back(&engine);
    assert_eq!(
        (stall.count, stall.nanos, stall.nanos_max),
        (1, took, asked)
    );
}

#[test]
fn who_asked_not_to_wait_only_owes_and_the_next_one_is_refused() {
    // Without threads, which would reckon the delay anew.
    let engine = open(false);
    let gauge = &engine.inner.pressure.gauge;
    let debt = Debt {
        pm_bytes: PM,
        ..Debt::default()
    };
    gauge.set(&debt, PM, (None, Limits::NONE), false);
    gauge.owed_until.store(0, Ordering::Relaxed);
    let clock = &engine.inner.common.world.env.clock;
    let begun = clock.now_ns();
    let write = || {
        let admission = &engine.inner.admission;
        admission.hold_back(100 << 10, true, || false)
    };
    write().unwrap();
    assert_eq!(clock.now_ns(), begun);
    assert_eq!(held_back(&engine), StallUse::default());
    let owed_until = gauge.owed_until.load(Ordering::Relaxed);
    assert_eq!(owed_until, begun + DELAY_NS_MAX);
    let error = write().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!(clock.now_ns(), begun);
    // It is over when it is.
    clock.sleep_ms(DELAY_NS_MAX / 1_000_000);
    write().unwrap();
}

/// What is staged always waits. A batch that asked not to is refused each time, and whoever tries again and again would hold all others
/// back.
#[test]
fn a_batch_that_is_refused_because_it_always_waits_owes_nothing() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let mut options = options_of(Shape::GlobalIndex);
    options.memtable.item_bytes_max = 4 << 10;
    // Without threads, which would reckon the delay anew.
    let engine = open_with(options, &fs, &sim, false);
    let gauge = &engine.inner.pressure.gauge;
    let debt = Debt {
        pm_bytes: PM,
        ..Debt::default()
    };
    gauge.set(&debt, PM, (None, Limits::NONE), false);
    let mut batch = WriteBatch::new();
    for key in 0..100u32 {
        let key = key.to_be_bytes();
        batch.put(CfId::DEFAULT, &key, &[7; 1000]).unwrap();
    }
    let mode = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    let watch = engine.watch().unwrap();
    let refused = [
        engine.write(batch.iter(), mode),
        engine.write_with_callback(batch.iter(), true, Box::new(|_| ())),
        watch.write(batch.iter(), mode, &Nothing),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert!(error.to_string().contains("item_bytes_max"), "{error}");
    }
    assert_eq!(gauge.owed_until.load(Ordering::Relaxed), 0);
    // One that may wait does.
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    assert!(gauge.owed_until.load(Ordering::Relaxed) > 0);
}

/// The record that names long values would be refused for what they owe, and all would be written in vain, each time.
#[test]
fn a_long_value_is_not_refused_for_what_it_owes_itself() {
    let engine = open(true);
    let mut held = Vec::new();
    fill(&engine, 90, &mut held);
    let owed_until = &engine.inner.pressure.gauge.owed_until;
    owed_until.store(0, Ordering::Relaxed);
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"k", &vec![7; 2 << 20]).unwrap();
    let separated = engine.inner.stager.separate(batch.iter(), 2 << 20, true);
    let separated = separated.unwrap().unwrap();
    let admission = &engine.inner.admission;
    admission.hold_back(64, true, || false).unwrap();
    owed_until.store(0, Ordering::Relaxed);
    admission.owe_for(separated.owes, &Ok(()));
    let error = admission.hold_back(64, true, || false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

#[test]
fn a_store_without_background_holds_nobody_back() {
    let engine = open(false);
    let mut held = Vec::new();
    fill(&engine, 93, &mut held);
    assert_eq!(held_back(&engine), StallUse::default());
    assert_eq!(engine.inner.common.world.env.clock.now_ns(), 0);
}

const DISK: u64 = 12 << 20;

/// A small disk, its persistent memory, and a store there.
fn on_disk(background: bool) -> (SimFs, Engine) {
    on_disk_of(Shape::Tiered, background)
}

fn on_disk_of(shape: Shape, background: bool) -> (SimFs, Engine) {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let engine = open_of(shape, &fs, &sim, background);
    fs.limit(DISK);
    (fs, engine)
}

fn open_on(fs: &SimFs, sim: &SimPm, background: bool) -> Engine {
    open_of(Shape::Tiered, fs, sim, background)
}

fn open_of(shape: Shape, fs: &SimFs, sim: &SimPm, background: bool) -> Engine {
    open_with(options_of(shape), fs, sim, background)
}

fn open_with(options: Options, fs: &SimFs, sim: &SimPm, background: bool) -> Engine {
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(sim.clone()),
        shadow: None,
        background,
    };
    Engine::open(world, Path::new("/db"), options).unwrap()
}

fn options_of(shape: Shape) -> Options {
    let mut options = Options {
        pm: 1 << 20,
        ..Options::default()
    };
    options.level0.shape = Some(shape);
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 64 << 10;
    options.memtable.idle_ms = 0;
    options.compaction.table_bytes = 32 << 10;
    options.compaction.base_bytes = 256 << 10;
    options.compaction.compression_last = Codec::None;
    options.compaction.compression = Codec::None;
    options
}

fn put(engine: &Engine, key: u32, seed: u8) -> Result<()> {
    let mut batch = WriteBatch::new();
    let value: Vec<u8> = (0..1000u32)
        .map(|n| (n * key + u32::from(seed)).to_le_bytes()[0])
        .collect();
    batch
        .put(CfId::DEFAULT, &key.to_be_bytes(), &value)
        .unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

/// Puts until the disk takes no more; how many keys there are.
fn until_full(engine: &Engine, from: u32) -> u32 {
    let (mut key, mut waits) = (from, 0);
    loop {
        match put(engine, key, 1) {
            Ok(()) => key += 1,
            // A thread of the store has not let go of what was flushed, and this clock runs ahead of it.
            Err(error) if error.to_string().contains("held by readers") => {
                waits += 1;
                assert!(waits < 100_000, "{error}");
                std::thread::yield_now();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                assert!(error.to_string().contains("the disk of /db has"), "{error}");
                return key;
            }
        }
    }
}

fn disk_room(engine: &Engine) -> StallUse {
    engine.inner.common.stalls.get(StallCause::DiskRoom)
}

/// A store on a disk, and what it has told of writes that are refused, and taken again.
fn listening(options: Options) -> (SimFs, Engine, Arc<Mutex<Vec<Event>>>) {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let told: Arc<Mutex<Vec<Event>>> = Arc::default();
    let tells = told.clone();
    let setup = Setup {
        listener: Some(Arc::new(move |event: &Event| {
            if matches!(event, Event::WritesRefused { .. } | Event::WritesResumed) {
                lock(&tells).push(event.clone());
            }
        })),
        ..Setup::default()
    };
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(sim),
        shadow: None,
        background: false,
    };
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    (fs, engine, told)
}

/// It would fill a region that may not grow, and memtables would have what is left.
#[test]
fn level_0_has_its_part_of_what_the_region_may_have() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    sim.lie_on(&fs);
    let engine = open_of(Shape::Tiered, &fs, &sim, false);
    let common = &engine.inner.common;
    let share = || common.compactions.shape.geometry().pm_bytes_max.unwrap();
    // From so much on costs have it leave.
    let major = || {
        let costs = &engine.inner.flusher.evacuator.level0_costs;
        let plan = costs.level0_plan(&common.catalog.version(), |_| Vec::new());
        plan.unwrap().thresholds.major
    };
    let all = common.options.level0_pm_bytes().unwrap();
    assert_eq!(share(), all);
    let major_of_all = major();
    fs.limit(fs.used());
    engine.inner.pressure.press();
    let space = common.space.usage();
    assert_eq!(space.limit_bytes, space.region_bytes);
    assert!(space.limit_bytes < all, "{space:?}");
    assert!((1..space.limit_bytes).contains(&share()), "{}", share());
    assert!((1..=share()).contains(&major()), "{}", major());
    fs.limit(DISK);
    engine.inner.pressure.press();
    assert_eq!((share(), major()), (all, major_of_all));
}

/// As it is where persistent memory takes no more.
#[test]
fn it_is_told_that_the_disk_takes_no_writes_and_when_it_does_again() {
    let (fs, engine, told) = listening(options_of(Shape::Tiered));
    fs.limit(DISK);
    let keys = until_full(&engine, 0);
    let last = std::mem::take(&mut *lock(&told)).pop();
    let Some(Event::WritesRefused { cause }) = &last else {
        panic!("{last:?}");
    };
    assert!(cause.contains("the disk of /db has"), "{cause}");
    // Once, unless some were taken meanwhile.
    let more = until_full(&engine, keys);
    let again = std::mem::take(&mut *lock(&told));
    assert!(more > keys || again.is_empty(), "{again:?}");
    fs.limit(2 * DISK);
    put(&engine, more, 1).unwrap();
    assert_eq!(lock(&told).pop(), Some(Event::WritesResumed));
}

/// The disk takes no other writes meanwhile.
#[test]
fn that_a_staged_batch_of_deletes_is_taken_is_not_told() {
    let mut options = options_of(Shape::GlobalIndex);
    options.memtable.item_bytes_max = 4 << 10;
    let (fs, engine, told) = listening(options);
    fs.limit(DISK);
    let keys = until_full(&engine, 0);
    // The batch must find room in persistent memory.
    engine.flush().unwrap();
    while engine.metrics().space.attached_bytes > 512 << 10 {
        engine.reclaim().unwrap();
        std::thread::yield_now();
    }
    let room = engine.inner.common.disk_room().unwrap();
    fs.limit(room.total - room.free + (100 << 10));
    engine.inner.pressure.press();
    put(&engine, keys, 1).unwrap_err();
    lock(&told).clear();
    let mut batch = WriteBatch::new();
    for key in 0..1000 {
        let key = (u32::MAX - key).to_be_bytes();
        batch.delete(CfId::DEFAULT, &key).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    put(&engine, keys, 1).unwrap_err();
    assert_eq!(lock(&told).pop(), None);
    fs.limit(2 * DISK);
    put(&engine, keys, 1).unwrap();
    assert_eq!(lock(&told).pop(), Some(Event::WritesResumed));
}

/// Writes that have met are tried as one. If the disk takes none of them, each asks again; it owes nothing then if it was held back
/// with the others, and is no smaller for that.
#[test]
fn a_write_is_told_as_refused_by_itself_and_as_large_as_it_is() {
    let (fs, engine, told) = listening(options_of(Shape::Tiered));
    put(&engine, 1, 1).unwrap();
    fs.limit(fs.used());
    let inner = &*engine.inner;
    inner.pressure.press();
    let writes = |value: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, b"lake", value).unwrap();
        batch
    };
    let (large, small) = (writes(&[7; 1000]), writes(b"small"));
    let together = inner.admit_together(large.iter(), 1000).unwrap_err();
    assert_eq!(together.kind(), ErrorKind::OutOfSpace);
    inner.settle();
    assert!(lock(&told).is_empty());
    let alone = inner.admit(large.iter(), 0, false).unwrap_err();
    assert_eq!(alone.kind(), ErrorKind::OutOfSpace);
    inner.settle();
    let told_of = std::mem::take(&mut *lock(&told));
    assert!(
        matches!(told_of[..], [Event::WritesRefused { .. }]),
        "{told_of:?}"
    );
    fs.limit(DISK);
    engine.write(small.iter(), Durability::Immediate).unwrap();
    assert!(lock(&told).is_empty(), "it is smaller");
    engine.write(large.iter(), Durability::Immediate).unwrap();
    assert_eq!(*lock(&told), [Event::WritesResumed]);
}

#[test]
fn writers_hear_that_the_disk_is_full_before_it_is_and_all_else_goes_on() {
    for background in [false, true] {
        let (fs, engine) = on_disk(background);
        let keys = until_full(&engine, 0);
        assert!(u64::from(keys) * 1000 > DISK / 4, "{keys} keys");
        // Held back before, where there is somebody who works meanwhile. Who is refused is not held back.
        let stalled = disk_room(&engine);
        let held_back = (stalled.count > 0, stalled.nanos > 0);
        assert_eq!(held_back, (background, background));
        let has = |key: u32| {
            engine
                .get(CfId::DEFAULT, &key.to_be_bytes(), |_| ())
                .unwrap()
        };
        assert!((0..keys).all(|key| has(key).is_some()), "reads go on");
        // So do flushes and compactions, within what is kept for them.
        engine.flush().unwrap();
        engine.drain().unwrap();
        assert_eq!(fs.refusals(), 0);
        // What they have freed is taken.
        let keys = until_full(&engine, keys);
        // And deletes, which make room in the end.
        let mut batch = WriteBatch::new();
        batch.delete(CfId::DEFAULT, &0u32.to_be_bytes()).unwrap();
        let (from, to) = (10u32.to_be_bytes(), keys.to_be_bytes());
        batch.delete_range(CfId::DEFAULT, &from, Some(&to)).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        assert!(has(0).is_none() && has(1).is_some() && has(10).is_none());
        let (engine, all) = until_room_at_last(&fs, engine, keys);
        assert!(all > keys + keys / 2, "{keys}, then {all}");
        assert!(background || jobs_for_room(&engine) > 0);
        engine.close().unwrap();
    }
}

/// Tries to put from this key on, while that brings something; how many keys there are then.
fn until_room(engine: &Engine, from: u32) -> u32 {
    let mut next = from;
    for _ in 0..20 {
        // Threads make a pause between two flushes for the sake of room.
        engine.inner.common.world.env.clock.sleep_ms(1000);
        next = until_full(engine, next);
        // What they have begun.
        if let Err(error) = engine.drain() {
            assert!(
                engine.inner.common.world.background && error.is_no_room(),
                "{error}"
            );
        }
    }
    next
}

/// As [`until_room`]. With threads, which do not get far by this clock, it is tried once more without them,
/// after an open.
fn until_room_at_last(fs: &SimFs, engine: Engine, from: u32) -> (Engine, u32) {
    let next = until_room(&engine, from);
    if !engine.inner.common.world.background {
        assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
        return (engine, next);
    }
    let sim = engine.inner.common.world.sim.clone().unwrap();
    engine.close().unwrap();
    drop(engine);
    let engine = open_on(fs, &sim, false);
    let next = until_room(&engine, next);
    (engine, next)
}

/// Deletes every other key below `keys`, a few at a time.
fn delete_scattered(engine: &Engine, keys: u32) {
    let keys: Vec<u32> = (0..keys).step_by(2).collect();
    for some in keys.chunks(100) {
        let mut batch = WriteBatch::new();
        for key in some {
            batch.delete(CfId::DEFAULT, &key.to_be_bytes()).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
}

#[test]
fn deletes_all_over_a_full_disk_make_room_without_more_room_than_there_is() {
    for background in [false, true] {
        let (fs, engine) = on_disk(background);
        let keys = until_full(&engine, 0);
        delete_scattered(&engine, keys);
        let (engine, all) = until_room_at_last(&fs, engine, keys);
        assert!(all > keys + keys / 4, "{keys}, then {all}");
        assert!(background || jobs_for_room(&engine) > 0);
        let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
        assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
        engine.close().unwrap();
    }
}

#[test]
fn deletes_of_before_an_open_make_room_too() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let engine = open_on(&fs, &sim, false);
    fs.limit(DISK);
    let keys = until_full(&engine, 0);
    // So few that nothing is flushed for them at once.
    for key in (0..keys / 2).step_by(1000) {
        let mut batch = WriteBatch::new();
        for key in key..key + 1000 {
            batch.delete(CfId::DEFAULT, &key.to_be_bytes()).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    drop(engine);
    let engine = open_on(&fs, &sim, false);
    let all = until_room(&engine, keys);
    assert!(all > keys + keys / 4, "{keys}, then {all}");
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
}

/// Deletes every other key below `keys`, many at a time and each with a write.
fn delete_beside_writes(engine: &Engine, keys: u32) {
    let deleted: Vec<u32> = (0..keys).step_by(2).collect();
    for some in deleted.chunks(100) {
        let mut batch = WriteBatch::new();
        for key in some {
            batch.delete(CfId::DEFAULT, &key.to_be_bytes()).unwrap();
        }
        batch.put(CfId::DEFAULT, b"last", b"value").unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
}

#[test]
fn deletes_of_before_the_disk_was_full_make_room_whatever_else_they_came_with() {
    let (fs, engine) = on_disk(false);
    let keys = until_full(&engine, 0);
    engine.flush().unwrap();
    engine.drain().unwrap();
    fs.limit(2 * DISK);
    delete_beside_writes(&engine, keys);
    fs.limit(DISK);
    let all = until_room(&engine, keys);
    assert!(all > keys + keys / 4, "{keys}, then {all}");
    engine.close().unwrap();
}

#[test]
fn what_a_snapshot_kept_makes_room_when_it_has_gone() {
    let (_fs, engine) = on_disk(false);
    let keys = until_full(&engine, 0);
    let held = engine.snapshot();
    delete_scattered(&engine, keys);
    let kept = until_room(&engine, keys);
    assert!(kept < keys + keys / 8, "{keys}, then {kept}");
    let cf = CfId::DEFAULT;
    assert!((0..keys).all(|key| held.get(cf, &key.to_be_bytes(), |_| ()).unwrap().is_some()));
    drop(held);
    let all = until_room(&engine, kept);
    assert!(
        all > keys + keys / 4,
        "{keys}, with the snapshot {kept}, then {all}"
    );
    engine.close().unwrap();
}

#[test]
fn deletes_that_cannot_be_flushed_are_kept_and_flushed_when_there_is_room() {
    let (fs, engine) = on_disk(false);
    let keys = until_full(&engine, 0);
    // Somebody else takes the reserve, too.
    let room = engine.inner.common.disk_room().unwrap();
    fs.limit(room.total - room.free + (100 << 10));
    delete_scattered(&engine, keys);
    for _ in 0..3 {
        put(&engine, keys, 1).unwrap_err();
    }
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
    fs.limit(DISK);
    let all = until_room(&engine, keys);
    assert!(all > keys + keys / 4, "{keys}, then {all}");
    engine.close().unwrap();
}

/// Tables that a deleted range covers need no room to go but that of the edit. Where there is none for that they are tried once, not
/// for ever, and go when there is.
#[test]
fn covered_tables_go_when_the_manifest_has_room() {
    let (fs, engine) = on_disk_of(Shape::GlobalIndex, false);
    let keys = until_full(&engine, 0);
    engine.flush().unwrap();
    let bytes = |engine: &Engine| -> u64 {
        let version = engine.inner.common.catalog.version();
        version.tables().map(|(_, table)| table.bytes).sum()
    };
    let before = bytes(&engine);
    fs.limit(fs.used());
    // What the manifest has put by is used up by others.
    let family = |n: u32| engine.family(&format!("{n:0200}"), &CfOptions::default());
    let error = (0..1000).find_map(|n| family(n).err()).unwrap();
    assert!(error.is_no_room(), "{error}");
    let mut batch = WriteBatch::new();
    batch
        .delete_range(
            CfId::DEFAULT,
            &0u32.to_be_bytes(),
            Some(&keys.to_be_bytes()),
        )
        .unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let error = engine.compact_once().unwrap_err();
    assert!(error.is_no_room(), "{error}");
    assert_eq!(bytes(&engine), before);
    fs.limit(DISK);
    while engine.compact_once().unwrap() {}
    assert!(bytes(&engine) < before / 8, "{before}");
    assert!(until_full(&engine, keys) > keys + keys / 2);
    engine.close().unwrap();
}

#[test]
fn a_disk_without_a_byte_left_ends_nothing() {
    for background in [false, true] {
        // No flush stays in persistent memory, which would give some of its disk's room back.
        let (fs, engine) = on_disk_of(Shape::GlobalIndex, background);
        let keys = until_full(&engine, 0);
        // Deletes must find room in persistent memory, where nothing can be flushed any more.
        engine.flush().unwrap();
        while engine.metrics().space.attached_bytes > 512 << 10 {
            engine.reclaim().unwrap();
            std::thread::yield_now();
        }
        // Somebody else takes all of it.
        let room = engine.inner.common.disk_room().unwrap();
        fs.limit(room.total - room.free);
        // More than a memtable of them: no other can be named.
        delete_scattered(&engine, keys);
        let last = u32::MAX.to_be_bytes();
        for _ in 0..600 {
            let mut batch = WriteBatch::new();
            batch.delete(CfId::DEFAULT, &last).unwrap();
            engine.write(batch.iter(), Durability::Immediate).unwrap();
        }
        let error = put(&engine, keys, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        if !background {
            // Threads may have given back what is free in the region.
            engine.flush().unwrap_err();
            assert!(fs.refusals() > 0);
        }
        engine.inner.common.poison.check().unwrap();
        let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
        assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
        // And gives it back.
        fs.limit(2 * DISK);
        put(&engine, keys, 1).unwrap();
        engine.flush().unwrap();
        engine.close().unwrap();
    }
}

/// A store whose work in the background is done step by step, and its family's filter.
fn scripted(
    options: Options,
    filter: Option<Arc<dyn CompactionFilter>>,
) -> (SimFs, Engine, Runtime) {
    let steps = Steps::new();
    let fs = SimFs::new(steps.clone());
    let sim = SimPm::new(1 << 20, steps);
    let (engine, runtime) = scripted_in(Env::simulated(fs.clone(), 7), sim, options, filter);
    (fs, engine, runtime)
}

fn scripted_in(
    env: Env,
    sim: SimPm,
    options: Options,
    filter: Option<Arc<dyn CompactionFilter>>,
) -> (Engine, Runtime) {
    let runtime = Runtime::scripted(env.clock.clone());
    let filters = filter.into_iter().map(|of| ("default".to_string(), of));
    let setup = Setup {
        runtime: Some(runtime.clone()),
        compaction_filters: filters.collect(),
        ..Setup::default()
    };
    let world = World {
        env,
        sim: Some(sim),
        shadow: None,
        background: true,
    };
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    (engine, runtime)
}

/// Lets so much time pass, and does what is to be done then.
fn pass(engine: &Engine, runtime: &Runtime, ms: u64) {
    engine.inner.common.world.env.clock.sleep_ms(ms);
    while runtime.step().is_some() {}
}

/// Puts so many keys, and flushes them.
fn load(engine: &Engine, runtime: &Runtime, keys: u32) {
    for key in 0..keys {
        put(engine, key, 1).unwrap();
        if key % 100 == 99 {
            engine.flush().unwrap();
            pass(engine, runtime, 0);
        }
    }
}

fn delete(engine: &Engine, keys: impl IntoIterator<Item = u32>) {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.delete(CfId::DEFAULT, &key.to_be_bytes()).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

/// What an idle store does is done at its time, however long deletes wait that could not be flushed.
#[test]
fn a_store_falls_idle_beside_deletes_that_wait() {
    let mut options = options_of(Shape::GlobalIndex);
    options.memtable.idle_ms = 1000;
    let (_, engine, runtime) = scripted(options, None);
    let pressure = &engine.inner.pressure;
    let covered = || engine.inner.memtables.lock_writer().covered;
    delete(&engine, [1]);
    (0..3).for_each(|_| pass(&engine, &runtime, 1000));
    assert!(covered() && pressure.has_unflushed_deletes());
    // The pause becomes as long as it may.
    for _ in 0..12 {
        pressure.relieved(false);
        pass(&engine, &runtime, AGAIN_MAX_NS / 1_000_000);
    }
    pressure.relieved(false);
    delete(&engine, [2]);
    assert!(!covered());
    (0..3).for_each(|_| pass(&engine, &runtime, 1000));
    assert!(covered(), "its last write is not covered");
    engine.close().unwrap();
    while runtime.step().is_some() {}
}

/// Some were deleted while others were flushed, and some are deleted in each second: the store is never idle.
#[test]
fn deletes_are_flushed_behind_the_pause_whoever_deletes_meanwhile() {
    let (fs, engine, runtime) = scripted(options_of(Shape::GlobalIndex), None);
    load(&engine, &runtime, 500);
    let pressure = &engine.inner.pressure;
    fs.limit(fs.used());
    let disk = pressure.disk().unwrap();
    fs.limit(disk.total + disk.reserve() / 2);
    pressure.press();
    assert!(pressure.is_disk_full());
    delete(&engine, [0]);
    pressure.relieved(true);
    let flushed = (1..10).any(|key| {
        delete(&engine, [key]);
        pass(&engine, &runtime, 500);
        !pressure.has_unflushed_deletes()
    });
    assert!(flushed);
    engine.close().unwrap();
    while runtime.step().is_some() {}
}

/// When a job asks it for the first time the disk has no more room, and who looks for another job then is told to wait.
#[derive(Debug, Default)]
struct Fills(Mutex<Option<(SimFs, Engine, Runtime)>>);

impl CompactionFilter for Fills {
    fn name(&self) -> &str {
        "tests.fills"
    }

    fn filter(&self, _: &Entry<'_>) -> std::result::Result<Verdict, String> {
        let of = lock(&self.0).take();
        if let Some((fs, engine, runtime)) = of {
            fs.limit(fs.used());
            engine.inner.pressure.press();
            pass(&engine, &runtime, 0);
        }
        Ok(Verdict::Keep)
    }
}

/// A store in which a job has begun with room, met a full disk while it wrote, and failed for that.
fn with_a_job_that_fills_the_disk() -> (SimFs, Engine, Runtime) {
    let fills = Arc::new(Fills::default());
    let filter: Arc<dyn CompactionFilter> = fills.clone();
    let (fs, engine, runtime) = scripted(options_of(Shape::GlobalIndex), Some(filter));
    load(&engine, &runtime, 2000);
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    engine.compact(CfId::DEFAULT, all).unwrap();
    pass(&engine, &runtime, 0);
    delete(&engine, (0..200).filter(|key| key % 8 != 0));
    engine.flush().unwrap();
    let compactor = &engine.inner.compactor;
    let job = compactor.picker.take_due().unwrap();
    assert_eq!(job.reason(), Reason::Tombstones);
    *lock(&fills.0) = Some((fs.clone(), engine.clone(), runtime.clone()));
    let error = compactor.run(job).unwrap_err();
    assert!(error.is_no_room(), "{error}");
    (fs, engine, runtime)
}

/// It has begun before the disk was full, and fails for that. Else nobody would make room before somebody was refused a write.
#[test]
fn who_waited_for_a_job_that_found_the_disk_full_makes_room_behind_it() {
    let (fs, engine, runtime) = with_a_job_that_fills_the_disk();
    // There is a little, of what is kept for such jobs.
    let pressure = &engine.inner.pressure;
    let disk = pressure.disk().unwrap();
    fs.limit(disk.total + disk.reserve() / 8 * 7);
    pressure.press();
    assert!(pressure.is_disk_full() && jobs_for_room(&engine) == 0);
    pass(&engine, &runtime, 0);
    assert!(jobs_for_room(&engine) > 0);
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    let lives = |key: u32| key >= 200 || key.is_multiple_of(8);
    assert!((0..2000).all(|key| has(key).unwrap().is_some() == lives(key)));
    engine.close().unwrap();
    while runtime.step().is_some() {}
}

fn jobs_for_room(engine: &Engine) -> u64 {
    let reasons = engine.metrics().compaction.reasons;
    let of_room = reasons.iter().find(|(reason, _)| *reason == Reason::Room);
    of_room.map_or(0, |(_, jobs)| *jobs)
}

/// Long values take the disk's room at once, without passing persistent memory.
#[test]
fn long_values_leave_the_rest_of_the_disk_alone() {
    let (fs, engine) = on_disk(false);
    let value = vec![7; 2 << 20];
    let put = |key: u32| {
        let mut batch = WriteBatch::new();
        let cf = CfId::DEFAULT;
        batch.put(cf, &key.to_be_bytes(), &value).unwrap();
        engine.write(batch.iter(), Durability::Immediate)
    };
    let full = (0..).find_map(|key| put(key).err().map(|error| (key, error)));
    let (keys, error) = full.unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!((2..6).contains(&keys), "{keys}");
    // Again and again.
    for _ in 0..3 {
        put(keys).unwrap_err();
    }
    for key in 0..keys {
        let mut batch = WriteBatch::new();
        batch.delete(CfId::DEFAULT, &key.to_be_bytes()).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    // By itself: whoever tries again finds it.
    let tries = (0..10).find(|_| put(keys).is_ok());
    assert!(tries.is_some(), "no room for a long value");
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
    engine.close().unwrap();
}

#[test]
fn room_that_somebody_else_makes_is_found_by_the_next_write() {
    let (fs, engine) = on_disk(false);
    let keys = until_full(&engine, 0);
    put(&engine, keys, 1).unwrap_err();
    fs.limit(2 * DISK);
    put(&engine, keys, 1).unwrap();
    assert_eq!(engine.inner.pressure.gauge.now.load(Ordering::Relaxed), 0);
}

#[test]
fn garbage_alone_holds_writers_back_from_where_collection_begins() {
    let pressure = Gauge::new(0, Due::of(&Options::default()));
    let limits = collect::limits(1 << 30, Allowance::at_rest(130));
    let set = |garbage_bytes: u64| {
        let debt = Debt {
            garbage_bytes,
            ..Debt::default()
        };
        pressure.set(&debt, PM, (None, limits), false);
        pressure.get()
    };
    assert_eq!(set(limits.soft), None);
    let little = set(limits.soft + (1 << 20)).unwrap();
    let much = set(limits.hard).unwrap();
    assert!(much.nanos_per_byte > little.nanos_per_byte, "{much:?}");
    assert_eq!((little.cause, much.cause), (Cause::Garbage, Cause::Garbage));
    let (_, cause) = pressure.owe(1 << 20, 0).unwrap();
    assert_eq!(cause, StallCause::Garbage);
}

/// Jobs rest less and less before garbage holds anybody back. If it were asked for only from there on, they would hear of it too late.
#[test]
fn garbage_is_known_before_it_holds_anybody_back() {
    let (_, engine) = on_disk(false);
    let limits = collect::limits(1 << 30, Allowance::at_rest(130));
    let gauge = Gauge::new(64 << 20, Due::of(&Options::default()));
    let of = |garbage: u64| {
        let mut behind = engine.inner.common.compactions.behind();
        behind.garbage_bytes = garbage;
        behind.garbage_limits = limits;
        let debt = Debt {
            garbage_bytes: engine.inner.pressure.garbage_to_wait_for(&behind),
            ..Debt::default()
        };
        gauge.need(&debt, PM, (None, limits), (0, 0))
    };
    assert!(of(limits.soft / 2) <= 0.0);
    let need = of(limits.soft / 10 * 9);
    assert!(0.1 < need && need < 0.9, "{need}");
}

#[test]
fn the_disk_alone_holds_writers_back_from_twice_its_reserve_on() {
    let pressure = Gauge::new(0, Due::of(&Options::default()));
    let limits = Limits {
        soft: 800,
        hard: 900,
    };
    let set = |disk_bytes: u64, full: bool| {
        let debt = Debt {
            disk_bytes,
            ..Debt::default()
        };
        pressure.set(&debt, PM, (Some(limits), Limits::NONE), full);
        pressure.get()
    };
    assert_eq!(set(800, false), None);
    let little = set(850, false).unwrap();
    let much = set(890, true).unwrap();
    assert!(much.nanos_per_byte > little.nanos_per_byte, "{much:?}");
    assert_eq!(
        (little.cause, much.cause),
        (Cause::DiskRoom, Cause::DiskRoom)
    );
    let (_, cause) = pressure.owe(1 << 20, 0).unwrap();
    assert_eq!(cause, StallCause::DiskRoom);
}
