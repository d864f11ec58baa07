//! Long values over the life of their files. (Stores with drawn options have long values, too:
//! `crate::tests::shapes`, `compact::tests`.)

use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, ErrorKind, WriteBatch};
use thermocline_env::OpenMode;
use thermocline_env::fault::FaultStorage;
use thermocline_testkit::explore::{explored, times};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::flush::tests::{Model, check_now, check_then, delete, families, get, put};
use crate::tests::Machine;
use crate::{BlobState, Durability, Engine, Event, Family, Setup, World};

const PM: u64 = 4 << 20;
const CF: CfId = CfId::DEFAULT;
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.blob.inline_bytes_max = 100;
    options
}

fn open(machine: &Machine) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options()).unwrap()
}

/// A long value.
fn long(n: u8) -> Vec<u8> {
    (0..200 + u16::from(n))
        .map(|i| n ^ i.to_le_bytes()[0])
        .collect()
}

fn files(engine: &Engine) -> u64 {
    engine.metrics().blobs.files
}

/// The path of the one blob file that there is.
fn only(machine: &Machine) -> std::path::PathBuf {
    let names = machine.blob_files();
    assert_eq!(names.len(), 1, "{names:?}");
    Path::new("/db").join(&names[0])
}

#[test]
fn a_long_value_reads_the_same_wherever_its_reference_lies() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut model = Model::new();
    for n in 0..8u8 {
        let value = if n % 2 == 0 { long(n) } else { vec![n; 100] };
        put(&engine, CF, &[n], &value);
        model.insert(vec![n], value);
    }
    assert_eq!(files(&engine), 4);
    let sizes = engine.approximate_sizes(CF, &[ALL]).unwrap();
    assert_eq!(sizes[0].blob_bytes, engine.metrics().blobs.memtable_bytes);
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    let snapshot = engine.snapshot();
    let (both, models) = ([Family::DEFAULT], [model]);
    let check = |engine: &Engine| check_now(engine, &both, &models, &keys);
    check(&engine);
    // After a crash, from persistent memory.
    check(&open(&machine.killed()));
    engine.flush().unwrap();
    check(&engine);
    check_then(&snapshot, &both, &models, &keys);
    let blobs = engine.metrics().blobs;
    let bytes: usize = models[0]
        .values()
        .map(Vec::len)
        .filter(|len| *len > 100)
        .sum();
    assert_eq!((blobs.files, blobs.table_bytes), (4, bytes as u64));
    assert_eq!(blobs.memtable_bytes, 0);
    assert_eq!(
        engine.approximate_sizes(CF, &[ALL]).unwrap()[0].blob_bytes,
        bytes as u64
    );
    engine.compact(CF, ALL).unwrap();
    check(&engine);
    check(&open(&machine.killed()));
    let value = engine.value(CF, &[2]).unwrap().unwrap();
    let again = value.clone();
    assert!(!value.is_pinned());
    assert_eq!((&*again, value.into_vec()), (&long(2)[..], long(2)));
    engine.close().unwrap();
    // Whoever reads on.
    check_then(&snapshot, &both, &models, &keys);
}

#[test]
fn a_batch_has_one_file_and_is_whole() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut batch = WriteBatch::new();
    for n in 0..10u8 {
        batch.put(CF, &[n], &long(n)).unwrap();
        batch.put(CF, &[n, 1], b"short").unwrap();
    }
    batch.put(CF, &[3], &long(33)).unwrap();
    batch.delete(CF, &[4]).unwrap();
    batch.delete_range(CF, &[5], Some(&[6])).unwrap();
    batch.set_metadata(CF, &[7; 300]).unwrap();
    engine.write(batch.iter(), Durability::Buffered).unwrap();
    assert_eq!(files(&engine), 1);
    for engine in [&engine, &open(&machine.killed())] {
        let of = |key: &[u8]| get(engine, key);
        if engine.visible().0 == 0 || of(&[0]).is_none() {
            // A crash may take what was buffered: all of it, and its file.
            assert_eq!((files(engine), of(&[9, 1])), (0, None));
            continue;
        }
        assert_eq!((of(&[3]), of(&[4]), of(&[5])), (Some(long(33)), None, None));
        assert_eq!(
            (of(&[9]), of(&[9, 1])),
            (Some(long(9)), Some(b"short".to_vec()))
        );
        let metadata = engine.metadata(CF, <[u8]>::to_vec).unwrap();
        assert_eq!(metadata, Some(vec![7; 300]));
    }
}

