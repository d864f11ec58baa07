//! Jobs in parts, against a plain map: with range tombstones, snapshots and versions on both sides of cuts.

use std::collections::BTreeMap;

use thermocline_base::WriteBatch;

use super::*;
use crate::{Durability, Family};

fn delete_range(engine: &Engine, model: &mut Model, (from, to): (&[u8], &[u8])) {
    let mut batch = WriteBatch::new();
    batch.delete_range(CfId::DEFAULT, from, Some(to)).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    model.retain(|key, _| &key[..] < from || &key[..] >= to);
}

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
    for seed in seeds(0..12) {
        let _replay = Replay::new("-p thermocline-engine jobs_in_parts_come_to", seed);
        for (scheduler, divided) in Scheduler::ALL.into_iter().zip(&mut divided) {
            *divided += story(scheduler, seed);
        }
    }
    let [whole, coroutines, stages] = divided;
    assert_eq!(whole, 0);
    assert!(coroutines > 40 && stages > 40, "{divided:?}");
}
