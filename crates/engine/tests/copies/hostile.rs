//! Folders in which somebody has files, from the first or from the middle of the work on, with names such as
//! ours have: nothing goes but what a copy or backup has made itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::{CfId, ErrorKind, Point, Result, Steps, When, WriteBatch};
use thermocline_engine::{Backups, Durability, Engine};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::{Storage, sim::SimFs};
use thermocline_testkit::explore::one_in;

use crate::backup::backups;
use crate::machine::{ALL, Place, disk, dump, options, path, put};

const PRECIOUS: &[u8] = b"somebody's";

/// What lies in a folder, but for the lock.
fn contents(fs: &SimFs, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let names = fs.list(path(dir)).unwrap().into_iter();
    let names = names.filter(|name| name != "LOCK");
    let bytes = |name: String| (fs.contents(&path(dir).join(&name)).unwrap(), name);
    names
        .map(bytes)
        .map(|(bytes, name)| (name, bytes))
        .collect()
}

struct Bench {
    fs: SimFs,
    faulty: FaultStorage,
    storage: Arc<dyn Storage>,
    engine: Engine,
    good: Backups,
}

/// What is done in a folder.
type Work = (&'static str, fn(&Bench, &str) -> Result<()>);

const WORK: [Work; 3] = [
    ("checkpoint", |bench, dir| {
        bench.engine.checkpoint(path(dir)).map(drop)
    }),
    ("restore", |bench, dir| {
        bench.good.restore(None, path(dir)).map(drop)
    }),
    ("backup", |bench, dir| {
        backups(&bench.storage, dir).create(&bench.engine).map(drop)
    }),
];

impl Bench {
    /// A store with something in a table, something in memory, and a backup.
    fn new() -> Bench {
        let fs = SimFs::new(Steps::new());
        let faulty = FaultStorage::over_sim(fs.clone());
        let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
        let engine = Place::new(&storage, "/db").open();
        put(&engine, CfId::DEFAULT, b"long", &[1; 400]);
        engine.flush().unwrap();
        put(&engine, CfId::DEFAULT, b"k", b"v");
        let good = backups(&storage, "/good");
        good.create(&engine).unwrap();
        put(&engine, CfId::DEFAULT, b"l", b"w");
        storage.create_dir_all(path("/x")).unwrap();
        Bench {
            fs,
            faulty,
            storage,
            engine,
            good,
        }
    }

    /// Has strangers put these files into `/x` as soon as the work has begun there.
    fn meddle(&self, names: &'static [&'static str]) {
        let fs = self.fs.clone();
        self.fs.steps().observe(Some(Arc::new(move |point| {
            let begun = point.site.0 == "copy: noted" && point.when == When::After;
            let first = path("/x").join(names[0]);
            if begun && fs.contents(&first).is_none() {
                for name in names {
                    fs.install(&path("/x").join(name), PRECIOUS);
                }
            }
        })));
    }
}

#[test]
fn what_lies_in_a_folder_already_is_left_as_it_is() {
    for names in [
        &["000007.sst"][..],
        &["000007.blob"],
        &["BACKUP.tmp"],
        &["000007.sst", "COPYING"],
        &["COPYING", "CURRENT.tmp", "MANIFEST-000001"],
        &["000007.sst", "BACKING-UP"],
    ] {
        for (what, work) in WORK {
            let bench = Bench::new();
            for name in names {
                bench.fs.install(&path("/x").join(name), PRECIOUS);
            }
            let before = contents(&bench.fs, "/x");
            let error = work(&bench, "/x").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{what}: {error}");
            let named = names.iter().any(|name| error.to_string().contains(name));
            assert!(named, "{what}: {error}");
            assert_eq!(contents(&bench.fs, "/x"), before, "{what}");
        }
    }
}

#[test]
fn of_a_folder_of_backups_a_strangers_table_stays() {
    let bench = Bench::new();
    // One more has the name of a file of a backup, and other bytes than that says.
    let odd = format!("{}-000001-00000000.sst", "0".repeat(32));
    for (name, refused) in [("000099.sst", true), (&odd, false)] {
        bench.fs.install(&path("/good").join(name), PRECIOUS);
        let made = bench.good.create(&bench.engine);
        let deleted = bench.good.delete(1);
        for error in [made.err(), deleted.err()] {
            assert_eq!(error.is_some(), refused, "{name}");
            assert!(error.is_none_or(|error| error.to_string().contains(name)));
        }
        assert_eq!(contents(&bench.fs, "/good")[name], PRECIOUS);
        if refused {
            bench.fs.remove(&path("/good").join(name)).unwrap();
        }
    }
    assert_eq!(bench.good.verify().unwrap().faults, []);
}

