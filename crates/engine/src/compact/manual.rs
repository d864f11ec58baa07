//! A range that somebody wants compacted.

use std::ops::Bound;

use thermocline_base::bounds::KeyBounds;
use thermocline_base::{CfId, KeyRange, Result, SeqNo, limits};
use thermocline_policy::pick::{Manual, pick_range};
use thermocline_policy::tuning::COLLECTIONS_BY_HAND;

use super::Compactions;
use super::job::picked::Job;
use super::shape::Levels;
use crate::store::Compactor;
use crate::sync::{Ordering, lock};

/// The keys that there can be in a range.
fn keys_of((from, to): KeyBounds<'_>) -> KeyRange<Vec<u8>> {
    let first = match from {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => {
            let mut behind = key.to_vec();
            // Behind the longest key there is none so near: one key more does no harm.
            if behind.len() < limits::KEY_LEN_MAX {
                behind.push(0);
            }
            behind
        }
    };
    match to {
        Bound::Unbounded => KeyRange::inclusive(first, vec![u8::MAX; limits::KEY_LEN_MAX]),
        Bound::Included(key) => KeyRange::inclusive(first, key.to_vec()),
        Bound::Excluded(key) => KeyRange::until(first, key.to_vec()),
    }
}

/// A caller is compacting a range. Meanwhile flushes write nothing into the base level: such tables would count among
/// those to be compacted, and beside writers the call would never end.
/// Nor does a job begin because of many deletes: it would leave values where they are that the caller wants moved.
pub(crate) struct ByHand<'c>(&'c Compactions);

impl Drop for ByHand<'_> {
    fn drop(&mut self) {
        self.0.by_hand.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Compactions {
    /// A caller begins to compact a range, before the flush that comes first.
    pub fn begin_by_hand(&self) -> ByHand<'_> {
        self.by_hand.fetch_add(1, Ordering::Relaxed);
        ByHand(self)
    }

    /// Whether a caller is compacting a range.
    pub fn is_compacting_by_hand(&self) -> bool {
        self.by_hand.load(Ordering::Relaxed) > 0
    }
}

impl Compactor {
    /// As [`Engine::compact`](crate::Engine::compact), of what lies in tables.
    pub fn compact_range(&self, cf: CfId, range: KeyBounds<'_>, by: ByHand<'_>) -> Result<()> {
        let range = keys_of(range);
        if range.is_empty() {
            return Ok(());
        }
        // Collections are no jobs by hand, but somebody waits for these.
        let _hurry = self.common.compactions.hurry();
        let compacted = self
            .compact_jobs(cf, &range.borrowed())
            .and_then(|()| self.collect_due());
        drop(by);
        // What became due meanwhile met the jobs of this one, and was put off.
        self.common.want_compaction();
        compacted?;
        // What has shrunk is merged before the call returns, where nobody else would do it.
        loop {
            let _gate = self.common.compactions.gate.enter();
            self.common.check_writable()?;
            if !self.partitioner.adjust_by_size()? {
                return Ok(());
            }
        }
    }

    /// Moves values out of blob files, of any family, as far as that is due: what was compacted is garbage only now. Beside writers
    /// there would always be more, so it ends when all tables may have been written anew.
    fn collect_due(&self) -> Result<()> {
        let tables = self.common.catalog.version().tables().count() as u64;
        for _ in 0..tables + COLLECTIONS_BY_HAND {
            let inside = self.common.compactions.gate.enter();
            self.common.check_writable()?;
            let to_move = self.picker.room_to_move();
            let compactions = &self.common.compactions;
            let mut jobs = lock(&compactions.jobs);
            match self.picker.begin_collection(&mut jobs, to_move) {
                (Some(job), _) => {
                    drop(jobs);
                    match self.run(job) {
                        // What was asked for is done.
                        Err(error) if error.is_no_room() => break,
                        ran => ran?,
                    }
                }
                (None, true) if !jobs.running.is_empty() => compactions.wait_for_end(inside, jobs),
                (None, _) => break,
            }
        }
        Ok(())
    }

    fn compact_jobs(&self, cf: CfId, range: &KeyRange<&[u8]>) -> Result<()> {
        let visible = SeqNo(self.common.commits.ring.visible());
        let before = self.common.catalog.next_file();
        loop {
            let inside = self.common.compactions.gate.enter();
            // Again, since the store may be closing.
            self.common.check_writable()?;
            let compactions = &self.common.compactions;
            let mut jobs = lock(&compactions.jobs);
            let version = self.common.catalog.version();
            let levels = Levels::of(&version, cf, Some((before, visible)));
            let mut options = compactions.shape.pick_options(&levels);
            options.is_filtered = self.common.families.filter(cf).is_some();
            options.expired = self.common.expired_for(cf);
            let running = jobs.held(cf);
            match pick_range(&levels.state(&running), &options, range, before) {
                Manual::Job(picked) => {
                    let last_level = options.last_level;
                    let job = Job::begin(&mut jobs, cf, &version, &levels, last_level, *picked);
                    drop(jobs);
                    drop(levels);
                    drop(version);
                    self.run(job)?;
                }
                Manual::Wait => {
                    debug_assert!(!running.is_empty(), "nobody will end this wait");
                    compactions.wait_for_end(inside, jobs);
                }
                Manual::Done => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
impl Compactor {
    /// Begins the first job that a range needs.
    pub fn take_range(&self, cf: CfId, range: &KeyRange<&[u8]>) -> Option<Job> {
        let mut jobs = lock(&self.common.compactions.jobs);
        let version = self.common.catalog.version();
        let before = self.common.catalog.next_file();
        let visible = SeqNo(self.common.commits.ring.visible());
        let levels = Levels::of(&version, cf, Some((before, visible)));
        let options = self.common.compactions.shape.pick_options(&levels);
        let running = jobs.held(cf);
        match pick_range(&levels.state(&running), &options, range, before) {
            Manual::Job(picked) => {
                let last_level = options.last_level;
                let job = Job::begin(&mut jobs, cf, &version, &levels, last_level, *picked);
                Some(job)
            }
            Manual::Wait | Manual::Done => None,
        }
    }
}
