//! Many stores in one process, and folders that go while somebody still looks at what was there.

use std::path::{Path, PathBuf};

use thermocline::{CfOptions, Db, ErrorKind, Options, Runtime, RuntimeOptions};
use thermocline_testkit::Rng;

/// On shared memory and on an ordinary file.
fn homes() -> Vec<tempfile::TempDir> {
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    let file = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    shm.into_iter().chain([file]).collect()
}

fn options() -> Options {
    let mut options = Options::default();
    options.pm_region.part_bytes_first = 256 << 10;
    // Due at once, so that workers are about when a store is closed.
    options.memtable.idle_ms = 1;
    options
}

fn runtime() -> Runtime {
    Runtime::new(RuntimeOptions::default()).unwrap()
}

fn write(db: &Db, from: u32, to: u32) {
    for n in from..to {
        db.put(n.to_be_bytes(), [7; 500]).unwrap();
    }
}

fn remove(dir: &Path) {
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_closed_database_can_be_removed_and_made_anew_under_its_old_handles() {
    for home in homes() {
        let dir = home.path().join("db");
        let runtime = runtime();
        for round in 0..6u64 {
            let mut rng = Rng::new(round);
            let db = match rng.one_in(3) {
                true => Db::open(&dir, options()).unwrap(),
                false => Db::open_in(&runtime, &dir, options()).unwrap(),
            };
            write(&db, 0, 100);
            let family = db.column_family("other", CfOptions::default()).unwrap();
            family.put("k", "old").unwrap();
            let snapshot = db.snapshot();
            let mut scan = db.iter();
            assert!(scan.next().is_some());
            let handles = rng.one_in(2).then(|| (db.clone(), family.clone()));
            match rng.one_in(2) || handles.is_some() {
                true => db.close().unwrap(),
                false => drop(db),
            }
            drop(family);
            remove(&dir);
            assert!(!dir.exists());
            let new = Db::open_in(&runtime, &dir, options()).unwrap();
            write(&new, 50, 60);
            assert_eq!(snapshot.iter().count(), 100);
            assert_eq!(scan.count(), 99);
            if let Some((db, family)) = handles {
                let error = db.put("k", "v").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                // A handle is no reader.
                let error = db.get(0u32.to_be_bytes()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                assert_eq!(family.get("k").unwrap_err().kind(), ErrorKind::Closed);
                assert_eq!(db.metrics().memtables.len(), 1);
                db.close().unwrap();
            }
            drop(snapshot);
            write(&new, 60, 70);
            assert_eq!(new.iter().count(), 20);
            assert_eq!(new.column_families(), ["default"]);
            new.close().unwrap();
            assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
            assert_eq!(Db::open(&dir, options()).unwrap().iter().count(), 20);
            remove(&dir);
        }
        assert_eq!(runtime.metrics().stores, 0);
        assert_eq!(runtime.metrics().timers, 0);
    }
}

#[test]
fn whoever_closes_second_waits_for_the_first() {
    for home in homes() {
        for round in 0..20u32 {
            let dir = home.path().join(format!("{round}"));
            let db = Db::open(&dir, options()).unwrap();
            write(&db, 0, 50);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    let (db, dir) = (db.clone(), &dir);
                    scope.spawn(move || {
                        db.close().unwrap();
                        // The lock is free.
                        match Db::open(dir, options()) {
                            Ok(db) => assert_eq!(db.iter().count(), 50),
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Locked),
                        }
                    });
                }
            });
            drop(db);
            assert_eq!(Db::open(&dir, options()).unwrap().iter().count(), 50);
        }
    }
}

/// What 300 stores cost that were opened, written and read in one runtime.
#[test]
fn hundreds_of_small_stores() {
    const STORES: usize = 300;
    const DRAM: u64 = 128 << 20;
    let home = homes().swap_remove(0);
    let runtime = Runtime::new(RuntimeOptions {
        dram: DRAM,
        ..RuntimeOptions::default()
    })
    .unwrap();
    let dirs: Vec<PathBuf> = (0..STORES)
        .map(|n| home.path().join(format!("{n}")))
        .collect();
    for life in 0..2u32 {
        let mut options = options();
        if life == 0 {
            // None falls idle and gives back what it was promised.
            options.memtable.idle_ms = 3_600_000;
        }
        let stores: Vec<Db> = dirs
            .iter()
            .map(|dir| Db::open_in(&runtime, dir, options.clone()).unwrap())
            .collect();
        assert_eq!(runtime.metrics().stores, STORES);
        for (n, db) in (0..).zip(&stores) {
            for k in 0..10u32 {
                db.put(k.to_be_bytes(), u32::to_be_bytes(n + k + life))
                    .unwrap();
            }
        }
        for (n, db) in (0..).zip(&stores) {
            for k in 0..10u32 {
                let value = db.get(k.to_be_bytes()).unwrap().unwrap();
                assert_eq!(*value, u32::to_be_bytes(n + k + life));
            }
            assert_eq!(db.iter().count(), 10);
        }
        let metrics = runtime.metrics();
        assert!(metrics.workers <= 1, "{metrics:?}");
        assert!(metrics.dram_held_bytes <= DRAM, "{metrics:?}");
        let index: u64 = stores.iter().map(|db| db.metrics().dram_index_bytes).sum();
        assert_eq!(metrics.dram_used_bytes, index);
        assert!(
            index <= STORES as u64 * (64 << 10),
            "{index} bytes of indexes"
        );
        for (n, db) in stores.into_iter().enumerate() {
            match n % 2 {
                0 => db.close().unwrap(),
                _ => drop(db),
            }
        }
        let metrics = runtime.metrics();
        assert_eq!((metrics.stores, metrics.timers), (0, 0));
        assert_eq!((metrics.dram_used_bytes, metrics.dram_held_bytes), (0, 0));
    }
    for dir in &dirs {
        remove(dir);
    }
}

#[test]
fn a_database_says_where_it_lies_and_with_which_options_it_is_open() {
    for home in homes() {
        let (dir, region) = (home.path().join("db"), home.path().join("region"));
        let mut expected = Options {
            pm_path: Some(region),
            ..options()
        };
        let db = Db::open(&dir, expected.clone()).unwrap();
        assert_eq!(db.path(), dir);
        // The region has decided it.
        expected.level0.shape = db.options().level0.shape;
        assert!(expected.level0.shape.is_some());
        assert_eq!(db.options(), expected);
        db.close().unwrap();
        // The place of the region is remembered, and nothing else is that an opening does not ask for.
        expected.read.readahead = 7;
        Db::open(&dir, expected.clone()).unwrap().close().unwrap();
        expected.read.readahead = options().read.readahead;
        let db = Db::open(&dir, options()).unwrap();
        assert_eq!(db.options(), expected);
        let handle = db.clone();
        db.close().unwrap();
        assert_eq!((handle.path(), handle.options()), (&*dir, expected));
    }
}

/// Nobody reads through it any more, so no thread starts for that in a runtime that other stores use on.
#[test]
fn a_closed_database_does_not_decide_how_reads_are_made() {
    for home in homes() {
        let runtime = runtime();
        let db = Db::open_in(&runtime, home.path().join("db"), options()).unwrap();
        let handle = db.clone();
        db.close().unwrap();
        handle.decide_io();
        let reads = runtime.metrics().async_reads;
        assert_eq!((reads.way, reads.refused), (None, None));
    }
}
