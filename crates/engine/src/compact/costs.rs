//! What is known of level 0 in persistent memory, for `policy::level0`, which decides about it; and what was decided.
//!
//! Unit costs begin with those of a machine as fast as this one, and are refined by what merges and drawings take. By a
//! clock that stands still, as in simulations, they stay the usual ones.

use std::collections::{BTreeMap, VecDeque};

use thermocline_base::options::{Costs as Choice, Options};
use thermocline_base::{CfId, FileId, Result, SeqNo};
use thermocline_compaction::calibrate::entry_ns;
use thermocline_env::Clock;
use thermocline_level0::{PmCursor, PmPart};
use thermocline_policy::cost::{Equation, Form, UnitCosts};
use thermocline_policy::level0::{
    Because, Budget, Content, Family, Level0Plan, PartitionRate, SlicePlan, draws, plan,
    wants_samples,
};
use thermocline_policy::pick::{Held, Slice, level0_slices};
use thermocline_policy::ranges::{self, Coming, Leaving};
use thermocline_policy::situation::Situation;
use thermocline_policy::work::{self, Decision};
use thermocline_policy::{self as policy, Memory};
use thermocline_version::{TableRef, Version};

use super::shape::Levels;
use crate::report::CostUse;
use crate::store::Inner;
use crate::sync::{Arc, Mutex, lock};

/// Decisions that are remembered.
const REMEMBERED: usize = 8;

/// What is known of costs.
#[derive(Debug)]
pub(crate) struct Costs {
    form: Option<Form>,
    /// Level 0's share.
    budget: u64,
    /// What newer runs of a slice may refer to in blob files, in bytes.
    blob_bytes_max: u64,
    /// A leaf in the order of locks.
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    memory: Memory,
    /// Whatever it is worth.
    #[cfg(test)]
    always_bypass: bool,
    /// The last ones, as text.
    decided: VecDeque<String>,
    by_reads: u64,
    by_writes: u64,
    by_room: u64,
    by_warmth: u64,
}

impl Costs {
    /// Takes less than a millisecond of this clock's time, where it is asked at all.
    pub fn new(options: &Options, clock: &dyn Clock) -> Costs {
        let budget = options.level0_pm_bytes();
        let form = match (budget, options.level0.internal) {
            (None, _) | (_, Choice::Off) => None,
            (_, Choice::Corrected) => Some(Form::Corrected),
            (_, Choice::Printed) => Some(Form::Printed),
        };
        let mut known = Known::default();
        if form.is_some() {
            known.memory.level0.units = UnitCosts::calibrated(entry_ns(&|| clock.now_ns()));
        }
        Costs {
            form,
            budget: budget.unwrap_or(0),
            blob_bytes_max: options.blob.generation_bytes,
            known: Mutex::new(known),
        }
    }

    /// Whether costs decide anything.
    pub fn decide(&self) -> bool {
        self.form.is_some()
    }

    /// Whether they do as the paper prints it.
    pub fn are_printed(&self) -> bool {
        self.form == Some(Form::Printed)
    }

    /// An internal compaction has read so many records in so many nanoseconds, and dropped some where so many were
    /// expected to be updates.
    pub fn merged(&self, read: (u64, u64), updates: u64, dropped: u64) {
        lock(&self.known)
            .memory
            .level0
            .merged(read, updates, dropped);
    }

    /// A major compaction has taken so many records of level 0 in so many nanoseconds.
    pub fn moved(&self, records: u64, nanos: u64) {
        lock(&self.known).memory.level0.units.moved(records, nanos);
    }

    /// This is done now.
    pub fn decided(&self, decision: &Decision) {
        if let work::Because::Level0(because) = &decision.because {
            lock(&self.known).note(because);
        }
    }

    /// The disk has become full anew: jobs that have given up are tried again.
    pub fn forget_given_up(&self) {
        lock(&self.known).memory.gave_up.forget();
    }

    /// A compaction of so many bytes has given up, which began with so much room.
    pub fn job_gave_up(&self, bytes: u64, room: u64, now: u64) {
        lock(&self.known).memory.gave_up.gave_up(bytes, room, now);
    }

    /// A flush writes something new.
    pub fn flushes(&self) {
        lock(&self.known).memory.level0.corrected.age();
    }

