//! Damaged, cut, misplaced and newer files: an error that names the place, or proof that the byte is
//! not used. Never other contents, never a panic.

use std::path::Path;

use thermocline_base::{CfId, Error, ErrorKind, FileId, RangeTombstone, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    Compression, Identity, KeyRef, SyncCursor, TablePart, TableWriter, Value, WriteOptions,
    open_table, verify_table,
};
use thermocline_testkit::Rng;
use thermocline_testkit::explore::one_in;

use crate::common::*;

/// Small, but with everything: several blocks, zeros between them, a filter, range tombstones, blobs.
pub fn sample(seed: u64, options: WriteOptions) -> (Contents, Vec<u8>) {
    let mut rng = Rng::new(seed);
    let mut contents = random_contents(&mut rng, 40);
    contents.entries.retain(|e| e.key.len() < 100);
    let blob = thermocline_base::BlobRef {
        file: FileId(9),
        offset: 64,
        len: 5,
    };
    contents.entries = (0..60u64)
        .map(|n| Entry {
            key: format!("key{:04}", n / 2).into_bytes(),
            seqno: thermocline_base::SeqNo(100 - n),
            kind: thermocline_base::Kind::Put,
            value: match n % 11 {
                3 => Kept::Blob(blob),
                _ => Kept::Inline(random_bytes(&mut rng, 90)),
            },
        })
        .collect();
    if contents.tombstones.is_empty() {
        contents.tombstones.push(RangeTombstone {
            start: b"a".to_vec(),
            end: b"key0003".to_vec(),
            seqno: thermocline_base::SeqNo(77),
        });
    }
    let fs = fresh();
    contents.write(&fs, 7, options).unwrap();
    (contents, fs.contents(&path(7)).unwrap())
}

fn layouts() -> Vec<WriteOptions> {
    let small = WriteOptions {
        block_bytes: 128,
        index_block_bytes: 64,
        ..WriteOptions::default()
    };
    let lz4 = WriteOptions {
        compression: Compression::Lz4,
        ..small
    };
    vec![WriteOptions::default(), small, lz4]
}

pub fn assert_names_place(error: &Error, len: usize, what: &str) {
    match error {
        Error::Corruption { place, offset, .. } => {
            assert!(place.ends_with("000007.sst"), "{what}: {place}");
            assert!(*offset <= len as u64, "{what}: {offset}");
        }
        other => panic!("{what}: {other}"),
    }
}

/// In a plain run one bit in so many is flipped; each of a byte has its turn.
const ONE_IN: u64 = 5;

/// Flips every bit of the table, or in a plain run a share of them; returns how many were errors and how many are not used.
pub fn flip_every_bit(options: WriteOptions) -> (u64, u64) {
    let (contents, bytes) = sample(1, options);
    let fs = fresh();
    let (mut errors, mut unused) = (0, 0);
    let step = usize::try_from(one_in(ONE_IN)).unwrap();
    for bit in (0..bytes.len() * 8).step_by(step) {
        let what = format!("bit {} of byte {}", bit % 8, bit / 8);
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.install(&path(7), &flipped);
        match read_all(&fs, 7) {
            Err(e) => {
                assert_names_place(&e, bytes.len(), &what);
                errors += 1;
            }
            Ok(found) => {
                // Zeros between blocks: nobody reads them, and a check finds them.
                assert_same(&found, &contents, &what);
                assert_eq!(bytes[bit / 8], 0, "{what}");
                let file = fs.open(&path(7), OpenMode::Read).unwrap();
                let verified = verify_table(&file, identity(7));
                assert_eq!(verified.faults.len(), 1, "{what}");
                assert_names_place(&verified.faults[0], bytes.len(), &what);
                unused += 1;
            }
        }
    }
    assert_eq!(errors + unused, (bytes.len() * 8).div_ceil(step) as u64);
    (errors, unused)
}

#[test]
fn every_flipped_bit_is_an_error_or_proven_unused() {
    let mut zeros = 0;
    for options in layouts() {
        let (errors, unused) = flip_every_bit(options);
        println!("{errors} errors, {unused} unused");
        assert!(errors * one_in(ONE_IN) > 19_000);
        zeros += unused;
    }
    assert!(
        zeros * one_in(ONE_IN) > 80,
        "no table had zeros between its blocks"
    );
}

