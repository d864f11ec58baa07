//! How writers are held back before anything is full (`policy::pressure` has the slope).
//!
//! What a write costs in delay is the slope's nanoseconds for each of its bytes. That is reckoned anew when
//! what it depends on has changed, which is seldom: a zone was attached or given back, a job was installed. A write looks
//! at one number, and if that is 0, goes on.
//!
//! Delay is owed by the store, not by each writer: [`Pressure::owed_until`] is a time up to which its writes
//! have used up what the slope allows. Whoever writes moves it on, and waits until it has come, if it
//! is farther away than a moment. So several writers are together as slow as one alone would be, and what
//! a write takes anyway counts. Nobody waits longer than [`DELAY_NS_MAX`](thermocline_policy::tuning::DELAY_NS_MAX) at a time; what a large write
//! owes beyond that is forgotten.
//!
//! Writers wait before they ask for their grant, and hold no lock. Time is the clock's of `env`. Stores
//! without background have no delay.
//!
//! # The disk
//! How much of it is kept for flushes and compactions, when writers are refused, and how far a region on it grows, is decided by
//! `policy::room`. Reads, flushes, compactions and files that are removed go on, and each refusal asks the file system again. Where
//! it says nothing, nothing is kept. What deletes make room then is [`relief`]'s. What is free at a region's end goes back to the
//! disk when that is full, or nearly so and the store idle ([`Inner::give_space_back`]), as do logs that were kept to be used again.
//!
//! Each store keeps its own reserve: several on one disk may ask
//! for more than is left when all of them flush at once; then a flush fails, loses nothing, and is tried again.

pub(crate) mod gauge;
mod relief;

use thermocline_base::size::format_size;
use thermocline_base::{Error, Result};
use thermocline_env::DiskRoom;
use thermocline_observe::cause::StallCause;
use thermocline_policy::pressure::{self, Debt, Delay};
use thermocline_policy::room::{Disk, waiting};
use thermocline_policy::tuning::DELAY_PIECE_NS;

use crate::busy::busy;
use crate::store::Inner;
use crate::sync::{Ordering, lock};
use gauge::FULL;

impl Inner {
    /// What fills up has changed.
    pub fn press(&self) {
        let disk = self.disk();
        self.limit_region(disk);
        if !self.flushes() {
            return;
        }
        let full = disk.is_some_and(|disk| disk.is_full());
        let debt = match self.world.background {
            true => self.debt(disk),
            false => Debt::default(),
        };
        let was_full = self.is_disk_full();
        self.pressure
            .set(&debt, disk.map(|disk| disk.limits()), full);
        if let Some(disk) = disk {
            self.pressure.relief.feed(disk.beyond_reserve());
        }
        if full && !was_full {
            self.note_full();
        }
    }

    fn debt(&self, disk: Option<Disk>) -> Debt {
        let (level0_tables, pending_bytes) = self.compaction_debt();
        let keeping = self.keeping();
        // What is kept for change feeds goes as soon as somebody needs the room.
        let kept = lock(&self.reclaim).kept(&keeping).1;
        let space = self.space.usage();
        let attached = space.attached_bytes.saturating_sub(kept);
        Debt {
            pm_bytes: waiting(attached, self.pm_bytes_at_home(), space.limit_bytes),
            level0_tables,
            pending_bytes,
            disk_bytes: disk.map_or(0, |disk| disk.used()),
        }
    }

    /// Persistent memory of tables that may stay there: it does not wait for anything.
    fn pm_bytes_at_home(&self) -> u64 {
        let share = self.options.level0_pm_bytes();
        share.map_or(0, |share| {
            let tables = self.pm_tables_use();
            (tables.bytes - tables.retired_bytes).min(share)
        })
    }

    /// What the file system says of its room, if it says anything.
    pub fn disk_room(&self) -> Option<DiskRoom> {
        let room = self.world.env.storage.room(&self.dir);
        // A disk that does not answer will say so to whoever needs it.
        room.unwrap_or(None)
    }

    /// The same, and what may need it.
    pub fn disk(&self) -> Option<Disk> {
        let disk = self.disk_room()?;
        Some(Disk {
            free: disk.free,
            total: disk.total,
            attached: self.space.usage().attached_bytes,
            job: self.compactions.shape.geometry().job_bytes_max(),
        })
    }

