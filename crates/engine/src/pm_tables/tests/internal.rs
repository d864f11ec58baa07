//! Internal compaction: what is read stays the same, what nobody needs goes, and no more room is taken than may be.

use std::sync::Arc;

use thermocline_base::filter::{CompactionFilter, Entry, Verdict};
use thermocline_base::options::{Costs, PartitionBy};
use thermocline_base::planted::{Bug, plant};
use thermocline_env::Env;
use thermocline_env::simulated::SimClock;
use thermocline_policy::pick::{Reason, level0_slices};
use thermocline_testkit::explore::{explored, times};
use thermocline_version::Level;

use super::*;
use crate::compact::shape::Levels;
use crate::flush::tests::{check_now, check_then};
use crate::sync::{Mutex, lock};
use crate::{Runtime, Setup, World};

const LARGE: u64 = 8 << 20;

/// Of each slice of level 0 that lies in persistent memory how many tables a read may have to ask.
fn runs(engine: &Engine, cf: CfId) -> Vec<usize> {
    let version = engine.inner.common.catalog.version();
    let levels = Levels::of(&version, cf, None);
    let slices = level0_slices(&levels.state(&[])).into_iter();
    let slices = slices.filter(|slice| slice.on_top);
    slices.map(|slice| slice.runs).collect()
}

fn merges(engine: &Engine) -> u64 {
    let counted = engine.metrics().compaction;
    let internal = counted.reasons.iter().find(|(r, _)| *r == Reason::Internal);
    assert_eq!(internal.unwrap().1, counted.internal.jobs);
    counted.internal.jobs
}

fn delete_range(engine: &Engine, cf: CfId, from: &[u8], to: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.delete_range(cf, from, Some(to)).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

/// Nothing is due by itself.
fn by_hand(options: &mut Options) {
    options.flush.automatic = false;
    options.level0.internal = Costs::Off;
}

/// Whatever is written, deleted, held, merged and opened again, all reads stay as a model says.
#[test]
fn reads_stay_as_they_were() {
    let mut in_parts = 0;
    for seed in seeds(0..explored(3, 12)) {
        let _replay = Replay::new("-p thermocline-engine internal::reads_stay", seed);
        let mut rng = Rng::new(seed);
        let machine = Machine::new(PM);
        let mut own = options();
        own.compaction.table_bytes = (1 + rng.below(16) as u64) << 10;
        own.level0.pm_percent = 20 + rng.below(60) as u64;
        own.blob.inline_bytes_max = *rng.pick(&[150, 1 << 20]);
        own.partition.by = *rng.pick(&PartitionBy::ALL[..3]);
        own.partition.prefix_len = 1;
        own.partition.rate_sample = 1;
        own.level0.internal = *rng.pick(&Costs::ALL);
        let open = || Engine::open(machine.world(), Path::new("/db"), own.clone()).unwrap();
        let mut engine = open();
        let other = engine.family("other", &CfOptions::default()).unwrap();
        let families = [ALL, other];
        let keys: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n % 7, n]).collect();
        let mut models = [Model::new(), Model::new()];
        let mut held = Vec::new();
        for step in 0..60u32 {
            for n in 0..rng.below(60) {
                let f = usize::from(rng.one_in(4));
                let (cf, key) = (families[f].id, rng.pick(&keys).clone());
                match rng.below(12) {
                    0..3 => {
                        delete(&engine, cf, &key);
                        models[f].remove(&key);
                    }
                    3 if n % 3 == 0 => {
                        let to = rng.pick(&keys).clone();
                        let (from, to) = (key.clone().min(to.clone()), key.max(to));
                        if from < to {
                            delete_range(&engine, cf, &from, &to);
                            models[f].retain(|k, _| *k < from || *k >= to);
                        }
                    }
                    _ => {
                        let value = vec![step.to_le_bytes()[0]; rng.below(900)];
                        put(&engine, cf, &key, &value);
                        models[f].insert(key, value);
                    }
                }
            }
            // So that they do not hold all there is.
            let space = engine.metrics().space;
            if space.limit_bytes - space.attached_bytes < PM / 3 {
                held.clear();
            }
            match rng.below(12) {
                0..6 => drop(engine.flush().unwrap()),
                6..9 => {
                    let family = *rng.pick(&families);
                    let before = merges(&engine);
                    match engine.compact_level0(family.id) {
                        Ok(()) => assert!(runs(&engine, family.id).iter().all(|runs| *runs == 1)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}"),
                    }
                    in_parts += usize::from(merges(&engine) > before + 1);
                }
                9 if held.len() < 3 => {
                    let cursor = engine.cursor(ALL).unwrap();
                    held.push((engine.snapshot(), cursor, models.clone()));
                }
                9 => {
                    let (snapshot, cursor, models) = held.swap_remove(rng.below(held.len()));
                    check_then(&snapshot, &families, &models, &keys);
                    check_cursor(cursor, &models[0]);
                }
                10 => drop(engine.compact(CfId::DEFAULT, (Unbounded, Unbounded))),
                _ => {
                    held.clear();
                    engine.close().unwrap();
                    engine = open();
                }
            }
            check_now(&engine, &families, &models, &keys);
        }
        for (snapshot, _, models) in &held {
            check_then(snapshot, &families, models, &keys);
        }
        drop(held);
        engine.close().unwrap();
        let report = crate::verify(&machine.world(), Path::new("/db"), &own).unwrap();
        assert_eq!(report.faults, vec![]);
    }
    let least = times().map_or(0, |_| 2);
    assert!(in_parts > least, "{in_parts}");
}