    /// What is to be done next, with all that was learned.
    pub fn next(&self, situation: &Situation<'_>) -> Decision {
        policy::next(situation, &mut lock(&self.known).memory)
    }

    /// The same, without learning anything.
    pub fn would_be_next(&self, situation: &Situation<'_>) -> Decision {
        let mut memory = lock(&self.known).memory.clone();
        policy::next(situation, &mut memory)
    }

    /// What a flush does not leave in persistent memory.
    pub fn leaving(&self, plan: &Level0Plan, coming: &Coming<'_>) -> Leaving {
        let mut known = lock(&self.known);
        #[cfg(test)]
        if known.always_bypass {
            return Leaving::all(plan);
        }
        let leaving = ranges::leaving(plan, coming, &mut known.memory.level0);
        if let Some(because) = &leaving.because {
            known.note(because);
        }
        leaving
    }

    #[cfg(test)]
    pub fn bypass_always(&self) {
        let mut known = lock(&self.known);
        known.memory.level0.skip();
        known.always_bypass = true;
    }

    /// Whether flushes bypass level 0 in persistent memory.
    pub fn bypasses(&self) -> bool {
        lock(&self.known).memory.level0.is_skipped()
    }

    /// What was decided.
    pub fn usage(&self) -> CostUse {
        let known = lock(&self.known);
        CostUse {
            by_reads: known.by_reads,
            by_writes: known.by_writes,
            by_room: known.by_room,
            by_warmth: known.by_warmth,
            last: known.decided.iter().cloned().collect(),
        }
    }
}

impl Known {
    fn note(&mut self, because: &Because) {
        match because {
            Because::Pays(decision) if decision.equation == Equation::Reads => self.by_reads += 1,
            Because::Pays(_) => self.by_writes += 1,
            Because::Room { .. } => self.by_room += 1,
            Because::Warmth { .. } => self.by_warmth += 1,
            Because::Skips { .. } => {}
        }
        if self.decided.len() == REMEMBERED {
            self.decided.pop_front();
        }
        self.decided.push_back(because.to_string());
    }
}

/// What the tables of level 0 have, by place.
pub(super) fn contents_of(version: &Version, levels: &Levels<'_>) -> Vec<Content> {
    let level0 = levels.refs.first().into_iter().flatten();
    let content = |table: &&Arc<TableRef>| {
        let pm = version.pm_table(table.file);
        let references = || version.references(table.file).len().max(1) as u64;
        Content {
            entries: table.entries,
            zone_bytes: pm.map(|pm| pm.meta.zone_bytes / references()),
            blob_bytes: table.blobs.iter().map(|blob| blob.bytes).sum(),
        }
    };
    level0.map(content).collect()
}

/// A family, with what is known of it.
pub(super) struct OfFamily<'v> {
    pub cf: CfId,
    pub levels: Levels<'v>,
    /// What running jobs hold there.
    pub held: Vec<Held>,
    pub contents: Vec<Content>,
}

impl<'v> OfFamily<'v> {
    pub fn of(version: &'v Version, cf: CfId, held: Vec<Held>) -> OfFamily<'v> {
        let levels = Levels::of(version, cf, None);
        OfFamily {
            cf,
            contents: contents_of(version, &levels),
            held,
            levels,
        }
    }
}

impl Inner {
    /// What costs say of level 0 in persistent memory, in this version and beside jobs that hold this; `None` if they
    /// are not asked.
    pub fn level0_plan(
        &self,
        version: &Version,
        held: impl Fn(CfId) -> Vec<Held>,
    ) -> Option<Level0Plan> {
        let families = version.families();
        let known = families.map(|cf| OfFamily::of(version, cf, held(cf)));
        self.level0_plan_of(version, &known.collect::<Vec<_>>())
    }

