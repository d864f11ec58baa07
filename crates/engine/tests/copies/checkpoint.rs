//! Checkpoints, and copies of copies.

use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, ErrorKind, Result, SeqNo, WriteBatch};
use thermocline_copies::{Installed, NewTables, Store};
use thermocline_engine::{Durability, Engine, Family, KeyBounds};
use thermocline_env::{Env, OpenMode};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::machine::{Place, both, disk, dump, path, put, write_some};

/// Both go on, each for itself, over flushes and openings.
#[test]
fn a_checkpoint_is_the_store_of_its_moment_and_goes_its_own_way() {
    for seed in seeds(0..explored(10, 20)) {
        let _replay = Replay::new("-p thermocline-engine --test copies a_checkpoint_is", seed);
        let mut rng = Rng::new(seed);
        let disk = disk();
        let original = Place::new(&disk, "/db");
        let copy = Place::new(&disk, "/copies/one");
        let engine = original.open();
        write_some(&engine, &mut rng, 150);
        let snapshot = engine.snapshot();
        engine.checkpoint(&copy.dir).unwrap();
        let then = dump(&engine);
        copy.verify();
        let mut reading = crate::machine::options();
        reading.read_only = true;
        let before = disk.list(&copy.dir).unwrap();
        assert_eq!(dump(&copy.try_open(&reading).unwrap()), then);
        assert_eq!(
            disk.list(&copy.dir).unwrap(),
            before,
            "reading wrote something"
        );
        let copied = copy.open();
        assert_eq!(dump(&copied), then);
        assert!(!disk.exists(&copy.dir.join("COPYING")).unwrap());
        for (place, engine) in [(&original, engine), (&copy, copied)] {
            let mut engine = engine;
            for _ in 0..3 {
                write_some(&engine, &mut rng, 80);
                let now = dump(&engine);
                match rng.below(3) {
                    0 => engine.close().unwrap(),
                    1 => assert!(engine.flush().is_ok()),
                    _ => {}
                }
                drop(engine);
                engine = place.open();
                assert_eq!(dump(&engine), now);
            }
            drop(engine);
            place.verify();
        }
        drop(snapshot);
        assert_eq!(disk.list(path("/copies")).unwrap(), ["one"]);
    }
}

