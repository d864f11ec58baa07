//! The blob files that the records of a memtable refer to.
//!
//! What a memtable refers to is counted when a record is indexed, and never taken back: a memtable goes as
//! a whole, and its references with it. So a version that was overwritten counts until then. That errs on
//! the safe side: a blob file may stay longer than it must, never go sooner.

use std::collections::BTreeMap;

use thermocline_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use thermocline_base::{BlobRef, FileId};

/// See the [module](self).
#[derive(Debug, Default)]
pub struct BlobUse {
    /// Bytes of values by file.
    files: Mutex<BTreeMap<FileId, u64>>,
    /// Their sum. Relaxed: it guards nothing.
    bytes: AtomicU64,
    /// A record could not be read that may refer to any. Set before the store is open.
    unknown: AtomicBool,
}

impl BlobUse {
    /// A record refers to this value. Whoever holds the file lets go of it after this.
    pub fn refer(&self, to: BlobRef) {
        *lock(&self.files).entry(to.file).or_default() += u64::from(to.len);
        self.bytes.fetch_add(u64::from(to.len), Ordering::Relaxed);
    }

    /// A record that cannot be read may refer to any file.
    pub fn refer_to_unknown(&self) {
        self.unknown.store(true, Ordering::Relaxed);
    }

    /// Bytes of values that it refers to.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it may refer to this file.
    pub fn has(&self, file: FileId) -> bool {
        self.is_unknown() || lock(&self.files).contains_key(&file)
    }

    /// Whether it may refer to some file.
    pub fn may_refer(&self) -> bool {
        self.is_unknown() || self.bytes() > 0
    }

    /// Whether it may refer to any file.
    pub fn is_unknown(&self) -> bool {
        self.unknown.load(Ordering::Relaxed)
    }

    /// The files that it is known to refer to, ascending.
    pub fn files(&self) -> Vec<FileId> {
        lock(&self.files).keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_referred_to_once_a_record_names_it_or_one_is_unknown() {
        let blobs = BlobUse::default();
        let to = |file, len| BlobRef {
            file: FileId(file),
            offset: 64,
            len,
        };
        assert!(!blobs.has(FileId(7)) && blobs.bytes() == 0);
        for (file, len) in [(7, 100), (9, 20), (7, 3)] {
            blobs.refer(to(file, len));
        }
        assert_eq!(blobs.files(), [FileId(7), FileId(9)]);
        assert_eq!(blobs.bytes(), 123);
        assert!(blobs.has(FileId(9)) && !blobs.has(FileId(8)));
        blobs.refer_to_unknown();
        assert!(blobs.has(FileId(8)));
    }
}
