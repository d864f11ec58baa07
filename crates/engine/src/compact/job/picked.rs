//! A job that was picked: what it takes, and what it makes of it.

use std::sync::OnceLock;
use std::time::Duration;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, KeyRange};
use thermocline_catalog::Catalog;
use thermocline_compaction::output::Cutter;
use thermocline_compaction::retain::RangesBelow;
use thermocline_jobs::{Outputs, below};
use thermocline_policy::collect::Copies;
use thermocline_policy::pick::{self, Held};
use thermocline_policy::tuning::NAMED_PARTS;
use thermocline_policy::work::Because;
use thermocline_tables::Promise;
use thermocline_version::format::PAYLOAD_LEN_MAX;
use thermocline_version::{Change, JobDone, Level, Place, State, TableRef, Version, VersionEdit};

use crate::compact::shape::{Levels, Shape};
use crate::compact::state::{Jobs, Running};
use crate::compact::told::Begun;
use crate::sync::Arc;

/// Bytes that an edit has of a job's inputs, at most, about, and as many of its outputs ([`super::named`]).
pub(crate) const NAMED_BYTES: u64 = (PAYLOAD_LEN_MAX / NAMED_PARTS) as u64;

/// A job that is in the list of running ones.
pub(crate) struct Job {
    pub(super) id: u64,
    pub(super) cf: CfId,
    /// That in which it was picked; it keeps the inputs, and while it runs nothing else ([`Job::keep_inputs`]).
    pub(super) version: Arc<Version>,
    pub(super) picked: pick::Job,
    pub(super) last_level: usize,
    /// All tables that it takes, and where they stand.
    pub(super) inputs: Vec<(Place, Arc<TableRef>)>,
    /// The same as runs, newest first.
    pub(super) runs: Vec<Vec<Arc<TableRef>>>,
    /// Of an internal one: persistent memory for its outputs, and the bytes of it with which it ends.
    pub(super) promise: Option<(Promise, u64)>,
    /// Bytes that its edit has of its inputs, at most, about, and as many of its outputs.
    pub(super) names_max: u64,
    /// Of such a one, if costs have asked for it: the updates that it expects, and among how many records.
    pub(super) expects: Option<(u64, u64)>,
    /// Whether somebody waits for it.
    pub(super) by_hand: bool,
    /// Why it is done, in words.
    pub(super) because: String,
    /// When it began, in nanoseconds.
    pub(super) at: u64,
    /// The answer of [`Job::until`], which has to put all inputs in order.
    pub(super) until: OnceLock<Option<Vec<u8>>>,
}

impl Job {
    /// Puts what was picked into the list.
    pub(crate) fn begin(
        jobs: &mut Jobs,
        cf: CfId,
        version: &Arc<Version>,
        levels: &Levels<'_>,
        last_level: usize,
        picked: pick::Job,
    ) -> Job {
        let place = |level: usize| Place::new(cf, level_of(level));
        let of = |level: usize, places: &[usize]| -> Vec<Arc<TableRef>> {
            let tables = places.iter().map(|n| levels.reference(level, *n));
            tables.cloned().collect()
        };
        let upper = of(picked.from, &picked.inputs);
        let lower = of(picked.to, &picked.overlapped);
        let mut runs = match picked.from {
            0 => levels.runs(&picked.inputs),
            _ => vec![upper.clone()],
        };
        if !lower.is_empty() {
            runs.push(lower.clone());
        }
        let upper = upper.into_iter().map(|table| (place(picked.from), table));
        let lower = lower.into_iter().map(|table| (place(picked.to), table));
        jobs.begun += 1;
        jobs.last = Some(cf);
        jobs.cursors.entry(cf).or_default().note(&picked);
        jobs.running.push(Running {
            id: jobs.begun,
            cf,
            holds: vec![picked.holds.clone()],
            moves: 0,
        });
        Job {
            id: jobs.begun,
            cf,
            version: version.clone(),
            last_level,
            inputs: upper.chain(lower).collect(),
            runs,
            because: picked.reason.name().into(),
            picked,
            promise: None,
            names_max: NAMED_BYTES,
            expects: None,
            by_hand: false,
            at: 0,
            until: OnceLock::new(),
        }
    }

    /// Somebody has asked for it, and hears what becomes of it.
    pub(crate) fn by_hand(self) -> Job {
        Job {
            by_hand: true,
            ..self
        }
    }