#[test]
fn a_staged_batch_has_long_values_too() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.memtable.item_bytes_max = 4 << 10;
    let open = |machine: &Machine| {
        Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
    };
    let engine = open(&machine);
    let mut batch = WriteBatch::new();
    for n in 0..100u8 {
        batch.put(CF, &[n], &[n; 90]).unwrap();
        batch.put(CF, &[n, 1], &long(n)).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    assert!(engine.metrics().memtables.len() > 1, "it was staged");
    engine.inner.sweeper.discard_blobs();
    for engine in [&engine, &open(&machine.killed())] {
        for n in 0..100u8 {
            assert_eq!(get(engine, &[n, 1]), Some(long(n)));
        }
    }
    delete(&engine, CF, &[0, 1]);
    engine.flush().unwrap();
    assert_eq!(get(&engine, &[99, 1]), Some(long(99)));
}

#[test]
fn a_file_goes_when_nothing_refers_to_it_and_nobody_reads_it() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CF, b"a", &long(1));
    put(&engine, CF, b"b", &long(2));
    let snapshot = engine.snapshot();
    put(&engine, CF, b"a", &long(3));
    delete(&engine, CF, b"b");
    engine.reclaim().unwrap();
    assert_eq!((files(&engine), machine.blob_files().len()), (3, 3));
    // The snapshot's versions are flushed with the rest.
    engine.flush().unwrap();
    assert_eq!((files(&engine), machine.blob_files().len()), (3, 3));
    let then = |key| snapshot.get(CF, key, <[u8]>::to_vec).unwrap();
    assert_eq!((then(b"a"), then(b"b")), (Some(long(1)), Some(long(2))));
    let mut cursor = snapshot.cursor(Family::DEFAULT).unwrap();
    cursor.seek_to_first().unwrap();
    drop(snapshot);
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    // The cursor reads on.
    assert_eq!(cursor.value(), &long(1)[..]);
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.value(), &long(2)[..]);
    drop(cursor);
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    assert_eq!((files(&engine), machine.blob_files().len()), (1, 1));
    assert_eq!(get(&engine, b"a"), Some(long(3)));
    delete(&engine, CF, b"a");
    engine.flush().unwrap();
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    assert_eq!(engine.metrics().blobs, BlobState::default());
    assert!(machine.blob_files().is_empty());
}

#[test]
fn what_is_overwritten_in_memtables_does_not_gather() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.blob.generation_bytes = 4 << 10;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    for _ in 0..2000u32 {
        put(&engine, CF, b"k", &long(200));
        let bytes = engine.metrics().blobs.bytes;
        // Of those one part in tables, until they are merged.
        assert!(bytes < 5 * (4 << 10), "{bytes} bytes");
    }
    let plan = engine.plan().flush;
    assert_eq!(plan.sealed_blob_bytes_due, 4 << 10);
}

#[test]
fn a_write_under_way_keeps_its_file() {
    let kept = |bug: Option<Bug>| {
        let _bug = bug.map(plant);
        let machine = Machine::new(PM);
        let engine = open(&machine);
        let mut batch = WriteBatch::new();
        batch.put(CF, b"k", &long(1)).unwrap();
        let flying = engine.begin(batch, Durability::Immediate).unwrap();
        engine.inner.sweeper.discard_blobs();
        flying.carry().unwrap();
        engine.inner.sweeper.discard_blobs();
        let found = engine.get(CF, b"k", <[u8]>::to_vec);
        found.is_ok_and(|value| value == Some(long(1)))
    };
    assert!(kept(None));
    assert!(!kept(Some(Bug::BlobForgetsWrites)));
    assert!(!kept(Some(Bug::BlobForgetsMemtables)));
}

