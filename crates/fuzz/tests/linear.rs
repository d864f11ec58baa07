//! Memory that decoders take is at most linear in the bytes that are there, whatever headers claim. (How
//! long they take is counted in `version/tests/manifest/damage` and `wal/tests/log/damage`.)
//!
//! An allocator counts, so this is a test target of its own.
#![expect(
    clippy::disallowed_methods,
    reason = "tests make damaged files from outside"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use thermocline_base::FileId;
use thermocline_base::checksum::{crc32c, hash64_seeded, seeded, summed};
use thermocline_engine::Backups;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_fuzz::memory::{Counting, measure};
use thermocline_sst::{
    FOOTER_LEN, INDEX_LEN_MAX, Identity, PROPERTIES_LEN_MAX, TOMBSTONES_LEN_MAX, TRAILER_LEN,
    open_table,
};
use thermocline_wal::{HEADER_BYTES, LogId, LogReader, LogWriter};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MOST: usize = 8 << 20;
/// Of a file that has a few pages, and else holes.
const HOLE: u64 = 1 << 30;

fn write(path: &Path, bytes: &[u8], at: u64) {
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let file = options.open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// A frame's header is sound and claims gigabytes, which are there, as a hole.
#[test]
fn a_log_record_takes_no_memory_before_it_verifies() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("000001.log");
    let env = Env::real();
    let storage: &dyn Storage = &*env.storage;
    let id = LogId {
        db_id: [1; 16],
        log: 1,
        nonce: 9,
    };
    drop(LogWriter::create(storage, &path, id, &Default::default()).unwrap());
    let seed = hash64_seeded(&[&[1; 16][..], &1u64.to_le_bytes()].concat(), 9);
    let mut header = [0; 16];
    let len = u32::try_from(HOLE / 16).unwrap();
    header[4..8].copy_from_slice(&len.to_le_bytes());
    let crc = crc32c(seeded(!seed, HEADER_BYTES), &header[4..]);
    header[..4].copy_from_slice(&crc.to_le_bytes());
    write(&path, &header, HEADER_BYTES);
    write(&path, &[0], HEADER_BYTES + u64::from(len) + 100);
    let (found, peak) = measure(|| {
        let mut reader = LogReader::open(storage, &path).unwrap();
        reader.next_frame().unwrap().is_some()
    });
    assert!(!found);
    assert!(peak < MOST, "{peak}");
}

#[test]
fn a_list_of_backups_takes_no_memory_before_it_verifies() {
    let home = tempfile::tempdir().unwrap();
    let mut header = [0; 64];
    header[..8].copy_from_slice(b"THCLBKUP");
    header[8] = 1;
    header[16] = 1;
    header[48..56].copy_from_slice(&HOLE.to_le_bytes());
    header[56..64].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let path = home.path().join("BACKUP-000001");
    write(&path, &header, 0);
    write(&path, &[0], HOLE - 1);
    let backups = Backups::new(Env::real(), home.path());
    let (listed, peak) = measure(|| backups.list());
    listed.unwrap_err();
    assert!(peak < MOST, "{peak}");
}

/// The footer is sound; behind a gigabyte of holes it claims blocks of these lengths. Gives the most memory that
/// opening the table takes, and the bytes that are summed.
fn opened(file_len: u64, lens: [usize; 4]) -> (usize, u64) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("000007.sst");
    let sum: u64 = lens.iter().map(|len| *len as u64).sum();
    let data_end = file_len.wrapping_sub(sum + FOOTER_LEN as u64);
    let mut footer = [0; FOOTER_LEN];
    footer[..16].copy_from_slice(&[1; 16]);
    footer[16..24].copy_from_slice(&7u64.to_le_bytes());
    footer[24..32].copy_from_slice(&file_len.to_le_bytes());
    footer[32..40].copy_from_slice(&data_end.to_le_bytes());
    for (n, len) in lens.into_iter().enumerate() {
        let len = u32::try_from(len).unwrap();
        footer[40 + 4 * n..44 + 4 * n].copy_from_slice(&len.to_le_bytes());
    }
    footer[68] = 1;
    footer[72..].copy_from_slice(b"THCLTABL");
    let crc = crc32c(crc32c(0, &footer[..64]), &footer[68..]);
    footer[64..68].copy_from_slice(&crc.to_le_bytes());
    write(&path, &footer, file_len - FOOTER_LEN as u64);
    let file = Env::real().storage.open(&path, OpenMode::Read).unwrap();
    let before = summed();
    let (table, peak) = measure(|| open_table(&*file, Identity::new([1; 16], FileId(7))));
    let error = table.unwrap_err().to_string();
    assert!(!error.contains("checksum of the footer"), "{error}");
    (peak, summed() - before)
}

/// Blocks before the footer lie side by side and have limits; a gigabyte before them is not read.
#[test]
fn a_table_takes_no_more_memory_than_its_blocks_have_bytes() {
    let index = INDEX_LEN_MAX + TRAILER_LEN;
    let most = [
        index,
        TOMBSTONES_LEN_MAX + TRAILER_LEN,
        index,
        PROPERTIES_LEN_MAX + TRAILER_LEN,
    ];
    let sum: usize = most.iter().sum();
    let (peak, steps) = opened(HOLE, most);
    // The piece, and one block of it.
    assert!((sum..sum + index + (1 << 20)).contains(&peak), "{peak}");
    assert!(steps < 2 * sum as u64, "{steps}");
    // More than a block may have, or than the file: nothing is read.
    for (file_len, lens) in [
        (HOLE, [most[0] + 1, most[1], most[2], most[3]]),
        (HOLE, [0, 0, 1 << 29, 100]),
        (1 << 12, most),
        (1 << 12, [0, 0, 4000, 100]),
    ] {
        let (peak, steps) = opened(file_len, lens);
        assert!(
            peak < 1 << 16 && steps < 1 << 10,
            "{lens:?}: {peak} {steps}"
        );
    }
}
