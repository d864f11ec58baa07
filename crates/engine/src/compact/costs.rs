//! When level 0 in persistent memory is merged there, and what of it leaves: the models of `policy::cost`, asked
//! with what is known here (PM-Blade §IV.C, algorithm 1; design §7).
//!
//! The paper decides about partitions. Here it is slices of level 0 (`policy::pick::Slice`): what can be merged, or
//! leave, by itself. Of a slice is known:
//!
//! | | from |
//! |---|---|
//! | n, unsorted tables | its runs but the oldest one: that is as good as the sorted run, whoever has written it |
//! | R, records | its references |
//! | w, writes since the last merge | the references of its newer runs |
//! | u, updates among them | entries that are drawn there and sought in the older runs ([`Inner::sample_level0`]): no counter tells whether something lies below a write, and none survives an opening |
//! | r, reads a second | those of the partitions that it overlaps, each divided among its slices by the bytes of all that lies in their ranges, in whatever level |
//! | s, bytes | the zones of its tables. One to which several references lead counts for each as one part: together they are what level 0 takes |
//!
//! Unit costs begin with those of a machine as fast as this one, and are refined by what merges and drawings take. By a
//! clock that stands still, as in simulations, they stay the usual ones.
//!
//! # When it is asked
//! Equations 1 and 2 with each compaction that is asked for: after a flush, and after reads
//! (`partitions::rates`), since what is read often is worth a merge though nobody writes any more. Equation 3 when
//! level 0 has τm bytes; from then on level 0 *drains*: slices leave until those that stay fit τt. What stays is
//! decided anew with each job, and what has stayed counts for more.
//!
//! Before level 0 is full (from three quarters of τm on) a slice of which a merge would give back much (a fifth) is merged
//! before anything leaves, whatever equation 2 says. That weighs times; but what leaves for the want of room is written to
//! the SSD now, and once more for each level, and what is merged may never be. Merges of parts hold inputs and outputs, so
//! while they go on level 0 is full only when it has its share, or a merge could not begin.
//!
//! Likewise a slice is merged whose newer runs refer to as much in blob files as a generation may
//! ([`generation_bytes`](thermocline_base::options::BlobOptions::generation_bytes)): a reference is short, so no equation
//! would see what it keeps on the SSD. Where the disk is full any that refers to some is (`compact::job`).
//!
//! Flushes ask, too (`flush::along`): what of level 0 would not stay if theirs came to it, so that it leaves with them; and where
//! level 0 is full whether what they bring is worth writing there at all ([`Costs::bypass`]): equation 2 with which part
//! of it will be superseded. While it is not they *bypass* it, and level 0 in persistent memory empties.
//!
//! A share that is exceeded though everything left may stay is a matter for the picker, as without any model
//! (`level0.internal=off`).

use std::collections::{BTreeMap, VecDeque};

use thermocline_base::KeyRange;
use thermocline_base::options::{Costs as Choice, Options};
use thermocline_base::size::format_size;
use thermocline_base::{CfId, FileId, Result, SeqNo};
use thermocline_compaction::calibrate::entry_ns;
use thermocline_env::Clock;
use thermocline_level0::{PmCursor, PmPart};
use thermocline_policy::cost::{
    Arrival, Candidate, Corrected, CostModel, Decision, Equation, Form, Internal as Equations,
    Partition, Thresholds, UnitCosts, keep,
};
use thermocline_policy::pick::{Held, Slice, Table, level0_slices};
use thermocline_policy::tuning::{GAIN_MARGIN, RATE_HORIZON};
use thermocline_version::{TableRef, Version};

use super::shape::{Levels, range_of};
use crate::partitions::{PartitionRate, share};
use crate::store::Inner;
use crate::sync::{Arc, Mutex, lock};

/// Entries that are drawn from a slice.
const SAMPLES: u64 = 48;

/// A merge that drops this part of what it reads makes room.
const ROOM_SHARE: f64 = 0.2;

