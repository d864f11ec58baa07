//! Rewriting what is mostly dead (FlatLSM §4.2.2, "Garbage Collection in PMTable"), with shapes
//! `global-index` and `immutables`.
//!
//! A few keys that are written again and again fill memtables in which a few others, written once, are alive.
//! None of those memtables is dead (`reclaim`), so persistent memory fills until they are flushed. Then
//! little is written, but to the SSD, where it is hot: the next flush writes the same keys once more, and compactions
//! merge them away. FlatLSM therefore rewrites a memtable whose log is more than eight times what lives in it: live
//! records are copied into a new log in persistent memory, and the old one is given up. Here it is the flush that
//! does this: if what the memtables that it has taken hold is more than `flush.rewrite_ratio` times what
//! it would write, it writes that into PM tables (`pm_tables`) and not into files. Persistent memory is free as after any
//! flush, the SSD is not touched, and what is written is in level 0, where merges inside persistent memory drop
//! what the next such flush has anew (`compact::internal`).
//!
//! # Why it is a flush, and a PM table
//! A compact chain in place of the old ones would have to be a format of its own: items say their records' seqnos by
//! their place, and the walk demands that nothing is missing between two (`memtable::walk`), so records that were picked
//! out of a chain fit into no item, and a chain of them into no walk. Both chains would have to be named at once, since
//! readers hold the old one while others read the new one, and both may outlive the store (`reclaim`, 1); recovery
//! would have to know which of them counts, and the change feed, whose log the chains are, would lose its sequence. All
//! of that is solved for the other home that records can have in persistent memory. A PM table has records with
//! any seqnos, several versions of a key and range tombstones; it is smaller than a chain and takes no DRAM; and the way
//! from a memtable into it is that of a flush, to which nothing is added but where it goes:
//!
//! # The argument
//! 1. *Age.* With the shapes that rewrite a flush takes all sealed memtables that were not flushed (`flush`, 1), or the
//!    oldest without a gap where it goes to the base level, or would if all of them together were not mostly dead. One
//!    that took those alone that are mostly dead would leave older ones behind, which are read before tables. So the
//!    ratio is that of all of them together.
//! 2. *What lives* is what the flush would write (`jobs`): what somebody may be answered with, registered
//!    readers too, tombstones that hide something, range tombstones. It is weighed by running the same merge to
//!    no destination. That ends as soon as it is too much. Where one memtable alone has so many keys that they would
//!    be too much with records of its usual size, it is not even begun (`policy::rewrite::lives_by_count`): so a flush of
//!    live data costs nothing more. (What is alive may be smaller than usual, or deleted; then it is flushed as it would have
//!    been.) A flush that rewrites is walked through twice, which is little.
//! 3. *What is weighed is no promise.* Readers come and go between weighing and writing. The tables have what is needed
//!    when they are written; if that finds no room it goes into files, as any flush that may write PM tables.
//! 4. *Once, at every moment*: the tables come and the memtables go with one view, behind one edit (`flush`, steps 4
//!    and 5). Readers of older views, snapshots and change feeds keep memtables as after other flushes. A crash finds
//!    the memtables, or the tables and memtables that are known as flushed.
//! 5. *Bounded.* Tables in persistent memory have a share of it (`Options::level0_pm_bytes`): what two such flushes
//!    write at most and what both are merged into. What is to be written must fit into what is left of it, before
//!    anything is written (`pm_tables::promise`); zones that are kept in reserve are no flush's. What
//!    is more than the share leaves for the SSD as with `pm-tables`.
//! 6. *Long values stay out of it.* What refers to blob files is not rewritten: a reference is short, so tables there
//!    could keep many files of values that were overwritten, which takes no persistent memory, but the SSD.
//! 7. *Not for ever.* A flush that rewrites has freed all but one part in so many of what it took, so it is due
//!    again when as much was written anew.
//!
//! # Other shapes
//! With `tiered` and `pm-tables` every flush writes PM tables, and so leaves behind in persistent memory what is dead:
//! there nothing is to be decided. With `ssd` sealed memtables go to the SSD at once, because that is what is wanted;
//! and where records lie in DRAM (preset `leveled`) there is no persistent memory.

