//! Which indexes of sealed memtables are merged, and when that pays (LogFree §3.3; `engine::merge` has the steps).
//!
//! # Which
//! Let neighbouring sealed indexes be in order of age, with so many keys each. A merge takes the newest ones, down to the
//! oldest that has at most [`INDEX_RATIO`] times the keys of all newer ones together. So what stays is few indexes, each more
//! than that many times as large as all newer ones; and a pointer is moved only when what it is in grows by half.
//!
//! Where a flush takes only the oldest memtables, a merged index leads to no more memtables than the flush takes, since
//! it is taken as a whole; but to two memtables at least.
//!
//! Dead memtables of a merged index stay until the index is made anew. The index counts as many keys less as those
//! memtables had records: making it anew then costs no more than writing those records did.
//!
//! # When it pays
//! Moving a pointer costs about what asking one more index for a key does. So a merge is done when reads have asked so
//! many indexes beyond the first sealed one as it moves pointers, records of dead memtables counted with those. Then
//! all that reads and merges cost is at most twice what it would be with all reads known in advance.

use crate::flush::Dram;
use crate::tuning::{INDEX_DEAD_PARTS, INDEX_LOOK_EVERY, INDEX_RATIO};

/// A sealed index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Index {
    /// Its keys.
    pub keys: u64,
    /// Persistent memory of its memtables.
    pub bytes: u64,
    /// Records of dead memtables that it leads to, if it is a merged one. One that is not leaves by itself.
    pub dead: u64,
    /// Whether it may be merged with its neighbours: nobody has taken it, and it has no range tombstones.
    pub may: bool,
}

/// What is to be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The place of the newest one.
    pub first: usize,
    /// How many that follow each other.
    pub count: usize,
    /// Their keys.
    pub keys: u64,
    /// Records of dead memtables in those that are merged indexes.
    pub dead: u64,
}

/// What is to be merged: of the youngest neighbours that may be merged, and among which a merge is due, as many as have
/// `bytes_max` of persistent memory together. If it `must` be, the merge reaches down to the oldest that has a dead
/// memtable, whatever they have.
///
/// ```
/// use thermocline_policy::indexes::{Index, choose};
/// let of = |keys| Index { keys, bytes: keys, dead: 0, may: true };
/// let choice = choose(&[of(10), of(20), of(61)], u64::MAX, false).unwrap();
/// assert_eq!((choice.first, choice.count, choice.keys), (0, 2, 30));
/// assert_eq!(choose(&[of(10), of(21)], u64::MAX, false), None);
/// assert_eq!(choose(&[of(10), of(20)], 29, false), None);
/// ```
pub fn choose(newest_first: &[Index], bytes_max: u64, must: bool) -> Option<Choice> {
    let bytes_max = if must { u64::MAX } else { bytes_max };
    let mut first = 0;
    for neighbours in newest_first.chunk_by(|a, b| a.may && b.may) {
        let found = neighbours[0]
            .may
            .then(|| choose_of(neighbours, bytes_max, must));
        if let Some(choice) = found.flatten() {
            return Some(Choice { first, ..choice });
        }
        first += neighbours.len();
    }
    None
}

fn choose_of(neighbours: &[Index], bytes_max: u64, must: bool) -> Option<Choice> {
    let mut choice = None;
    let (mut newer, mut all_dead, mut all_bytes) = (0, 0, 0u64);
    for (i, index) in neighbours.iter().copied().enumerate() {
        let Index { keys, dead, .. } = index;
        all_bytes = all_bytes.saturating_add(index.bytes);
        if i > 0 && all_bytes > bytes_max {
            break;
        }
        let should = match must {
            true => dead > 0,
            false => keys <= INDEX_RATIO * newer + dead && (i > 0 || dead > 0),
        };
        newer += keys;
        all_dead += dead;
        if should {
            choice = Some(Choice {
                first: 0,
                count: i + 1,
                keys: newer,
                dead: all_dead,
            });
        }
    }
    choice
}

