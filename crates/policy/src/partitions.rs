//! Which partitions are split or merged by size (PM-Blade §III).
//!
//! The largest one past the limit is split where one of its tables begins, as near to half of its bytes as there is one. One
//! that is a single table wide is not split, whatever it weighs, nor is one where all would lie on one side.
//!
//! Neighbours are merged while all of them together have at most a part of the limit: all rows of such at once, so that ten
//! thousand partitions whose data has gone cost a few edits. What a split made is not merged before most of it is gone, and what
//! a merge made is not split before it has grown to several times its size.

use thermocline_base::limits::PARTITIONS_MAX;

use crate::tuning::{MERGED_BYTES, MERGED_MAX, MERGED_PARTS};

/// A partition, and about what lies in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition<'a> {
    /// Its first key.
    pub start: &'a [u8],
    /// Its bytes.
    pub bytes: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adjustment {
    /// A partition begins at this key.
    Split(Vec<u8>),
    /// The ones that begin there, ascending, go to those before them.
    Merge(Vec<Vec<u8>>),
}

/// The places of those that are to be split, the largest first. None, where there are as many as there may be.
pub fn large(partitions: &[Partition<'_>], limit: u64) -> Vec<usize> {
    let bytes = |n: &usize| partitions[*n].bytes;
    let mut large: Vec<usize> = (0..partitions.len()).filter(|n| bytes(n) > limit).collect();
    large.sort_by_key(|n| std::cmp::Reverse(bytes(n)));
    large.retain(|_| partitions.len() < PARTITIONS_MAX);
    large
}

/// What is to be done next about partitions, which are in the order of keys, if anything is. `middle_of` says where the one at a
/// place would be split, which takes reading: it is asked of as few as may be.
pub fn next(
    partitions: &[Partition<'_>],
    limit: u64,
    middle_of: impl FnMut(usize) -> Option<Vec<u8>>,
) -> Option<Adjustment> {
    let split = large(partitions, limit).into_iter().find_map(middle_of);
    split
        .map(Adjustment::Split)
        .or_else(|| merges(partitions, limit))
}

/// Whether the partition in which `key` lies is still too large, and would be split there.
pub fn splits_still(partitions: &[Partition<'_>], key: &[u8], limit: u64) -> bool {
    let behind = partitions.partition_point(|partition| partition.start <= key);
    let of = behind.checked_sub(1).and_then(|n| partitions.get(n));
    of.is_some_and(|partition| partition.start < key && partition.bytes > limit)
}

/// All that are small enough beside those before them, as many as an edit takes.
fn merges(partitions: &[Partition<'_>], limit: u64) -> Option<Adjustment> {
    let mut starts: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    let (first, others) = partitions.split_first()?;
    let mut together = first.bytes;
    for partition in others {
        together = together.saturating_add(partition.bytes);
        if together > limit / MERGED_PARTS {
            together = partition.bytes;
            continue;
        }
        bytes += partition.start.len();
        starts.push(partition.start.to_vec());
        if starts.len() == MERGED_MAX || bytes >= MERGED_BYTES {
            break;
        }
    }
    (!starts.is_empty()).then_some(Adjustment::Merge(starts))
}

/// Where a table within a partition begins, nearest to half of its bytes. `firsts` are the first keys of tables; and `below` tells
/// how many bytes lie below a key: of a larger one no fewer, as nearly as is known.
///
/// ```
/// use thermocline_policy::partitions::{Partition, middle};
/// let partition = Partition { start: b"a", bytes: 100 };
/// let below = |key: &[u8]| if key < b"m" { 30 } else { 60 };
/// assert_eq!(middle(&partition, vec![b"m", b"c", b"a"], below), Some(b"m".to_vec()));
/// assert_eq!(middle(&partition, vec![b"a"], below), None);
/// ```
pub fn middle(
    partition: &Partition<'_>,
    mut firsts: Vec<&[u8]>,
    mut below: impl FnMut(&[u8]) -> u64,
) -> Option<Vec<u8>> {
    firsts.retain(|first| *first > partition.start);
    firsts.sort_unstable();
    firsts.dedup();
    let half = partition.bytes / 2;
    let behind = firsts.partition_point(|key| below(key) < half);
    let around = &firsts[behind.saturating_sub(1)..(behind + 1).min(firsts.len())];
    let far = around.iter().map(|key| (below(key), *key));
    let some = far.filter(|(bytes, _)| (1..partition.bytes).contains(bytes));
    let nearest = some.min_by_key(|(bytes, _)| half.abs_diff(*bytes));
    nearest.map(|(_, key)| key.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn starts_of(count: usize) -> Vec<[u8; 4]> {
        let count = u32::try_from(count).expect("few partitions");
        (0..count).map(u32::to_be_bytes).collect()
    }

    fn partitions<'a>(starts: &'a [[u8; 4]], bytes: &[u64]) -> Vec<Partition<'a>> {
        let all = starts.iter().zip(bytes);
        all.map(|(start, bytes)| Partition {
            start,
            bytes: *bytes,
        })
        .collect()
    }

    fn merged(bytes: &[u64], limit: u64) -> Vec<usize> {
        let starts = starts_of(bytes.len());
        match merges(&partitions(&starts, bytes), limit) {
            Some(Adjustment::Merge(keys)) => keys
                .into_iter()
                .map(|key| starts.iter().position(|start| start[..] == key).unwrap())
                .collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn rows_of_small_partitions_are_merged_at_once_and_leave_nothing_to_split() {
        assert_eq!(merged(&[40, 60, 1, 99, 1, 0, 0], 400), [1, 3, 5, 6]);
        assert_eq!(merged(&[0, 101, 0, 100, 100, 50, 51], 400), [3]);
        assert!(merged(&[u64::MAX, 1, u64::MAX], 400).is_empty());
        assert!(merged(&[7], 400).is_empty());
        // Many cost a few edits; long starts take fewer at a time.
        let none = vec![0; 10_000];
        assert_eq!(merged(&none, 400), (1..=4096).collect::<Vec<_>>());
        let long = vec![0; 60_000];
        let long = Partition {
            start: &long,
            bytes: 0,
        };
        let Some(Adjustment::Merge(few)) = merges(&vec![long; 10_000], 400) else {
            panic!("some are merged");
        };
        assert_eq!(few.len(), MERGED_BYTES.div_ceil(60_000));
    }

    proptest! {
        #[test]
        fn neither_asks_for_the_other(bytes in proptest::collection::vec(0u64..1000, 1..40), limit in 4u64..800) {
            let gone = merged(&bytes, limit);
            let mut after: Vec<u64> = Vec::new();
            for (n, bytes) in bytes.iter().enumerate() {
                match after.last_mut().filter(|_| gone.contains(&n)) {
                    Some(before) => *before += bytes,
                    None => after.push(*bytes),
                }
            }
            prop_assert_eq!(after.iter().sum::<u64>(), bytes.iter().sum::<u64>());
            // What a merge made is far from a split.
            let made = after.iter().filter(|bytes| **bytes > limit).count();
            prop_assert_eq!(made, bytes.iter().filter(|bytes| **bytes > limit).count());
        }

        #[test]
        fn a_split_leaves_some_on_both_sides(tables in proptest::collection::vec(0u64..100, 1..20)) {
            let starts = starts_of(tables.len());
            let bytes: u64 = tables.iter().sum();
            let partition = Partition { start: &starts[0], bytes };
            let below = |key: &[u8]| {
                let of = starts.iter().zip(&tables).filter(|(start, _)| &start[..] < key);
                of.map(|(_, bytes)| *bytes).sum::<u64>()
            };
            let firsts = starts.iter().map(|start| &start[..]).collect();
            if let Some(key) = middle(&partition, firsts, below) {
                prop_assert!((1..bytes).contains(&below(&key)));
                prop_assert!(splits_still(&[partition], &key, bytes - 1));
                prop_assert!(!splits_still(&[partition], &key, bytes));
            }
        }
    }
}
