//! Evacuations that stop half-way, because an edit finds no room: whatever happens then reads as before.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::{Options, SHAPES};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{Error, Steps, WriteBatch};
use thermocline_env::Env;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_observe::count::Count;
use thermocline_pm::SimPm;
use thermocline_policy::tuning::AGAIN_NS;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::flush::Extent;
use crate::flush::tests::{Model, check_now, check_then, families, put};
use crate::{Durability, Engine, Family, Snapshot, World};

const PM: u64 = 16 << 20;

/// A machine whose disk can be full for a moment.
struct Machine {
    fs: SimFs,
    pm: SimPm,
    disk: FaultStorage,
    clock: Arc<SimClock>,
}

impl Machine {
    fn of(fs: SimFs, pm: SimPm) -> Machine {
        let disk = FaultStorage::over_sim(fs.clone());
        Machine {
            fs,
            pm,
            disk,
            clock: Arc::default(),
        }
    }

    fn new() -> Machine {
        let steps = Steps::new();
        Machine::of(SimFs::new(steps.clone()), SimPm::new(PM, steps))
    }

    fn world(&self) -> World {
        World {
            env: Env {
                storage: Arc::new(self.disk.clone()),
                clock: self.clock.clone(),
                ..Env::simulated(SimFs::new(Steps::new()), 7)
            },
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        }
    }

    /// After the process was killed.
    fn killed(&self) -> Machine {
        let steps = Steps::new();
        Machine::of(self.fs.image_killed(steps.clone()), self.pm.fork(steps))
    }

    fn open(&self, options: &Options) -> Engine {
        Engine::open(self.world(), Path::new("/db"), options.clone()).unwrap()
    }

    /// A write to the disk fails once: that one behind so many others.
    fn fail_behind(&self, others: u64) {
        self.fails(others, Repeat::Once);
    }

    fn fails(&self, others: u64, repeat: Repeat) {
        self.disk.arm(Plan {
            op: Some(Op::Write),
            fault: Fault::NoSpace,
            at: self.disk.calls_for(Fault::NoSpace, Some(Op::Write)) + others,
            repeat,
        });
    }
}

/// Tables, and so ranges, of a few keys.
fn options(shape: &str) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 2 << 10;
    options.level0.merge_percent = 0;
    options.compaction.table_bytes = 512;
    options.compaction.base_bytes = 8 << 10;
    options.set("level0.shape", shape).unwrap();
    options
}

struct Run {
    rng: Rng,
    machine: Machine,
    engine: Engine,
    options: Options,
    shape: &'static str,
    families: Vec<Family>,
    models: Vec<Model>,
    held: Vec<(Snapshot, Vec<Model>)>,
    keys: Vec<Vec<u8>>,
    /// How often an evacuation stood half-way.
    halves: u64,
    /// Ranges that took level 0 along.
    along: u64,
    /// Those that were written in groups.
    ahead: u64,
    copies: u64,
}

impl Run {
    fn new(shape: &'static str, seed: u64) -> Run {
        let (machine, mut options) = (Machine::new(), options(shape));
        options.level0.evacuation_threads = seed % 4;
        let engine = machine.open(&options);
        let key = |n: u8| [&b"kk"[..usize::from(n % 3)], &[n]].concat();
        Run {
            rng: Rng::new(seed),
            families: families(&engine),
            models: vec![Model::new(), Model::new()],
            held: Vec::new(),
            keys: (0..90).map(key).collect(),
            halves: 0,
            along: 0,
            ahead: 0,
            copies: 0,
            machine,
            engine,
            options,
            shape,
        }
    }

    fn is_half(&self) -> bool {
        self.engine.inner.common.catalog.view().front().is_some()
    }

    fn write(&mut self, n: u64) {
        let at = self.rng.below(2);
        let (cf, key) = (self.families[at].id, self.rng.pick(&self.keys).clone());
        let mut batch = WriteBatch::new();
        match self.rng.below(30) {
            0 => {
                let end = self.rng.pick(&self.keys).clone();
                let end = (!self.rng.one_in(4)).then_some(end);
                if end.as_ref().is_some_and(|end| *end <= key) {
                    return;
                }
                batch.delete_range(cf, &key, end.as_deref()).unwrap();
                let behind = |k: &Vec<u8>| end.as_ref().is_some_and(|end| k >= end);
                self.models[at].retain(|k, _| *k < key || behind(k));
            }
            1..6 => {
                batch.delete(cf, &key).unwrap();
                self.models[at].remove(&key);
            }
            _ => {
                let value = vec![n.to_le_bytes()[0]; self.rng.below(150)];
                batch.put(cf, &key, &value).unwrap();
                self.models[at].insert(key, value);
            }
        }
        let write = |engine: &Engine| engine.write(batch.iter(), Durability::Immediate);
        match write(&self.engine) {
            Err(error) if error.is_no_room() => {
                // Whoever reads has all of it.
                self.held.clear();
                write(&self.engine).unwrap();
            }
            written => written.unwrap(),
        }
    }

