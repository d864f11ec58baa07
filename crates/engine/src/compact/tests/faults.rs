//! Every call of a compaction fails, once and for ever: it works or it is an error, everything is as
//! before or as after, and what follows finds it so. So do calls of a job in parts, and of flushes that take along what lies
//! below them.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::options::Shape;
use thermocline_base::{ErrorKind, Result, Steps};
use thermocline_env::Env;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_testkit::explore::one_in;

use super::*;
use crate::flush::tests::get;
use crate::tests::version_of;
use crate::{Family, World};

struct Faulty {
    fs: SimFs,
    pm: SimPm,
    disk: FaultStorage,
}

impl Faulty {
    fn new() -> Faulty {
        let fs = SimFs::new(Steps::new());
        Faulty {
            pm: SimPm::new(PM, Steps::new()),
            disk: FaultStorage::over_sim(fs.clone()),
            fs,
        }
    }

    fn world(&self) -> World {
        World {
            env: Env {
                storage: Arc::new(self.disk.clone()),
                ..Env::simulated(SimFs::new(Steps::new()), 7)
            },
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        }
    }

    fn open(&self, work: Work) -> Engine {
        Engine::open(self.world(), Path::new("/db"), (work.options)()).unwrap()
    }

    /// Healthy, after the process was killed.
    fn killed(&self) -> World {
        let steps = Steps::new();
        World {
            env: Env::simulated(self.fs.image_killed(steps.clone()), 8),
            sim: Some(self.pm.fork(steps)),
            shadow: None,
            background: false,
        }
    }
}

/// Writes most of the keys, and deletes the others.
fn write(engine: &Engine, model: &mut Model, round: u64) {
    let cf = CfId::DEFAULT;
    for n in 0..60u64 {
        let key = (n * 7 % 60).to_be_bytes().to_vec();
        match (n + round) % 5 {
            0 => {
                delete(engine, cf, &key);
                model.remove(&key);
            }
            _ => {
                let value = vec![(n + round).to_le_bytes()[0]; 60];
                put(engine, cf, &key, &value);
                model.insert(key, value);
            }
        }
    }
}

/// Level 0 with much to merge, and tombstones.
fn prepare(engine: &Engine, model: &mut Model) {
    let cf = CfId::DEFAULT;
    for round in 0..4 {
        write(engine, model, round);
        flush(engine);
    }
    // Alone, so that it is moved.
    for n in 1000..1030u64 {
        let key = n.to_be_bytes().to_vec();
        put(engine, cf, &key, &[9; 60]);
        model.insert(key, vec![9; 60]);
    }
    flush(engine);
}

fn compact(engine: &Engine) -> Result<()> {
    while engine.compact_once()? {}
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    engine.compact(CfId::DEFAULT, all)?;
    // What came of that.
    while engine.compact_once()? {}
    Ok(())
}

fn check(engine: &Engine, model: &Model) {
    let keys: Vec<Vec<u8>> = (0..60u64).map(|n| n.to_be_bytes().to_vec()).collect();
    check_now(
        engine,
        &[Family::DEFAULT],
        std::slice::from_ref(model),
        &keys,
    );
}

/// Tables and blob files.
pub(super) fn files(world: &World) -> usize {
    let names = world.env.storage.list(Path::new("/db")).unwrap();
    let ends = |name: &&String| name.ends_with(".sst") || name.ends_with(".blob");
    names.iter().filter(ends).count()
}

/// Flushes what is sealed, and compacts.
fn flush_and_compact(engine: &Engine) -> Result<()> {
    engine.inner.flusher.flush_sealed(Extent::All)?;
    compact(engine)
}

/// What is done while something fails.
#[derive(Clone, Copy)]
struct Work {
    options: fn() -> Options,
    prepare: fn(&Engine, &mut Model),
    run: fn(&Engine) -> Result<()>,
    /// How much of what it is about was done.
    done: fn(&Engine) -> u64,
    /// Kinds of calls that it makes.
    calls: &'static [Op],
    /// Whether it may work all the same if a call of this kind fails.
    bears: fn(Op, Repeat) -> bool,
    /// In a plain run one call in so many fails.
    part: u64,
}

/// Calls of a compaction.
const COMPACTION: &[Op] = &[
    Op::Open,
    Op::Create,
    Op::SyncDir,
    Op::Read,
    Op::Write,
    Op::Sync,
    Op::Remove,
];

/// Calls of a flush that takes along what lies below.
const FLUSH: &[Op] = &[Op::Create, Op::SyncDir, Op::Read, Op::Write, Op::Sync];

