//! Indexes are merged when it pays, and whoever reads notices nothing.

use std::collections::BTreeMap;
use std::path::Path;

use thermocline_base::options::{Options, Shape};
use thermocline_base::{CfOptions, WriteBatch};
use thermocline_env::simulated::SimClock;
use thermocline_policy::flush;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::flush::Extent;
use crate::tests::Machine;
use crate::{Cursor, Durability, Engine, Family, Setup, Snapshot, World};

const PM: u64 = 4 << 20;

type Model = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 4 << 10;
    options.level0.merge_percent = 0;
    options.flush.automatic = false;
    options
}

fn open(machine: &Machine) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options()).unwrap()
}

fn put(engine: &Engine, cf: CfId, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(cf, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn delete(engine: &Engine, cf: CfId, key: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.delete(cf, key).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap()
}

/// Sealed indexes, and how many memtables they lead to.
fn indexes(engine: &Engine) -> (usize, usize) {
    let view = engine.inner.common.catalog.view();
    let sealed = &view.memtables[1..];
    let memtables = sealed.iter().map(|m| m.homes().len()).sum();
    (sealed.len(), memtables)
}

#[test]
fn many_memtables_have_few_indexes() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut most = 0;
    for n in 0..1000u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
        most = most.max(indexes(&engine).0);
    }
    let (_, memtables) = indexes(&engine);
    assert!(memtables > 30, "{memtables}");
    // Each more than twice as large as all newer ones: 3^4 > 64.
    assert!(most <= 5, "{most}");
    let found = |engine: &Engine| {
        for n in 0..1000u32 {
            assert_eq!(get(engine, &n.to_be_bytes()), Some(vec![7; 100]));
        }
        engine.metrics()
    };
    let metrics = found(&engine);
    assert!(metrics.hits.global_index > 500 && metrics.merges > 10);
    assert_eq!(metrics.dram.overdrawn, 0);
    assert_eq!(metrics.memtables.len(), memtables + 1);
    // They come back by themselves, and are merged again.
    let again = open(&machine.killed());
    assert_eq!(indexes(&again).0, indexes(&again).1);
    found(&again);
    again.reclaim().unwrap();
    assert!(indexes(&again).0 < 3, "{:?}", indexes(&again));
    found(&again);
    // And are flushed as if nothing had been.
    assert_eq!(again.flush().unwrap(), memtables + 1);
    assert_eq!(again.metrics().memtables.len(), 1);
    assert_eq!(indexes(&again), (0, 0));
    found(&again);
}

/// Merging is worth what reads are spared.
#[test]
fn only_what_is_read_is_merged() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.level0.merge_percent = 100;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    engine.reclaim().unwrap();
    let (before, memtables) = indexes(&engine);
    assert!(before == memtables && before > 3, "{before}");
    assert_eq!(engine.metrics().asked, 0);
    // As many reads as it takes, not one more.
    let keys: u64 = {
        let view = engine.inner.common.catalog.view();
        view.memtables[1..].iter().map(|m| m.keys()).sum()
    };
    while engine.metrics().asked < keys {
        engine.reclaim().unwrap();
        assert_eq!(indexes(&engine), (before, memtables));
        get(&engine, b"\0\0\0\0");
    }
    engine.reclaim().unwrap();
    assert_eq!(indexes(&engine), (1, memtables));
    let metrics = engine.metrics();
    assert_eq!((metrics.merges, metrics.merged_keys), (1, keys));
    // A cursor asks all, a read of what is active none.
    let asked = metrics.asked;
    get(&engine, &199u32.to_be_bytes());
    engine
        .cursor(Family::DEFAULT)
        .unwrap()
        .seek_to_first()
        .unwrap();
    assert_eq!(engine.metrics().asked, asked);
}

/// Reads alone bring the threads to it.
#[test]
fn readers_have_the_threads_merge() {
    let world = World {
        background: true,
        ..Machine::new(PM).world()
    };
    let mut options = options();
    options.level0.merge_percent = 100;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    while engine.metrics().merges == 0 {
        assert_eq!(get(&engine, &0u32.to_be_bytes()), Some(vec![7; 100]));
    }
    engine.close().unwrap();
}