#[test]
fn copies_of_copies_share_files_and_are_all_apart() {
    let disk = disk();
    let places = ["/a", "/b", "/c", "/d"].map(|dir| Place::new(&disk, dir));
    let mut rng = Rng::new(4);
    let mut dumps = Vec::new();
    // Nothing is compacted, so that the first table stays.
    let mut options = crate::machine::options();
    options.compaction.level0_tables = 1024;
    for (i, place) in places.iter().enumerate() {
        let engine = place.try_open(&options).unwrap();
        for _ in 0..100 {
            let key = [u8::try_from(rng.below(60)).unwrap()];
            put(&engine, CfId::DEFAULT, &key, &vec![key[0]; rng.below(300)]);
        }
        engine.flush().unwrap();
        put(
            &engine,
            CfId::DEFAULT,
            b"who",
            place.dir.to_str().unwrap().as_bytes(),
        );
        dumps.push(dump(&engine));
        if let Some(next) = places.get(i + 1) {
            engine.checkpoint(&next.dir).unwrap();
        }
    }
    for (place, expected) in places.iter().zip(&dumps) {
        place.verify();
        assert_eq!(dump(&place.open()), *expected);
    }
    // The first table of all is one file with four names.
    let first = places[0].tables()[0].clone();
    let contents = places.each_ref().map(|place| {
        let file = disk.open(&place.dir.join(&first), OpenMode::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    });
    assert!(contents.windows(2).all(|two| two[0] == two[1]));
}

/// After a checkpoint both number their files on from the same one.
#[test]
fn a_table_or_region_of_one_is_refused_by_the_other() {
    let disk = disk();
    let (a, b, c) = (
        Place::new(&disk, "/a"),
        Place::new(&disk, "/b"),
        Place::new(&disk, "/c"),
    );
    let engine = a.open();
    put(&engine, CfId::DEFAULT, b"k", b"both");
    engine.flush().unwrap();
    engine.checkpoint(&b.dir).unwrap();
    engine.checkpoint(&c.dir).unwrap();
    let common = a.tables();
    drop(engine);
    let mut new = Vec::new();
    for place in [&a, &b, &c] {
        let engine = place.open();
        put(&engine, CfId::DEFAULT, b"k", b"same");
        engine.flush().unwrap();
        drop(engine);
        let mut names = place.tables();
        names.retain(|name| !common.contains(name));
        assert_eq!(names.len(), 1, "{names:?}");
        new.push(names.remove(0));
    }
    assert!(new[0] == new[1] && new[1] == new[2], "one number: {new:?}");
    for (place, other) in [(&a, &b), (&b, &a), (&b, &c)] {
        let table = place.dir.join(&new[0]);
        let aside = place.dir.join("aside");
        disk.rename(&table, &aside).unwrap();
        disk.link(&other.dir.join(&new[0]), &table).unwrap();
        let report =
            thermocline_engine::verify(&place.world(), &place.dir, &crate::machine::options());
        let faults = report.unwrap().faults;
        assert!(
            !faults.is_empty() && faults[0].what.contains("database id"),
            "{faults:?}"
        );
        disk.remove(&table).unwrap();
        disk.rename(&aside, &table).unwrap();
        place.verify();
        let swapped = Place {
            pm: other.pm.clone(),
            ..place.clone()
        };
        let refused = swapped.try_open(&crate::machine::options()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corruption, "{refused}");
    }
}

#[test]
fn writers_go_on_while_a_checkpoint_is_made() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    let stop = AtomicBool::new(false);
    let counter = |engine: &thermocline_engine::Engine| {
        let read = |key: &[u8]| engine.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
        (read(b"a"), read(b"b"))
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut n = 0u64;
            while !stop.load(Ordering::Relaxed) || n == 0 {
                n += 1;
                let mut batch = WriteBatch::new();
                for key in [b"a", b"b"] {
                    batch.put(CfId::DEFAULT, key, &n.to_be_bytes()).unwrap();
                }
                batch
                    .put(CfId::DEFAULT, &n.to_be_bytes(), &[7; 100])
                    .unwrap();
                match engine.write(batch.iter(), Durability::Buffered) {
                    Ok(_) => {}
                    Err(full) => {
                        assert_eq!(full.kind(), ErrorKind::OutOfSpace);
                        engine.flush().unwrap();
                    }
                }
            }
        });
        let mut last = None;
        for i in 0..8 {
            let copy = Place::new(&disk, &format!("/copy{i}"));
            let before = counter(&engine).0;
            engine.checkpoint(&copy.dir).unwrap();
            let copied = copy.open();
            let (a, b) = counter(&copied);
            assert_eq!(a, b, "half a batch");
            assert!(a >= before && a >= last, "older than what was there");
            last = a;
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

#[test]
fn what_is_there_is_refused_and_what_an_interrupted_copy_left_is_not() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"k", b"v");
    engine.flush().unwrap();
    let refused = |dir: &str, says: &str| {
        let before = disk.list(path(dir)).ok();
        let error = engine.checkpoint(path(dir)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(disk.list(path(dir)).ok(), before);
    };
    refused("/db", "already holds a database");
    // What removes the database would remove the copy.
    refused("/db/copy", "lies in the folder of the database /db");
    refused("/db/deep/copy", "lies in the folder of the database /db");
    disk.create_dir_all(path("/other")).unwrap();
    let new = |name: &str| drop(disk.open(path(name), OpenMode::CreateNew).unwrap());
    new("/other/000001.sst");
    refused("/other", "it has '000001.sst'");
    new("/file");
    refused("/file", "is a file");
    // A note does not name them.
    new("/other/COPYING");
    refused("/other", "it has '000001.sst'");
    disk.remove(path("/other/000001.sst")).unwrap();
    let half = Place::new(&disk, "/other");
    let error = half.try_open(&Options {
        create_if_missing: true,
        ..crate::machine::options()
    });
    let error = error.unwrap_err();
    assert!(error.to_string().contains("not completed"), "{error}");
    engine.checkpoint(path("/other")).unwrap();
    assert_eq!(dump(&half.open()), dump(&engine));
    disk.create_dir_all(path("/empty")).unwrap();
    engine.checkpoint(path("/empty")).unwrap();
    // Where its own region lies the copy is not told.
    engine.close().unwrap();
    let error = engine.checkpoint(path("/late")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(!disk.exists(path("/late")).unwrap());
}

/// What a checkpoint needs stays until it is made, and goes then.
#[test]
fn files_that_go_meanwhile_are_held() {
    let disk = disk();
    let place = Place::new(&disk, "/db");
    let engine = place.open();
    let [_, down] = both(&engine);
    put(&engine, down.id, b"k", b"v");
    engine.flush().unwrap();
    put(&engine, down.id, b"l", b"in pm");
    engine.checkpoint(path("/with")).unwrap();
    engine.drop_family("down").unwrap();
    engine.checkpoint(path("/without")).unwrap();
    let with = Place::new(&disk, "/with").open();
    let down = with.find_family("down").unwrap();
    assert!(down.reverse);
    assert_eq!(
        with.get(down.id, b"l", <[u8]>::to_vec).unwrap().unwrap(),
        b"in pm"
    );
    let without = Place::new(&disk, "/without").open();
    assert_eq!(without.families(), ["default"]);
    assert_eq!(without.find_family("default"), Some(Family::DEFAULT));
}

/// A store that is closed when it is asked for its folder the second time. By then others have files there, of the same names.
struct Vanishing<'e> {
    engine: &'e Engine,
    place: &'e Place,
    asked: Cell<u32>,
}

