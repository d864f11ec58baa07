//! Who has made room, and who waits for some.

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Who made room, and who wants some.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Times that something was given back. Raised behind what it stands for: an attempt that has failed
    /// before the room was there sees another count than the one it began with.
    pub(super) made: AtomicU64,
    /// A flush is left to the writer (`flush::due`).
    pub flush_wanted: AtomicBool,
    /// Somebody found no room, and did not wait.
    pub room_wanted: AtomicBool,
}

impl Room {
    /// Something was given back.
    pub fn note(&self) {
        self.made.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }
}
