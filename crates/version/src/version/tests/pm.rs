//! Tables in persistent memory, and references to them.

use thermocline_base::{KeyRange, PmBlob, PmFamily, PmTableMeta};

use super::*;
use crate::pm_table::PmTableInfo;

/// Table `file` of two families with the keys `first` to `last`, whose seqnos are `seqnos` and nine more.
fn info(file: u64, first: &str, last: &str, seqnos: u64) -> PmTableInfo {
    let seqnos = (SeqNo(seqnos), SeqNo(seqnos + 9));
    let family = |cf| PmFamily {
        cf: CfId(cf),
        entries: 50,
        deletes: 5,
        merges: 0,
        range_tombstones: 0,
        key_bytes: 500,
        value_bytes: 5000,
        seqnos,
        range: KeyRange::inclusive(first.into(), last.into()),
    };
    PmTableInfo {
        file: FileId(file),
        meta: PmTableMeta {
            owner: 100 + file,
            zones: 1,
            zone_bytes: 16 << 10,
            bytes: 2000 + file,
            entries: 100,
            range_tombstones: 0,
            seqnos,
            families: vec![family(0), family(1)],
            blobs: vec![],
        },
    }
}

fn pm_added(info: &PmTableInfo) -> Change {
    Change::PmTableAdded {
        table: Arc::new(info.clone()),
    }
}

fn in_family(cf: u16, table: TableRef) -> Change {
    Change::TableAdded {
        place: Place::new(CfId(cf), Level::ZERO),
        table: Arc::new(table),
    }
}

/// A database with two families, and ids of owners below 1,000.
fn two_families(changes: impl IntoIterator<Item = Change>) -> State {
    let created = Change::ColumnFamilyCreated {
        id: 1,
        name: "other".into(),
    };
    let ids = Change::NextIds(NextIds {
        chain: 1000,
        file: 1000,
        cf: 2,
        ..NextIds::default()
    });
    state([created, ids].into_iter().chain(changes))
}

#[test]
fn one_table_serves_families_and_parts_and_is_there_until_it_is_removed() {
    let one = info(7, "a", "m", 100);
    let whole = table(7, "a", "m", 100);
    let parts = [
        whole.part(None, Some(b"f")).unwrap(),
        whole.part(Some(b"f"), None).unwrap(),
    ];
    let mut state = two_families([
        pm_added(&one),
        in_family(0, whole.clone()),
        in_family(1, parts[0].clone()),
        in_family(1, parts[1].clone()),
    ]);
    let reader = state.version().clone();
    assert_eq!(reader.references(FileId(7)).len(), 3);
    assert_eq!(reader.files().count(), 0, "it is no file");
    assert_eq!(reader.file(FileId(7)), None);
    let [(found, references)] = reader.pm_tables().collect::<Vec<_>>()[..] else {
        panic!("one table");
    };
    assert_eq!((&**found, references.len()), (&one, 3));
    // A dropped family takes its references along.
    state
        .apply(&Change::ColumnFamilyDropped { id: 1 }.into())
        .unwrap();
    assert_eq!(state.version().references(FileId(7)).len(), 1);
    let gone = Change::PmTableRemoved { file: FileId(7) };
    let error = state.apply(&gone.clone().into()).unwrap_err().to_string();
    assert!(error.contains("1 to PM table 7"), "{error}");
    let last = Change::table_removed(at(0), &whole);
    state.apply(&last.into()).unwrap();
    assert!(state.version().pm_table(FileId(7)).is_some());
    // It is in a snapshot, though nothing refers to it.
    let mut again = State::default();
    for edit in state.snapshot() {
        again.apply(&edit).unwrap();
    }
    assert_eq!(again, state);
    state.apply(&gone.into()).unwrap();
    assert!(state.version().pm_table(FileId(7)).is_none());
    assert!(reader.pm_table(FileId(7)).is_some());
}

