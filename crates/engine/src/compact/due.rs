//! The next compaction: what is known is put together under the lock of the list of running jobs, `policy::next` decides, and the
//! job enters the list before the lock is given up.

use std::collections::BTreeMap;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, SeqNo};
use thermocline_commit::readers::moments_of_merge;
use thermocline_observe::charged;
use thermocline_policy as policy;
use thermocline_policy::collect::Refers;
use thermocline_policy::pick::{
    Cursors, DeletedRanges, Expired, Held, Job as PickedJob, PickOptions, Reason, level0_slices,
    pick_tombstones,
};
use thermocline_policy::situation::{Charged, FamilyLevels, Levels, Relief, Situation};
use thermocline_policy::work::{Decision, Work};
use thermocline_version::Version;

use super::costs::OfFamily;
use super::deleted;
use super::job::picked::Job;
use super::{Jobs, collect};
use crate::store::Picker;
use crate::sync::{Arc, lock};

/// What is known of all families.
struct Known<'v> {
    version: &'v Arc<Version>,
    /// By their ids.
    families: Vec<OfFamily<'v>>,
    /// Of each.
    options: Vec<PickOptions>,
    cursors: Vec<Cursors>,
    /// Of each what is deleted in whole ranges.
    deleted: Vec<deleted::OfFamily>,
    /// Who reads what was there before; nobody, if nothing is.
    moments: Vec<SeqNo>,
    /// The place of that whose turn it is.
    turn: usize,
    room: Option<Relief>,
    garbage: Vec<Refers>,
    /// Whether a job may move those.
    may_move: bool,
}

impl Known<'_> {
    fn place(&self, cf: CfId) -> Option<usize> {
        self.families.iter().position(|known| known.cf == cf)
    }

    /// What tables of a family refer to in blob files that are to be collected. It comes by family.
    fn garbage_of(&self, cf: CfId) -> &[Refers] {
        let first = self.garbage.partition_point(|of| of.family < cf);
        let behind = self.garbage.partition_point(|of| of.family <= cf);
        &self.garbage[first..behind]
    }

    /// Bytes of values that are to move in tables of a job.
    fn moved_by(&self, cf: CfId, job: &PickedJob) -> u64 {
        let is_input = |of: &&Refers| {
            let above = of.level == job.from && job.inputs.contains(&of.place);
            above || of.level == job.to && job.overlapped.contains(&of.place)
        };
        let own = self.garbage_of(cf).iter().filter(is_input);
        own.map(|of| of.bytes).fold(0, u64::saturating_add)
    }

    /// In their turn.
    fn levels(&self) -> Vec<FamilyLevels<'_>> {
        let of = |n: usize| FamilyLevels {
            family: self.families[n].cf,
            state: self.families[n].levels.state(&self.families[n].held),
            running: &self.families[n].running,
            options: self.options[n],
            cursors: &self.cursors[n],
            contents: &self.families[n].contents,
            deleted: DeletedRanges {
                covered: &self.deleted[n].covered,
                empty: &self.deleted[n].empty,
                moments: &self.moments,
            },
        };
        let turns = (self.turn..self.families.len()).chain(0..self.turn);
        turns.map(of).collect()
    }
}

