//! Manifests of databases with many tables.

use std::sync::Arc;

use thermocline_base::{CfId, FileId, KeyRange, SeqNo, Steps};
use thermocline_version::{Change, Level, Manifest, NextIds, Place, TableRef, VersionEdit, format};

use crate::common::{created, dir, fresh, storage};

const TABLES: u64 = 20_000;
const PLACE: Place = Place {
    cf: CfId(0),
    partition: thermocline_version::PartitionId::WHOLE,
    level: Level(2),
};

/// Table `n` of a level of tables of equal size, written by job `job`.
fn table(n: u64, job: u64) -> TableRef {
    TableRef {
        file: FileId(job * TABLES + n),
        file_bytes: 64 << 20,
        bytes: 64 << 20,
        entries: 500_000,
        deletes: 0,
        range: KeyRange::inclusive(
            format!("{n:030} the first key"),
            format!("{n:030} the last key"),
        )
        .owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(1 + job),
        largest_seqno: SeqNo(1 + job),
        blobs: vec![],
    }
}

fn added(n: u64, job: u64) -> Change {
    Change::TableAdded {
        place: PLACE,
        table: Arc::new(table(n, job)),
    }
}

/// A terabyte and more of tables: the log stays within twice its snapshot, whose records are
/// read and written one after the other, and what is read is what was written.
#[test]
fn twenty_thousand_tables_are_kept_over_switches_and_restarts() {
    let fs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    manifest.set_bytes_max(0);
    let ids = NextIds {
        file: 2 * TABLES,
        ..manifest.state().next_ids()
    };
    manifest.append(&Change::NextIds(ids).into()).unwrap();
    for first in (0..TABLES).step_by(1000) {
        let changes = (first..first + 1000).map(|n| added(n, 0)).collect();
        manifest.append(&VersionEdit { changes }).unwrap();
    }
    let mut switches = 0;
    let mut longest = 0;
    // Every table is compacted once.
    for n in 0..TABLES {
        let path = manifest.path().to_path_buf();
        let removed = Change::table_removed(PLACE, &table(n, 0));
        let edit = VersionEdit::from(removed).with(added(n, 1));
        manifest.append(&edit).unwrap();
        switches += u64::from(manifest.path() != path);
        longest = longest.max(manifest.len());
    }
    let snapshot: u64 = manifest
        .state()
        .snapshot()
        .map(|edit| format::record_len(format::encode_edit(&edit).len()) as u64)
        .sum();
    assert!(snapshot > 3 << 20, "{snapshot}");
    assert!(longest < 2 * (snapshot + (1 << 19)), "{longest} {snapshot}");
    assert!(switches > 0);
    println!("{switches} switches; at most {longest} bytes, snapshot {snapshot}");
    let state = manifest.state().clone();
    drop(manifest);
    let cut = fs.image_none(Steps::new());
    let (manifest, read) = Manifest::open(storage(&cut), dir(), false).unwrap();
    assert_eq!(read, state);
    let level = read.version().level(PLACE).unwrap();
    assert_eq!(level.len() as u64, TABLES);
    let key = table(700, 1).range.first.to_vec();
    let found: Vec<_> = level.may_have(&key).map(|t| t.file).collect();
    assert_eq!(found, [table(700, 1).file]);
    drop(manifest);
}

/// A flush is one edit, however many tables it writes: with the longest keys a hundred of them take
/// far more than a snapshot puts into one record.
#[test]
fn one_edit_adds_a_hundred_tables_with_the_longest_keys() {
    let fs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    manifest.set_bytes_max(u64::MAX);
    let ids = NextIds {
        file: TABLES,
        ..manifest.state().next_ids()
    };
    manifest.append(&Change::NextIds(ids).into()).unwrap();
    let key = |n: u64, end: u8| {
        let mut key = format!("{n:030}").into_bytes();
        key.resize(65_535, end);
        key
    };
    let wide = |n: u64| TableRef {
        range: KeyRange::inclusive(key(n, b'a'), key(n, b'z')).owned(),
        ..table(n, 0)
    };
    let changes = (0..100).map(|n| Change::TableAdded {
        place: PLACE,
        table: Arc::new(wide(n)),
    });
    let edit = VersionEdit {
        changes: changes.collect(),
    };
    assert!(format::encode_edit(&edit).len() > 40 * format::SNAPSHOT_EDIT_LEN);
    manifest.append(&edit).unwrap();
    let state = manifest.state().clone();
    drop(manifest);
    let (mut manifest, opened) = Manifest::open(storage(&fs), dir(), false).unwrap();
    assert_eq!(opened, state);
    // And as a snapshot.
    manifest.set_bytes_max(0);
    let next = Change::MemtableCreated { id: 0 };
    manifest.append(&next.into()).unwrap();
    let (_, opened) = Manifest::open(storage(&fs), dir(), true).unwrap();
    assert_eq!(&opened, manifest.state());
}