const IN_TABLES: Work = Work {
    options: tiny,
    prepare,
    run: compact,
    done: |engine| {
        let levels = engine.metrics().compaction.levels;
        levels.iter().map(|level| level.jobs).sum()
    },
    calls: COMPACTION,
    // What nobody needs any more can be removed later.
    bears: |op, _| op == Op::Remove || !COMPACTION.contains(&op),
    part: 1,
};

/// Jobs in parts.
const IN_PARTS: Work = Work {
    options: || {
        let mut options = tiny();
        options.compaction.table_bytes = 1 << 10;
        // However many threads there are.
        options.compaction.io_depth = 1024;
        options
    },
    part: 16,
    ..IN_TABLES
};

/// A flush of which each range is merged with what the base level has, and goes to level 0 if that fails.
const SINKING: Work = Work {
    options: || {
        let mut options = tiny();
        options.level0.shape = Some(Shape::Immutables);
        options.level0.evacuation_threads = 2;
        options.flush.automatic = false;
        options.flush.rewrite_ratio = 0;
        options.compaction.levels = 2;
        options.compaction.dynamic = false;
        options
    },
    prepare: |engine, model| {
        write(engine, model, 0);
        flush(engine);
        assert_eq!(levels(engine)[0], 0);
        write(engine, model, 1);
        engine.inner.memtables.seal_active().unwrap();
    },
    run: flush_and_compact,
    done: |engine| engine.metrics().ranges_ahead,
    calls: FLUSH,
    // It goes to level 0 then.
    bears: |op, repeat| repeat == Repeat::Once || !FLUSH.contains(&op),
    part: 16,
};

/// A flush of which each range leaves persistent memory with what lies there, over files.
const LEAVING: Work = Work {
    options: || {
        let mut options = tiny();
        options.level0.shape = Some(Shape::Tiered);
        options.level0.merge_percent = 0;
        options.flush.automatic = false;
        options
    },
    prepare: |engine, model| {
        write(engine, model, 0);
        flush(engine);
        compact(engine).unwrap();
        write(engine, model, 1);
        flush(engine);
        assert!(version_of(engine).pm_table_count() > 0);
        engine.inner.common.compactions.costs.bypass_always();
        write(engine, model, 2);
        engine.inner.memtables.seal_active().unwrap();
    },
    run: flush_and_compact,
    done: |engine| engine.metrics().ranges_along,
    calls: FLUSH,
    // It stays then, or goes to level 0.
    bears: |op, repeat| repeat == Repeat::Once || !FLUSH.contains(&op),
    part: 16,
};

/// Values that lie apart, in files that are collected.
const APART: Work = Work {
    options: || {
        let mut options = tiny();
        options.blob.value_bytes_min = 100;
        options.blob.file_bytes = 2 << 10;
        options.blob.compression = Codec::None;
        options.blob.space_percent_max = 101;
        options
    },
    done: collected,
    // A piece of values that move may be read once more, value by value.
    bears: |op, repeat| (IN_TABLES.bears)(op, repeat) || op == Op::Read && repeat == Repeat::Once,
    prepare: |engine, model| {
        for round in 0..2u64 {
            for n in (0..30u64).filter(|n| round == 0 || n % 5 == 0) {
                let value = vec![(n + round).to_le_bytes()[0]; 120];
                put(engine, CfId::DEFAULT, &n.to_be_bytes(), &value);
                model.insert(n.to_be_bytes().to_vec(), value);
            }
            flush(engine);
        }
    },
    ..IN_TABLES
};

fn with_fault(work: Work, (fault, op): (Fault, Option<Op>), at: u64, repeat: Repeat) -> bool {
    let faulty = Faulty::new();
    let engine = faulty.open(work);
    let mut model = Model::new();
    (work.prepare)(&engine, &mut model);
    faulty.disk.arm(Plan {
        fault,
        op,
        at: faulty.disk.calls_for(fault, op) + at,
        repeat,
    });
    let failed = (work.run)(&engine).is_err();
    faulty.disk.disarm();
    check(&engine, &model);
    let poisoned = engine.inner.common.poison.check().is_err();
    if !poisoned {
        // Whatever failed, it goes on.
        (work.run)(&engine).unwrap();
        check(&engine, &model);
        assert_eq!(levels(&engine)[0], 0);
        // Nothing is left of what failed.
        engine.reclaim().unwrap();
        let version = version_of(&engine);
        assert_eq!(version.file_count(), files(&faulty.world()));
    }
    let world = faulty.killed();
    let again = Engine::open(world.clone(), Path::new("/db"), (work.options)()).unwrap();
    check(&again, &model);
    let version = again.inner.common.catalog.view().tables.version().clone();
    assert_eq!(version.file_count(), files(&world));
    assert_eq!(get(&again, b"no such key"), None);
    (work.run)(&again).unwrap();
    check(&again, &model);
    if poisoned {
        let error = engine.compact_once().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
    }
    failed
}

