//! Reading beside somebody who writes: one moment, whatever is written, flushed and compacted while it is copied, and later.
//!
//! The writer acts whenever the reader's process reads a file, in the middle of it: some writes, a flush, a compaction. So a test is
//! the same each time, and every place at which somebody could come between comes up. Each write has its number in a key of its own; what
//! is read must be what exactly the first so many writes leave.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, Kind, Result, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, LOCK_NAME, Setup, World, verify};
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::{Env, File};
use thermocline_testkit::explore::{explored, side_by_side};
use thermocline_testkit::{Replay, Rng, seeds};

const CF: CfId = CfId::DEFAULT;

/// The key that has the number of the last write.
const NUMBER: &[u8] = b"!";

const PRESETS: [Preset; 6] = [
    Preset::Thermocline,
    Preset::GlobalIndex,
    Preset::PmBlade,
    Preset::FlatLsm,
    Preset::Leveled,
    Preset::Trident,
];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(preset: Preset) -> Options {
    let mut options = Options {
        pm: 4 << 20,
        dram: 8 << 20,
        ..Options::preset(preset)
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.manifest.bytes_max = 4 << 10;
    options.blob.value_bytes_min = 8 << 10;
    options
}

/// What the write of that number changes.
fn changes(seed: u64, number: u64) -> WriteBatch {
    let mut rng = Rng::new(seed ^ number.wrapping_mul(0x1000_0001));
    let mut batch = WriteBatch::new();
    let text = number.to_string();
    batch.put(CF, NUMBER, text.as_bytes()).unwrap();
    let key = |rng: &mut Rng| format!("key {:04}", rng.below(400)).into_bytes();
    for _ in 0..1 + rng.below(3) {
        match rng.below(60) {
            0..=9 => batch.delete(CF, &key(&mut rng)).unwrap(),
            10 => {
                let (from, to) = (key(&mut rng), key(&mut rng));
                if from < to {
                    batch.delete_range(CF, &from, Some(&to)).unwrap();
                }
            }
            _ => {
                let mut value = text.clone().into_bytes();
                let most = *rng.pick(&[100, 1000, 1000, 5000, 40_000]);
                value.resize(value.len() + rng.below(most), b'v');
                batch.put(CF, &key(&mut rng), &value).unwrap();
            }
        }
    }
    batch
}

/// What the first so many writes leave.
fn model(seed: u64, numbers: u64) -> Model {
    let mut model = Model::new();
    for number in 1..=numbers {
        for change in changes(seed, number).iter() {
            match change.kind {
                Kind::RangeDelete => {
                    model.retain(|key, _| &key[..] < change.key || &key[..] >= change.value)
                }
                Kind::Delete => drop(model.remove(change.key)),
                _ => drop(model.insert(change.key.to_vec(), change.value.to_vec())),
            }
        }
    }
    model
}

/// Who writes, whenever somebody reads a file.
#[derive(Debug)]
struct Writer {
    engine: Engine,
    rng: Rng,
    seed: u64,
    written: u64,
    /// The last write that no other process can miss: a buffered one gets into a log with the next one that is not.
    there: u64,
    is_logged: bool,
    /// How often it still acts before somebody asks it to: no moment lasts where nobody who writes ever rests.
    acts: usize,
}

impl Writer {
    fn act(&mut self) {
        match self.rng.below(12) {
            0 => drop(self.engine.flush().unwrap()),
            1 => drop(self.engine.compact_once().unwrap()),
            2 => drop(self.engine.reclaim().unwrap()),
            _ => {}
        }
        for _ in 0..self.rng.below(20) {
            self.written += 1;
            let batch = changes(self.seed, self.written);
            let durability = *self
                .rng
                .pick(&[Durability::Immediate, Durability::Buffered]);
            self.engine.write(batch.iter(), durability).unwrap();
            if !self.is_logged || durability == Durability::Immediate {
                self.there = self.written;
            }
        }
    }
}

/// Lets the writer act in one of so many reads, for as long as it is there.
#[derive(Debug, Default)]
struct Between {
    writer: Mutex<Option<Writer>>,
    rarely: usize,
}

impl Between {
    fn with<T>(&self, with: impl FnOnce(&mut Writer) -> T) -> T {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        with(writer.as_mut().unwrap())
    }
}

impl Hooks for Between {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        // Files are read on several threads.
        if let Ok(mut writer) = self.writer.try_lock()
            && let Some(writer) = writer.as_mut()
            && writer.acts > 0
            && writer.rng.one_in(self.rarely)
        {
            writer.acts -= 1;
            writer.act();
        }
        file.read_at(buf, offset)
    }
}

struct Test {
    _home: tempfile::TempDir,
    dir: PathBuf,
    options: Options,
    world: World,
    between: Arc<Between>,
}

