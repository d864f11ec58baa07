//! A hash of everything that was read.

use thermocline_base::checksum::hash64_seeded;

/// A hash of everything that was read.
#[derive(Debug, Default)]
pub(super) struct Digest(pub(super) u64);

impl Digest {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0 = hash64_seeded(bytes, self.0 ^ bytes.len() as u64);
    }

    pub(super) fn number(&mut self, n: u64) {
        self.add(&n.to_le_bytes());
    }
}