/// A flush that waits for its turn ends a merge, and takes its inputs as they were.
#[test]
fn a_merge_gives_way_to_a_flush() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.level0.merge_percent = 100_000;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    let inner = &engine.inner;
    let before = indexes(&engine);
    let choice = inner.merger.chosen().expect("there is something to merge");
    inner.common.merges.flushes.fetch_add(1, Ordering::Relaxed);
    let merged = inner.merger.merge_indexes(&choice, None);
    assert!(merged.unwrap().is_none());
    inner.common.merges.flushes.fetch_sub(1, Ordering::Relaxed);
    // One that began before a flush, and ends behind it, is good for nothing.
    let merging = inner.merger.merge_indexes(&choice, None);
    let merging = merging.unwrap().unwrap();
    assert_eq!(indexes(&engine), before);
    engine.flush().unwrap();
    assert!(!inner.merger.install_index(&choice.inputs, merging.finish()));
    assert_eq!(indexes(&engine), (0, 0));
}

/// It has asked the newer indexes in vain, as one has that finds a record there.
#[test]
fn a_read_that_ends_at_a_range_tombstone_pays_for_merging_too() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.level0.merge_percent = 100;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let mut oldest = WriteBatch::new();
    for key in [b"a", b"b"] {
        oldest.put(CfId::DEFAULT, key, b"value").unwrap();
    }
    oldest
        .delete_range(CfId::DEFAULT, b"b", Some(b"c"))
        .unwrap();
    engine.write(oldest.iter(), Durability::Immediate).unwrap();
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    let memtables = engine.inner.common.catalog.view().memtables.len();
    assert!(memtables > 5, "{memtables}");
    // Beyond the active one and the first sealed one.
    let vain = (memtables - 2) as u64;
    let asked = || engine.metrics().asked;
    assert_eq!(asked(), 0);
    assert!(get(&engine, b"a").is_some());
    assert_eq!(asked(), vain);
    assert_eq!(get(&engine, b"b"), None);
    assert_eq!(asked(), 2 * vain);
    // Awaited, it asks memory at once.
    drop(engine.value_async(CfId::DEFAULT, b"b"));
    assert_eq!(asked(), 3 * vain);
}

/// Reads ask for one merge at a time. A flush has the turn when that begins; if it was not asked for again, nothing that is read
/// would be merged until something is sealed.
#[test]
fn a_merge_that_does_not_get_its_turn_is_asked_for_again() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let merges = &engine.inner.common.merges;
    // As who asks for it leaves it.
    merges.next.store(u64::MAX, Ordering::Relaxed);
    let turn = merges.turn_for_flush();
    assert!(!engine.inner.merger.merge_if_due().unwrap());
    drop(turn);
    assert_eq!(merges.next.load(Ordering::Relaxed), 0);
}

/// A merge is promised more than its index takes, and its inputs go. Where nobody writes, that is given back all the same.
#[test]
fn what_a_merge_was_promised_is_given_back_though_nobody_writes() {
    let clock = Arc::new(SimClock::new());
    let runtime = crate::Runtime::scripted(clock.clone());
    let setup = Setup {
        runtime: Some(runtime.clone()),
        ..Setup::default()
    };
    let mut world = World {
        background: true,
        ..Machine::new(PM).world()
    };
    world.env.clock = clock.clone();
    let mut options = options();
    options.level0.merge_percent = 100;
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    let work = || while runtime.step().is_some() {};
    let idle = || {
        for _ in 0..3 {
            clock.advance_ns(60_000_000_000);
            work();
        }
    };
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    idle();
    let account = &engine.inner.common.account;
    assert_eq!(account.held(), account.used());
    while engine.metrics().merges == 0 {
        get(&engine, &0u32.to_be_bytes());
        work();
    }
    assert!(account.held() > account.used());
    idle();
    assert_eq!(account.held(), account.used());
    // So is what a flush gives back.
    let before = account.used();
    engine.flush().unwrap();
    assert!(account.used() < before && account.held() > account.used());
    idle();
    assert_eq!(account.held(), account.used());
    engine.close().unwrap();
    work();
}

/// Where much of what is to be flushed is dead, indexes are made anew instead.
#[test]
fn what_is_dead_is_not_flushed() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.flush.automatic = true;
    options.flush.pm_percent = 20;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    // Each memtable has a key that nobody writes again, and so has its index in common with others, but
    // for those whose keys are.
    for n in 0..4000u32 {
        let key = if n % 400 == 0 { n } else { n % 8 };
        put(&engine, CfId::DEFAULT, &key.to_be_bytes(), &[7; 500]);
    }
    let metrics = engine.metrics();
    assert_eq!(metrics.flushes, 0, "{metrics:?}");
    assert!(metrics.merges > 10 && metrics.memtables_dropped > 100);
}

