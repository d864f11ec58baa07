//! About how much of the tables lies in each partition.
//!
//! A reference counts in the partitions into which its range reaches, as its index says how much of it lies below
//! each start; where that is not known ([`measure`](super::measure)), in equal shares. Either way the sum over all
//! is what there is.

use std::ops::Range;

use thermocline_base::CfId;
use thermocline_version::{Level, PartitionId, Partitions, Place, TableRef, Version};

use super::measure::{Measuring, share};
use crate::sync::Arc;

/// A partition, and about what lies on the SSD of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSize {
    /// Its id, which no other one of the family has.
    pub id: PartitionId,
    /// Its first key.
    pub start: Vec<u8>,
    /// The first key behind it; `None` of the last one.
    pub end: Option<Vec<u8>>,
    /// Tables, or parts of tables, that may have keys of it.
    pub tables: u64,
    /// Its share of their bytes. Values that lie apart from tables do not count.
    pub bytes: u64,
    /// Its share of their entries.
    pub entries: u64,
}

/// Those of a family, in the order of keys.
pub(crate) fn of(version: &Version, cf: CfId, measuring: &mut Measuring<'_>) -> Vec<PartitionSize> {
    of_tables(version, cf, version.tables_of(cf), measuring)
}

/// As [`of`], without level 0 where there are deeper levels.
///
/// Tables of level 0 reach over most partitions, each of them over most: to measure all of that anew after
/// each flush would take as many steps, and as much memory, as there are tables times partitions; and it is
/// soon gone. Those of a deeper level lie side by side.
pub(crate) fn settled(
    version: &Version,
    cf: CfId,
    measuring: &mut Measuring<'_>,
) -> Vec<PartitionSize> {
    of_tables(version, cf, settled_tables(version, cf), measuring)
}

/// The tables of a family by which partitions are split and merged: see [`settled`].
pub(crate) fn settled_tables(
    version: &Version,
    cf: CfId,
) -> impl Iterator<Item = (Place, &Arc<TableRef>)> {
    let deeper = version.tables_of(cf).next_back();
    let deeper = deeper.is_some_and(|(last, _)| last.level > Level::ZERO);
    let all = version.tables_of(cf);
    all.filter(move |(at, _)| !deeper || at.level > Level::ZERO)
}

fn of_tables<'v>(
    version: &'v Version,
    cf: CfId,
    tables: impl Iterator<Item = (Place, &'v Arc<TableRef>)>,
    measuring: &mut Measuring<'_>,
) -> Vec<PartitionSize> {
    let mut sizes = all(version.partitions(cf));
    // What begins at each of them, and what ends before it. Sums over levels may be more than a number has
    // room for, in a manifest that nobody here wrote.
    let mut begins = vec![[0u128; 3]; sizes.len() + 1];
    let mut ends = begins.clone();
    for (_, table) in tables {
        let reach = reach(&sizes, table);
        let count = reach.len() as u64;
        let starts = sizes[reach.clone()].iter().skip(1);
        let starts: Vec<Vec<u8>> = starts.map(|size| size.start.clone()).collect();
        let starts: Vec<&[u8]> = starts.iter().map(|start| &start[..]).collect();
        let below = match starts.is_empty() {
            true => None,
            false => measuring.below(cf, table, &starts),
        };
        if let Some((below, of)) = below.filter(|(_, of)| *of > 0) {
            let (mut bytes, mut entries) = (0, 0);
            let upto = below.into_iter().chain([of]);
            for (size, upto) in sizes[reach].iter_mut().zip(upto) {
                let (b, e) = (share(table.bytes, upto, of), share(table.entries, upto, of));
                size.tables += 1;
                size.bytes = size.bytes.saturating_add(b - bytes);
                size.entries = size.entries.saturating_add(e - entries);
                (bytes, entries) = (b, e);
            }
            continue;
        }
        let shares = [1, table.bytes / count, table.entries / count];
        for (n, share) in shares.into_iter().enumerate() {
            begins[reach.start][n] += u128::from(share);
            ends[reach.end][n] += u128::from(share);
        }
        let first = &mut sizes[reach.start];
        first.bytes = first.bytes.saturating_add(table.bytes % count);
        first.entries = first.entries.saturating_add(table.entries % count);
    }
    let mut sum = [0u128; 3];
    for (size, (begins, ends)) in sizes.iter_mut().zip(begins.iter().zip(&ends)) {
        for ((sum, begins), ends) in sum.iter_mut().zip(begins).zip(ends) {
            *sum = *sum + begins - ends;
        }
        let add = |n: u64, more: u128| n.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
        size.tables = add(size.tables, sum[0]);
        size.bytes = add(size.bytes, sum[1]);
        size.entries = add(size.entries, sum[2]);
    }
    sizes
}

fn all(partitions: &Partitions) -> Vec<PartitionSize> {
    let size = |partition: thermocline_version::Partition<'_>| PartitionSize {
        id: partition.id,
        start: partition.start.to_vec(),
        end: partition.end.map(<[u8]>::to_vec),
        tables: 0,
        bytes: 0,
        entries: 0,
    };
    partitions.iter().map(size).collect()
}

/// The places of the partitions into which a reference reaches: at least one.
fn reach(sizes: &[PartitionSize], table: &TableRef) -> Range<usize> {
    let range = &table.range;
    let first = sizes.partition_point(|size| *size.start <= *range.first);
    let end = sizes.partition_point(|size| !range.ends_before(&size.start));
    first.saturating_sub(1)..end.max(first).max(1)
}

#[cfg(test)]
pub(super) fn reaches(sizes: &[PartitionSize], table: &TableRef) -> Range<usize> {
    reach(sizes, table)
}
