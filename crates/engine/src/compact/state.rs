//! What compactions have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thermocline_base::options::Options;
use thermocline_base::{CfId, Error, FileId};
use thermocline_env::Clock;
use thermocline_policy::collect::{Allowance, BlobFile, Copies, is_due, lets_values_move, limits};
use thermocline_policy::flush::Sealed;
use thermocline_policy::pick::{Cursors, Held, Reason};
use thermocline_policy::pressure::Limits;
use thermocline_tables::TableFiles;
use thermocline_version::{TableRef, Version};

use super::costs::known::Costs;
use super::counted::{self, referred};
use super::debt::Debts;
use super::deleted::DeletedRanges;
use super::failures::{Failures, PassedOver, Resting, is_of_store};
use super::filters::Filters;
use super::internal::known::Internal;
use super::pace::{Hurry, Pace, Paced};
use super::shape::Shape;
use super::sums::LevelSums;
use crate::partitions::waiting::{AdjustTurn, Waiting};
use crate::report::{FilterUse, levels, partitions};
use crate::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, lock, wait};
use crate::turns::{Gate, Inside};

/// The compactions of a store.
#[derive(Debug)]
pub(crate) struct Compactions {
    /// Held shared by each job.
    pub gate: Gate,
    pub(super) jobs: Mutex<Jobs>,
    /// Held by whoever splits or merges a partition, so that there is one at a time. Before the writer's
    /// lock and the manifest's.
    pub adjusting: AdjustTurn,
    /// A job has ended.
    pub(super) ended: Condvar,
    pub shape: Shape,
    pub(super) pace: Pace,
    debt: Mutex<Behind>,
    pub(super) debts: Debts,
    pub(super) sums: LevelSums,
    /// What users allow of garbage, and what flushes bring.
    pub(super) garbage_allowance: Allowance,
    /// A blob file ends with so many bytes.
    blob_file_bytes: u64,
    collecting: Mutex<Collecting>,
    /// What jobs leave alone for a while.
    resting: Mutex<Resting>,
    pub usage: levels::Usage,
    pub(super) internal: Internal,
    pub costs: Costs,
    pub partition_usage: partitions::Usage,
    pub(super) filters: Filters,
    pub deleted: DeletedRanges,
    /// Calls that compact a range. Relaxed: it guards nothing.
    pub(super) by_hand: AtomicU64,
    /// The last job failed. Relaxed: it guards nothing.
    pub(super) failed: AtomicBool,
    pub failures: Failures,
}

/// The jobs that run, and where the next ones begin.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(super) running: Vec<Running>,
    /// Splits that wait for some of them.
    pub(super) waiting: Vec<Waiting>,
    pub(super) cursors: BTreeMap<CfId, Cursors>,
    /// The family that was last served.
    pub(super) last: Option<CfId>,
    /// Jobs ever begun.
    pub(super) begun: u64,
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(super) id: u64,
    pub(super) cf: CfId,
    /// One of a compaction; those of a split or merge may be many, or none.
    pub(super) holds: Vec<Held>,
    /// Bytes of values that it moves, about, since there is much garbage where they lie.
    pub(super) moves: u64,
}

/// What has come of collections.
#[derive(Debug, Default)]
struct Collecting {
    /// Tables whose values cannot move.
    passed_over: PassedOver,
    /// The last job has failed.
    failed: bool,
    /// There is nothing to do about what is due.
    stuck: bool,
    /// Files that jobs have begun to join, as far as they are there.
    joining: Vec<FileId>,
}

impl Collecting {
    /// Forgets what is not there any more.
    fn forget_gone(&mut self, version: &Version) {
        self.passed_over.forget_gone(version);
        let is_there = |file: &FileId| {
            let named = version.blob_file(*file);
            named.is_some_and(|blob| blob.references > 0)
        };
        self.joining.retain(is_there);
    }
}

