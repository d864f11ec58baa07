//! A range that somebody wants compacted.

use std::ops::Bound;

use thermocline_base::{CfId, KeyRange, Result, SeqNo, limits};
use thermocline_policy::pick::{Manual, pick_range};

use super::job::picked::Job;
use super::shape::Levels;
use crate::store::Compactor;
use crate::sync::{lock, read, wait};

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
    /// As [`Engine::compact`](crate::Engine::compact), of what lies in tables.
    pub fn compact_range(&self, cf: CfId, range: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<()> {
        let (first, last, open) = keys_of(range);
        if first > last || first == last && open {
            return Ok(());
        }
        let range = match open {
            true => KeyRange::until(&first, &last),
            false => KeyRange::inclusive(&first, &last),
        };
        let range = &range;
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
