//! Which partitions are to be split or merged by size: a function over metadata, and what is known of sizes.
//!
//! The largest one past the limit is split where one of its tables begins, as near to half of its bytes as there
//! is one. Tables of level 0 count only where there are no others ([`sizes::settled`]). One that is a single table wide is not split, whatever it weighs, nor is one where all would lie on
//! one side.
//!
//! Neighbours are merged while all of them together have at most a quarter of the limit: all rows of such at once,
//! so that ten thousand partitions whose data has gone cost a few edits. What a split made is not merged
//! before most of it is gone, and what a merge made is not split before it has grown to four times its size.

use std::collections::BTreeSet;
use std::ops::Bound;

use thermocline_base::{CfId, limits};
use thermocline_policy::level0::PartitionRate;
use thermocline_version::{Level, TableRef, Version};

use super::measure::Measuring;
use super::sizes::settled_tables;
use super::{PartitionSize, sizes};

/// A quarter of the limit for what is merged.
const MERGED_PART: u64 = 4;

/// Partitions that one edit merges, at most, with those before them.
const MERGED_MAX: usize = 4096;

/// Bytes of their starts, about.
const MERGED_BYTES: usize = 1 << 20;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Adjustment {
    /// A partition begins at this key.
    Split(Vec<u8>),
    /// The ones that begin there, ascending, go to those before them.
    Merge(Vec<Vec<u8>>),
}

/// The partitions of a family, and what is to be done about them.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionsPlan {
    /// How many there are.
    pub count: usize,
    /// The largest one's bytes on the SSD, about.
    pub bytes_most: u64,
    /// The same past which it is split; `None` unless that is done by size.
    pub bytes_due: Option<u64>,
    /// The key at which one would be split now.
    pub split: Option<Vec<u8>>,
    /// The first keys of those that would now be merged with the ones before them.
    pub merge: Vec<Vec<u8>>,
    /// How often they are read and written, lately: those where something happened since the store was opened.
    pub rates: Vec<PartitionRate>,
}

impl PartitionsPlan {
    /// In this version.
    pub(crate) fn of(
        version: &Version,
        cf: CfId,
        limit: Option<u64>,
        measuring: &mut Measuring<'_>,
    ) -> PartitionsPlan {
        let sizes = sizes::settled(version, cf, measuring);
        let next = limit.and_then(|limit| next(version, cf, &sizes, limit, measuring));
        let (split, merge) = match next {
            Some(Adjustment::Split(key)) => (Some(key), Vec::new()),
            Some(Adjustment::Merge(keys)) => (None, keys),
            None => (None, Vec::new()),
        };
        PartitionsPlan {
            count: sizes.len(),
            bytes_most: sizes.iter().map(|size| size.bytes).max().unwrap_or(0),
            bytes_due: limit,
            split,
            merge,
            rates: Vec::new(),
        }
    }
}

/// What is to be done next, if anything is.
pub(crate) fn next(
    version: &Version,
    cf: CfId,
    sizes: &[PartitionSize],
    limit: u64,
    measuring: &mut Measuring<'_>,
) -> Option<Adjustment> {
    let mut large: Vec<_> = sizes.iter().filter(|size| size.bytes > limit).collect();
    large.sort_by_key(|size| std::cmp::Reverse(size.bytes));
    let room = sizes.len() < limits::PARTITIONS_MAX;
    let split = large
        .into_iter()
        .filter(|_| room)
        .find_map(|size| middle(version, cf, size, measuring));
    split
        .map(Adjustment::Split)
        .or_else(|| merges(sizes, limit))
}

/// Whether the partition in which `key` lies is still too large, and would be split there.
pub(crate) fn splits_still(sizes: &[PartitionSize], key: &[u8], limit: u64) -> bool {
    let behind = sizes.partition_point(|size| *size.start <= *key);
    let of = behind.checked_sub(1).and_then(|n| sizes.get(n));
    of.is_some_and(|size| *size.start < *key && size.bytes > limit)
}

