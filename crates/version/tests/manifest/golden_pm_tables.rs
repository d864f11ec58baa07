//! The bytes of the changes of tables in persistent memory, in format version 1. See [`crate::golden`].

use std::sync::Arc;

use thermocline_base::{CfId, FileId, KeyRange, PmBlob, PmFamily, PmTableMeta, SeqNo};
use thermocline_version::{
    Change, Level, Manifest, NextIds, Place, PmTableInfo, State, TableRef, VersionEdit,
};

use crate::common::{dir, fresh, storage};
use crate::golden::{Dump, annotate_begin, bytes_of, edits};

const GOLDEN: &str = include_str!("../golden/manifest-v1-pm-tables.txt");

fn pm_table() -> PmTableInfo {
    let family = |cf, keys: (&str, &str, bool), seqnos: (u64, u64)| PmFamily {
        cf: CfId(cf),
        entries: 0x100,
        deletes: 0x10,
        merges: 1,
        range_tombstones: 2,
        key_bytes: 0x1000,
        value_bytes: 0x2_0000,
        seqnos: (SeqNo(seqnos.0), SeqNo(seqnos.1)),
        range: KeyRange {
            first: keys.0.into(),
            last: keys.1.into(),
            open: keys.2,
        },
    };
    PmTableInfo {
        file: FileId(3),
        meta: PmTableMeta {
            owner: 9,
            zones: 2,
            zone_bytes: 0x2_0000,
            bytes: 0x1_8000,
            entries: 0x200,
            range_tombstones: 4,
            seqnos: (SeqNo(5), SeqNo(0x900)),
            families: vec![
                family(0, ("apple", "plum", false), (5, 0x800)),
                family(65535, ("", "\0\x07", true), (6, 0x900)),
            ],
            blobs: vec![PmBlob {
                file: FileId(1),
                values: 3,
                bytes: 0x4000,
            }],
        },
    }
}

fn reference() -> TableRef {
    TableRef {
        file: FileId(3),
        file_bytes: 0x1_4000,
        bytes: 0x1_4000,
        entries: 0x102,
        deletes: 0x12,
        range: KeyRange::inclusive("apple", "plum").owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(5),
        largest_seqno: SeqNo(0x800),
        blobs: vec![],
    }
}

const PLACE: Place = Place {
    cf: CfId(0),
    partition: thermocline_version::PartitionId::WHOLE,
    level: Level::ZERO,
};

fn with_pm_tables() -> VersionEdit {
    let other = PmTableInfo {
        file: FileId(4),
        meta: PmTableMeta {
            owner: 8,
            blobs: vec![],
            ..pm_table().meta
        },
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
        .with(Change::PmTableAdded {
            table: Arc::new(pm_table()),
        })
        .with(Change::TableAdded {
            place: PLACE,
            table: Arc::new(reference()),
        })
        .with(Change::PmTableAdded {
            table: Arc::new(other),
        })
        .with(Change::PmTableRemoved { file: FileId(4) })
}

const FAMILY: [(usize, &str); 12] = [
    (2, "column family"),
    (1, "whether the largest key lies behind"),
    (8, "entries"),
    (8, "deletes"),
    (8, "merges"),
    (8, "range tombstones"),
    (8, "bytes of keys"),
    (8, "bytes of inline values"),
    (8, "smallest seqno"),
    (8, "largest seqno"),
    (4, "length"),
    (5, "apple"),
];

fn pm_added(dump: &mut Dump<'_>, blob: bool) {
    let mut fields = vec![
        (8, "number"),
        (8, "owner of its zones"),
        (4, "zones"),
        (8, "bytes of the zones"),
        (8, "bytes written"),
        (8, "entries"),
        (8, "range tombstones"),
        (8, "smallest seqno"),
        (8, "largest seqno"),
        (4, "count of families"),
    ];
    fields.extend(FAMILY);
    fields.extend([(4, "length"), (4, "plum")]);
    fields.extend(&FAMILY[..11]);
    fields.extend([(4, "length"), (2, "the first key behind"), (4, "count")]);
    if blob {
        fields.extend([(8, "blob file"), (8, "values there"), (8, "bytes there")]);
    }
    dump.change("PmTableAdded", &fields);
}

fn annotate(manifest: &[u8]) -> String {
    let mut dump = annotate_begin(manifest);
    dump.record("tables in persistent memory");
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
    pm_added(&mut dump, true);
    dump.change(
        "TableAdded",
        &[
            (2, "column family"),
            (4, "partition"),
            (1, "level"),
            (1, "kind"),
            (1, "flags"),
            (8, "number of the PM table"),
            (8, "bytes of the family there"),
            (8, "entries"),
            (8, "deletes"),
            (8, "smallest seqno"),
            (8, "largest seqno"),
            (4, "length"),
            (5, "apple"),
            (4, "length"),
            (4, "plum"),
            (4, "count"),
        ],
    );
    pm_added(&mut dump, false);
    dump.change("PmTableRemoved", &[(8, "number")]);
    dump.padding();
    assert_eq!(dump.at, manifest.len());
    dump.text
}

#[test]
fn pm_tables_are_the_golden_and_read_as_what_was_written() {
    let fs = fresh();
    let [created, _] = edits();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created).unwrap();
    manifest.append(&with_pm_tables()).unwrap();
    let bytes = fs.contents(manifest.path()).unwrap();
    let text = annotate(&bytes);
    assert!(text == GOLDEN, "the format has changed; now:\n{text}");
    drop(manifest);
    fs.install(&dir().join("MANIFEST-000001"), &bytes_of(GOLDEN));
    let (_, state) = Manifest::open(storage(&fs), dir(), true).unwrap();
    check(&state);
}

fn check(state: &State) {
    let version = state.version();
    let [(table, references)] = version.pm_tables().collect::<Vec<_>>()[..] else {
        panic!("one table");
    };
    assert_eq!(**table, pm_table());
    let [(place, found)] = references else {
        panic!("one reference");
    };
    assert_eq!((*place, &**found), (PLACE, &reference()));
    assert_eq!(version.tables().count(), 1);
    assert_eq!(version.files().count(), 0);
}
