//! The same steps in stores of all shapes of level 0, whose other options are drawn: whatever is merged,
//! flushed, compacted, dropped and reopened on the way, they answer alike, and as a map does.

use std::ops::Bound;

use thermocline_base::options::{Codec, PartitionBy, SHAPES, Shape};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{Error, Result};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::flush::tests::{Model, check_cursor, check_now, check_then, families};
use crate::{BlobState, Cursor, Snapshot, Value};

const PM: u64 = 2 << 20;

/// Everything small, so that all of it happens.
fn any(rng: &mut Rng) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = *rng.pick(&[1, 2 << 10, 4 << 10, 16 << 10]);
    options.memtable.item_bytes_max = *rng.pick(&[4 << 10, options.memtable.item_bytes_max]);
    options.level0.shape = Some(*rng.pick(&Shape::ALL));
    options.level0.merge_percent = *rng.pick(&[0, 0, 20, 100]);
    options.level0.pm_percent = *rng.pick(&[3, 10, 30, 60]);
    options.flush.pm_percent = *rng.pick(&[10, 40, 80]);
    options.flush.rewrite_ratio = *rng.pick(&[1, 2, 8, 0]);
    options.read.readahead = *rng.pick(&[1, 3, 64]);
    options.read.pin_bytes_min = *rng.pick(&[1, 100]);
    options.read.pins_percent_max = 100;
    options.read.verify_checksums = rng.below(2) == 1;
    options.manifest.bytes_max = *rng.pick(&[512, 1 << 20]);
    options.blob.inline_bytes_max = *rng.pick(&[64, 150, 1 << 20]);
    options.blob.generation_bytes = *rng.pick(&[2 << 10, 1 << 20]);
    // What is drawn next is drawn as before.
    let mut other = rng.clone();
    options.blob.value_bytes_min = *other.pick(&[0, 1, 40, 100]);
    options.blob.file_bytes = *other.pick(&[1 << 10, 8 << 10]);
    options.blob.space_percent_max = *other.pick(&[101, 130, 1_000_000]);
    options.blob.compression = *other.pick(&Codec::ALL);
    options.level0.key_index = other.one_in(2);
    let compaction = &mut options.compaction;
    compaction.level0_tables = 1 + rng.below(4) as u64;
    compaction.base_bytes = (2 + rng.below(20) as u64) << 10;
    compaction.table_bytes = (1 + rng.below(8) as u64) << 10;
    compaction.multiplier = 2 + rng.below(3) as u64;
    compaction.block_bytes = 512;
    options.partition.by = *rng.pick(&PartitionBy::ALL[..3]);
    options.partition.prefix_len = 1 + rng.below(3) as u64;
    options.partition.bytes = 4 * options.table_bytes();
    options
}

/// One of the stores: one of each shape, and one more that goes from shape to shape. With what somebody holds of it.
struct Store {
    machine: Machine,
    engine: Engine,
    options: Options,
    /// Whether each opening may bring another shape.
    roams: bool,
    snapshots: Vec<Snapshot>,
    cursors: Vec<Cursor>,
    pinned: Vec<Value>,
    met: Met,
}

#[derive(Debug, Default, Clone, Copy)]
struct Met {
    flushes: u64,
    compactions: u64,
    merges: u64,
    dropped: u64,
    found_merged: u64,
}

impl Store {
    fn new(options: Options, roams: bool) -> Store {
        let machine = Machine::new(PM);
        let engine = open(&machine, &options);
        families(&engine);
        Store {
            machine,
            engine,
            options,
            roams,
            snapshots: Vec::new(),
            cursors: Vec::new(),
            pinned: Vec::new(),
            met: Met::default(),
        }
    }

    fn let_go(&mut self) {
        self.snapshots.clear();
        self.cursors.clear();
        self.pinned.clear();
    }

    fn write(&self, batch: &WriteBatch, durability: Durability) -> Result<()> {
        self.engine.write(batch.iter(), durability)
    }