#[test]
fn what_nobody_needs_goes_and_what_a_snapshot_needs_stays() {
    let machine = Machine::new(PM);
    let mut own = options();
    by_hand(&mut own);
    let engine = Engine::open(machine.world(), Path::new("/db"), own).unwrap();
    let mut then = Model::new();
    let mut held = None;
    for round in 0..6u8 {
        for n in 0..100u8 {
            put(&engine, CfId::DEFAULT, &[n], &[round; 300]);
        }
        engine.flush().unwrap();
        if round == 2 {
            then.extend((0..100u8).map(|n| (vec![n], vec![round; 300])));
            held = Some((engine.snapshot(), engine.cursor(ALL).unwrap()));
        }
    }
    assert!(runs(&engine, CfId::DEFAULT).iter().all(|runs| *runs == 6));
    let before = engine.inner.common.pm_tables_use();
    engine.compact_level0(CfId::DEFAULT).unwrap();
    assert!(runs(&engine, CfId::DEFAULT).iter().all(|runs| *runs == 1));
    let (snapshot, cursor) = held.take().unwrap();
    check_cursor(snapshot.cursor(ALL).unwrap(), &then);
    check_cursor(cursor, &then);
    let internal = engine.metrics().compaction.internal;
    assert_eq!(internal.entries_dropped, 400, "two of each key stay");
    drop(snapshot);
    // One run has nothing to merge; with another one what the snapshot had kept goes, too.
    engine.compact_level0(CfId::DEFAULT).unwrap();
    assert_eq!(merges(&engine), internal.jobs);
    delete(&engine, CfId::DEFAULT, &[7]);
    put(&engine, CfId::DEFAULT, &[0], b"first");
    put(&engine, CfId::DEFAULT, &[99], b"last");
    engine.flush().unwrap();
    engine.compact_level0(CfId::DEFAULT).unwrap();
    let internal = engine.metrics().compaction.internal;
    assert_eq!(internal.entries_dropped, 400 + 100 + 2 + 2);
    engine.inner.reclaimer.reclaim().unwrap();
    let after = engine.inner.common.pm_tables_use();
    assert!(after.bytes * 3 < before.bytes, "{before:?} {after:?}");
    assert_eq!((after.retired, files(&machine)), (0, 0));
    // Deleted, and nothing lies below.
    for n in 0..100u8 {
        delete(&engine, CfId::DEFAULT, &[n]);
    }
    engine.flush().unwrap();
    engine.compact_level0(CfId::DEFAULT).unwrap();
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(in_pm(&engine), (0, 0));
    let used = engine.metrics().space;
    assert!(used.zones_attached <= 2, "{used:?}");
}

/// What lies on the SSD below is hidden by deletes that stay.
#[test]
fn deletes_stay_above_what_they_hide() {
    let story = || {
        let machine = Machine::new(PM);
        let mut own = options();
        by_hand(&mut own);
        let engine = Engine::open(machine.world(), Path::new("/db"), own).unwrap();
        for n in 0..50u8 {
            put(&engine, CfId::DEFAULT, &[n], b"below");
        }
        engine.flush().unwrap();
        compact_all(&engine);
        delete(&engine, CfId::DEFAULT, &[3]);
        delete_range(&engine, CfId::DEFAULT, &[10], &[20]);
        engine.flush().unwrap();
        put(&engine, CfId::DEFAULT, &[0], b"above");
        put(&engine, CfId::DEFAULT, &[15], b"above");
        put(&engine, CfId::DEFAULT, &[49], b"above");
        engine.flush().unwrap();
        engine.compact_level0(CfId::DEFAULT).unwrap();
        assert!(in_pm(&engine).1 > 0 && files(&machine) > 0);
        let found: Vec<u8> = (0..50).filter(|n| get(&engine, &[*n]).is_some()).collect();
        let left = |n: &u8| *n != 3 && !(10..20).contains(n) || *n == 15;
        found == (0..50).filter(left).collect::<Vec<u8>>()
    };
    assert!(story());
    let _bug = plant(Bug::CompactionForgetsBelow);
    assert!(!story(), "it would be noticed");
}

