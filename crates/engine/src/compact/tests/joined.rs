//! Small blob files are joined, whoever reads, and whatever ends meanwhile.

use std::collections::BTreeMap;

use thermocline_base::FileId;
use thermocline_policy::collect::small::is_small;
use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::SMALL_FILES;

use super::collect::{ALL, CF, apart, counted, jobs_for};
use super::*;
use crate::Family;

/// Tables of all keys, or of many.
fn options() -> Options {
    let mut options = apart();
    options.compaction.table_bytes = 64 << 10;
    options.compaction.base_bytes = 256 << 10;
    options.compaction.level0_tables = 2;
    options
}

fn key(n: usize) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

/// Flushes that each leave a small file: there are never more than so many, and each value moves once or twice.
#[test]
fn files_of_many_flushes_are_few_and_their_values_move_a_few_times() {
    let machine = Machine::new(PM);
    let options = options();
    let engine = open(&machine, &options);
    let (mut model, mut written) = (Model::new(), BTreeMap::<FileId, u64>::new());
    let is_small = |live: u64| is_small(live, options.blob.file_bytes);
    for n in 0..300usize {
        for n in [n, n + 300] {
            let value = vec![n.to_le_bytes()[0]; 100];
            put(&engine, CF, &key(7 * n % 600), &value);
            model.insert(key(7 * n % 600), value);
        }
        flush(&engine);
        let mut jobs = 0;
        loop {
            let files = counted(&engine);
            written.extend(files.iter().map(|of| (of.file, of.bytes)));
            if !engine.compact_once().unwrap() {
                break;
            }
            jobs += 1;
            assert!(jobs < 100, "it goes on and on");
        }
        let files = counted(&engine);
        let small = files.iter().filter(|of| is_small(of.live)).count();
        // Those of level 0 are left to the next compaction.
        assert!(small <= SMALL_FILES + 2, "{small} after {n}");
        assert!(files.iter().all(|of| of.live == of.bytes), "{files:?}");
    }
    assert!(jobs_for(&engine, Reason::Garbage) > 0);
    assert!(written.len() > 300);
    let bytes: u64 = written.values().sum();
    assert!(bytes <= 3 * 600 * 100, "{bytes}");
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    let models = [model];
    check_now(&engine, &[Family::DEFAULT], &models, &keys);
    check_now(
        &open(&machine.killed(), &options),
        &[Family::DEFAULT],
        &models,
        &keys,
    );
}

/// Where users have all values left where they are, nobody moves them for this.
#[test]
fn nothing_is_joined_where_all_stays() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.blob.space_percent_max = 1_000_000;
    let engine = open(&machine, &options);
    for n in 0..100 {
        put(&engine, CF, &key(n), &[1; 100]);
        flush(&engine);
        while engine.compact_once().unwrap() {}
    }
    assert_eq!(counted(&engine).len(), 100);
    assert_eq!(jobs_for(&engine, Reason::Garbage), 0);
}

/// Overwrites, deletes, snapshots, and processes that end between two jobs of those that join the same files. Returns how often some files
/// were joined in part.
fn story(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let mut options = options();
    if seed.is_multiple_of(2) {
        options.compaction.table_bytes = 4 << 10;
    }
    options.blob.file_bytes = *rng.pick(&[4 << 10, 64 << 10]);
    options.blob.space_percent_max = *rng.pick(&[110, 130, 200]);
    let mut machine = Machine::new(PM);
    let mut engine = open(&machine, &options);
    let keys: Vec<Vec<u8>> = (0..1000).map(key).collect();
    let mut model = Model::new();
    let mut held: Vec<(Snapshot, Model)> = Vec::new();
    let mut in_part = 0;
    for round in 0..250usize {
        for _ in 0..=rng.below(3) {
            let key = rng.pick(&keys).clone();
            if rng.one_in(20) {
                delete(&engine, CF, &key);
                model.remove(&key);
                continue;
            }
            let value = vec![round.to_le_bytes()[0]; 100 + rng.below(50)];
            put(&engine, CF, &key, &value);
            model.insert(key, value);
        }
        flush(&engine);
        let mut left = match rng.one_in(10) {
            true => rng.below(4),
            false => 1000,
        };
        let is_cut = left < 1000;
        while left > 0 && engine.compact_once().unwrap() {
            left -= 1;
            assert!(is_cut || left > 0, "it goes on and on");
            let joining = engine.inner.common.compactions.joining();
            in_part += u64::from(!joining.is_empty());
        }
        if is_cut {
            held.clear();
            let killed = machine.killed();
            let report = crate::verify(&killed.world(), Path::new("/db"), &options).unwrap();
            assert!(report.faults.is_empty(), "{:?}", report.faults);
            drop(engine);
            machine = killed;
            engine = open(&machine, &options);
        }
        match rng.below(30) {
            0 => held.push((engine.snapshot(), model.clone())),
            1 if !held.is_empty() => drop(held.remove(rng.below(held.len()))),
            2 => {
                counted(&engine);
                let models = std::slice::from_ref(&model);
                check_now(&engine, &[Family::DEFAULT], models, &keys);
                for (snapshot, model) in &held {
                    let models = std::slice::from_ref(model);
                    check_then(snapshot, &[Family::DEFAULT], models, &keys);
                }
            }
            _ => {}
        }
    }
    held.clear();
    let models = std::slice::from_ref(&model);
    check_now(&engine, &[Family::DEFAULT], models, &keys);
    for key in &keys {
        delete(&engine, CF, key);
    }
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    assert_eq!(machine.blob_files(), Vec::<String>::new());
    in_part
}

#[test]
fn files_are_joined_whoever_reads_and_whatever_ends() {
    let mut in_part = 0;
    for seed in seeds(0..explored(4, 8)) {
        let _replay = Replay::new("-p thermocline-engine files_are_joined_whoever", seed);
        in_part += story(seed);
    }
    assert!(in_part > 0 || seeds(0..2).len() == 1);
}
