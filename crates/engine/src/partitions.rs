//! Partitions: how the keys of a family are divided, and when that changes (PM-Blade §III).
//!
//! `version::partitions` has what they are, and why tables know nothing of them. Here they are made and
//! removed:
//!
//! | `partition.by` | made | removed |
//! |---|---|---|
//! | `keys` | when a store is opened, or a family is made | never |
//! | `prefix` | by the flush or compaction that meets a prefix, in the edit that names its tables, or the next ones | never |
//! | `size` | when one has grown past `partition.bytes` ([`plan`]) | when neighbours have shrunk |
//!
//! | question | module |
//! |---|---|
//! | how is one split, or are several merged? | [`adjust`] |
//! | which are to be? | [`plan`] |
//! | how much lies in each? | [`sizes`], [`measure`] |
//! | which prefixes does a flush meet? | [`prefixes`] |
//! | how often is each read and written? | [`rates`] |
//!
//! # A split, and a merge
//! A split is one edit: the partition, and in place of each reference that reaches over its start two
//! parts of the same file, limited there. So it costs metadata only, and what happens on one side needs nothing
//! of the other from then on. What is written later may reach over the start again: no key is a
//! boundary in all levels for ever, and tables are as large as they would be without partitions. A compaction ends its tables
//! at such starts where they are not too far from full ([`Partitioner::starts_within`](crate::store::Partitioner)), so that it does not
//! join again what a split has cut. A merge
//! is one edit, too, of as many neighbours as are due, and joins parts that meet where they did. Flushes and
//! prefixes cut nothing: with ten thousand prefixes there would be ten thousand parts of each table.
//!
//! # Invariants
//! 1. *Nobody reads otherwise.* Parts of a file have what the file has. So the view may follow later, as
//!    after a compaction. And whatever is left whole, or in parts, is right.
//! 2. *Jobs keep their inputs.* A compaction takes references, and gives up where they are no longer there. What a
//!    split or merge changes it holds as a job does (`compact::beside`): a split waits for the jobs that
//!    hold its key where a reference reaches over it, a merge leaves parts that a job takes as they are. Tables
//!    that a flush brings into a level that is held are cut with the others, under the manifest's lock;
//!    what comes into another level stays whole.
//! 3. *They wait without a thread.* What meets a running job by size notes that ([`Waiting`]), and is decided anew
//!    when a job ends, or before one is taken. It keeps its key free until then: if it was let go first, a job
//!    would slip in.
//! 4. *It ends.* A split leaves less than what was past the limit on each side, and some on both; a merge
//!    leaves at most a quarter of the limit, so neither asks for the other.
//! 5. *Small edits.* None has more than about `EDIT_BYTES` of references, or [`EDIT_PARTITIONS`] new
//!    partitions, whatever keys are like: what does not fit is left as it is, or stands in the next one.
//! 6. *Not on a full disk.* No partition is made or removed by itself while the disk is full: there an append could fail,
//!    and nothing depends on it.
//!
//! # What a crash leaves
//! All of an edit or nothing of it. No file is made or removed by it: a file goes when no reference to any
//! part of it is left. A prefix that a crash has lost is met again by the flush of its next key, or when its keys are compacted.

mod adjust;
mod measure;
mod plan;
pub(crate) mod rates;
mod sizes;
pub(crate) mod waiting;

use std::ops::Bound;

use thermocline_base::bounds::behind_prefix;
use thermocline_base::options::{Division, Options, PartitionBy};
use thermocline_base::shown::shown;
use thermocline_base::{CfId, CfOptions, Error, KeyRange, Result, limits};
use thermocline_catalog::Edits;
use thermocline_jobs::Prefixes;
use thermocline_observe::event::Event;
use thermocline_policy::tuning::EDIT_PARTITIONS;
use thermocline_version::{Change, State, Version, VersionEdit};

use crate::store::Partitioner;
#[cfg(test)]
pub(crate) use adjust::Outcome;
use measure::Measures;
pub(crate) use measure::share;
pub use plan::PartitionsPlan;
pub use sizes::PartitionSize;
pub(crate) use thermocline_policy::partitions::Adjustment;
use waiting::{Adjusting, Waiter};

fn too_many(there: usize, more: usize) -> Error {
    Error::InvalidArgument(format!(
        "a column family has at most {} partitions; this one has {there}, and {more} more are asked for",
        limits::PARTITIONS_MAX
    ))
}