impl Picker {
    /// What is known for the next compaction, beside jobs that hold this.
    fn known<'v>(
        &self,
        version: &'v Arc<Version>,
        jobs: &Jobs,
        held: impl Fn(CfId) -> Vec<Held>,
        (room, to_move): (Option<Option<u64>>, u64),
    ) -> Known<'v> {
        let families = version.families();
        let relieving = self.pressure.is_relieving();
        let resting = (self.common.compactions).resting(self.common.now_ns(), relieving);
        let families: Vec<OfFamily<'v>> = families
            .map(|cf| OfFamily::of(version, cf, held(cf)).beside(&resting))
            .collect();
        let shape = &self.common.compactions.shape;
        let options = families.iter().map(|known| PickOptions {
            expired: self.expired_for(known.cf),
            ..shape.pick_options(&known.levels)
        });
        let options: Vec<PickOptions> = options.collect();
        let sums = &self.common.compactions.sums;
        for (known, options) in families.iter().zip(&options) {
            known.levels.with_stretches(sums, options.expired.is_some());
        }
        let deleted = &self.common.compactions.deleted;
        let deleted = families.iter().map(|known| deleted.of(known.cf));
        let deleted: Vec<deleted::OfFamily> = deleted.collect();
        let is_none = |of: &deleted::OfFamily| of.covered.is_empty() && of.empty.is_empty();
        let cursors = families.iter().map(|known| jobs.cursors.get(&known.cf));
        let passed = |known: &OfFamily<'_>| jobs.last.is_some_and(|last| known.cf <= last);
        Known {
            version,
            options,
            cursors: cursors.map(|at| at.cloned().unwrap_or_default()).collect(),
            moments: match deleted.iter().all(is_none) && !version.has_deletes() {
                true => Vec::new(),
                false => self.moments_of_readers(),
            },
            deleted,
            turn: families.partition_point(passed),
            garbage: collect::refers(version, (&self.common, to_move)),
            may_move: self.common.compactions.may_move(jobs),
            families,
            room: room.map(|room| {
                self.pressure.note_readers();
                Relief {
                    room,
                    is_any_running: !jobs.running.is_empty(),
                    rewrite_before: self.pressure.rewritten_for_room(),
                }
            }),
        }
    }

    /// The part of a situation that compactions are decided on.
    fn levels_of<'a>(&self, known: &'a Known<'_>, families: &'a [FamilyLevels<'a>]) -> Levels<'a> {
        let first = known.families.first();
        let shape = &self.common.compactions.shape;
        Levels {
            families,
            level0: None,
            pm_files: &[],
            is_past_share: first.is_some_and(|first| shape.is_past_share(&first.levels)),
            relief: known.room,
            is_disk_full: self.pressure.is_disk_full(),
            is_by_hand: self.common.compactions.is_compacting_by_hand(),
            internal_gave_up: self.gave_up_in(known.version),
            refused: &[],
            charged: Charged::Unknown,
            garbage: &known.garbage,
            may_move: known.may_move,
        }
    }

    /// Of the families in turn, the first that has something to do.
    pub fn take_due(&self) -> Option<Job> {
        let room = self
            .pressure
            .is_relieving()
            .then(|| self.pressure.room_for_jobs());
        let to_move = self.room_to_move();
        self.look_at_deletes();
        let mut jobs = lock(&self.common.compactions.jobs);
        let version = self.common.catalog.version();
        let known = self.known(&version, &jobs, |cf| jobs.held(cf), (room, to_move));
        let compactions = &self.common.compactions;
        compactions.collection_is_stuck(compactions.seems_due() && known.garbage.is_empty());
        let plan = match room {
            Some(_) => None,
            None => self.level0_costs.level0_plan_of(&version, &known.families),
        };
        let families = known.levels();
        let pm_files = self.pm_files_without_costs(&version);
        let mut levels = self.levels_of(&known, &families);
        (levels.level0, levels.pm_files) = (plan.as_ref(), &pm_files);
        levels.is_past_share &= !pm_files.is_empty();
        let mut refused = Vec::new();
        loop {
            let situation = Situation {
                now_ns: self.common.now_ns(),
                levels: Some(Levels {
                    refused: &refused,
                    ..levels
                }),
                ..Situation::default()
            };
            let decision = self.common.compactions.costs.next(&situation);
            match &decision.work {
                Work::LookAtReads => levels.charged = self.next_charged(&known),
                Work::CompactInternal { family, place, .. } => {
                    match self.begin(&mut jobs, &known, &decision) {
                        Some(job) => return Some(job),
                        None => refused.push((*family, *place)),
                    }
                }
                Work::Compact { .. } => return self.begin(&mut jobs, &known, &decision),
                _ => {
                    self.note_who_holds_up(&known, &families);
                    return None;
                }
            }
        }
    }

    /// Notes for which reader tables with many deletes wait, if they do: when he goes he asks for a look at them.
    fn note_who_holds_up(&self, known: &Known<'_>, families: &[FamilyLevels<'_>]) {
        let goes = |of: &FamilyLevels<'_>, moments: &[SeqNo]| {
            pick_tombstones(moments, &of.state, &of.options).is_some()
        };
        let waits = |of: &FamilyLevels<'_>| goes(of, &[]) && !goes(of, &known.moments);
        let first = known.moments.first().copied();
        let first = first.filter(|_| families.iter().any(waits));
        self.common.compactions.deleted.wait_for(first);
        // Who has gone since the moments were asked for has not seen that.
        if first.is_some_and(|first| self.moments_of_readers().first() != Some(&first)) {
            self.common.want_compaction();
        }
    }

    /// Begins a collection that is due, where what moves has so much room; and whether some is due, which jobs may have put off.
    pub fn begin_collection(&self, jobs: &mut Jobs, to_move: u64) -> (Option<Job>, bool) {
        let version = self.common.catalog.version();
        let known = self.known(&version, jobs, |cf| jobs.held(cf), (None, to_move));
        let families = known.levels();
        let decision = policy::next_collection(&self.levels_of(&known, &families));
        let begun = decision.and_then(|decision| self.begin(jobs, &known, &decision));
        (begun, !known.garbage.is_empty())
    }

    /// Learns what is deleted by now in whole ranges.
    fn look_at_deletes(&self) {
        // In this order: what is settled is in the view.
        let settled = self.common.settled();
        let view = self.common.catalog.view_to_keep();
        let version = self.common.catalog.version();
        self.common
            .compactions
            .deleted
            .look(&view, &version, settled);
    }

    /// Begins what was decided; `None` if there is no persistent memory for a merge.
    fn begin(&self, jobs: &mut Jobs, known: &Known<'_>, decision: &Decision) -> Option<Job> {
        let version = known.version;
        let job = match &decision.work {
            Work::CompactInternal {
                family,
                place,
                job,
                expects,
            } => {
                let of = &known.families[known.place(*family)?];
                let slices = level0_slices(&of.levels.state(&of.held));
                let (slice, picked) = (slices.get(*place)?, (**job).clone());
                let merge = self.begin_merge(jobs, *family, version, &of.levels, slice, picked)?;
                match *expects {
                    Some((updates, records)) => merge.expecting(updates, records),
                    None => merge,
                }
            }
            Work::Compact { family, job } => {
                let place = known.place(*family)?;
                let (of, last_level) = (&known.families[place], known.options[place].last_level);
                let moves = match job.reason {
                    Reason::Garbage => known.moved_by(*family, job),
                    _ => 0,
                };
                let picked = (**job).clone();
                let begun = Job::begin(jobs, *family, version, &of.levels, last_level, picked);
                begun.moving(jobs, moves, self.common.compactions.copies())
            }
            _ => return None,
        };
        self.common.compactions.costs.decided(decision);
        self.common.decided(decision);
        Some(job.because(&decision.because))
    }

    /// The moments at which somebody reads what was visible before.
    fn moments_of_readers(&self) -> Vec<SeqNo> {
        let commits = &self.common.commits;
        match active(Bug::DeletedForgetsReaders) {
            true => Vec::new(),
            false => moments_of_merge(&commits.ring, &commits.readers).0,
        }
    }

    /// What of a family has expired, if it may be tried now.
    fn expired_for(&self, cf: CfId) -> Option<Expired> {
        let (filters, now_ns) = (&self.common.compactions.filters, self.common.now_ns());
        let expired = self.common.expired_for(cf);
        expired.filter(|_| filters.may_drop(cf, now_ns))
    }

    /// Whether tables may go of which everything has expired.
    pub fn has_expired_tables(&self) -> bool {
        let jobs = lock(&self.common.compactions.jobs);
        let version = self.common.catalog.version();
        let mut families = version.families();
        families.any(|cf| {
            self.expired_for(cf).is_some_and(|expired| {
                let of = OfFamily::of(&version, cf, jobs.held(cf));
                of.levels
                    .with_stretches(&self.common.compactions.sums, true);
                let options = self.common.compactions.shape.pick_options(&of.levels);
                let state = of.levels.state(&of.held);
                expired.pick(&state, &options).is_some()
            })
        })
    }

    /// The first table that reads have charged, of those that wait, and that is where it was: it may be gone, or where it
    /// does no harm; if it still does it will be charged again.
    fn next_charged(&self, known: &Known<'_>) -> Charged {
        while let Some(charged::Charged { cf, file, first }) =
            self.common.catalog.table_files.reads.next()
        {
            let of = known.place(cf).map(|place| &known.families[place].levels);
            if let Some((level, place)) = of.and_then(|levels| levels.find(file, &first)) {
                return Charged::Table {
                    family: cf,
                    level,
                    place,
                };
            }
        }
        Charged::None
    }

    /// What would be decided next of each family that has tables, were it the only one. What is known of all of them is put
    /// together once.
    pub fn next_compactions(&self, version: &Arc<Version>) -> BTreeMap<CfId, Decision> {
        let room = self
            .pressure
            .is_relieving()
            .then(|| self.pressure.room_for_jobs());
        let to_move = self.room_to_move();
        self.look_at_deletes();
        let jobs = lock(&self.common.compactions.jobs);
        let known = self.known(version, &jobs, |cf| jobs.held(cf), (room, to_move));
        drop(jobs);
        let plan = match room {
            Some(_) => None,
            None => self.level0_costs.level0_plan_of(version, &known.families),
        };
        let families = known.levels();
        let pm_files = self.pm_files_without_costs(version);
        let next = families.iter().map(|of| {
            let levels = self.levels_of(&known, std::slice::from_ref(of));
            let levels = Levels {
                level0: plan.as_ref(),
                is_past_share: levels.is_past_share && !pm_files.is_empty(),
                pm_files: &pm_files,
                charged: Charged::None,
                garbage: known.garbage_of(of.family),
                ..levels
            };
            let decision = self.common.compactions.costs.would_be_next(&Situation {
                now_ns: self.common.now_ns(),
                levels: Some(levels),
                ..Situation::default()
            });
            (of.family, decision)
        });
        next.collect()
    }
}