impl Test {
    fn new(seed: u64, preset: Preset) -> Test {
        let home = match Path::new("/dev/shm").is_dir() {
            true => tempfile::tempdir_in("/dev/shm").unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let dir = home.path().join("db");
        let options = options(preset);
        let mut rng = Rng::new(seed);
        let real = World {
            background: false,
            ..World::real()
        };
        let mut writer = Writer {
            engine: Engine::open(real.clone(), &dir, options.clone()).unwrap(),
            seed,
            written: 0,
            there: 0,
            is_logged: options.in_dram(),
            acts: 0,
            rng: Rng::new(rng.next_u64()),
        };
        for _ in 0..rng.below(150) {
            writer.act();
        }
        let between = Arc::new(Between {
            writer: Mutex::new(Some(writer)),
            rarely: *rng.pick(&[1, 3, 10, 40]),
        });
        let storage = Hooked::new(real.env.storage.clone(), between.clone());
        let world = World {
            env: Env {
                storage,
                ..real.env
            },
            ..real
        };
        Test {
            _home: home,
            dir,
            options: Options {
                read_only: true,
                ..options
            },
            world,
            between,
        }
    }

    /// Opens the store beside the writer, and reads all of it. Returns it with the number of the moment.
    fn open(&self) -> (Engine, u64, Model) {
        let before = self.between.with(|writer| {
            writer.acts = writer.rng.below(60);
            writer.there
        });
        let (world, options) = (self.world.clone(), self.options.clone());
        let reader = Engine::open(world, &self.dir, options).unwrap();
        let after = self.between.with(|writer| writer.written);
        let found = contents(&reader);
        let number = found
            .get(NUMBER)
            .map_or("0".into(), |n| String::from_utf8_lossy(n));
        let number: u64 = number.parse().unwrap();
        assert!(
            (before..=after).contains(&number),
            "{before} {number} {after}"
        );
        let seed = self.between.with(|writer| writer.seed);
        assert!(
            found == model(seed, number),
            "not what {number} writes leave"
        );
        (reader, number, found)
    }
}

fn contents(engine: &Engine) -> Model {
    let mut found = Model::new();
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        found.insert(cursor.key().to_vec(), cursor.value().to_vec());
        more = cursor.next().unwrap();
    }
    for (key, value) in &found {
        assert!(*engine.value(CF, key).unwrap().unwrap() == **value);
    }
    found
}

#[test]
fn a_moment_is_read_and_stays_whatever_is_written_meanwhile() {
    // It is the longest of this program.
    side_by_side(&seeds(0..explored(12, 200)), |&seed| {
        let _replay = Replay::new("-p thermocline-engine --test store beside", seed);
        let preset = *Rng::new(seed).pick(&PRESETS);
        let test = Test::new(seed, preset);
        let (reader, _, found) = test.open();
        // Everything is written again, and what was read has gone from where it was.
        test.between.with(|writer| {
            for _ in 0..40 {
                writer.act();
            }
            let all = (Bound::Unbounded, Bound::Unbounded);
            writer.engine.compact(CF, all).unwrap();
            writer.engine.reclaim().unwrap();
        });
        assert!(contents(&reader) == found, "{preset:?}");
        let (_second, ..) = test.open();
        assert!(contents(&reader) == found, "{preset:?}");
        test.between.with(|writer| writer.acts = 100);
        let report = verify(&test.world, &test.dir, &test.options).unwrap();
        assert_eq!(report.faults, [], "{preset:?}");
        assert!(report.records > 0);
        drop(reader);
    });
}

#[test]
fn nobody_notices_who_reads_beside() {
    let test = Test::new(1, Preset::Thermocline);
    let setup = Setup {
        beside_writers: true,
        ..Setup::default()
    };
    let open = |setup: &Setup| {
        let (world, options) = (test.world.clone(), test.options.clone());
        Engine::open_with(world, &test.dir, options, setup.clone()).unwrap()
    };
    let reader = open(&setup);
    let found = contents(&reader);
    // The writer ends, and another one comes and finds nobody in the way.
    let mut writer = test.between.writer.lock().unwrap().take().unwrap();
    writer.engine.close().unwrap();
    // Where nobody writes none is kept out either.
    let second = open(&setup);
    let options = Options {
        read_only: false,
        ..test.options.clone()
    };
    writer.engine = Engine::open(test.world.clone(), &test.dir, options.clone()).unwrap();
    assert!(contents(&second) == model(writer.seed, writer.written));
    for _ in 0..60 {
        writer.act();
    }
    assert!(contents(&reader) == found);
    drop((reader, second));
    // A cursor that goes on behind the end of its store keeps no file that the next opening would remove.
    let reader = open(&setup);
    let mut cursor = reader.cursor(Family::DEFAULT).unwrap();
    reader.close().unwrap();
    writer.engine.close().unwrap();
    assert!(!test.world.env.storage.is_folder_held(&test.dir).unwrap());
    assert!(cursor.seek_to_first().unwrap());
}

/// A copy gets its region when it is first opened for writing. Whoever does so has the lock before.
#[test]
fn one_whose_region_is_being_made_is_read_and_checked() {
    let test = Test::new(2, Preset::Thermocline);
    let copy = test.dir.with_file_name("copy");
    let (seed, written) = test.between.with(|writer| {
        writer.act();
        writer.engine.checkpoint(&copy).unwrap();
        (writer.seed, writer.written)
    });
    let storage = &test.world.env.storage;
    let _locked = storage.lock(&copy.join(LOCK_NAME)).unwrap();
    let report = verify(&test.world, &copy, &test.options).unwrap();
    assert_eq!(report.faults, []);
    let (world, options) = (test.world.clone(), test.options.clone());
    let reader = Engine::open(world, &copy, options).unwrap();
    assert!(contents(&reader) == model(seed, written));
}
