//! When sealed generations are flushed.
//!
//! Below a share of persistent memory they stay where they are: reads find them in DRAM and persistent
//! memory, and what is overwritten there dies there, without ever having been written to the SSD. So
//! whoever asks here has dropped what is dead before ([`Inner::reclaim`]). And where flushing is due
//! all sealed generations are taken at once: a few wide runs of level 0 are cheaper to read and to compact
//! than many narrow ones. With shape `ssd` nothing stays there: flushing is due as soon as one
//! is sealed, and what is taken at a time becomes a run of level 0. With `pm-tables` it is, too. With `tiered` they
//! stay, but in a smaller share: the rest is for the tables in persistent memory that they become; while flushes bypass
//! those (`compact::costs`), in the same one. Where little of what
//! is taken lives, that stays in persistent memory with other shapes, too ([`rewrite`](super::rewrite)).
//!
//! # Who does it
//! A job thread (`runtime::jobs`). Where there is none (a store without background, for tests) the
//! writer, at the end of the write that made it due ([`Inner::flush_inline`]), when it holds no lock.
//! A writer that finds no room does not wait for either (`room`).

use thermocline_base::Result;
use thermocline_base::size::index;
use thermocline_runtime::Job;

use crate::plan::FlushPlan;
use crate::store::Inner;
use crate::sync::{Ordering, lock};

/// Free descriptors from which on they run short: one is taken with each generation.
pub(crate) const DESCRIPTORS_SHORT: usize = 16;

/// A generation whose index takes no more DRAM than this is not sealed for the sake of other stores.
const SHARE_MIN: u64 = 256 << 10;

impl Inner {
    /// Whether the store flushes by itself.
    pub fn flushes(&self) -> bool {
        self.options.flush.automatic != 0 && !self.options.read_only
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
        if !room_wanted && self.is_flush_due() {
            self.merge_instead()?;
        }
        if !room_wanted && !self.is_flush_due() {
            return Ok(());
        }
        if self.flush()? == 0 && room_wanted {
            self.yield_kept()?;
        }
        Ok(())
    }

    pub fn is_flush_due(&self) -> bool {
        self.flushes() && self.flush_plan().due
    }

    /// The numbers on which it is decided.
    pub fn flush_plan(&self) -> FlushPlan {
        let (generations, bytes, blob_bytes) = self.sealed_bytes();
        let flush = &self.options.flush;
        let limit = self.space.usage().limit_bytes;
        let mut plan = FlushPlan {
            automatic: flush.automatic != 0,
            due: false,
            sealed: generations,
            sealed_due: index(flush.generations),
            sealed_bytes: bytes,
            sealed_bytes_due: self.sealed_bytes_due(limit),
            sealed_blob_bytes: blob_bytes,
            sealed_blob_bytes_due: self.options.blob.generation_bytes,
            dram_bytes: self.account.used(),
            dram_bytes_due: self.options.dram / 100 * flush.dram_percent,
            generations_free: self.space.generations().free(),
            generations_free_due: DESCRIPTORS_SHORT,
        };
        plan.due = generations > 0
            && (bytes >= plan.sealed_bytes_due
                || (plan.sealed_due > 0 && generations >= plan.sealed_due)
                || plan.sealed_blob_bytes >= plan.sealed_blob_bytes_due
                || plan.generations_free <= plan.generations_free_due
                || self.is_dram_short());
        plan
    }

    /// As the options say. Where nothing that is flushed stays in persistent memory, generations have what tables
    /// leave of it.
    fn sealed_bytes_due(&self, limit: u64) -> u64 {
        let usual = limit / 100 * self.options.sealed_percent();
        if !self.compactions.costs.bypasses() || self.is_relieving() {
            return usual.max(1);
        }
        let all = limit / 100 * self.options.flush.pm_percent;
        let tables = self.pm_tables_use().bytes;
        all.saturating_sub(tables).max(usual).max(1)
    }

    /// How many sealed generations wait to be flushed, the persistent memory that they own, and the bytes in
    /// blob files that they refer to.
    pub fn sealed_bytes(&self) -> (usize, u64, u64) {
        let view = self.view.load();
        let reclaim = lock(&self.reclaim);
        let homes = view.memtables[1..].iter().flat_map(|m| m.homes());
        let waits = homes.filter(|home| !reclaim.is_flushed(home.generation()));
        waits.fold((0, 0, 0), |(count, bytes, blob_bytes), home| {
            let own = reclaim.zone_bytes(home.generation());
            (count + 1, bytes + own, blob_bytes + home.blobs().bytes())
        })
    }

    /// Whether indexes take their share of DRAM, of this store's or of all stores'.
    pub fn is_dram_short(&self) -> bool {
        let percent = self.options.flush.dram_percent;
        self.account.used() >= self.options.dram / 100 * percent || self.is_budget_short()
    }

    /// Whether all stores of the runtime together hold their share of its DRAM.
    fn is_budget_short(&self) -> bool {
        let budget = self.account.budget();
        budget.held() >= budget.limit() / 100 * self.options.flush.dram_percent
    }

    /// Whether this store may be short of DRAM because others have it.
    pub fn is_crowded(&self) -> bool {
        let budget = self.account.budget();
        budget.held() >= budget.limit() / 2 && self.background.stores() > 1
    }

    /// What a job thread does about flushing.
    pub fn flush_job(&self) -> Result<()> {
        // Some may have died since this was asked for.
        self.reclaim()?;
        let crowded = self.is_crowded();
        if crowded && self.flushes() {
            // Others may wait for what this store has beyond its share.
            let stores = self.background.stores().max(1) as u64;
            let share = self.account.budget().limit() / stores / 4;
            let active = self.view.load().memtables[0].clone();
            if active.index_bytes() > share.max(SHARE_MIN) {
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