/// From this part of [`Thresholds::major`] on room is made, in percent: a merge needs some itself.
const FILLING_PERCENT: u64 = 75;

/// Decisions that are remembered.
const REMEMBERED: usize = 8;

/// What level 0 in persistent memory costs, and what is to be done about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Level0Plan {
    /// Which form of the equations is used.
    pub form: Form,
    /// What steps cost here.
    pub units: UnitCosts,
    /// Sizes from which on decisions are due.
    pub thresholds: Thresholds,
    /// Persistent memory of its tables, without what leaves already.
    pub bytes: u64,
    /// Whether slices leave until the rest fits [`Thresholds::keep`].
    pub drains: bool,
    /// Whether level 0 will soon be full: what makes room is merged.
    pub is_filling: bool,
    /// From so many bytes on slices leave: [`Thresholds::major`]; or, while merges make room, which need some until they end,
    /// as much of the share as lets them begin.
    pub full_bytes: u64,
    /// Reads a second, and records that are written, by what was lately flushed and merged.
    pub rates: (f64, f64),
    /// All slices, by family and key.
    pub slices: Vec<SlicePlan>,
}

/// A slice of level 0, which is merged, or leaves, by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct SlicePlan {
    /// Its family.
    pub family: CfId,
    /// Its first key.
    pub first: Vec<u8>,
    /// Its tables.
    pub tables: usize,
    /// Tables that a read may have to ask.
    pub runs: usize,
    /// Persistent memory that it takes.
    pub bytes: u64,
    /// Reads a second.
    pub reads: f64,
    /// Its records.
    pub records: u64,
    /// Of those, records in its newer runs.
    pub writes: u64,
    /// Of these, records of keys that the older runs have, too; as far as it was looked.
    pub updates: u64,
    /// What equations 1 and 2 say; `None` of a slice of one run, and of one with files that are newer than some of it.
    pub decisions: Option<Equations>,
    /// Whether a merge would give back much of what it takes: where level 0 will soon be full it is merged.
    pub makes_room: bool,
    /// Whether its newer runs refer to so much in blob files that it is merged.
    pub holds_blobs: bool,
    /// What equation 3 says: whether it stays if level 0 has [`Thresholds::major`] bytes.
    pub stays: bool,
    /// Its place among the slices of its family.
    pub(super) place: usize,
    /// Whether no running job takes anything of it, or all that is free lies above what one takes.
    pub(super) free: bool,
}

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
    units: UnitCosts,
    corrected: Corrected,
    /// By family and files of a slice: of how many of its writes how many are updates.
    sampled: BTreeMap<(CfId, Vec<FileId>), (u64, u64)>,
    /// The slices that stayed last time, by their first keys.
    kept: Vec<(CfId, Vec<u8>)>,
    drains: bool,
    bypasses: bool,
    /// When a flush has asked for the last time, in nanoseconds.
    asked_at: u64,
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

/// What was decided about level 0 in persistent memory, since the store was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CostUse {
    /// Merges inside persistent memory that reads have paid for: equation 1.
    pub by_reads: u64,
    /// Those that what need not be written to the SSD has paid for: equation 2.
    pub by_writes: u64,
    /// Those that level 0 has asked for when it was nearly full, since much of it would go.
    pub by_room: u64,
    /// Jobs that took slices to the SSD which equation 3 has chosen.
    pub by_warmth: u64,
    /// The last decisions with their numbers, the newest last.
    pub last: Vec<String>,
}