/// At every call that may fail: what was made goes, what came from elsewhere stays.
#[test]
fn work_that_fails_takes_back_what_it_has_made_and_nothing_else() {
    const STRANGERS: &[&str] = &["000999.sst", "MANIFEST-000077", "letter.txt"];
    for (what, work) in WORK {
        let run = |plan: Option<Plan>| {
            let bench = Bench::new();
            bench.meddle(STRANGERS);
            let before = bench.faulty.calls_for(Fault::Eio, None);
            if let Some(plan) = plan {
                let at = plan.at + before;
                bench.faulty.arm(Plan { at, ..plan });
            }
            let done = work(&bench, "/x");
            bench.faulty.disarm();
            let mut left = contents(&bench.fs, "/x");
            let strangers = STRANGERS
                .iter()
                .filter(|name| left.remove(**name).as_deref() == Some(PRECIOUS));
            let strangers = strangers.count();
            let begun = strangers > 0;
            assert!(
                !begun || strangers == STRANGERS.len(),
                "{what}, {plan:?}: {left:?}"
            );
            if done.is_err() && plan.is_some_and(|plan| plan.repeat == Repeat::Once) {
                // One failure, that of the work itself, keeps nothing from being removed.
                let names: Vec<&String> = left.keys().collect();
                assert!(names.is_empty(), "{what}, {plan:?}: {names:?} are left");
            }
            if begun && plan.is_some() && done.is_err() {
                // What is left is no place for the next attempt, and stays.
                bench.fs.steps().observe(None);
                let error = work(&bench, "/x").unwrap_err();
                // A write of the manifest that fails poisons the store that is copied.
                let kinds = [ErrorKind::InvalidArgument, ErrorKind::Poisoned];
                assert!(kinds.contains(&error.kind()), "{what}: {error}");
                let kept = contents(&bench.fs, "/x");
                assert!(
                    STRANGERS.iter().all(|name| kept[*name] == PRECIOUS),
                    "{what}"
                );
            }
            bench.faulty.calls_for(Fault::Eio, None) - before
        };
        let calls = run(None);
        assert!(calls > 20, "{what}: {calls}");
        let step = usize::try_from(one_in(3)).unwrap();
        for at in (0..calls).step_by(step) {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let (fault, op) = (Fault::Eio, None);
                run(Some(Plan {
                    fault,
                    op,
                    at,
                    repeat,
                }));
            }
        }
    }
}

/// Somebody is faster with a name that is about to be made.
#[test]
fn a_strangers_file_under_a_name_that_is_needed_stays() {
    for name in [
        "000001.sst",
        "000002.sst",
        "000003.blob",
        "CURRENT.tmp",
        "BACKUP.tmp",
    ] {
        let names: &'static [&'static str] = Vec::leak(vec![name]);
        for (what, work) in WORK {
            let bench = Bench::new();
            bench.meddle(names);
            let done = work(&bench, "/x");
            let left = contents(&bench.fs, "/x");
            assert_eq!(left[name], PRECIOUS, "{what}, {name}: {done:?}");
            if done.is_err() {
                assert_eq!(left.len(), 1, "{what}: {left:?}");
            }
        }
    }
}