    /// That is why it is done.
    pub(crate) fn because(self, because: &Because) -> Job {
        Job {
            because: because.to_string(),
            ..self
        }
    }

    /// It is thought to have so many updates among so many records.
    pub(crate) fn expecting(self, updates: u64, records: u64) -> Job {
        Job {
            expects: Some((updates, records)),
            ..self
        }
    }

    /// Its tables have so many bytes of values that are to move. It moves those that one job does.
    pub(crate) fn moving(self, jobs: &mut Jobs, bytes: u64, copies: Copies) -> Job {
        let own = jobs.running.iter_mut().find(|job| job.id == self.id);
        if let Some(own) = own {
            own.moves = bytes.min(copies.of_job(self.table_bytes()));
        }
        self
    }

    /// Bytes of the tables that it takes.
    pub(super) fn table_bytes(&self) -> u64 {
        let bytes = self.inputs.iter().map(|(_, table)| table.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// It writes into persistent memory, until it has written `enough`.
    pub(crate) fn promised(self, promise: Promise, enough: u64) -> Job {
        Job {
            promise: Some((promise, enough)),
            ..self
        }
    }

    /// From here on it keeps the tables that it reads, in files or in persistent memory, and no others: what other jobs take away
    /// while it runs takes no room until it ends. Of others in persistent memory its version says nothing true any more.
    pub(super) fn keep_inputs(&mut self, catalog: &Catalog) {
        let inputs = self.inputs.iter().map(|(_, table)| &**table);
        self.version = catalog.keep_only(&self.version, inputs);
    }

    /// Whether somebody has asked for it.
    pub(super) fn is_by_hand(&self) -> bool {
        self.by_hand || self.picked.reason == pick::Reason::Manual
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> pick::Reason {
        self.picked.reason
    }

    #[cfg(test)]
    pub(crate) fn family(&self) -> CfId {
        self.cf
    }

    /// What its edit says of it, which comes at this moment.
    pub(super) fn done(&self, outputs: &Outputs, (now, unix_s): (u64, u64)) -> Change {
        let work = match &self.picked {
            picked if picked.is_internal() => "compact in persistent memory",
            picked if picked.trivial => "move",
            picked if picked.is_drop() => "drop",
            _ => "compact",
        };
        let end = self.ended_at(outputs);
        let end = end.as_deref();
        let taken = || {
            self.taken(end)
                .map(move |(_, table)| bytes_taken(table, end))
        };
        let done = JobDone {
            work: work.into(),
            because: self.because.clone(),
            unix_s,
            family: Some(self.cf),
            from: Some(level_of(self.picked.from).0),
            to: level_of(self.picked.to).0,
            inputs: taken().count() as u64,
            bytes_in: end.map_or(self.picked.bytes, |_| taken().fold(0, u64::saturating_add)),
            tables: outputs.count() as u64,
            tables_in_pm: outputs.pm.len() as u64,
            bytes_read: outputs.bytes_read,
            bytes_written: outputs.bytes,
            entries_read: outputs.entries_read,
            entries_dropped: outputs.dropped,
            took: Duration::from_nanos(now.saturating_sub(self.at)),
            stages: outputs.stages,
        };
        Change::JobDone(Arc::new(done.cut()))
    }

    /// It has begun.
    pub(super) fn begun(&self) -> Begun {
        Begun {
            id: self.id,
            family: self.cf,
            reason: self.picked.reason,
            from: self.picked.from,
            to: self.picked.to,
            moved: self.picked.trivial,
            internal: self.picked.is_internal(),
            tables: self.inputs.len(),
            bytes: self.picked.bytes,
            at: self.at,
        }
    }

    pub(super) fn holds(&self) -> &Held {
        &self.picked.holds
    }

    /// Where its outputs stand.
    pub(super) fn place(&self) -> Place {
        Place::new(self.cf, level_of(self.picked.to))
    }

    /// Whether all that it takes is still there.
    pub(super) fn is_valid(&self, state: &State) -> bool {
        let named = self.cf == CfId::METADATA || state.families().contains_key(&self.cf.0);
        named && stand(&self.inputs, state)
    }

    /// What the levels behind that of the output have where it works.
    pub(super) fn below(&self, levels: &Levels<'_>) -> RangesBelow {
        if active(Bug::CompactionForgetsBelow) {
            return RangesBelow::default();
        }
        let range = self.holds().range.borrowed();
        let deeper = self.picked.to + 1..levels.count();
        let deeper = deeper.flat_map(|level| levels.overlapped(level, &range));
        // Of level 0 what is not taken there and was there is older (`pick::level0`).
        let beside = match self.picked.is_within_level0() {
            true => levels.newest_first(),
            false => &[],
        };
        let is_input = |table: &Arc<TableRef>| self.inputs.iter().any(|(_, input)| input == table);
        let beside = beside
            .iter()
            .filter(|table| table.range.overlaps(&range) && !is_input(table));
        below(deeper.chain(beside.copied()))
    }

    /// It ends tables at `starts` of partitions, where they are not too small then.
    pub(super) fn cutter<'v>(
        &self,
        shape: &Shape,
        levels: &Levels<'v>,
        (range, starts): (&KeyRange<&[u8]>, Vec<Vec<u8>>),
    ) -> Cutter<'v> {
        if self.picked.is_within_level0() {
            return shape.internal_cutter(levels, starts);
        }
        shape.sinking_cutter(levels, self.picked.to, range, vec![], starts)
    }

    /// What an edit says by which a filtered value may go: all memtables that may have one were flushed, as the inputs tell until then.
    /// Else one that is still named would come back with it, where no later table is left. While memtables are evacuated the manifest
    /// says what was flushed.
    pub(super) fn flushed(&self, state: &State) -> Option<Change> {
        let newest = self.inputs.iter().map(|(_, table)| table.largest_seqno.0);
        let seqno = newest.max()?;
        let is_new = state.evacuation().is_none() && seqno > state.flushed_up_to();
        is_new.then_some(Change::FlushedUpTo { seqno })
    }

    /// The inputs of which it takes something, if it ends before that key.
    pub(super) fn taken<'j>(
        &'j self,
        end: Option<&'j [u8]>,
    ) -> impl Iterator<Item = &'j (Place, Arc<TableRef>)> {
        let goes = move |table: &TableRef| end.is_none_or(|end| *table.range.first < *end);
        self.inputs.iter().filter(move |(_, table)| goes(table))
    }

    pub(super) fn edit(&self, outputs: &Outputs) -> VersionEdit {
        let end = self.ended_at(outputs);
        let end = end.as_deref();
        let mut changes = without_inputs(&self.inputs, end);
        if self.picked.trivial {
            changes.extend(self.taken(end).map(|(_, table)| Change::TableAdded {
                place: self.place(),
                table: table.clone(),
            }));
        } else {
            changes.extend(outputs.added());
        }
        VersionEdit { changes }
    }
}