/// What compactions are behind with.
#[derive(Debug, Clone)]
pub(crate) struct Behind {
    /// How many tables of level 0 a read may have to ask.
    pub level0_runs: u64,
    /// About how many bytes wait.
    pub pending_bytes: u64,
    /// Whether something is to be collected, as far as the version says it.
    seems_due: bool,
    /// Whether some family may have too many small blob files.
    has_many_small: bool,
    /// Bytes in blob files that can be collected and that nothing refers to.
    pub garbage_bytes: u64,
    /// Where those hold writers back.
    pub garbage_limits: Limits,
    /// What may be there twice while jobs move values because of it.
    copies: Copies,
    /// The files in which they are, by number.
    pub blob_files: Arc<[BlobFile]>,
}

impl Default for Behind {
    fn default() -> Behind {
        Behind {
            level0_runs: 0,
            pending_bytes: 0,
            seems_due: false,
            has_many_small: false,
            garbage_bytes: 0,
            garbage_limits: Limits::NONE,
            copies: Copies::ALL,
            blob_files: Arc::default(),
        }
    }
}

impl Compactions {
    /// Jobs that run.
    pub fn running(&self) -> u64 {
        lock(&self.jobs).running.len() as u64
    }

    /// What writers may have to wait for.
    pub fn behind(&self) -> Behind {
        lock(&self.debt).clone()
    }

    /// Whether something is to be collected, as far as the version says it.
    pub(super) fn seems_due(&self) -> bool {
        lock(&self.debt).seems_due
    }

    /// What may be there twice while jobs move values because of garbage.
    pub(super) fn copies(&self) -> Copies {
        lock(&self.debt).copies
    }

    /// Whether a job may move values beside these. To join files others may move as many.
    pub(super) fn may_move(&self, jobs: &Jobs) -> bool {
        !self.seems_due() || self.copies().let_begin(jobs.moving())
    }

    /// Whether small blob files may have to be joined, as far as the version says it, and no garbage comes before them.
    pub(super) fn may_join(&self) -> bool {
        let (seems_due, has_many_small) = {
            let behind = lock(&self.debt);
            (behind.seems_due, behind.has_many_small)
        };
        !seems_due && (has_many_small || !lock(&self.collecting).joining.is_empty())
    }

    /// Files that jobs have begun to join, as far as they are there.
    pub(super) fn joining(&self) -> Vec<FileId> {
        lock(&self.collecting).joining.clone()
    }

    /// A job begins to write that moves values out of these, to join them.
    pub(super) fn begin_joining(&self, files: &[FileId]) {
        lock(&self.collecting).joining = files.to_vec();
    }

    /// The files of a version that tables can let go of, whatever garbage there is.
    pub(super) fn movable(&self, version: &Version) -> Vec<BlobFile> {
        let passed_over = lock(&self.collecting).passed_over.tables().clone();
        counted::all_movable(version, &passed_over)
    }

    /// The files of a version that tables can let go of, if some has garbage, or seems to.
    pub(super) fn collectable(&self, version: &Version) -> Vec<BlobFile> {
        let passed_over = lock(&self.collecting).passed_over.tables().clone();
        counted::collectable(version, &passed_over)
    }

    /// Tables that no job takes at this time, because one has failed that read them; when room is wanted on the disk or not.
    pub(super) fn resting(&self, now_ns: u64, relieving: bool) -> BTreeSet<FileId> {
        lock(&self.resting).at(now_ns, relieving)
    }

    /// After how long the first of those may be taken again.
    pub fn first_rest_ends_after(&self, now_ns: u64) -> Option<Duration> {
        lock(&self.resting).first_ends_after(now_ns)
    }

    /// A job has ended, which had these tables. If it has failed for lack of room, that is `relieved` by who makes some, or not. Whether the
    /// tables rest from now on.
    pub(super) fn job_ended(
        &self,
        reason: Reason,
        tables: &[FileId],
        (failed, relieved): (Option<&Error>, bool),
        now_ns: u64,
    ) -> bool {
        let tables = || tables.iter().copied();
        if reason == Reason::Garbage {
            self.collection_ended(tables(), failed);
        }
        let Some(error) = failed else {
            lock(&self.resting).room_came();
            return false;
        };
        let rests = match reason {
            // They read nothing.
            Reason::Deleted | Reason::Expired => false,
            // What else fails is passed over.
            Reason::Garbage => error.is_no_room() && !relieved,
            _ => !(error.is_no_room() && relieved),
        };
        rests && lock(&self.resting).note(tables(), error, now_ns)
    }