/// A large slice is merged in parts, each of which takes no more than it was promised; before, between and after
/// them all is as it was.
#[test]
fn a_large_slice_is_merged_in_parts() {
    let story = |machine: &Machine| {
        let mut own = options();
        by_hand(&mut own);
        own.pm = LARGE;
        own.compaction.table_bytes = 64 << 10;
        own.level0.pm_percent = 60;
        let engine = Engine::open(machine.world(), Path::new("/db"), own.clone()).unwrap();
        let mut model = Model::new();
        // A table that overlaps all others.
        for key in [vec![0], vec![u8::MAX, 9]] {
            put(&engine, CfId::DEFAULT, &key, b"end");
            model.insert(key, b"end".to_vec());
        }
        engine.flush().unwrap();
        for round in 0..5u8 {
            for n in 0..=u8::MAX {
                let key = vec![n, round % 3];
                put(&engine, CfId::DEFAULT, &key, &[round; 900]);
                model.insert(key, vec![round; 900]);
            }
            delete_range(&engine, CfId::DEFAULT, &[round * 30], &[round * 30 + 40]);
            model.retain(|k, _| k[0] < round * 30 || k[0] >= round * 30 + 40);
            engine.flush().unwrap();
        }
        let snapshot = engine.snapshot();
        let limit = engine
            .inner
            .common
            .compactions
            .shape
            .geometry()
            .internal_limit()
            .unwrap();
        assert_eq!((runs(&engine, CfId::DEFAULT), files(machine)), (vec![6], 0));
        let mut jobs = 0;
        while runs(&engine, CfId::DEFAULT).iter().any(|runs| *runs > 1) {
            let before = engine.inner.common.pm_tables_use().bytes;
            engine
                .inner
                .compactor
                .merge_one_slice(CfId::DEFAULT)
                .unwrap();
            jobs += 1;
            let taken = engine.inner.common.pm_tables_use().bytes;
            let part = engine
                .inner
                .common
                .compactions
                .shape
                .geometry()
                .internal_part_bytes();
            assert!(
                taken <= limit && taken < before + part + (64 << 10),
                "{before} {taken}"
            );
            check_cursor(engine.cursor(ALL).unwrap(), &model);
        }
        check_cursor(snapshot.cursor(ALL).unwrap(), &model);
        drop(snapshot);
        engine.inner.reclaimer.reclaim().unwrap();
        assert!(jobs > 1, "{jobs}");
        assert_eq!(engine.inner.common.pm_tables_use().retired, 0);
        let level0 = thermocline_version::Place::new(CfId::DEFAULT, Level::ZERO);
        let version = engine.inner.common.catalog.version();
        let parts = version
            .level(level0)
            .unwrap()
            .iter()
            .filter(|t| t.is_part());
        assert_eq!(parts.count(), 0, "nothing is left of what was cut");
        engine.close().unwrap();
        drop(engine);
        let engine = Engine::open(machine.world(), Path::new("/db"), own).unwrap();
        check_cursor(engine.cursor(ALL).unwrap(), &model);
    };
    story(&Machine::new(LARGE));
    let _bug = plant(Bug::InternalForgetsRest);
    let lost = std::panic::catch_unwind(|| story(&Machine::new(LARGE)));
    assert!(lost.is_err(), "it would be noticed");
}