fn collected(engine: &Engine) -> u64 {
    let reasons = engine.metrics().compaction.reasons;
    let of = reasons
        .iter()
        .find(|(reason, _)| reason.name() == "garbage");
    of.map_or(0, |(_, jobs)| *jobs)
}

#[test]
fn whatever_fails_nothing_is_lost() {
    each_call_fails(IN_TABLES);
}

#[test]
fn whatever_fails_of_a_collection_nothing_is_lost() {
    each_call_fails(APART);
}

#[test]
fn each_fault_of_jobs_in_parts_loses_nothing() {
    let healthy = Faulty::new();
    let engine = healthy.open(IN_PARTS);
    prepare(&engine, &mut Model::new());
    let compactor = &engine.inner.compactor;
    let job = compactor.picker.take_due().expect("level 0 has much");
    assert!(compactor.parts_of(&job) > 1);
    drop(job);
    each_call_fails(IN_PARTS);
    each_call_falls_short(IN_PARTS);
}

#[test]
fn each_fault_of_flushes_that_sink_loses_nothing() {
    each_call_fails(SINKING);
    each_call_falls_short(SINKING);
}

#[test]
fn each_fault_of_ranges_that_leave_persistent_memory_loses_nothing() {
    each_call_fails(LEAVING);
    each_call_falls_short(LEAVING);
}

/// Which of so many calls fail, each in a run of its own.
fn tried(work: Work, calls: u64) -> impl Iterator<Item = u64> {
    (0..calls).step_by(usize::try_from(one_in(work.part)).unwrap())
}

fn each_call_fails(work: Work) {
    let healthy = Faulty::new();
    let engine = healthy.open(work);
    let mut model = Model::new();
    (work.prepare)(&engine, &mut model);
    let mut runs = BTreeMap::new();
    let calls = |op| healthy.disk.calls_of(op);
    let before = (Op::ALL.map(calls), (work.done)(&engine));
    (work.run)(&engine).unwrap();
    let after = Op::ALL.map(calls);
    assert!((work.done)(&engine) > before.1);
    check(&engine, &model);
    for (n, op) in Op::ALL.into_iter().enumerate() {
        for at in tried(work, after[n] - before.0[n]) {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let failed = with_fault(work, (Fault::Eio, Some(op)), at, repeat);
                let (all, borne) = runs.entry(op).or_insert((0, 0));
                *all += 1;
                *borne += u64::from(!failed);
                assert!(
                    failed || (work.bears)(op, repeat),
                    "{op:?} {at}, {repeat:?}"
                );
            }
        }
    }
    println!("runs by call, and those that worked all the same: {runs:?}");
    for op in work.calls {
        assert!(runs.contains_key(op), "{op:?}");
    }
}

#[test]
fn bits_and_short_transfers_and_space_that_ends_are_no_harm() {
    each_call_falls_short(IN_TABLES);
}

#[test]
fn bits_and_short_transfers_and_space_that_ends_are_no_harm_to_a_collection() {
    each_call_falls_short(APART);
}

fn each_call_falls_short(work: Work) {
    let healthy = Faulty::new();
    let engine = healthy.open(work);
    (work.prepare)(&engine, &mut Model::new());
    let calls = |fault, op| healthy.disk.calls_for(fault, op);
    let faults = [
        (Fault::ShortRead(100), Some(Op::Read)),
        (Fault::NoSpace, None),
        (Fault::ShortWrite(7), None),
        (Fault::SyncKept, None),
        (Fault::SyncDropped, None),
    ];
    let flips = calls(Fault::FlipBit(0), Some(Op::Read));
    let before = faults.map(|(fault, op)| calls(fault, op));
    (work.run)(&engine).unwrap();
    let flips = calls(Fault::FlipBit(0), Some(Op::Read)) - flips;
    for at in tried(work, flips) {
        let flip = (Fault::FlipBit(at * 977), Some(Op::Read));
        with_fault(work, flip, at, Repeat::Once);
    }
    for ((fault, op), before) in faults.into_iter().zip(before) {
        let count = calls(fault, op) - before;
        assert!(count > 0, "{fault:?}");
        for at in tried(work, count) {
            with_fault(work, (fault, op), at, Repeat::Once);
            with_fault(work, (fault, op), at, Repeat::Forever);
        }
    }
}