    /// There is nothing to do about what is due, or there is.
    pub(super) fn collection_is_stuck(&self, stuck: bool) {
        lock(&self.collecting).stuck = stuck;
    }

    /// A job that was to move the values of these tables has ended.
    pub(super) fn collection_ended(
        &self,
        tables: impl IntoIterator<Item = FileId>,
        failed: Option<&Error>,
    ) {
        let mut collecting = lock(&self.collecting);
        match failed {
            None => collecting.failed = false,
            Some(error) => {
                let is_over = matches!(error, Error::Corruption { .. });
                collecting.failed |= !is_over && !is_of_store(error);
                collecting.passed_over.note(tables, error);
            }
        }
    }

    /// Whether collection makes room for who waits for it.
    pub fn collects(&self) -> bool {
        let collecting = lock(&self.collecting);
        !collecting.failed && !collecting.stuck
    }

    /// What running jobs of a family hold, and where its next ones begin.
    pub fn of_family(&self, cf: CfId) -> (Vec<Held>, Cursors) {
        let jobs = lock(&self.jobs);
        let cursors = jobs.cursors.get(&cf).cloned();
        (jobs.held(cf), cursors.unwrap_or_default())
    }

    /// Somebody waits for running jobs as long as this is held: none of them rests.
    pub fn hurry(&self) -> Hurry<'_> {
        self.pace.hurry()
    }

    /// Waits until a job has ended, or a split keeps its key free no more, or the store is closed. Not inside the gate: the split may be
    /// about to enter, and would wait for who closes the store, who would wait for this one.
    pub(super) fn wait_for_end(&self, inside: Inside<'_>, jobs: MutexGuard<'_, Jobs>) {
        drop(inside);
        let _hurry = self.hurry();
        drop(wait(&self.ended, jobs));
    }

    /// The store is closed, and nobody is inside the gate: who waits for a job finds that out.
    pub fn closed(&self) {
        // Who is about to wait has this lock until it does.
        drop(lock(&self.jobs));
        self.ended.notify_all();
    }

    /// How many wait for running jobs.
    #[cfg(test)]
    pub fn awaited(&self) -> u64 {
        self.pace.awaited()
    }

    /// Waits until no compaction runs; whether one did.
    pub fn wait_for_all(&self) -> bool {
        let mut jobs = lock(&self.jobs);
        let ran = !jobs.running.is_empty();
        while !jobs.running.is_empty() {
            jobs = wait(&self.ended, jobs);
        }
        ran
    }

    /// What compaction filters have done.
    pub fn filter_use(&self) -> FilterUse {
        self.filters.usage()
    }

    /// Whether some job runs.
    pub fn is_any_running(&self) -> bool {
        !lock(&self.jobs).running.is_empty()
    }
}

impl Jobs {
    /// What jobs of a family hold, and what is kept free for splits.
    pub(super) fn held(&self, cf: CfId) -> Vec<Held> {
        let waiting = self.waiting.iter().filter(|waiting| waiting.cf == cf);
        let of_family = self.running.iter().filter(|job| job.cf == cf);
        of_family
            .flat_map(|job| &job.holds)
            .chain(waiting.flat_map(|waiting| &waiting.holds))
            .cloned()
            .collect()
    }

    /// Bytes of values that running jobs move because of garbage.
    fn moving(&self) -> u64 {
        let moves = self.running.iter().map(|job| job.moves);
        moves.fold(0, u64::saturating_add)
    }

    /// Whether a running job of the family holds something of this.
    pub(super) fn meets(&self, cf: CfId, holds: &Held) -> bool {
        let of_family = self.running.iter().filter(|job| job.cf == cf);
        let mut held = of_family.flat_map(|job| &job.holds);
        held.any(|held| held.meets(&holds.levels, &holds.range))
    }
}

