//! Logs.

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};

use super::{put, u32_at};

const FRAMES: usize = 4096;

/// Makes the checksums of all frames right that can be told apart, and unless it is to be as it is that of the
/// header.
pub fn seal(bytes: &mut [u8], header: bool) {
    if bytes.len() < FRAMES {
        return;
    }
    if header {
        let crc = crc32c(crc32c(0, &bytes[..12]), &bytes[16..64]);
        put(bytes, 12, crc);
    }
    let mut nonce = [0; 8];
    nonce.copy_from_slice(&bytes[40..48]);
    let seed = hash64_seeded(&bytes[16..40], u64::from_le_bytes(nonce));
    let mut at = FRAMES;
    while let Some(next) = frame(bytes, seed, at) {
        at = next;
    }
}

/// Seals the frame there, and says where the next one begins.
fn frame(bytes: &mut [u8], seed: u64, at: usize) -> Option<usize> {
    let (payload, place) = (at + 16, at as u64);
    let end = payload.checked_add(u32_at(bytes, at + 4)?)?;
    let whole = bytes
        .get(payload..end)
        .map(|p| crc32c(seeded(seed, place), p));
    if let Some(crc) = whole {
        put(bytes, at + 8, crc);
    }
    // A header that lies about its length is sealed too.
    let crc = crc32c(seeded(!seed, place), bytes.get(at + 4..payload)?);
    put(bytes, at, crc)?;
    whole.map(|_| end.next_multiple_of(16))
}
