//! The bytes of the changes of tables and blob files, in format version 1. See [`crate::golden`].

use std::sync::Arc;

use thermocline_base::{CfId, FileId, KeyRange, SeqNo};
use thermocline_env::Storage;
use thermocline_version::{
    BlobBytes, BlobFile, Change, Level, Manifest, NextIds, PartitionId, Place, State, TableRef,
    VersionEdit, format,
};

use crate::common::{dir, fresh, storage};
use crate::golden::{Dump, annotate_begin, bytes_of, edits};

const GOLDEN: &str = include_str!("../golden/manifest-v1-tables.txt");

fn table() -> TableRef {
    TableRef {
        file: FileId(3),
        file_bytes: 0x10_0000,
        bytes: 0x10_0000,
        entries: 1000,
        deletes: 10,
        range: KeyRange::inclusive("apple", "plum").owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(0x1_0000),
        blobs: vec![BlobBytes {
            file: FileId(1),
            bytes: 0x4000,
        }],
    }
}

fn part() -> TableRef {
    let mut part = table().part(Some(b"b"), Some(b"cherry")).unwrap();
    part.bytes = 0x100;
    part.entries = 20;
    part.deletes = 2;
    part.blobs.clear();
    part
}

fn with_tables() -> VersionEdit {
    let level1 = Place::new(CfId(0), Level(1));
    let metadata = Place::new(CfId::METADATA, Level::ZERO);
    let open = TableRef {
        file: FileId(4),
        range: KeyRange::until("", "\0\x07").owned(),
        blobs: vec![],
        ..table()
    };
    let added = |place, table: &TableRef| Change::TableAdded {
        place,
        table: Arc::new(table.clone()),
    };
    VersionEdit::new()
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
        .with(Change::NextIds(NextIds {
            chain: 10,
            memtable: 11,
            cf: 12,
            incarnation: 13,
            file: 14,
        }))
        .with(Change::BlobFileAdded {
            file: FileId(1),
            bytes: 0x20_0000,
        })
        .with(Change::BlobFileAdded {
            file: FileId(2),
            bytes: 0x30_0000,
        })
        .with(Change::BlobFileRemoved { file: FileId(2) })
        .with(added(level1, &table()))
        .with(Change::table_removed(level1, &table()))
        .with(added(level1, &part()))
        .with(added(metadata, &open))
}

const ADDED: [(usize, &str); 11] = [
    (2, "column family"),
    (4, "partition"),
    (1, "level"),
    (1, "kind"),
    (1, "flags"),
    (8, "file"),
    (8, "bytes of the file"),
    (8, "entries"),
    (8, "deletes"),
    (8, "smallest seqno"),
    (8, "largest seqno"),
];

