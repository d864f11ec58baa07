//! What the tests share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Result, Steps};
use thermocline_env::Storage;
use thermocline_env::direct::DeviceBytes;
use thermocline_env::sim::SimFs;
use thermocline_testkit::Rng;
use thermocline_wal::{HEADER_BYTES, LogId, LogReader, LogWriter, frame_bytes};

pub fn fresh() -> SimFs {
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(Path::new("/db")).unwrap();
    fs
}

pub fn path(log: u64) -> PathBuf {
    PathBuf::from(format!("/db/{log:06}.log"))
}

pub fn id(log: u64) -> LogId {
    LogId {
        db_id: [1; 16],
        log,
        nonce: 77 + log,
    }
}

pub fn create(storage: &dyn Storage, log: u64) -> Result<LogWriter> {
    let counter = Arc::new(DeviceBytes::default());
    LogWriter::create(storage, &path(log), id(log), &counter)
}

/// Payloads of all sizes from a few bytes to some pages.
pub fn payloads(rng: &mut Rng, n: usize) -> Vec<Vec<u8>> {
    let payload = |rng: &mut Rng| {
        let most = [40, 300, 5000, 20_000][rng.below(4)];
        let len = 1 + rng.below(most);
        (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
    };
    (0..n).map(|_| payload(rng)).collect()
}

/// Where each payload's frame lies, and behind all.
pub fn places(payloads: &[Vec<u8>]) -> Vec<u64> {
    let mut at = HEADER_BYTES;
    let mut all = vec![at];
    for payload in payloads {
        at += frame_bytes(payload.len() as u64);
        all.push(at);
    }
    all
}

/// All frames of a log.
pub fn frames(storage: &dyn Storage, log: u64) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut reader = LogReader::open(storage, &path(log))?;
    reader.expect(&id(log))?;
    let mut all = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        all.push((frame.at, frame.payload.to_vec()));
    }
    Ok(all)
}

/// Panics unless the frames are those of `payloads`, without the first that is missing being among the
/// first `durable`. Returns how many there are in front of the first that is missing.
pub fn check(found: &[(u64, Vec<u8>)], payloads: &[Vec<u8>], durable: usize, what: &str) -> usize {
    let places = places(payloads);
    let mut whole = 0;
    for (at, payload) in found {
        let i = places[..payloads.len()].binary_search(at);
        let i = i.unwrap_or_else(|_| panic!("{what}: a frame at {at} that nobody wrote"));
        assert_eq!(*payload, payloads[i], "{what}: another payload at {at}");
        if i == whole {
            whole += 1;
        }
    }
    assert!(
        whole >= durable,
        "{what}: {whole} frames of {durable} that were durable"
    );
    whole
}
