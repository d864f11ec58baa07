//! Slices with what is known of each.

use thermocline_base::{CfId, FileId};

use super::state::{Content, Family, PartitionRate};
use crate::pick::{Held, Slice, State, Table, level0_slices, runs};

/// A slice with what is known of it.
pub(super) struct Weighed<'v> {
    pub family: CfId,
    pub slice: Slice<'v>,
    pub place: usize,
    /// Those in persistent memory that are free, newest first.
    pub files: Vec<FileId>,
    pub zone_bytes: u64,
    /// Bytes of all that lies in its range, in whatever level.
    range_bytes: u64,
    pub records: u64,
    pub writes: u64,
    pub reads: f64,
    /// What its newer runs refer to in blob files, in bytes.
    pub blob_bytes: u64,
}

/// As much of `n` as `part` is of `of`.
pub(super) fn share(n: u64, part: u64, of: u64) -> u64 {
    let share = u128::from(n) * u128::from(part.min(of)) / u128::from(of.max(1));
    u64::try_from(share).expect("a part of a number")
}

/// All of them together. Over levels, and of blob files, a manifest may say what it likes.
fn total(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// The runs of these places in level 0, newest first, as ranges of them.
fn runs_of(tables: &[Table<'_>], places: &[usize]) -> Vec<std::ops::Range<usize>> {
    let some: Vec<Table<'_>> = places.iter().map(|n| tables[*n]).collect();
    runs(&some)
}

/// What the runs of a slice refer to in blob files, but for the oldest one, in bytes.
pub fn newer_blob_bytes(slice: &Slice<'_>, state: &State<'_>, contents: &[Content]) -> u64 {
    let runs = runs_of(state.level0(), &slice.pm);
    let newer = runs.last().map_or(0, |oldest| oldest.start);
    let newer = slice.pm[..newer].iter();
    total(newer.map(|n| contents[*n].blob_bytes))
}

/// Persistent memory of what running jobs take in level 0 of a family, and leave there.
pub(super) fn staying_bytes(family: &Family<'_>) -> u64 {
    let stays = |held: &Held, table: &Table<'_>| held.stays && held.may_take(table);
    let tables = family.state.level0().iter().zip(family.contents);
    tables
        .filter(|(table, _)| family.state.running.iter().any(|held| stays(held, table)))
        .filter_map(|(_, content)| content.zone_bytes)
        .sum()
}

/// Bytes of a family's tables in files.
pub(super) fn bytes_in_files(family: &Family<'_>) -> u64 {
    let level0 = family.state.level0().iter();
    let in_files = level0.filter(|table| !table.in_pm);
    let in_files = in_files.map(|table| table.bytes);
    // No table of a deeper level lies in persistent memory.
    let deeper = family.state.levels_from(1).map(|level| level.bytes());
    total(in_files.chain(deeper))
}

/// Bytes of tables, of all levels, that overlap a slice.
fn overlapping_bytes(slice: &Slice<'_>, state: &State<'_>) -> u64 {
    let deeper = state.levels_from(1);
    let bytes = deeper.map(|tables| tables.bytes_in(tables.overlapped(&slice.range)));
    // No other one of level 0 overlaps it.
    let own = slice.tables.iter().map(|n| state.level0()[*n].bytes);
    total(own.chain(bytes))
}

/// Bytes of tables, of all levels, that have keys of a partition.
fn bytes_within((start, end): (&[u8], Option<&[u8]>), state: &State<'_>) -> u64 {
    let begins_behind = |table: &Table<'_>| end.is_some_and(|end| table.range.first >= end);
    let ends_before = |table: &Table<'_>| table.range.ends_before(start);
    let level0 = state.level0().iter();
    let own = level0.filter(|table| !begins_behind(table) && !ends_before(table));
    let own = own.map(|table| table.bytes);
    let bytes = state.levels_from(1).map(|tables| {
        let first = tables.position(0, ends_before);
        let behind = tables.position(first, |table| !begins_behind(table));
        tables.bytes_in(first..behind)
    });
    total(own.chain(bytes))
}

/// The slices of a family that have something in persistent memory.
pub(super) fn slices_of<'a>(family: &Family<'a>) -> Vec<Weighed<'a>> {
    let state = &family.state;
    let weigh = |(place, slice): (usize, Slice<'a>)| {
        let contents = || slice.pm.iter().map(|n| &family.contents[*n]);
        let records: u64 = contents().map(|content| content.entries).sum();
        let runs = runs_of(state.level0(), &slice.pm);
        let oldest = runs.last().map_or(&[][..], |run| &slice.pm[run.clone()]);
        let oldest = oldest.iter().map(|n| family.contents[*n].entries);
        let files = slice.pm.iter().map(|n| state.level0()[*n].file);
        Weighed {
            family: family.family,
            place,
            files: files.collect(),
            zone_bytes: contents().filter_map(|content| content.zone_bytes).sum(),
            range_bytes: overlapping_bytes(&slice, state),
            records,
            writes: records - oldest.sum::<u64>(),
            reads: 0.0,
            blob_bytes: newer_blob_bytes(&slice, state, family.contents),
            slice,
        }
    };
    let slices = level0_slices(state).into_iter().enumerate();
    let mut slices: Vec<Weighed<'a>> = slices
        .filter(|(_, slice)| !slice.pm.is_empty())
        .map(weigh)
        .collect();
    divide_reads(&mut slices, state, family.rates);
    slices
}

/// Divides what partitions are read among the slices that lie there, by all the data in their ranges. Nobody knows
/// where in a partition its reads go; and a slice stands for its range there as a partition does in the paper, whose reads
/// are all those of its keys, wherever they are found. So of slices with as much below the smaller is the warmer one,
/// and what is read where level 0 has nothing counts for none.
fn divide_reads(
    slices: &mut [Weighed<'_>],
    state: &State<'_>,
    rates: &[(PartitionRate, Option<Vec<u8>>)],
) {
    for (rate, end) in rates.iter().filter(|(rate, _)| rate.reads > 0.0) {
        let keys = (&rate.start[..], end.as_deref());
        let lies_there = |n: &usize| {
            let range = &slices[*n].slice.range;
            let begins_behind = keys.1.is_some_and(|end| range.first >= end);
            !begins_behind && !range.ends_before(keys.0)
        };
        let within: Vec<usize> = (0..slices.len()).filter(lies_there).collect();
        if within.is_empty() {
            continue;
        }
        let of_slices = total(within.iter().map(|n| slices[*n].range_bytes));
        // What reaches over an end of a slice counts for two.
        let all = bytes_within(keys, state).max(of_slices).max(1);
        for n in within {
            let share = slices[n].range_bytes as f64 / all as f64;
            slices[n].reads += rate.reads * share;
        }
    }
}
