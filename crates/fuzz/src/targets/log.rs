//! A log: whose it is, and every frame that it has, with the items that they carry.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::{Kind, Result, Steps};
use thermocline_env::Storage;
use thermocline_env::sim::SimFs;
use thermocline_memtable::ItemImage;
use thermocline_testkit::golden;
use thermocline_wal::{FRAME_HEADER, HEADER_BYTES, LogId, LogReader, LogWriter, frame_bytes};

use super::digest::Digest;
use super::items;
use super::refusal::refused;
use crate::seal::{DB_ID, log as seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "log",
    run,
    samples,
    beginnings: Some(beginnings),
    runs: 300_000,
};

/// Of the first byte of an input: the header is left as it is.
const KEEP_HEADER: u8 = 2;

const PATH: &str = "/db/000007.log";

/// An input has the header, and what begins at the first page behind it.
fn collapsed(log: &[u8]) -> Vec<u8> {
    let frames = usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX);
    [&[KEEP_HEADER][..], &log[..64], &log[frames..]].concat()
}

fn samples() -> Vec<Vec<u8>> {
    let golden = golden::bytes(include_str!("../../../wal/tests/golden/log-v1.txt"));
    let written = written().expect("a sample can be written");
    [golden, written].map(|log| collapsed(&log)).to_vec()
}

/// Frames with items in them, and one with other bytes.
fn written() -> Result<Vec<u8>> {
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(Path::new("/db"))?;
    let id = LogId {
        db_id: DB_ID,
        log: 7,
        nonce: 99,
    };
    let mut log = LogWriter::create(&fs, Path::new(PATH), id, &Arc::default())?;
    let one = items::item(1, 0, &[(Kind::Put, 0, b"key", b"value")]);
    let more: &[items::Record<'_>] = &[
        (Kind::Delete, 2, b"", b""),
        (Kind::RangeDelete, 0, b"from", b"to"),
        (Kind::Put, 65_535, &[0, 2], &[7; 200]),
    ];
    let run = [one, items::item(2, 1, more), items::item(5, 1, &[])].concat();
    for payload in [&run[..], b"no item", &run[..64]] {
        log.append(payload)?;
        log.sync()?;
    }
    let end = usize::try_from(log.end()).unwrap_or(usize::MAX);
    let mut bytes = fs.contents(Path::new(PATH)).expect("it was written");
    bytes.truncate(end + 16);
    Ok(bytes)
}

/// Cut in each frame, so that those before it are there.
fn beginnings(sample: &[u8]) -> Vec<Vec<u8>> {
    let ends = (65..sample.len()).step_by(16);
    ends.map(|end| sample[..end].to_vec()).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let (header, frames) = bytes.split_at(bytes.len().min(64));
    let mut log = header.to_vec();
    if header.len() == 64 {
        log.resize(usize::try_from(HEADER_BYTES).unwrap_or(usize::MAX), 0);
        log.extend_from_slice(frames);
    }
    if flags & SEAL != 0 {
        seal::seal(&mut log, flags & KEEP_HEADER == 0);
    }
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(Path::new("/db"))
        .expect("it is simulated, and empty");
    fs.install(Path::new(PATH), &log);
    match read_all(&fs, log.len() as u64) {
        Ok(digest) => Answer::Read(digest),
        Err(error) => refused(&error, log.len()),
    }
}

/// Digests the frames up to the first gap: behind it, whoever reads a log decides.
fn read_all(fs: &SimFs, len: u64) -> Result<u64> {
    let mut reader = LogReader::open(fs, Path::new(PATH))?;
    let id = *reader.id();
    reader.expect(&id)?;
    let (mut digest, mut end, mut whole) = (Digest::default(), HEADER_BYTES, true);
    digest.add(&id.db_id);
    digest.number(id.log);
    while let Some(frame) = reader.next_frame()? {
        assert!(frame.at >= end && !frame.payload.is_empty(), "in order");
        whole &= frame.at == end;
        end = frame.at + frame_bytes(frame.payload.len() as u64);
        let payload_end = frame.at + (FRAME_HEADER + frame.payload.len()) as u64;
        assert!(payload_end <= len, "within the file");
        if whole {
            digest.add(frame.payload);
        }
        let mut rest = frame.payload;
        while let Some((item, behind)) = ItemImage::read(rest) {
            assert!(behind.len() < rest.len() && item.first_seqno > 0);
            for entry in &item.entries {
                assert!(entry.key.len() + entry.value.len() < rest.len());
            }
            rest = behind;
        }
    }
    Ok(digest.0)
}