/// Files in a store's own folder, with such names as its files have.
#[test]
fn what_a_stranger_put_into_a_store_stays_there() {
    let fs = SimFs::new(Steps::new());
    let faulty = FaultStorage::over_sim(fs.clone());
    let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
    let place = Place::new(&storage, "/db");
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    engine.flush().unwrap();
    put(&engine, CfId::DEFAULT, b"l", b"w");
    // A table that is written and gets no name; and that nobody can remove.
    let failing = faulty.clone();
    fs.steps().observe(Some(Arc::new(move |point| {
        if point.site.0 == "sst: table written" && point.when == When::After {
            failing.arm(Plan {
                fault: Fault::Eio,
                op: None,
                at: failing.calls_for(Fault::Eio, None),
                repeat: Repeat::Forever,
            });
        }
    })));
    engine.flush().unwrap_err();
    drop(engine);
    fs.steps().observe(None);
    faulty.disarm();
    let unfinished = |name: &String| name.ends_with(".part");
    let before = contents(&fs, "/db");
    let ours: Vec<_> = before.keys().filter(|name| unfinished(name)).collect();
    assert_eq!(ours.len(), 1, "{:?}", before.keys());
    // A whole table of another database, and what is none, under all numbers that the store may use.
    let other = Place::new(&storage, "/other");
    let engine_of_other = other.open();
    put(&engine_of_other, CfId::DEFAULT, b"k", b"another's");
    engine_of_other.flush().unwrap();
    let tables = other.tables();
    let table = fs.contents(&path("/other").join(&tables[0])).unwrap();
    let mut strangers = BTreeMap::new();
    for n in 0..200 {
        let bytes = [PRECIOUS, &table, &[]][n % 3];
        strangers.insert(format!("{n:06}.sst"), bytes.to_vec());
        strangers.insert(format!("{n:06}.blob"), PRECIOUS.to_vec());
        strangers.insert(format!("{n:06}-{n:032x}.part"), PRECIOUS.to_vec());
    }
    strangers.retain(|name, _| !before.contains_key(name));
    for (name, bytes) in &strangers {
        fs.install(&path("/db").join(name), bytes);
    }
    for round in 0..3 {
        let engine = place.open();
        put(&engine, CfId::DEFAULT, b"m", &[round; 400]);
        engine.flush().unwrap();
        engine.compact(CfId::DEFAULT, ALL).unwrap();
        drop(engine);
        let mut left = contents(&fs, "/db");
        for (name, bytes) in &strangers {
            assert_eq!(left.remove(name).as_ref(), Some(bytes), "{name}");
        }
        assert!(!left.keys().any(unfinished), "{:?}", left.keys());
    }
}

/// Whether a table is being written in `/db`.
fn is_written(fs: &SimFs) -> bool {
    let names = fs.list(path("/db")).unwrap();
    names.iter().any(|name| name.ends_with(".part"))
}

/// Has a stranger put these files there as soon as `begins` says so, and calls `then`.
fn put_strangers(
    fs: &SimFs,
    names: &[String],
    begins: impl Fn(&SimFs, Point) -> bool + Send + Sync + 'static,
    then: impl Fn() + Send + Sync + 'static,
) {
    let (meddling, names) = (fs.clone(), names.to_vec());
    fs.steps().observe(Some(Arc::new(move |point| {
        let is_first = meddling.contents(path(&names[0])).is_none();
        if is_first && begins(&meddling, point) {
            for name in &names {
                meddling.install(path(name), PRECIOUS);
            }
            then();
        }
    })));
}

#[track_caller]
fn strangers_are_unharmed(fs: &SimFs, names: &[String]) {
    for name in names {
        let bytes = fs.contents(path(name));
        assert_eq!(bytes.as_deref(), Some(PRECIOUS), "{name}");
    }
}

/// Somebody is faster with the name of a table that is being written, and that is whole then, or whose writer gives up.
#[test]
fn a_strangers_file_at_the_name_of_a_table_that_is_being_written_stays() {
    for gives_up in [false, true] {
        let fs = SimFs::new(Steps::new());
        let faulty = FaultStorage::over_sim(fs.clone());
        let storage: Arc<dyn Storage> = Arc::new(faulty.clone());
        let place = Place::new(&storage, "/db");
        let engine = place.open();
        put(&engine, CfId::DEFAULT, b"k", b"v");
        let names: Vec<String> = (1..20).map(|n| format!("/db/{n:06}.sst")).collect();
        let begins = |fs: &SimFs, point: Point| {
            point.site.0 == "env: name created" && point.when == When::After && is_written(fs)
        };
        let failing = faulty.clone();
        put_strangers(&fs, &names, begins, move || {
            if gives_up {
                failing.arm(Plan {
                    fault: Fault::Eio,
                    op: Some(Op::Write),
                    at: failing.calls_for(Fault::Eio, Some(Op::Write)),
                    repeat: Repeat::Once,
                });
            }
        });
        let error = engine.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(faulty.fired(), u64::from(gives_up));
        fs.steps().observe(None);
        strangers_are_unharmed(&fs, &names);
        // It goes under another name.
        engine.flush().unwrap();
        drop(engine);
        strangers_are_unharmed(&fs, &names);
        assert!(!is_written(&fs));
        let found = place.open().get(CfId::DEFAULT, b"k", <[u8]>::to_vec);
        assert_eq!(found.unwrap().as_deref(), Some(&b"v"[..]));
    }
}

