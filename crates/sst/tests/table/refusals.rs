//! What a writer refuses, and that the rest is written.

use std::path::Path;

use thermocline_base::{BlobRef, ErrorKind, FileId, Kind, RangeTombstone, SeqNo};
use thermocline_env::Storage;
use thermocline_sst::{
    BLOB_FILES_MAX, Compression, KeyRef, TOMBSTONES_LEN_MAX, TableWriter, Value, WriteOptions,
    tombstone_cuts,
};

use crate::common::*;

#[test]
fn what_cannot_be_is_refused_and_the_rest_is_written() {
    let fs = fresh();
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(&fs, &path(7), identity(7), CF, options).unwrap();
    let blob = Value::Blob(BlobRef {
        file: FileId(1),
        offset: 64,
        len: 1,
    });
    let blob_at = |offset, len| {
        Value::Blob(BlobRef {
            file: FileId(1),
            offset,
            len,
        })
    };
    let at = |key, seqno| KeyRef::new(key, SeqNo(seqno));
    writer
        .add(at(b"m", 5), Kind::Put, Value::Inline(b"v"))
        .unwrap();
    writer
        .add(at(b"m", 5), Kind::RangeDelete, Value::Inline(b"n"))
        .unwrap();
    let (long, large) = (vec![0x7f; 65_536], vec![0; (1 << 20) + 1]);
    let cases: [(KeyRef<'_>, Kind, Value<'_>, &str); 17] = [
        (
            at(b"m", 5),
            Kind::Put,
            Value::Inline(b""),
            "must not be written after",
        ),
        (
            at(b"m", 6),
            Kind::Put,
            Value::Inline(b""),
            "must not be written after",
        ),
        (
            at(b"a", 1),
            Kind::Delete,
            Value::Inline(b""),
            "must not be written after",
        ),
        (at(b"n", u64::MAX), Kind::Put, Value::Inline(b""), "seqno"),
        (at(&long, 5), Kind::Put, Value::Inline(b""), "65535"),
        (at(b"n", 5), Kind::Put, Value::Inline(&large), "1048576"),
        (at(b"n", 5), Kind::Delete, Value::Inline(b"v"), "Delete"),
        (at(b"n", 5), Kind::Delete, blob, "Delete"),
        (at(b"n", 5), Kind::RangeDelete, blob, "RangeDelete"),
        (at(b"n", 5), Kind::Put, blob_at(56, 1), "from 64 on"),
        (at(b"n", 5), Kind::Put, blob_at(65, 1), "multiple of 8"),
        (
            at(b"n", 5),
            Kind::Merge,
            blob_at(u64::MAX - 7, 1),
            "no file",
        ),
        (
            at(b"n", 5),
            Kind::Put,
            blob_at(64, (1 << 30) + 1),
            "at most 268435456",
        ),
        (at(b"n", 5), Kind::RangeDelete, Value::Inline(b"n"), "empty"),
        (
            at(b"n", 5),
            Kind::RangeDelete,
            Value::Inline(&long),
            "65535",
        ),
        (
            at(b"a", 5),
            Kind::RangeDelete,
            Value::Inline(b"z"),
            "must not be written after",
        ),
        (
            at(b"m", 5),
            Kind::RangeDelete,
            Value::Inline(b"z"),
            "must not be written after",
        ),
    ];
    for (key, kind, value, text) in cases {
        let error = writer.add(key, kind, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
    writer.add(at(b"n", 5), Kind::Merge, blob).unwrap();
    assert_eq!(writer.entries(), 3);
    assert!(writer.bytes() > 0);
    assert_eq!(writer.finish().unwrap().properties.entries, 2);
    assert_eq!(read_all(&fs, 7).unwrap().entries.len(), 2);
}

#[test]
fn options_that_make_no_sense_are_refused_and_no_file_is_made() {
    let right = WriteOptions::default();
    let wrong = [
        WriteOptions {
            block_bytes: 63,
            ..right
        },
        WriteOptions {
            block_bytes: (1 << 20) + 1,
            ..right
        },
        WriteOptions {
            index_block_bytes: 0,
            ..right
        },
        WriteOptions {
            restart_interval: 0,
            ..right
        },
        WriteOptions {
            restart_interval: 129,
            ..right
        },
        WriteOptions {
            compression: Compression::Zstd(0),
            ..right
        },
    ];
    for options in wrong {
        let fs = fresh();
        let made = TableWriter::create(&fs, &path(7), identity(7), CF, options);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(fs.list(Path::new("/db")).unwrap().is_empty());
    }
}

#[test]
fn a_table_never_overwrites_a_file() {
    let fs = fresh();
    fs.install(&path(7), b"a stranger's");
    let options = WriteOptions::default();
    let made = TableWriter::create(&fs, &path(7), identity(7), CF, options);
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(fs.contents(&path(7)).unwrap(), b"a stranger's");
}

/// Up to the last one that fits, and the table opens.
#[test]
fn more_range_tombstones_than_a_table_takes_are_refused() {
    let fs = fresh();
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(&fs, &path(7), identity(7), CF, options).unwrap();
    let (mut added, mut full_at) = (0, None);
    for n in 0.. {
        let key = [&[n][..], &[0; 65_000]].concat();
        let end = [&[n][..], &[1; 65_000]].concat();
        let start = KeyRef::new(&key, SeqNo(5));
        match writer.add(start, Kind::RangeDelete, Value::Inline(&end)) {
            Ok(()) => added += 1,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::InvalidArgument);
                break;
            }
        }
        full_at = full_at.or(writer.is_full().then_some(n));
    }
    assert_eq!(added, TOMBSTONES_LEN_MAX / 130_010);
    assert!(usize::from(full_at.unwrap()) < added);
    assert_eq!(
        writer.finish().unwrap().properties.range_tombstones,
        added as u64
    );
    assert_eq!(read_all(&fs, 7).unwrap().tombstones.len(), added);
}

