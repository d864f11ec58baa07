//! When sealed memtables are flushed: `policy::flush` decides, with the numbers that are gathered here.
//!
//! Whoever asks has dropped what is dead before ([`Inner::reclaim`]). Where little of what is taken lives, that stays in persistent
//! memory with shapes that flush to the SSD, too ([`rewrite`](super::rewrite)).
//!
//! # Who does it
//! A job thread (`runtime::jobs`). Where there is none (a store without background, for tests) the
//! writer, at the end of the write that made it due ([`Inner::flush_inline`]), when it holds no lock.
//! A writer that finds no room does not wait for either (`room`).

use thermocline_base::Result;
use thermocline_base::size::index;
use thermocline_policy::flush::{Dram, FlushPlan, Sealed};
use thermocline_policy::situation::{self, Situation};
use thermocline_policy::work::{Decision, Work};
use thermocline_runtime::Job;

use crate::store::Inner;
use crate::sync::{Ordering, lock};

impl Inner {
    /// Whether the store flushes by itself.
    pub fn flushes(&self) -> bool {
        self.options.flush.automatic && !self.options.read_only
    }

    /// Has sealed generations flushed, if that is due. May be called under the writer's lock.
    pub fn flush_if_due(&self) {
        if self.is_flush_due() {
            self.want_flush();
        }
    }

    /// Has sealed generations flushed soon.
    pub fn want_flush(&self) {
        match self.world.background {
            true => self.background.request_job(Job::Flush),
            // Relaxed: who sees it looks at nothing else before it has taken locks.
            false => self.room.flush_wanted.store(true, Ordering::Relaxed),
        }
    }

    /// Does what [`Inner::want_flush`] has left to the writer. The caller holds no lock.
    #[inline]
    pub fn flush_inline(&self) {
        if !self.world.background && self.room.flush_wanted.swap(false, Ordering::Relaxed) {
            // What has not poisoned the store is told to whoever needs the room.
            let _ = self.flush_wanted();
        }
    }

    /// Has room made soon, for a write that found none and does not wait.
    pub fn want_room(&self) {
        self.room.room_wanted.store(true, Ordering::Relaxed);
        self.want_flush();
    }

    /// Flushes what is due, or all there is for somebody who found no room, or deleted on a full disk.
    fn flush_wanted(&self) -> Result<()> {
        if self.flush_deletes()? {
            // That was all there is.
            self.room.room_wanted.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let room_wanted = self.room.room_wanted.swap(false, Ordering::Relaxed);
        // Where DRAM is short, what is kept for change feeds has none to give.
        if room_wanted && !self.is_dram_short() && self.yield_kept()? {
            return Ok(());
        }
        if room_wanted && self.to_flush().is_empty() {
            self.seal_active()?;
        }
        let dead = Some(self.dead_in_merged());
        let mut work = self.next_flush(room_wanted, dead).work;
        if work == Work::RemakeIndexes {
            self.merge_instead()?;
            work = self.next_flush(room_wanted, None).work;
        }
        if work != Work::Flush {
            return Ok(());
        }
        if self.flush()? == 0 && room_wanted {
            self.yield_kept()?;
        }
        Ok(())
    }

    pub fn is_flush_due(&self) -> bool {
        self.flushes() && self.next_flush(false, None).work == Work::Flush
    }

    /// What is to be done about sealed memtables, of which dead ones keep so much in merged indexes.
    fn next_flush(&self, room_wanted: bool, dead_in_merged: Option<u64>) -> Decision {
        let sealed = situation::Sealed {
            sealed: self.numbers_of_sealed(),
            dead_in_merged,
            room_wanted,
        };
        self.compactions.costs.next(&Situation {
            sealed: Some(sealed),
            ..Situation::default()
        })
    }

    /// Whether a flush is due, and the numbers on which it is decided.
    pub fn flush_plan(&self) -> FlushPlan {
        self.numbers_of_sealed().plan()
    }

    /// What waits to be flushed.
    fn numbers_of_sealed(&self) -> Sealed {
        let (memtables, bytes, blob_bytes) = self.sealed_bytes();
        let skips = self.compactions.costs.bypasses() && !self.is_relieving();
        Sealed {
            automatic: self.options.flush.automatic,
            memtables,
            memtables_due: index(self.options.flush.generations),
            bytes,
            blob_bytes,
            blob_bytes_due: self.options.blob.generation_bytes,
            pm_bytes: self.space.usage().limit_bytes,
            sealed_percent: self.options.sealed_percent(),
            alone_percent: self.options.flush.pm_percent,
            skipped_tables: skips.then(|| self.pm_tables_use().bytes),
            descriptors_free: self.space.generations().free(),
            dram: self.dram(),
        }
    }

    /// How many sealed generations wait to be flushed, the persistent memory that they own, and the bytes in
    /// blob files that they refer to.
    pub fn sealed_bytes(&self) -> (usize, u64, u64) {
        let view = self.catalog.view();
        let reclaim = lock(&self.reclaim);
        let homes = view.memtables[1..].iter().flat_map(|m| m.homes());
        let waits = homes.filter(|home| !reclaim.is_flushed(home.generation()));
        waits.fold((0, 0, 0), |(count, bytes, blob_bytes), home| {
            let own = reclaim.zone_bytes(home.generation());
            (count + 1, bytes + own, blob_bytes + home.blobs().bytes())
        })
    }

    /// DRAM of this store, and of all stores of the runtime.
    pub fn dram(&self) -> Dram {
        let budget = self.account.budget();
        Dram {
            used: self.account.used(),
            limit: self.options.dram,
            percent: self.options.flush.dram_percent,
            held_by_all: budget.held(),
            budget: budget.limit(),
        }
    }

    /// Whether indexes take their share of DRAM, of this store's or of all stores'.
    pub fn is_dram_short(&self) -> bool {
        self.dram().is_short()
    }

    /// Whether this store may be short of DRAM because others have it.
    pub fn is_crowded(&self) -> bool {
        self.dram().is_crowded(self.background.stores())
    }

    /// What a job thread does about flushing.
    pub fn flush_job(&self) -> Result<()> {
        // Some may have died since this was asked for.
        self.reclaim()?;
        let crowded = self.is_crowded();
        if crowded && self.flushes() {
            let active = self.catalog.view().memtables[0].clone();
            let stores = self.background.stores();
            if self.dram().seals_for_others(active.index_bytes(), stores) {
                self.seal_active()?;
                self.room.room_wanted.store(true, Ordering::Relaxed);
            }
        }
        self.flush_wanted()?;
        if crowded {
            self.give_up_credit(&mut lock(&self.writer));
        }
        Ok(())
    }
}