/// Whether all of these references are still there.
pub(crate) fn stand(inputs: &[(Place, Arc<TableRef>)], state: &State) -> bool {
    inputs.iter().all(|(place, table)| {
        let mut references = state.version().references(table.file).iter();
        references.any(|(at, other)| at == place && other == table)
    })
}

/// A level's number as versions have it.
pub(crate) fn level_of(level: usize) -> Level {
    Level(u8::try_from(level).expect("levels are few"))
}

/// Bytes that a job takes of a table of which it takes something: of one that reaches over the job's end those that
/// [`without_inputs`] does not leave.
pub(super) fn bytes_taken(table: &TableRef, end: Option<&[u8]>) -> u64 {
    let cut = end.and_then(|end| table.cut_at(end, (1, 2)));
    cut.map_or(table.bytes, |[taken, _]| taken.bytes)
}

/// What an edit says of the inputs of a job that came to its end at a key, or of all of them.
pub(crate) fn without_inputs(inputs: &[(Place, Arc<TableRef>)], end: Option<&[u8]>) -> Vec<Change> {
    let mut changes = Vec::new();
    for (place, table) in inputs {
        if end.is_some_and(|end| *table.range.first >= *end) {
            // Nothing of it was written anew.
            continue;
        }
        changes.push(Change::table_removed(*place, table));
        if active(Bug::InternalForgetsRest) {
            continue;
        }
        // How much that is nobody knows without looking; it will be merged soon.
        let rest = end.and_then(|end| table.cut_at(end, (1, 2)));
        changes.extend(rest.map(|[_, rest]| Change::TableAdded {
            place: *place,
            table: Arc::new(rest),
        }));
    }
    changes
}