    fn flush(&mut self) {
        let fails = self.rng.one_in(2);
        if fails {
            // What finds no room in the base level goes to level 0.
            let repeat = match self.shape == "immutables" && self.rng.one_in(2) {
                true => Repeat::Forever,
                false => Repeat::Once,
            };
            self.machine.fails(self.rng.below(12) as u64, repeat);
        }
        let flushed = self.engine.flush();
        self.machine.disk.disarm();
        match flushed {
            Ok(_) => assert!(!self.is_half()),
            Err(error) if fails && error.is_no_room() => {}
            Err(error) => panic!("{error}"),
        }
        self.halves += u64::from(self.is_half());
    }

    fn check(&self) {
        check_now(&self.engine, &self.families, &self.models, &self.keys);
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models, &self.keys);
        }
    }

    fn reopen(&mut self) {
        self.held.clear();
        self.along += self.engine.metrics().ranges_along;
        self.ahead += self.engine.metrics().ranges_ahead;
        match self.rng.one_in(2) {
            true => self.machine = self.machine.killed(),
            false => self.engine.close().unwrap(),
        }
        let shape = match self.rng.one_in(3) {
            true => *self.rng.pick(&SHAPES),
            false => self.shape,
        };
        self.options.set("level0.shape", shape).unwrap();
        self.options.level0.evacuation_threads = self.rng.below(4) as u64;
        self.engine = self.machine.open(&self.options);
    }

    /// One table, above everything.
    fn ingest(&mut self) {
        let path = Path::new("/outside.sst");
        let env = self.machine.world().env;
        let mut table = crate::IngestWriter::create(&env, path).unwrap();
        let at = self.rng.below(2);
        let mut keys: Vec<Vec<u8>> = (0..3).map(|_| self.rng.pick(&self.keys).clone()).collect();
        keys.sort();
        keys.dedup();
        for key in keys {
            table.put(&key, b"ingested").unwrap();
            self.models[at].insert(key, b"ingested".to_vec());
        }
        table.finish().unwrap();
        self.engine.ingest(self.families[at].id, &[path]).unwrap();
        env.storage.remove(path).unwrap();
        assert!(!self.is_half());
    }

    /// Inside level 0, wherever an evacuation stands.
    fn merge(&mut self) {
        let at = self.rng.below(2);
        match self.engine.compact_level0(self.families[at].id) {
            Err(error) if !error.is_no_room() => panic!("{error}"),
            _ => {}
        }
    }

    /// A copy has what the store has, and goes its own way.
    fn copy(&mut self) {
        self.copies += 1;
        let dir = format!("/copy-{}", self.copies);
        self.engine.checkpoint(Path::new(&dir)).unwrap();
        let steps = Steps::new();
        let world = World {
            sim: Some(SimPm::new(PM, steps)),
            ..self.machine.world()
        };
        let copy = Engine::open(world, Path::new(&dir), self.options.clone()).unwrap();
        check_now(&copy, &self.families, &self.models, &self.keys);
        put(&copy, self.families[0].id, b"own", b"value");
        copy.flush().unwrap();
        let all = (Bound::Unbounded, Bound::Unbounded);
        copy.compact(self.families[0].id, all).unwrap();
    }

    fn step(&mut self, n: u64) {
        // What has found no room rests for a while.
        self.machine.clock.advance_ns(AGAIN_NS);
        match self.rng.below(100) {
            0..80 => self.write(n),
            80..88 => self.flush(),
            88..91 if self.held.len() < 3 => {
                self.held
                    .push((self.engine.snapshot(), self.models.clone()));
            }
            91..93 if !self.held.is_empty() => {
                let at = self.rng.below(self.held.len());
                self.held.remove(at);
            }
            93 => drop(self.engine.reclaim().unwrap()),
            94 => while self.engine.compact_once().unwrap() {},
            95 => self.reopen(),
            96 if self.rng.one_in(3) => self.ingest(),
            97 if self.rng.one_in(3) => self.copy(),
            98 => {
                self.check();
                if self.rng.one_in(4) {
                    // Until it is opened again.
                    self.engine.inner.common.compactions.costs.bypass_always();
                }
            }
            99 => self.merge(),
            _ => {}
        }
    }
}

