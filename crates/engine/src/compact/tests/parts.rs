//! Jobs in parts, against a plain map: with range tombstones, snapshots and versions on both sides of cuts.

use std::collections::BTreeMap;
use std::ops::Bound;

use thermocline_base::{ErrorKind, Steps};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

use super::*;
use crate::Family;
use crate::flush::tests::delete_range;

/// What jobs were divided into: parts beside the first one, of all jobs.
fn compact_all(engine: &Engine) -> usize {
    let compactor = &engine.inner.compactor;
    let mut more = 0;
    while let Some(job) = compactor.picker.take_due() {
        more += compactor.parts_of(&job) - 1;
        compactor.run(job).unwrap();
    }
    more
}

/// Runs a random history; how many parts there were beside the first ones.
fn story(scheduler: Scheduler, seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let machine = Machine::new(PM);
    let mut options = tiny();
    apart(&mut options, &mut rng);
    options.compaction.level0_tables = 1 + rng.below(3) as u64;
    options.compaction.table_bytes = 1 << 10;
    options.compaction.scheduler = scheduler;
    options.compaction.io_depth = *rng.pick(&[4, 8, 12, 32]);
    let engine = open(&machine, &options);
    let keys: Vec<Vec<u8>> = (0..600u64)
        .map(|n| (n << 8).to_be_bytes().to_vec())
        .collect();
    let (mut model, mut held, mut more): (Model, Vec<(Snapshot, Model)>, _) =
        (BTreeMap::new(), Vec::new(), 0);
    for n in 0..4000 {
        let key = rng.pick(&keys).clone();
        match rng.below(60) {
            0 => {
                let mut to = rng.pick(&keys).clone();
                // Not always at a key that is there.
                to[7] = u8::from(rng.one_in(2));
                let (from, to) = (key.clone().min(to.clone()), key.max(to));
                delete_range(&engine, &mut model, (&from, &to));
            }
            1..6 => {
                delete(&engine, CfId::DEFAULT, &key);
                model.remove(&key);
            }
            _ => {
                let value = vec![u8::try_from(n % 251).unwrap(); 20 + rng.below(60)];
                put(&engine, CfId::DEFAULT, &key, &value);
                model.insert(key, value);
            }
        }
        if rng.one_in(700) {
            held.push((engine.snapshot(), model.clone()));
        }
        if n % 400 == 399 {
            flush(&engine);
            more += compact_all(&engine);
            let families = [Family::DEFAULT];
            check_now(&engine, &families, &[model.clone()], &keys);
            for (snapshot, then) in &held {
                check_then(snapshot, &families, std::slice::from_ref(then), &keys);
            }
            if rng.one_in(3) {
                held.clear();
            }
        }
    }
    drop(held);
    engine.close().unwrap();
    let report = crate::verify(&machine.world(), Path::new("/db"), &options).unwrap();
    assert!(report.faults.is_empty(), "{:?}", report.faults);
    more
}

#[test]
fn jobs_in_parts_come_to_what_whole_jobs_come_to() {
    let mut divided = [0; 3];
    for seed in seeds(0..explored(2, 6)) {
        let _replay = Replay::new("-p thermocline-engine jobs_in_parts_come_to", seed);
        for (scheduler, divided) in Scheduler::ALL.into_iter().zip(&mut divided) {
            *divided += story(scheduler, seed);
        }
    }
    let [whole, coroutines, stages] = divided;
    assert_eq!(whole, 0);
    let least = usize::try_from(explored(2, 20)).unwrap();
    assert!(coroutines > least && stages > least, "{divided:?}");
}

/// With threads, where parts wait for the device and for each other, and reads and writes that fail.
fn threaded(scheduler: Scheduler, seed: u64) {
    let mut rng = Rng::new(seed);
    let disk = FaultStorage::over_sim(SimFs::new(Steps::new()));
    let world = World {
        env: Env {
            storage: Arc::new(disk.clone()),
            ..Env::simulated(SimFs::new(Steps::new()), 7)
        },
        sim: Some(SimPm::new(PM, Steps::new())),
        shadow: None,
        background: true,
    };
    let mut options = tiny();
    apart(&mut options, &mut rng);
    options.compaction.table_bytes = 1 << 10;
    options.compaction.scheduler = scheduler;
    options.compaction.io_depth = 1024;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let keys: Vec<Vec<u8>> = (0..600u64).map(|n| n.to_be_bytes().to_vec()).collect();
    let mut model = Model::new();
    let families = [Family::DEFAULT];
    let compact = || engine.compact(CfId::DEFAULT, (Bound::Unbounded, Bound::Unbounded));
    for round in 0..6u8 {
        for n in 0..400u64 {
            let key = rng.pick(&keys).clone();
            let value = vec![round; 20 + usize::try_from(n % 60).unwrap()];
            put(&engine, CfId::DEFAULT, &key, &value);
            model.insert(key, value);
        }
        engine.flush().unwrap();
        let op = *rng.pick(&[Op::Read, Op::Write]);
        disk.arm(Plan {
            fault: Fault::Eio,
            op: Some(op),
            at: disk.calls_for(Fault::Eio, Some(op)) + rng.below(60) as u64,
            repeat: *rng.pick(&[Repeat::Once, Repeat::Forever]),
        });
        // It fails, or a job beside it does, or a read ahead that is made anew.
        let tried = compact().map_err(|error| error.kind());
        let kinds = [Ok(()), Err(ErrorKind::Io), Err(ErrorKind::Poisoned)];
        assert!(kinds.contains(&tried), "{tried:?}");
        disk.disarm();
        let again = compact().map_err(|error| error.kind());
        check_now(&engine, &families, std::slice::from_ref(&model), &keys);
        if again == Err(ErrorKind::Poisoned) {
            // It was a write of the manifest that failed.
            return;
        }
        assert_eq!(again, Ok(()));
    }
    engine.close().unwrap();
}

#[test]
fn parts_that_wait_for_the_device_come_to_the_same_and_fail_as_whole_jobs_do() {
    for seed in seeds(0..8) {
        let _replay = Replay::new("-p thermocline-engine parts_that_wait", seed);
        for scheduler in Scheduler::ALL {
            threaded(scheduler, seed);
        }
    }
}
