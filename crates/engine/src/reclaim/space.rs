//! Space that goes back to the disk, and what gives way for it.

use thermocline_base::Result;
use thermocline_policy::room::Disk;

use crate::store::Reclaimer;
use crate::sync::Ordering;

impl Reclaimer {
    /// Gives the disk what is free at the region's end, and logs that are kept to be used again, if it is full, or nearly
    /// so and the store `idle`. The caller holds no lock.
    pub fn give_space_back(&self, idle: bool) {
        let Some(disk) = self.pressure.disk() else {
            return;
        };
        // As for growing: closing takes this lock before it gives up the region.
        let _ahead = self.common.turns.ahead.take();
        if !disk.is_short(idle) || self.common.check_writable().is_err() {
            return;
        }
        if let Some(wal) = &self.memtables.wal {
            wal.remove_spares();
        }
        if !self.pressure.gauge.region_on_disk {
            return;
        }
        match self.common.space.give_back() {
            Ok(0) => {}
            Ok(_) => {
                self.memtables
                    .region_seen
                    .store(self.common.space.region_bytes(), Ordering::Relaxed);
                self.pressure.press();
            }
            // The next writer reports it.
            Err(error) => drop(self.common.poison.poison(error)),
        }
    }

    /// Gives up the oldest memtables that are kept for change feeds, as far as the first that keeps values in blob
    /// files; returns whether there was one. None, if so many bytes would not fit without all of them either.
    pub fn yield_kept_blobs(&self, bytes: u64) -> Result<bool> {
        let kept = || {
            let keeping = self.common.keeping();
            self.common.reclaim.kept(&keeping).blob_bytes
        };
        let fits = |disk: Disk| {
            let free = disk.free.saturating_add(kept());
            Disk { free, ..disk }.takes(bytes)
        };
        if !self.pressure.disk().is_some_and(fits) {
            return Ok(false);
        }
        loop {
            let before = kept();
            if before == 0 || !self.yield_kept()? {
                return Ok(false);
            }
            if kept() < before {
                self.sweeper.discard_blobs();
                return Ok(true);
            }
        }
    }
}
