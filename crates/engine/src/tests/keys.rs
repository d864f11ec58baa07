//! The ordered index of level 0 (`level0.key_index`): stores that have it answer as maps do, whatever is written, ingested,
//! held, moved down and reopened, and whether there is room for it.

use std::ops::Bound;

use thermocline_base::budget::Evict;
use thermocline_base::options::{Preset, Shape};
use thermocline_tables::TableFiles;
use thermocline_testkit::explore::{explored, side_by_side};
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::flush::tests::{Model, check_now, check_then, families};
use crate::{IngestWriter, Snapshot};

const PM: u64 = 2 << 20;
const DRAM: u64 = 8 << 20;

/// Small tables and blocks, in a level 0 of many files.
fn options(preset: Preset) -> Options {
    let mut options = Options {
        dram: DRAM,
        ..Options::preset(preset)
    };
    if !options.in_dram() {
        options.pm = PM;
        options.pm_region.part_bytes_first = 256 << 10;
    }
    options.level0.shape = Some(Shape::Ssd);
    options.level0.key_index = true;
    options.flush.automatic = false;
    // Tables stay as they were flushed.
    options.compaction.level0_tables = 1024;
    options.compaction.table_bytes = 4 << 10;
    options.compaction.block_bytes = 512;
    options
}

/// Where a store lies.
struct Home {
    fs: SimFs,
    pm: SimPm,
    options: Options,
}

impl Home {
    fn new(options: Options) -> Home {
        let steps = Steps::new();
        Home {
            fs: SimFs::new(steps.clone()),
            pm: SimPm::new(PM, steps),
            options,
        }
    }

    fn env(&self) -> Env {
        Env {
            storage: Arc::new(self.fs.clone()),
            ..Env::real()
        }
    }

    fn open(&self) -> Engine {
        let world = World {
            env: self.env(),
            sim: (!self.options.in_dram()).then(|| self.pm.clone()),
            shadow: None,
            background: false,
        };
        Engine::open(world, Path::new("/db"), self.options.clone()).unwrap()
    }

    fn kill(&mut self) {
        let steps = Steps::new();
        self.fs = self.fs.image_killed(steps.clone());
        self.pm = self.pm.fork(steps);
    }
}

fn files(engine: &Engine) -> &TableFiles {
    &engine.inner.common.catalog.table_files
}

fn key_bytes(engine: &Engine) -> u64 {
    files(engine).keys.bytes()
}

struct Story {
    rng: Rng,
    home: Home,
    engine: Engine,
    families: Vec<Family>,
    models: Vec<Model>,
    held: Vec<(Snapshot, Vec<Model>)>,
    keys: Vec<Vec<u8>>,
    ingested: usize,
    reopened_with_keys: usize,
}

impl Story {
    fn new(seed: u64, preset: Preset) -> Story {
        let home = Home::new(options(preset));
        let engine = home.open();
        // Some are the beginnings of others.
        let key = |n: u8| [&b"kk"[..usize::from(n % 3)], &[n]].concat();
        let longer = |n: u8| [key(n), vec![0]].concat();
        let mut keys: Vec<Vec<u8>> = (0..60).map(key).chain((0..20).map(longer)).collect();
        keys.sort();
        keys.dedup();
        Story {
            rng: Rng::new(seed),
            families: families(&engine),
            home,
            engine,
            models: vec![Model::new(), Model::new()],
            held: Vec::new(),
            keys,
            ingested: 0,
            reopened_with_keys: 0,
        }
    }

