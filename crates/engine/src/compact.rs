//! Compaction: tables sink from level to level, and what nobody needs goes on the way (design §9).
//!
//! | question | module |
//! |---|---|
//! | what does a merge read? | [`input`] |
//! | how are tables written, and what stays? | [`outputs`] |
//! | how should the levels be? | [`shape`] |
//! | which job is next? | [`due`] |
//! | how is one job run and installed? | [`job`] |
//! | how is a range compacted on demand? | [`manual`] |
//! | how is level 0 merged inside persistent memory? | [`internal`] |
//! | when is it, and what leaves? | [`costs`] |
//! | what do splits and merges of partitions hold meanwhile? | [`beside`] |
//! | which tables do reads want compacted? | `observe::charged` |
//! | how fast may all that be? | [`pace`] |
//! | what was done? | [`usage`] |
//!
//! Which tables a job takes is decided by `policy::pick`, which has the argument for levels and
//! age; here it is given what it asks for, and held to it.
//!
//! # Invariants
//! 1. *Jobs do not meet.* What a job holds is in the list of running jobs from before it is picked until
//!    after its edit is installed; whoever picks has that list's lock, and looks at the current version
//!    under it. So who does not see a job any more sees its outputs.
//! 2. *All or nothing.* One edit takes the inputs away and brings the outputs. Before it is appended,
//!    under the manifest's lock, the family and every input must still be where they were; if they are
//!    not, the outputs are thrown away.
//! 3. *Readers see no change.* The edit changes which tables there are, not what anybody reads. So the
//!    view may follow later: until then readers read the inputs, whose files a view keeps.
//! 4. *Nothing stays behind.* A job that fails lets go of its outputs, which nobody names, and of what it
//!    held. A failed append freezes the set of versions (`version_set`), and poisons.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before the edit | the inputs, and files that nobody names: removed |
//! | after the edit | the outputs, and perhaps the inputs' files: removed |
//!
//! A trivial move makes no file: its edit names the same one in another level.
//!
//! # Locks
//! `gate` is held shared by each job, so that closing can wait for all of them; it comes before the
//! writer's lock. `jobs` comes before `versions`, and nothing else is taken under it.

mod beside;
mod costs;
mod due;
mod ends;
pub(crate) mod internal;
mod job;
mod manual;
pub(crate) mod outputs;
mod pace;
pub(crate) mod shape;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeMap;

use thermocline_base::CfId;
use thermocline_base::options::Options;
use thermocline_env::Clock;
use thermocline_policy::pick::{Cursors, Held};
use thermocline_version::Version;

use crate::partitions::{Adjusting, Waiting};
use crate::report::{levels, partitions};
use crate::store::{Engine, Inner};
use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering, RwLock, lock, wait};
pub(crate) use costs::Costs;
pub(crate) use ends::Ends;
use internal::Internal;
pub(crate) use job::{level_of, stand};
use pace::Pace;
use shape::Shape;

/// The compactions of a store.
#[derive(Debug)]
pub(crate) struct Compactions {
    /// Held shared by each job.
    pub gate: RwLock<()>,
    jobs: Mutex<Jobs>,
    /// Held by whoever splits or merges a partition, so that there is one at a time. Before the writer's
    /// lock and the manifest's.
    pub adjusting: Mutex<Adjusting>,
    /// A job has ended.
    ended: Condvar,
    pub shape: Shape,
    pace: Pace,
    /// Runs in level 0, and bytes that wait. Relaxed: they guard nothing.
    debt: (AtomicU64, AtomicU64),
    pub usage: levels::Usage,
    internal: Internal,
    pub costs: Costs,
    pub partition_usage: partitions::Usage,
    /// The last job failed. Relaxed: it guards nothing.
    failed: AtomicBool,
}

/// The jobs that run, and where the next ones begin.
#[derive(Debug, Default)]
struct Jobs {
    running: Vec<Running>,
    /// Splits that wait for some of them.
    waiting: Vec<Waiting>,
    cursors: BTreeMap<CfId, Cursors>,
    /// The family that was last served.
    last: Option<CfId>,
    /// Jobs ever begun.
    begun: u64,
}

#[derive(Debug)]
struct Running {
    id: u64,
    cf: CfId,
    /// One of a compaction; those of a split or merge may be many, or none.
    holds: Vec<Held>,
}

impl Compactions {
    /// Jobs that run.
    pub fn running(&self) -> u64 {
        lock(&self.jobs).running.len() as u64
    }

    /// Whether some job runs.
    pub fn is_any_running(&self) -> bool {
        !lock(&self.jobs).running.is_empty()
    }
}