/// All that are small enough beside those before them, as many as an edit takes.
fn merges(sizes: &[PartitionSize], limit: u64) -> Option<Adjustment> {
    let mut starts: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    let (first, others) = sizes.split_first()?;
    let mut together = first.bytes;
    for size in others {
        together = together.saturating_add(size.bytes);
        if together > limit / MERGED_PART {
            together = size.bytes;
            continue;
        }
        bytes += size.start.len();
        starts.push(size.start.clone());
        if starts.len() == MERGED_MAX || bytes >= MERGED_BYTES {
            break;
        }
    }
    (!starts.is_empty()).then_some(Adjustment::Merge(starts))
}

/// Where a table within the partition begins, nearest to half of its bytes.
fn middle(
    version: &Version,
    cf: CfId,
    size: &PartitionSize,
    measuring: &mut Measuring<'_>,
) -> Option<Vec<u8>> {
    let end = size.end.as_deref();
    let to = end.map_or(Bound::Unbounded, Bound::Excluded);
    let from = Bound::Included(&size.start[..]);
    let levels: BTreeSet<Level> = settled_tables(version, cf)
        .map(|(at, _)| at.level)
        .collect();
    let levels = version
        .family(cf)?
        .levels()
        .filter(|(level, _)| levels.contains(level));
    let within = levels.flat_map(|(_, tables)| tables.overlapping(from, to));
    let within: Vec<&TableRef> = within.map(|table| &**table).collect();
    let firsts = within.iter().map(|table| table.range.smallest());
    let mut firsts: Vec<&[u8]> = firsts.filter(|first| *first > &size.start[..]).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let mut below = |key: &[u8]| {
        let part = (&size.start[..], Some(key));
        let bytes = |table: &&TableRef| measuring.bytes_within(cf, table, part);
        within.iter().map(bytes).fold(0, u64::saturating_add)
    };
    let half = size.bytes / 2;
    // The larger of two keys has no fewer bytes below it, as nearly as is known.
    let behind = firsts.partition_point(|key| below(key) < half);
    let around = &firsts[behind.saturating_sub(1)..(behind + 1).min(firsts.len())];
    let far = around.iter().map(|key| (below(key), *key));
    let some = far.filter(|(bytes, _)| (1..size.bytes).contains(bytes));
    let nearest = some.min_by_key(|(bytes, _)| half.abs_diff(*bytes));
    nearest.map(|(_, key)| key.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_version::PartitionId;

    fn size(n: u32, start: &[u8], bytes: u64) -> PartitionSize {
        PartitionSize {
            id: PartitionId(n),
            start: start.to_vec(),
            end: None,
            tables: 0,
            bytes,
            entries: 0,
        }
    }

    #[test]
    fn rows_of_small_partitions_are_merged_at_once_and_leave_nothing_to_split() {
        let sizes = |bytes: &[u64]| -> Vec<PartitionSize> {
            let all = (0u32..).zip(bytes);
            all.map(|(n, bytes)| size(n, &n.to_be_bytes(), *bytes))
                .collect()
        };
        let starts = |bytes: &[u64]| match merges(&sizes(bytes), 400) {
            Some(Adjustment::Merge(starts)) => {
                let number = |start: Vec<u8>| u32::from_be_bytes(start.try_into().unwrap());
                starts.into_iter().map(number).collect()
            }
            _ => Vec::new(),
        };
        assert_eq!(starts(&[40, 60, 1, 99, 1, 0, 0]), [1, 3, 5, 6]);
        assert_eq!(starts(&[0, 101, 0, 100, 100, 50, 51]), [3]);
        assert_eq!(starts(&[u64::MAX, 1, u64::MAX]), []);
        assert_eq!(starts(&[7]), []);
        // Many cost a few edits; long starts take fewer at a time.
        let none = vec![0; 10_000];
        assert_eq!(starts(&none), (1..=4096).collect::<Vec<_>>());
        let mut long = sizes(&none);
        long.iter_mut()
            .for_each(|size| size.start = vec![0; 60_000]);
        let Some(Adjustment::Merge(few)) = merges(&long, 400) else {
            panic!("some are merged");
        };
        assert_eq!(few.len(), MERGED_BYTES.div_ceil(60_000));
    }
}
