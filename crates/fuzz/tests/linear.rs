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

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};
use thermocline_engine::Backups;
use thermocline_env::{Env, Storage};
use thermocline_fuzz::memory::{Counting, measure};
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