impl Costs {
    /// Takes less than a millisecond of this clock's time, where it is asked at all.
    pub fn new(options: &Options, clock: &dyn Clock) -> Costs {
        let budget = options.level0_pm_bytes();
        let form = match (budget, options.level0.costs()) {
            (None, _) | (_, Choice::Off) => None,
            (_, Choice::Corrected) => Some(Form::Corrected),
            (_, Choice::Printed) => Some(Form::Printed),
        };
        let mut known = Known::default();
        if form.is_some() {
            known.units = UnitCosts::calibrated(entry_ns(&|| clock.now_ns()));
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
    pub fn merged(&self, (records, nanos): (u64, u64), updates: u64, dropped: u64) {
        let mut known = lock(&self.known);
        known.units.merged(records, nanos);
        known.corrected.learn(updates, dropped);
    }

    /// A major compaction has taken so many records of level 0 in so many nanoseconds.
    pub fn moved(&self, records: u64, nanos: u64) {
        lock(&self.known).units.moved(records, nanos);
    }

    /// This is done now.
    pub fn decided(&self, decision: &Decision) {
        let mut known = lock(&self.known);
        match decision.equation {
            Equation::Reads => known.by_reads += 1,
            Equation::Writes => known.by_writes += 1,
        }
        known.remember(decision.to_string());
    }

    /// A flush writes something new.
    pub fn flushes(&self) {
        lock(&self.known).corrected.age();
    }

    /// A slice is merged because level 0 will soon be full.
    pub fn makes_room(&self, slice: &SlicePlan) {
        let mut known = lock(&self.known);
        known.by_room += 1;
        known.remember(format!(
            "internal: for room, {} of {} records go",
            slice.updates, slice.records
        ));
    }

    /// Level 0 drains, or does not any more.
    pub fn drains(&self, plan: &Level0Plan, leaves: bool) {
        let mut known = lock(&self.known);
        if !plan.drains {
            // While the last ones leave nothing may be left to take.
            known.drains &= plan.bytes > plan.thresholds.keep;
            return;
        }
        known.drains = true;
        let stay = plan.slices.iter().filter(|slice| slice.stays);
        known.kept = stay.map(|s| (s.family, s.first.clone())).collect();
        if leaves {
            known.by_warmth += 1;
            let text = format!(
                "major: eq. 3, {} of level 0, {} may stay, {} of {} slices do",
                format_size(plan.bytes),
                format_size(plan.thresholds.keep),
                known.kept.len(),
                plan.slices.len()
            );
            known.remember(text);
        }
    }

    /// Decides whether flushes bypass level 0 in persistent memory, if this part of the records that they write there
    /// would be superseded there. They begin to only where level 0 is `full`.
    pub fn bypass(
        &self,
        plan: &Level0Plan,
        updates: f64,
        (now, records): (u64, u64),
        full: bool,
    ) -> bool {
        let mut known = lock(&self.known);
        // What comes now is in no rate yet.
        let since = now.saturating_sub(known.asked_at) as f64 / 1e9;
        let coming = match known.asked_at > 0 && since > 0.0 {
            true => records as f64 / since,
            false => 0.0,
        };
        known.asked_at = now;
        let arrival = Arrival {
            updates,
            reads: plan.rates.0,
            writes: plan.rates.1.max(coming),
        };
        #[cfg(test)]
        if known.always_bypass {
            return true;
        }
        let decision = self.model(plan.form, &known).arrival(&arrival);
        // With hysteresis, as everywhere.
        let more = Arrival {
            reads: arrival.reads * GAIN_MARGIN,
            ..arrival
        };
        let reads_stay = self.model(plan.form, &known).arrival(&more).due;
        let begins = full && decision.gain < decision.cost && !reads_stay;
        let bypasses = !decision.due && (known.bypasses || begins);
        if bypasses != known.bypasses {
            known.bypasses = bypasses;
            known.remember(format!(
                "flush: {}, {:.0} % are updates, {:.0} reads/s, {:.0} writes/s",
                if bypasses { "to the SSD" } else { "to level 0" },
                updates * 100.0,
                arrival.reads,
                arrival.writes
            ));
        }
        bypasses
    }

    #[cfg(test)]
    pub fn bypass_always(&self) {
        let mut known = lock(&self.known);
        (known.bypasses, known.always_bypass) = (true, true);
    }

    fn model(&self, form: Form, known: &Known) -> CostModel {
        CostModel {
            form,
            units: known.units,
            horizon: RATE_HORIZON,
        }
    }

    /// Whether flushes bypass level 0 in persistent memory.
    pub fn bypasses(&self) -> bool {
        lock(&self.known).bypasses
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
    fn remember(&mut self, text: String) {
        if self.decided.len() == REMEMBERED {
            self.decided.pop_front();
        }
        self.decided.push_back(text);
    }
}

/// A slice with what is known of it.
struct Weighed<'v> {
    family: CfId,
    slice: Slice<'v>,
    place: usize,
    files: Vec<FileId>,
    zone_bytes: u64,
    /// Bytes of all that lies in its range, in whatever level.
    range_bytes: u64,
    records: u64,
    writes: u64,
    reads: f64,
    /// What its newer runs refer to in blob files, in bytes.
    blob_bytes: u64,
}

/// What a reference to a table stands for of its zones.
fn zone_bytes(version: &Version, table: &TableRef) -> Option<u64> {
    let zones = version.pm_table(table.file)?.meta.zone_bytes;
    Some(zones / version.references(table.file).len().max(1) as u64)
}

/// Persistent memory of what running jobs take in level 0 of a family, and leave there.
fn staying_bytes(version: &Version, levels: &Levels<'_>, held: &[Held]) -> u64 {
    let tables = levels.state(held).level(0).iter().enumerate();
    let stays = |held: &Held, table: &Table<'_>| held.stays && held.may_take(table);
    tables
        .filter(|(_, table)| held.iter().any(|held| stays(held, table)))
        .filter_map(|(n, _)| zone_bytes(version, levels.refs[0][n]))
        .sum()
}

/// What runs refer to in blob files, but for the oldest one, in bytes. They come newest first.
pub(super) fn newer_blob_bytes(runs: &[Vec<Arc<TableRef>>]) -> u64 {
    let newer = runs.split_last().map_or(&[][..], |(_, newer)| newer);
    let blobs = newer.iter().flatten().flat_map(|table| &table.blobs);
    blobs.map(|blob| blob.bytes).sum()
}

/// Bytes of tables, of all levels, whose keys are such.
fn bytes_where(levels: &Levels<'_>, such: impl Fn(&KeyRange<'_>) -> bool) -> u64 {
    let tables = levels.refs.iter().flatten();
    let found = tables.filter(|table| such(&range_of(table)));
    found.map(|table| table.bytes).sum()
}

/// The slices of a family.
fn slices_of<'a>(
    version: &Version,
    levels: &'a Levels<'_>,
    family: CfId,
    held: &'a [Held],
) -> Vec<Weighed<'a>> {
    let weigh = |(place, slice): (usize, Slice<'a>)| {
        let tables = || slice.pm.iter().map(|n| levels.refs[0][*n]);
        let zone_bytes = |table: &Arc<TableRef>| zone_bytes(version, table);
        let records: u64 = tables().map(|table| table.entries).sum();
        let runs = levels.runs(&slice.pm);
        let oldest = runs.last().into_iter().flatten();
        let oldest: u64 = oldest.map(|table| table.entries).sum();
        Weighed {
            family,
            place,
            files: tables().map(|table| table.file).collect(),
            zone_bytes: tables().filter_map(zone_bytes).sum(),
            range_bytes: bytes_where(levels, |range| range.overlaps(&slice.range)),
            records,
            writes: records - oldest,
            reads: 0.0,
            blob_bytes: newer_blob_bytes(&runs),
            slice,
        }
    };
    let slices = level0_slices(&levels.state(held)).into_iter();
    let slices = slices.enumerate();
    slices
        .filter(|(_, slice)| !slice.pm.is_empty())
        .map(weigh)
        .collect()
}

