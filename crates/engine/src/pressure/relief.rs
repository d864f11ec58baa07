//! Room that deletes make, where the disk is full.
//!
//! A full disk refuses all writes but deletes, so that nothing fills up any more, and nothing becomes due by
//! itself. But what a delete hides lies on the disk until a compaction brings the two together. So, while the disk
//! is full, or has no room for a long value that somebody wants to write:
//!
//! 1. Deletes in persistent memory are flushed: when the disk becomes full, when a write is refused, when the store falls
//!    idle, and when a range was deleted or many writes have deleted; but, as far as threads do it, not sooner
//!    than some time after the flush before. So each delete leaves persistent memory in the end, and not each of many
//!    makes a table of its own. What was accepted before the disk was full counts too; after an open that is
//!    everything, since nobody knows.
//! 2. Compactions bring tombstones down before they do anything else (`pick::pick_room`), those first for which there is
//!    room whatever they leave; none is done for the sake of reads.
//! 3. Where that has left blob files with much garbage, what is alive moves out of them, if it has room (`compact::collect`).
//!
//! # What is left alone
//! What a flush of persistent memory takes is kept for it: a compaction of this kind that would go beyond
//! looks while it writes, and gives up in time ([`Pressure::check_room_of_job`]), as one does that size demands; then
//! only smaller ones are tried, until there is clearly more room. One compaction runs at a time. Nothing is sealed while sealed memtables could not be flushed, since that
//! gives up the rest of a zone, nor where so little is left that naming another memtable might fail.
//!
//! When that is, and why it ends, is decided by `policy::relief`. What was left alone meanwhile is looked for again from time to time, though
//! nobody writes.

pub(crate) mod state;

use std::time::Duration;

use thermocline_base::{Error, FileId, Result, SeqNo};
use thermocline_policy::relief::{Pause, are_many, looks_at_readers, room_for_jobs};
use thermocline_policy::tuning::AGAIN_NS;
use thermocline_runtime::Task;

use super::gauge::FULL;
use crate::store::Pressure;
use crate::sync::{Arc, Ordering};
use thermocline_memtable::Memtable;

impl Pressure {
    /// Some files were removed. Their room may come back only with the folder's sync.
    pub fn note_removed(&self) {
        self.gauge.relief.removed.store(true, Ordering::Relaxed);
    }

    /// Whether room is wanted and files were removed since this was last so.
    pub fn wants_removals(&self) -> bool {
        self.is_relieving() && self.gauge.relief.removed.swap(false, Ordering::Relaxed)
    }

    /// Whether the disk was full when it was last asked.
    pub fn is_disk_full(&self) -> bool {
        self.gauge.now.load(Ordering::Relaxed) & FULL != 0
    }

    /// Whether room is made from deletes.
    pub fn is_relieving(&self) -> bool {
        self.is_disk_full() || self.gauge.relief.is_starved(|| self.common.now_ns())
    }

    /// A write that deletes something has been given this seqno; or, when the store is opened, any may be a delete up
    /// to it. The caller holds the writer's lock.
    #[inline]
    pub fn deleted(&self, last: SeqNo) {
        let relief = &self.gauge.relief;
        relief.deleted_up_to.store(last.0, Ordering::Relaxed);
    }

    /// Somebody wants to write so many bytes at once, for which there is no room.
    pub(super) fn note_starved(&self, bytes: u64) {
        let begins = self.gauge.relief.starve(bytes, self.common.now_ns());
        // Else that was done when it became full.
        if begins && !self.is_disk_full() {
            self.note_full();
        }
    }

    /// The disk has become full, or has too little room for somebody. The caller may hold the writer's lock.
    pub(super) fn note_full(&self) {
        let relief = &self.gauge.relief;
        let deleted = relief.deleted_up_to.load(Ordering::Relaxed);
        if relief.made_full_at.swap(deleted, Ordering::Relaxed) != deleted {
            self.rewrite_all_for_room();
        }
        self.common.compactions.costs.forget_given_up();
        self.want_relief();
        // Tombstones that are in tables already.
        self.common.want_compaction();
    }

    /// The tables of now may be rewritten for the sake of room.
    fn rewrite_all_for_room(&self) {
        let relief = &self.gauge.relief;
        let next = self.common.catalog.next_file().0;
        relief.made_full.store(next, Ordering::Relaxed);
        relief.read_from.store(self.read_from(), Ordering::Relaxed);
    }

    /// The oldest moment that somebody reads at.
    fn read_from(&self) -> u64 {
        let readers = self.common.commits.readers.by_seqno();
        readers.keys().next().copied().unwrap_or(u64::MAX)
    }

    /// Compactions for the sake of room are chosen now, and keep what somebody reads. Who came since the disk became full counts, too.
    pub fn note_readers(&self) {
        let relief = &self.gauge.relief;
        relief
            .read_from
            .fetch_min(self.read_from(), Ordering::Relaxed);
    }