    fn write(&mut self) {
        let (at, key) = (self.rng.below(2), self.rng.pick(&self.keys).clone());
        let (cf, model) = (self.families[at].id, &mut self.models[at]);
        let mut batch = WriteBatch::new();
        match self.rng.below(20) {
            0 => {
                let end = [&key[..], &[30]].concat();
                batch.delete_range(cf, &key, Some(&end)).unwrap();
                model.retain(|other, _| *other < key || *other >= end);
            }
            1..5 => {
                batch.delete(cf, &key).unwrap();
                model.remove(&key);
            }
            _ => {
                // Versions that snapshots hold fill several blocks.
                let value = vec![self.rng.next_u64().to_le_bytes()[0]; self.rng.below(400)];
                batch.put(cf, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
        let written = self.engine.write(batch.iter(), Durability::Immediate);
        written.unwrap();
    }

    fn ingest(&mut self) {
        self.ingested += 1;
        let at = self.rng.below(2);
        let path = format!("/in{}.sst", self.ingested);
        let mut table = IngestWriter::create(&self.home.env(), Path::new(&path)).unwrap();
        for key in &self.keys {
            match self.rng.below(3) {
                0 => {
                    table.put(key, path.as_bytes()).unwrap();
                    self.models[at].insert(key.clone(), path.as_bytes().to_vec());
                }
                1 => {
                    table.delete(key).unwrap();
                    self.models[at].remove(key);
                }
                _ => {}
            }
        }
        table.finish().unwrap();
        self.engine.ingest(self.families[at].id, &[path]).unwrap();
    }

    fn compact(&mut self) {
        let from = self.rng.pick(&self.keys).clone();
        let family = self.families[self.rng.below(2)];
        let range = (Bound::Included(&*from), Bound::Unbounded);
        self.engine.compact(family.id, range).unwrap();
    }

    fn reopen(&mut self) {
        self.held.clear();
        match self.rng.one_in(2) {
            true => self.home.kill(),
            false => self.engine.close().unwrap(),
        }
        self.engine = self.home.open();
        let levels = self.engine.metrics().levels;
        let in_level0 = levels.first().map_or(0, |level| level.tables);
        assert_eq!(key_bytes(&self.engine) > 0, in_level0 > 0);
        self.reopened_with_keys += usize::from(in_level0 > 0);
    }

    /// All ways in which keys are looked up: alone, and together.
    fn check(&self) {
        check_now(&self.engine, &self.families, &self.models, &self.keys);
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models, &self.keys);
            for (family, model) in self.families.iter().zip(models) {
                let asked: Vec<_> = self.keys.iter().map(|key| (family.id, &key[..])).collect();
                for (key, found) in self.keys.iter().zip(snapshot.values(&asked)) {
                    let found = found.unwrap();
                    assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice));
                }
            }
        }
        assert!(key_bytes(&self.engine) <= DRAM / 8);
        assert!(self.engine.metrics().dram.tables >= key_bytes(&self.engine));
    }

    fn step(&mut self) {
        match self.rng.below(200) {
            0..20 => {
                self.engine.flush().unwrap();
            }
            20..24 => self.ingest(),
            24..30 if self.held.len() < 4 => {
                self.held
                    .push((self.engine.snapshot(), self.models.clone()));
            }
            30..33 if !self.held.is_empty() => {
                let at = self.rng.below(self.held.len());
                drop(self.held.remove(at));
            }
            33..35 => self.compact(),
            35 => self.reopen(),
            36 => files(&self.engine).evict(self.rng.below(8 << 10) as u64),
            37..41 => self.check(),
            _ => self.write(),
        }
    }
}

#[test]
fn stores_that_have_keys_of_level_0_in_dram_answer_as_maps_do() {
    let all = seeds(0..explored(4, 12));
    // They come last, and the last one would be alone.
    let reopened = side_by_side(&all, |&seed| {
        let _replay = Replay::new("-p thermocline-engine stores_that_have_keys", seed);
        let preset = [Preset::Trident, Preset::Thermocline][usize::from(seed % 2 == 1)];
        let mut story = Story::new(seed, preset);
        for _ in 0..600 {
            story.step();
        }
        story.check();
        story.reopen();
        story.check();
        story.reopened_with_keys
    });
    let reopened: usize = reopened.into_iter().sum();
    let least = usize::try_from(explored(1, 6)).unwrap();
    assert!(all.len() == 1 || reopened > least, "{reopened}");
}