/// A store that flushes the oldest memtables, and whose reads are worth any merge.
fn tiered(machine: &Machine) -> Engine {
    let mut options = options();
    options.set("level0.shape", "tiered").unwrap();
    options.memtable.bytes_max = 64 << 10;
    options.flush.automatic = true;
    Engine::open(machine.world(), Path::new("/db"), options).unwrap()
}

/// Writes keys from `n` on, fewer than a memtable may have, and seals it.
fn fill(engine: &Engine, n: &mut u32) {
    for _ in 0..80 {
        put(engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 500]);
        *n += 1;
    }
    engine.inner.memtables.seal_active().unwrap();
}

/// What is known of sealed indexes, newest first.
fn standing(engine: &Engine) -> Vec<Standing> {
    let common = &engine.inner.common;
    let view = common.catalog.view_to_keep();
    common.reclaim.standing(&view.memtables[1..])
}

fn widest(engine: &Engine) -> u64 {
    let all = standing(engine);
    all.iter().map(|index| index.bytes).max().unwrap_or(0)
}

fn check_all(engine: &Engine, n: u32) {
    for n in 0..n {
        assert_eq!(get(engine, &n.to_be_bytes()), Some(vec![7; 500]), "{n}");
    }
}

/// Data that fits is one tree to ask. When a flush comes near, what a flush takes has its own.
#[test]
fn an_index_is_wide_until_a_flush_is_near() {
    let machine = Machine::new(PM);
    let engine = tiered(&machine);
    let (mut n, mut wide) = (0u32, 0);
    let takes = engine.inner.flush_due.index_width().takes;
    while engine.metrics().flushes == 0 {
        let width = engine.inner.flush_due.index_width();
        match width.is_far {
            true => wide = wide.max(widest(&engine)),
            false => {
                for of in standing(&engine) {
                    let bytes = of.lives_bytes.iter().copied();
                    let whole = flush::taken(bytes, width.takes) == of.lives.len();
                    assert!(whole || of.bytes <= width.bytes_max, "{of:?}, {width:?}");
                }
            }
        }
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 500]);
        n += 1;
    }
    assert!(wide > 2 * takes, "{wide} bytes shared an index, of {takes}");
    // Most of it is still there.
    assert!(engine.inner.common.sealed().bytes > 4 * takes);
    check_all(&engine, n);
    let again = tiered(&machine.killed());
    check_all(&again, n);
}

/// A flush that is due before a division has begun waits for it.
#[test]
fn a_flush_that_is_due_takes_no_wide_index() {
    let machine = Machine::new(PM);
    let engine = tiered(&machine);
    let inner = &engine.inner;
    let (mut n, takes) = (0u32, inner.flush_due.index_width().takes);
    while widest(&engine) <= 2 * takes {
        fill(&engine, &mut n);
    }
    // Nobody divides meanwhile.
    let turn = lock(&inner.common.merges.turn);
    while !inner.flush_due.is_flush_due() {
        fill(&engine, &mut n);
    }
    drop(turn);
    assert!(widest(&engine) > 2 * takes && inner.merger.wide_bytes().is_some());
    let before = inner.common.sealed().bytes;
    inner.flusher.flush_wanted().unwrap();
    let taken = before - inner.common.sealed().bytes;
    assert!(takes <= taken && taken < 2 * takes, "{taken} of {takes}");
    assert_eq!(inner.merger.wide_bytes(), None);
    check_all(&engine, n);
}

/// What is made anew for what is dead in it comes in parts where a flush stays near. If it came as one, it would be divided at once,
/// and each pointer be moved twice before one flush.
#[test]
fn an_index_that_is_made_anew_comes_divided() {
    let machine = Machine::new(PM);
    let engine = tiered(&machine);
    let inner = &engine.inner;
    let (mut n, takes) = (0u32, inner.flush_due.index_width().takes);
    while widest(&engine) <= 2 * takes {
        fill(&engine, &mut n);
    }
    // Nobody divides meanwhile, nor merges.
    let turn = lock(&inner.common.merges.turn);
    // The oldest two memtables have nothing any more that is needed.
    let mut again = 0;
    for _ in 0..2 {
        fill(&engine, &mut again);
    }
    while !inner.flush_due.is_flush_due() {
        fill(&engine, &mut n);
    }
    drop(turn);
    let (dead, merges) = (inner.common.dead_in_merged(), engine.metrics().merges);
    assert!(dead > 0 && !inner.flush_due.index_width_without(dead).is_far);
    inner.merger.merge_instead().unwrap();
    assert_eq!(engine.metrics().merges, merges + 1);
    assert_eq!(inner.common.dead_in_merged(), 0);
    assert!(!inner.flush_due.index_width().is_far);
    assert_eq!(inner.merger.wide_bytes(), None);
    assert!(standing(&engine).len() > 1);
    check_all(&engine, n);
}