    /// Has tables rewritten again where a reader has gone who had kept from them what was deleted.
    pub fn look_whether_readers_have_gone(&self) {
        let relief = &self.gauge.relief;
        let now = self.common.now_ns();
        let looked = relief.read_looked_ns.load(Ordering::Relaxed);
        if !self.is_relieving() || !looks_at_readers(looked, now) {
            return;
        }
        relief.read_looked_ns.store(now, Ordering::Relaxed);
        if self.read_from() > relief.read_from.load(Ordering::Relaxed) {
            self.rewrite_all_for_room();
            self.common.want_compaction();
        }
    }

    /// Tables with smaller numbers may be rewritten for the sake of room.
    pub fn rewritten_for_room(&self) -> FileId {
        FileId(self.gauge.relief.made_full.load(Ordering::Relaxed))
    }

    /// A write was accepted though the disk is full: it can only have deleted.
    #[cold]
    pub fn note_delete(&self) {
        let deletes = &self.gauge.relief.deletes;
        let count = deletes.fetch_add(1, Ordering::Relaxed) + 1;
        if are_many(count) || self.common.catalog.view().memtables[0].has_tombstones() {
            self.want_relief();
        }
    }

    /// Asks for a flush of the deletes that are not in tables yet, if room is wanted. During the pause after the last
    /// such flush it asks for a later look instead; without threads there is no pause. Returns whether the flush is to
    /// be done now. The caller may hold the writer's lock.
    pub fn want_relief(&self) -> bool {
        let relief = &self.gauge.relief;
        let ended = relief.ended_ns.load(Ordering::Relaxed);
        let pauses =
            self.common.world.background && self.pause().lasts(ended, self.common.now_ns());
        let due = self.is_relieving() && self.has_unflushed_deletes();
        match pauses {
            // The look comes even if nobody calls this again.
            true if due => self.look_after_pause(),
            false if due => {
                relief.wanted.store(true, Ordering::Relaxed);
                self.common.want_flush();
            }
            _ => {}
        }
        due && !pauses
    }

    /// Has it looked again whether the pause is over: then, or sooner, since a timer that is set is not set anew, and jobs wait for this
    /// one, too. That of an idle store would make it fall idle as late as the pause ends, and finds nothing where somebody always writes.
    fn look_after_pause(&self) {
        let pause = Duration::from_nanos(self.pause().ns.min(AGAIN_NS));
        self.common.background.request_after(Task::Retry, pause);
    }

    /// How long the next flush of deletes waits behind the last one.
    fn pause(&self) -> Pause {
        Pause {
            ns: self.gauge.relief.pause_ns.load(Ordering::Relaxed),
        }
    }

    pub fn has_unflushed_deletes(&self) -> bool {
        let last = SeqNo(self.gauge.relief.deleted_up_to.load(Ordering::Relaxed));
        let view = self.common.catalog.view();
        let has = |memtable: &Arc<Memtable>| !memtable.is_empty() && memtable.base() <= last;
        let sealed = || self.common.reclaim.unflushed(view.memtables[1..].iter());
        last.0 > 0 && (has(&view.memtables[0]) || sealed().iter().any(has))
    }

    /// Bytes of the disk that a compaction may use which nothing demands but lack of room: what is free beyond that
    /// which all flushes might take. `None` if the disk does not say.
    pub fn room_for_jobs(&self) -> Option<u64> {
        let disk = self.common.disk_room()?;
        // What is flushed already, and kept for others, takes nothing.
        let flushes = self.common.catalog.view().memtables[0].bytes() + self.common.sealed().bytes;
        Some(room_for_jobs((disk.free, disk.total), flushes))
    }

    /// For a compaction that is done for the sake of room: whether it may go on.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if it takes what it was to make.
    pub fn check_room_of_job(&self) -> Result<()> {
        match self.room_for_jobs() {
            Some(0) => Err(Error::OutOfSpace(format!(
                "a compaction that was to make room on the disk of {} has found too little for itself",
                self.common.given.display()
            ))),
            _ => Ok(()),
        }
    }

    /// A compaction of so many bytes has given up, which began with so much room. Larger ones are put off for a
    /// while.
    pub fn job_gave_up(&self, bytes: u64, room: u64) {
        let now = self.common.now_ns();
        self.common.compactions.costs.job_gave_up(bytes, room, now);
    }

    /// Whether a flush of deletes was asked for, which begins now.
    pub fn takes_relief(&self) -> bool {
        let relief = &self.gauge.relief;
        let due = relief.wanted.swap(false, Ordering::Relaxed) && self.is_relieving();
        if due {
            relief.deletes.store(0, Ordering::Relaxed);
        }
        due
    }

    /// A flush of deletes has ended, or failed.
    pub fn relieved(&self, flushed: bool) {
        let relief = &self.gauge.relief;
        let now = self.common.now_ns().max(1);
        relief.ended_ns.store(now, Ordering::Relaxed);
        let pause = self.pause().after(flushed);
        relief.pause_ns.store(pause.ns, Ordering::Relaxed);
        if self.has_unflushed_deletes() {
            // Some came meanwhile, or there was no room for them.
            self.look_after_pause();
        }
    }
}
