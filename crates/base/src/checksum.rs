//! Checksums and hashes: CRC32C for bytes at rest, seeded by place so that a misplaced or stale
//! block is caught, and a 64-bit hash for everything volatile.

mod joined;
mod polynomials;
mod sums;

pub use sums::{Prefix, Sums};

#[cfg(feature = "planted")]
thread_local! {
    static SUMMED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Bytes that this thread has put through [`crc32c`] so far. The growth measures work, which a clock does not. Wraps.
/// In tests only.
#[cfg(feature = "planted")]
pub fn summed() -> u64 {
    SUMMED.get()
}

/// The CRC32C (Castagnoli) of `bytes`, continued from `crc`.
///
/// ```
/// use thermocline_base::checksum::crc32c;
/// assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
/// assert_eq!(crc32c(crc32c(0, b"1234"), b"56789"), crc32c(0, b"123456789"));
/// ```
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    // Each call counts for some bytes, too.
    #[cfg(feature = "planted")]
    let _ = SUMMED.try_with(|summed| summed.set(summed.get().wrapping_add(bytes.len() as u64 + 8)));
    joined::append(crc, bytes)
}

/// Folds a seed and a place (an offset, a block number) into a CRC start value.
///
/// Both are mixed through all bits (the finaliser of splitmix64), so neighbouring places start
/// from unrelated values.
pub fn seeded(seed: u64, place: u64) -> u32 {
    let mut z = seed ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // The lower half of a 64-bit mix; cut on purpose.
    (z & 0xffff_ffff) as u32
}

/// A 64-bit hash of `bytes` (XXH3). Not stable across versions of the format: never stored.
pub fn hash64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

/// XXH3-64 of bytes that come piece by piece. Its values are fixed by its specification.
///
/// ```
/// use thermocline_base::checksum::{Hasher64, hash64_seeded};
/// let mut hasher = Hasher64::new();
/// hasher.add(b"1234");
/// hasher.add(b"56789");
/// assert_eq!(hasher.value(), hash64_seeded(b"123456789", 0));
/// ```
#[derive(Clone, Default)]
pub struct Hasher64(xxhash_rust::xxh3::Xxh3);

impl std::fmt::Debug for Hasher64 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hasher64({:#018x})", self.value())
    }
}

impl Hasher64 {
    /// Of no bytes yet.
    pub fn new() -> Hasher64 {
        Hasher64::default()
    }

    /// Takes in the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all so far.
    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

/// A 64-bit hash of `bytes` under `seed`: XXH3-64, whose values are fixed by its specification. Goldens pin the
/// values that are stored (the keys of filters, seeds of checksums).
pub fn hash64_seeded(bytes: &[u8], seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}