#[test]
fn what_a_crash_leaves_of_a_write_goes_when_the_store_is_opened() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CF, b"k", &long(1));
    let mut batch = WriteBatch::new();
    batch.put(CF, b"k", &long(2)).unwrap();
    // Named, granted, and not stored.
    let flying = engine.begin(batch, Durability::Immediate).unwrap();
    assert_eq!(files(&engine), 2);
    let killed = machine.killed();
    // A file that was begun and not named.
    let storage = killed.world().env.storage;
    let stray = Path::new("/db/000063.blob");
    storage.open(stray, OpenMode::CreateNew).unwrap();
    let forgetful = killed.killed();
    let again = open(&killed);
    assert_eq!((files(&again), killed.blob_files().len()), (1, 1));
    assert_eq!(get(&again, b"k"), Some(long(1)));
    let _bug = plant(Bug::BlobForgottenAtOpen);
    assert_eq!(files(&open(&forgetful)), 2, "it would be noticed");
    flying.carry().unwrap();
}

/// What goes wrong with one blob file stays with its key.
#[test]
fn damage_is_an_error_that_names_the_file_and_of_one_key() {
    for flushed in [false, true] {
        for damage in ["value", "header", "record", "cut", "missing", "swapped"] {
            let machine = Machine::new(PM);
            let engine = open(&machine);
            put(&engine, CF, b"a", &long(1));
            let path = only(&machine);
            put(&engine, CF, b"b", &long(1));
            put(&engine, CF, b"c", b"short");
            let names = machine.blob_files();
            let other = names.iter().map(|name| Path::new("/db").join(name));
            let other = other.into_iter().find(|other| *other != path).unwrap();
            if flushed {
                engine.flush().unwrap();
            }
            let storage = machine.world().env.storage;
            match damage {
                "value" => machine.rot_file(&path, 64 + 32 + 5),
                "header" => machine.rot_file(&path, 20),
                "record" => machine.rot_file(&path, 64 + 13),
                "cut" => machine.cut_file(&path, 150),
                "missing" => storage.remove(&path).unwrap(),
                _ => storage.rename(&other, &path).unwrap(),
            }
            let name = path.display().to_string();
            let say = |what: &str| format!("{what} of {damage}, flushed: {flushed}");
            let error = engine.get(CF, b"a", <[u8]>::to_vec).unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Corruption,
                "{}: {error}",
                say("get")
            );
            assert!(error.to_string().contains(&name), "{}: {error}", say("get"));
            let error = engine.value(CF, b"a").unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Corruption,
                "{}: {error}",
                say("value")
            );
            let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
            let error = cursor.seek_to_first().unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::Corruption,
                "{}: {error}",
                say("seek")
            );
            assert!(!cursor.valid());
            assert!(cursor.seek(b"c").unwrap());
            assert_eq!(get(&engine, b"c"), Some(b"short".to_vec()));
            if damage != "swapped" {
                assert_eq!(get(&engine, b"b"), Some(long(1)));
            }
            // The store goes on, and what is overwritten is whole again.
            put(&engine, CF, b"a", &long(9));
            engine.flush().unwrap();
            assert_eq!(get(&engine, b"a"), Some(long(9)), "{}", say("later"));
        }
    }
}

/// A store that cannot say all that it was given does not open, so that nobody works on without noticing; and the
/// file may be lying somewhere.
#[test]
fn a_file_that_is_missing_is_an_error_of_the_open_and_one_that_is_damaged_is_not() {
    for flushed in [false, true] {
        let machine = Machine::new(PM);
        let engine = open(&machine);
        put(&engine, CF, b"a", &long(1));
        put(&engine, CF, b"b", b"short");
        if flushed {
            engine.flush().unwrap();
        }
        engine.close().unwrap();
        drop(engine);
        let path = only(&machine);
        let aside = Path::new("/db/aside");
        let storage = machine.world().env.storage;
        storage.rename(&path, aside).unwrap();
        for read_only in [false, true] {
            let options = Options {
                read_only,
                ..options()
            };
            let opened = Engine::open(machine.world(), Path::new("/db"), options);
            let error = opened.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "{error}");
        }
        storage.rename(aside, &path).unwrap();
        assert_eq!(get(&open(&machine), b"a"), Some(long(1)));
        machine.rot_file(&path, 64 + 32 + 5);
        let engine = open(&machine);
        assert_eq!(get(&engine, b"b"), Some(b"short".to_vec()));
        assert!(engine.get(CF, b"a", <[u8]>::to_vec).is_err());
    }
}

