//! What is mostly dead stays in persistent memory, as little as it is; what lives goes to the SSD.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, Error, WriteBatch};
use thermocline_env::simulated::SimClock;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_version::{Change, NextIds, VersionEdit};

use crate::flush::Extent;
use crate::flush::tests::{
    Model, check_cursor, check_now, check_then, delete, families, files, get, put,
};
use crate::tests::Machine;
use crate::{Durability, Engine, Family, Snapshot, World};

const PM: u64 = 4 << 20;

fn options(shape: &str) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 32 << 10;
    options.compaction.table_bytes = 32 << 10;
    options.level0.merge_percent = 0;
    options.set("level0.shape", shape).unwrap();
    options
}

fn open(machine: &Machine, options: &Options) -> Engine {
    let mut world = machine.world();
    // It stands still: what things cost is what they usually do.
    world.env.clock = Arc::new(SimClock::new());
    Engine::open(world, Path::new("/db"), options.clone()).unwrap()
}

/// A few keys are written all the time, and now and then one of others: one for each so many of those.
struct Load {
    model: Model,
    written: u64,
    rng: Rng,
}

impl Load {
    fn new() -> Load {
        Load {
            model: Model::new(),
            written: 0,
            rng: Rng::new(7),
        }
    }

    fn write(&mut self, engine: &Engine, writes: u64, one_cold_in: u64) {
        for _ in 0..writes {
            self.written += 1;
            let key = match self.written.is_multiple_of(one_cold_in) {
                true => vec![b'c', u8::try_from(self.written / one_cold_in % 60).unwrap()],
                false => vec![b'h', u8::try_from(self.rng.below(8)).unwrap()],
            };
            let value = vec![u8::try_from(self.written % 251).unwrap(); 200];
            put(engine, CfId::DEFAULT, &key, &value);
            self.model.insert(key, value);
        }
    }

    fn check(&self, engine: &Engine) {
        for (key, value) in &self.model {
            assert_eq!(get(engine, key).as_ref(), Some(value));
        }
        check_cursor(engine.cursor(Family::DEFAULT).unwrap(), &self.model);
    }
}

/// Five times as much as persistent memory has is written, and nothing to the SSD.
#[test]
fn hot_keys_with_a_few_cold_ones_never_reach_the_ssd() {
    for shape in ["global-index", "immutables"] {
        let machine = Machine::new(PM);
        let own = options(shape);
        let engine = open(&machine, &own);
        let mut load = Load::new();
        for round in 0..40 {
            load.write(&engine, 2000, 100);
            let space = engine.metrics().space;
            assert!(
                space.attached_bytes <= PM / 20 * 17,
                "{shape}, round {round}: {space:?}"
            );
        }
        let metrics = engine.metrics();
        assert!(metrics.rewrites > 5, "{shape}: {}", metrics.rewrites);
        assert_eq!(metrics.rewrites, metrics.flushes, "{shape}");
        assert!(metrics.rewritten_bytes > 4 * PM, "{shape}");
        let why = &metrics.compaction.costs;
        assert_eq!(files(&machine), 0, "{shape}: {why:?}");
        assert!(why.by_writes > 0, "{shape}: {why:?}");
        load.check(&engine);
        engine.close().unwrap();
        drop(engine);
        let engine = open(&machine, &own);
        load.check(&engine);
        drop(engine);
        // Without it each flush writes files.
        let machine = Machine::new(PM);
        let mut own = options(shape);
        own.flush.rewrite_ratio = 0;
        let engine = open(&machine, &own);
        Load::new().write(&engine, 40_000, 100);
        let metrics = engine.metrics();
        assert!(metrics.flushes > 1 && metrics.rewrites == 0, "{shape}");
        assert!(files(&machine) > 0, "{shape}");
    }
}

const KEYS: u8 = 40;

/// Whether every key of both families is found as the models have it.
fn agrees(engine: &Engine, families: &[Family], models: &[Model]) -> bool {
    let mut both = families.iter().zip(models);
    both.all(|(family, model)| {
        (0..KEYS).all(|key| {
            let found = engine.get(family.id, &[key], <[u8]>::to_vec).unwrap();
            found.as_ref() == model.get(&[key][..])
        })
    })
}

