//! Blob files: what was appended reads back by its reference, and nothing else does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::checksum::{crc32c, seeded};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{BlobRef, CfId, Error, ErrorKind, FileId, Kind, Result, SeqNo};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, OpenMode, Storage};
use thermocline_sst::{
    BlobFile, BlobRecords, BlobWriter, Compression, Identity, KeyRef, TableWriter, Value,
    WriteOptions, hash_record_headers, read_blob, read_blob_of, verify_blobs,
};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::common::*;

type Appended = Vec<(BlobRef, CfId, Vec<u8>, Vec<u8>)>;

fn blob_path(file: u64) -> PathBuf {
    Path::new("/db").join(thermocline_sst::blob_name(FileId(file)))
}

/// A file with these lengths of values.
fn written(fs: &SimFs, id: Identity, lens: &[usize], rng: &mut Rng) -> Appended {
    let mut writer = BlobWriter::create(fs, &blob_path(id.file.0), id).unwrap();
    let mut all = Vec::new();
    for (n, &len) in lens.iter().enumerate() {
        let key = random_key(rng, 20);
        let (cf, value) = (CfId(u16::try_from(n).unwrap()), random_bytes(rng, len));
        let blob = writer.append(cf, &key, &value).unwrap();
        assert_eq!((blob.file, blob.len as usize), (id.file, len));
        all.push((blob, cf, key, value));
    }
    let bytes = writer.bytes();
    let meta = writer.finish().unwrap();
    assert_eq!((meta.identity, meta.bytes), (id, bytes));
    assert_eq!(meta.values, lens.len() as u64);
    assert_eq!(meta.value_bytes, lens.iter().sum::<usize>() as u64);
    all
}

fn opened(fs: &SimFs, id: Identity) -> Result<(BlobFile, Arc<dyn File>)> {
    let file = fs.open(&blob_path(id.file.0), OpenMode::Read)?;
    Ok((BlobFile::open(&*file, id)?, file))
}

#[test]
fn values_read_back_in_any_order() {
    for seed in seeds(0..40) {
        let _replay = Replay::new("-p thermocline-sst --test table values_read_back", seed);
        let mut rng = Rng::new(seed);
        let fs = fresh();
        let lens: Vec<usize> = (0..30).map(|_| rng.below(10_000) * rng.below(2)).collect();
        let all = written(&fs, identity(9), &lens, &mut rng);
        let (blobs, file) = opened(&fs, identity(9)).unwrap();
        for _ in 0..60 {
            let (blob, _, _, value) = rng.pick(&all);
            assert_eq!(&read_blob(&blobs, &*file, *blob).unwrap(), value);
        }
        let len = file.len().unwrap();
        let records: Result<Vec<_>> = BlobRecords::new(&blobs, &*file, len).collect();
        for (record, (blob, cf, key, _)) in records.unwrap().iter().zip(&all) {
            assert_eq!((record.blob, record.cf, &record.key), (*blob, *cf, key));
        }
        let verified = verify_blobs(&file, identity(9), len);
        assert!(verified.faults.is_empty() && verified.entries == 30);
    }
}

#[test]
fn what_compresses_counts_in_what_writers_take() {
    let memory = |compression| {
        let fs = fresh();
        let blobs = BlobWriter::create(&fs, &blob_path(9), identity(9)).unwrap();
        let mut blobs = blobs.compressed(compression).unwrap();
        blobs.append(CF, b"key", &vec![0; 1 << 20]).unwrap();
        let options = WriteOptions {
            compression,
            ..WriteOptions::default()
        };
        let table = TableWriter::create(&fs, &path(7), identity(7), CF, options);
        let mut table = table.unwrap();
        for n in 0..100u64 {
            let key = n.to_be_bytes();
            let value = Value::Inline(&[0; 200]);
            table
                .add(KeyRef::new(&key, SeqNo(1)), Kind::Put, value)
                .unwrap();
        }
        [blobs.memory(), table.memory()]
    };
    let [blobs, table] = memory(Compression::Lz4);
    let [more_blobs, more_table] = memory(Compression::Zstd(1));
    assert!(more_blobs > blobs + (64 << 10), "{blobs}, {more_blobs}");
    assert!(more_table > table + (16 << 10), "{table}, {more_table}");
}

