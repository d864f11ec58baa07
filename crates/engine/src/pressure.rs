//! How writers are held back before anything is full (`policy::pressure` has the slope).
//!
//! What a write costs in delay is the slope's nanoseconds for each of its bytes. That is reckoned anew when
//! what it depends on has changed, which is seldom: a zone was attached or given back, a job was installed. A write looks
//! at one number, and if that is 0, goes on.
//!
//! Delay is owed by the store, not by each writer: `Gauge::owed_until` is a time up to which its writes
//! have used up what the slope allows. Whoever writes moves it on, and waits until it has come, if it
//! is farther away than a moment. So writers share one debt, and what a write takes anyway counts. That time is never
//! farther away than [`DELAY_NS_MAX`](thermocline_policy::tuning::DELAY_NS_MAX): nobody waits longer at a time, and what is owed beyond that is
//! forgotten. Below that several writers are together as slow as one alone would be. Where large writes, or those of many threads, owe
//! more at once, they wait for the same time, and are together faster than the slope says.
//!
//! Who asked not to wait does not, but owes what it costs; the next one that asks so is refused until the time has come.
//!
//! Writers wait before they ask for their grant, and hold no lock. Time is the clock's of `env`. Stores
//! without background have no delay.
//!
//! # The disk
//! How much of it is kept for flushes and compactions, when writers are refused, and how far a region on it grows, is decided by
//! `policy::room`. Reads, flushes, compactions and files that are removed go on, and each refusal asks the file system again. Where
//! it says nothing, nothing is kept. What deletes make room then is [`relief`]'s. What is free at a region's end goes back to the
//! disk when that is full, or nearly so and the store idle ([`Reclaimer::give_space_back`](crate::store::Reclaimer)), as do logs that were kept to be used again.
//!
//! Each store keeps its own reserve: several on one disk may ask
//! for more than is left when all of them flush at once; then a flush fails, loses nothing, and is tried again.

pub(crate) mod gauge;
mod relief;

use std::collections::BTreeSet;

use thermocline_base::size::format_size;
use thermocline_base::{Error, FileId, Result};
use thermocline_memtable::BlobUse;
use thermocline_policy::pressure::{self, Debt, Delay};
use thermocline_policy::room::{Disk, waiting};
use thermocline_policy::tuning::DELAY_PIECE_NS;

use crate::busy::busy;
use crate::compact::state::Behind;
use crate::store::{Admission, Pressure};
use crate::sync::Ordering;
use gauge::FULL;

impl Pressure {
    /// What fills up has changed.
    pub fn press(&self) {
        let disk = self.disk();
        self.limit_region(disk);
        if !self.common.flushes() {
            return;
        }
        let full = disk.is_some_and(|disk| disk.is_full());
        let behind = self.common.compactions.behind();
        let debt = match self.common.world.background {
            true => self.debt(&behind, disk),
            false => Debt::default(),
        };
        let was_full = self.is_disk_full();
        let of_disk = disk.map(|disk| disk.limits());
        let pm = self.common.space.usage().limit_bytes;
        let limits = (of_disk, behind.garbage_limits);
        self.gauge.set(&debt, pm, limits, full);
        if self.common.compactions.gives_way() {
            let tables = self.pm_tables_of_share();
            let need = self.gauge.need(&debt, pm, limits, tables);
            self.common.compactions.needs(need);
        }
        if let Some(disk) = disk {
            self.gauge.relief.feed(disk.beyond_reserve());
        }
        if full && !was_full {
            self.note_full();
        }
    }

    fn debt(&self, behind: &Behind, disk: Option<Disk>) -> Debt {
        let keeping = self.common.keeping();
        // What is kept for change feeds goes as soon as somebody needs the room.
        let kept = self.common.reclaim.kept(&keeping).bytes;
        let space = self.common.space.usage();
        let attached = space.attached_bytes.saturating_sub(kept);
        Debt {
            pm_bytes: waiting(attached, self.pm_bytes_at_home(), space.limit_bytes),
            level0_tables: behind.level0_runs,
            pending_bytes: behind.pending_bytes,
            disk_bytes: disk.map_or(0, |disk| disk.used()),
            garbage_bytes: self.garbage_to_wait_for(behind),
        }
    }

    /// Bytes of garbage for which collection makes room: none in files that memtables may refer to, since what those need is not
    /// counted.
    fn garbage_to_wait_for(&self, behind: &Behind) -> u64 {
        let garbage = behind.garbage_bytes;
        // What delays nobody yet may have jobs rest less (`policy::pace`).
        if garbage == 0 || !self.common.compactions.collects() {
            return 0;
        }
        let view = self.common.catalog.view();
        let homes = view.memtables.iter().flat_map(|memtable| memtable.homes());
        let noted: Vec<&BlobUse> = homes
            .map(|home| home.blobs())
            .filter(|of| of.may_refer())
            .collect();
        if noted.is_empty() {
            return garbage;
        }
        if noted.iter().any(|of| of.is_unknown()) {
            return 0;
        }
        let files: BTreeSet<FileId> = noted.iter().flat_map(|of| of.files()).collect();
        let of_file = |file: FileId| {
            let at = behind.blob_files.binary_search_by_key(&file, |of| of.file);
            at.map_or(0, |at| behind.blob_files[at].garbage())
        };
        garbage.saturating_sub(files.into_iter().map(of_file).sum())
    }

    /// Persistent memory of tables that may stay there: it does not wait for anything.
    fn pm_bytes_at_home(&self) -> u64 {
        let (bytes, share) = self.pm_tables_of_share();
        bytes.min(share)
    }

    /// Persistent memory of tables, and what of it may stay there.
    fn pm_tables_of_share(&self) -> (u64, u64) {
        let share = self.common.compactions.shape.geometry().pm_bytes_max;
        share.map_or((0, 0), |share| {
            let tables = self.common.pm_tables_use();
            (tables.bytes - tables.retired_bytes, share)
        })
    }