/// One history of a store that rewrites often. Returns how often it has, or where it did not read as a map does.
fn history(seed: u64) -> Result<u64, u32> {
    let mut rng = Rng::new(seed);
    let mut machine = Machine::new(PM);
    let shape = *rng.pick(&["global-index", "immutables"]);
    let mut own = options(shape);
    own.memtable.bytes_max = *rng.pick(&[2 << 10, 8 << 10, 32 << 10]);
    own.flush.rewrite_ratio = *rng.pick(&[1, 1, 2, 8]);
    own.flush.pm_percent = *rng.pick(&[2, 10, 50]);
    own.compaction.table_bytes = *rng.pick(&[2 << 10, 32 << 10]);
    let mut engine = open(&machine, &own);
    let both = families(&engine);
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|key| vec![key]).collect();
    let mut models = vec![Model::new(), Model::new()];
    let mut held: Vec<(Snapshot, Vec<Model>)> = Vec::new();
    let mut rewrites = 0;
    for n in 0..600u32 {
        let at = rng.below(2);
        let (cf, key) = (both[at].id, rng.pick(&keys).clone());
        match rng.below(100) {
            0..60 => {
                let value = vec![n.to_le_bytes()[0]; rng.below(300)];
                put(&engine, cf, &key, &value);
                models[at].insert(key, value);
            }
            60..75 => {
                delete(&engine, cf, &key);
                models[at].remove(&key);
            }
            75..78 => {
                let end = vec![key[0] + 5];
                let mut batch = WriteBatch::new();
                batch.delete_range(cf, &key, Some(&end)).unwrap();
                engine.write(batch.iter(), Durability::Immediate).unwrap();
                models[at].retain(|other, _| *other < key || *other >= end);
            }
            78..82 => engine.inner.memtables.seal_active().unwrap(),
            // What is named is looked at, too, in debug builds.
            82..85 if engine.flush().is_err() => return Err(n),
            85..88 if engine.reclaim().is_err() => return Err(n),
            88..90 => while engine.compact_once().unwrap() {},
            90..94 => held.push((engine.snapshot(), models.clone())),
            94..98 if !held.is_empty() => drop(held.remove(rng.below(held.len()))),
            98 => {
                rewrites += engine.metrics().rewrites;
                held.clear();
                let killed = machine.killed();
                drop(engine);
                machine = killed;
                engine = open(&machine, &own);
            }
            _ => {}
        }
        if n % 16 == 0 && !agrees(&engine, &both, &models) {
            return Err(n);
        }
    }
    if !agrees(&engine, &both, &models) {
        return Err(600);
    }
    check_now(&engine, &both, &models, &keys);
    for (snapshot, models) in &held {
        check_then(snapshot, &both, models, &keys);
    }
    Ok(rewrites + engine.metrics().rewrites)
}

#[test]
fn whatever_is_rewritten_reads_as_before() {
    let mut rewrites = 0;
    for seed in seeds(0..explored(15, 40)) {
        let _replay = Replay::new("-p thermocline-engine whatever_is_rewritten", seed);
        rewrites += history(seed).unwrap();
    }
    let one = std::env::var("THERMOCLINE_SEED").is_ok();
    assert!(rewrites > explored(60, 200) || one, "{rewrites}");
}

/// Older memtables are read before tables: one that a flush left behind would hide what the tables have.
#[test]
fn leaving_an_older_memtable_behind_is_noticed() {
    let _bug = plant(Bug::RewriteLeavesOlder);
    let noticed = (0..explored(16, 40)).filter(|seed| history(*seed).is_err());
    assert!(noticed.count() as u64 > explored(0, 5));
}

