//! What is known of making room.

use thermocline_policy::relief::{Pause, has_given_up};

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// Relaxed throughout: numbers that guard nothing.
#[derive(Debug)]
pub(crate) struct Relief {
    /// No delete has a larger seqno; 0 if there is none that counts.
    pub(super) deleted_up_to: AtomicU64,
    /// Writes that were accepted while the disk was full since the last attempt.
    pub(super) deletes: AtomicU64,
    /// A flush of deletes is due.
    pub(super) wanted: AtomicBool,
    /// When the last one ended; 0 if there was none.
    pub(super) ended_ns: AtomicU64,
    /// Files from this number on were made when the disk was full, or somebody waited for room there.
    pub(super) made_full: AtomicU64,
    /// What `deleted_up_to` was then.
    pub(super) made_full_at: AtomicU64,
    /// The oldest moment that somebody read at then, or since then when compactions were chosen for the sake of room.
    pub(super) read_from: AtomicU64,
    /// When it was looked whether that reader has gone.
    pub(super) read_looked_ns: AtomicU64,
    /// Bytes that somebody wants to write at once, for which there is no room; 0 if nobody does.
    pub(super) starved: AtomicU64,
    /// When somebody last asked.
    pub(super) starved_ns: AtomicU64,
    /// How long the next flush of deletes waits behind the last one.
    pub(super) pause_ns: AtomicU64,
    /// Files were removed whose room may come back only with the folder's sync.
    pub(super) removed: AtomicBool,
}

impl Default for Relief {
    fn default() -> Relief {
        Relief {
            deleted_up_to: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            ended_ns: AtomicU64::new(0),
            made_full: AtomicU64::new(0),
            made_full_at: AtomicU64::new(u64::MAX),
            read_from: AtomicU64::new(u64::MAX),
            read_looked_ns: AtomicU64::new(0),
            starved: AtomicU64::new(0),
            starved_ns: AtomicU64::new(0),
            pause_ns: AtomicU64::new(Pause::default().ns),
            removed: AtomicBool::new(false),
        }
    }
}

impl Relief {
    /// Somebody wants to write so many bytes at once, and asks at this time. Whether nobody has before.
    pub fn starve(&self, bytes: u64, now_ns: u64) -> bool {
        if bytes == 0 {
            return false;
        }
        let before = self.starved.fetch_max(bytes, Ordering::Relaxed);
        self.starved_ns.store(now_ns, Ordering::Relaxed);
        before == 0
    }

    /// Whether somebody does who has asked not long ago. Who has given up is forgotten.
    pub(super) fn is_starved(&self, now_ns: impl Fn() -> u64) -> bool {
        if self.starved.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let gone = has_given_up(self.starved_ns.load(Ordering::Relaxed), now_ns());
        if gone {
            self.starved.store(0, Ordering::Relaxed);
        }
        !gone
    }

    /// So many bytes may be written.
    pub fn feed(&self, room: u64) {
        let starved = self.starved.load(Ordering::Relaxed);
        if starved > 0 && room > starved {
            self.starved.store(0, Ordering::Relaxed);
        }
    }
}