/// A flush that comes although none was near takes a wide index as a whole.
#[test]
fn a_flush_takes_a_wide_index_that_is_not_divided() {
    let machine = Machine::new(PM);
    let engine = tiered(&machine);
    let inner = &engine.inner;
    let (mut n, takes) = (0u32, inner.flush_due.index_width().takes);
    while widest(&engine) <= 2 * takes {
        fill(&engine, &mut n);
    }
    let oldest = standing(&engine).pop().unwrap();
    assert!(inner.flush_due.index_width().is_far && oldest.bytes > 2 * takes);
    let snapshot = engine.snapshot();
    let flushed = inner.flusher.flush_sealed(Extent::Due).unwrap();
    assert_eq!(flushed, oldest.lives.len());
    let left: Vec<u64> = standing(&engine)
        .into_iter()
        .flat_map(|of| of.lives)
        .collect();
    assert!(left.iter().all(|id| !oldest.lives.contains(id)));
    check_all(&engine, n);
    for n in 0..n {
        let found = snapshot.get(CfId::DEFAULT, &n.to_be_bytes(), <[u8]>::to_vec);
        assert_eq!(found.unwrap(), Some(vec![7; 500]));
    }
}

#[test]
fn with_immutables_each_memtable_keeps_its_own() {
    let mut options = options();
    options.set("level0.shape", "immutables").unwrap();
    let machine = Machine::new(PM);
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    let (indexes, memtables) = indexes(&engine);
    assert!(indexes == memtables && memtables > 3);
    assert_eq!(engine.metrics().merges, 0);
}

/// A value that is pinned holds its own memtable, not those that it shares an index with.
#[test]
fn a_pinned_value_holds_one_memtable() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"pinned", &[1; 2000]);
    for n in 0..200u32 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
    }
    let (_, before) = indexes(&engine);
    let pinned = engine.value(CfId::DEFAULT, b"pinned").unwrap().unwrap();
    assert!(pinned.is_pinned());
    let held = engine.metrics().memtables;
    assert_eq!(held.iter().filter(|m| m.pinned_bytes > 0).count(), 1);
    assert!(before > 3 && held[0].pinned_bytes == 2000 && held[0].views == 1);
    engine.flush().unwrap();
    // The others have gone.
    assert_eq!(engine.metrics().memtables.len(), 2);
    drop(pinned.clone());
    put(&engine, CfId::DEFAULT, b"pinned", &[2; 100]);
    assert_eq!(&*pinned, &[1; 2000]);
    pinned.verify().unwrap();
    drop(pinned);
    engine.reclaim().unwrap();
    assert_eq!(engine.metrics().memtables.len(), 1);
    assert_eq!(get(&engine, b"pinned"), Some(vec![2; 100]));
}

/// Where there is no DRAM there is no merge, and reads go on.
#[test]
fn without_dram_nothing_is_merged() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.level0.shape = Some(Shape::Immutables);
    options.dram = 1 << 20;
    options.memtable.bytes_max = 64 << 10;
    let engine = Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap();
    let mut n = 0u32;
    // So much, in indexes that are mostly full, that a merged one does not fit beside them.
    while engine.metrics().dram.used < 850 << 10 {
        put(&engine, CfId::DEFAULT, &n.to_be_bytes(), b"value");
        n += 1;
    }
    engine.close().unwrap();
    options.level0.shape = Some(Shape::GlobalIndex);
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let before = indexes(&engine);
    engine.reclaim().unwrap();
    let metrics = engine.metrics();
    assert_eq!((indexes(&engine), metrics.merges), (before, 0));
    assert_eq!((metrics.dram.overdrawn, before.0), (0, before.1));
    for n in 0..n {
        assert_eq!(get(&engine, &n.to_be_bytes()), Some(b"value".to_vec()));
    }
}

struct Run {
    machine: Machine,
    engine: Engine,
    families: Vec<Family>,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    cursors: Vec<(Cursor, u16, Model)>,
    pinned: Vec<(crate::Value, Vec<u8>)>,
    divided: usize,
}

