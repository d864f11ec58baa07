//! A blob file: its records walked over, their values read.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{CfId, FileId, Result, Steps, limits};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, Storage};
use thermocline_sst::{
    BlobFile, BlobRecords, BlobWriter, Compression, Identity, read_blob, verify_blobs,
};
use thermocline_testkit::golden;

use super::digest::Digest;
use super::refusal::refused;
use crate::file::Bytes;
use crate::seal::{DB_ID, blobs as seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "blobs",
    run,
    samples,
    // What a file was synced to is the caller's to know: cut at a record, it is whole.
    beginnings: Some(beginnings),
    runs: 1_000_000,
};

fn identity() -> Identity {
    Identity::new(DB_ID, FileId(seal::FILE))
}

fn samples() -> Vec<Vec<u8>> {
    let golden = golden::bytes(include_str!("../../../sst/tests/golden/blobs-v1.txt"));
    let written = |compression| written(compression).expect("a sample can be written");
    let all = [
        golden,
        written(Compression::None),
        written(Compression::Lz4),
        written(Compression::Zstd(1)),
    ];
    all.map(|bytes| [&[0][..], &bytes].concat()).to_vec()
}

fn written(compression: Compression) -> Result<Vec<u8>> {
    let (fs, path) = (SimFs::new(Steps::new()), Path::new("/db/000009.blob"));
    fs.create_dir_all(Path::new("/db"))?;
    let mut writer = BlobWriter::create(&fs, path, identity())?.compressed(compression)?;
    for n in 0..8 {
        let key = vec![b'k'; usize::from(n) * 3];
        writer.append(CfId(u16::from(n)), &key, &vec![n; 70 * usize::from(n % 3)])?;
    }
    writer.finish()?;
    Ok(fs.contents(path).expect("it was written"))
}

fn beginnings(sample: &[u8]) -> Vec<Vec<u8>> {
    let ends = (64..sample.len()).step_by(8);
    ends.map(|end| sample[..=end].to_vec()).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut bytes = bytes.to_vec();
    if flags & SEAL != 0 {
        seal::seal(&mut bytes);
    }
    let len = bytes.len();
    let file: Arc<dyn File> = Bytes::new("000009.blob", &bytes);
    let verified = verify_blobs(&file, identity(), len as u64);
    for fault in &verified.faults {
        refused(fault, len);
    }
    let read = read_all(&*file, len as u64);
    assert_eq!(
        read.is_ok(),
        verified.faults.is_empty(),
        "a check says otherwise"
    );
    match read {
        Ok(digest) => Answer::Read(digest),
        Err(error) => refused(&error, len),
    }
}

fn read_all(file: &dyn File, end: u64) -> Result<u64> {
    let opened = BlobFile::open(file, identity())?;
    let mut digest = Digest::default();
    for record in BlobRecords::new(&opened, file, end) {
        let record = record?;
        let value = read_blob(&opened, file, record.blob)?;
        // One that is compressed is no longer than one that may lie in a table.
        let as_stored = value.len() as u64 == u64::from(record.blob.len);
        assert!(as_stored || value.len() <= limits::VALUE_INLINE_MAX);
        digest.number(u64::from(record.cf.0));
        digest.add(&record.key);
        digest.add(&value);
    }
    Ok(digest.0)
}