/// How often an evacuation stood half-way, ranges took level 0 along, and were written in groups.
fn run(shape: &'static str, seed: u64) -> [u64; 3] {
    let mut run = Run::new(shape, seed);
    for n in 0..900 {
        run.step(n);
    }
    run.check();
    run.held.clear();
    for family in &run.families {
        let mut batch = WriteBatch::new();
        batch.delete_range(family.id, b"", None).unwrap();
        run.engine
            .write(batch.iter(), Durability::Immediate)
            .unwrap();
    }
    run.engine.flush().unwrap();
    let all = (Bound::Unbounded, Bound::Unbounded);
    for family in &run.families {
        run.engine.compact(family.id, all).unwrap();
    }
    run.engine.reclaim().unwrap();
    let metrics = run.engine.metrics();
    assert_eq!((metrics.memtables.len(), metrics.pm_tier.tables), (1, 0));
    let along = run.along + metrics.ranges_along;
    [run.halves, along, run.ahead + metrics.ranges_ahead]
}

fn runs(shape: &'static str, by: &'static str, least: u64) {
    let mut all = [0; 3];
    for seed in seeds(0..explored(4, 18)) {
        let _replay = Replay::new(by, seed);
        let found = run(shape, seed);
        all = std::array::from_fn(|i| all[i] + found[i]);
    }
    assert!(
        all.iter().all(|n| *n > least) || std::env::var("THERMOCLINE_SEED").is_ok(),
        "{all:?}"
    );
    println!("{all:?}");
}

#[test]
fn what_is_evacuated_by_halves_reads_as_before() {
    runs(
        "tiered",
        "-p thermocline-engine evacuated_by_halves",
        explored(12, 80),
    );
}

#[test]
fn what_sinks_by_halves_reads_as_before() {
    runs(
        "immutables",
        "-p thermocline-engine sinks_by_halves",
        explored(5, 24),
    );
}

#[test]
fn evacuations_that_are_forgotten_are_noticed() {
    // A seed that noticed it lately is tried first.
    for (shape, bug, lately) in [
        ("tiered", Bug::EvacuatedIsFlushed, 5),
        ("tiered", Bug::FrontForgotten, 5),
        ("tiered", Bug::FrontForgetsTombstones, 34),
        ("tiered", Bug::AlongForgetsRest, 0),
        ("immutables", Bug::FrontForgotten, 1),
        ("immutables", Bug::AlongForgetsRest, 0),
        ("immutables", Bug::SinkPassesLevel0, 0),
    ] {
        let is_caught = std::iter::once(lately).chain(0..150).any(|seed| {
            let run = || {
                let _bug = plant(bug);
                run(shape, seed);
            };
            std::panic::catch_unwind(run).is_err()
        });
        assert!(is_caught, "{shape}: {bug:?}");
    }
}

/// A merge inside level 0 beside a half-done evacuation ends at its front: what comes next is newer than what lies
/// behind it, and as old as what lies before.
#[test]
fn a_merge_inside_level_0_ends_at_the_front() {
    let mut halves = 0;
    for others in 0..16 {
        let (machine, mut options) = (Machine::new(), options("tiered"));
        options.memtable.bytes_max = 64 << 10;
        options.compaction.table_bytes = 16 << 10;
        let engine = machine.open(&options);
        let cf = families(&engine)[0].id;
        let keys: Vec<Vec<u8>> = (0..90u8).map(|n| vec![n]).collect();
        let mut model = Model::new();
        // One table has all of these; what is merged with it does not end where that ended.
        for key in &keys {
            for key in [key.clone(), [&key[..], b"only"].concat()] {
                put(&engine, cf, &key, &[0; 70]);
                model.insert(key, vec![0; 70]);
            }
        }
        engine.flush().unwrap();
        // Each part of the keys has old and new seqnos.
        for step in 0..9 {
            for key in keys.iter().skip(step).step_by(9) {
                put(&engine, cf, key, &[1; 1500]);
                model.insert(key.clone(), vec![1; 1500]);
            }
        }
        machine.fail_behind(others);
        let flushed = engine.flush();
        machine.disk.disarm();
        let is_half = engine.inner.common.catalog.view().front().is_some();
        halves += u64::from(flushed.is_err() && is_half);
        engine.compact_level0(cf).unwrap();
        engine.flush().unwrap();
        let families = [Family::DEFAULT];
        check_now(&engine, &families, &[model.clone()], &keys);
        engine.compact_level0(cf).unwrap();
        check_now(&engine, &families, &[model], &keys);
    }
    assert!(halves > 2, "{halves}");
}

