//! Blob files.

use thermocline_base::checksum::{crc32c, seeded};

use super::{DB_ID, mixed, put, u16_at, u32_at};

/// The file of all samples.
pub const FILE: u64 = 9;

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

/// Seals the record there, and says where the next one begins.
fn record(bytes: &mut [u8], at: usize) -> Option<usize> {
    let start = seeded(mixed(&DB_ID, FILE, 0xc2b2_ae3d_27d4_eb4f), at as u64);
    let value_at = at + 32;
    let key_at = value_at.checked_add(u32_at(bytes, at + 12)?)?;
    let end = key_at.checked_add(u16_at(bytes, at + 16)?)?;
    let whole = end <= bytes.len();
    if whole {
        let crcs = [&bytes[value_at..key_at], &bytes[key_at..end]].map(|part| crc32c(!start, part));
        put(bytes, at + 4, crcs[0]);
        put(bytes, at + 8, crcs[1]);
    }
    // A header that lies about its lengths is sealed too.
    let crc = crc32c(start, bytes.get(at + 4..value_at)?);
    put(bytes, at, crc)?;
    whole.then(|| end.next_multiple_of(8))
}