    fn count(&mut self) {
        let metrics = self.engine.metrics();
        assert_eq!(metrics.dram.overdrawn, 0);
        let levels = metrics.compaction.levels;
        self.met.flushes += metrics.flushes;
        self.met.compactions += levels[1..].iter().map(|level| level.jobs).sum::<u64>();
        self.met.merges += metrics.merges;
        self.met.dropped += metrics.memtables_dropped;
        self.met.found_merged += metrics.hits.global_index;
    }

    fn reopen(&mut self, options: &Options, killed: bool) {
        self.count();
        self.let_go();
        match killed {
            true => self.machine = self.machine.killed(),
            false => self.engine.close().unwrap(),
        }
        let shape = self.options.level0.shape;
        self.options = options.clone();
        if !self.roams {
            self.options.level0.shape = shape;
        }
        self.engine = open(&self.machine, &self.options);
    }
}

fn open(machine: &Machine, options: &Options) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
}

struct Run {
    rng: Rng,
    stores: Vec<Store>,
    families: Vec<Family>,
    models: Vec<Model>,
    /// What snapshots see.
    then: Vec<Vec<Model>>,
    /// What cursors see.
    seen: Vec<(usize, Model)>,
    /// What pinned values are.
    values: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
}

impl Run {
    fn new(seed: u64, shapes: &[&str]) -> Run {
        let mut rng = Rng::new(seed);
        let options = any(&mut rng);
        let of = |shape: &&str| {
            let mut options = options.clone();
            options.set("level0.shape", shape).unwrap();
            Store::new(options, false)
        };
        let mut stores: Vec<Store> = shapes.iter().map(of).collect();
        if shapes.len() > 1 {
            stores.push(Store::new(options.clone(), true));
        }
        let key = |n: u8| [&b"kk"[..usize::from(n % 3)], &[n]].concat();
        Run {
            rng,
            families: families(&stores[0].engine),
            stores,
            models: vec![Model::new(), Model::new()],
            then: Vec::new(),
            seen: Vec::new(),
            values: Vec::new(),
            keys: (0..120).map(key).collect(),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.rng.pick(&self.keys).clone()
    }

    /// A few changes at once.
    fn batch(&mut self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let changes = if self.rng.one_in(20) {
            30
        } else {
            1 + self.rng.below(3)
        };
        for _ in 0..changes {
            let (at, key) = (self.rng.below(2), self.key());
            let (cf, model) = (self.families[at].id, &mut self.models[at]);
            match self.rng.below(40) {
                0 => {
                    let mut end = key.clone();
                    end.push(self.rng.next_u64().to_le_bytes()[0] % 60);
                    let end = (!self.rng.one_in(20)).then_some(end);
                    batch.delete_range(cf, &key, end.as_deref()).unwrap();
                    model.retain(|k, _| *k < key || end.as_ref().is_some_and(|end| k >= end));
                }
                1..10 => {
                    batch.delete(cf, &key).unwrap();
                    model.remove(&key);
                }
                _ => {
                    let filler = self.rng.next_u64().to_le_bytes();
                    let most = *self.rng.pick(&[200, 200, 200, 200, 1500]);
                    let len = self.rng.below(most);
                    let value: Vec<u8> = filler.into_iter().cycle().take(len).collect();
                    batch.put(cf, &key, &value).unwrap();
                    model.insert(key, value);
                }
            }
        }
        batch
    }

    fn write(&mut self) {
        let batch = self.batch();
        let durability = *self
            .rng
            .pick(&[Durability::Immediate, Durability::Buffered]);
        let mut full = Vec::new();
        for (i, store) in self.stores.iter().enumerate() {
            match store.write(&batch, durability) {
                Ok(()) => {}
                Err(Error::OutOfSpace(_)) => full.push(i),
                Err(error) => panic!("{error}"),
            }
        }
        if !full.is_empty() {
            // Who reads has all of it. Without them there is room.
            self.let_go();
            for i in full {
                self.stores[i].write(&batch, durability).unwrap();
            }
        }
    }

    fn let_go(&mut self) {
        self.stores.iter_mut().for_each(Store::let_go);
        self.then.clear();
        self.seen.clear();
        self.values.clear();
    }

    fn read(&mut self) {
        for _ in 0..10 {
            let (at, key) = (self.rng.below(2), self.key());
            let wanted = self.models[at].get(&key);
            for store in &self.stores {
                let cf = self.families[at].id;
                let found = store.engine.get(cf, &key, <[u8]>::to_vec).unwrap();
                assert_eq!(found.as_ref(), wanted, "{key:?} in {}", store.name());
            }
        }
    }

    fn check(&self) {
        for store in &self.stores {
            check_now(&store.engine, &self.families, &self.models, &self.keys);
            for (snapshot, models) in store.snapshots.iter().zip(&self.then) {
                check_then(snapshot, &self.families, models, &self.keys);
            }
            for (value, wanted) in store.pinned.iter().zip(&self.values) {
                value.verify().unwrap();
                assert_eq!(**value, **wanted);
            }
        }
    }

    /// A reader of some kind comes.
    fn hold(&mut self) {
        match self.rng.below(3) {
            0 if self.then.len() < 3 => {
                let snapshot = |store: &mut Store| store.snapshots.push(store.engine.snapshot());
                self.stores.iter_mut().for_each(snapshot);
                self.then.push(self.models.clone());
            }
            1 if self.seen.len() < 3 => {
                let at = self.rng.below(2);
                for store in &mut self.stores {
                    let mut cursor = store.engine.cursor(self.families[at]).unwrap();
                    cursor.seek_to_first().unwrap();
                    store.cursors.push(cursor);
                }
                self.seen.push((at, self.models[at].clone()));
            }
            2 if self.values.len() < 3 => {
                let (at, key) = (self.rng.below(2), self.key());
                let Some(value) = self.models[at].get(&key) else {
                    return;
                };
                for store in &mut self.stores {
                    let found = store.engine.value(self.families[at].id, &key).unwrap();
                    store.pinned.push(found.expect("it is there"));
                }
                self.values.push(value.clone());
            }
            _ => {}
        }
    }

    /// One goes.
    fn release(&mut self) {
        if !self.then.is_empty() && self.rng.one_in(2) {
            let i = self.rng.below(self.then.len());
            self.then.remove(i);
            for store in &mut self.stores {
                store.snapshots.remove(i);
            }
        }
        if !self.seen.is_empty() && self.rng.one_in(2) {
            let i = self.rng.below(self.seen.len());
            let (_, model) = self.seen.remove(i);
            for store in &mut self.stores {
                check_cursor(store.cursors.remove(i), &model);
            }
        }
        if self.rng.one_in(2) {
            self.values.clear();
            self.stores.iter_mut().for_each(|s| s.pinned.clear());
        }
    }

    fn compact(&mut self) {
        let cf = self.families[self.rng.below(2)].id;
        let from = self.key();
        for store in &self.stores {
            let range = (Bound::Included(&*from), Bound::Unbounded);
            store.engine.compact(cf, range).unwrap();
        }
    }

    fn reopen(&mut self) {
        let (options, killed) = (any(&mut self.rng), self.rng.one_in(2));
        self.let_go();
        for store in &mut self.stores {
            store.reopen(&options, killed);
        }
    }

    fn step(&mut self) {
        match self.rng.below(1000) {
            0..700 => self.write(),
            700..880 => self.read(),
            880..910 => self.hold(),
            910..940 => self.release(),
            940..950 => self.check(),
            950..960 => each(&self.stores, |engine| engine.reclaim().map(drop)),
            960..970 => each(&self.stores, |engine| engine.flush().map(drop)),
            970..980 => each(&self.stores, |engine| engine.work_ahead()),
            980..985 => each(&self.stores, |engine| {
                while engine.compact_once()? {}
                Ok(())
            }),
            985 => self.compact(),
            986..989 => self.reopen(),
            _ => {}
        }
    }

    /// After everything is deleted and compacted there is nothing left.
    fn end(&mut self) {
        self.check();
        self.let_go();
        for store in &mut self.stores {
            let mut batch = WriteBatch::new();
            for family in &self.families {
                batch.delete_range(family.id, b"", None).unwrap();
            }
            store.write(&batch, Durability::Immediate).unwrap();
            for family in &self.families {
                let all = (Bound::Unbounded, Bound::Unbounded);
                store.engine.compact(family.id, all).unwrap();
            }
            store.engine.reclaim().unwrap();
            let metrics = store.engine.metrics();
            let tables: u64 = metrics.levels.iter().map(|level| level.tables).sum();
            assert_eq!((metrics.memtables.len(), tables), (1, 0));
            assert_eq!(metrics.pm_tier.tables, 0, "{}", store.name());
            assert!(metrics.space.zones_attached <= 2, "{:?}", metrics.space);
            assert_eq!(metrics.blobs, BlobState::default());
            assert_eq!(store.machine.blob_files(), Vec::<String>::new());
            store.count();
        }
    }
}

impl Store {
    fn name(&self) -> &'static str {
        SHAPES[self.options.level0.shape() as usize]
    }
}