/// What lives must be less than one part in so many, and find room.
#[test]
fn what_lives_goes_to_the_ssd() {
    let machine = Machine::new(PM);
    let mut own = options("global-index");
    own.flush.automatic = false;
    own.flush.rewrite_ratio = 4;
    let engine = open(&machine, &own);
    let mut next = 0u32;
    // Some records, of which one in so many is of a new key.
    let mut fill = |records: u32, one_new_in: u32| {
        for n in 0..records {
            let key = match n % one_new_in {
                0 => next + n,
                _ => u32::MAX,
            };
            put(&engine, CfId::DEFAULT, &key.to_be_bytes(), &[7; 200]);
        }
        next += records;
        engine.inner.memtables.seal_active().unwrap();
        engine.plan().rewrite.unwrap()
    };
    let told = || (files(&machine), engine.metrics().rewrites);
    let plan = fill(300, 3);
    assert_eq!((plan.ratio, plan.live_bytes), (4, None), "{plan:?}");
    assert!(!plan.rewrites() && plan.bytes > 300 * 200);
    assert_eq!(engine.reclaim().unwrap(), 0);
    assert!(engine.flush().unwrap() > 0);
    assert_eq!(told(), (1, 0));
    assert_eq!(engine.plan().rewrite, None, "there is nothing to flush");
    let plan = fill(500, 10);
    let live = plan.live_bytes.unwrap();
    assert!(plan.rewrites() && live * 4 < plan.bytes, "{plan:?}");
    assert!(live > 50 * 200, "{plan:?}");
    // By hand what is reclaimed is rewritten, whether or not a flush is due.
    assert!(engine.reclaim().unwrap() > 0);
    assert_eq!(told(), (1, 1));
    // When the share is taken there is no room.
    let mut rounds = 1;
    while rounds == told().1 {
        fill(500, 10);
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        rounds += 1;
    }
    assert!(rounds > 4, "{rounds}");
    let share = own.level0_pm_bytes().unwrap();
    let there = engine.inner.common.pm_tables_use().bytes;
    assert!(there <= share && there > share / 2, "{there} of {share}");
    assert!(told().0 > 1);
    let metrics = engine.metrics();
    assert!(metrics.rewritten_bytes > metrics.flushed_bytes);
}

/// Values in blob files are not in persistent memory, and what is left of them would keep files.
#[test]
fn what_refers_to_blob_files_goes_to_the_ssd() {
    let machine = Machine::new(PM);
    let mut own = options("immutables");
    own.blob.inline_bytes_max = 100;
    let engine = open(&machine, &own);
    for _ in 0..50 {
        put(&engine, CfId::DEFAULT, b"long", &[7; 200]);
        put(&engine, CfId::DEFAULT, b"short", &[7; 20]);
    }
    engine.inner.memtables.seal_active().unwrap();
    assert_eq!(engine.plan().rewrite, None);
    engine.flush().unwrap();
    assert_eq!((files(&machine), engine.metrics().rewrites), (1, 0));
}

/// What a flush would write is weighed for `explain`, too. Whoever registers its version with all others for that waits for the lock
/// under which an edit is made durable.
#[test]
fn what_lives_is_weighed_while_an_edit_is_made_durable() {
    let machine = Machine::new(PM);
    let mut own = options("global-index");
    own.flush.automatic = false;
    let engine = open(&machine, &own);
    for n in 0..300u16 {
        put(&engine, CfId::DEFAULT, &(n % 10).to_be_bytes(), &[7; 200]);
    }
    engine.inner.memtables.seal_active().unwrap();
    let catalog = &engine.inner.common.catalog;
    let ids = catalog.edits().state().next_ids();
    let file = ids.file + 1;
    let edit: VersionEdit = Change::NextIds(NextIds { file, ..ids }).into();
    let stopped = machine.stop_before("manifest: edit durable");
    std::thread::scope(|threads| {
        let evacuator = &engine.inner.reporter.evacuator;
        let made = threads.spawn(move || catalog.edit(&edit).unwrap());
        stopped.wait();
        let (found, plan) = channel();
        threads.spawn(move || found.send(evacuator.rewrite_plan().unwrap()).unwrap());
        let plan = plan.recv_timeout(Duration::from_secs(60));
        stopped.let_go();
        made.join().unwrap();
        let plan = plan.expect("nobody waits").unwrap();
        assert!(plan.live_bytes.is_some(), "{plan:?}");
    });
}