/// Whether the manifest says that records may refer to blob files, and goes on saying it.
fn told() -> Vec<bool> {
    let machine = Machine::new(PM);
    let mut options = options();
    options.manifest.bytes_max = 512;
    let open = |machine: &Machine| {
        Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
    };
    let says = |engine: &Engine| {
        let manifest = engine.inner.common.catalog.edits();
        manifest.state().has_long_values()
    };
    let engine = open(&machine);
    put(&engine, CF, b"a", b"short");
    assert!(!says(&engine), "whoever has no long values can go back");
    put(&engine, CF, b"a", &long(1));
    let mut told = vec![says(&engine), says(&open(&machine.killed()))];
    put(&engine, CF, b"a", b"short");
    engine.flush().unwrap();
    engine.compact(CF, ALL).unwrap();
    engine.reclaim().unwrap();
    assert_eq!(files(&engine), 0);
    for n in 0..20 {
        // So that the manifest is written anew.
        engine.flush().unwrap();
        put(&engine, CF, &[n], b"short");
    }
    told.push(says(&engine));
    told.push(says(&open(&machine.killed())));
    told
}

#[test]
fn a_manifest_says_that_records_may_refer_to_blob_files_before_any_does() {
    assert_eq!(told(), [true; 4]);
    let _bug = plant(Bug::LongValuesUntold);
    assert_eq!(told(), [false; 4]);
}

/// A store, and what it has told of taking writes since that was asked last.
fn open_and_listen(world: World, options: Options) -> (Engine, impl Fn() -> Vec<&'static str>) {
    let told: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let tells = told.clone();
    let listener = move |event: &Event| match event {
        Event::WritesRefused { .. } => tells.lock().unwrap().push("refused"),
        Event::WritesResumed => tells.lock().unwrap().push("resumed"),
        _ => {}
    };
    let setup = Setup {
        listener: Some(Arc::new(listener)),
        ..Setup::default()
    };
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    let told = move || std::mem::take(&mut *told.lock().unwrap());
    (engine, told)
}

#[test]
fn a_disk_that_is_full_is_no_room_for_a_long_value_and_not_an_error_of_the_disk() {
    let machine = Machine::new(PM);
    let storage = FaultStorage::new(machine.world().env.storage);
    let mut world = machine.world();
    world.env.storage = Arc::new(storage.clone());
    let (engine, told) = open_and_listen(world, options());
    put(&engine, CF, b"a", &long(1));
    storage.limit_space(100);
    let mut batch = WriteBatch::new();
    batch.put(CF, b"b", &[1; 1 << 20]).unwrap();
    let write = || engine.write(batch.iter(), Durability::Immediate);
    let error = write().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(error.to_string().contains("for a long value"), "{error}");
    assert_eq!(files(&engine), 1);
    assert_eq!(machine.blob_files().len(), 1, "nothing is left of it");
    assert_eq!(told(), ["refused"]);
    put(&engine, CF, b"b", b"short");
    assert_eq!(told(), [""; 0], "as long ones are not taken yet");
    storage.limit_space(1 << 30);
    write().unwrap();
    assert_eq!(told(), ["resumed"]);
    assert_eq!(get(&engine, b"b"), Some(vec![1; 1 << 20]));
    assert_eq!(get(&engine, b"a"), Some(long(1)));
}

/// The disk has room for the long value, and persistent memory has none for the record.
#[test]
fn a_long_value_whose_record_is_refused_is_not_told_as_taken() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.flush.automatic = false;
    let (engine, told) = open_and_listen(machine.world(), options);
    let mut key = 0u32;
    let mut write = |entries: usize, value: &[u8]| {
        let mut batch = WriteBatch::new();
        for _ in 0..entries {
            // Another one each time: nothing of it dies.
            key += 1;
            batch.put(CF, &key.to_be_bytes(), value).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate)
    };
    for entries in [200, 10, 1] {
        while write(entries, &[7; 100]).is_ok() {}
    }
    while write(1, &long(1)).is_ok() {}
    told();
    for _ in 0..3 {
        let error = write(1, &long(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert_eq!(told(), [""; 0], "it was told before");
    }
}

#[test]
fn a_dropped_family_leaves_no_files() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let both = families(&engine);
    for n in 0..4u8 {
        put(&engine, both[1].id, &[n], &long(n));
        if n == 1 {
            engine.flush().unwrap();
        }
    }
    put(&engine, CF, b"k", &long(5));
    engine.drop_family("down").unwrap();
    engine.flush().unwrap();
    engine.reclaim().unwrap();
    assert_eq!((files(&engine), machine.blob_files().len()), (1, 1));
    let again = open(&machine.killed());
    assert_eq!(get(&again, b"k"), Some(long(5)));
}