#[test]
fn what_cannot_be_of_a_table_in_persistent_memory_is_refused_and_named() {
    let mut one = info(7, "b", "m", 100);
    one.meta.blobs = vec![PmBlob {
        file: FileId(5),
        values: 1,
        bytes: 7,
    }];
    let blob_file = |file: u64| Change::BlobFileAdded {
        file: FileId(file),
        bytes: 10,
    };
    let state = two_families([
        pm_added(&one),
        in_family(0, table(7, "b", "f", 100)),
        added(1, table(3, "a", "b", 10)),
        blob_file(4),
        blob_file(5),
    ]);
    let with = |change: &dyn Fn(&mut PmTableInfo)| {
        let mut changed = info(9, "b", "m", 200);
        change(&mut changed);
        pm_added(&changed)
    };
    let blob = Change::BlobFileAdded {
        file: FileId(7),
        bytes: 1,
    };
    let refers = |file: u64, bytes: u64| {
        let mut of = table(7, "g", "m", 100);
        of.blobs = vec![BlobBytes {
            file: FileId(file),
            bytes,
        }];
        in_family(0, of)
    };
    let cases: &[(Change, &str)] = &[
        (pm_added(&one), "number of an added PM table"),
        (with(&|t| t.file = FileId(3)), "number of an added PM table"),
        (with(&|t| t.file = FileId(4)), "number of an added PM table"),
        (blob, "a file id that is free"),
        (with(&|t| t.file = FileId(1000)), "below 1000"),
        (with(&|t| t.meta.owner = 107), "owner of an added PM table"),
        (
            with(&|t| t.meta.owner = 1000),
            "owner of a PM table's zones",
        ),
        (with(&|t| t.meta.zones = 0), "zones of a PM table"),
        (with(&|t| t.meta.bytes = 1 << 20), "bytes of a PM table"),
        (with(&|t| t.meta.families.clear()), "families of a PM table"),
        (
            with(&|t| t.meta.families.swap(0, 1)),
            "families of a PM table",
        ),
        (with(&|t| t.meta.entries = 99), "entries of a PM table"),
        (
            with(&|t| t.meta.range_tombstones = 1),
            "range tombstones of a PM table",
        ),
        (
            with(&|t| t.meta.families[0].deletes = 51),
            "deletes and merges of a PM table",
        ),
        (
            with(&|t| t.meta.seqnos.0 = SeqNo(199)),
            "seqnos of a PM table",
        ),
        (
            with(&|t| t.meta.families[0].range.last = b"a".into()),
            "key range of a family in a PM table",
        ),
        (
            Change::PmTableRemoved { file: FileId(8) },
            "removed PM table",
        ),
        (
            Change::PmTableRemoved { file: FileId(3) },
            "removed PM table",
        ),
        // References.
        (added(1, table(7, "g", "m", 100)), "level of a PM table"),
        (added(0, table(7, "a", "m", 100)), "reference to a PM table"),
        (added(0, table(7, "g", "n", 100)), "reference to a PM table"),
        (added(0, table(7, "g", "m", 101)), "reference to a PM table"),
        (added(0, table(7, "f", "m", 100)), "keys outside of table 7"),
        (refers(4, 1), "blob files of a reference to a PM table"),
        (refers(5, 8), "blob files of a reference to a PM table"),
        (
            Change::TableAdded {
                place: Place::new(CfId::METADATA, Level::ZERO),
                table: Arc::new(table(7, "g", "m", 100)),
            },
            "a family that it has",
        ),
    ];
    for (change, what) in cases {
        let mut touched = state.clone();
        let error = touched
            .apply(&change.clone().into())
            .unwrap_err()
            .to_string();
        assert!(error.contains(what), "{change:?}: {error}");
        assert_eq!(touched, state, "{change:?}");
    }
    // Where there was none of that family yet, it may stand; and with all that the table says.
    let mut other = state;
    other.apply(&refers(5, 7).into()).unwrap();
    other
        .apply(&in_family(1, table(7, "b", "f", 100)).into())
        .unwrap();
}

/// Tables on SSD between them in age come along, older ones stay.
#[test]
fn without_tables_in_persistent_memory_nothing_newer_stays_in_their_level() {
    let state = two_families([
        added(0, table(1, "a", "z", 10)),
        pm_added(&info(2, "a", "m", 20)),
        in_family(0, table(2, "a", "m", 20)),
        in_family(1, table(2, "a", "m", 20)),
        added(0, table(3, "c", "d", 30)),
        added(1, table(4, "a", "b", 5)),
        Change::TableAdded {
            place: Place::new(CfId(1), Level(1)),
            table: Arc::new(table(5, "a", "b", 5)),
        },
    ]);
    let (version, taken) = state.version().without_pm_tables();
    assert_eq!(files(taken.iter().map(|(_, table)| table)), [3, 2, 2]);
    assert_eq!(files(version.tables().map(|(_, table)| table)), [1, 4, 5]);
    assert_eq!(version.pm_table_count(), 0);
    assert_eq!(version.level(at(0)).unwrap().bytes(), 1001);
    let left: Vec<u64> = version.files().map(|(file, _)| file.0).collect();
    assert_eq!(left, [1, 4, 5]);
}