#[test]
fn a_table_cut_or_extended_to_any_length_does_not_open() {
    for options in layouts() {
        let (_, bytes) = sample(2, options);
        let fs = fresh();
        for len in 0..bytes.len() {
            fs.install(&path(7), &bytes[..len]);
            let error = open(&fs, 7).map(|_| ()).unwrap_err();
            assert_names_place(&error, bytes.len(), &format!("cut to {len}"));
        }
        for more in [1, 8, 79, 80, 81, 4096] {
            for fill in [0, 0xff] {
                let mut longer = bytes.clone();
                longer.resize(bytes.len() + more, fill);
                fs.install(&path(7), &longer);
                let error = open(&fs, 7).map(|_| ()).unwrap_err();
                assert_names_place(&error, longer.len(), "extended");
            }
            // The footer again behind itself, or behind something.
            let footer = &bytes[bytes.len() - 80..];
            let longer = [&bytes[..], &vec![0; more], footer].concat();
            fs.install(&path(7), &longer);
            let error = open(&fs, 7).map(|_| ()).unwrap_err();
            assert_names_place(&error, longer.len(), "footer twice");
        }
    }
}

/// A table whose data blocks are all equally long. Those on the first page lie side by side.
fn even(db_id: [u8; 16], file: u64, letter: u8) -> (Vec<u8>, usize) {
    even_from(0, db_id, file, letter)
}

/// The same, whose keys begin with this number.
fn even_from(first: u32, db_id: [u8; 16], file: u64, letter: u8) -> (Vec<u8>, usize) {
    let fs = fresh();
    let id = Identity::new(db_id, FileId(file));
    let options = WriteOptions {
        block_bytes: 512,
        restart_interval: 1,
        ..WriteOptions::default()
    };
    let mut writer = TableWriter::create(&fs, &path(file), id, CfId(0), options).unwrap();
    for n in first..first + 64 {
        let key = format!("key{n:05}");
        let key = KeyRef::new(key.as_bytes(), thermocline_base::SeqNo(5));
        let value = [letter; 100];
        writer
            .add(key, thermocline_base::Kind::Put, Value::Inline(&value))
            .unwrap();
    }
    let meta = writer.finish().unwrap();
    let p = meta.properties;
    assert_eq!((p.data_bytes % p.data_blocks, p.data_blocks), (0, 16));
    let len = usize::try_from(p.data_bytes / p.data_blocks).unwrap();
    (fs.contents(&path(file)).unwrap(), len)
}

/// Swaps blocks within a table, and between tables; whether each was found.
pub fn swapped_blocks_are_found() -> bool {
    let (a, len) = even(DB_ID, 7, b'x');
    let (b, _) = even(DB_ID, 8, b'y');
    let (c, _) = even([1; 16], 7, b'z');
    let mut swapped = Vec::new();
    let mut within = a.clone();
    within[..len].copy_from_slice(&a[len..2 * len]);
    within[len..2 * len].copy_from_slice(&a[..len]);
    swapped.push(within);
    for other in [&b, &c] {
        let mut between = a.clone();
        between[..len].copy_from_slice(&other[..len]);
        swapped.push(between);
    }
    swapped.into_iter().all(|bytes| {
        let fs = fresh();
        fs.install(&path(7), &bytes);
        match read_all(&fs, 7) {
            Ok(_) => false,
            Err(e) => {
                assert_names_place(&e, len, "swapped");
                true
            }
        }
    })
}

#[test]
fn blocks_in_anothers_place_are_found() {
    assert!(swapped_blocks_are_found());
}

/// Blocks in each other's place whose checksums say that they are where they should be, as a writer with a bug leaves them. A broken
/// engine steps from one to the other: a merge comes to keys that it has passed, and panics.
#[test]
fn blocks_that_do_not_follow_each_other_end_a_walk() {
    let (bytes, len) = even(DB_ID, 7, b'x');
    let mut swapped = bytes.clone();
    swapped[..len].copy_from_slice(&bytes[len..2 * len]);
    swapped[len..2 * len].copy_from_slice(&bytes[..len]);
    reseal(&mut swapped, 7, 0, len);
    reseal(&mut swapped, 7, len, len);
    let fs = fresh();
    fs.install(&path(7), &swapped);
    let (table, source) = open(&fs, 7).unwrap();
    let mut cursor = SyncCursor::new(TablePart::whole(table), &source);
    assert!(cursor.first().unwrap());
    let error = loop {
        match cursor.next() {
            Ok(more) => assert!(more, "it came to the end"),
            Err(error) => break error,
        }
    };
    assert_names_place(&error, len, "forward");
    // Who tries again hears the same.
    assert_names_place(&cursor.next().unwrap_err(), len, "again");
    assert!(cursor.last().unwrap());
    let error = loop {
        match cursor.prev() {
            Ok(more) => assert!(more, "it came to the beginning"),
            Err(error) => break error,
        }
    };
    assert_names_place(&error, 0, "back");
}