/// How many indexes reads must have asked beyond the first, ever, so that this pays; `paid` when indexes were last merged.
pub fn pays_at(choice: &Choice, paid: u64, merge_percent: u64) -> u64 {
    let price = u128::from(choice.keys) * u128::from(merge_percent) / 100;
    let price = u64::try_from(price).unwrap_or(u64::MAX);
    paid + price.saturating_sub(choice.dead)
}

/// Whether a thread that has asked `count` more indexes looks whether a merge has come to pay.
#[inline]
pub fn looks(asked_before: u64, count: u64) -> bool {
    asked_before / INDEX_LOOK_EVERY != (asked_before + count) / INDEX_LOOK_EVERY
}

/// Whether flushes stay as they are with `used` bytes of DRAM: no flush may become due because an index and its inputs
/// are there together for a while.
pub fn leaves_flushes(dram: &Dram, used: u64) -> bool {
    used < dram.due()
}

/// Whether merged indexes are made anew before a flush that is due: where dead memtables that they keep hold much of what
/// waits. Moving pointers is cheaper than writing tables.
pub fn are_made_anew_before_flush(dead_bytes: u64, sealed_bytes: u64) -> bool {
    dead_bytes >= sealed_bytes / INDEX_DEAD_PARTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn indexes() -> impl Strategy<Value = Vec<Index>> {
        let index = (
            1u64..1000,
            prop_oneof![Just(0u64), 1u64..500],
            prop::bool::weighted(0.9),
        );
        let index = index.prop_map(|(keys, dead, may)| Index {
            keys,
            bytes: keys,
            dead,
            may,
        });
        proptest::collection::vec(index, 0..12)
    }

    /// With the merged index in the place of its inputs.
    fn merged(mut indexes: Vec<Index>, choice: Choice) -> Vec<Index> {
        let Choice {
            first,
            count,
            keys,
            dead,
        } = choice;
        let keys = keys.saturating_sub(dead).max(1);
        let index = Index {
            keys,
            bytes: keys,
            dead: 0,
            may: true,
        };
        indexes.splice(first..first + count, [index]);
        indexes
    }

    proptest! {
        #[test]
        fn merges_end_and_leave_few_indexes(mut indexes in indexes()) {
            for _ in 0..2 * indexes.len() + 2 {
                match choose(&indexes, u64::MAX, false) {
                    Some(choice) => indexes = merged(indexes, choice),
                    None => break,
                }
            }
            prop_assert_eq!(choose(&indexes, u64::MAX, false), None);
            for all in indexes.chunk_by(|a, b| a.may && b.may).filter(|all| all[0].may) {
                let mut newer = all[0].keys;
                for index in &all[1..] {
                    prop_assert!(index.keys > INDEX_RATIO * newer);
                    newer += index.keys;
                }
            }
        }

        #[test]
        fn a_merged_index_has_no_more_memory_than_it_may(indexes in indexes(), most in 1u64..4000) {
            if let Some(choice) = choose(&indexes, most, false) {
                let taken = &indexes[choice.first..choice.first + choice.count];
                let bytes: u64 = taken.iter().map(|index| index.bytes).sum();
                prop_assert!(bytes <= most || choice.count == 1);
            }
        }

        #[test]
        fn what_must_go_goes(indexes in indexes()) {
            let any = indexes.iter().any(|index| index.may && index.dead > 0);
            prop_assert_eq!(choose(&indexes, 0, true).is_some(), any);
            if let Some(choice) = choose(&indexes, 0, true) {
                let taken = &indexes[choice.first..choice.first + choice.count];
                prop_assert!(taken.iter().all(|index| index.may));
                prop_assert_eq!(choice.dead, taken.iter().map(|index| index.dead).sum::<u64>());
                // More dead records never make it dearer.
                let dearer = Choice { dead: 0, ..choice };
                prop_assert!(pays_at(&choice, 7, 100) <= pays_at(&dearer, 7, 100));
            }
        }
    }
}
