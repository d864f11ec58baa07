//! What only a check of the whole table finds: properties that say other things than what is there, and
//! blocks that are pointed to more than once. And what a check takes, whatever it finds.

use thermocline_base::{BlobRef, ErrorKind, FileId, Kind, RangeTombstone, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    Compression, FAULTS_MAX, IndexKind, IndexUse, TablePart, Verified, WriteOptions, verify_table,
};

use crate::common::*;

const COUNTS: u8 = 0x82;
const SEQNOS: u8 = 0x83;
const SMALLEST: u8 = 0x84;
const LARGEST: u8 = 0x85;
const BLOB: u8 = 0x86;
const INDEX: u8 = 0x08;

/// Two entries with blobs, and many others; one range tombstone.
fn contents() -> Contents {
    let blob = |file, len| {
        Kept::Blob(BlobRef {
            file: FileId(file),
            offset: 64,
            len,
        })
    };
    let entries = (0..2000u64).map(|n| Entry {
        key: format!("key{n:04}").into_bytes(),
        seqno: SeqNo(10 + n % 3),
        kind: Kind::Put,
        value: match n {
            5 => blob(100, 1000),
            6 => blob(101, 2000),
            _ => Kept::Inline(b"value".to_vec()),
        },
    });
    Contents {
        entries: entries.collect(),
        tombstones: vec![RangeTombstone {
            start: b"a".to_vec(),
            end: b"z".to_vec(),
            seqno: SeqNo(20),
        }],
    }
}

fn written() -> Vec<u8> {
    let fs = fresh();
    let options = WriteOptions {
        block_bytes: 512,
        index_block_bytes: 256,
        ..WriteOptions::default()
    };
    contents().write(&fs, 7, options).unwrap();
    fs.contents(&path(7)).unwrap()
}

fn verified(bytes: &[u8]) -> Verified {
    let fs = fresh();
    fs.install(&path(7), bytes);
    verify_table(&fs.open(&path(7), OpenMode::Read).unwrap(), identity(7))
}

/// Where the body of the first property of this kind lies.
fn property(bytes: &[u8], tag: u8) -> usize {
    let (offset, len) = meta_blocks(bytes)[3];
    let mut at = offset;
    while bytes[at] != tag {
        at += 5 + u32_at(bytes, at + 1);
        assert!(at < offset + len - 12);
    }
    at + 5
}

/// Changes a byte of a property, with a right checksum.
fn with(tag: u8, at: usize, value: u8) -> Vec<u8> {
    let mut bytes = written();
    let at = property(&bytes, tag) + at;
    assert_ne!(bytes[at], value);
    bytes[at] = value;
    let (offset, len) = meta_blocks(&bytes)[3];
    reseal(&mut bytes, 7, offset, len);
    bytes
}

#[test]
fn counts_and_uses_of_blobs_that_are_wrong_are_found() {
    let clean = verified(&written());
    assert!(clean.faults.is_empty(), "{:?}", clean.faults);
    assert_eq!(clean.entries, 2000);
    // The third of the counts and the fourth from the end: any of them, and each field of a use.
    let counts = (0..9).filter(|n| *n != 3).map(|n| (COUNTS, 8 * n + 7));
    let uses = [(BLOB, 0), (BLOB, 8), (BLOB, 16), (BLOB, 23)];
    for (tag, at) in counts.chain(uses) {
        let found = verified(&with(tag, at, 77));
        assert!(!found.faults.is_empty(), "{tag:#x} {at}");
        assert!(
            found
                .faults
                .iter()
                .all(|e| e.kind() == ErrorKind::Corruption)
        );
    }
}

/// At open already: range tombstones are in memory, and looked at before entries are.
#[test]
fn range_tombstones_outside_of_the_bounds_are_found_at_open() {
    let wrong = [
        (SEQNOS, 8, 19),
        (SMALLEST, 8, b'b'),
        (LARGEST, 8, b'y'),
        (SMALLEST, 0, 5),
    ];
    for (tag, at, value) in wrong {
        let fs = fresh();
        fs.install(&path(7), &with(tag, at, value));
        let error = open(&fs, 7).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("range tombstones"), "{error}");
    }
    // Wider than need be is no contradiction.
    let fs = fresh();
    fs.install(&path(7), &with(SEQNOS, 8, 21));
    open(&fs, 7).unwrap();
}

