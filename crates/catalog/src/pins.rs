//! Values that readers hold where they lie, and the folder of a store that was closed.

use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};
use thermocline_env::LockGuard;

/// What is pinned in a store.
#[derive(Debug, Default)]
pub struct Pins {
    bytes: AtomicU64,
    /// Of a store that was closed: its folder, until nobody reads on.
    folder: Mutex<Option<Box<dyn LockGuard>>>,
}

impl Pins {
    /// The store is about to be closed, and its folder held for as long as this is: by what is
    /// pinned, and by the views of those who read on. A handle of the store does not hold it.
    pub fn hold(&self, folder: Option<Box<dyn LockGuard>>) {
        *lock(&self.folder) = folder;
    }

    /// Bytes of values that are pinned.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// So many bytes are pinned.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many are not any more.
    pub fn sub(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}
