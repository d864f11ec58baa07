//! Manifests.

use thermocline_base::checksum::{crc32c, seeded};

use super::{mixed, put, u32_at, u64_at};

/// Makes the checksums of the header and of all records right that can be told apart.
pub fn seal(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    put(bytes, 60, crc32c(0, &bytes[..60]));
    let mut at = 64;
    while let Some(next) = record(bytes, at) {
        at = next;
    }
}

fn record(bytes: &mut [u8], at: usize) -> Option<usize> {
    let id = bytes.get(24..40)?.try_into().ok()?;
    let seed = mixed(&id, u64_at(bytes, 16)?, 0xd6e8_feb8_6659_fd93);
    let len = u32_at(bytes, at)?.checked_next_multiple_of(8)?;
    let end = (at + 8).checked_add(len)?;
    let crc = crc32c(seeded(seed, at as u64), bytes.get(at..at + 4)?);
    let crc = crc32c(crc, bytes.get(at + 8..end)?);
    put(bytes, at + 4, crc)?;
    Some(end)
}

/// Where each record ends, up to the first that lies about its length.
pub fn ends(bytes: &[u8]) -> Vec<usize> {
    let end = |at: usize| {
        let len = u32_at(bytes, at)?.checked_next_multiple_of(8)?;
        let end = (at + 8).checked_add(len)?;
        (end <= bytes.len()).then_some(end)
    };
    std::iter::successors(end(64), |at| end(*at)).collect()
}
