mod pm;

use std::ops::Bound;

use thermocline_base::{KeyRange, limits};

use super::*;
use crate::edit::{Change, NextIds, VersionEdit};
use crate::fixture::{self, at, state};
use crate::format;
use crate::state::State;
use crate::table::{BlobBytes, PartitionId};
use thermocline_base::SeqNo;

/// A table of one file, from `first` to `last`, whose seqnos are `seqnos` and nine more.
fn table(file: u64, first: &str, last: &str, seqnos: u64) -> TableRef {
    let bytes = 1000 + file;
    TableRef {
        file_bytes: bytes,
        bytes,
        deletes: 7,
        ..fixture::table(file, (first, last), (seqnos, seqnos + 9))
    }
}

fn added(level: u8, table: TableRef) -> Change {
    Change::TableAdded {
        place: at(level),
        table: Arc::new(table),
    }
}

fn files<'a>(tables: impl Iterator<Item = &'a Arc<TableRef>>) -> Vec<u64> {
    tables.map(|table| table.file.0).collect()
}

#[test]
fn level_0_is_newest_first_and_others_are_in_key_order() {
    let state = state([
        added(0, table(1, "a", "m", 100)),
        added(0, table(3, "b", "z", 300)),
        added(0, table(2, "k", "p", 200)),
        added(1, table(5, "m", "p", 20)),
        added(1, table(4, "a", "c", 10)),
        added(1, table(6, "pp", "z", 30)),
    ]);
    let version = state.version();
    let zero = version.level(at(0)).unwrap();
    assert_eq!(files(zero.iter()), [3, 2, 1]);
    assert_eq!(files(zero.may_have(b"l")), [3, 2, 1]);
    assert_eq!(files(zero.may_have(b"a")), [1]);
    let one = version.level(at(1)).unwrap();
    assert_eq!(files(one.iter()), [4, 5, 6]);
    assert_eq!(files(one.may_have(b"n")), [5]);
    assert_eq!(files(one.may_have(b"d")), [0; 0]);
    let hits = one.overlapping(Bound::Excluded(b"c"), Bound::Included(b"pp"));
    assert_eq!(files(hits), [5, 6]);
    let hits = one.overlapping(Bound::Unbounded, Bound::Excluded(b"pp"));
    assert_eq!(files(hits), [4, 5]);
    assert_eq!((one.len(), one.entries(), one.deletes()), (3, 300, 21));
    assert_eq!(one.bytes(), 3015);
    assert!(version.level(at(2)).is_none());
    assert_eq!(version.family(CfId(0)).unwrap().levels().count(), 2);
}