/// Divides what partitions are read among the slices that lie there, by all the data in their ranges. Nobody knows
/// where in a partition its reads go; and a slice stands for its range there as a partition does in the paper, whose reads
/// are all those of its keys, wherever they are found. So of slices with as much below the smaller is the warmer one,
/// and what is read where level 0 has nothing counts for none.
fn divide_reads(
    slices: &mut [Weighed<'_>],
    levels: &Levels<'_>,
    rates: &[PartitionRate],
    end_of: impl Fn(&[u8]) -> Option<Vec<u8>>,
) {
    for rate in rates.iter().filter(|rate| rate.reads > 0.0) {
        let end = end_of(&rate.start);
        let lies_there = |range: &KeyRange<'_>| {
            let begins_behind = end.as_ref().is_some_and(|end| range.first >= &end[..]);
            !begins_behind && !range.ends_before(&rate.start)
        };
        let within: Vec<usize> = (0..slices.len())
            .filter(|n| lies_there(&slices[*n].slice.range))
            .collect();
        let of_slices: u64 = within.iter().map(|n| slices[*n].range_bytes).sum();
        // What reaches over an end of a slice counts for two.
        let all = bytes_where(levels, lies_there).max(of_slices).max(1);
        for n in within {
            let share = slices[n].range_bytes as f64 / all as f64;
            slices[n].reads += rate.reads * share;
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
        let costs = &self.compactions.costs;
        let form = costs.form?;
        // With other shapes some may lie there, because it was rewritten.
        if !self.options.level0.shape().is_in_pm() && version.pm_tables().len() == 0 {
            return None;
        }
        let families: Vec<(CfId, Levels<'_>, Vec<Held>)> = version
            .families()
            .map(|cf| (cf, Levels::of(version, cf, None), held(cf)))
            .collect();
        let (mut slices, mut staying) = (Vec::new(), 0);
        let (mut reads, mut writes) = (0.0, 0.0);
        let now = self.now_ns();
        for (cf, levels, held) in &families {
            let partitions = version.partitions(*cf);
            let rates = self.rates.per_second(now, partitions, *cf);
            reads += rates.iter().map(|rate| rate.reads).sum::<f64>();
            writes += rates.iter().map(|rate| rate.writes).sum::<f64>();
            let mut own = slices_of(version, levels, *cf, held);
            let end_of = |start: &[u8]| partitions.of(start).end.map(<[u8]>::to_vec);
            divide_reads(&mut own, levels, &rates, end_of);
            slices.extend(own);
            staying += staying_bytes(version, levels, held);
        }
        let thresholds = Thresholds::new(costs.budget, slices.len(), whole(reads), whole(writes));
        // Merges must be able to begin until it is full: a part of what they write lies beside what they read.
        let shape = &self.compactions.shape;
        let part = shape.internal_part_bytes() + 3 * shape.table_bytes();
        let limit = shape.internal_limit().unwrap_or(0).saturating_sub(part);
        let full = limit.clamp(thresholds.major, costs.budget.max(thresholds.major));
        let mut plan = costs.decide_about(form, slices, thresholds, (staying, full));
        plan.rates = (reads, writes);
        Some(plan)
    }
}

/// A rate as a whole number: only what part of two are reads counts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and what is too large is as large as can be"
)]
fn whole(rate: f64) -> u64 {
    rate as u64
}

