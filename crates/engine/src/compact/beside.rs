//! Splits and merges of partitions beside compactions: each holds what it changes, as jobs do.
//!
//! A compaction takes references, and gives up, with all its work, where they are no longer there. So who is
//! about to cut or join references holds them, in the level in which they stand: a split its key where a
//! reference reaches over it, a merge each row of parts that it joins. In the other levels, and beside those keys,
//! jobs go on.
//!
//! A merge takes what is free; a split **waits**. What it waits for is kept free of new jobs: the levels where a
//! running one holds its key, those alone, since a job that sinks a large table would otherwise keep level 0
//! from being compacted. If other levels are taken meanwhile, it waits for those, too, and keeps what it has waited
//! for: there are few levels, so after as many jobs its turn comes.
//!
//! Whoever picks reads the current version under the lock of the running jobs; so do these. Who does not see a
//! job any more sees its outputs.

use std::collections::BTreeSet;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, KeyRange};
use thermocline_policy::pick::{Along, Held};
use thermocline_version::{Joined, Level, Place, TableRef, Version};

use super::shape::Levels;
use super::{Compactions, Ends, Jobs, Running};
use crate::partitions::waiting::{Waiter, Waiting};
use crate::store::Picker;
use crate::sync::{Arc, lock};
use crate::turns::Inside;

/// A key in one level.
fn at(level: Level, key: &[u8]) -> Held {
    let level = usize::from(level.0);
    Held {
        levels: level..=level,
        range: KeyRange::inclusive(key, key).owned(),
        seqnos: Held::ANY_AGE,
        stays: true,
        rests: false,
    }
}

/// All that a reference is.
fn all_of(place: Place, table: &TableRef) -> Held {
    let level = usize::from(place.level.0);
    Held {
        levels: level..=level,
        range: table.range.clone(),
        seqnos: Held::ANY_AGE,
        stays: true,
        rests: false,
    }
}

impl Jobs {
    fn hold(&mut self, cf: CfId, holds: Vec<Held>) -> u64 {
        self.begun += 1;
        let id = self.begun;
        self.running.push(Running {
            id,
            cf,
            holds,
            moves: 0,
        });
        id
    }

    fn position(&self, waiter: Waiter) -> Option<usize> {
        self.waiting.iter().position(|w| w.waiter == waiter)
    }
}

impl Compactions {
    /// A number for somebody who may have to wait.
    pub fn next_waiter(&self) -> u64 {
        let mut jobs = lock(&self.jobs);
        jobs.begun += 1;
        jobs.begun
    }

    /// Nothing is kept free for this one any more.
    pub fn forget_waiting(&self, waiter: Waiter) {
        let mut jobs = lock(&self.jobs);
        if let Some(at) = jobs.position(waiter) {
            jobs.waiting.remove(at);
            self.ended.notify_all();
        }
    }

    /// Whether this one waits.
    pub fn is_waiting(&self, waiter: Waiter) -> bool {
        lock(&self.jobs).position(waiter).is_some()
    }

    /// What the split is that this one waits for.
    pub fn waiting_split(&self, waiter: Waiter) -> Option<(CfId, Vec<u8>)> {
        let jobs = lock(&self.jobs);
        let waiting = &jobs.waiting[jobs.position(waiter)?];
        Some((waiting.cf, waiting.key.clone()))
    }

    /// Waits until a job ends for which this one waits, unless there is none; not inside the gate.
    pub fn wait_for_turn(&self, inside: Inside<'_>, waiter: Waiter) {
        let jobs = lock(&self.jobs);
        let waiting = jobs.position(waiter).map(|at| &jobs.waiting[at]);
        let runs = |waiting: &Waiting| {
            let mut holds = waiting.holds.iter();
            holds.any(|held| jobs.meets(waiting.cf, held))
        };
        if waiting.is_some_and(runs) {
            self.wait_for_end(inside, jobs);
        }
    }
}

impl Picker {
    /// Holds the key of a split in each level where a reference reaches over it, and says which those are;
    /// `None` if a running job has it in one of them, and then it is kept free.
    pub fn hold_for_split(
        &self,
        cf: CfId,
        key: &[u8],
        waiter: Waiter,
    ) -> Option<(Ends<'_>, BTreeSet<Level>)> {
        let mut jobs = lock(&self.common.compactions.jobs);
        let version = self.common.catalog.version();
        let levels = version.reaching_over(cf, key).map(|(at, _)| at.level);
        let levels: BTreeSet<Level> = levels.collect();
        let met = levels.iter().map(|level| at(*level, key));
        let met: Vec<Held> = met.filter(|held| jobs.meets(cf, held)).collect();
        let before = jobs.position(waiter).map(|at| jobs.waiting.remove(at));
        if !met.is_empty() && !active(Bug::SplitBesideJob) {
            let before = before.filter(|before| before.cf == cf && before.key == key);
            let mut holds = before.map_or(Vec::new(), |before| before.holds);
            for held in met {
                if !holds.contains(&held) {
                    holds.push(held);
                }
            }
            jobs.waiting.push(Waiting {
                waiter,
                cf,
                key: key.to_vec(),
                holds,
            });
            return None;
        }
        let id = jobs.hold(cf, levels.iter().map(|level| at(*level, key)).collect());
        Some((Ends::new(&self.common, id), levels))
    }

    /// What a range of a flush takes along (`flush::along`), if `pick` finds something beside what jobs hold; held.
    pub fn hold_along_flush(
        &self,
        cf: CfId,
        pick: impl FnOnce(&Levels<'_>, &[Held]) -> Option<Along>,
    ) -> Option<(Ends<'_>, Arc<Version>, Along)> {
        let mut jobs = lock(&self.common.compactions.jobs);
        let version = self.common.catalog.version();
        let running = match active(Bug::AlongBesideJob) {
            true => Vec::new(),
            false => jobs.held(cf),
        };
        let levels = Levels::of(&version, cf, None);
        let picked = pick(&levels, &running)?;
        // What reaches out of the range is held as a whole: it will be cut, and nobody else must do that.
        let inputs = picked.inputs.iter().map(|n| levels.reference(0, *n));
        let wholes = inputs.map(|table| Held {
            stays: false,
            rests: false,
            ..all_of(Place::new(cf, Level::ZERO), table)
        });
        let holds = wholes.chain([picked.holds.clone()]).collect();
        let id = jobs.hold(cf, holds);
        Some((Ends::new(&self.common, id), version, picked))
    }

    /// Of the parts of tables that meet at `keys`, which ascend, those that no running job takes, held; as many as
    /// `enough` says.
    pub fn hold_for_merge(
        &self,
        cf: CfId,
        keys: &[Vec<u8>],
        mut enough: impl FnMut(&TableRef) -> bool,
    ) -> (Ends<'_>, Vec<Joined>) {
        let mut jobs = lock(&self.common.compactions.jobs);
        let version = self.common.catalog.version();
        let joined = version.joined_at(cf, keys, |place, whole| {
            let met = jobs.meets(cf, &all_of(place, whole)) && !active(Bug::MergeBesideJob);
            !met && !enough(whole)
        });
        let holds = joined.iter().map(|j| all_of(j.place, &j.whole)).collect();
        let id = jobs.hold(cf, holds);
        (Ends::new(&self.common, id), joined)
    }
}