    /// The same, and what may need it.
    pub fn disk(&self) -> Option<Disk> {
        let disk = self.common.disk_room()?;
        Some(Disk {
            free: disk.free,
            total: disk.total,
            attached: self.common.space.usage().attached_bytes,
            job: self.common.compactions.shape.geometry().job_bytes_max(),
        })
    }

    /// Lets the region grow no farther than the disk allows, and has level 0 keep to its part of that.
    fn limit_region(&self, disk: Option<Disk>) {
        let Some(disk) = disk.filter(|_| self.gauge.region_on_disk) else {
            return;
        };
        let (limit, tries) = disk.region_limit(self.common.space.region_bytes());
        let (space, share) = (&self.common.space, &self.common.compactions.shape.share);
        space.set_device_limit(limit, tries);
        share.region_may_have(space.usage().limit_bytes, space.limit());
    }

    /// How much writers are held back.
    pub fn pressing(&self) -> Option<Delay> {
        self.gauge.get()
    }
}

impl Admission {
    /// Holds a write of `bytes` bytes back, if that is due. The caller holds no lock.
    ///
    /// # Errors
    /// [`Error::Busy`] for one with `no_slowdown` that would have to wait; [`Error::OutOfSpace`] if the rest of the disk
    /// is kept for the store's own work, and the write does not only delete.
    #[inline]
    pub fn hold_back(
        &self,
        bytes: u64,
        no_slowdown: bool,
        only_deletes: impl FnOnce() -> bool,
    ) -> Result<()> {
        match self.pressure.gauge.now.load(Ordering::Relaxed) {
            0 => Ok(()),
            now => {
                if now & FULL != 0 && !only_deletes() {
                    self.check_disk(0)?;
                }
                self.delay(bytes, no_slowdown)
            }
        }
    }

    /// As [`Admission::hold_back`], for who does not wait and has another step to come: it owes afterwards.
    ///
    /// # Errors
    /// [`Error::Busy`] where it would have to wait for what others owe.
    pub fn refuse_if_owed(&self) -> Result<()> {
        let gauge = &self.pressure.gauge;
        let owed_until = gauge.owed_until.load(Ordering::Relaxed);
        let is_held = gauge.now.load(Ordering::Relaxed) & !FULL != 0;
        match is_held && pressure::waits(owed_until, self.common.now_ns()) {
            true => Err(busy("for flushing or compaction, which are behind")),
            false => Ok(()),
        }
    }

    /// A write that did not wait owes `bytes` for what was set apart of it, if it was `written`.
    pub fn owe_for(&self, bytes: u64, written: &Result<()>) {
        let gauge = &self.pressure.gauge;
        if written.is_ok() && bytes > 0 && gauge.now.load(Ordering::Relaxed) & !FULL != 0 {
            let _ = gauge.owe(bytes, self.common.now_ns());
        }
    }

    /// Asks again whether the disk is full, or would be with so many bytes more. What is only kept for change feeds
    /// gives way, as far as that helps: nobody who writes waits for feeds. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Admission::hold_back`].
    #[cold]
    pub fn check_disk(&self, bytes: u64) -> Result<()> {
        let mut checked = self.disk_takes(bytes);
        if checked.is_err() {
            self.pressure.note_starved(bytes);
            self.pressure.want_relief();
            self.pressure.look_whether_readers_have_gone();
            self.common.want_compaction();
            // Where there is nobody else for it. What fails is tried again.
            self.flusher.flush_inline();
            let _ = self.flusher.compact_inline();
            // What somebody read when it became obsolete.
            let _ = self.reclaimer.reclaim();
            self.sweeper.discard_blobs();
            self.sweeper.unlink_obsolete();
            self.reclaimer.give_space_back(false);
            checked = self.disk_takes(bytes);
        }
        while checked.is_err() && self.reclaimer.yield_kept_blobs(bytes)? {
            checked = self.disk_takes(bytes);
        }
        checked
    }

    fn disk_takes(&self, bytes: u64) -> Result<()> {
        self.pressure.press();
        if !self.common.flushes() {
            return Ok(());
        }
        let Some(disk) = self.pressure.disk() else {
            return Ok(());
        };
        if disk.takes(bytes) {
            return Ok(());
        }
        Err(Error::OutOfSpace(format!(
            "the disk of {} has {} left of {}, and {} are kept for flushing and compaction: make room there, or \
             delete, and what that frees comes back soon; reads and deletes go on",
            self.common.given.display(),
            format_size(disk.free),
            format_size(disk.total),
            format_size(disk.reserve())
        )))
    }

    #[cold]
    fn delay(&self, bytes: u64, no_slowdown: bool) -> Result<()> {
        let clock = &self.common.world.env.clock;
        let begun = clock.now_ns();
        let owed_until = self.pressure.gauge.owed_until.load(Ordering::Relaxed);
        if no_slowdown && pressure::waits(owed_until, begun) {
            return Err(busy("for flushing or compaction, which are behind"));
        }
        let Some((until, cause)) = self.pressure.gauge.owe(bytes, begun) else {
            return Ok(());
        };
        // What it owes stands, and refuses the next one.
        if no_slowdown {
            return Ok(());
        }
        // A store that is being closed, and one whose space was just freed, keeps nobody.
        let waits = || !self.common.closed.load(Ordering::Relaxed);
        while clock.now_ns() < until && waits() {
            clock.sleep_ms(DELAY_PIECE_NS / 1_000_000);
        }
        let took = clock.now_ns().saturating_sub(begun);
        let asked = until.saturating_sub(begun);
        self.common.stalls.slept(cause, took, asked);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
