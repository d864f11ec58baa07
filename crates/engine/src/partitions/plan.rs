//! Which partitions are to be split or merged by size: `policy::partitions` decides, with what is known of sizes.
//!
//! Tables of level 0 count only where there are no others ([`sizes::settled`]).

use std::collections::BTreeSet;
use std::ops::Bound;

use thermocline_base::CfId;
use thermocline_policy::level0::PartitionRate;
use thermocline_policy::partitions::{self, Partition};
use thermocline_policy::situation::{Partitions, Situation};
use thermocline_policy::work::{Decision, Work};
use thermocline_policy::{self as policy, Memory};
use thermocline_version::{Level, TableRef, Version};

use super::measure::Measuring;
use super::sizes::settled_tables;
use super::{PartitionSize, sizes};

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
        let work = limit.map(|limit| next(version, cf, &sizes, (limit, None), measuring).work);
        let (split, merge) = match work {
            Some(Work::SplitPartition { key, .. }) => (Some(key), Vec::new()),
            Some(Work::MergePartitions { starts, .. }) => (None, starts),
            _ => (None, Vec::new()),
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

/// Partitions by their numbers.
pub(crate) fn numbers(sizes: &[PartitionSize]) -> Vec<Partition<'_>> {
    let all = sizes.iter();
    all.map(|size| Partition {
        start: &size.start,
        bytes: size.bytes,
    })
    .collect()
}

/// What is to be done next about partitions that are split past this limit, where a split at that key may wait.
pub(crate) fn next(
    version: &Version,
    cf: CfId,
    sizes: &[PartitionSize],
    (limit, waiting): (u64, Option<&[u8]>),
    measuring: &mut Measuring<'_>,
) -> Decision {
    let partitions = numbers(sizes);
    let waits = waiting.is_some_and(|key| partitions::splits_still(&partitions, key, limit));
    // What waits is not measured anew.
    let large = match waits {
        true => Vec::new(),
        false => partitions::large(&partitions, limit),
    };
    let mut large = large.into_iter();
    let middle = large.find_map(|n| middle(version, cf, &sizes[n], measuring));
    let known = Partitions {
        family: cf,
        partitions: &partitions,
        limit,
        waiting,
        middle: middle.as_deref(),
    };
    let situation = Situation {
        partitions: Some(known),
        ..Situation::default()
    };
    policy::next(&situation, &mut Memory::default())
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
    let firsts = within.iter().map(|table| &*table.range.first);
    let firsts: Vec<&[u8]> = firsts.collect();
    let below = |key: &[u8]| {
        let part = (&size.start[..], Some(key));
        let bytes = |table: &&TableRef| measuring.bytes_within(cf, table, part);
        within.iter().map(bytes).fold(0, u64::saturating_add)
    };
    let partition = Partition {
        start: &size.start,
        bytes: size.bytes,
    };
    partitions::middle(&partition, firsts, below)
}
