//! Merging down: the older tables that a range of an evacuation takes along when it leaves persistent memory. Under
//! pressure a cold range may so go straight to the base level.
//!
//! Suppose that level 0 in persistent memory is full. A flush that wrote more tables there would make others leave, and
//! its own tables would leave with the next flush: everything would be copied twice. A flush that wrote files would put
//! them above tables in persistent memory. Those could then go only down to the base level, with what they overlap
//! there. So a range that would leave, or that finds no room, is merged with the level-0 tables of its keys: into files
//! of level 0, or into the base level (`policy::pick::pick_along` says which).
//!
//! `policy::ranges` decides which ranges leave.
//!
//! # The argument
//! 1. *Age.* All tables that are taken along are older than the frozen memtables, as all tables are. If the outputs go
//!    to level 0, the range takes its level-0 tables in persistent memory along, provided that they are newer than
//!    all others of its keys in level 0: those stay, and are below. If the outputs go to the base level, the range
//!    takes along all its level-0 tables, and all tables of the base level that these overlap. Such tables may reach
//!    further than the range, where level 0 has tables that stay. The memtables' data does not: outputs end at both
//!    ends of the range. While somebody compacts a range by hand nothing goes to the base level (`compact::manual`).
//! 2. *Once, at every moment.* One edit names the outputs, removes the tables that were taken along, and says how far
//!    the memtables are evacuated. One view follows it (`evacuate`, 2). References that reach over an end of the range
//!    stay with the part that lies outside.
//! 3. *Beside jobs.* The range is held in the list of running jobs from before it picks until after the edit. It holds
//!    its keys in all levels that it changes, and each table of level 0 as a whole: a job that cut such a table outside
//!    of the range would take it away from here. So no compaction, split or merge changes these tables meanwhile, and
//!    the range takes no table that another job holds. Nothing in level 0 is above it, because only flushes add tables
//!    there. So it holds seqnos without an end, and no spill joins tables on both sides of the range into one table
//!    around it. Tables that jobs take below stay below, as under an internal merge
//!    ([`Held`](thermocline_policy::pick::Held)). A family that was dropped meanwhile has none of these tables any
//!    more, and gets none of the outputs.
//! 4. *What is left out*: below are the tables of the version in which it was picked, except those that were taken. It
//!    was picked before moments were asked for (`jobs`, 3).
//! 5. *Nothing new stops a flush.* The disk may have no room for the files, or a table that is taken along may be
//!    unreadable. Then the range is written as others are: into persistent memory, as far as that is promised, or into
//!    files above all these tables. No table that was to be taken along has moved.
//! 6. *One edit names it.* What would be too long for the manifest with all that is taken along is written without it, likewise:
//!    as far as that is known before nothing is taken along, and else what was written is gone. The edit has the name of each table that
//!    is taken, and what comes in its place: twice its keys, about.
//!
//! A crash finds the same as with any range (`evacuate`): before the edit the memtables and the tables, after it
//! the outputs. Tables in persistent memory that nothing refers to are removed.
//!
//! # Bypass
//! Where flushes skip level 0 (`policy::level0::Memory::skips`) every range leaves. Once nothing of level 0
//! is left in persistent memory such a flush is like one of another shape: it is not cut into ranges, and is as large,
//! since memtables may have the memory that tables do not.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Error, RangeTombstone, Result, SeqNo};
use thermocline_catalog::Catalog;
use thermocline_compaction::output::Cutter;
use thermocline_compaction::retain::RangesBelow;
use thermocline_env::meter::Meter;
use thermocline_jobs::source::{Input, RunInput};
use thermocline_jobs::{Outputs, below};
use thermocline_memtable::Memtable;
use thermocline_policy::flush::usual_bytes;
use thermocline_policy::pick::{self, Held, pick_along};
use thermocline_policy::ranges::{Coming, Leaving};
use thermocline_policy::rewrite;
use thermocline_policy::rewrite::Contents;
use thermocline_policy::tuning::{NAMED_ALONG_PARTS, NAMED_REST_PARTS};
use thermocline_sst::{Creation, WriteOptions};
use thermocline_tables::TableFiles;
use thermocline_version::format::{PAYLOAD_LEN_MAX, encode_change};
use thermocline_version::{Change, Level, Place, State, TableRef, Version};

use super::evacuate::{Span, Taken};
use crate::compact::shape::{Levels, Shape};
use crate::compact::{Ends, level_of, stand};
use crate::partitions::share;
use crate::store::Evacuator;
use crate::sync::Arc;

/// Bytes that one edit has of what is taken along, and of what comes in its place, about. With what it has of memtables
/// ([`edits`](super::edits)) that is less than it may have.
pub(super) const NAMED_ALONG_BYTES: u64 = (PAYLOAD_LEN_MAX / NAMED_ALONG_PARTS) as u64;