fn of(model: &Model, cf: u16) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = model.iter().filter(|((of, _), _)| *of == cf);
    own.map(|((_, k), v)| (k.clone(), v.clone())).collect()
}

fn scanned(cursor: &mut Cursor, rng: &mut Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let backwards = rng.one_in(2);
    let mut more = match backwards {
        true => cursor.seek_to_last(),
        false => cursor.seek_to_first(),
    }
    .unwrap();
    while more {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = match backwards {
            true => cursor.prev(),
            false => cursor.next(),
        }
        .unwrap();
    }
    if backwards {
        rows.reverse();
    }
    rows
}

impl Run {
    fn new() -> Run {
        let machine = Machine::new(PM);
        let engine = open(&machine);
        let families = vec![
            Family::DEFAULT,
            engine.family("other", &CfOptions::default()).unwrap(),
        ];
        Run {
            machine,
            engine,
            families,
            model: Model::new(),
            snapshots: Vec::new(),
            cursors: Vec::new(),
            pinned: Vec::new(),
            divided: 0,
        }
    }

    fn check(&mut self, rng: &mut Rng) {
        for family in &self.families {
            for ((_, key), value) in self.model.iter().filter(|((cf, _), _)| *cf == family.id.0) {
                let found = self.engine.get(family.id, key, <[u8]>::to_vec).unwrap();
                assert_eq!(found.as_ref(), Some(value), "{key:?}");
            }
            let rows = scanned(&mut self.engine.cursor(*family).unwrap(), rng);
            assert_eq!(rows, of(&self.model, family.id.0));
        }
        for (snapshot, model) in &self.snapshots {
            for family in &self.families {
                let rows = scanned(&mut snapshot.cursor(*family).unwrap(), rng);
                assert_eq!(rows, of(model, family.id.0));
                for (key, value) in rows {
                    let found = snapshot.get(family.id, &key, <[u8]>::to_vec).unwrap();
                    assert_eq!(found, Some(value));
                }
            }
        }
        for (cursor, cf, model) in &mut self.cursors {
            assert_eq!(scanned(cursor, rng), of(model, *cf));
        }
        for (value, wanted) in &self.pinned {
            value.verify().unwrap();
            assert_eq!(&**value, wanted);
        }
    }

    fn write(&mut self, rng: &mut Rng, n: u64) {
        let cf = rng.pick(&self.families).id;
        let key = vec![b'k', rng.next_u64().to_le_bytes()[0] % 40];
        if rng.one_in(4) {
            delete(&self.engine, cf, &key);
            self.model.remove(&(cf.0, key));
            return;
        }
        let most = if rng.one_in(10) { 2000 } else { 300 };
        let len = 20 + rng.below(most);
        let mut value = n.to_le_bytes().to_vec();
        value.resize(len.max(8), 3);
        put(&self.engine, cf, &key, &value);
        self.model.insert((cf.0, key), value);
    }

    /// Divides some merged index, anywhere, whether a flush is near or not. Returns whether it was.
    fn divide(&self, rng: &mut Rng) -> bool {
        let inner = &self.engine.inner;
        let view = inner.common.catalog.view();
        let merged = view.memtables[1..].iter().filter(|m| m.is_merged());
        let merged: Vec<Arc<Memtable>> = merged.cloned().collect();
        drop(view);
        if merged.is_empty() {
            return false;
        }
        let wide = rng.pick(&merged).clone();
        let homes = wide.homes().iter();
        let mut ends: Vec<u64> = homes.map(|home| home.id()).collect();
        ends.pop();
        ends.retain(|_| rng.one_in(2));
        let choice = Choice {
            inputs: vec![wide],
            ends,
            keys: 0,
            decision: Decision::nothing(),
        };
        let merging = inner.merger.merge_indexes(&choice, None);
        let merging = merging.unwrap().expect("there is DRAM");
        let (divides, parts) = (choice.divides(), merging.finish());
        let _held_up = inner.memtables.hold_writer_up();
        inner.merger.install_index(&choice.inputs, parts) && divides
    }

