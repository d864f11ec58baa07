//! What is written and named while somebody copies a moment: the reader finds all that came before whatever it finds.

use std::mem::take;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, CfOptions, Error, ErrorKind, Result, WriteBatch};
use thermocline_engine::{
    Durability, Engine, Progress, Setup, World, destroy, verify, verify_observed,
};
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::{Env, File, OpenMode};

const CF: CfId = CfId::DEFAULT;

/// What a reader goes over to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Manifest,
    /// The region, or a log.
    Records,
    /// A table, or a blob file.
    Files,
}

type Act = Box<dyn FnMut(To) -> Result<()> + Send>;

#[derive(Default)]
struct Last {
    read: Option<To>,
    act: Option<Act>,
}

/// Lets somebody act whenever the reader goes over from one of these to another, before anything is read there.
#[derive(Default)]
struct Meanwhile(Mutex<Last>);

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meanwhile").finish_non_exhaustive()
    }
}

impl Meanwhile {
    fn set(&self, act: impl FnMut(To) -> Result<()> + Send + 'static) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.act = Some(Box::new(act));
    }

    fn goes_over(&self, to: To) -> Result<()> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.read.replace(to) == Some(to) {
            return Ok(());
        }
        match &mut last.act {
            Some(act) => act(to),
            None => Ok(()),
        }
    }
}

impl Hooks for Meanwhile {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        let name = file.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            self.goes_over(To::Manifest)?;
        } else if name == "region.pm" || name.ends_with(".log") {
            self.goes_over(To::Records)?;
        } else if name.ends_with(".sst") || name.ends_with(".blob") {
            self.goes_over(To::Files)?;
        }
        file.read_at(buf, offset)
    }
}

/// A database, and whoever reads it beside a writer.
struct Test {
    dir: PathBuf,
    options: Options,
    /// The reader's.
    world: World,
    meanwhile: Arc<Meanwhile>,
    _home: tempfile::TempDir,
}