    /// The same, of what is known of all families, by their ids.
    pub(super) fn level0_plan_of(
        &self,
        version: &Version,
        known: &[OfFamily<'_>],
    ) -> Option<Level0Plan> {
        let costs = &self.compactions.costs;
        let form = costs.form?;
        // With other shapes some may lie there, because it was rewritten.
        if !self.options.level0.shape().keeps_tables_in_pm() && version.pm_tables().len() == 0 {
            return None;
        }
        let geometry = self.compactions.shape.geometry();
        let budget = Budget {
            form,
            bytes: costs.budget,
            bytes_while_merging: geometry.internal_limit().unwrap_or(0),
            part_bytes: geometry.internal_part_bytes(),
            table_bytes: geometry.table_bytes,
            blob_bytes_max: costs.blob_bytes_max,
        };
        let now = self.now_ns();
        let rates = |known: &OfFamily<'_>| {
            let partitions = version.partitions(known.cf);
            let rates = self.rates.per_second(now, partitions, known.cf).into_iter();
            let with_end = rates.map(|rate| {
                let end = partitions.of(&rate.start).end.map(<[u8]>::to_vec);
                (rate, end)
            });
            with_end.collect()
        };
        let rates: Vec<Vec<(PartitionRate, Option<Vec<u8>>)>> = known.iter().map(rates).collect();
        let families = known.iter().zip(&rates).map(|(known, rates)| Family {
            family: known.cf,
            state: known.levels.state(&known.held),
            contents: &known.contents,
            rates,
        });
        let families: Vec<Family<'_>> = families.collect();
        Some(plan(&budget, &families, &lock(&costs.known).memory.level0))
    }

    /// Draws entries from slices of which it is worth it, and that have changed, and looks how many of them
    /// older runs have, too. The caller holds no lock.
    pub fn sample_level0(&self) {
        let costs = &self.compactions.costs;
        let version = self.catalog.version();
        let held = |cf: CfId| self.compactions_of(cf).0;
        let Some(plan) = self.level0_plan(&version, held) else {
            return;
        };
        // Whoever decides meanwhile knows what was known.
        let mut before = lock(&costs.known).memory.level0.sampled.clone();
        let mut sampled = BTreeMap::new();
        let asked = |slice: &&SlicePlan| wants_samples(&plan, slice);
        for slice in plan.slices.iter().filter(asked) {
            let levels = Levels::of(&version, slice.family, None);
            let held = held(slice.family);
            let slices = level0_slices(&levels.state(&held));
            // Not if a job has begun or ended meanwhile.
            let same = |of: &&Slice<'_>| of.range.first == &slice.first[..] && of.on_top;
            let Some(of) = slices.get(slice.place).filter(same) else {
                continue;
            };
            let files: Vec<FileId> = of.pm.iter().map(|n| levels.refs[0][*n].file).collect();
            let key = (slice.family, files);
            let share = match before.remove(&key) {
                Some(share) => Some(share),
                // What is damaged is told by whoever reads it in earnest.
                None => self
                    .sample(slice.family, &levels.runs(&of.pm))
                    .unwrap_or(None),
            };
            sampled.extend(share.map(|share| (key, share)));
        }
        lock(&costs.known).memory.level0.sampled = sampled;
    }

    /// Of how many entries in runs, which come newest first, how many an older one has, too.
    fn sample(&self, cf: CfId, runs: &[Vec<Arc<TableRef>>]) -> Result<Option<(u64, u64)>> {
        let part = |table: &TableRef| {
            let (lower, upper) = table.limits();
            let found = self.catalog.table_files.pm.get(table.file)?;
            Some(PmPart::limited(found, cf, lower, upper))
        };
        let Some((_, newer)) = runs.split_last() else {
            return Ok(None);
        };
        let tables: usize = newer.iter().map(Vec::len).sum();
        let each = draws(tables);
        let (mut drawn, mut again, mut searches) = (0u64, 0u64, 0);
        let begun = self.now_ns();
        for (n, run) in newer.iter().enumerate() {
            for table in run {
                let Some(own) = part(table) else { continue };
                let mut cursor = PmCursor::new(own, false);
                let weight = (table.entries / each).max(1);
                for place in 0..each {
                    if !cursor.go_to_share(2 * place + 1, 2 * each)? {
                        continue;
                    }
                    drawn += weight;
                    let key = cursor.user_key();
                    let older = runs[n + 1..].iter().flatten();
                    for older in older.filter(|older| older.range.contains(key)) {
                        let Some(part) = part(older) else { continue };
                        searches += 1;
                        if part.get(key, SeqNo(SeqNo::MAX.0 - 1), false)?.is_some() {
                            again += weight;
                            break;
                        }
                    }
                }
            }
        }
        let took = self.now_ns().saturating_sub(begun);
        let mut known = lock(&self.compactions.costs.known);
        known.memory.level0.units.searched(searches, took);
        drop(known);
        Ok((drawn > 0).then_some((again, drawn)))
    }
}