#[test]
fn compressed_values_read_back_and_take_less() {
    let mut rng = Rng::new(5);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd(1)] {
        let fs = fresh();
        let path = blob_path(9);
        let writer = BlobWriter::create(&fs, &path, identity(9)).unwrap();
        let mut writer = writer.compressed(compression).unwrap();
        let (mut all, mut bytes) = (Vec::new(), 0);
        for text in [true, false] {
            // Those that do not shrink come last: after some of them not every one is tried.
            for len in [4096, 70_000, 500, 1 << 20, (1 << 20) + 1, 20, 1, 0] {
                let value = match text {
                    true => b"thermocline ".iter().copied().cycle().take(len).collect(),
                    false => random_bytes(&mut rng, len),
                };
                let key = random_key(&mut rng, 20);
                let blob = writer.append(CF, &key, &value).unwrap();
                let shrinks = compression != Compression::None && text;
                let is_small = (blob.len as usize) < value.len();
                // One over a mebibyte is stored as it is.
                assert_eq!(is_small, shrinks && (500..=1 << 20).contains(&len), "{len}");
                bytes += u64::from(blob.len);
                all.push((key, value, blob));
            }
        }
        assert_eq!(writer.finish().unwrap().value_bytes, bytes);
        let (blobs, file) = opened(&fs, identity(9)).unwrap();
        for (key, value, blob) in &all {
            assert_eq!(&read_blob(&blobs, &*file, *blob).unwrap(), value);
            let of = (CF, key.as_slice());
            assert_eq!(&read_blob_of(&blobs, &*file, of, *blob).unwrap(), value);
        }
        let verified = verify_blobs(&file, identity(9), file.len().unwrap());
        assert!(verified.faults.is_empty());
        assert_eq!(verified.value_bytes, bytes);
    }
}

#[test]
fn no_values_the_longest_key_and_values_over_a_mebibyte() {
    let mut rng = Rng::new(1);
    let fs = fresh();
    assert!(written(&fs, identity(1), &[], &mut rng).is_empty());
    let (_, file) = opened(&fs, identity(1)).unwrap();
    assert!(verify_blobs(&file, identity(1), 64).faults.is_empty());
    let lens = [0, (1 << 20) + 1, 1, 5 << 20];
    for (blob, _, _, value) in written(&fs, identity(2), &lens, &mut rng) {
        let (blobs, file) = opened(&fs, identity(2)).unwrap();
        assert_eq!(read_blob(&blobs, &*file, blob).unwrap(), value);
    }
    let mut writer = BlobWriter::create(&fs, &blob_path(3), identity(3)).unwrap();
    let long = vec![1; 65_536];
    let refused = writer.append(CF, &long, b"v").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let blob = writer.append(CF, &long[1..], b"v").unwrap();
    writer.finish().unwrap();
    let (blobs, file) = opened(&fs, identity(3)).unwrap();
    assert_eq!(read_blob(&blobs, &*file, blob).unwrap(), b"v");
    let record = BlobRecords::new(&blobs, &*file, file.len().unwrap()).next();
    assert_eq!(record.unwrap().unwrap().key, &long[1..]);
}

#[test]
fn a_value_is_of_one_key_and_family() {
    let fs = fresh();
    let mut writer = BlobWriter::create(&fs, &blob_path(9), identity(9)).unwrap();
    let mut all = Vec::new();
    for key in [&b"a"[..], b"b", b"", b"ab"] {
        all.push((key, writer.append(CF, key, b"value").unwrap()));
    }
    writer.finish().unwrap();
    let (blobs, file) = opened(&fs, identity(9)).unwrap();
    let read = |cf, key: &[u8], blob| read_blob_of(&blobs, &*file, (cf, key), blob);
    for (key, blob) in &all {
        assert_eq!(read(CF, key, *blob).unwrap(), b"value");
        assert_names_place(&read(CfId(CF.0 + 1), key, *blob).unwrap_err(), "family");
        for (other, _) in all.iter().filter(|(other, _)| other != key) {
            assert_names_place(&read(CF, other, *blob).unwrap_err(), "key");
        }
        // Longer than what is behind it.
        assert_names_place(&read(CF, &[0; 5000], *blob).unwrap_err(), "length");
    }
    let _bug = plant(Bug::BlobOfAnyKey);
    assert_eq!(read(CF, b"b", all[0].1).unwrap(), b"value");
}

fn assert_names_place(error: &Error, what: &str) {
    match error {
        Error::Corruption { place, .. } => {
            assert!(place.ends_with("000009.blob"), "{what}: {place}")
        }
        other => panic!("{what}: {other}"),
    }
}