#[test]
fn what_cannot_be_is_refused_and_named() {
    let blobs = |file, bytes| {
        let file = FileId(file);
        vec![BlobBytes { file, bytes }]
    };
    let before = [
        added(1, table(1, "d", "m", 100)),
        added(0, table(2, "d", "m", 200)),
        Change::BlobFileAdded {
            file: FileId(3),
            bytes: 50,
        },
        added(
            2,
            TableRef {
                blobs: blobs(3, 30),
                ..table(4, "d", "m", 50)
            },
        ),
        // Parts of one table in two levels.
        added(1, table(5, "n", "z", 110).part(None, Some(b"p")).unwrap()),
        added(2, table(5, "n", "z", 110).part(Some(b"s"), None).unwrap()),
    ];
    let state = state(before);
    let with = |change: &dyn Fn(&mut TableRef)| {
        let mut changed = table(9, "a", "b", 300);
        change(&mut changed);
        added(1, changed)
    };
    let long = "k".repeat(limits::KEY_LEN_MAX + 1);
    let place = |cf, partition, level| Change::TableAdded {
        place: Place {
            cf: CfId(cf),
            partition: PartitionId(partition),
            level: Level(level),
        },
        table: Arc::new(table(9, "a", "b", 300)),
    };
    let part = |first: &[u8], change: &dyn Fn(&mut TableRef)| {
        let mut part = table(5, "n", "z", 110)
            .part(Some(first), Some(b"x"))
            .unwrap();
        change(&mut part);
        added(3, part)
    };
    let cases: &[(Change, &str)] = &[
        (
            added(1, table(9, "m", "n", 300)),
            "not overlap table 1, \"d\" to \"m\"",
        ),
        (
            added(1, table(9, "a", "d", 300)),
            "in family 0, partition 0, level 1",
        ),
        (added(1, table(9, "e", "f", 300)), "not overlap"),
        (added(1, table(9, "a", "z", 300)), "not overlap"),
        (
            added(0, table(9, "a", "z", 205)),
            "all seqnos above or below table 2",
        ),
        // A file that says otherwise about itself.
        (
            added(1, table(1, "a", "b", 101)),
            "family, size and seqnos of table 1",
        ),
        (added(0, table(1, "d", "e", 100)), "keys outside of table 1"),
        (added(1, table(3, "a", "b", 300)), "blob file 3"),
        (part(b"t", &|_| ()), "keys outside of part of table 5"),
        (
            part(b"q", &|p| p.largest_seqno = SeqNo(500)),
            "size and seqnos of part of table 5",
        ),
        (added(1, table(1000, "a", "b", 300)), "below 1000"),
        (place(1, 0, 1), "family of a table"),
        (place(0, 1, 1), "partition of a table"),
        (place(0, 0, 8), "level of a table"),
        (
            with(&|t| t.range = KeyRange::inclusive("b", "a").owned()),
            "key range of a table",
        ),
        (
            with(&|t| t.range = KeyRange::until("b", "b").owned()),
            "key range of a table",
        ),
        (
            with(&|t| t.range = KeyRange::inclusive("", &long).owned()),
            "length of a table's key",
        ),
        (
            with(&|t| t.smallest_seqno = SeqNo(400)),
            "seqnos of a table",
        ),
        (
            with(&|t| t.largest_seqno = SeqNo(1 << 63)),
            "largest seqno of a table",
        ),
        (with(&|t| t.bytes = 1), "bytes of a table"),
        (with(&|t| t.deletes = 101), "deletes of a table"),
        (
            with(&|t| t.blobs = blobs(3, 21)),
            "at most 20 more bytes of blob file 3",
        ),
        (
            with(&|t| t.blobs = blobs(7, 1)),
            "a blob file that exists, got file 7",
        ),
        (
            with(&|t| t.blobs = blobs(1, 1)),
            "a blob file that exists, got file 1",
        ),
        (
            with(&|t| t.blobs = [blobs(3, 1), blobs(3, 1)].concat()),
            "each blob file once",
        ),
        (
            Change::table_removed(at(1), &table(8, "d", "m", 1)),
            "removed table",
        ),
        (
            Change::table_removed(at(2), &table(1, "d", "m", 1)),
            "table 1 from \"d\" on in",
        ),
        (
            Change::table_removed(at(1), &table(1, "e", "m", 1)),
            "removed table",
        ),
        (
            Change::BlobFileRemoved { file: FileId(3) },
            "no references to it, got 1, to 30 bytes of blob file 3",
        ),
        (
            Change::BlobFileRemoved { file: FileId(1) },
            "removed blob file",
        ),
        (
            Change::BlobFileAdded {
                file: FileId(3),
                bytes: 1,
            },
            "a file id that is free",
        ),
        (
            Change::BlobFileAdded {
                file: FileId(1),
                bytes: 1,
            },
            "a file id that is free",
        ),
        (
            Change::BlobFileAdded {
                file: FileId(1000),
                bytes: 1,
            },
            "below 1000",
        ),
        (
            Change::NextIds(NextIds {
                cf: 1,
                file: 999,
                ..state.next_ids()
            }),
            "next file id",
        ),
    ];
    for (change, what) in cases {
        let mut touched = state.clone();
        let first = Change::table_removed(at(1), &table(5, "n", "z", 110));
        let edit = VersionEdit::from(first).with(change.clone());
        let error = touched.apply(&edit).unwrap_err().to_string();
        assert!(error.contains(what), "{change:?}: {error}");
        assert_eq!(touched, state, "{change:?}");
    }
}