/// A store whose evacuation stands half-way, when a flush finds no room for the write behind so many others.
fn at_half(others: u64) -> Option<(Engine, Machine)> {
    let (machine, mut options) = (Machine::new(), options("tiered"));
    options.memtable.bytes_max = 64 << 10;
    options.compaction.table_bytes = 16 << 10;
    let engine = machine.open(&options);
    for n in 0..90u8 {
        put(&engine, CfId::DEFAULT, &[n], &[0; 1500]);
    }
    machine.fail_behind(others);
    let flushed = engine.flush();
    machine.disk.disarm();
    let is_half = engine.inner.common.catalog.view().front().is_some();
    (flushed.is_err() && is_half).then_some((engine, machine))
}

/// Of few keys each would be an end, where there are less than two for each range.
#[test]
fn a_flush_has_no_more_ranges_than_there_may_be() {
    let (machine, mut options) = (Machine::new(), options("tiered"));
    options.flush.automatic = false;
    options.memtable.bytes_max = 64 << 10;
    let engine = machine.open(&options);
    for n in 0..30u8 {
        put(&engine, CfId::DEFAULT, &[n], &[0; 600]);
    }
    engine.inner.memtables.seal_active().unwrap();
    let evacuator = &engine.inner.flusher.evacuator;
    let taken = evacuator.taken_now(u64::MAX);
    let divided = evacuator
        .divided(&taken, &Colds::new(), Cuts::OfLevel0)
        .unwrap();
    assert_eq!(divided.spans.len(), tuning::RANGES_MAX);
}

/// Tables end there anyhow, and a slice that leaves is not cut.
#[test]
fn a_range_ends_where_slices_of_level_0_are_apart() {
    let (machine, mut options) = (Machine::new(), options("tiered"));
    options.flush.automatic = false;
    options.memtable.bytes_max = 64 << 10;
    options.compaction.table_bytes = 16 << 10;
    let engine = machine.open(&options);
    let (memtables, flusher) = (&engine.inner.memtables, &engine.inner.flusher);
    for slice in [0..20, 40..60u8] {
        slice.for_each(|n| put(&engine, CfId::DEFAULT, &[n], &[0; 70]));
        memtables.seal_active().unwrap();
        flusher.flush_sealed(Extent::All).unwrap();
    }
    for n in 0..90u8 {
        put(&engine, CfId::DEFAULT, &[n], &[0; 1500]);
    }
    memtables.seal_active().unwrap();
    let taken = flusher.evacuator.taken_now(u64::MAX);
    let begins = |cuts: Cuts| -> Vec<u8> {
        let divided = flusher.evacuator.divided(&taken, &Colds::new(), cuts);
        let spans = divided.unwrap().spans;
        spans.iter().skip(1).map(|span| span.from.key[0]).collect()
    };
    // The base level has no table: where it decides ranges end where it comes to.
    let (level0, below) = (begins(Cuts::OfLevel0), begins(Cuts::BelowLevel0));
    assert_eq!(level0.len(), below.len());
    let mut moved = level0.iter().zip(&below).filter(|(to, from)| to != from);
    let (to, from) = moved.next().unwrap();
    assert!(*to == 40 && (20..40).contains(from), "{level0:?} {below:?}");
    assert_eq!(moved.next(), None);
}

/// Its ranges would seem as large as all that was taken together, and lack room where there is enough.
#[test]
fn the_rest_of_an_evacuation_is_reckoned_without_what_is_written() {
    let (engine, _machine) = (0..16).find_map(at_half).unwrap();
    let evacuator = &engine.inner.flusher.evacuator;
    let taken = evacuator.taken_now(u64::MAX);
    let all: u64 = taken.memtables.iter().map(|m| m.bytes()).sum();
    let first = u64::from(taken.front.as_ref().unwrap().at.key[0]);
    let divided = evacuator
        .divided(&taken, &Colds::new(), Cuts::OfLevel0)
        .unwrap();
    // All keys have as much. Of each of the memtables one may not be looked at.
    let left = all * (90 - first) / 90;
    assert!((5..85).contains(&first), "{first}");
    assert!(divided.bytes.abs_diff(left) <= all / 20);
    // By the same it is decided what leaves.
    assert_eq!(evacuator.left_bytes(&taken).unwrap(), divided.bytes);
    assert_eq!(divided.spans.first().unwrap().from, taken.rest().from);
}

