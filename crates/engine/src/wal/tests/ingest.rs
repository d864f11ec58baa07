//! Stores that end with an ingestion, whatever memtable it ended, or in a flush.

use std::collections::BTreeMap;

use thermocline_base::CfOptions;
use thermocline_base::step::{Observer, Point, When};
use thermocline_version::sites::EDIT_DURABLE;

use super::*;
use crate::Snapshot;
use crate::sync::{Arc, Mutex, lock};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A table with these keys, each with itself as its value, four times.
fn table(fs: &SimFs, name: &str, keys: &[u8]) -> PathBuf {
    let path = PathBuf::from(name);
    let mut writer = IngestWriter::create(&world(fs).env, &path).unwrap();
    for &key in keys {
        writer.put(&[key], &[key; 4]).unwrap();
    }
    writer.finish().unwrap();
    path
}

fn all(engine: &Engine) -> Map {
    let family = engine.find_family("default").unwrap();
    let mut cursor = engine.cursor(family).unwrap();
    let mut map = Map::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        map.insert(cursor.key().to_vec(), cursor.value().to_vec());
        more = cursor.next().unwrap();
    }
    map
}

/// The memtable that an ingestion ends has nothing but the item that covers an idle store, and the one
/// behind it has nothing at all.
#[test]
fn a_store_that_ends_with_an_ingestion_can_be_opened_again() {
    for (held, closed) in [(false, false), (false, true), (true, false), (true, true)] {
        let fs = SimFs::new(Steps::new());
        let options = Options {
            preset: Preset::Leveled,
            ..Options::default()
        };
        // With threads, nobody drops what is dead before the ingestion has its edit.
        let threads = World {
            background: true,
            ..world(&fs)
        };
        let engine = Engine::open(threads, Path::new(DB), options.clone()).unwrap();
        put(&engine, 1);
        let snapshot = held.then(|| engine.snapshot());
        engine.flush().unwrap();
        engine.cover_idle().unwrap();
        let path = table(&fs, "/t.sst", &[2]);
        engine.ingest(CfId::DEFAULT, &[path]).unwrap();
        let expected = all(&engine);
        assert_eq!(expected.len(), 2);
        // What the snapshot keeps is still named when the process ends.
        let left = match closed {
            true => {
                engine.close().unwrap();
                fs.clone()
            }
            false => fs.image_killed(Steps::new()),
        };
        drop(snapshot);
        for round in 0..3 {
            let engine = open(&left, &options).unwrap();
            assert_eq!(all(&engine), expected, "{held} {closed} {round}");
            engine.close().unwrap();
        }
    }
}

/// As above, with nothing flushed: behind a memtable that has records one follows that has nothing but the
/// item that covers an idle store.
#[test]
fn a_memtable_with_nothing_but_an_idle_item_seals_the_one_before() {
    let fs = SimFs::new(Steps::new());
    let options = small();
    let engine = open(&fs, &options).unwrap();
    put(&engine, 1);
    engine.inner.memtables.seal_active().unwrap();
    engine.cover_idle().unwrap();
    let expected = all(&engine);
    let image = fs.image_killed(Steps::new());
    for _ in 0..3 {
        let engine = open(&image, &options).unwrap();
        assert_eq!(all(&engine), expected);
        engine.cover_idle().unwrap();
        drop(engine);
    }
}

/// The file system behind each edit of the manifest that this makes.
fn after_edits(fs: &SimFs, make: impl FnOnce()) -> Vec<SimFs> {
    let taken: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let (sink, world) = (taken.clone(), fs.clone());
    let observer: Observer = Arc::new(move |point: Point| {
        if point.site == EDIT_DURABLE && point.when == When::After {
            lock(&sink).push(world.image_killed(Steps::new()));
        }
    });
    fs.steps().observe(Some(observer));
    make();
    fs.steps().observe(None);
    std::mem::take(&mut *lock(&taken))
}