impl Vanishing<'_> {
    fn vanish(&self) {
        self.engine.close().unwrap();
        for name in self.place.tables() {
            let path = self.place.dir.join(name);
            self.place.storage.remove(&path).unwrap();
            let file = self.place.storage.open(&path, OpenMode::CreateNew);
            file.unwrap().write_at(b"of another database", 0).unwrap();
        }
    }
}

impl Store for Vanishing<'_> {
    type Captured = <Engine as Store>::Captured;
    type Family = <Engine as Store>::Family;
    type Entries = <Engine as Store>::Entries;

    fn env(&self) -> &Env {
        Store::env(self.engine)
    }

    fn dir(&self) -> &Path {
        // First it is asked whether the copy lies elsewhere, then for each file.
        self.asked.set(self.asked.get() + 1);
        if self.asked.get() == 2 {
            self.vanish();
        }
        Store::dir(self.engine)
    }

    fn db_id(&self) -> [u8; 16] {
        Store::db_id(self.engine)
    }

    fn check_open(&self) -> Result<()> {
        Store::check_open(self.engine)
    }

    fn check_accepts(&self, cf: CfId) -> Result<()> {
        Store::check_accepts(self.engine, cf)
    }

    fn flush(&self) -> Result<()> {
        Store::flush(self.engine)
    }

    fn capture(&self) -> Result<Self::Captured> {
        Store::capture(self.engine)
    }

    fn entries(&self, family: Family, bounds: KeyBounds<'_>) -> Result<Self::Entries> {
        Store::entries(self.engine, family, bounds)
    }

    fn install(
        &self,
        cf: CfId,
        bytes: u64,
        write: &mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>,
    ) -> Result<Installed> {
        Store::install(self.engine, cf, bytes, write)
    }
}

#[test]
fn a_checkpoint_of_a_store_that_is_closed_meanwhile_takes_no_file_for_the_stores() {
    let disk = disk();
    let (place, copy) = (Place::new(&disk, "/db"), Place::new(&disk, "/copy"));
    let engine = place.open();
    put(&engine, CfId::DEFAULT, b"key", b"value");
    engine.flush().unwrap();
    assert_eq!(place.tables().len(), 1);
    let store = Vanishing {
        engine: &engine,
        place: &place,
        asked: Cell::new(0),
    };
    let error = thermocline_copies::checkpoint(&store, &copy.dir).unwrap_err();
    assert_eq!(store.asked.get(), 2);
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(!disk.exists(&copy.dir.join("CURRENT")).unwrap());
}
