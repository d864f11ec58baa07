//! Every call of a compaction fails, once and for ever: it works or it is an error, everything is as
//! before or as after, and what follows finds it so.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::{ErrorKind, Steps};
use thermocline_env::Env;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

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

/// Level 0 with much to merge, and tombstones.
fn prepare(engine: &Engine, model: &mut Model) {
    let cf = CfId::DEFAULT;
    for round in 0..4u64 {
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

fn compact(engine: &Engine) -> thermocline_base::Result<()> {
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
fn files(world: &World) -> usize {
    let names = world.env.storage.list(Path::new("/db")).unwrap();
    let ends = |name: &&String| name.ends_with(".sst") || name.ends_with(".blob");
    names.iter().filter(ends).count()
}

/// What is compacted.
#[derive(Clone, Copy)]
struct Work {
    options: fn() -> Options,
    prepare: fn(&Engine, &mut Model),
}

const IN_TABLES: Work = Work {
    options: tiny,
    prepare,
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
};

fn with_fault(work: Work, (fault, op): (Fault, Option<Op>), at: u64, repeat: Repeat) -> bool {
    let faulty = Faulty::new();
    let engine = Engine::open(faulty.world(), Path::new("/db"), (work.options)()).unwrap();
    let mut model = Model::new();
    (work.prepare)(&engine, &mut model);
    faulty.disk.arm(Plan {
        fault,
        op,
        at: faulty.disk.calls_for(fault, op) + at,
        repeat,
    });
    let failed = compact(&engine).is_err();
    faulty.disk.disarm();
    check(&engine, &model);
    let poisoned = engine.inner.common.poison.check().is_err();
    if !poisoned {
        // Whatever failed, it goes on.
        compact(&engine).unwrap();
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
    compact(&again).unwrap();
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
    each_call_fails(IN_TABLES, false);
}

#[test]
fn whatever_fails_of_a_collection_nothing_is_lost() {
    each_call_fails(APART, true);
}

fn each_call_fails(work: Work, collects: bool) {
    let healthy = Faulty::new();
    let engine = Engine::open(healthy.world(), Path::new("/db"), (work.options)()).unwrap();
    let mut model = Model::new();
    (work.prepare)(&engine, &mut model);
    let mut runs = BTreeMap::new();
    let calls = |op| healthy.disk.calls_of(op);
    let before = Op::ALL.map(calls);
    compact(&engine).unwrap();
    let after = Op::ALL.map(calls);
    check(&engine, &model);
    assert_eq!(collected(&engine) > 0, collects);
    for (n, op) in Op::ALL.into_iter().enumerate() {
        let calls = after[n] - before[n];
        for at in 0..calls {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let failed = with_fault(work, (Fault::Eio, Some(op)), at, repeat);
                // A piece of values that move may be read once more, value by value.
                if collects && op == Op::Read && repeat == Repeat::Once {
                    continue;
                }
                let (all, failures) = runs.entry(op).or_insert((0, 0));
                *all += 1;
                *failures += u64::from(failed);
            }
        }
    }
    println!("runs and failures by call: {runs:?}");
    for op in [
        Op::Open,
        Op::Create,
        Op::SyncDir,
        Op::Read,
        Op::Write,
        Op::Sync,
    ] {
        let (all, failures) = runs.get(&op).copied().unwrap_or_default();
        assert!(all > 0 && failures == all, "{op:?}: {failures} of {all}");
    }
    assert!(runs.contains_key(&Op::Remove));
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
    let engine = Engine::open(healthy.world(), Path::new("/db"), (work.options)()).unwrap();
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
    compact(&engine).unwrap();
    let flips = calls(Fault::FlipBit(0), Some(Op::Read)) - flips;
    for at in 0..flips {
        let flip = (Fault::FlipBit(at * 977), Some(Op::Read));
        with_fault(work, flip, at, Repeat::Once);
    }
    for ((fault, op), before) in faults.into_iter().zip(before) {
        let count = calls(fault, op) - before;
        assert!(count > 0, "{fault:?}");
        for at in 0..count {
            with_fault(work, (fault, op), at, Repeat::Once);
            with_fault(work, (fault, op), at, Repeat::Forever);
        }
    }
}
