//! Deletes of ranges in copies, wherever they lie when the copy is made. A copy that left them out would
//! bring back what they hide.

use std::ops::Bound;

use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, WriteBatch, limits};
use thermocline_engine::{Durability, Engine};

use crate::backup::backups;
use crate::machine::{Place, both, disk, dump, put};

/// Deletes from `start` on, up to `end`.
fn delete(engine: &Engine, cf: CfId, start: &[u8], end: Option<&[u8]>) {
    let mut batch = WriteBatch::new();
    batch.delete_range(cf, start, end).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

/// Keys of 2 bytes, the first one's table among the oldest.
fn fill(engine: &Engine, cf: CfId) {
    for i in 0..=255 {
        put(engine, cf, &[i, 0], &[i; 60]);
        put(engine, cf, &[i, 9], &[i; 60]);
    }
}

/// What was written and deleted, and where it lies then.
type Case = (&'static str, fn(&Engine, CfId));

const CASES: &[Case] = &[
    ("all in memory", |engine, cf| {
        fill(engine, cf);
        delete(engine, cf, &[20], Some(&[40]));
        put(engine, cf, &[30, 0], b"again");
    }),
    ("over a table", |engine, cf| {
        fill(engine, cf);
        engine.flush().unwrap();
        delete(engine, cf, &[20], Some(&[40]));
        put(engine, cf, &[30, 0], b"again");
    }),
    ("in a table", |engine, cf| {
        fill(engine, cf);
        engine.flush().unwrap();
        delete(engine, cf, &[20], Some(&[40]));
        put(engine, cf, &[30, 0], b"again");
        engine.flush().unwrap();
        put(engine, cf, &[31, 0], b"in memory");
    }),
    ("compacted in part", |engine, cf| {
        fill(engine, cf);
        engine.flush().unwrap();
        delete(engine, cf, &[20], Some(&[200]));
        engine.flush().unwrap();
        let part = (Bound::Unbounded, Bound::Excluded(&[90][..]));
        engine.compact(cf, part).unwrap();
        delete(engine, cf, &[190], Some(&[220]));
        put(engine, cf, &[195, 3], b"again");
    }),
    ("over memtables", |engine, cf| {
        fill(engine, cf);
        delete(engine, cf, &[20], Some(&[40]));
        // Some of these fill a memtable.
        (0..=255).for_each(|i| put(engine, cf, &[i, 5], &[i; 90]));
        delete(engine, cf, &[30], Some(&[60]));
        put(engine, cf, &[35, 5], b"again");
    }),
    ("without end", |engine, cf| {
        fill(engine, cf);
        engine.flush().unwrap();
        put(engine, cf, &[250, 250], b"in memory");
        delete(engine, cf, &[200], None);
        put(engine, cf, &[210], b"again");
    }),
    ("over the greatest key", |engine, cf| {
        put(engine, cf, &vec![0xff; limits::KEY_LEN_MAX], b"last");
        engine.flush().unwrap();
        put(engine, cf, b"k", b"v");
        delete(engine, cf, b"l", None);
    }),
    ("of everything, behind a snapshot's moment", |engine, cf| {
        fill(engine, cf);
        engine.flush().unwrap();
        let held = engine.snapshot();
        delete(engine, cf, b"", None);
        put(engine, cf, b"only", b"this");
        delete(engine, cf, b"p", None);
        drop(held);
    }),
];

/// A copy of each kind is opened, and flushed and compacted so that everything meets.
fn copies_agree(case: &Case) {
    let (what, write) = case;
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let [up, down] = both(&engine);
    write(&engine, up.id);
    write(&engine, down.id);
    let expected = dump(&engine);
    let all = backups(&disk, "/b");
    engine.checkpoint("/checkpoint".as_ref()).unwrap();
    all.create(&engine).unwrap();
    all.restore(None, "/restored".as_ref()).unwrap();
    for dir in ["/checkpoint", "/restored"] {
        let place = Place::new(&disk, dir);
        place.verify();
        let copy = place.open();
        assert_eq!(dump(&copy), expected, "{what}: {dir}");
        for family in [up, down] {
            copy.compact(family.id, (Bound::Unbounded, Bound::Unbounded))
                .unwrap();
        }
        assert_eq!(dump(&copy), expected, "{what}: {dir}, compacted");
    }
    assert_eq!(dump(&engine), expected, "{what}: the store itself");
}

/// What is exported has nothing of what is hidden; what is ingested lies over what was deleted before, and
/// under what is deleted after.
fn exports_agree(case: &Case) {
    let (what, write) = case;
    let disk = disk();
    let engine = Place::new(&disk, "/db").open();
    let [up, _] = both(&engine);
    write(&engine, up.id);
    let expected = dump(&engine);
    let all = (Bound::Unbounded, Bound::Unbounded);
    engine.export(up, all, "/t.sst".as_ref()).unwrap();
    let place = Place::new(&disk, "/other");
    let other = place.open();
    both(&other);
    put(&other, up.id, b"k", b"older");
    put(&other, up.id, &[25, 1], b"older");
    delete(&other, up.id, b"", None);
    other.ingest(up.id, &["/t.sst"]).unwrap();
    assert_eq!(dump(&other), expected, "{what}");
    delete(&other, up.id, &[0], Some(&[4]));
    delete(&other, up.id, &[240], None);
    let mut left = expected.clone();
    let (pairs, _) = left.get_mut("default").unwrap();
    pairs.retain(|(key, _)| **key >= [4][..] && **key < [240][..]);
    assert_eq!(dump(&other), left, "{what}, and deleted");
    other.close().unwrap();
    drop(other);
    let other = place.open();
    assert_eq!(dump(&other), left, "{what}, deleted and opened");
    // The same once more over what was deleted since, in memory and in tables.
    other.ingest(up.id, &["/t.sst"]).unwrap();
    assert_eq!(dump(&other), expected, "{what}, twice");
    other.compact(up.id, all).unwrap();
    assert_eq!(dump(&other), expected, "{what}, twice and compacted");
    drop(other);
    place.verify();
}

#[test]
fn deletes_of_ranges_are_kept_by_exports_and_ingestions() {
    CASES.iter().for_each(exports_agree);
}

#[test]
fn deletes_of_ranges_are_in_every_copy() {
    CASES.iter().for_each(copies_agree);
}

/// And this would notice if they were not.
#[test]
fn a_copy_without_them_is_noticed() {
    let _planted = plant(Bug::CopyForgetsRanges);
    for case in &CASES[1..] {
        // The checkpoint flushes nothing.
        if case.0 != "in a table" {
            let noticed = std::panic::catch_unwind(|| copies_agree(case)).is_err();
            assert!(noticed, "{}", case.0);
        }
    }
}