/// Bytes that an edit has beside the keys of a reference, at most.
const BESIDE_REFERENCE: u64 = 128;

/// The tables that one family's part of a range takes along.
pub(super) struct Along<'a> {
    pub cf: CfId,
    /// The level of the outputs.
    pub to: Level,
    /// The version in which the tables were picked, as one that keeps those alone.
    version: Arc<Version>,
    /// Whole references, and the places where they stand.
    inputs: Vec<(Place, Arc<TableRef>)>,
    /// Bytes of what it takes of level 0, about.
    level0_bytes: u64,
    /// The part of each reference that lies in the range, as runs, newest first.
    runs: Vec<Vec<Arc<TableRef>>>,
    /// The parts that stay, of references that reach further, and where.
    rests: Vec<(Place, Arc<TableRef>)>,
    /// Whether nothing that it takes reaches further.
    is_cut: bool,
    /// The keys at which the range begins and, unless nothing lies behind, ends.
    from: Vec<u8>,
    end: Option<Vec<u8>>,
    holds: Held,
    _ends: Ends<'a>,
}

impl Evacuator {
    /// The ranges of `taken` that leave persistent memory.
    pub(super) fn leaving(&self, taken: &Taken) -> Result<Leaving> {
        let version = self.common.catalog.version();
        let held = |cf: CfId| self.common.compactions.of_family(cf).0;
        let shape = self.common.options.level0.shape();
        let evacuates = shape.evacuates_by_range() && !self.pressure.is_relieving();
        let plan = evacuates
            .then(|| self.level0_costs.level0_plan(&version, held))
            .flatten();
        let Some(plan) = plan else {
            return Ok(Leaving::default());
        };
        let memtables = taken.memtables.iter().map(|m| contents_of(m));
        let memtables: Vec<Contents> = memtables.collect();
        let coming = self.coming(taken, &memtables)?;
        Ok(self.common.compactions.costs.leaving(&plan, &coming))
    }

    /// What comes to level 0 with `taken`, of which these are the memtables.
    fn coming<'m>(&self, taken: &Taken, memtables: &'m [Contents]) -> Result<Coming<'m>> {
        let limit = self.common.space.usage().limit_bytes;
        Ok(Coming {
            memtables,
            left_bytes: self.left_bytes(taken)?,
            share: self.common.compactions.shape.share.bytes(),
            usual_bytes: usual_bytes(limit, self.common.options.sealed_percent()),
            now_ns: self.common.now_ns(),
            written: self.common.commits.ring.visible(),
            for_scans: taken.for_scans,
        })
    }

    /// The tables that each family takes along; none if they are too many for an edit. About `bytes` of the range lie in
    /// memtables. It `must` leave if it cannot stay in persistent memory.
    pub(super) fn along_of(
        &self,
        taken: &Taken,
        span: &Span,
        bytes: u64,
        must: bool,
    ) -> Vec<Along<'_>> {
        let within = taken.families_in(span);
        let keys_of = |cf: CfId| taken.memtables.iter().map(|m| m.keys_of(cf)).sum::<u64>();
        let all: u64 = within.iter().map(|cf| keys_of(*cf)).sum();
        let of = |cf: CfId| self.hold_along(cf, span, share(bytes, keys_of(cf), all), must);
        let along: Vec<Along<'_>> = within.into_iter().filter_map(of).collect();
        let table_bytes = self.common.options.table_bytes();
        let named = along.iter().map(|along| along.named(table_bytes));
        match named.fold(0, u64::saturating_add) > NAMED_ALONG_BYTES {
            true => Vec::new(),
            false => along,
        }
    }

    fn hold_along(&self, cf: CfId, span: &Span, bytes: u64, must: bool) -> Option<Along<'_>> {
        let (from, end) = span.of(cf)?;
        let compactions = &self.common.compactions;
        let (ends, version, picked) = self.picker.hold_along_flush(cf, |levels, running| {
            let options = compactions.shape.pick_options(levels);
            let state = levels.state(running);
            let range = levels.range_of(from, end);
            let picked = pick_along(&state, &options, &range, bytes, must)?;
            // Who compacts a range would have that to compact, too.
            let may = picked.to == 0 || !compactions.is_compacting_by_hand();
            may.then_some(picked)
        })?;
        let catalog = &self.common.catalog;
        Some(Along::of(catalog, (cf, version), picked, (from, end), ends))
    }
}