fn each(stores: &[Store], of: impl Fn(&Engine) -> Result<()>) {
    stores.iter().for_each(|store| of(&store.engine).unwrap());
}

fn run(seed: u64, shapes: &[&str], steps: usize) -> Vec<Met> {
    let mut run = Run::new(seed, shapes);
    for _ in 0..steps {
        run.step();
    }
    run.end();
    run.stores.iter().map(|store| store.met).collect()
}

#[test]
fn stores_of_all_shapes_answer_alike() {
    let one = |seed: &u64| {
        let _replay = Replay::new("-p thermocline-engine stores_of_all_shapes", *seed);
        run(*seed, &SHAPES, 1200)
    };
    let seeds_of_all = seeds(0..explored(2, 8));
    // Two at a time: nothing takes longer here, and it comes last.
    let (some, others) = seeds_of_all.split_at(seeds_of_all.len() / 2);
    let runs: Vec<Vec<Met>> = std::thread::scope(|scope| {
        let some = scope.spawn(|| some.iter().map(one).collect());
        let mut runs: Vec<_> = others.iter().map(one).collect();
        runs.append(&mut some.join().unwrap());
        runs
    });
    let mut all = [Met::default(); SHAPES.len()];
    for run in runs {
        for (sum, met) in all.iter_mut().zip(run) {
            sum.flushes += met.flushes;
            sum.compactions += met.compactions;
            sum.merges += met.merges;
            sum.dropped += met.dropped;
            sum.found_merged += met.found_merged;
        }
    }
    println!("{all:?}");
    if seeds(0..2).len() == 1 {
        return;
    }
    for (met, shape) in all.iter().zip(SHAPES) {
        assert!(
            met.flushes > explored(15, 80) && met.compactions > explored(8, 40),
            "{shape}: {met:?}"
        );
        assert!(met.dropped > explored(80, 400), "{shape}: {met:?}");
        let merges = ["global-index", "tiered"].contains(&shape);
        assert_eq!(
            met.merges > explored(6, 80) && met.found_merged > explored(35, 200),
            merges,
            "{shape}: {met:?}"
        );
        assert!(merges || met.merges == 0, "{shape}: {met:?}");
    }
}

/// Whether a run with this bug goes wrong.
fn is_caught(bug: Bug) -> bool {
    (0..10).any(|seed| {
        let run = || {
            let _bug = plant(bug);
            run(seed, &["global-index"], 1200);
        };
        std::panic::catch_unwind(run).is_err()
    })
}

#[test]
fn merges_that_leave_out_too_much_are_caught() {
    assert!(is_caught(Bug::MergeForgetsReaders));
    assert!(is_caught(Bug::MergeDropsDeletes));
}