fn added<'a>(dump: &mut Dump<'_>, rest: &[(usize, &'a str)]) {
    let fields: Vec<(usize, &'a str)> = ADDED.iter().chain(rest).copied().collect();
    dump.change("TableAdded", &fields);
}

fn annotate(manifest: &[u8]) -> String {
    let mut dump = annotate_begin(manifest);
    dump.record("tables and blob files");
    dump.change("ColumnFamilyCreated", &[(2, "id"), (7, "default")]);
    dump.change(
        "NextIds, with files",
        &[
            (8, "chain"),
            (8, "memtable"),
            (4, "column family"),
            (4, "incarnation"),
            (8, "file"),
        ],
    );
    for _ in 0..2 {
        dump.change("BlobFileAdded", &[(8, "file"), (8, "bytes")]);
    }
    dump.change("BlobFileRemoved", &[(8, "file")]);
    added(
        &mut dump,
        &[
            (4, "length"),
            (5, "apple"),
            (4, "length"),
            (4, "plum"),
            (4, "count"),
            (8, "blob file"),
            (8, "bytes there"),
        ],
    );
    dump.change(
        "TableRemoved",
        &[
            (2, "column family"),
            (4, "partition"),
            (1, "level"),
            (8, "file"),
            (5, "apple"),
        ],
    );
    added(
        &mut dump,
        &[
            (4, "length"),
            (1, "b"),
            (4, "length"),
            (6, "cherry"),
            (4, "count"),
            (8, "estimated bytes"),
        ],
    );
    added(
        &mut dump,
        &[
            (4, "length"),
            (4, "length"),
            (2, "the first key behind"),
            (4, "count"),
        ],
    );
    dump.padding();
    assert_eq!(dump.at, manifest.len());
    dump.text
}

#[test]
fn tables_are_the_golden_and_read_as_what_was_written() {
    let fs = fresh();
    let [created, _] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest.append(&with_tables()).unwrap();
    let bytes = fs.contents(manifest.path()).unwrap();
    let text = annotate(&bytes);
    assert!(text == GOLDEN, "the format has changed; now:\n{text}");
    drop(manifest);
    fs.install(&dir().join("MANIFEST-000001"), &bytes_of(GOLDEN));
    let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
    check(&state);
}

fn check(state: &State) {
    assert_eq!(state.next_ids().file, 14);
    let version = state.version();
    let tables: Vec<_> = version.tables().collect();
    assert_eq!(tables.len(), 2);
    assert_eq!(tables[0].0, Place::new(CfId(0), Level(1)));
    assert_eq!(**tables[0].1, part());
    assert_eq!(
        tables[0].1.limits(),
        (Some(&b"b"[..]), Some(&b"cherry"[..]))
    );
    assert_eq!(tables[1].0.cf, CfId::METADATA);
    assert_eq!(tables[1].0.partition, PartitionId::WHOLE);
    assert_eq!(tables[1].1.range, KeyRange::until("", "\0\x07").owned());
    let blob = BlobFile {
        value_bytes: None,
        bytes: 0x20_0000,
        references: 0,
        referenced_bytes: 0,
    };
    let blobs: Vec<_> = version.blob_files().collect();
    assert_eq!(blobs, [(FileId(1), blob)]);
}

/// Every flipped bit of the record with tables is a torn append: it is the last one.
#[test]
fn every_flipped_bit_of_the_tables_is_found() {
    let bytes = bytes_of(GOLDEN);
    let fs = fresh();
    let [created, _] = edits();
    drop(Manifest::create(storage(&fs), dir(), &created).unwrap());
    for bit in 144 * 8..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.install(&dir().join("MANIFEST-000001"), &flipped);
        let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
        assert_eq!(state.families().len(), 0, "bit {bit}");
    }
}

/// A manifest of a database without tables is what it was before there were any.
#[test]
fn without_tables_nothing_of_the_new_changes_is_written() {
    let fs = fresh();
    let [created, everything] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest.append(&everything).unwrap();
    manifest.set_bytes_max(0);
    // The log is switched, so all of the state is in the snapshot.
    while manifest.path().ends_with("MANIFEST-000001") {
        manifest.append(&Change::Options(vec![]).into()).unwrap();
    }
    for edit in manifest.state().snapshot() {
        for change in &edit.changes {
            let mut bytes = Vec::new();
            format::encode_change(change, &mut bytes);
            assert!((0x81..=0x8b).contains(&bytes[0]), "{change:?}");
        }
    }
}

/// A manifest without a `CURRENT` is what an interrupted creation left, unless it names data.
#[test]
fn a_manifest_with_files_is_an_orphan_where_nobody_names_it() {
    let fs = fresh();
    let [created, _] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    let path = manifest.path().to_path_buf();
    assert_eq!(Manifest::orphan(&fs, dir()).unwrap(), None);
    let ids = NextIds {
        file: 2,
        ..NextIds::default()
    };
    manifest.append(&Change::NextIds(ids).into()).unwrap();
    assert_eq!(Manifest::orphan(&fs, dir()).unwrap(), None);
    let file = FileId(1);
    let edit = Change::BlobFileAdded { file, bytes: 1 };
    manifest.append(&edit.into()).unwrap();
    // It comes first in the listing.
    let folder = dir().join(format::manifest_name(0));
    fs.create_dir_all(&folder).unwrap();
    assert_eq!(Manifest::orphan(&fs, dir()).unwrap(), Some(path));
}