/// The law of age looks at references, wherever their tables are.
#[test]
#[cfg(debug_assertions)]
fn data_in_persistent_memory_is_not_moved_past_other_data() {
    let (old, new) = (info(2, "a", "m", 20), info(3, "a", "m", 30));
    let state = two_families([
        pm_added(&old),
        in_family(0, table(2, "a", "m", 20)),
        pm_added(&new),
        in_family(0, table(3, "a", "m", 30)),
    ]);
    let moved = |removed: &[TableRef], mut down: TableRef| {
        down.file = FileId(9);
        let mut edit = VersionEdit::new();
        for table in removed {
            edit = edit.with(Change::table_removed(at(0), table));
        }
        state.clone().apply(&edit.with(added(1, down)))
    };
    let (older, newer) = (table(2, "a", "m", 20), table(3, "a", "m", 30));
    moved(std::slice::from_ref(&older), table(9, "a", "m", 20)).unwrap();
    moved(&[older.clone(), newer.clone()], table(9, "a", "m", 30)).unwrap();
    let error = moved(std::slice::from_ref(&newer), table(9, "a", "m", 30)).unwrap_err();
    assert!(error.to_string().contains("above a newer one"), "{error}");
    let error = moved(&[newer], table(9, "b", "c", 30)).unwrap_err();
    assert!(error.to_string().contains("moved past"), "{error}");
}

/// As if the others were dropped, and then went what nothing refers to any more.
#[test]
fn a_version_with_one_family_alone_has_what_that_refers_to() {
    let blob_file = |file: u64| Change::BlobFileAdded {
        file: FileId(file),
        bytes: 100,
    };
    let below = |cf, table: TableRef, blobs: &[u64]| {
        let blobs = blobs.iter().map(|file| BlobBytes {
            file: FileId(*file),
            bytes: 10,
        });
        let blobs = blobs.collect();
        Change::TableAdded {
            place: Place::new(CfId(cf), Level(1)),
            table: Arc::new(TableRef { blobs, ..table }),
        }
    };
    let cut = table(7, "d", "h", 5);
    let state = two_families([
        Change::PartitionCreated {
            cf: CfId(1),
            partition: PartitionId(1),
            start: b"g"[..].into(),
        },
        blob_file(10),
        blob_file(11),
        blob_file(12),
        pm_added(&info(2, "a", "m", 20)),
        pm_added(&info(3, "n", "z", 20)),
        pm_added(&info(4, "n", "z", 40)),
        in_family(0, table(2, "a", "m", 20)),
        in_family(1, table(2, "a", "m", 20)),
        in_family(1, table(3, "n", "z", 20)),
        below(0, table(5, "a", "c", 5), &[10, 11]),
        below(1, table(6, "a", "c", 5), &[11]),
        below(1, cut.part(None, Some(b"f")).unwrap(), &[]),
        below(1, cut.part(Some(b"f"), None).unwrap(), &[]),
    ]);
    let whole = state.version();
    for (stays, goes) in [(CfId(0), CfId(1)), (CfId(1), CfId(0))] {
        let mut expected = Version::clone(whole);
        expected.drop_family(goes);
        let blobs: Vec<FileId> = expected.blob_files().map(|(file, _)| file).collect();
        let pm: Vec<FileId> = expected.pm_tables().map(|(table, _)| table.file).collect();
        // Those that are referred to stay.
        for file in blobs {
            let _ = expected.remove_blob_file(file);
        }
        for file in pm {
            let _ = expected.remove_pm_table(file);
        }
        let only = whole.with_only(&[stays, CfId::METADATA, stays]);
        assert_eq!(only, expected);
        let (old, new) = (whole.family(stays), only.family(stays));
        assert!(Arc::ptr_eq(old.unwrap(), new.unwrap()));
    }
}

#[test]
fn an_edit_of_one_table_among_many_shares_the_others() {
    let reference = |n: u64| table(n, "a", "m", 20 * n);
    let all = (1..=300).flat_map(|n| {
        [
            pm_added(&info(n, "a", "m", 20 * n)),
            in_family(0, reference(n)),
        ]
    });
    let mut state = two_families(all);
    let before = Arc::clone(state.version());
    let removed = Change::table_removed(at(0), &reference(123));
    state.apply(&removed.into()).unwrap();
    let after = state.version();
    let (chunks, shared) = after.pm.shared_chunks(&before.pm);
    assert_eq!((chunks, shared), (5, 4));
    let since = after.pm_tables_since(&before);
    let since: Vec<_> = since
        .map(|one| (one.file, one.before.len(), one.after.len()))
        .collect();
    assert_eq!(since, [(FileId(123), 1, 0)]);
    assert_eq!(
        (before.pm_totals().retired, after.pm_totals().retired),
        (0, 1)
    );
}
