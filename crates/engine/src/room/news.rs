//! Who has made room, and who waits for some.

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Who made room, and who wants some.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Times that something was given back. Raised behind what it stands for: an attempt that has failed
    /// before the room was there sees another count than the one it began with.
    pub(super) made: AtomicU64,
    /// Most DRAM that a write was refused since something was given back, for which there is room once jobs have
    /// ended. Whoever waits for them asks for as much.
    lacking: AtomicU64,
    /// A flush is left to the writer (`flush::deletes`).
    pub flush_wanted: AtomicBool,
    /// Somebody found no room, and did not wait.
    pub room_wanted: AtomicBool,
}

impl Room {
    /// Something was given back.
    pub fn note(&self) {
        self.lacking.store(0, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::SeqCst);
    }

    /// A write needs so much more DRAM than there is.
    pub fn note_lacking(&self, bytes: u64) {
        self.lacking.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(super) fn lacking(&self) -> u64 {
        self.lacking.load(Ordering::Relaxed)
    }

    /// Forgets what was noted as lacking; whether something was.
    pub(super) fn forget_lacking(&self) -> bool {
        self.lacking.swap(0, Ordering::Relaxed) > 0
    }

    pub fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }
}