/// The changes that make the partitions of these starts, which ascend, where there are none yet, and as far
/// as there may be more.
pub(crate) fn created<'k>(
    version: &Version,
    cf: CfId,
    starts: impl IntoIterator<Item = &'k Vec<u8>>,
) -> Vec<Change> {
    let partitions = version.partitions(cf);
    let missing = starts
        .into_iter()
        .filter(|start| partitions.starting_at(start).is_none());
    let room = limits::PARTITIONS_MAX - partitions.len();
    let numbered = missing.take(room).zip(partitions.free_ids());
    numbered
        .map(|(start, partition)| Change::PartitionCreated {
            cf,
            partition,
            start: start.as_slice().into(),
        })
        .collect()
}

/// The changes that divide a family as the options say, when it is made, or its store is opened.
///
/// # Errors
/// [`Error::InvalidArgument`] if those were too many.
pub(crate) fn at_keys(
    version: &Version,
    cf: CfId,
    (own, options): (&CfOptions, &Options),
) -> Result<Vec<Change>> {
    if options.division(own).by != PartitionBy::Keys {
        return Ok(Vec::new());
    }
    let partitions = version.partitions(cf);
    let keys = options.partition_keys.iter();
    let more = keys
        .filter(|key| partitions.starting_at(key).is_none())
        .count();
    if partitions.len() + more > limits::PARTITIONS_MAX {
        return Err(too_many(partitions.len(), more));
    }
    Ok(created(version, cf, &options.partition_keys))
}

/// As [`at_keys`], of all families, each by an edit of its own; none if they are divided like that.
pub(crate) fn missing(state: &State, options: &Options) -> Result<Vec<VersionEdit>> {
    let changes = |id: &u16| {
        let own = CfOptions::from_stored(state.family_options(*id))?;
        at_keys(state.version(), CfId(*id), (&own, options))
    };
    let all: Result<Vec<Vec<Change>>> = state.families().keys().map(changes).collect();
    let some = all?.into_iter().filter(|changes| !changes.is_empty());
    Ok(some.map(|changes| VersionEdit { changes }).collect())
}

impl Partitioner {
    /// How a family is divided.
    pub fn division(&self, cf: CfId) -> Division {
        self.common
            .options
            .division(&self.common.families.own_options(cf))
    }

    /// The bytes past which a family's partitions are split, if that is done by size.
    fn splits_past(&self, cf: CfId) -> Option<u64> {
        let division = (cf != CfId::METADATA).then(|| self.division(cf));
        let by_size = division.filter(|division| division.by == PartitionBy::Size);
        by_size.map(|division| division.bytes)
    }

    /// The keys, within this range, at which compactions end tables if they can: where partitions begin. Not where
    /// those are prefixes, of which one table may have thousands, unless `partition.cuts` asks for it.
    pub fn starts_within(
        &self,
        version: &Version,
        cf: CfId,
        range: &KeyRange<&[u8]>,
    ) -> Vec<Vec<u8>> {
        let cuts = self.common.options.partition.cuts;
        let is_left_out = || !cuts && self.division(cf).by == PartitionBy::Prefix;
        if cf == CfId::METADATA || is_left_out() {
            return Vec::new();
        }
        let (from, to) = (Bound::Included(range.first), Bound::Included(range.last));
        let within = version.partitions(cf).overlapping(from, to);
        within
            .skip(1)
            .map(|partition| partition.start.to_vec())
            .collect()
    }

    /// As [`Partitioner::starts_within`], of all keys.
    pub fn starts_of(&self, version: &Version, cf: CfId) -> Vec<Vec<u8>> {
        let most = [u8::MAX; limits::KEY_LEN_MAX];
        self.starts_within(version, cf, &KeyRange::inclusive(b"", &most))
    }

    /// As [`Engine::partition_at`](crate::Engine::partition_at).
    pub fn keys_from(&self, cf: CfId, start: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let division = self.division(cf);
        if division.by == PartitionBy::Prefix {
            if start.len() != division.prefix_len {
                return Err(Error::InvalidArgument(format!(
                    "a partition of this column family is named by its prefix of {} bytes; {} were given",
                    division.prefix_len,
                    start.len()
                )));
            }
            // It need not have met a flush yet.
            return Ok((start.to_vec(), behind_prefix(start)));
        }
        let version = self.common.catalog.version();
        let partitions = version.partitions(cf);
        // There would be one, of all keys: nobody means those. What an earlier opening has divided still is.
        if division.by == PartitionBy::None && partitions.len() == 1 {
            return Err(Error::InvalidArgument(
                "the keys of this column family are not divided into partitions (partition.by); `delete_range` deletes a \
                 range"
                    .into(),
            ));
        }
        let partition = partitions.of(start);
        if partition.start != start {
            return Err(Error::InvalidArgument(format!(
                "no partition begins with '{}'; it lies in the one that begins with '{}'",
                shown(start),
                shown(partition.start)
            )));
        }
        Ok((start.to_vec(), partition.end.map(<[u8]>::to_vec)))
    }

