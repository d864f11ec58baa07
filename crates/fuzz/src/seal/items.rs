//! Items and records of a chain.

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};

use super::{DB_ID, put, u16_at, u32_at};

/// The chain of all samples, its incarnation and nonce.
pub const CHAIN: u64 = 7;
/// See [`CHAIN`].
pub const INCARNATION: u32 = 3;
/// See [`CHAIN`].
pub const NONCE: u64 = 0x1234_5678_9abc_def0;

fn seed() -> u64 {
    let chain = [&DB_ID[..], &CHAIN.to_le_bytes(), &INCARNATION.to_le_bytes()].concat();
    hash64_seeded(&chain, NONCE)
}

/// Makes the checksums of all items and records right that can be told apart in a segment whose first byte
/// lies at `base` in the region.
pub fn seal(bytes: &mut [u8], base: u64) {
    let mut at = 0;
    while at + 48 <= bytes.len() {
        match item(bytes, at, base) {
            Some(next) => at = next,
            None => at += 64,
        }
    }
}

/// Seals the item there, and says where the next one begins.
fn item(bytes: &mut [u8], at: usize, base: u64) -> Option<usize> {
    let len = u32_at(bytes, at + 4).filter(|len| *len >= 48)?;
    let end = at.checked_add(len).filter(|end| *end <= bytes.len())?;
    let mut crc = crc32c(seeded(seed(), base + at as u64), &bytes[at + 4..at + 48]);
    let mut record = at + 48;
    for _ in 0..u32_at(bytes, at + 24)? {
        let head = record + 16 + u16_at(bytes, record + 8)?;
        let behind = head + (u32_at(bytes, record + 12)? & 0xfff_ffff);
        if behind > end {
            break;
        }
        let own = crc32c(
            seeded(!seed(), base + record as u64),
            &bytes[record + 4..behind],
        );
        put(bytes, record, own);
        crc = crc32c(crc, &bytes[record..head]);
        record = behind.next_multiple_of(8);
    }
    put(bytes, at, crc)?;
    Some(end.next_multiple_of(64))
}