/// It would be cut into as many ranges as the whole, and become tables that are as much smaller, with an edit for each.
#[test]
fn the_rest_of_an_evacuation_has_ranges_as_large_as_the_whole() {
    let keys_a_range = |(engine, _machine): (Engine, Machine)| {
        let evacuator = &engine.inner.flusher.evacuator;
        let taken = evacuator.taken_now(u64::MAX);
        let first = u64::from(taken.front.as_ref().unwrap().at.key[0]);
        let divided = evacuator
            .divided(&taken, &Colds::new(), Cuts::OfLevel0)
            .unwrap();
        (90 - first) / divided.spans.len() as u64
    };
    // All 90 keys are cut into four.
    let halves = (0..16).filter_map(at_half).map(keys_a_range);
    let halves: Vec<u64> = halves.collect();
    assert!(halves.len() > 2, "{halves:?}");
    assert!(halves.iter().all(|keys| *keys > 8), "{halves:?}");
}

/// A flush that is to make room does so with the rest of an evacuation, and then fails with what came since. Whoever waits for room
/// has some.
#[test]
fn the_rest_of_an_evacuation_makes_room_though_what_follows_fails() {
    let first = (0..16).find(|others| at_half(*others).is_some()).unwrap();
    let mut cases = 0;
    for others in 0..40 {
        let (engine, machine) = at_half(first).unwrap();
        let inner = &engine.inner;
        put(&engine, CfId::DEFAULT, b"later", b"value");
        inner.memtables.seal_active().unwrap();
        let dropped = || inner.common.counted.get(Count::Dropped);
        let had = dropped();
        machine.fails(others, Repeat::Forever);
        let mut attempts = inner.admission.begin_attempts();
        let refused = Error::OutOfSpace("one more write".into());
        let waited = inner
            .admission
            .wait_for_room(&mut attempts, refused, 10, false);
        machine.disk.disarm();
        let is_left = !inner.flusher.evacuator.to_flush().is_empty();
        if is_left && dropped() > had {
            waited.unwrap();
            cases += 1;
        }
    }
    assert!(cases > 0);
}

/// A memtable without records has the base of the one behind it. A flush that takes the first, and not the second, says
/// nothing of the second.
#[test]
fn what_follows_a_memtable_without_records_is_not_taken_with_it() {
    let (machine, mut options) = (Machine::new(), options("tiered"));
    options.flush.automatic = false;
    options.memtable.bytes_max = 64 << 10;
    options.memtable.item_bytes_max = 4 << 10;
    let engine = machine.open(&options);
    let inner = &engine.inner;
    let (mut keys, mut model) = (Vec::new(), Model::new());
    let mut batch = WriteBatch::new();
    for n in 0..90u8 {
        put(&engine, CfId::DEFAULT, &[n], &[0; 70]);
        model.insert(vec![n], vec![0; 70]);
        batch.put(CfId::DEFAULT, &[n, 1], &[1; 70]).unwrap();
        model.insert(vec![n, 1], vec![1; 70]);
        keys.extend([vec![n], vec![n, 1]]);
    }
    inner.memtables.seal_active().unwrap();
    // It has a zone now.
    engine.cover_idle().unwrap();
    // As if the flush took it right after it was sealed, and before it is found dead.
    let mut memtables = inner.common.catalog.view().memtables.clone();
    memtables.reverse();
    let [_, empty] = &memtables[..] else {
        panic!("{} memtables", memtables.len());
    };
    assert!(empty.is_empty());
    inner.common.reclaim.take_up_to(empty.id());
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let staged = inner.common.catalog.view().memtables[1].clone();
    assert_eq!((staged.len(), staged.base()), (90, empty.base()));
    let taken = Taken {
        memtables,
        front: None,
        for_scans: false,
    };
    assert!(taken.up_to() < staged.base());
    drop(staged);
    let mut made = inner.flusher.begin_flush(&taken.memtables, "a test".into());
    inner.flusher.flush_taken(taken, false, &mut made).unwrap();
    let flushed = inner.common.catalog.edits().state().flushed_up_to();
    assert!(flushed > 0, "there were several ranges");
    let families = [Family::DEFAULT];
    check_now(&engine, &families, &[model.clone()], &keys);
    engine.close().unwrap();
    let engine = machine.open(&options);
    check_now(&engine, &families, &[model], &keys);
}