/// Somebody takes the name of a table that cannot even be begun.
#[test]
fn a_strangers_file_at_the_name_of_a_table_that_is_not_made_stays() {
    let fs = SimFs::new(Steps::new());
    let storage: Arc<dyn Storage> = Arc::new(fs.clone());
    let place = Place::new(&storage, "/db");
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let names: Vec<String> = (1..20).map(|n| format!("/db/{n:06}.sst")).collect();
    let begins =
        |_: &SimFs, point: Point| point.site.0 == "env: name created" && point.when == When::Before;
    let failing = fs.clone();
    put_strangers(&fs, &names, begins, move || failing.limit_descriptors(0));
    engine.flush().unwrap_err();
    fs.steps().observe(None);
    strangers_are_unharmed(&fs, &names);
    fs.limit_descriptors(usize::MAX);
    engine.flush().unwrap();
    drop(engine);
    strangers_are_unharmed(&fs, &names);
    let found = place.open().get(CfId::DEFAULT, b"k", <[u8]>::to_vec);
    assert_eq!(found.unwrap().as_deref(), Some(&b"v"[..]));
}

/// Somebody is faster with the name of a blob file: of a long value that is written, and of values that a flush writes apart.
#[test]
fn a_strangers_file_at_the_name_of_a_blob_file_that_is_made_stays() {
    for flushes in [false, true] {
        let fs = SimFs::new(Steps::new());
        let storage: Arc<dyn Storage> = Arc::new(fs.clone());
        let place = Place::new(&storage, "/db");
        let mut options = options();
        options.blob.value_bytes_min = 100;
        let engine = place.try_open(&options).unwrap();
        // The one is longer than what lies in memtables itself.
        let value = vec![7u8; if flushes { 200 } else { 400 }];
        let work = || {
            if flushes {
                return engine.flush().map(drop);
            }
            let mut batch = WriteBatch::new();
            batch.put(CfId::DEFAULT, b"k", &value)?;
            engine.write(batch.iter(), Durability::Immediate).map(drop)
        };
        if flushes {
            put(&engine, CfId::DEFAULT, b"k", &value);
        }
        let names: Vec<String> = (1..20).map(|n| format!("/db/{n:06}.blob")).collect();
        let begins = move |fs: &SimFs, point: Point| {
            // Of a flush the table is made first.
            let is_next = !flushes || is_written(fs);
            point.site.0 == "env: name created" && point.when == When::Before && is_next
        };
        put_strangers(&fs, &names, begins, || ());
        let error = work().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        fs.steps().observe(None);
        strangers_are_unharmed(&fs, &names);
        // It gets another name.
        work().unwrap();
        let files = engine.metrics().blobs.files;
        assert_eq!(files, 1, "{flushes}");
        drop(engine);
        strangers_are_unharmed(&fs, &names);
        let engine = place.try_open(&options).unwrap();
        let found = engine.get(CfId::DEFAULT, b"k", <[u8]>::to_vec);
        assert_eq!(found.unwrap().as_ref(), Some(&value), "{flushes}");
    }
}

/// A note that names nothing any more, and one that was torn.
#[test]
fn an_interrupted_copy_is_cleared_by_its_note_alone() {
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    disk.create_dir_all(path("/x")).unwrap();
    let mode = thermocline_env::OpenMode::CreateNew;
    let note = disk.open(path("/x/COPYING"), mode).unwrap();
    note.write_at(&[0; 9], 0).unwrap();
    drop(note);
    engine.checkpoint(path("/x")).unwrap();
    assert_eq!(dump(&Place::new(&disk, "/x").open()), dump(&engine));
}
