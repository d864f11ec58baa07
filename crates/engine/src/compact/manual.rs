//! A range that somebody wants compacted.

use std::ops::Bound;

use thermocline_base::{CfId, KeyRange, Result, SeqNo, limits};
use thermocline_policy::pick::{Manual, pick_range};

use super::job::picked::Job;
use super::shape::Levels;
use crate::store::{Compactor, Engine};
use crate::sync::{lock, read, wait};

impl Engine {
    /// Flushes, and compacts the keys of family `cf` from one bound to the other, which are compared
    /// bytewise whatever the family's order, until all of them lie in one level and nothing lies there
    /// that nobody needs: versions that nobody can read any more, and tombstones. So what was deleted
    /// takes no space afterwards, but for what snapshots and iterators still read.
    ///
    /// What is written meanwhile may stay above. A table that only partly lies in the range is compacted
    /// as a whole.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped; those of
    /// [`Engine::flush`] and [`Engine::compact_once`].
    pub fn compact(&self, cf: CfId, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<()> {
        let inner = &*self.inner;
        inner
            .common
            .families
            .check(cf, inner.common.families.moment())?;
        self.flush()?;
        let _settled = inner.common.background.settled_after();
        let (first, last, open) = keys_of(range);
        let range = match open {
            true => KeyRange::until(&first, &last),
            false => KeyRange::inclusive(&first, &last),
        };
        match first < last || first == last && !open {
            true => inner.compactor.compact_range(cf, &range),
            false => Ok(()),
        }
    }
}

/// The first key, and the last one, or the first behind.
fn keys_of((from, to): (Bound<&[u8]>, Bound<&[u8]>)) -> (Vec<u8>, Vec<u8>, bool) {
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
        Bound::Unbounded => (first, vec![u8::MAX; limits::KEY_LEN_MAX], false),
        Bound::Included(key) => (first, key.to_vec(), false),
        Bound::Excluded(key) => (first, key.to_vec(), true),
    }
}

impl Compactor {
    fn compact_range(&self, cf: CfId, range: &KeyRange<'_>) -> Result<()> {
        let compacted = self.compact_jobs(cf, range);
        // What became due meanwhile met the jobs of this one, and was put off.
        self.common.want_compaction();
        compacted?;
        // What has shrunk is merged before the call returns, where nobody else would do it.
        loop {
            let _gate = read(&self.common.compactions.gate);
            self.common.check_writable()?;
            if !self.partitioner.adjust_by_size()? {
                return Ok(());
            }
        }
    }

    fn compact_jobs(&self, cf: CfId, range: &KeyRange<'_>) -> Result<()> {
        let visible = SeqNo(self.common.commits.ring.visible());
        let before = self.common.catalog.next_file();
        loop {
            let _gate = read(&self.common.compactions.gate);
            // Again, since the store may be closing.
            self.common.check_writable()?;
            let compactions = &self.common.compactions;
            let mut jobs = lock(&compactions.jobs);
            let version = self.common.catalog.version();
            let levels = Levels::of(&version, cf, Some((before, visible)));
            let options = compactions.shape.pick_options(&levels);
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
                    drop(wait(&compactions.ended, jobs));
                }
                Manual::Done => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
impl Compactor {
    /// Begins the first job that a range needs.
    pub fn take_range(&self, cf: CfId, range: &KeyRange<'_>) -> Option<Job> {
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
