//! Flushes on request: by a writer that found no room, or that deleted on a full disk.

use thermocline_base::{Error, Result};
use thermocline_env::DiskRoom;
use thermocline_policy::relief::margin;
use thermocline_policy::work::{Because, Decision, Work};

use super::Extent;
use super::due::First;
use crate::store::Flusher;
use crate::sync::Ordering;

impl Flusher {
    /// Flushes deletes if that was requested. Returns whether it was. The caller holds no lock.
    pub fn flush_deletes(&self) -> Result<bool> {
        let due = self.pressure.takes_relief();
        if due {
            self.common
                .decided(&Decision::of(Work::Relief, Because::Deletes));
            let flushed = self.flush_what_is_deleted();
            self.pressure.relieved(flushed.is_ok());
            flushed?;
        }
        Ok(due)
    }

    pub fn flush_what_is_deleted(&self) -> Result<()> {
        match self.flush() {
            // A range tombstone in the active memtable may hide most of the data that found no room.
            Err(error)
                if error.is_no_room()
                    && self.common.catalog.view().memtables[0].has_tombstones() =>
            {
                self.memtables.seal_active()?;
                self.flush()?;
            }
            flushed => drop(flushed?),
        }
        if !self.pressure.has_unflushed_deletes() {
            return Ok(());
        }
        let active = self.common.catalog.view().memtables[0].bytes();
        let takes = |disk: DiskRoom| disk.free > active + margin(disk.total);
        if self.evacuator.to_flush().is_empty() && self.common.disk_room().is_none_or(takes) {
            self.memtables.seal_active()?;
            self.flush()?;
        }
        Ok(())
    }

    /// Runs the flush that [`Common::want_flush`](crate::store::Common) has left to the writer. The caller holds no
    /// lock.
    #[inline]
    pub fn flush_inline(&self) {
        if !self.common.world.background
            && self.common.room.flush_wanted.swap(false, Ordering::Relaxed)
        {
            // An error that has not poisoned the store is reported to the next write that needs the room.
            let _ = self.flush_wanted();
        }
    }

    /// Flushes what is due, or everything if a writer found no room, or deleted on a full disk.
    pub fn flush_wanted(&self) -> Result<()> {
        if self.flush_deletes()? {
            // That has flushed everything.
            self.common.room.room_wanted.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let room_wanted = self.common.room.room_wanted.swap(false, Ordering::Relaxed);
        // Memtables that are kept for change feeds have no DRAM to give.
        if room_wanted && !self.common.is_dram_short() && self.reclaimer.yield_kept()? {
            return Ok(());
        }
        if room_wanted && self.evacuator.to_flush().is_empty() {
            self.memtables.seal_active()?;
        }
        let mut decision = self.make_indexes_ready(room_wanted)?;
        if self.seal_for_scans(&decision)? {
            // In whole zones it takes more than it had.
            decision = self.flush_due.next_flush(room_wanted, First::default());
        }
        if decision.work != Work::Flush {
            return Ok(());
        }
        self.common.decided(&decision);
        let extent = if room_wanted {
            Extent::All
        } else {
            Extent::Due
        };
        let flushed = self.flush_and_compact(extent)?;
        if flushed == 0 && room_wanted {
            self.reclaimer.yield_kept()?;
        }
        if flushed > 0 {
            // As much again may be due.
            self.flush_due.flush_if_due();
        }
        Ok(())
    }

    /// Seals the active memtable where the flush that is due for scans takes it, too. Returns whether one does.
    fn seal_for_scans(&self, decision: &Decision) -> Result<bool> {
        if decision.work != Work::Flush || !decision.seals() {
            return Ok(false);
        }
        self.common.decided(decision);
        match self.memtables.seal_active() {
            // It takes writes on, unless the store is poisoned, and the others go alone.
            Err(Error::OutOfSpace(_) | Error::Io { .. }) => self.common.poison.check()?,
            sealed => sealed?,
        }
        Ok(true)
    }

    /// Flushes what is due, for whoever waits until nothing is. Returns how many memtables.
    pub fn flush_due_now(&self) -> Result<usize> {
        let decision = self.make_indexes_ready(false)?;
        if decision.work != Work::Flush {
            return Ok(0);
        }
        self.seal_for_scans(&decision)?;
        self.flush_sealed(Extent::Due)
    }

    /// Makes indexes anew before the flush that is due, where that is to be done first. Returns what is next then.
    fn make_indexes_ready(&self, room_wanted: bool) -> Result<Decision> {
        let mut first = First {
            dead_in_merged: Some(self.common.dead_in_merged()),
            wide: self.merger.wide_bytes(),
        };
        let mut decision = self.flush_due.next_flush(room_wanted, first);
        if decision.work == Work::RemakeIndexes {
            self.common.decided(&decision);
            self.merger.merge_instead()?;
            first = First {
                dead_in_merged: None,
                wide: self.merger.wide_bytes(),
            };
            decision = self.flush_due.next_flush(room_wanted, first);
        }
        if decision.work == Work::DivideIndexes {
            self.common.decided(&decision);
            self.merger.divide_before_flush()?;
            decision = self.flush_due.next_flush(room_wanted, First::default());
        }
        Ok(decision)
    }

    /// The flush job of a job thread.
    pub fn flush_job(&self) -> Result<()> {
        let crowded = self.common.is_crowded();
        let flushed = self.flush_in_job(crowded);
        // Others may wait for what was promised here, whatever became of the flush.
        if crowded {
            self.memtables.give_credit_back();
        }
        flushed
    }

    fn flush_in_job(&self, crowded: bool) -> Result<()> {
        // Memtables may have died since the job was requested.
        self.reclaimer.reclaim_readable()?;
        if crowded && self.common.flushes() {
            let active = self.common.catalog.view().memtables[0].clone();
            let stores = self.common.background.stores();
            if self
                .common
                .dram()
                .seals_for_others(active.index_bytes(), stores)
            {
                self.memtables.seal_active()?;
                self.common.room.room_wanted.store(true, Ordering::Relaxed);
            }
        }
        self.flush_wanted()
    }
}