/// Likewise, of moves to a place: an engine that takes what the block beside has goes to and fro between two keys for ever.
#[test]
fn blocks_that_do_not_follow_each_other_end_a_seek() {
    let (bytes, len) = even(DB_ID, 7, b'x');
    // The first two in the place of the next two, and those in theirs.
    let (first, next) = bytes[..4 * len].split_at(2 * len);
    let mut swapped = [next, first, &bytes[4 * len..]].concat();
    for n in 0..4 {
        reseal(&mut swapped, 7, n * len, len);
    }
    let fs = fresh();
    fs.install(&path(7), &swapped);
    let (table, source) = open(&fs, 7).unwrap();
    let mut cursor = SyncCursor::new(TablePart::whole(table), &source);
    // Of four keys each.
    let key = |key: &'static str| KeyRef::new(key.as_bytes(), SeqNo(5));
    let error = cursor.seek_for_prev(key("key00005")).unwrap_err();
    assert_names_place(&error, 0, "back");
    let error = cursor.seek(key("key00009")).unwrap_err();
    assert_names_place(&error, 3 * len, "forward");
    // Where nothing is wrong, it goes on.
    assert!(cursor.seek(key("key00020")).unwrap());
    assert!(cursor.seek_for_prev(key("key00999")).unwrap());
    assert_eq!(cursor.key().user_key, b"key00063");
}

/// Who seeks back from behind all that the index knows is led to the last block, and takes nothing of it that lies behind, too.
#[test]
fn a_last_block_that_reaches_behind_the_index_ends_a_seek() {
    let (mut bytes, _) = even(DB_ID, 7, b'x');
    let (other, _) = even_from(1000, DB_ID, 7, b'x');
    let (last, len) = data_blocks(&bytes)[15];
    assert_eq!(data_blocks(&other)[15], (last, len));
    bytes[last..][..len].copy_from_slice(&other[last..][..len]);
    reseal(&mut bytes, 7, last, len);
    let fs = fresh();
    fs.install(&path(7), &bytes);
    let (table, source) = open(&fs, 7).unwrap();
    let mut cursor = SyncCursor::new(TablePart::whole(table), &source);
    let key = |key: &'static str| KeyRef::new(key.as_bytes(), SeqNo(5));
    let error = cursor.seek_for_prev(key("key00500")).unwrap_err();
    assert_names_place(&error, last, "back");
    // From behind that block, too, nothing is wrong with it.
    assert!(cursor.seek_for_prev(key("key09999")).unwrap());
    assert_eq!(cursor.key().user_key, b"key01063");
}

#[test]
fn files_in_anothers_place_do_not_open() {
    let (bytes, _) = even(DB_ID, 7, b'x');
    let fs = fresh();
    for (id, text) in [
        (
            Identity::new(DB_ID, FileId(8)),
            "file id (expected 8, got 7)",
        ),
        (Identity::new([1; 16], FileId(7)), "database id"),
    ] {
        fs.install(Path::new("/db/000007.sst"), &bytes);
        let file = fs.open(&path(7), OpenMode::Read).unwrap();
        let error = open_table(&*file, id).unwrap_err();
        assert_names_place(&error, bytes.len(), "another's file");
        assert!(error.to_string().contains(text), "{error}");
    }
    // The end of one file behind the beginning of another of the same shape.
    let (b, _) = even(DB_ID, 8, b'y');
    let (c, _) = even([1; 16], 7, b'z');
    for other in [b, c] {
        let end = meta_blocks(&bytes)[0].0;
        let spliced = [&other[..end], &bytes[end..]].concat();
        fs.install(&path(7), &spliced);
        assert_names_place(&read_all(&fs, 7).unwrap_err(), bytes.len(), "spliced");
        let mut stranger = bytes.clone();
        let filter = meta_blocks(&bytes)[0];
        let [at, len] = [meta_blocks(&other)[0].0, filter.1];
        stranger[filter.0..][..len].copy_from_slice(&other[at..][..len]);
        fs.install(&path(7), &stranger);
        assert_names_place(
            &read_all(&fs, 7).unwrap_err(),
            bytes.len(),
            "another's filter",
        );
    }
}