impl<'a> Along<'a> {
    /// What was picked of a family in a version, for these keys.
    pub fn of(
        catalog: &Catalog,
        (cf, version): (CfId, Arc<Version>),
        picked: pick::Along,
        (from, end): (&[u8], Option<&[u8]>),
        ends: Ends<'a>,
    ) -> Along<'a> {
        let levels = Levels::of(&version, cf, None);
        let to = level_of(picked.to);
        let of = |level: Level, places: &[usize]| -> Vec<(Place, Arc<TableRef>)> {
            let (place, level) = (Place::new(cf, level), usize::from(level.0));
            let tables = places.iter().map(|n| levels.reference(level, *n));
            tables.map(|table| (place, table.clone())).collect()
        };
        let mut inputs = of(Level::ZERO, &picked.inputs);
        let mut rests = Vec::new();
        let mut inside = |level: Level, table: Arc<TableRef>| {
            let (piece, outside) = pieces(&table, from, end);
            let outside = outside.into_iter().flatten();
            rests.extend(outside.map(|rest| (Place::new(cf, level), rest)));
            piece
        };
        let runs = levels.runs(&picked.inputs).into_iter();
        let runs = runs.map(|run| {
            let run = run.into_iter();
            run.map(|table| inside(Level::ZERO, table)).collect()
        });
        let mut runs: Vec<Vec<Arc<TableRef>>> = runs.collect();
        let level0_bytes = runs.iter().flatten().map(|table| table.bytes).sum();
        if !picked.overlapped.is_empty() {
            let lower = of(to, &picked.overlapped);
            let taken = lower.iter().map(|(_, table)| match picked.is_cut {
                true => inside(to, table.clone()),
                false => table.clone(),
            });
            runs.push(taken.collect());
            inputs.extend(lower);
        }
        Along {
            cf,
            to,
            version: catalog.keep_only(&version, inputs.iter().map(|(_, table)| &**table)),
            inputs,
            level0_bytes,
            runs,
            rests,
            is_cut: picked.is_cut,
            from: from.to_vec(),
            end: end.map(<[u8]>::to_vec),
            holds: picked.holds,
            _ends: ends,
        }
    }

    /// What was taken along, as readable runs, newest first. Of what sinks only what lies in this part of the range.
    pub fn runs<'r>(
        &self,
        files: &'r TableFiles,
        (from, to): (&[u8], Option<&[u8]>),
        meter: &'r Meter,
    ) -> Vec<RunInput<'r>> {
        let is_in = |table: &&Arc<TableRef>| {
            let is_before = to.is_none_or(|to| *table.range.first < *to);
            !self.is_cut || is_before && !table.range.ends_before(from)
        };
        let runs = self.runs.iter();
        let runs = runs.map(|run| run.iter().filter(is_in).cloned().collect());
        let runs = runs.filter(|run: &Vec<_>| !run.is_empty());
        runs.map(|run| {
            let run = RunInput::new(files, self.cf, run, meter);
            match self.is_cut {
                true => run.within(from, to),
                false => run,
            }
        })
        .collect()
    }

    /// The range tombstones of all that was taken along, in this part of the range.
    ///
    /// # Errors
    /// Those of reading.
    pub fn tombstones(
        &self,
        runs: &[RunInput<'_>],
        (from, to): (&[u8], Option<&[u8]>),
    ) -> Result<Vec<RangeTombstone>> {
        let mut all = tombstones_of(runs)?;
        if self.is_cut {
            let cut = |t: &RangeTombstone| Some(t.borrowed().cut(Some(from), to)?.owned());
            all = all.iter().filter_map(cut).collect();
        }
        Ok(all)
    }

    /// The key ranges of tables below the outputs.
    pub fn below(&self) -> RangesBelow {
        let is_input = |table: &Arc<TableRef>| {
            self.inputs
                .iter()
                .any(|(_, input)| Arc::ptr_eq(input, table))
        };
        let all = self.version.tables_of(self.cf).map(|(_, table)| table);
        below(all.filter(|table| !is_input(table)))
    }

    /// The cutter for outputs in the base level. They end at both ends of the range. They end, too, where level 0 may
    /// end its tables at `starts` of partitions.
    pub fn cutter(&self, shape: &Shape, starts: Vec<Vec<u8>>) -> Cutter<'_> {
        let levels = Levels::of(&self.version, self.cf, None);
        let ends = [Some(&self.from), self.end.as_ref()].into_iter().flatten();
        let bounds = ends.filter(|key| !key.is_empty()).cloned().collect();
        let to = usize::from(self.to.0);
        shape.sinking_cutter(&levels, to, &self.holds.range.borrowed(), bounds, starts)
    }

    /// How files of the base level are written.
    pub fn write_options(&self, shape: &Shape) -> WriteOptions {
        let levels = Levels::of(&self.version, self.cf, None);
        let last_level = shape.pick_options(&levels).last_level;
        let to = usize::from(self.to.0);
        shape.write_options(to, last_level, Creation::Compaction)
    }

    /// Whether all tables that it takes still exist: not if the family was dropped.
    pub fn stands(&self, state: &State) -> bool {
        stand(&self.inputs, state)
    }

    /// The changes of an edit that removes the tables that were taken along, and adds the parts that stay.
    pub fn taken(&self) -> impl Iterator<Item = Change> {
        let removed = self.inputs.iter();
        let removed = removed.map(|(place, table)| Change::table_removed(*place, table));
        let rests = self.rests.iter().map(|(place, table)| Change::TableAdded {
            place: *place,
            table: table.clone(),
        });
        let forgets = active(Bug::AlongForgetsRest);
        removed.chain(rests.filter(move |_| !forgets))
    }

    /// The newest seqno of the tables that were taken along.
    pub fn newest(&self) -> SeqNo {
        let newest = self.inputs.iter().map(|(_, table)| table.largest_seqno);
        newest.max().unwrap_or(SeqNo(0))
    }

    /// Bytes that an edit has of what is taken along, and of what comes in its place, about, if tables have so many bytes
    /// and keys in them are no longer than their first and last ones.
    pub fn named(&self, table_bytes: u64) -> u64 {
        let ends = |table: &TableRef| {
            let (first, last) = (table.range.first.len(), table.range.last.len());
            (first as u64, last as u64)
        };
        let taken = self.inputs.iter().map(|(_, table)| {
            let (first, last) = ends(table);
            let tables = (table.bytes / table_bytes.max(1)).saturating_add(1);
            let each = 2 * first.max(last) + BESIDE_REFERENCE;
            (first + BESIDE_REFERENCE).saturating_add(tables.saturating_mul(each))
        });
        let rests = self.rests.iter().map(|(_, table)| {
            let (first, last) = ends(table);
            first + last + BESIDE_REFERENCE
        });
        taken.chain(rests).fold(0, u64::saturating_add)
    }

    /// Bytes of the tables that were taken along, of all levels.
    pub fn bytes(&self) -> u64 {
        let bytes = self.inputs.iter().map(|(_, table)| table.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Bytes that came to the level of the outputs from level 0, about: none if that is level 0 itself.
    pub fn brought_bytes(&self) -> u64 {
        match self.to == Level::ZERO {
            true => 0,
            false => self.level0_bytes,
        }
    }
}

/// Whether one edit has room for these outputs, and for what was taken along.
///
/// # Errors
/// [`Error::InvalidArgument`] if it has not.
pub(super) fn check_named(outputs: &Outputs, along: &[Along<'_>]) -> Result<()> {
    // The rest is for the front, what was done, and partitions of new prefixes.
    let most = PAYLOAD_LEN_MAX / NAMED_REST_PARTS * (NAMED_REST_PARTS - 1);
    let (mut bytes, mut one) = (0, Vec::new());
    for change in along.iter().flat_map(Along::taken).chain(outputs.added()) {
        one.clear();
        encode_change(&change, &mut one);
        bytes += one.len();
    }
    match bytes > most {
        true => Err(Error::InvalidArgument(format!(
            "an edit has room for {most} bytes of tables; these take {bytes}"
        ))),
        false => Ok(()),
    }
}

/// The part of a reference in a range that it overlaps, and the parts before and behind it, if there are such.
fn pieces(
    table: &Arc<TableRef>,
    from: &[u8],
    end: Option<&[u8]>,
) -> (Arc<TableRef>, [Option<Arc<TableRef>>; 2]) {
    // How many bytes lie on each side is unknown without reading the table: half is assumed.
    let half = (1, 2);
    let (before, table) = match table.cut_at(from, half) {
        Some([before, table]) => (Some(Arc::new(before)), Arc::new(table)),
        None => (None, table.clone()),
    };
    match end.and_then(|end| table.cut_at(end, half)) {
        Some([table, behind]) => (Arc::new(table), [before, Some(Arc::new(behind))]),
        None => (table, [before, None]),
    }
}

/// The range tombstones of all these runs.
fn tombstones_of(runs: &[RunInput<'_>]) -> Result<Vec<RangeTombstone>> {
    let mut all = Vec::new();
    for run in runs {
        all.extend(run.tombstones()?);
    }
    Ok(all)
}

/// The runs as inputs of a merge.
pub(super) fn inputs_of(runs: Vec<RunInput<'_>>) -> impl Iterator<Item = Input<'_>> {
    runs.into_iter().map(|run| Input::Run(Box::new(run)))
}

/// A memtable by its numbers.
pub(super) fn contents_of(memtable: &Memtable) -> rewrite::Contents {
    rewrite::Contents {
        bytes: memtable.bytes(),
        records: memtable.len(),
        keys: memtable.keys(),
    }
}

#[cfg(test)]
mod tests;
