//! When a budget is used up: a clear error, nothing lost, and reads, deletes and reopening go on.

use std::collections::BTreeMap;

use thermocline::{CfOptions, Db, Durability, Error, ErrorKind, Options};
use thermocline_testkit::Rng;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// On shared memory and on an ordinary file.
fn homes() -> Vec<tempfile::TempDir> {
    let shm = tempfile::tempdir_in("/dev/shm").ok();
    let file = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    shm.into_iter().chain([file]).collect()
}

fn options(pm: u64) -> Options {
    let mut options = Options {
        pm,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.memtable.idle_ms = 1;
    options
}

fn check(db: &Db, model: &Map) {
    let found: Map = db
        .iter()
        .map(|entry| entry.map(|(key, value)| (key, value.into_vec())).unwrap())
        .collect();
    assert!(
        found == *model,
        "{} entries, not {}",
        found.len(),
        model.len()
    );
    for (key, value) in model.iter().step_by(13) {
        assert!(*db.get(key).unwrap().unwrap() == *value);
    }
}

/// Puts until it is refused; returns the error.
fn fill(db: &Db, model: &mut Map, rng: &mut Rng, value_len: usize) -> Error {
    loop {
        let key = format!("{:06}", rng.below(1_000_000)).into_bytes();
        let len = rng.below(value_len);
        let value = vec![u8::try_from(rng.below(256)).unwrap(); len];
        match db.put(&key, &value) {
            Ok(()) => model.insert(key, value),
            Err(error) => return error,
        };
    }
}

#[track_caller]
fn assert_says(error: &Error, says: &[&str]) {
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    for part in says {
        assert!(error.to_string().contains(part), "no '{part}' in: {error}");
    }
}

#[test]
fn the_region_is_full() {
    for (n, home) in (0u64..).zip(homes()) {
        // The first home is fast.
        let sizes: &[u64] = match n {
            0 => &[256 << 10, 1 << 20, 3_000_000, 4 << 20],
            _ => &[300_000],
        };
        for &pm in sizes {
            let dir = home.path().join(format!("{pm}"));
            let mut rng = Rng::new(n ^ pm);
            let mut model = Map::new();
            let mut options = options(pm);
            options.memtable.bytes_max = *rng.pick(&[0, 1, 64 << 10, 1 << 30]);
            let db = Db::open(&dir, options.clone()).unwrap();
            let error = fill(&db, &mut model, &mut rng, 4000);
            assert_says(&error, &["region.pm", "full", "in use", "raise pm"]);
            let metrics = db.metrics();
            assert!(metrics.region_bytes <= pm && metrics.region_bytes * 4 > pm * 3);
            check(&db, &model);
            // It stays refused, and nothing of it shows; a smaller one may still fit.
            for _ in 0..3 {
                assert!(db.put("too big", vec![1; 100_000]).is_err());
            }
            // So do batches, whole.
            let mut batch = db.batch();
            for k in 0..50u8 {
                batch.put([b'b', k], vec![k; 3000]);
            }
            let error = batch.commit(Durability::Immediate).unwrap_err();
            assert_says(&error, &["region.pm", "full"]);
            check(&db, &model);
            // Deletes use what is kept back for them.
            delete_some(&db, &mut model, 60);
            let other = db.column_family("other", CfOptions::default()).unwrap();
            other.delete("k").unwrap();
            check(&db, &model);
            if rng.one_in(2) {
                db.close().unwrap();
            } else {
                drop(db);
            }
            drop((batch, other));
            reopen(&dir, &options, &mut model);
        }
    }
}

fn delete_some(db: &Db, model: &mut Map, count: usize) {
    let keys: Vec<_> = model.keys().take(count).cloned().collect();
    for key in keys {
        db.delete(&key).unwrap();
        model.remove(&key);
    }
    assert_eq!(db.delete("never there").map_err(|e| e.to_string()), Ok(()));
}

fn reopen(dir: &std::path::Path, options: &Options, model: &mut Map) {
    for round in 0..3 {
        assert_eq!(Db::verify(dir, options.clone()).unwrap().faults, []);
        let read_only = Options {
            read_only: true,
            ..options.clone()
        };
        check(&Db::open(dir, read_only).unwrap(), model);
        let db = Db::open(dir, options.clone()).unwrap();
        check(&db, model);
        delete_some(&db, model, 5);
        let error = fill(&db, model, &mut Rng::new(round), 100_000);
        assert_says(&error, &["raise pm"]);
        check(&db, model);
    }
    // With more room everything goes on.
    let mut more = Options {
        pm: 2 * options.pm + (1 << 20),
        ..options.clone()
    };
    // Each tiny memtable would take a zone.
    more.memtable.bytes_max = 1 << 20;
    let db = Db::open(dir, more).unwrap();
    check(&db, model);
    for k in 0..100u8 {
        db.put([k], vec![k; 1000]).unwrap();
        model.insert(vec![k], vec![k; 1000]);
    }
    check(&db, model);
}

/// What is kept back serves deletes alone: small puts between them do not use it up.
#[test]
fn puts_leave_the_reserve_to_deletes() {
    let home = homes().swap_remove(0);
    for bytes_max in [1, 64 << 10, 1 << 30] {
        let dir = home.path().join(format!("{bytes_max}"));
        let mut options = options(1 << 20);
        options.memtable.bytes_max = bytes_max;
        let mut model = Map::new();
        let mut deleted = 0;
        for round in 0..4 {
            let db = Db::open(&dir, options.clone()).unwrap();
            fill(&db, &mut model, &mut Rng::new(round), 4000);
            for n in 0..20u8 {
                assert!(db.delete([n]).is_ok(), "the {deleted}th delete");
                deleted += 1;
                let error = (0..1000u32).find_map(|n| {
                    let key = n.to_be_bytes();
                    let refused = db.put(key, "small").err();
                    if refused.is_none() {
                        model.insert(key.to_vec(), b"small".to_vec());
                    }
                    refused
                });
                assert_says(&error.expect("it is full"), &["raise pm"]);
            }
            check(&db, &model);
        }
    }
}

/// Batches of many sizes fill the region to its last zone; each is there whole or not at all.
#[test]
fn batches_at_the_limit() {
    let home = homes().swap_remove(0);
    let dir = home.path().join("db");
    let mut rng = Rng::new(5);
    let mut model = Map::new();
    let db = Db::open(&dir, options(2 << 20)).unwrap();
    let (mut refused, mut n) = (0, 0u32);
    while refused < 40 {
        let mut batch = db.batch();
        let mut after = model.clone();
        for _ in 0..1 + rng.below(30) {
            let key = format!("{:03}", rng.below(400)).into_bytes();
            let mut value = n.to_be_bytes().to_vec();
            value.resize(4 + rng.below(if refused < 20 { 8000 } else { 300 }), 7);
            batch.put(&key, &value);
            after.insert(key, value);
        }
        match batch.commit(Durability::Immediate) {
            Ok(()) => model = after,
            Err(error) => {
                assert_says(&error, &["region.pm", "full", "raise pm"]);
                assert!(!batch.is_empty(), "the batch stays as it was");
                refused += 1;
                check(&db, &model);
            }
        }
        n += 1;
    }
    drop(db);
    assert_eq!(Db::verify(&dir, options(2 << 20)).unwrap().faults, []);
    let db = Db::open(&dir, options(2 << 20)).unwrap();
    check(&db, &model);
    // A batch of deletes alone is let through, one with a put is not.
    let mut batch = db.batch();
    let gone: Vec<_> = model.keys().take(20).cloned().collect();
    for key in &gone {
        batch.delete(key);
    }
    batch.put("k", vec![0; 200_000]);
    assert_says(
        &batch.commit(Durability::Immediate).unwrap_err(),
        &["raise pm"],
    );
    check(&db, &model);
    batch.clear();
    for key in &gone {
        batch.delete(key);
        model.remove(key);
    }
    batch.commit(Durability::Immediate).unwrap();
    check(&db, &model);
}

/// The DRAM budget of the indexes.
#[test]
fn dram_is_full() {
    let home = homes().swap_remove(0);
    for value_len in [1, 300] {
        let dir = home.path().join(format!("{value_len}"));
        let mut options = options(256 << 20);
        options.dram = 1 << 20;
        let mut model = Map::new();
        let mut rng = Rng::new(9);
        let db = Db::open(&dir, options.clone()).unwrap();
        let error = fill(&db, &mut model, &mut rng, value_len);
        assert_says(&error, &["DRAM", "1 MiB", "raise dram"]);
        assert!(model.len() > 5000, "only {} keys", model.len());
        let metrics = db.metrics();
        assert!(
            metrics.dram_index_bytes <= 1 << 20,
            "{}",
            metrics.dram_index_bytes
        );
        check(&db, &model);
        // Deletes of keys that are there, and of one that is not.
        delete_some(&db, &mut model, 100);
        check(&db, &model);
        let mut batch = db.batch();
        for k in 0..200u8 {
            batch.put([b'n', k], "new");
        }
        assert_says(
            &batch.commit(Durability::Immediate).unwrap_err(),
            &["raise dram"],
        );
        check(&db, &model);
        drop((db, batch));
        // It can be opened again, with this and with more.
        for _ in 0..2 {
            let db = Db::open(&dir, options.clone()).unwrap();
            check(&db, &model);
            delete_some(&db, &mut model, 10);
            drop(db);
        }
        options.dram = 64 << 20;
        let db = Db::open(&dir, options).unwrap();
        check(&db, &model);
        for k in 0..200u8 {
            db.put([b'n', k], "new").unwrap();
        }
    }
}
