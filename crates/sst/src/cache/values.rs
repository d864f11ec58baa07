//! Values of blob files in the cache.
//!
//! Each is kept with its family, its key and its length in the file, so that who asks for one finds it only if it is his: as the file itself
//! says whose each of its values is. Long ones are not kept.

use thermocline_base::{BlobRef, CfId};

use super::kept::CachedValue;
use super::own::Key;
use super::{Cached, Count, StoreCache};

/// A longer value is not kept: it takes the room of many, and reading it takes long for its bytes.
pub const CACHED_VALUE_MAX: usize = 64 << 10;

impl StoreCache {
    fn key_of(&self, blob: BlobRef) -> Key {
        Key {
            store: self.store,
            file: blob.file,
            offset: blob.offset,
        }
    }

    /// The value of a key at `blob`, if it is in the cache.
    pub fn find_value(&self, of: (CfId, &[u8]), blob: BlobRef) -> Option<Vec<u8>> {
        if self.cache.bytes_max == 0 {
            return None;
        }
        let entry = self.cache.blocks.get(&self.key_of(blob))?;
        let Cached::Value(kept) = &entry.what else {
            return None;
        };
        let value = kept.of(of, blob)?.to_vec();
        entry.own.was_found();
        self.count(Count::Hits);
        Some(value)
    }

    /// Whether the value at `blob` is in the cache. To ask is not to use it.
    pub fn has_value(&self, blob: BlobRef) -> bool {
        self.cache.bytes_max > 0 && self.cache.blocks.contains_key(&self.key_of(blob))
    }

    /// Keeps the value of a key, which was read at `blob`, if there is room.
    pub fn keep_value(&self, of: (CfId, &[u8]), blob: BlobRef, value: &[u8]) {
        self.count(Count::Misses);
        if self.cache.bytes_max == 0 || value.len() > CACHED_VALUE_MAX {
            return;
        }
        let kept = CachedValue::new(of, blob, value);
        self.insert(self.key_of(blob), self.admit(Cached::Value(kept)));
    }
}