    /// What is to be done about a family's partitions.
    pub fn partitions_plan(&self, version: &Version, cf: CfId) -> PartitionsPlan {
        let limit = self.splits_past(cf);
        let view = self.common.catalog.view_to_keep();
        // What is known already, and nothing opened for it.
        let mut own = Measures::default();
        let mut turn = limit
            .is_some()
            .then(|| self.common.compactions.adjusting.take());
        let known = turn.as_mut().map_or(&mut own, |turn| &mut turn.measures);
        let mut plan = PartitionsPlan::of(version, cf, limit, &mut known.by(&view.tables, 0));
        drop(turn);
        let partitions = version.partitions(cf);
        let common = &self.common;
        let exists = |cf, partition| common.has_partition(cf, partition);
        let now = common.now_ns();
        plan.rates = common.rates.per_second(now, &exists, partitions, cf);
        plan
    }

    /// What notes prefixes at which no partition begins in this version, if the family is divided by them.
    pub fn prefixes_of<'v>(&self, version: &'v Version, cf: CfId) -> Option<Prefixes<'v>> {
        let division = (cf != CfId::METADATA).then(|| self.division(cf))?;
        Prefixes::new(&division, version.partitions(cf))
    }

    /// Appends an edit that names new tables, and with it the partitions of the prefixes that were met in them: in
    /// this edit and, where they are many, in the next ones. Returns how many were made.
    ///
    /// # Errors
    /// Those of the edit that names the tables. Where there is no room for the others they are left out: whoever
    /// meets these prefixes next makes them.
    pub fn append_with_prefixes(
        &self,
        manifest: &mut Edits<'_>,
        mut changes: Vec<Change>,
        met: &[(CfId, Vec<Vec<u8>>)],
    ) -> Result<usize> {
        let met = self.prefixes_met(manifest.state().version(), met);
        for edit in &met {
            self.common.rates.make_room(&edit.changes);
        }
        let mut edits = met.into_iter();
        let first = edits.next().unwrap_or_default().changes;
        let mut made = first.len();
        changes.extend(first);
        manifest.append(&VersionEdit { changes })?;
        for edit in edits {
            match manifest.append(&edit) {
                Err(Error::OutOfSpace(_)) => break,
                appended => appended?,
            }
            made += edit.changes.len();
        }
        Ok(made)
    }

    /// The partitions of these prefixes that there are not yet, as edits.
    fn prefixes_met(&self, version: &Version, met: &[(CfId, Vec<Vec<u8>>)]) -> Vec<VersionEdit> {
        if self.pressure.is_relieving() {
            return Vec::new();
        }
        let exist = met
            .iter()
            .filter(|(cf, _)| self.common.families.exists(*cf, b""));
        let changes: Vec<Change> = exist
            .flat_map(|(cf, starts)| created(version, *cf, starts))
            .collect();
        let edits = changes.chunks(EDIT_PARTITIONS);
        edits
            .map(|changes| VersionEdit {
                changes: changes.to_vec(),
            })
            .collect()
    }

    /// A flush or a compaction has made so many partitions of prefixes.
    pub fn tell_of_prefixes(&self, made: usize) {
        if made > 0 {
            self.common.compactions.partition_usage.met(made);
            self.common.events.emit(Event::PartitionsMade { made });
        }
    }

    /// As [`Engine::partitions`](crate::Engine::partitions).
    pub fn sizes(&self, cf: CfId) -> Vec<PartitionSize> {
        let version = self.common.catalog.version();
        let view = self.common.catalog.view_to_keep();
        let mut measures = Measures::default();
        // Nothing is opened once the store is closed.
        let opened = if view.pins().is_ok() { usize::MAX } else { 0 };
        sizes::of(&version, cf, &mut measures.by(&view.tables, opened))
    }
}

#[cfg(test)]
mod tests;