/// Where its disk has no room for all of the region, level 0 may have a part of its share, and so may what is rewritten.
#[test]
fn what_is_rewritten_has_no_more_than_level_0_may_have_now() {
    let machine = Machine::new(PM);
    let mut own = options("global-index");
    own.flush.automatic = false;
    let engine = open(&machine, &own);
    for n in 0..300u16 {
        put(&engine, CfId::DEFAULT, &(n % 10).to_be_bytes(), &[7; 200]);
    }
    engine.inner.memtables.seal_active().unwrap();
    let evacuator = &engine.inner.flusher.evacuator;
    let room = || evacuator.rewrite_plan().unwrap().unwrap().room_bytes;
    let promised = || {
        let taken = evacuator.taken_now(u64::MAX);
        let promise = evacuator.flush_writer.promise_for_rewriting(&taken);
        promise.unwrap().map(|promise| promise.bytes())
    };
    let share = &engine.inner.common.compactions.shape.share;
    let all = share.bytes();
    assert_eq!((room(), promised()), (all, Some(all)));
    share.region_may_have(PM / 2, PM);
    assert_eq!((room(), promised()), (all / 2, Some(all / 2)));
}

/// Shapes whose flushes all go there, or none, ask nothing.
#[test]
fn other_shapes_do_not_rewrite() {
    for (shape, in_files) in [("ssd", 1), ("pm-tables", 0), ("tiered", 0)] {
        let machine = Machine::new(PM);
        let engine = open(&machine, &options(shape));
        for _ in 0..50 {
            put(&engine, CfId::DEFAULT, b"k", &[7; 20]);
        }
        engine.flush().unwrap();
        assert_eq!(engine.plan().rewrite, None);
        assert_eq!(
            (files(&machine), engine.metrics().rewrites),
            (in_files, 0),
            "{shape}"
        );
    }
}

/// A value that says which write it is of.
fn value(n: u64) -> Vec<u8> {
    [&n.to_le_bytes()[..], &[n.to_le_bytes()[0]; 300]].concat()
}

/// Job threads rewrite and merge while others read: nobody misses a value, and time goes forward.
#[test]
fn readers_beside_rewriting_never_miss_a_value() {
    const HOT: u64 = 4;
    const COLD: u64 = 60;
    let world = World {
        background: true,
        ..Machine::new(PM).world()
    };
    let engine = Engine::open(world, Path::new("/db"), options("global-index")).unwrap();
    for key in 0..HOT + COLD {
        put(&engine, CfId::DEFAULT, &key.to_le_bytes(), &value(0));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (engine, done) = (&engine, &done);
            scope.spawn(move || {
                let mut last = vec![0; usize::try_from(HOT + COLD).unwrap()];
                let mut rng = Rng::new(reader);
                while !done.load(Ordering::Relaxed) {
                    let snapshot = rng.one_in(3).then(|| engine.snapshot());
                    for key in 0..HOT + COLD {
                        let found = get(engine, &key.to_le_bytes()).expect("never deleted");
                        let n = u64::from_le_bytes(found[..8].try_into().unwrap());
                        assert_eq!(found, value(n));
                        let last = &mut last[usize::try_from(key).unwrap()];
                        assert!(n >= *last, "time goes forward");
                        *last = n;
                    }
                    let Some(snapshot) = snapshot else { continue };
                    let seen = |key: u64| snapshot.value(CfId::DEFAULT, &key.to_le_bytes());
                    for key in 0..HOT + COLD {
                        let (once, again) = (seen(key).unwrap(), seen(key).unwrap());
                        assert!(once.is_some() && once.as_deref() == again.as_deref());
                    }
                }
            });
        }
        let mut n = 0;
        while engine.metrics().rewrites < 3 {
            n += 1;
            let key = match n % 80 {
                0 => HOT + n / 80 % COLD,
                _ => n % HOT,
            };
            let mut batch = WriteBatch::new();
            batch
                .put(CfId::DEFAULT, &key.to_le_bytes(), &value(n))
                .unwrap();
            match engine.write(batch.iter(), Durability::Immediate) {
                Ok(()) => {}
                // Readers hold what is dead: they will let go.
                Err(Error::OutOfSpace(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    engine.close().unwrap();
}
