//! When sealed memtables are flushed: `policy::flush` decides, with the numbers that are gathered here.
//!
//! The caller has dropped dead memtables before it asks ([`Reclaimer::reclaim`](crate::store::Reclaimer)). If little of
//! what a flush takes is alive, it stays in persistent memory even with shapes that flush to the SSD
//! ([`rewrite`](super::rewrite)).
//!
//! # Who does it
//! A job thread flushes (`runtime::jobs`). A store without background, for tests, has none. There the writer flushes
//! at the end of the write that made the flush due ([`Flusher::flush_inline`](crate::store::Flusher)), when it holds no
//! lock. A writer that finds no room does not wait for either (`room`).

use thermocline_base::size::index;
use thermocline_policy::flush::{FlushPlan, Sealed};
use thermocline_policy::indexes::Width;
use thermocline_policy::scans::Scans;
use thermocline_policy::situation::{self, Situation};
use thermocline_policy::work::{Decision, Work};

use crate::store::FlushDue;
use crate::sync::Ordering;

/// What is done first where a flush is due: nothing, or what of this is known and was not tried yet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct First {
    /// Persistent memory of dead memtables that merged indexes keep.
    pub dead_in_merged: Option<u64>,
    /// That of the memtables of an index that is to be divided.
    pub wide: Option<u64>,
}

impl FlushDue {
    /// Requests a flush of sealed memtables, if one is due. May be called under the writer's lock.
    pub fn flush_if_due(&self) {
        if self.is_flush_due() {
            self.common.want_flush();
        }
    }

    /// Requests room, for a write that found none and does not wait.
    pub fn want_room(&self) {
        self.common.room.room_wanted.store(true, Ordering::Relaxed);
        self.common.want_flush();
    }

    pub fn is_flush_due(&self) -> bool {
        self.common.flushes() && self.next_flush(false, First::default()).work == Work::Flush
    }

    /// The next work on sealed memtables.
    pub fn next_flush(&self, room_wanted: bool, first: First) -> Decision {
        let sealed = situation::Sealed {
            sealed: self.look(),
            dead_in_merged: first.dead_in_merged,
            wide: first.wide,
            room_wanted,
        };
        self.common.compactions.costs.next(&Situation {
            sealed: Some(sealed),
            ..Situation::default()
        })
    }

    /// Whether a flush is due, and the numbers on which it is decided.
    pub fn flush_plan(&self) -> FlushPlan {
        self.look().plan()
    }

    /// How wide indexes may be.
    #[cfg(test)]
    pub fn index_width(&self) -> Width {
        self.index_width_without(0)
    }

    /// How wide they may be once dead memtables of so many bytes are gone.
    pub fn index_width_without(&self, dead: u64) -> Width {
        let mut sealed = self.look();
        sealed.bytes = sealed.bytes.saturating_sub(dead);
        let beside = sealed.tables.is_some_and(|bytes| bytes > 0);
        Width::of(&sealed, self.common.options.memtable_bytes_beside(beside))
    }

    /// The memtables that wait to be flushed, by their numbers. The decisions about level 0 get the same numbers.
    pub fn look(&self) -> Sealed {
        let waits = self.common.sealed();
        let skips = self.common.compactions.costs.bypasses() && !self.pressure.is_relieving();
        let beside_tables = skips || self.common.options.level0.shape().evacuates_by_range();
        let (scanned, found) = self.common.read_since.get(&self.common.counted);
        let sealed = Sealed {
            automatic: self.common.options.flush.automatic,
            memtables: waits.memtables,
            memtables_due: index(self.common.options.flush.generations),
            bytes: waits.bytes,
            taken_bytes: waits.taken_bytes,
            blob_bytes: waits.blob_bytes,
            blob_bytes_due: self.common.options.blob.generation_bytes,
            pm_bytes: self.common.space.usage().limit_bytes,
            sealed_percent: self.common.options.sealed_percent(),
            alone_percent: self.common.options.flush.pm_percent,
            tables: beside_tables.then(|| self.common.pm_tables_use().bytes),
            skips,
            descriptors_free: self.common.space.descriptors().free(),
            dram: self.common.dram(),
            scans: Scans {
                scanned,
                found,
                records: waits.records,
                active_records: waits.active_records,
                active_bytes: waits.active_bytes,
            },
        };
        self.common.compactions.memtables_are(&sealed);
        sealed
    }
}