impl Test {
    fn new(preset: Preset) -> Test {
        let home = match Path::new("/dev/shm").is_dir() {
            true => tempfile::tempdir_in("/dev/shm").unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        let mut options = Options {
            pm: 4 << 20,
            dram: 8 << 20,
            ..Options::preset(preset)
        };
        options.pm_region.part_bytes_first = 256 << 10;
        options.blob.inline_bytes_max = 1 << 10;
        let real = world();
        let meanwhile = Arc::new(Meanwhile::default());
        let storage = Hooked::new(real.env.storage.clone(), meanwhile.clone());
        Test {
            dir: home.path().join("db"),
            options,
            world: World {
                env: Env {
                    storage,
                    ..real.env
                },
                ..real
            },
            meanwhile,
            _home: home,
        }
    }

    fn writer(&self) -> Engine {
        Engine::open(world(), &self.dir, self.options.clone()).unwrap()
    }

    fn reader(&self) -> Engine {
        self.try_reader().unwrap()
    }

    fn try_reader(&self) -> Result<Engine> {
        let options = Options {
            read_only: true,
            ..self.options.clone()
        };
        Engine::open(self.world.clone(), &self.dir, options)
    }

    /// Changes a byte of a key where its record lies, in the region or in a log.
    fn damage(&self, key: &[u8]) {
        let storage = world().env.storage;
        let mut damaged = 0;
        for name in storage.list(&self.dir).unwrap() {
            if name != "region.pm" && !name.ends_with(".log") {
                continue;
            }
            let path = self.dir.join(name);
            let file = storage.open(&path, OpenMode::ReadWrite).unwrap();
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let at = bytes.windows(key.len()).position(|found| found == key);
            if let Some(at) = at {
                file.write_at(&[!key[0]], at as u64).unwrap();
                damaged += 1;
            }
        }
        assert_eq!(damaged, 1);
    }
}

fn world() -> World {
    World {
        background: false,
        ..World::real()
    }
}

fn put(engine: &Engine, key: &str, value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(CF, key.as_bytes(), value).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn has(engine: &Engine, key: &str) -> bool {
    engine.value(CF, key.as_bytes()).unwrap().is_some()
}

fn put_long_values_whenever_records_are_to_be_read(preset: Preset) {
    let test = Test::new(preset);
    let writer = test.writer();
    put(&writer, "short", b"value");
    let (other, mut number) = (writer.clone(), 0);
    test.meanwhile.set(move |to| {
        if to == To::Records {
            number += 1;
            put(&other, &format!("long {number}"), &[b'v'; 5000]);
        }
        Ok(())
    });
    let reader = test.reader();
    let value = reader.value(CF, b"long 1").unwrap().unwrap();
    assert!(*value == [b'v'; 5000]);
    let report = verify(&test.world, &test.dir, &test.options).unwrap();
    assert_eq!(report.faults, [], "{preset:?}");
    // Nobody waits for a moment in which nothing comes.
    assert!(!has(&reader, "long 2") && has(&writer, "long 2") && !has(&writer, "long 3"));
}

#[test]
fn a_file_of_values_that_is_named_meanwhile_is_found() {
    put_long_values_whenever_records_are_to_be_read(Preset::Thermocline);
    put_long_values_whenever_records_are_to_be_read(Preset::Leveled);
}

#[test]
fn tables_are_kept_before_records_are_read() {
    let test = Test::new(Preset::Leveled);
    let writer = test.writer();
    for value in [b"first", b"later"] {
        // Neither table can go elsewhere without the other one.
        put(&writer, "first", value);
        put(&writer, "second", value);
        writer.flush().unwrap();
    }
    writer.reclaim().unwrap();
    let (other, looks) = (writer.clone(), Arc::new(AtomicU32::new(0)));
    let counted = looks.clone();
    test.meanwhile.set(move |to| {
        if to == To::Records {
            counted.fetch_add(1, Ordering::Relaxed);
            // Both tables go.
            other.compact(CF, (Bound::Unbounded, Bound::Unbounded))?;
        }
        Ok(())
    });
    let reader = test.reader();
    assert!(has(&reader, "first") && has(&reader, "second"));
    assert_eq!(looks.load(Ordering::Relaxed), 1);
}

#[test]
fn a_family_that_is_dropped_meanwhile_is_not_beside_what_was_written_later() {
    let test = Test::new(Preset::Thermocline);
    let writer = test.writer();
    writer.family("family", &CfOptions::default()).unwrap();
    put(&writer, "before", b"value");
    let (other, mut comes) = (writer.clone(), true);
    test.meanwhile.set(move |to| {
        if to == To::Records && take(&mut comes) {
            other.drop_family("family")?;
            put(&other, "later", b"value");
        }
        Ok(())
    });
    let reader = test.reader();
    assert!(has(&reader, "before") && has(&reader, "later"));
    assert!(reader.find_family("family").is_none());
}

#[test]
fn the_rest_of_a_zone_in_which_an_opening_goes_on_is_copied_with_each_try() {
    let test = Test::new(Preset::Thermocline);
    for opening in ["first", "second"] {
        let writer = test.writer();
        put(&writer, opening, b"value");
        writer.close().unwrap();
    }
    // The third one writes where the first has left room.
    let writer = test.writer();
    put(&writer, "third", b"value");
    let (other, mut has_copied, mut comes) = (writer.clone(), false, true);
    test.meanwhile.set(move |to| {
        has_copied |= to == To::Records;
        if to != To::Manifest || !has_copied || !take(&mut comes) {
            return Ok(());
        }
        put(&other, "late", b"value");
        other.family("later", &CfOptions::default())?;
        // As where the owner of a zone has gone.
        Err(Error::Busy("try again".into()))
    });
    let reader = test.reader();
    assert!(reader.find_family("later").is_some());
    assert!(["first", "second", "third"].map(|key| has(&reader, key)) == [true; 3]);
    // It was written before there was that family.
    assert!(has(&reader, "late"));
}

fn damage_is_found_while_records_come(preset: Preset) {
    let test = Test::new(preset);
    let writer = test.writer();
    for key in ["a first one", "b rots"] {
        put(&writer, key, b"value");
    }
    // So much that the page of a log with the damage is not written again.
    (0..10).for_each(|n| put(&writer, &format!("c more {n}"), &[b'v'; 900]));
    test.damage(b"b rots");
    let (other, mut number) = (writer.clone(), 0);
    test.meanwhile.set(move |to| {
        if to == To::Records {
            number += 1;
            put(&other, &format!("d later {number}"), b"value");
        }
        Ok(())
    });
    // With each of these more is known to have been durable.
    let opened = test.try_reader().map(drop);
    assert_eq!(
        opened.unwrap_err().kind(),
        ErrorKind::Corruption,
        "{preset:?}"
    );
    let report = verify(&test.world, &test.dir, &test.options).unwrap();
    let [fault] = &report.faults[..] else {
        panic!("{preset:?}: {:?}", report.faults);
    };
    assert!(fault.what.contains("missing or damaged"), "{fault:?}");
}

#[test]
fn damage_is_told_of_however_much_is_written_meanwhile() {
    damage_is_found_while_records_come(Preset::Thermocline);
    damage_is_found_while_records_come(Preset::Leveled);
}

/// It would seem to be at its end before any file is checked.
#[test]
fn a_check_that_begins_anew_is_told_once_of_what_it_does_twice() {
    let mut test = Test::new(Preset::Thermocline);
    test.options.set("level0.shape", "ssd").unwrap();
    let writer = test.writer();
    for key in ["first", "second"] {
        put(&writer, key, b"value");
        writer.flush().unwrap();
    }
    for key in ["a first one", "b rots"] {
        put(&writer, key, b"value");
    }
    // They tell that it was there.
    (0..10).for_each(|n| put(&writer, &format!("c more {n}"), b"value"));
    let check = || {
        let mut told = Vec::new();
        let mut observer = |now: Progress| told.push((now.done, now.total));
        let report = verify_observed(&test.world, &test.dir, &test.options, &mut observer);
        (report.unwrap().faults.len(), told)
    };
    let (faults, told) = check();
    assert_eq!(faults, 0);
    // By what lies in persistent memory, and by two tables.
    assert!(told.len() > 3, "{told:?}");
    test.damage(b"b rots");
    // What looks like damage is looked at in another moment.
    assert_eq!(check(), (1, told));
}

/// Each time the region knows one memtable more than the manifest that was read. That looks like damage, but is of another one each
/// time.
#[test]
fn memtables_that_are_named_meanwhile_are_no_damage() {
    let mut test = Test::new(Preset::Thermocline);
    test.options.memtable.bytes_max = 64 << 10;
    test.options.flush.automatic = false;
    let writer = test.writer();
    put(&writer, "before", b"value");
    let (other, mut number, mut acts) = (writer.clone(), 0, 3);
    test.meanwhile.set(move |to| {
        if to != To::Records || acts == 0 {
            return Ok(());
        }
        acts -= 1;
        let memtables = || other.metrics().memtables.len();
        let before = memtables();
        while memtables() == before {
            number += 1;
            put(&other, &format!("later {number}"), &[b'v'; 900]);
        }
        Ok(())
    });
    let reader = test.reader();
    assert!(has(&reader, "before") && has(&reader, "later 1"));
}

#[test]
fn a_check_of_a_database_that_is_destroyed_meanwhile_says_so() {
    let test = Test::new(Preset::Leveled);
    let writer = test.writer();
    for key in ["first", "second"] {
        put(&writer, key, b"value");
        writer.flush().unwrap();
    }
    let (dir, options, mut comes) = (test.dir.clone(), test.options.clone(), true);
    test.meanwhile.set(move |to| match to {
        // The first table is open.
        To::Files if take(&mut comes) => {
            writer.close()?;
            destroy(&dir, &world(), &options)
        }
        _ => Ok(()),
    });
    let checked = verify(&test.world, &test.dir, &test.options);
    assert_eq!(checked.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// Whoever writes to a database exchanges its manifest whenever somebody has read which one it is, so many times.
#[derive(Debug)]
struct Exchanging {
    writer: Engine,
    dir: PathBuf,
    left: AtomicU32,
}

impl Exchanging {
    fn exchange(&self) -> Result<()> {
        let storage = world().env.storage;
        let manifests = || -> Result<Vec<String>> {
            let mut names = storage.list(&self.dir)?;
            names.retain(|name| name.starts_with("MANIFEST"));
            Ok(names)
        };
        let before = manifests()?;
        while manifests()? == before {
            self.writer.family("family", &CfOptions::default())?;
            self.writer.drop_family("family")?;
        }
        Ok(())
    }
}

impl Hooks for Exchanging {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = file.read_at(buf, offset)?;
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 && file.path().ends_with("CURRENT") {
            self.left.store(left - 1, Ordering::Relaxed);
            self.exchange()?;
        }
        Ok(read)
    }
}

/// A manifest is looked for again where it is another one by then, but not so often. That somebody writes is no reason to give up.
#[test]
fn options_are_read_though_the_manifest_is_exchanged_again_and_again() {
    // Eight times it is looked for before somebody is beside a writer, and as often in each moment. That another one was missing in the
    // moment before is no damage.
    for exchanges in [12, 28] {
        options_are_read_behind(exchanges);
    }
}

fn options_are_read_behind(exchanges: u32) {
    let test = Test::new(Preset::Thermocline);
    let mut options = test.options.clone();
    options.manifest.bytes_max = 512;
    let exchanging = Arc::new(Exchanging {
        writer: Engine::open(world(), &test.dir, options).unwrap(),
        dir: test.dir.clone(),
        left: AtomicU32::new(exchanges),
    });
    let real = world();
    let storage = Hooked::new(real.env.storage.clone(), exchanging.clone());
    let world = World {
        env: Env {
            storage,
            ..real.env
        },
        ..real
    };
    let stored = Engine::stored_options(&world, &test.dir).unwrap().unwrap();
    assert_eq!(stored.manifest.bytes_max, 512);
    assert_eq!(exchanging.left.load(Ordering::Relaxed), 0);
}

#[test]
fn who_writes_is_beside_nobody_and_leaves_no_folder() {
    let test = Test::new(Preset::Thermocline);
    let setup = Setup {
        beside_writers: true,
        ..Setup::default()
    };
    let opened = Engine::open_with(world(), &test.dir, test.options.clone(), setup);
    assert_eq!(opened.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(!test.dir.exists());
}