impl Jobs {
    /// What jobs of a family hold, and what is kept free for splits.
    fn held(&self, cf: CfId) -> Vec<Held> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.cf == cf);
        let of_family = self.running.iter().filter(|job| job.cf == cf);
        of_family
            .flat_map(|job| &job.holds)
            .chain(waiting.flat_map(|waiting| &waiting.holds))
            .cloned()
            .collect()
    }

    /// Whether a running job of the family holds something of this.
    fn meets(&self, cf: CfId, holds: &Held) -> bool {
        let of_family = self.running.iter().filter(|job| job.cf == cf);
        let mut held = of_family.flat_map(|job| &job.holds);
        held.any(|held| held.meets(&holds.levels, &holds.range()))
    }
}

impl Compactions {
    pub fn new(options: &Options, clock: Arc<dyn Clock>, version: &Version) -> Compactions {
        let compactions = Compactions {
            gate: RwLock::default(),
            jobs: Mutex::default(),
            adjusting: Mutex::new(Adjusting::default()),
            ended: Condvar::default(),
            shape: Shape::new(options),
            costs: Costs::new(options, &*clock),
            pace: Pace::new(options.compaction.rate_bytes, clock),
            debt: Default::default(),
            usage: levels::Usage::default(),
            internal: Internal::default(),
            partition_usage: partitions::Usage::default(),
            failed: AtomicBool::new(false),
        };
        compactions.note(version);
        compactions
    }

    /// Whether jobs wait so as to be slow enough.
    fn is_paced(&self) -> bool {
        self.pace.is_limited()
    }

    /// This is the current version now.
    pub fn note(&self, version: &Version) {
        let (runs, bytes) = self.shape.debt(version);
        self.debt.0.store(runs, Ordering::Relaxed);
        self.debt.1.store(bytes, Ordering::Relaxed);
    }
}

impl Inner {
    /// How many tables of level 0 a read may have to ask, and about how many bytes compactions are behind:
    /// what writers may have to wait for.
    pub fn compaction_debt(&self) -> (u64, u64) {
        let (runs, bytes) = &self.compactions.debt;
        (runs.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }
}

impl Inner {
    /// Has tables compacted that reads ask in vain, if there are new ones, and level 0 weighed anew if it was read
    /// often.
    #[inline]
    pub fn compact_for_reads(&self) {
        if self.catalog.table_files.reads.has_news() || self.rates.has_news() {
            self.want_compaction();
        }
    }
}

impl Inner {
    /// What running jobs of a family hold, and where its next ones begin.
    pub fn compactions_of(&self, cf: CfId) -> (Vec<Held>, Cursors) {
        let jobs = lock(&self.compactions.jobs);
        let cursors = jobs.cursors.get(&cf).cloned();
        (jobs.held(cf), cursors.unwrap_or_default())
    }
}

impl Engine {
    /// Does the most urgent compaction, if one is due; returns whether there was one.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a store that takes no writes;
    /// [`thermocline_base::Error::Poisoned`]; a failed sync of the folder or write to the manifest, which
    /// poisons the store; those of the file system and [`thermocline_base::Error::Corruption`] of a
    /// table, after which everything is as before.
    pub fn compact_once(&self) -> thermocline_base::Result<bool> {
        let _settled = self.inner.background.settled_after();
        self.inner.compact_once()
    }

    /// Does all flushes and compactions that are due, and waits for those that run. What is not due stays
    /// where it is.
    ///
    /// # Errors
    /// As [`Engine::compact_once`] and [`Engine::flush`].
    pub fn drain(&self) -> thermocline_base::Result<()> {
        let inner = &*self.inner;
        let _settled = inner.background.settled_after();
        loop {
            inner.check_writable()?;
            inner.reclaim()?;
            inner.flush_deletes()?;
            // Behind a flush that runs.
            let flushed = match inner.is_flush_due() {
                true => inner.flush_sealed()?,
                false => {
                    drop(lock(&inner.turns.flushing));
                    0
                }
            };
            if flushed == 0 && !inner.compact_once()? && !inner.wait_for_compactions() {
                return Ok(());
            }
        }
    }
}

impl Inner {
    /// Waits until no compaction runs; whether one did.
    fn wait_for_compactions(&self) -> bool {
        let mut jobs = lock(&self.compactions.jobs);
        let ran = !jobs.running.is_empty();
        while !jobs.running.is_empty() {
            jobs = wait(&self.compactions.ended, jobs);
        }
        ran
    }
}
