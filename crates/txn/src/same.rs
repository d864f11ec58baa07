//! A hasher for what is a hash already.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes that are their own hashes.
#[derive(Debug, Default)]
pub(crate) struct Same(u64);

/// What maps are made with.
pub(crate) type BySame = BuildHasherDefault<Same>;

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