fn put_each(engine: &Engine, keys: impl Iterator<Item = u32>, key: impl Fn(u32) -> Vec<u8>) {
    for n in keys {
        put(engine, &key(n), &n.to_be_bytes());
    }
    engine.flush().unwrap();
}

/// What is not in level 0 is known without a table, and a store that is opened again knows it again.
#[test]
fn no_table_is_opened_for_what_is_not_there() {
    let key = |n: u32| n.to_be_bytes().to_vec();
    for preset in [Preset::Trident, Preset::Thermocline] {
        let home = Home::new(options(preset));
        let engine = home.open();
        put_each(&engine, (0..500).map(|n| 2 * n), key);
        put_each(&engine, (0..500).map(|n| 4 * n), key);
        let opened = files(&engine).open_use().opened();
        let none = (0..1000).all(|n| get(&engine, &key(2 * n + 1)).is_none());
        assert!(none);
        assert_eq!(files(&engine).open_use().opened(), opened);
        assert!(key_bytes(&engine) > 1000 * 8);
        engine.close().unwrap();
        let engine = home.open();
        let before = files(&engine).bytes().read();
        let none = (0..1000).all(|n| get(&engine, &key(2 * n + 1)).is_none());
        assert!(none && files(&engine).bytes().read() == before);
        assert_eq!(get(&engine, &key(8)), Some(key(8)));
        assert_eq!(get(&engine, &key(6)), Some(key(6)));
        // What has left level 0 needs none.
        let all = (Bound::Unbounded, Bound::Unbounded);
        engine.compact(CF, all).unwrap();
        assert_eq!(get(&engine, &key(6)), Some(key(6)));
        assert_eq!(key_bytes(&engine), 0);
    }
}

#[test]
fn tables_whose_keys_find_no_room_are_read_as_others_are() {
    let key = |n: u32| [&n.to_be_bytes()[..], &[b'k'; 1000]].concat();
    let mut small = options(Preset::Thermocline);
    small.dram = 2 << 20;
    let home = Home::new(small);
    let engine = home.open();
    // Much more than an eighth of it.
    for round in 0..6 {
        put_each(&engine, (0..100).map(|n| 6 * n + round), key);
    }
    let check = |engine: &Engine| {
        let bytes = key_bytes(engine);
        assert!((100 << 10..=256 << 10).contains(&bytes), "{bytes}");
        for n in 0..600 {
            assert_eq!(get(engine, &key(n)), Some(n.to_be_bytes().to_vec()), "{n}");
            assert_eq!(get(engine, &key(n)[..900]), None);
        }
    };
    check(&engine);
    engine.close().unwrap();
    let engine = home.open();
    check(&engine);
    // They give way, and nothing is missed.
    files(&engine).evict(1 << 30);
    assert_eq!(key_bytes(&engine), 0);
    for n in 0..600 {
        assert_eq!(get(&engine, &key(n)), Some(n.to_be_bytes().to_vec()), "{n}");
    }
}

/// A table that cannot be read when the store is opened is in nobody's way before somebody reads it.
#[test]
fn a_damaged_table_has_no_keys_and_the_store_opens() {
    let key = |n: u32| n.to_be_bytes().to_vec();
    let home = Home::new(options(Preset::Thermocline));
    let engine = home.open();
    put_each(&engine, 0..20, key);
    let names = home.env().storage.list(Path::new("/db")).unwrap();
    let mut tables = names.iter().filter(|name| name.ends_with(".sst"));
    let path = Path::new("/db").join(tables.next().expect("there is one"));
    engine.close().unwrap();
    let mut bytes = home.fs.contents(&path).unwrap();
    bytes[5] ^= 1;
    home.fs.install(&path, &bytes);
    let engine = home.open();
    assert_eq!((tables.next(), key_bytes(&engine)), (None, 0));
    let error = engine.get(CF, &key(3), <[u8]>::to_vec).unwrap_err();
    let corruption = thermocline_base::ErrorKind::Corruption;
    assert_eq!(error.kind(), corruption, "{error}");
}