/// Reads all values by their references, and all records.
fn read_everything(fs: &SimFs, all: &Appended) -> Result<()> {
    let (blobs, file) = opened(fs, identity(9))?;
    let mut failed = None;
    for (blob, _, _, value) in all {
        match read_blob(&blobs, &*file, *blob) {
            Ok(found) => assert_eq!(&found, value),
            Err(e) => failed = Some(e),
        }
    }
    let last = all.last().unwrap();
    let end = (last.0.offset + 32 + (last.2.len() + last.3.len()) as u64).next_multiple_of(8);
    for (record, (blob, cf, key, _)) in BlobRecords::new(&blobs, &*file, end).zip(all) {
        let record = record?;
        assert_eq!((record.blob, record.cf, &record.key), (*blob, *cf, key));
    }
    failed.map_or(Ok(()), Err)
}

#[test]
fn every_flipped_bit_and_every_cut_is_an_error() {
    let mut rng = Rng::new(2);
    let fs = fresh();
    let all = written(&fs, identity(9), &[0, 10, 100, 7], &mut rng);
    let bytes = fs.contents(&blob_path(9)).unwrap();
    read_everything(&fs, &all).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs.install(&blob_path(9), &flipped);
        let error = read_everything(&fs, &all).expect_err("a flipped bit");
        assert_names_place(&error, &format!("bit {bit}"));
        let file = fs.open(&blob_path(9), OpenMode::Read).unwrap();
        assert!(
            !verify_blobs(&file, identity(9), bytes.len() as u64)
                .faults
                .is_empty()
        );
    }
    for len in 0..bytes.len() {
        fs.install(&blob_path(9), &bytes[..len]);
        let file = fs.open(&blob_path(9), OpenMode::Read).unwrap();
        let verified = verify_blobs(&file, identity(9), bytes.len() as u64);
        assert_names_place(&verified.faults[0], &format!("cut to {len}"));
        for (blob, _, _, value) in &all {
            if let Ok((blobs, file)) = opened(&fs, identity(9)) {
                match read_blob(&blobs, &*file, *blob) {
                    Ok(found) => assert_eq!(&found, value),
                    Err(e) => assert_names_place(&e, "cut"),
                }
            }
        }
    }
}

/// Whoever backs a file up asks for the headers of all that is there, however long that is.
#[test]
fn headers_of_a_cut_file_are_damage_unless_whole_records_are_left() {
    let mut rng = Rng::new(7);
    let fs = fresh();
    let all = written(&fs, identity(9), &[0, 10, 100, 7], &mut rng);
    let bytes = fs.contents(&blob_path(9)).unwrap();
    let mut ends: Vec<u64> = all.iter().map(|(blob, ..)| blob.offset).collect();
    ends.push(bytes.len() as u64);
    for len in 0..=bytes.len() {
        fs.install(&blob_path(9), &bytes[..len]);
        let file = fs.open(&blob_path(9), OpenMode::Read).unwrap();
        let len = len as u64;
        match hash_record_headers(&*file, identity(9), len) {
            Ok(_) => assert!(ends.contains(&len), "{len}"),
            Err(error) => {
                assert!(!ends.contains(&len), "{len}");
                assert_names_place(&error, &format!("cut to {len}"));
            }
        }
    }
}

#[test]
fn a_check_goes_on_behind_a_key_that_is_damaged() {
    let fs = fresh();
    let mut writer = BlobWriter::create(&fs, &blob_path(9), identity(9)).unwrap();
    let all = [b"a", b"b", b"c"].map(|key| writer.append(CF, key, b"value").unwrap());
    writer.finish().unwrap();
    let mut bytes = fs.contents(&blob_path(9)).unwrap();
    // The key of the first record, and the value of the last one.
    let damaged = [all[0].offset + 32 + 5, all[2].offset + 32];
    for at in damaged {
        bytes[usize::try_from(at).unwrap()] ^= 1;
    }
    fs.install(&blob_path(9), &bytes);
    let file = fs.open(&blob_path(9), OpenMode::Read).unwrap();
    let verified = verify_blobs(&file, identity(9), bytes.len() as u64);
    let offset = |fault: &Error| match fault {
        Error::Corruption { offset, .. } => *offset,
        other => panic!("{other}"),
    };
    let found: Vec<u64> = verified.faults.iter().map(offset).collect();
    assert_eq!(found, damaged);
    assert_eq!((verified.blocks, verified.entries), (3, 1));
}