#[test]
fn whatever_is_written_long_reads_as_before_and_leaves_nothing() {
    let mut most = 0;
    for seed in seeds(0..explored(8, 20)) {
        let _replay = Replay::new("-p thermocline-engine whatever_is_written_long", seed);
        let mut rng = Rng::new(seed);
        let mut machine = Machine::new(PM);
        let mut options = options();
        options.memtable.item_bytes_max = *rng.pick(&[4 << 10, 1 << 20]);
        options.blob.generation_bytes = *rng.pick(&[1 << 10, 16 << 10, 1 << 20]);
        options.compaction.table_bytes = 4 << 10;
        let open = |machine: &Machine, options: &Options| {
            Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
        };
        let mut engine = open(&machine, &options);
        let both = families(&engine);
        let mut models = vec![Model::new(), Model::new()];
        let mut held = Vec::new();
        let keys: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n]).collect();
        for _ in 0..300 {
            match rng.below(100) {
                0..70 => {
                    let mut batch = WriteBatch::new();
                    let changes = *rng.pick(&[2, 4, 40]);
                    for _ in 0..=rng.below(changes) {
                        let (at, key) = (rng.below(2), rng.pick(&keys).clone());
                        if rng.one_in(5) {
                            batch.delete(both[at].id, &key).unwrap();
                            models[at].remove(&key);
                            continue;
                        }
                        let value = vec![rng.next_u64().to_le_bytes()[0]; rng.below(300)];
                        batch.put(both[at].id, &key, &value).unwrap();
                        models[at].insert(key, value);
                    }
                    engine.write(batch.iter(), Durability::Immediate).unwrap();
                    most = most.max(files(&engine));
                }
                70..76 => drop(engine.flush().unwrap()),
                76..80 => drop(engine.reclaim().unwrap()),
                80..84 => engine.compact(both[rng.below(2)].id, ALL).unwrap(),
                84..88 => held.push((engine.snapshot(), models.clone())),
                88..93 if !held.is_empty() => drop(held.remove(rng.below(held.len()))),
                93..95 => {
                    let killed = machine.killed();
                    held.clear();
                    drop(engine);
                    machine = killed;
                    engine = open(&machine, &options);
                }
                _ => {
                    check_now(&engine, &both, &models, &keys);
                    for (snapshot, models) in &held {
                        check_then(snapshot, &both, models, &keys);
                    }
                }
            }
        }
        held.clear();
        check_now(&engine, &both, &models, &keys);
        let mut batch = WriteBatch::new();
        for family in &both {
            batch.delete_range(family.id, b"", None).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        for family in &both {
            engine.compact(family.id, ALL).unwrap();
        }
        engine.reclaim().unwrap();
        assert_eq!(engine.metrics().blobs, BlobState::default());
        assert!(
            machine.blob_files().is_empty(),
            "{:?}",
            machine.blob_files()
        );
    }
    let least = times().map_or(12, |_| 20);
    assert!(most > least || seeds(0..2).len() == 1, "{most}");
}

/// What is left of the disk is kept for flushes: it is refused before it is written.
#[test]
fn a_long_value_for_which_too_little_of_the_disk_is_left_is_told_as_refused() {
    let machine = Machine::new(PM);
    let (engine, told) = open_and_listen(machine.world(), options());
    machine.fs.limit(8 << 20);
    let mut key = 0u32;
    let mut write = || {
        let mut batch = WriteBatch::new();
        key += 1;
        batch.put(CF, &key.to_be_bytes(), &[1; 400_000]).unwrap();
        engine.write(batch.iter(), Durability::Immediate)
    };
    let error = loop {
        if let Err(error) = write() {
            break error;
        }
    };
    assert!(
        error.to_string().contains("are kept for flushing"),
        "{error}"
    );
    assert_eq!(told(), ["refused"]);
    machine.fs.limit(1 << 30);
    write().unwrap();
    assert_eq!(told(), ["resumed"]);
}