/// Where there is no room nothing is merged, nothing is lost, and everything else goes on.
#[test]
fn without_room_everything_stays() {
    let machine = Machine::new(PM);
    let mut own = options();
    own.level0.pm_percent = 20;
    own.memtable.bytes_max = 64 << 10;
    let engine = Engine::open(machine.world(), Path::new("/db"), own).unwrap();
    let mut model = Model::new();
    let mut fill = |round: u8| {
        for n in 0..100u8 {
            put(&engine, CfId::DEFAULT, &[n], &[round; 300]);
            model.insert(vec![n], vec![round; 300]);
        }
        engine.flush().unwrap();
    };
    fill(0);
    fill(1);
    let all = engine
        .inner
        .common
        .compactions
        .shape
        .geometry()
        .internal_limit()
        .unwrap();
    let taken = engine.inner.common.pm_tables_use().bytes;
    let held = engine
        .inner
        .common
        .promise_pm(all, all - taken, u64::MAX)
        .unwrap();
    let error = engine.compact_level0(CfId::DEFAULT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(merges(&engine), 0);
    drop(held);
    engine.compact_level0(CfId::DEFAULT).unwrap();
    assert!(merges(&engine) > 0);
    for round in 2..20 {
        fill(round);
    }
    check_cursor(engine.cursor(ALL).unwrap(), &model);
    assert_eq!(engine.metrics().compaction.internal_given_up, 0);
}

/// When a job asks it for the first time, a slice of another family is merged, and what is in persistent memory then is noted.
#[derive(Debug, Default)]
struct Meanwhile {
    of: Mutex<Option<(Engine, CfId)>>,
    left: Mutex<Option<(usize, usize)>>,
}

impl CompactionFilter for Meanwhile {
    fn name(&self) -> &str {
        "tests.meanwhile"
    }

    fn filter(&self, _: &Entry<'_>) -> Result<Verdict, String> {
        let of = lock(&self.of).take();
        if let Some((engine, other)) = of {
            engine.inner.compactor.merge_one_slice(other).unwrap();
            engine.inner.reclaimer.reclaim().unwrap();
            *lock(&self.left) = Some(in_pm(&engine));
        }
        Ok(Verdict::Keep)
    }
}

/// What is merged while a job runs, which does not read it, is free before that ends.
#[test]
fn a_job_keeps_no_table_that_it_does_not_read() {
    let meanwhile = Arc::new(Meanwhile::default());
    let filter: Arc<dyn CompactionFilter> = meanwhile.clone();
    let setup = Setup {
        compaction_filters: vec![("default".into(), filter)],
        ..Setup::default()
    };
    let machine = Machine::new(LARGE);
    let mut own = options();
    own.pm = LARGE;
    by_hand(&mut own);
    let engine = Engine::open_with(machine.world(), Path::new("/db"), own, setup).unwrap();
    let other = engine.family("other", &CfOptions::default()).unwrap();
    for round in 0..2u8 {
        for n in 0..50u8 {
            put(&engine, other.id, &[n], &[round; 100]);
        }
        engine.flush().unwrap();
    }
    put(&engine, CfId::DEFAULT, b"key", b"value");
    engine.flush().unwrap();
    assert_eq!((in_pm(&engine), merges(&engine)), ((3, 3), 0));
    *lock(&meanwhile.of) = Some((engine.clone(), other.id));
    compact_all(&engine);
    assert_eq!(merges(&engine), 1);
    assert_eq!(
        *lock(&meanwhile.left),
        Some((2, 2)),
        "what was merged, and what the job reads"
    );
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(in_pm(&engine), (1, 1));
    assert_eq!(get(&engine, b"key"), Some(b"value".to_vec()));
}

/// When a job asks it for the first time, no table is to lie in persistent memory any more; and whether it is found then that some are to
/// leave is noted.
#[derive(Debug, Default)]
struct Outgrown {
    of: Mutex<Option<Engine>>,
    found: Mutex<Option<bool>>,
}

impl CompactionFilter for Outgrown {
    fn name(&self) -> &str {
        "tests.outgrown"
    }

    fn filter(&self, _: &Entry<'_>) -> Result<Verdict, String> {
        let of = lock(&self.of).take();
        if let Some(engine) = of {
            let shape = &engine.inner.common.compactions.shape;
            shape.share.region_may_have(0, PM);
            let due = engine.inner.compactor.picker.take_due();
            *lock(&self.found) = Some(due.is_some());
        }
        Ok(Verdict::Keep)
    }
}

/// Whoever looks for a compaction meanwhile finds its tables taken, and nobody would look again before the next flush.
#[test]
fn what_met_a_merge_by_hand_has_its_turn_behind_it() {
    let outgrown = Arc::new(Outgrown::default());
    let filter: Arc<dyn CompactionFilter> = outgrown.clone();
    let machine = Machine::new(PM);
    let clock = Arc::new(SimClock::new());
    let runtime = Runtime::scripted(clock.clone());
    let setup = Setup {
        runtime: Some(runtime.clone()),
        compaction_filters: vec![("default".into(), filter)],
        ..Setup::default()
    };
    let world = machine.world();
    let world = World {
        env: Env { clock, ..world.env },
        background: true,
        ..world
    };
    let mut own = options();
    own.level0.internal = Costs::Off;
    let engine = Engine::open_with(world, Path::new("/db"), own, setup).unwrap();
    let work = || while runtime.step().is_some() {};
    for round in 0..2u8 {
        for n in 0..50u8 {
            put(&engine, CfId::DEFAULT, &[n], &[round; 100]);
        }
        engine.flush().unwrap();
    }
    work();
    assert_eq!(runs(&engine, CfId::DEFAULT), [2]);
    *lock(&outgrown.of) = Some(engine.clone());
    engine.compact_level0(CfId::DEFAULT).unwrap();
    assert_eq!(runs(&engine, CfId::DEFAULT), [1]);
    assert_eq!(
        *lock(&outgrown.found),
        Some(false),
        "the merge has taken it"
    );
    work();
    assert!(runs(&engine, CfId::DEFAULT).is_empty());
    assert_eq!(get(&engine, &[7]), Some(vec![1; 100]));
    engine.close().unwrap();
    work();
}
