//! Damaged blocks of every kind, half of them with right checksums, as a buggy or malicious writer
//! leaves them: contents or an error, never a panic, a loop, or much memory.

use thermocline_base::{ErrorKind, RangeTombstone, Result, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{
    Compression, IndexKind, IndexUse, KeyRef, SyncCursor, TablePart, WriteOptions, get,
    verify_table,
};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::common::*;

struct Sample {
    contents: Contents,
    bytes: Vec<u8>,
    blocks: Vec<(usize, usize)>,
}

fn samples() -> Vec<Sample> {
    let mut all = Vec::new();
    for (seed, compression) in [
        (1, Compression::None),
        (2, Compression::Lz4),
        (3, Compression::Zstd(3)),
    ] {
        let mut rng = Rng::new(seed);
        let options = WriteOptions {
            block_bytes: 256,
            index_block_bytes: 64,
            compression,
            ..WriteOptions::default()
        };
        // Small enough to go through quickly, with range tombstones and two levels.
        let contents = loop {
            let mut contents = random_contents(&mut rng, 150);
            contents.entries.retain(|e| match &e.value {
                Kept::Inline(value) => value.len() < 200,
                Kept::Blob(_) => true,
            });
            if contents.entries.len() > 80 && !contents.tombstones.is_empty() {
                break contents;
            }
        };
        let fs = fresh();
        contents.write(&fs, 7, options).unwrap();
        let bytes = fs.contents(&path(7)).unwrap();
        let mut blocks = data_blocks(&bytes);
        blocks.extend(meta_blocks(&bytes));
        all.push(Sample {
            contents,
            bytes,
            blocks,
        });
    }
    all.push(learned());
    all
}

/// A table with a learned index of several groups.
fn learned() -> Sample {
    let mut contents = crate::learned::small();
    contents.tombstones.push(RangeTombstone {
        start: b"0".to_vec(),
        end: b"1".to_vec(),
        seqno: SeqNo(5),
    });
    let fs = fresh();
    let options = WriteOptions {
        block_bytes: 128,
        index: IndexKind::Learned,
        ..WriteOptions::default()
    };
    let meta = contents.write(&fs, 7, options).unwrap();
    assert_eq!(meta.properties.index, IndexUse::Learned);
    let bytes = fs.contents(&path(7)).unwrap();
    let mut blocks = data_blocks(&bytes);
    let meta = meta_blocks(&bytes);
    blocks.extend(meta);
    // Most of what is tried with this one is tried with its index.
    blocks.splice(0..0, [meta[2]; 40]);
    Sample {
        contents,
        bytes,
        blocks,
    }
}

fn mutate(rng: &mut Rng, bytes: &mut [u8]) {
    for _ in 0..=rng.below(3) {
        let at = rng.below(bytes.len());
        match rng.below(4) {
            0 => bytes[at] = rng.next_u64().to_le_bytes()[0],
            1 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            2 => bytes[at] = bytes[at].wrapping_add(*rng.pick(&[1, 0xff])),
            _ => {
                let end = (at + 1 + rng.below(12)).min(bytes.len());
                let from = rng.below(bytes.len() - (end - at) + 1);
                bytes.copy_within(from..from + (end - at), at);
            }
        }
    }
}

/// Everything that a reader can do with the file.
fn use_it(fs: &thermocline_env::sim::SimFs, sample: &Sample, rng: &mut Rng) -> Result<Contents> {
    let file = fs.open(&path(7), OpenMode::Read)?;
    verify_table(&file, identity(7));
    let (table, source) = open(fs, 7)?;
    let part = TablePart::limited(table, Some(b"\0"), Some(b"b"));
    let mut cursor = SyncCursor::new(part.clone(), &source);
    for _ in 0..20 {
        let (key, seqno) = (random_key(rng, 5), SeqNo(rng.below(700) as u64));
        let target = KeyRef::new(&key, seqno);
        // Errors end the walk below too.
        let _ = get(&part, &key, seqno, &source);
        let _ = cursor.seek(target).and_then(|_| cursor.prev());
        let _ = cursor.seek_for_prev(target).and_then(|_| cursor.next());
    }
    let found = read_all(fs, 7)?;
    let (table, _) = open(fs, 7)?;
    let part = TablePart::whole(table);
    for entry in &sample.contents.entries {
        get(&part, &entry.key, entry.seqno, &source)?;
    }
    Ok(found)
}

#[test]
fn damaged_blocks_never_panic_and_never_pass_for_others() {
    let samples = samples();
    let fs = fresh();
    let (mut runs, mut fine, mut errors, mut sealed) = (0, 0, 0, 0);
    for seed in seeds(0..explored(10_000, 30_000)) {
        let _replay = Replay::new("-p thermocline-sst --test table damaged_blocks", seed);
        let mut rng = Rng::new(seed);
        let sample = rng.pick(&samples);
        let mut bytes = sample.bytes.clone();
        let footer = bytes.len() - 80;
        let meta = rng.one_in(2);
        let (offset, len) = match rng.one_in(10) {
            true => (footer, 80),
            false if meta => sample.blocks[sample.blocks.len() - 1 - rng.below(4)],
            false => *rng.pick(&sample.blocks),
        };
        mutate(&mut rng, &mut bytes[offset..offset + len]);
        let reseals = rng.one_in(2);
        match (reseals, offset == footer) {
            (true, true) => reseal_footer(&mut bytes),
            (true, false) => reseal(&mut bytes, 7, offset, len),
            _ => {}
        }
        fs.install(&path(7), &bytes);
        runs += 1;
        match use_it(&fs, sample, &mut rng) {
            Ok(found) => {
                if !reseals {
                    assert_same(&found, &sample.contents, "damaged");
                }
                fine += 1;
                sealed += u32::from(reseals);
            }
            Err(e) => {
                let kind = e.kind();
                assert!(
                    matches!(kind, ErrorKind::Corruption | ErrorKind::Unsupported),
                    "{e}"
                );
                errors += 1;
            }
        }
    }
    println!("{runs} runs: {errors} errors, {fine} read, {sealed} of them with a new checksum");
    assert!(runs == 1 || (errors > runs / 2 && sealed > runs / 60));
}

/// Whole payloads of nonsense behind right checksums.
#[test]
fn random_payloads_never_panic() {
    let samples = samples();
    let fs = fresh();
    for seed in seeds(0..6000) {
        let _replay = Replay::new("-p thermocline-sst --test table random_payloads", seed);
        let mut rng = Rng::new(seed);
        let sample = rng.pick(&samples);
        let mut bytes = sample.bytes.clone();
        let (offset, len) = *rng.pick(&sample.blocks);
        // Small numbers read as lengths that fit; the head of an index or filter stays.
        let head = rng.below(2) * 4;
        for byte in &mut bytes[offset + head.min(len - 12)..offset + len - 12] {
            *byte = (rng.next_u64() % *rng.clone().pick(&[2, 4, 20, 256])).to_le_bytes()[0];
        }
        reseal(&mut bytes, 7, offset, len);
        fs.install(&path(7), &bytes);
        if let Err(e) = use_it(&fs, sample, &mut rng) {
            assert!(
                matches!(e.kind(), ErrorKind::Corruption | ErrorKind::Unsupported),
                "{e}"
            );
        }
    }
}

/// Files of nonsense.
#[test]
fn random_files_are_refused() {
    let fs = fresh();
    let footer = samples()[0].bytes.clone();
    let footer = &footer[footer.len() - 80..];
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let len = rng.below(2000);
        let mut bytes = random_bytes(&mut rng, len);
        if rng.one_in(2) {
            bytes.extend_from_slice(footer);
            let at = bytes.len() - 80;
            let file_len = bytes.len() as u64;
            bytes[at + 24..at + 32].copy_from_slice(&file_len.to_le_bytes());
            let data_end = rng.below(bytes.len()) as u64;
            bytes[at + 32..at + 40].copy_from_slice(&data_end.to_le_bytes());
            let rest = file_len - 80 - data_end.min(file_len - 80);
            for n in 0..4 {
                let part = u32::try_from(rest / 4).unwrap();
                bytes[at + 40 + 4 * n..at + 44 + 4 * n].copy_from_slice(&part.to_le_bytes());
            }
            reseal_footer(&mut bytes);
        }
        fs.install(&path(7), &bytes);
        let kind = open(&fs, 7).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::Corruption);
    }
}
