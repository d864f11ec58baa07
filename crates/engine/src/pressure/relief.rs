//! Room that deletes make, where the disk is full.
//!
//! A full disk refuses all writes but deletes, so that nothing fills up any more, and nothing becomes due by
//! itself. But what a delete hides lies on the disk until a compaction brings the two together. So, while the disk
//! is full:
//!
//! 1. Deletes that were accepted are flushed: at once if there is a range tombstone among them, or [`DELETES_MANY`] of
//!    them; and when a write is refused, or the store falls idle. So each one leaves persistent memory in the end,
//!    and not each of many makes a table of its own.
//! 2. Compactions bring tombstones down before they do anything else (`pick::pick_room`), and none is done for the sake
//!    of reads.
//!
//! What both need is what is kept back, the reserve. They end: each job but a rewrite moves data down, and only
//! tables that were there when the disk became full are rewritten.

use thermocline_base::{FileId, Result};

use super::FULL;
use crate::store::Inner;
use crate::sync::{AtomicBool, AtomicU64, Ordering, lock};

/// So many writes that only delete are worth a flush.
const DELETES_MANY: u64 = 1000;

/// Relaxed throughout: numbers that guard nothing.
#[derive(Debug, Default)]
pub(super) struct Relief {
    /// Writes that were accepted while the disk was full, which only deleted, and were not flushed.
    deletes: AtomicU64,
    /// A flush of them is due.
    wanted: AtomicBool,
    /// Files from this number on were made when the disk was full.
    made_full: AtomicU64,
}

impl Inner {
    /// Whether the disk was full when it was last asked.
    pub fn is_disk_full(&self) -> bool {
        self.pressure.now.load(Ordering::Relaxed) & FULL != 0
    }

    /// The disk has become full.
    pub(super) fn note_full(&self) {
        let next = lock(&self.versions).next_file().0;
        let relief = &self.pressure.relief;
        relief.made_full.store(next, Ordering::Relaxed);
        // Tombstones that are in tables already.
        self.want_compaction();
    }

    /// Tables with smaller numbers may be rewritten for the sake of room.
    pub fn rewritten_for_room(&self) -> FileId {
        FileId(self.pressure.relief.made_full.load(Ordering::Relaxed))
    }

    /// A write was accepted though the disk is full: it can only have deleted.
    #[cold]
    pub fn note_delete(&self) {
        let deletes = &self.pressure.relief.deletes;
        let count = deletes.fetch_add(1, Ordering::Relaxed) + 1;
        if count >= DELETES_MANY || self.view.load().memtables[0].has_tombstones() {
            self.want_relief();
        }
    }

    /// Has deletes flushed, if the disk is full and there are any; whether that is so.
    pub fn want_relief(&self) -> bool {
        let relief = &self.pressure.relief;
        let due = self.is_disk_full() && relief.deletes.load(Ordering::Relaxed) > 0;
        if due {
            relief.wanted.store(true, Ordering::Relaxed);
            self.want_flush();
        }
        due
    }

    /// Flushes deletes, if that was asked for; whether it was.
    pub fn flush_deletes(&self) -> Result<bool> {
        let relief = &self.pressure.relief;
        let due = relief.wanted.swap(false, Ordering::Relaxed) && self.is_disk_full();
        if due {
            // Those that are accepted from here on are another flush's.
            let deletes = relief.deletes.swap(0, Ordering::Relaxed);
            let flushed = self.seal_active().and_then(|()| self.flush());
            if flushed.is_err() {
                relief.deletes.fetch_add(deletes, Ordering::Relaxed);
            }
            flushed?;
        }
        Ok(due)
    }
}
