//! What is done under the writer's lock for a writer that lacks something, or has sealed a memtable.

use thermocline_base::{Error, Result};
use thermocline_policy::tuning::{PATIENCE_LOOKS, PATIENCE_NS};
use thermocline_runtime::Task;

use crate::store::Upkeep;
use crate::sync::thread;
use crate::write::writer::Writer;

/// Looks whether those let go who hold what is dead. They may become more, too, and fewer again, for as long as they like: a
/// value that is read in place can be cloned.
struct Looks {
    /// How many there were at the last look.
    last: usize,
    /// How few there were at any.
    fewest: usize,
    /// Looks since there were fewer than ever.
    in_vain: u32,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks {
            last: usize::MAX,
            fewest: usize::MAX,
            in_vain: 0,
        }
    }
}

impl Looks {
    /// There are so many `now`. Returns whether that is fewer than at the last look.
    fn look(&mut self, now: usize) -> bool {
        self.in_vain = if now < self.fewest {
            0
        } else {
            self.in_vain + 1
        };
        self.fewest = self.fewest.min(now);
        now < std::mem::replace(&mut self.last, now)
    }

    /// Whether there were so many in vain that nobody is waited for any longer.
    fn are_in_vain(&self) -> bool {
        self.in_vain >= PATIENCE_LOOKS
    }
}

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
            let dropped = self.reclaimer.drop_dead(&mut writer.ended)?;
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
        if self.reclaim_for(writer)? > 0 || self.reclaimer.yield_kept_holding(&mut writer.ended)? {
            return Ok(());
        }
        let (begun, mut looks) = (self.common.now_ns(), Looks::default());
        loop {
            // Counted before anything is dropped: who lets go afterwards is missing from the next count.
            let now = self.holders();
            let some_went = looks.look(now);
            // What nobody holds is kept for others than readers.
            let ends = now == 0 || looks.are_in_vain() && self.is_out_of_patience(begun);
            // At the end, too: one may have come as another one went.
            if (some_went || ends) && self.reclaimer.drop_dead(&mut writer.ended)? > 0 {
                // What was not the oldest may be now.
                self.reclaim_for(writer)?;
                return Ok(());
            }
            if ends {
                return Err(error);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All other writers wait meanwhile.
    #[test]
    fn who_comes_and_goes_all_the_time_is_not_waited_for() {
        let mut looks = Looks::default();
        assert!(looks.look(5), "who looks for the first time tries");
        for _ in 0..PATIENCE_LOOKS {
            assert!(!looks.look(6));
            assert!(
                looks.look(5),
                "one of them may have been the last of its own"
            );
        }
        assert!(looks.are_in_vain());
        // Now there is one less than ever.
        assert!(looks.look(4) && !looks.are_in_vain());
        for _ in 1..PATIENCE_LOOKS {
            assert!(!looks.look(4) && !looks.are_in_vain());
        }
        assert!(!looks.look(4) && looks.are_in_vain());
    }
}