#[test]
fn values_in_anothers_place_are_found() {
    assert!(swapped_values_are_found());
    let mut rng = Rng::new(4);
    let fs = fresh();
    written(&fs, identity(9), &[50], &mut rng);
    let bytes = fs.contents(&blob_path(9)).unwrap();
    for id in [Identity::new([1; 16], FileId(9)), identity(8)] {
        fs.install(&blob_path(id.file.0), &bytes);
        assert_eq!(opened(&fs, id).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

/// Records of equal length at each other's place, and of another file at the same place.
pub fn swapped_values_are_found() -> bool {
    let record = |n: u64| 64 + 144 * n;
    let write = |id: Identity, letter: u8| {
        let fs = fresh();
        let mut writer = BlobWriter::create(&fs, &blob_path(id.file.0), id).unwrap();
        for n in 0..3 {
            let blob = writer.append(CF, b"keykey12", &[letter + n; 100]).unwrap();
            assert_eq!(blob.offset, record(u64::from(n)));
        }
        writer.finish().unwrap();
        (fs.contents(&blob_path(id.file.0)).unwrap(), fs)
    };
    let (bytes, fs) = write(identity(9), b'a');
    let (other, _) = write(identity(8), b'x');
    let (stranger, _) = write(Identity::new([1; 16], FileId(9)), b'p');
    let first = BlobRef {
        file: FileId(9),
        offset: record(0),
        len: 100,
    };
    let mut from = vec![bytes[208..352].to_vec()];
    from.extend([&other, &stranger].map(|b| b[64..208].to_vec()));
    from.into_iter().all(|record| {
        let mut swapped = bytes.clone();
        swapped[64..208].copy_from_slice(&record);
        fs.install(&blob_path(9), &swapped);
        let (blobs, file) = opened(&fs, identity(9)).unwrap();
        read_blob(&blobs, &*file, first).is_err()
    })
}

#[test]
fn wrong_references_are_errors_and_take_no_memory() {
    let mut rng = Rng::new(5);
    let fs = fresh();
    let all = written(&fs, identity(9), &[100, 100], &mut rng);
    let right = all[1].0;
    let (blobs, file) = opened(&fs, identity(9)).unwrap();
    for wrong in [
        BlobRef {
            file: FileId(8),
            ..right
        },
        BlobRef { offset: 0, ..right },
        BlobRef {
            offset: right.offset + 1,
            ..right
        },
        BlobRef {
            offset: right.offset + 8,
            ..right
        },
        BlobRef {
            offset: u64::MAX,
            ..right
        },
        BlobRef {
            offset: u64::MAX - 7,
            ..right
        },
        BlobRef { len: 99, ..right },
        BlobRef { len: 101, ..right },
        BlobRef {
            len: u32::MAX,
            ..right
        },
    ] {
        let error = read_blob(&blobs, &*file, wrong).unwrap_err();
        assert_names_place(&error, &format!("{wrong}"));
    }
}

#[test]
fn a_newer_blob_file_is_unsupported() {
    let mut rng = Rng::new(6);
    let fs = fresh();
    written(&fs, identity(9), &[10], &mut rng);
    let mut bytes = fs.contents(&blob_path(9)).unwrap();
    bytes[8] = 2;
    let crc = crc32c(0, &bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    fs.install(&blob_path(9), &bytes);
    let error = opened(&fs, identity(9)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("version 2"), "{error}");
}

/// Random damage, in half of the runs with the record's checksum made right again.
#[test]
fn damaged_blob_files_never_panic() {
    let (mut fine, mut errors) = (0, 0);
    for seed in seeds(0..3000) {
        let _replay = Replay::new("-p thermocline-sst --test table damaged_blob_files", seed);
        let mut rng = Rng::new(seed);
        let fs = fresh();
        let all = written(&fs, identity(9), &[30, 60], &mut rng);
        let mut bytes = fs.contents(&blob_path(9)).unwrap();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len());
            bytes[at] = *rng.pick(&[0, 1, 0x7f, 0xff, rng.clone().next_u64().to_le_bytes()[0]]);
        }
        let reseal = rng.one_in(2);
        if reseal {
            let seed = mixed_seed(9, 0xc2b2_ae3d_27d4_eb4f);
            let crc = crc32c(seeded(seed, 64), &bytes[68..96]);
            bytes[64..68].copy_from_slice(&crc.to_le_bytes());
        }
        fs.install(&blob_path(9), &bytes);
        let file = fs.open(&blob_path(9), OpenMode::Read).unwrap();
        verify_blobs(&file, identity(9), bytes.len() as u64);
        match opened(&fs, identity(9)).and_then(|(b, f)| read_blob(&b, &*f, all[0].0)) {
            Ok(found) => {
                assert_eq!(found, all[0].3);
                fine += 1;
            }
            Err(e) => {
                assert!(matches!(
                    e.kind(),
                    ErrorKind::Corruption | ErrorKind::Unsupported
                ));
                errors += 1;
            }
        }
    }
    println!("{fine} read right, {errors} errors");
}