/// Sets a byte and makes the checksum of its block right again.
fn with_byte(bytes: &[u8], block: usize, at: usize, value: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let (offset, len) = meta_blocks(&bytes)[block];
    bytes[offset + at] = value;
    reseal(&mut bytes, 7, offset, len);
    bytes
}

#[test]
fn what_a_newer_version_wrote_is_unsupported() {
    let (_, bytes) = sample(3, WriteOptions::default());
    let mut newer = bytes.clone();
    let version = newer.len() - 12;
    newer[version] = 2;
    reseal_footer(&mut newer);
    let cases = [
        (newer, "version 2"),
        (with_byte(&bytes, 0, 0, 2), "filter has kind 2"),
        (with_byte(&bytes, 2, 0, 3), "index block has kind 3"),
        (with_byte(&bytes, 3, 0, 0x99), "property of kind 0x99"),
    ];
    for (bytes, text) in cases {
        let fs = fresh();
        fs.install(&path(7), &bytes);
        let error = open(&fs, 7).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let message = error.to_string();
        assert!(
            message.contains(text) && message.contains("000007.sst"),
            "{message}"
        );
    }
}

#[test]
fn a_property_that_a_newer_version_added_is_passed_over() {
    let (contents, bytes) = sample(3, WriteOptions::default());
    let properties = meta_blocks(&bytes)[3];
    // Of the properties that a reader may pass over; behind it stands the sum of all blocks.
    let tag_at = properties.1 - 12 - 9 - 13;
    assert_eq!(bytes[properties.0 + tag_at], 0x07);
    let fs = fresh();
    fs.install(&path(7), &with_byte(&bytes, 3, tag_at, 0x33));
    assert_same(&read_all(&fs, 7).unwrap(), &contents, "passed over");
}

/// A block in another's place, whose own checksum is right there: what all blocks together were says that it is another.
#[test]
fn a_check_finds_a_block_that_is_another_tables() {
    let (_, bytes) = sample(3, WriteOptions::default());
    let (at, len) = data_blocks(&bytes)[1];
    let value = (at..at + len - 12).rfind(|n| bytes[*n].is_ascii_lowercase());
    let mut other = bytes.clone();
    other[value.unwrap()] ^= 1;
    reseal(&mut other, 7, at, len);
    let fs = fresh();
    let faults = |bytes: &[u8]| {
        fs.install(&path(7), bytes);
        let file = fs.open(&path(7), OpenMode::Read).unwrap();
        verify_table(&file, identity(7)).faults
    };
    assert!(faults(&bytes).is_empty() && faults(&without_sum(&other)).is_empty());
    let found = faults(&other);
    assert_eq!(found.len(), 1);
    assert!(found[0].to_string().contains("checksum of all blocks"));
}

#[test]
fn a_block_that_claims_to_be_huge_is_refused_before_memory_is_taken() {
    let (_, bytes) = sample(4, WriteOptions::default());
    for (block, (_, len)) in meta_blocks(&bytes).into_iter().enumerate() {
        let most = [6 << 20, 4 << 20, 6 << 20, 1 << 20][block];
        // As if compressed with LZ4, to 4 GiB - 1 and to one byte too many.
        for claimed in [u32::MAX, most + 1] {
            let mut huge = bytes.clone();
            let (offset, _) = meta_blocks(&bytes)[block];
            huge[offset + len - 12] = 1;
            huge[offset + len - 8..offset + len - 4].copy_from_slice(&claimed.to_le_bytes());
            reseal(&mut huge, 7, offset, len);
            let fs = fresh();
            fs.install(&path(7), &huge);
            let error = open(&fs, 7).map(|_| ()).unwrap_err();
            assert_names_place(&error, huge.len(), "huge");
            assert!(
                error.to_string().contains(&format!("at most {most}")),
                "{error}"
            );
        }
    }
}
