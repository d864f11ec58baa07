//! What is done under the writer's lock for a writer that lacks something, or has sealed a memtable.

use thermocline_base::{Error, Result};
use thermocline_policy::tuning::{PATIENCE_LOOKS, PATIENCE_NS};
use thermocline_runtime::Task;

use crate::store::Upkeep;
use crate::sync::thread;
use crate::write::writer::Writer;

impl Upkeep {
    /// As [`Reclaimer::reclaim`](crate::store::Reclaimer), for whoever writes and lacks something. What cannot be read stays, for its
    /// reader to hear of.
    pub fn reclaim_for(&self, writer: &mut Writer) -> Result<usize> {
        loop {
            let dropped = self.reclaim_inline(writer)?;
            // A flush makes more room, and not under the writer's lock.
            if dropped > 0 || self.common.flushes() || !self.merger.merge_for_room(writer)? {
                return Ok(dropped);
            }
        }
    }

    /// Drops what is dead, as long as there is some.
    pub fn reclaim_inline(&self, writer: &mut Writer) -> Result<usize> {
        let mut all = 0;
        loop {
            let _ = self.reclaimer.find_dead();
            if !self.common.world.background {
                self.merger.merge_inline(writer)?;
            }
            let dropped = self.reclaimer.drop_dead(writer)?;
            all += dropped;
            if dropped == 0 {
                return Ok(all);
            }
        }
    }

    /// A memtable was sealed: one that is older may be dead.
    pub fn sealed(&self, writer: &mut Writer) -> Result<()> {
        self.common.merges.look_again();
        if self.common.world.background {
            self.common.background.request(Task::Ahead);
            return Ok(());
        }
        self.reclaim_inline(writer)?;
        self.flush_due.flush_if_due();
        Ok(())
    }

    /// There is no room, as `error` says: drops what is dead, or gives the error back. What is alive is looked at once:
    /// all other writers wait meanwhile.
    pub fn reclaim_or(&self, writer: &mut Writer, error: Error) -> Result<()> {
        if !matches!(error, Error::OutOfSpace(_)) {
            return Err(error);
        }
        if self.reclaim_for(writer)? > 0 || self.reclaimer.yield_kept_holding(writer)? {
            return Ok(());
        }
        let (begun, mut holders, mut in_vain) = (self.common.now_ns(), usize::MAX, 0);
        loop {
            // Counted before anything is dropped: who lets go afterwards is missing from the next count.
            let now = self.holders();
            in_vain = if now < holders { 0 } else { in_vain + 1 };
            // What nobody holds is kept for others than readers.
            let ends = now == 0 || in_vain >= PATIENCE_LOOKS && self.is_out_of_patience(begun);
            // At the end, too: one may have come as another one went.
            if (now < holders || ends) && self.reclaimer.drop_dead(writer)? > 0 {
                // What was not the oldest may be now.
                self.reclaim_for(writer)?;
                return Ok(());
            }
            if ends {
                return Err(error);
            }
            holders = now;
            thread::yield_now();
        }
    }

    /// Whether who began to look at this time has looked for long enough. Where flushes make room, that is waited for without the
    /// writer's lock. A clock that stands still says nothing.
    fn is_out_of_patience(&self, begun: u64) -> bool {
        let passed = self.common.now_ns().saturating_sub(begun);
        self.common.flushes() || passed == 0 || passed >= PATIENCE_NS
    }

    /// How many hold what is dead: readers of this opening, and of earlier ones.
    fn holders(&self) -> usize {
        let elders = self.common.elders.held();
        let elders = elders.memtables.len() + usize::from(elders.everything);
        self.common.reclaim.holders() + elders
    }

    /// All descriptors are taken: drops what is dead, but not for every write anew.
    pub fn reclaim_descriptors(&self, writer: &mut Writer) -> Result<()> {
        if self.common.space.descriptors().free() > 0 {
            return Ok(());
        }
        let now = self.common.commits.ring.durable();
        if self.common.reclaim.looks_for_descriptors(now) {
            self.reclaim_for(writer)?;
        }
        Ok(())
    }
}