    fn step(&mut self, rng: &mut Rng, n: u64) {
        let machine = &self.machine;
        match rng.below(100) {
            0..3 => self
                .snapshots
                .push((self.engine.snapshot(), self.model.clone())),
            3..6 => {
                let family = *rng.pick(&self.families);
                let mut cursor = self.engine.cursor(family).unwrap();
                cursor.seek_to_first().unwrap();
                self.cursors.push((cursor, family.id.0, self.model.clone()));
            }
            6..9 if !self.snapshots.is_empty() => {
                self.snapshots.swap_remove(rng.below(self.snapshots.len()));
            }
            9..12 if !self.cursors.is_empty() => {
                self.cursors.swap_remove(rng.below(self.cursors.len()));
            }
            12..16 => {
                for ((cf, key), value) in &self.model {
                    let found = self.engine.value(CfId(*cf), key).unwrap().unwrap();
                    if found.is_pinned() && self.pinned.len() < 3 {
                        self.pinned.push((found, value.clone()));
                    }
                }
            }
            16..18 => self.pinned.clear(),
            18 => drop(self.engine.flush().unwrap()),
            19..22 => drop(self.engine.reclaim().unwrap()),
            22 if rng.one_in(3) => {
                // A new process, after a crash or a close.
                self.snapshots.clear();
                self.cursors.clear();
                self.pinned.clear();
                match rng.one_in(2) {
                    true => self.engine.close().unwrap(),
                    false => self.machine = machine.killed(),
                }
                self.engine = open(&self.machine);
            }
            23..30 => self.check(rng),
            30..33 => self.divided += usize::from(self.divide(rng)),
            _ => self.write(rng, n),
        }
    }
}

#[test]
fn whatever_is_merged_reads_as_before() {
    let (mut merges, mut most, mut divided) = (0, 0, 0);
    for seed in seeds(0..20) {
        let _replay = Replay::new("-p thermocline-engine whatever_is_merged", seed);
        let mut rng = Rng::new(seed);
        let mut run = Run::new();
        for n in 0..600 {
            run.step(&mut rng, n);
            let view = run.engine.inner.common.catalog.view();
            let homes = view.memtables.iter().map(|m| m.homes().len());
            most = most.max(homes.max().unwrap_or(0));
        }
        run.check(&mut rng);
        let metrics = run.engine.metrics();
        merges += metrics.merges;
        divided += run.divided;
        assert_eq!(metrics.dram.overdrawn, 0);
    }
    assert!(merges > 100 && most > 5, "{merges} merges, {most} in one");
    assert!(divided > 20, "{divided} were divided");
}

#[test]
#[should_panic(expected = "left == right")]
fn a_merge_that_forgets_readers_is_found() {
    let _planted =
        thermocline_base::planted::plant(thermocline_base::planted::Bug::MergeForgetsReaders);
    whatever_is_merged_reads_as_before();
}

/// Readers of all kinds beside a writer and the threads that merge, drop and flush.
#[test]
fn readers_beside_merges_miss_nothing() {
    const COUNT: usize = 16;
    const KEYS: u64 = COUNT as u64;
    let world = World {
        background: true,
        ..Machine::new(PM).world()
    };
    let mut options = options();
    options.memtable.bytes_max = 16 << 10;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let value = |n: u64| [n.to_le_bytes(); 60].concat();
    for key in 0..KEYS {
        put(&engine, CfId::DEFAULT, &key.to_le_bytes(), &value(0));
    }
    let done = crate::sync::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = [0; COUNT];
                while !done.load(Ordering::Relaxed) {
                    let snapshot = engine.snapshot();
                    for (key, last) in (0..KEYS).zip(&mut last) {
                        let found = get(&engine, &key.to_le_bytes()).expect("never deleted");
                        let n = u64::from_le_bytes(found[..8].try_into().unwrap());
                        assert!(found == value(n) && n >= *last, "time goes forward");
                        *last = n;
                    }
                    let family = Family::DEFAULT;
                    let rows = |s: &Snapshot| {
                        let mut cursor = s.cursor(family).unwrap();
                        scanned(&mut cursor, &mut Rng::new(1))
                    };
                    let (once, again) = (rows(&snapshot), rows(&snapshot));
                    assert!(once == again && once.len() == COUNT);
                }
            });
        }
        let mut n = 0u64;
        while engine.metrics().merges < 40 {
            n += 1;
            // Some keys are written seldom, so that their memtables live.
            let key = if n.is_multiple_of(40) {
                n / 40 % KEYS
            } else {
                n % 4
            };
            let mut batch = WriteBatch::new();
            batch
                .put(CfId::DEFAULT, &key.to_le_bytes(), &value(n))
                .unwrap();
            match engine.write(batch.iter(), Durability::Immediate) {
                Ok(()) => {}
                Err(thermocline_base::Error::OutOfSpace(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    engine.close().unwrap();
}
