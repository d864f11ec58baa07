//! A region's own structures: superblocks, words, headers, the pool of memtable descriptors.

use thermocline_base::checksum::{crc32c, hash64, seeded};

use super::{DB_ID, put};

/// The region of all samples.
pub const REGION_ID: [u8; 16] = *b"fedcba9876543210";

/// Bytes of a zone in all samples.
pub const ZONE_BYTES: usize = 16 << 10;

/// Makes all checksums of a region's structures right, as if it had one part with zones of
/// [`ZONE_BYTES`].
pub fn seal(bytes: &mut [u8]) {
    for at in [0, 256] {
        header(bytes, at, 12, 0);
    }
    let seed = hash64(&REGION_ID);
    for at in [512, 576, 768, 832, 1024] {
        word(bytes, at, seed);
    }
    for n in 0..64 {
        word(bytes, 1088 + 8 * n, seed);
    }
    for copy in [640, 704] {
        header(bytes, copy, 4, seeded(seed, 640));
    }
    let mut zone = ZONE_BYTES;
    while zone + 128 <= bytes.len() {
        for copy in [zone, zone + 64] {
            header(bytes, copy, 4, seeded(seed, zone as u64));
        }
        zone += ZONE_BYTES;
    }
    for n in 0..64 {
        descriptor(bytes, 2048 + 192 * n);
    }
}

/// A structure of 64 bytes, with its checksum at `crc_at`.
fn header(bytes: &mut [u8], at: usize, crc_at: usize, start: u32) {
    // What is not there stays so.
    let Some(block) = bytes
        .get_mut(at..at + 64)
        .filter(|b| b.iter().any(|&b| b != 0))
    else {
        return;
    };
    put(block, crc_at, 0);
    let crc = crc32c(start, block);
    put(block, crc_at, crc);
}

/// A checked word.
fn word(bytes: &mut [u8], at: usize, seed: u64) {
    if let Some(payload) = bytes.get(at..at + 4) {
        let crc = crc32c(seeded(seed, at as u64), payload);
        put(bytes, at + 4, crc);
    }
}

/// A memtable's descriptor, with both copies of its floor.
fn descriptor(bytes: &mut [u8], at: usize) -> Option<()> {
    let seed = hash64(&DB_ID);
    let object = bytes.get(at..at + 192)?;
    if object.iter().all(|&b| b == 0) {
        return None;
    }
    let crc = crc32c(seeded(seed, at as u64), &object[..16]);
    let floors = [64, 128].map(|copy| {
        let floor = &object[copy..copy + 8];
        let there = object[copy..copy + 16].iter().any(|&b| b != 0);
        there.then(|| crc32c(seeded(seed, (at + copy) as u64), floor))
    });
    put(bytes, at + 16, crc)?;
    for (copy, crc) in [64, 128].into_iter().zip(floors) {
        if let Some(crc) = crc {
            put(bytes, at + copy + 8, crc)?;
        }
    }
    Some(())
}