use thermocline_base::{Error, Result};
use thermocline_jobs::Outputs;
use thermocline_jobs::sink::Scale;
use thermocline_memtable::Memtable;
use thermocline_policy::rewrite::{self, RewritePlan};
use thermocline_policy::situation::Situation;
use thermocline_policy::work::Work;
use thermocline_tables::Promise;

use super::Extent;
use super::along::contents_of;
use super::evacuate::Taken;
use super::write::To;
use crate::store::{FlushWriter, Flusher};
use crate::sync::Arc;

impl FlushWriter {
    /// What a flush of `taken` is decided on; `None` if no flush of this store rewrites.
    pub(super) fn rewrite_plan_of(&self, taken: &Taken) -> Result<Option<RewritePlan>> {
        let ratio = self.common.options.flush.rewrite_ratio;
        let keeps = self.common.options.level0.shape().rewrites();
        if !keeps || self.common.options.level0_pm_bytes().is_none() {
            return Ok(None);
        }
        let share = self.common.compactions.shape.share.bytes();
        let memtables = &taken.memtables;
        let bytes: u64 = memtables.iter().map(|m| m.bytes()).sum();
        let numbers = rewrite::Taken {
            memtables: memtables.len(),
            bytes,
            is_begun: taken.front.is_some(),
            refers_to_blobs: memtables.iter().any(|m| m.blob_bytes() > 0),
        };
        if !rewrite::may(&numbers) {
            return Ok(None);
        }
        let most = rewrite::live_bytes_max(bytes, ratio);
        let lives = |m: &Arc<Memtable>| rewrite::lives_by_count(&contents_of(m), most);
        Ok(Some(RewritePlan {
            ratio,
            bytes,
            live_bytes: match memtables.iter().any(lives) {
                true => None,
                false => self.live_bytes(taken, most)?,
            },
            room_bytes: share.saturating_sub(self.common.pm_tables_use().bytes),
        }))
    }

    /// The persistent memory for a flush that rewrites `taken`; `None` if it goes to the SSD.
    pub(super) fn promise_for_rewriting(&self, taken: &Taken) -> Result<Option<Promise>> {
        let plan = self.rewrite_plan_of(taken)?;
        let Some(plan) = plan.filter(RewritePlan::rewrites) else {
            return Ok(None);
        };
        let share = self.common.compactions.shape.share.bytes();
        let least = plan.live_bytes.unwrap_or(share).max(1);
        Ok(self.common.promise_pm(share, least, u64::MAX))
    }

    /// Bytes of what a flush of `taken` would write; `None` if that is more than `most`.
    fn live_bytes(&self, taken: &Taken, most: u64) -> Result<Option<u64>> {
        let (mut scale, mut outputs) = (Scale::new(most), Outputs::default());
        let nowhere = To::Nowhere(&mut scale);
        let (memtables, all) = (&taken.memtables, taken.rest());
        self.write_tables(memtables, &all, &[], nowhere, &mut outputs)?;
        Ok(scale.bytes())
    }
}

impl Flusher {
    fn is_rewriting_next(&self, rewriting: Option<RewritePlan>) -> bool {
        let situation = Situation {
            rewriting,
            ..Situation::default()
        };
        let decision = self.common.compactions.costs.next(&situation);
        let is_next = decision.work == Work::Rewrite;
        if is_next {
            self.common.decided(&decision);
        }
        is_next
    }

    /// Flushes what is sealed if that rewrites it, whether or not a flush is due. Returns whether it did: not if
    /// there is no room, or a write is under way that it would have to wait for. The caller holds no lock.
    ///
    /// # Errors
    /// As [`Engine::flush`](crate::Engine::flush).
    pub fn rewrite(&self) -> Result<bool> {
        let flushing = self.common.turns.flushing.take();
        self.common.check_writable()?;
        let rewritten = match self.evacuator.rewrite_plan() {
            Ok(plan) if self.is_rewriting_next(plan) => self.flush_to(&flushing, Extent::All, true),
            other => other.map(|_| 0),
        };
        match rewritten {
            // It is to be had later, by a flush that is due.
            Err(Error::Busy(_) | Error::OutOfSpace(_)) => Ok(false),
            done => Ok(done? > 0),
        }
    }
}

#[cfg(test)]
mod tests;