impl Costs {
    fn decide_about(
        &self,
        form: Form,
        slices: Vec<Weighed<'_>>,
        thresholds: Thresholds,
        (staying, full): (u64, u64),
    ) -> Level0Plan {
        let known = lock(&self.known);
        let model = self.model(form, &known);
        let was_kept = |slice: &Weighed<'_>| {
            let mut kept = known.kept.iter().filter(|(cf, _)| *cf == slice.family);
            let range: &KeyRange<'_> = &slice.slice.range;
            kept.any(|(_, first)| range.first <= &first[..] && !range.ends_before(first))
        };
        let candidate = |slice: &Weighed<'_>| Candidate {
            bytes: slice.zone_bytes,
            reads: slice.reads,
            kept: was_kept(slice),
        };
        let candidates: Vec<Candidate> = slices.iter().map(candidate).collect();
        let bytes: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
        let bytes = bytes + staying;
        let mut stays = keep(&candidates, thresholds.keep).into_iter();
        let plan = |weighed: Weighed<'_>| {
            let sampled = known.sampled.get(&(weighed.family, weighed.files.clone()));
            let updates = sampled.map_or(0, |(some, all)| share(weighed.writes, *some, *all));
            let partition = Partition {
                unsorted: weighed.slice.runs.saturating_sub(1) as u64,
                records: weighed.records,
                bytes: weighed.zone_bytes,
                reads: weighed.reads,
                writes: weighed.writes,
                updates,
            };
            let merges = weighed.slice.runs > 1 && weighed.slice.on_top;
            let gone = known.corrected.dropped(partition.updates);
            let gone = gone.min(partition.writes as f64);
            SlicePlan {
                family: weighed.family,
                first: weighed.slice.range.first.to_vec(),
                tables: weighed.slice.pm.len(),
                runs: weighed.slice.runs,
                bytes: partition.bytes,
                reads: partition.reads,
                records: partition.records,
                writes: partition.writes,
                updates: partition.updates,
                decisions: merges.then(|| model.internal(&partition, known.corrected, &thresholds)),
                makes_room: form == Form::Corrected
                    && merges
                    && gone >= partition.records.max(1) as f64 * ROOM_SHARE,
                holds_blobs: merges && weighed.blob_bytes >= self.blob_bytes_max,
                stays: stays.next().unwrap_or(true),
                place: weighed.place,
                free: weighed.slice.free || weighed.slice.on_top,
            }
        };
        let slices: Vec<SlicePlan> = slices.into_iter().map(plan).collect();
        let leave = slices.iter().any(|slice| slice.free && !slice.stays);
        let filling = bytes >= thresholds.major / 100 * FILLING_PERCENT;
        let makes_room = staying > 0 || slices.iter().any(|slice| slice.makes_room);
        let full_bytes = match filling && makes_room && form == Form::Corrected {
            true => full,
            false => thresholds.major,
        };
        Level0Plan {
            form,
            units: known.units,
            thresholds,
            bytes,
            is_filling: filling,
            full_bytes,
            drains: leave && (bytes >= full_bytes || known.drains && bytes > thresholds.keep),
            rates: (0.0, 0.0),
            slices,
        }
    }
}