impl Compactions {
    pub fn new(options: &Options, clock: Arc<dyn Clock>, version: &Version) -> Compactions {
        let compactions = Compactions {
            gate: Gate::default(),
            by_hand: AtomicU64::new(0),
            jobs: Mutex::default(),
            adjusting: AdjustTurn::default(),
            ended: Condvar::default(),
            shape: Shape::new(options),
            costs: Costs::new(options, &*clock),
            pace: Pace::new(options.compaction.rate_bytes, clock)
                .giving_way(options.compaction.rate_adapts),
            debt: Mutex::default(),
            debts: Debts::default(),
            sums: LevelSums::default(),
            garbage_allowance: Allowance {
                percent_max: options.blob.space_percent_max,
                flush_bytes: options.flush_pm_bytes(),
            },
            blob_file_bytes: options.blob.file_bytes,
            collecting: Mutex::default(),
            resting: Mutex::default(),
            usage: levels::Usage::default(),
            internal: Internal::default(),
            partition_usage: partitions::Usage::default(),
            filters: Filters::default(),
            deleted: DeletedRanges::default(),
            failed: AtomicBool::new(false),
            failures: Failures::default(),
        };
        compactions.note(version);
        compactions
    }

    /// Whether a job that has begun then, by the clock, may have waited so as to be slow enough.
    pub(super) fn has_held_since(&self, begun_ns: u64) -> bool {
        self.pace.has_held_since(begun_ns)
    }

    /// A job begins that keeps to the pace. Where jobs give way to clients, which read these files, one `by_hand` does not: somebody waits
    /// for it.
    pub(super) fn paced<'a>(&'a self, files: &'a TableFiles, by_hand: bool) -> Paced<'a> {
        self.pace.begin((!by_hand).then(|| files.reader()))
    }

    /// Whether jobs give way to clients.
    pub fn gives_way(&self) -> bool {
        self.pace.gives_way()
    }

    /// What waits needs jobs so much, where they give way.
    pub fn needs(&self, need: f64) {
        self.pace.needs(need);
    }

    /// Percent of their time that jobs work now; `None` if they do not give way.
    pub fn percent_worked(&self, files: &TableFiles) -> Option<u64> {
        self.pace.percent(files.reader())
    }

    /// So much waits to be flushed.
    pub fn memtables_are(&self, sealed: &Sealed) {
        let lent = self.costs.memtables_are(sealed);
        self.shape.share.memtables_lend(lent);
    }

    /// This is the current version now.
    pub fn note(&self, version: &Version) {
        let (level0_runs, pending_bytes) = self.debts.of(&self.shape, version);
        let mut behind = Behind {
            level0_runs,
            pending_bytes,
            ..Behind::default()
        };
        let allowance = self.garbage_allowance;
        behind.has_many_small = lets_values_move(allowance.percent_max)
            && counted::are_many_small(version, self.blob_file_bytes);
        lock(&self.collecting).forget_gone(version);
        lock(&self.resting).forget_gone(version);
        let mut files = self.collectable(version);
        if !files.is_empty() {
            behind.seems_due = is_due(&files, allowance);
            let unknown = referred(version, TableRef::refers_to_unknown);
            files.retain(|of| unknown.binary_search(&of.file).is_err());
            let all = files.iter().map(|of| of.bytes);
            let all = all.fold(0, u64::saturating_add);
            let live = files.iter().map(|of| of.live);
            let live = live.fold(0, u64::saturating_add);
            behind.garbage_bytes = all.saturating_sub(live);
            behind.garbage_limits = limits(live, allowance);
            behind.copies = Copies::of(live, allowance.percent_max);
            // Though files of which less is known may hide it among their own.
            behind.seems_due |= is_due(&files, allowance);
            behind.blob_files = files.into();
        }
        if !behind.seems_due {
            lock(&self.collecting).failed = false;
        }
        *lock(&self.debt) = behind;
    }
}