/// A flush of many families with long keys is named in parts. Behind the first of them no table tells of the memtable, and where
/// nothing was written since, no other memtable does. What is written then is found all the same: of what is named readers ask tables
/// alone.
#[test]
fn a_memtable_of_which_a_part_is_flushed_is_sealed() {
    let mut options = Options {
        dram: 64 << 20,
        ..options()
    };
    options.flush.automatic = false;
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options).unwrap();
    let family = |n: u32| engine.family(&format!("family {n}"), &CfOptions::default());
    let families: Vec<CfId> = (0..100).map(|n| family(n).unwrap().id).collect();
    let key = vec![b'k'; 64_000];
    let put = |engine: &Engine, family: CfId, value: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(family, &key, value).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    };
    for family in &families {
        put(&engine, *family, b"old");
    }
    let points = after_edits(&fs, || assert!(engine.flush().unwrap() > 0));
    let ends = [families[0], families[99]];
    let has = |engine: &Engine, value: &[u8]| {
        for family in &families {
            let expected: &[u8] = if ends.contains(family) { value } else { b"old" };
            let found = engine.get(*family, &key, |found| found == expected);
            assert_eq!(found.unwrap(), Some(true), "{family:?}");
        }
    };
    let mut in_parts = 0;
    for left in &points {
        let engine = open(left, &options).unwrap();
        in_parts += {
            let edits = engine.inner.common.catalog.edits();
            usize::from(edits.state().evacuation().is_some())
        };
        has(&engine, b"old");
        ends.iter().for_each(|family| put(&engine, *family, b"new"));
        has(&engine, b"new");
        engine.flush().unwrap();
        has(&engine, b"new");
        engine.close().unwrap();
        drop(engine);
        has(&open(left, &options).unwrap(), b"new");
    }
    assert!(in_parts > 0, "of {} points", points.len());
}

fn small() -> Options {
    let mut options = options();
    options.flush.automatic = false;
    options.memtable.bytes_max = 16 << 10;
    options.memtable.item_bytes_max = 4 << 10;
    options
}

struct Story {
    rng: Rng,
    fs: SimFs,
    options: Options,
    engine: Engine,
    expected: Map,
    held: Vec<Snapshot>,
    tables: u32,
}

impl Story {
    fn step(&mut self) {
        match self.rng.below(20) {
            0..8 => self.write(1),
            // It is staged.
            8 => self.write(60),
            9 | 10 => self.held.push(self.engine.snapshot()),
            11 => self.held.clear(),
            12 | 13 => drop(self.engine.flush().unwrap()),
            14 | 15 => self.engine.cover_idle().unwrap(),
            16 => self.engine.inner.memtables.seal_active().unwrap(),
            17 => self.ingest(),
            18 => self.engine.work_ahead().unwrap(),
            _ => drop(self.engine.inner.reclaimer.reclaim().unwrap()),
        }
    }

    fn write(&mut self, most: usize) {
        let mut batch = WriteBatch::new();
        for _ in 0..most {
            let key = vec![self.rng.below(200).to_le_bytes()[0]];
            let value = vec![7; self.rng.below(300)];
            batch.put(CfId::DEFAULT, &key, &value).unwrap();
            self.expected.insert(key, value);
        }
        if most == 1 && self.rng.one_in(4) {
            batch
                .delete_range(CfId::DEFAULT, &[100], Some(&[120]))
                .unwrap();
            let dead = self.expected.extract_if(vec![100]..vec![120], |_, _| true);
            dead.for_each(drop);
        }
        let durability = *self
            .rng
            .pick(&[Durability::Immediate, Durability::Buffered]);
        self.engine.write(batch.iter(), durability).unwrap();
    }

    fn ingest(&mut self) {
        self.tables += 1;
        let mut keys: Vec<u8> = (0..3)
            .map(|_| self.rng.below(250).to_le_bytes()[0])
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let path = table(&self.fs, &format!("/t{}.sst", self.tables), &keys);
        self.engine.ingest(CfId::DEFAULT, &[path]).unwrap();
        self.expected
            .extend(keys.iter().map(|&key| (vec![key], vec![key; 4])));
    }

    /// What comes last, an ingestion as often as not, and the next opening.
    fn end(&mut self) {
        match self.rng.below(6) {
            0..3 => self.ingest(),
            3 => self.engine.cover_idle().unwrap(),
            _ => {}
        }
        self.engine.sync().unwrap();
        if self.rng.one_in(2) {
            self.fs = self.fs.image_killed(Steps::new());
        } else {
            self.engine.close().unwrap();
        }
        if self.rng.one_in(2) {
            self.held.clear();
        }
        self.engine = open(&self.fs, &self.options).unwrap();
        assert_eq!(all(&self.engine), self.expected);
    }
}

#[test]
fn stories_that_end_with_an_ingestion_go_on() {
    for seed in seeds(0..60) {
        let _replay = Replay::new("-p thermocline-engine --lib wal::tests::ingest", seed);
        let mut rng = Rng::new(seed);
        let mut options = small();
        options.flush.automatic = rng.below(2) == 1;
        let fs = SimFs::new(Steps::new());
        let mut story = Story {
            rng,
            engine: open(&fs, &options).unwrap(),
            fs,
            options,
            expected: Map::new(),
            held: Vec::new(),
            tables: 0,
        };
        for _ in 0..8 {
            for _ in 0..story.rng.below(12) {
                story.step();
            }
            story.end();
        }
    }
}