    /// Lets the region grow no farther than the disk allows.
    fn limit_region(&self, disk: Option<Disk>) {
        let Some(disk) = disk.filter(|_| self.pressure.region_on_disk) else {
            return;
        };
        let (limit, tries) = disk.region_limit(self.space.region_bytes());
        self.space.set_device_limit(limit, tries);
    }

    /// Gives the disk what is free at the region's end, and logs that are kept to be used again, if it is full, or nearly
    /// so and the store `idle`. The caller holds no lock.
    pub fn give_space_back(&self, idle: bool) {
        let Some(disk) = self.disk() else {
            return;
        };
        // As for growing: closing takes this lock before it gives up the region.
        let _ahead = lock(&self.turns.ahead);
        if !disk.is_short(idle) || self.check_writable().is_err() {
            return;
        }
        if let Some(wal) = &self.wal {
            wal.remove_spares();
        }
        if !self.pressure.region_on_disk {
            return;
        }
        match self.space.give_back() {
            Ok(0) => {}
            Ok(_) => {
                self.region_seen
                    .store(self.space.region_bytes(), Ordering::Relaxed);
                self.press();
            }
            // The next writer reports it.
            Err(error) => drop(self.poison.poison(error)),
        }
    }

    /// How much writers are held back.
    pub fn pressing(&self) -> Option<Delay> {
        self.pressure.get()
    }

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
        match self.pressure.now.load(Ordering::Relaxed) {
            0 => Ok(()),
            now => {
                if now & FULL != 0 && !only_deletes() {
                    self.check_disk(0)?;
                }
                self.delay(bytes, no_slowdown)
            }
        }
    }

    /// Asks again whether the disk is full, or would be with so many bytes more. What is only kept for change feeds
    /// gives way, as far as that helps: nobody who writes waits for feeds. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Inner::hold_back`].
    #[cold]
    pub fn check_disk(&self, bytes: u64) -> Result<()> {
        let mut checked = self.disk_takes(bytes);
        if checked.is_err() {
            self.pressure.relief.starve(bytes, self.now_ns());
            self.want_relief();
            self.look_whether_readers_have_gone();
            self.want_compaction();
            // Where there is nobody else for it. What fails is tried again.
            self.flush_inline();
            let _ = self.compact_inline();
            // What somebody read when it became obsolete.
            let _ = self.reclaim();
            self.discard_blobs();
            self.unlink_obsolete();
            self.give_space_back(false);
            checked = self.disk_takes(bytes);
        }
        while checked.is_err() && self.yield_kept_blobs(bytes)? {
            checked = self.disk_takes(bytes);
        }
        checked.inspect_err(|_| self.stalls.note(StallCause::DiskRoom, 0))
    }

    fn disk_takes(&self, bytes: u64) -> Result<()> {
        self.press();
        if !self.flushes() {
            return Ok(());
        }
        let Some(disk) = self.disk() else {
            return Ok(());
        };
        if disk.takes(bytes) {
            return Ok(());
        }
        Err(Error::OutOfSpace(format!(
            "the disk of {} has {} left of {}, and {} are kept for flushing and compaction: make room there, or \
             delete, and what that frees comes back soon; reads and deletes go on",
            self.dir.display(),
            format_size(disk.free),
            format_size(disk.total),
            format_size(disk.reserve())
        )))
    }

    #[cold]
    fn delay(&self, bytes: u64, no_slowdown: bool) -> Result<()> {
        let clock = &self.world.env.clock;
        let begun = clock.now_ns();
        let owed_until = self.pressure.owed_until.load(Ordering::Relaxed);
        if no_slowdown && pressure::waits(owed_until, begun) {
            return Err(busy("for flushing or compaction, which are behind"));
        }
        let Some((until, cause)) = self.pressure.owe(bytes, begun) else {
            return Ok(());
        };
        // A store that is being closed, and one whose space was just freed, keeps nobody.
        let waits = || !self.closed.load(Ordering::Relaxed);
        while clock.now_ns() < until && waits() {
            clock.sleep_ms(DELAY_PIECE_NS / 1_000_000);
        }
        self.stalls
            .note(cause, clock.now_ns().saturating_sub(begun));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