#[test]
fn an_index_of_another_kind_than_the_properties_say_is_told_with_both() {
    let fs = fresh();
    let options = WriteOptions {
        block_bytes: 512,
        index: IndexKind::Learned,
        ..WriteOptions::default()
    };
    let meta = contents().write(&fs, 7, options).unwrap();
    assert_eq!(meta.properties.index, IndexUse::Learned);
    let mut bytes = fs.contents(&path(7)).unwrap();
    let at = property(&bytes, INDEX);
    assert_eq!(bytes[at], IndexUse::Learned as u8);
    bytes[at] = IndexUse::FellBack as u8;
    let (offset, len) = meta_blocks(&bytes)[3];
    reseal(&mut bytes, 7, offset, len);
    fs.install(&path(7), &bytes);
    let error = open(&fs, 7).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let text = error.to_string();
    assert!(text.contains("expected learned, got binary"), "{text}");
}

/// A fault in every entry: so many are described, the others counted.
#[test]
fn a_check_describes_so_many_faults_and_counts_the_others() {
    let mut bytes = written();
    // All entries are older than this says; the range tombstone is not.
    let at = property(&bytes, SEQNOS);
    bytes[at] = 20;
    let (offset, len) = meta_blocks(&bytes)[3];
    reseal(&mut bytes, 7, offset, len);
    let found = verified(&bytes);
    assert_eq!(found.faults.len(), FAULTS_MAX);
    assert_eq!(found.more_faults, 2000 - FAULTS_MAX as u64);
    assert_eq!(found.entries, 2000);
}

/// An index block that points to a block of the one before. All of them could, to all blocks: a check
/// that followed would take time that squares.
#[test]
fn a_block_that_was_read_is_not_read_again() {
    let bytes = written();
    let leaves: Vec<_> = data_blocks(&bytes)
        .into_iter()
        .filter(|(at, len)| bytes[at + len - 11] == 2)
        .collect();
    // In an entry: lengths of shared, rest and value, tag, seqno, key, and then where the block lies.
    let handle = |entry: usize| {
        let [rest, value] = [1, 2].map(|n| usize::from(bytes[entry + n]));
        let at = entry + 5 + rest;
        (at, at + value)
    };
    // The second block of the first of them, in the place of the first of the second.
    let (_, second) = handle(leaves[0].0 + 4);
    let (from, to) = (handle(second), handle(leaves[1].0 + 4));
    assert_eq!((from.1 - from.0, to.1 - to.0), (4, 4));
    let mut twice = bytes.clone();
    twice.copy_within(from.0..from.1, to.0);
    let (at, len) = leaves[1];
    reseal(&mut twice, 7, at, len);
    let (before, found) = (verified(&bytes), verified(&twice));
    assert_eq!(found.blocks, before.blocks - 1);
    let text = found.faults[0].to_string();
    assert!(text.contains("blocks that lie side by side"), "{text}");
}

#[test]
fn what_is_written_is_what_is_read_about_it() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(3)] {
        let fs = fresh();
        let options = WriteOptions {
            compression,
            ..WriteOptions::default()
        };
        let meta = contents().write(&fs, 7, options).unwrap();
        let (table, _) = open(&fs, 7).unwrap();
        assert_eq!(table.properties(), &meta.properties);
        assert_eq!(meta.properties.codec, compression.codec());
    }
}

/// What an open table takes in memory: long bounds, and blob files.
#[test]
fn an_open_table_counts_its_properties() {
    let charge = |contents: &Contents| {
        let fs = fresh();
        contents.write(&fs, 7, WriteOptions::default()).unwrap();
        TablePart::whole(open(&fs, 7).unwrap().0).table().charge()
    };
    let small = charge(&Contents::of(vec![Entry::put(b"a", 1, b"")]));
    let mut many = contents();
    many.tombstones.clear();
    for (n, entry) in many.entries.iter_mut().enumerate() {
        entry.value = Kept::Blob(BlobRef {
            file: FileId(n as u64),
            offset: 64,
            len: 1,
        });
    }
    let mut same = many.clone();
    for entry in &mut same.entries {
        entry.value = Kept::Blob(BlobRef {
            file: FileId(1),
            offset: 64,
            len: 1,
        });
    }
    assert!(charge(&many) >= charge(&same) + 1999 * 24);
    let mut long = Entry::put(&[b'k'; 60_000], 1, b"");
    // The index's separator has it as well.
    assert!(charge(&Contents::of(vec![long.clone()])) >= small + 3 * 60_000 - 1000);
    long.key.truncate(1);
    assert_eq!(charge(&Contents::of(vec![long])), small);
}
