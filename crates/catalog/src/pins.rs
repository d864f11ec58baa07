//! Values that readers hold where they lie, and the folder of a store that was closed.

use std::sync::{Arc, PoisonError};

use thermocline_base::sync::{AtomicBool, AtomicU64, Ordering};
use thermocline_env::LockGuard;

/// What views hold of a store: as long as there are any, somebody may read whatever they lead to.
#[derive(Debug)]
pub struct Pins {
    pinned: Arc<Pinned>,
    /// Whether the last view of the store goes with this.
    is_stores: bool,
}

impl Default for Pins {
    fn default() -> Pins {
        Pins {
            pinned: Arc::default(),
            is_stores: true,
        }
    }
}

impl Pins {
    /// That of views which are kept apart from those of the store, and say themselves what they lead to.
    pub(crate) fn apart(&self) -> Pins {
        Pins {
            pinned: self.pinned.clone(),
            is_stores: false,
        }
    }

    /// What values hold.
    pub fn pinned(&self) -> &Arc<Pinned> {
        &self.pinned
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if self.is_stores {
            // Release: what was read through views is over. Its partner is `is_viewed`.
            self.pinned.viewed.store(false, Ordering::Release);
        }
    }
}

/// What is pinned in a store. Values that are read in place hold this, and views do.
#[derive(Debug)]
pub struct Pinned {
    bytes: AtomicU64,
    /// Of a store that was closed: its folder, until nobody reads on. For moments, and by the system's lock:
    /// whoever opens a store looks at all that were closed, and a scheduler that explores orders of threads must
    /// not meet in one what it left in another.
    folder: std::sync::Mutex<Option<Box<dyn LockGuard>>>,
    /// Whether there may be a view. Once there is none, there will be none.
    viewed: AtomicBool,
}

impl Default for Pinned {
    fn default() -> Pinned {
        Pinned {
            bytes: AtomicU64::new(0),
            folder: std::sync::Mutex::default(),
            viewed: AtomicBool::new(true),
        }
    }
}

impl Pinned {
    /// The store is about to be closed, and its folder held for as long as this is: by what is
    /// pinned, and by the views of those who read on. A handle of the store does not hold it.
    pub fn hold(&self, folder: Option<Box<dyn LockGuard>>) {
        let before = std::mem::replace(&mut *self.folder(), folder);
        drop(before);
    }

    fn folder(&self) -> std::sync::MutexGuard<'_, Option<Box<dyn LockGuard>>> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a folder is held for this, in the file system that `lock` is of.
    pub fn has_folder_beside(&self, lock: &dyn LockGuard) -> bool {
        self.folder()
            .as_ref()
            .is_some_and(|own| own.disk() == lock.disk())
    }

    /// Whether somebody may have a view of the store, which has been closed.
    pub fn is_viewed(&self) -> bool {
        // Acquire: its partner is the drop of `Pins`.
        self.viewed.load(Ordering::Acquire)
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
