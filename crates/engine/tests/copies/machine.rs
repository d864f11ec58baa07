//! Stores in simulated worlds, each with a region of its own, and all that is in one.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Result, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, World};
use thermocline_env::{Env, Storage, sim::SimFs};
use thermocline_pm::SimPm;
use thermocline_testkit::Rng;

const PM: u64 = 4 << 20;

pub fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 16 << 10;
    // Flushes write files.
    options.set("level0.shape", "global-index").unwrap();
    // Some values are longer.
    options.blob.inline_bytes_max = 250;
    options.level0.merge_percent = 0;
    options
}

/// All keys.
pub const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// All that is in a store, by family: in the family's order, and its metadata.
pub type Dump = BTreeMap<String, (Pairs, Option<Vec<u8>>)>;

/// Where a store lies, and its region.
#[derive(Clone)]
pub struct Place {
    pub storage: Arc<dyn Storage>,
    pub pm: SimPm,
    pub dir: PathBuf,
}

impl Place {
    pub fn new(storage: &Arc<dyn Storage>, dir: &str) -> Place {
        Place {
            storage: storage.clone(),
            pm: SimPm::new(PM, Steps::new()),
            dir: PathBuf::from(dir),
        }
    }

    pub fn world(&self) -> World {
        World {
            env: Env {
                storage: self.storage.clone(),
                ..Env::real()
            },
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        }
    }

    pub fn open(&self) -> Engine {
        self.try_open(&options()).unwrap()
    }

    pub fn try_open(&self, options: &Options) -> Result<Engine> {
        Engine::open(self.world(), &self.dir, options.clone())
    }

    /// The tables that lie there.
    pub fn tables(&self) -> Vec<String> {
        let mut names = self.storage.list(&self.dir).unwrap();
        names.retain(|name| name.ends_with(".sst"));
        names
    }

    /// Where the database is whole.
    pub fn verify(&self) {
        let report = thermocline_engine::verify(&self.world(), &self.dir, &options()).unwrap();
        assert_eq!(report.faults, []);
    }
}

pub fn disk() -> Arc<dyn Storage> {
    Arc::new(SimFs::new(Steps::new()))
}

pub fn dump(engine: &Engine) -> Dump {
    let family = |name: String| {
        let family = engine.find_family(&name).unwrap();
        let mut cursor = engine.cursor(family).unwrap();
        let mut pairs = Pairs::new();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            pairs.push((cursor.key().to_vec(), cursor.value().to_vec()));
            more = cursor.next().unwrap();
        }
        for (key, value) in &pairs {
            let found = engine.get(family.id, key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), Some(value));
        }
        let metadata = engine.metadata(family.id, <[u8]>::to_vec).unwrap();
        (name, (pairs, metadata))
    };
    engine.families().into_iter().map(family).collect()
}

pub fn put(engine: &Engine, cf: CfId, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(cf, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

/// The default family and one that descends.
pub fn both(engine: &Engine) -> [Family; 2] {
    let mut reverse = CfOptions::default();
    reverse.reverse = Some(true);
    [Family::DEFAULT, engine.family("down", &reverse).unwrap()]
}

/// A range of keys that [`write_some`] writes, empty or not, now and then one without end.
fn some_range(rng: &mut Rng) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut ends = [0, 1].map(|_| {
        let key = vec![b'k'; rng.below(3)];
        [key, vec![u8::try_from(rng.below(60)).unwrap()]].concat()
    });
    ends.sort();
    let [start, end] = ends;
    (start, (!rng.one_in(8)).then_some(end))
}

/// Some writes over few keys: puts, deletes, of ranges, too, batches with metadata, buffered ones, flushes,
/// compactions.
pub fn write_some(engine: &Engine, rng: &mut Rng, n: usize) {
    let families = both(engine);
    for _ in 0..n {
        let mut batch = WriteBatch::new();
        for _ in 0..=rng.below(3) {
            let cf = rng.pick(&families).id;
            let key = vec![b'k'; rng.below(3)];
            let key = [key, vec![u8::try_from(rng.below(60)).unwrap()]].concat();
            match rng.below(40) {
                0..29 => {
                    let value = vec![rng.next_u64().to_le_bytes()[0]; rng.below(300)];
                    batch.put(cf, &key, &value).unwrap();
                }
                29..36 => batch.delete(cf, &key).unwrap(),
                36 => {
                    let (start, end) = some_range(rng);
                    batch.delete_range(cf, &start, end.as_deref()).unwrap();
                }
                _ => batch
                    .set_metadata(cf, &rng.next_u64().to_le_bytes())
                    .unwrap(),
            }
        }
        let durability = match rng.below(2) {
            0 => Durability::Immediate,
            _ => Durability::Buffered,
        };
        engine.write(batch.iter(), durability).unwrap();
        if rng.one_in(60) {
            engine.flush().unwrap();
        }
        if rng.one_in(90) {
            let (start, end) = some_range(rng);
            let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let range = (Bound::Included(&start[..]), end);
            engine.compact(rng.pick(&families).id, range).unwrap();
        }
    }
}

pub fn path(text: &str) -> &Path {
    Path::new(text)
}