#[test]
fn a_dropped_family_takes_its_tables_and_their_blob_references_along() {
    let place = Place::new(CfId(1), Level(2));
    let mut of_other = table(2, "a", "m", 1);
    let blob = FileId(9);
    of_other.blobs = vec![BlobBytes {
        file: blob,
        bytes: 40,
    }];
    let mut state = state([
        added(1, table(1, "a", "m", 1)),
        Change::ColumnFamilyCreated {
            id: 1,
            name: "other".into(),
        },
        Change::BlobFileAdded {
            file: blob,
            bytes: 100,
        },
        Change::TableAdded {
            place,
            table: Arc::new(of_other),
        },
    ]);
    assert_eq!(
        state.version().blob_file(blob).unwrap().referenced_bytes,
        40
    );
    let reader = Arc::clone(state.version());
    state
        .apply(&Change::ColumnFamilyDropped { id: 1 }.into())
        .unwrap();
    let left: Vec<_> = state.version().files().collect();
    assert_eq!(left, [(FileId(1), FileKind::Table), (blob, FileKind::Blob)]);
    assert_eq!(state.version().blob_file(blob).unwrap().referenced_bytes, 0);
    assert_eq!(files(reader.level(place).unwrap().iter()), [2]);
    state
        .apply(&Change::BlobFileRemoved { file: blob }.into())
        .unwrap();
}

/// `n` tables in level 2, each of three keys of ten.
fn large(n: u64) -> State {
    let mut state = state([]);
    let ids = NextIds {
        file: n + 2,
        ..state.next_ids()
    };
    state.apply(&Change::NextIds(ids).into()).unwrap();
    for file in 0..n {
        let key = |plus: u64| format!("{:09}", file * 10 + plus);
        let edit = added(2, table(file, &key(0), &key(3), 1)).into();
        state.apply_in_place(&edit).unwrap();
    }
    state
}

#[test]
fn an_edit_shares_what_it_does_not_change() {
    let n = 20_000;
    let mut state = large(n);
    let divided = Change::PartitionCreated {
        cf: CfId(0),
        partition: PartitionId(1),
        start: (*b"m").into(),
    };
    state.apply(&divided.into()).unwrap();
    state
        .apply(&added(1, table(n, "a", "z", 100)).into())
        .unwrap();
    let level2 = |state: &State| Arc::clone(state.version().level(at(2)).unwrap());
    let two = level2(&state);
    state
        .apply(&added(0, table(n + 1, "a", "z", 200)).into())
        .unwrap();
    assert!(Arc::ptr_eq(&two, &level2(&state)));
    let before = Arc::clone(state.version());
    let gone = table(777, "000007770", "000007773", 1);
    let edit = VersionEdit::from(Change::table_removed(at(2), &gone));
    state.apply(&edit).unwrap();
    let after = Arc::clone(state.version());
    let (old, new) = (before.level(at(2)).unwrap(), after.level(at(2)).unwrap());
    let (chunks, shared) = new.shared_chunks(old);
    assert_eq!(shared, chunks - 1);
    assert!(chunks < 400);
    let (chunks, shared) = after.files.shared_chunks(&before.files);
    assert_eq!(shared, chunks - 1);
    let partitions = after.partitions.shared_chunks(&before.partitions);
    assert_eq!(partitions, (1, 1));
    let one = |version: &Version| Arc::clone(version.level(at(1)).unwrap());
    assert!(Arc::ptr_eq(&one(&before), &one(&after)));
    assert_eq!((old.len(), new.len()), (20_000, 19_999));
    let since = after.tables_since(&before);
    let since: Vec<_> = since
        .map(|one| (one.file, one.before.len(), one.after.len()))
        .collect();
    assert_eq!(since, [(FileId(777), 1, 0)]);
    assert!(after.families_since(&before).eq([CfId(0)]));
    // What is neither table nor blob file shares all of it.
    state.apply(&Change::Options(vec![]).into()).unwrap();
    assert!(Arc::ptr_eq(state.version(), &after));
}

#[test]
fn a_snapshot_of_many_tables_is_read_back_record_by_record() {
    let n = 20_000;
    let state = large(n);
    let mut again = State::default();
    let mut records = 0;
    for edit in state.snapshot() {
        let len = format::encode_edit(&edit).len();
        assert!((1..=format::SNAPSHOT_EDIT_LEN).contains(&len));
        again.apply_in_place(&edit).unwrap();
        records += 1;
    }
    assert!(records > 5, "{records}");
    assert_eq!(again, state);
    let level = again.version().level(at(2)).unwrap();
    assert_eq!(level.len(), 20_000);
    assert_eq!(files(level.may_have(b"000123452")), [12_345]);
    assert_eq!(files(level.may_have(b"000123455")), [0; 0]);
}