/// However many overlap and however long their keys, tables that end where they should take them.
#[test]
fn overlapping_range_tombstones_with_long_keys_are_written() {
    let key = |n: usize| [&n.to_be_bytes()[..], &[b'k'; 65_000]].concat();
    let list: Vec<RangeTombstone> = (0..100)
        .map(|n| RangeTombstone {
            start: key(n),
            end: key(150 + n * 37 % 100),
            seqno: SeqNo(n as u64),
        })
        .collect();
    let borrowed = list.iter().map(RangeTombstone::borrowed);
    let all = Contents {
        entries: Vec::new(),
        tombstones: list.clone(),
    };
    let refused = all.write(&fresh(), 7, WriteOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let cuts = tombstone_cuts(borrowed);
    let mut lower = None;
    let mut tables = 0;
    for upper in cuts.iter().map(|cut| Some(&cut[..])).chain([None]) {
        let part = all.limited(lower, upper);
        let fs = fresh();
        let mut writer =
            TableWriter::create(&fs, &path(7), identity(7), CF, WriteOptions::default()).unwrap();
        for t in &part.tombstones {
            add_range(&mut writer, t).unwrap();
            assert!(!writer.is_full());
        }
        writer.finish().unwrap();
        assert_same(&read_all(&fs, 7).unwrap(), &part, "a part");
        (lower, tables) = (upper, tables + 1);
    }
    assert!((4..20).contains(&tables), "{tables}");
}

#[test]
fn more_blob_files_than_a_table_takes_are_refused() {
    let fs = fresh();
    let options = WriteOptions::default();
    let mut writer = TableWriter::create(&fs, &path(7), identity(7), CF, options).unwrap();
    let mut add = |n: u64, file: u64| {
        let blob = BlobRef {
            file: FileId(file),
            offset: 64,
            len: 9,
        };
        let key = n.to_be_bytes();
        writer.add(KeyRef::new(&key, SeqNo(1)), Kind::Put, Value::Blob(blob))
    };
    let most = BLOB_FILES_MAX as u64;
    (0..most).for_each(|n| add(n, n).unwrap());
    assert_eq!(
        add(most, most).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    add(most, 7).unwrap();
    assert!(writer.is_full());
    let meta = writer.finish().unwrap();
    assert_eq!(meta.properties.blobs.len(), BLOB_FILES_MAX);
    let (table, _) = open(&fs, 7).unwrap();
    assert_eq!(table.properties(), &meta.properties);
}
