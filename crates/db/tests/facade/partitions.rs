//! Partitions that are dropped: what is read beside that and behind it, and the room that comes back on the SSD and in
//! persistent memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use thermocline::{Db, ErrorKind, Options, Scan};
use thermocline_base::Steps;
use thermocline_engine::World;
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_pm::SimPm;
use thermocline_testkit::Rng;

const PM_BYTES: u64 = 16 << 20;

/// The partitions, of equal sizes.
const PREFIXES: [&str; 3] = ["a/", "b/", "c/"];

/// The keys of each partition in a table on the SSD, and those in a newer table in persistent memory.
const ON_SSD: Range<u8> = 0..60;
const IN_PM: Range<u8> = 30..90;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// A machine without threads, so that nothing happens by itself.
struct Machine {
    fs: SimFs,
    pm: SimPm,
    env: Env,
}

impl Machine {
    fn new() -> Machine {
        let fs = SimFs::new(Steps::new());
        Machine {
            pm: SimPm::new(PM_BYTES, fs.steps().clone()),
            env: Env::simulated(fs.clone(), 1),
            fs,
        }
    }

    fn open(&self) -> Db {
        let world = World {
            env: self.env.clone(),
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        };
        let mut options = Options {
            pm: PM_BYTES,
            ..Options::default()
        };
        for (name, value) in [
            ("level0.shape", "pm-tables"),
            ("level0.internal", "off"),
            ("partition.by", "prefix"),
            ("partition.prefix_len", "2"),
        ] {
            options.set(name, value).unwrap();
        }
        let db = Db::builder("/db").options(options);
        db.open_in_world(world).unwrap()
    }

    /// Bytes of the files of tables, and of the zones of those in persistent memory.
    fn room(&self, db: &Db) -> [u64; 2] {
        let names = self.fs.list(Path::new("/db")).unwrap().into_iter();
        let tables = names.filter(|name| name.ends_with(".sst"));
        let bytes = tables.map(|name| {
            let path = Path::new("/db").join(name);
            let file = self.fs.open(&path, OpenMode::Read).unwrap();
            file.len().unwrap()
        });
        [bytes.sum(), db.metrics().pm_table_bytes]
    }
}

fn key(prefix: &str, n: u8) -> Vec<u8> {
    [prefix.as_bytes(), &[n]].concat()
}

/// Writes keys of a partition with values that no codec makes smaller, and flushes them.
fn write(db: &Db, prefix: &str, keys: Range<u8>, rng: &mut Rng) {
    for n in keys {
        let words = (0..125).flat_map(|_| rng.next_u64().to_le_bytes());
        let value: Vec<u8> = words.collect();
        db.put(key(prefix, n), value).unwrap();
    }
    db.flush().unwrap();
}

/// Each partition with a table of each kind.
fn filled(machine: &Machine) -> Db {
    let (db, mut rng) = (machine.open(), Rng::new(1));
    for prefix in PREFIXES {
        write(&db, prefix, ON_SSD, &mut rng);
        db.compact::<&str>(..).unwrap();
    }
    for prefix in PREFIXES {
        write(&db, prefix, IN_PM, &mut rng);
    }
    for prefix in PREFIXES {
        assert_eq!(tables(&db, prefix), [1, 1], "{prefix}");
    }
    db
}

/// Tables with values of a partition, on the SSD and in persistent memory.
fn tables(db: &Db, prefix: &str) -> [usize; 2] {
    let map = db.map();
    let family = map.iter().find(|f| f.name.as_deref() == Some("default"));
    let all = family.into_iter().flat_map(|f| &f.tables);
    let of_partition = all.filter(|t| t.first.starts_with(prefix.as_bytes()));
    let mut counts = [0; 2];
    for table in of_partition.filter(|t| t.entries > t.deletes) {
        counts[usize::from(table.in_pm)] += 1;
    }
    counts
}

fn content(scan: Scan) -> Content {
    let entries = scan.map(Result::unwrap);
    entries
        .map(|(key, value)| (key, value.into_vec()))
        .collect()
}

/// Compares all ways to read with what there is.
fn check(db: &Db, right: &Content) {
    assert!(content(db.iter()) == *right);
    let back: Vec<Vec<u8>> = db.iter().rev().map(|entry| entry.unwrap().0).collect();
    assert!(back.iter().eq(right.keys().rev()));
    for prefix in PREFIXES {
        let keys: Vec<Vec<u8>> = (0..IN_PM.end + 2).map(|n| key(prefix, n)).collect();
        let together = db.multi_get(&keys).unwrap();
        for (key, found) in keys.iter().zip(together) {
            let right = right.get(key).map(Vec::as_slice);
            assert_eq!(found.as_deref(), right);
            assert_eq!(db.get(key).unwrap().as_deref(), right);
        }
    }
}

/// What is left without a partition.
fn without(content: &Content, prefix: &str) -> Content {
    let mut left = content.clone();
    left.retain(|key, _| !key.starts_with(prefix.as_bytes()));
    left
}

#[test]
fn a_dropped_partition_is_gone_and_its_room_is_back_once_nobody_sees_it() {
    let machine = Machine::new();
    let db = filled(&machine);
    let all = content(db.iter());
    assert_eq!(all.len(), PREFIXES.len() * usize::from(IN_PM.end));
    check(&db, &all);
    let (before, snapshot) = (machine.room(&db), db.snapshot());
    db.drop_partition("b/").unwrap();
    let mut left = without(&all, "b/");
    check(&db, &left);
    db.drain().unwrap();
    // Somebody sees it.
    assert_eq!(tables(&db, "b/"), [1, 1]);
    assert!(content(snapshot.iter()) == all);
    check(&db, &left);
    // The partition is still there, and takes keys.
    let new = key("b/", IN_PM.end + 1);
    db.put(&new, "new").unwrap();
    left.insert(new, b"new".to_vec());
    check(&db, &left);
    drop(snapshot);
    db.drain().unwrap();
    assert_eq!(tables(&db, "b/"), [0, 0]);
    // It had a third of either kind.
    let after = machine.room(&db);
    for (after, before) in after.into_iter().zip(before) {
        assert!(
            after > before / 2 && after < before * 3 / 4,
            "{after} of {before}"
        );
    }
    check(&db, &left);
    db.close().unwrap();
    let db = machine.open();
    check(&db, &left);
    assert_eq!(machine.room(&db), after);
    db.close().unwrap();
}

#[test]
fn a_partition_that_was_dropped_before_the_store_was_closed_goes_behind_that() {
    let machine = Machine::new();
    let db = filled(&machine);
    let (all, before) = (content(db.iter()), machine.room(&db));
    let snapshot = db.snapshot();
    db.drop_partition("a/").unwrap();
    db.drop_partition("c/").unwrap();
    let left = without(&without(&all, "a/"), "c/");
    drop(snapshot);
    db.close().unwrap();
    let db = machine.open();
    check(&db, &left);
    db.drain().unwrap();
    check(&db, &left);
    assert_eq!(
        PREFIXES.map(|prefix| tables(&db, prefix)),
        [[0, 0], [1, 1], [0, 0]]
    );
    for (after, before) in machine.room(&db).into_iter().zip(before) {
        assert!(after > 0 && after < before / 2, "{after} of {before}");
    }
    // What is not the prefix of a partition drops nothing.
    for wrong in ["", "b", "b/1"] {
        let refused = db.drop_partition(wrong).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{wrong:?}");
    }
    check(&db, &left);
    db.close().unwrap();
}
