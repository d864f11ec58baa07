//! A value as the cache keeps it.

use thermocline_base::numbers::{len_of, len32};
use thermocline_base::{BlobRef, CfId};

/// A value that is in.
#[derive(Debug)]
pub struct CachedValue {
    cf: CfId,
    /// As it is stored.
    stored_len: u32,
    value_len: u32,
    /// The value, and the key behind it.
    bytes: Box<[u8]>,
}

impl CachedValue {
    /// The value of a key, which was read at `blob`.
    pub fn new((cf, key): (CfId, &[u8]), blob: BlobRef, value: &[u8]) -> CachedValue {
        let mut bytes = Vec::with_capacity(value.len() + key.len());
        bytes.extend_from_slice(value);
        bytes.extend_from_slice(key);
        CachedValue {
            cf,
            stored_len: blob.len,
            value_len: len32(value.len()),
            bytes: bytes.into(),
        }
    }

    /// Bytes of memory that it takes.
    pub fn charge(&self) -> usize {
        self.bytes.len()
    }

    /// The value, if it is the one of that key at `blob`.
    pub fn of(&self, (cf, key): (CfId, &[u8]), blob: BlobRef) -> Option<&[u8]> {
        let (value, own) = self.bytes.split_at_checked(len_of(self.value_len))?;
        let is_his = own == key && self.cf == cf && self.stored_len == blob.len;
        is_his.then_some(value)
    }
}