impl Inner {
    /// Draws entries from slices that are large enough for equation 2, or all if level 0 will soon be full, and have changed, and looks how many of them
    /// older runs have, too. The caller holds no lock.
    pub fn sample_level0(&self) {
        let costs = &self.compactions.costs;
        let version = lock(&self.versions).current().clone();
        let held = |cf: CfId| self.compactions_of(cf).0;
        let Some(plan) = self.level0_plan(&version, held) else {
            return;
        };
        // Whoever decides meanwhile knows what was known.
        let mut before = lock(&costs.known).sampled.clone();
        let mut sampled = BTreeMap::new();
        // The small ones may make room, too.
        let large = |decisions: Equations| plan.is_filling || decisions.writes.is_some();
        let asked = |slice: &&SlicePlan| slice.decisions.is_some_and(large);
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
        lock(&costs.known).sampled = sampled;
    }

    /// Of how many entries in runs, which come newest first, how many an older one has, too.
    fn sample(&self, cf: CfId, runs: &[Vec<Arc<TableRef>>]) -> Result<Option<(u64, u64)>> {
        let part = |table: &TableRef| {
            let (lower, upper) = table.limits();
            let found = self.table_files.pm.get(table.file)?;
            Some(PmPart::limited(found, cf, lower, upper))
        };
        let Some((_, newer)) = runs.split_last() else {
            return Ok(None);
        };
        let tables: usize = newer.iter().map(Vec::len).sum();
        let each = (SAMPLES / tables.max(1) as u64).max(1);
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
        lock(&self.compactions.costs.known)
            .units
            .searched(searches, took);
        Ok((drawn > 0).then_some((again, drawn)))
    }
}
