//! Which indexes of sealed memtables are merged, and when that pays (LogFree §3.3; `engine::merge` has the steps).
//!
//! # Which
//! Let neighbouring sealed indexes be in order of age, with so many keys each. A merge takes the newest ones, down to the
//! oldest that has at most [`INDEX_RATIO`] times the keys of all newer ones together. So what stays is few indexes, each more
//! than that many times as large as all newer ones; and a pointer is moved only when what it is in grows by half.
//!
//! # How wide
//! A flush takes indexes as a whole. Where it takes only the oldest memtables, an index that leads to more would have all of them
//! leave at once. So while a flush is *near* a merged index leads to no more memtables than a flush takes; but to two memtables at
//! least. While it is *far* indexes are as wide as they like, and reads ask one tree. When it comes near, wide indexes are *divided*
//! by age: each part has the oldest memtables that are left, as many as a flush takes, and a flush takes the oldest part.
//!
//! A flush is far while, of nothing that makes one due, memtables have more than one part in [`FAR_PARTS`] of what does. Dividing
//! moves each pointer of an index once, about as fast as one writer brings records: so it has ended before as much has come
//! again. A flush that is due before waits for it, since it takes less than writing what the index leads to; a writer that finds no
//! room does not, and takes the index whole. Where DRAM has no room for the parts beside the index nothing is divided, and the
//! index goes whole. So a flush is near, too, when indexes have one part in [`FAR_DRAM_PARTS`] of the DRAM that makes one due.
//!
//! A part is divided no more, and what is merged while a flush is near is not divided: both lead to no more than a flush takes.
//! Behind a flush as much is left as before it but for that, so it stays near, and nothing is merged wide again to be divided
//! with the next one.
//!
//! # Dead memtables
//! Dead memtables of a merged index stay until the index is made anew. The index counts as many keys less as those
//! memtables had records: making it anew then costs no more than writing those records did. What is made anew before a flush comes
//! in parts at once, if a flush is near without the dead, too.
//!
//! # When it pays
//! Moving a pointer costs about what asking one more index for a key does. So a merge is done when reads have asked so
//! many indexes beyond the first sealed one as it moves pointers, records of dead memtables counted with those. Then
//! all that reads and merges cost is at most twice what it would be with all reads known in advance; and three times where
//! what was merged is divided again, which reads do not pay for: it is done for the flush.

use crate::flush::{Dram, Sealed};
use crate::tuning::{
    FAR_DRAM_PARTS, FAR_PARTS, INDEX_DEAD_PARTS, INDEX_HALF_MEMTABLES, INDEX_LOOK_EVERY,
    INDEX_RATIO,
};

/// A sealed index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Index<'a> {
    /// Its keys.
    pub keys: u64,
    /// Persistent memory of its memtables.
    pub bytes: u64,
    /// Records of dead memtables that it leads to, if it is a merged one. One that is not leaves by itself.
    pub dead: u64,
    /// Whether it may be merged with its neighbours: nobody has taken it, and it has no range tombstones.
    pub may: bool,
    /// Of each memtable that it leads to and that lives, the persistent memory, oldest first. Nothing where it leads to several, and
    /// DRAM has no room for its parts beside it: then it is not divided.
    pub memtables: &'a [u64],
}

/// How wide indexes may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Width {
    /// Whether no flush is near. Then they are as wide as they like.
    pub is_far: bool,
    /// Bytes that a flush takes at least, of the oldest memtables.
    pub takes: u64,
    /// Most persistent memory that memtables of a merged index have while a flush is near.
    pub bytes_max: u64,
}

impl Width {
    /// Where this waits to be flushed, and a memtable is sealed at so many bytes.
    pub fn of(sealed: &Sealed, memtable_bytes: u64) -> Width {
        let takes = sealed.takes_bytes();
        let two = INDEX_HALF_MEMTABLES * memtable_bytes / 2;
        Width {
            is_far: is_far(sealed),
            takes,
            bytes_max: takes.max(two),
        }
    }

    /// Most persistent memory that memtables of an index have that is merged now.
    pub fn merged_bytes_max(&self) -> u64 {
        match self.is_far {
            true => u64::MAX,
            false => self.bytes_max,
        }
    }
}

/// Whether no flush is near: there is little of everything that makes one due, but for scans, which say so when one is due.
fn is_far(sealed: &Sealed) -> bool {
    let plan = sealed.plan();
    let little = |has: u64, due: u64| has.saturating_mul(FAR_PARTS) <= due;
    let (memtables, free) = (plan.sealed as u64, plan.memtables_free as u64);
    let places = (memtables + free).saturating_sub(plan.memtables_free_due as u64);
    let Dram {
        used,
        percent,
        held_by_all,
        budget,
        ..
    } = sealed.dram;
    !plan.due
        && little(plan.sealed_bytes, plan.sealed_bytes_due)
        && little(plan.sealed_blob_bytes, plan.sealed_blob_bytes_due)
        && (plan.sealed_due == 0 || little(memtables, plan.sealed_due as u64))
        && little(memtables, places)
        && used.saturating_mul(FAR_DRAM_PARTS) <= plan.dram_bytes_due
        && little(held_by_all, budget / 100 * percent)
}

/// An index that is to be divided by age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// Its place among all, the newest first.
    pub place: usize,
    /// Its keys.
    pub keys: u64,
    /// Persistent memory of its memtables.
    pub bytes: u64,
    /// How many memtables each part has, of those that live, oldest first.
    pub parts: Vec<usize>,
}

/// What is to be divided, since a flush is near: the oldest index of which a flush would take more than it must.
///
/// ```
/// use thermocline_policy::indexes::{Index, Width, divide};
/// let wide = Index { keys: 9, bytes: 90, may: true, memtables: &[20, 20, 20, 20, 10], ..Index::default() };
/// let near = Width { is_far: false, takes: 30, bytes_max: 50 };
/// assert_eq!(divide(&[wide], &near).unwrap().parts, [2, 3]);
/// assert_eq!(divide(&[wide], &Width { is_far: true, ..near }), None);
/// assert_eq!(divide(&[wide], &Width { bytes_max: 90, ..near }), None);
/// ```
pub fn divide(newest_first: &[Index<'_>], width: &Width) -> Option<Division> {
    if width.is_far {
        return None;
    }
    let oldest_first = newest_first.iter().enumerate().rev();
    let mut wide = oldest_first.filter(|(_, index)| index.may && index.bytes > width.bytes_max);
    wide.find_map(|(place, index)| {
        let parts = parts(index.memtables, width);
        (parts.len() > 1).then_some(Division {
            place,
            keys: index.keys,
            bytes: index.bytes,
            parts,
        })
    })
}

/// How many memtables each part has, of those that live, oldest first, where these become parts as they are merged: since a flush is
/// near, what is merged to be rid of dead memtables would be divided next. Nothing where they become one.
pub fn merged_parts(newest_first: &[Index<'_>], width: &Width) -> Vec<usize> {
    let is_known = newest_first.iter().all(|index| !index.memtables.is_empty());
    if width.is_far || !is_known {
        return Vec::new();
    }
    let oldest_first = newest_first.iter().rev();
    let memtables = oldest_first.flat_map(|index| index.memtables).copied();
    let parts = parts(&memtables.collect::<Vec<_>>(), width);
    match parts.len() {
        1 => Vec::new(),
        _ => parts,
    }
}

/// As many of the oldest memtables as a flush takes at least, or as may share an index, come into a part; then as many of the next
/// ones. So of a part a flush takes all, or it is not wide: it is not divided again.
fn parts(oldest_first: &[u64], width: &Width) -> Vec<usize> {
    let mut parts = Vec::new();
    let (mut count, mut bytes) = (0, 0u64);
    for memtable in oldest_first {
        let with = bytes.saturating_add(*memtable);
        if count > 0 && bytes >= width.takes && with > width.bytes_max {
            parts.push(count);
            (count, bytes) = (0, 0);
        }
        count += 1;
        bytes = bytes.saturating_add(*memtable);
    }
    if count > 0 {
        parts.push(count);
    }
    parts
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
/// let of = |keys| Index { keys, bytes: keys, may: true, ..Index::default() };
/// let choice = choose(&[of(10), of(20), of(61)], u64::MAX, false).unwrap();
/// assert_eq!((choice.first, choice.count, choice.keys), (0, 2, 30));
/// assert_eq!(choose(&[of(10), of(21)], u64::MAX, false), None);
/// assert_eq!(choose(&[of(10), of(20)], 29, false), None);
/// ```
pub fn choose(newest_first: &[Index<'_>], bytes_max: u64, must: bool) -> Option<Choice> {
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

fn choose_of(neighbours: &[Index<'_>], bytes_max: u64, must: bool) -> Option<Choice> {
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
    use crate::flush;
    use crate::scans::Scans;

    fn indexes() -> impl Strategy<Value = Vec<Index<'static>>> {
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
            memtables: &[],
        });
        proptest::collection::vec(index, 0..12)
    }

    /// With the merged index in the place of its inputs.
    fn merged(mut indexes: Vec<Index<'static>>, choice: Choice) -> Vec<Index<'static>> {
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
            may: true,
            ..Index::default()
        };
        indexes.splice(first..first + count, [index]);
        indexes
    }

    /// Of 1,000,000 bytes of persistent memory memtables and tables may have 670,000, and a flush takes 80,000.
    fn sealed(bytes: u64) -> Sealed {
        Sealed {
            automatic: true,
            memtables: 5,
            memtables_due: 0,
            bytes,
            taken_bytes: 0,
            blob_bytes: 0,
            blob_bytes_due: 1000,
            pm_bytes: 1_000_000,
            sealed_percent: 8,
            alone_percent: 50,
            tables: Some(0),
            skips: false,
            descriptors_free: 59,
            dram: Dram {
                used: 100,
                limit: 1000,
                percent: 60,
                held_by_all: 100,
                budget: 1000,
            },
            scans: Scans::default(),
        }
    }

    #[test]
    fn an_index_is_wide_until_a_flush_is_near() {
        let width = |sealed: &Sealed| Width::of(sealed, 20_000);
        let far = sealed(335_000);
        assert_eq!(width(&far).merged_bytes_max(), u64::MAX);
        let near = Width {
            is_far: false,
            takes: 80_000,
            bytes_max: 80_000,
        };
        assert_eq!(width(&sealed(335_001)), near);
        assert_eq!(near.merged_bytes_max(), 80_000);
        // Two memtables share an index, whatever a flush takes.
        assert_eq!(Width::of(&far, 40_000).bytes_max, 100_000);
        let is_far = |change: &dyn Fn(&mut Sealed)| {
            let mut sealed = far;
            change(&mut sealed);
            width(&sealed).is_far
        };
        assert!(is_far(&|_| ()));
        assert!(!is_far(&|sealed| sealed.tables = Some(1000)));
        assert!(is_far(&|sealed| sealed.blob_bytes = 500));
        assert!(!is_far(&|sealed| sealed.blob_bytes = 501));
        assert!(is_far(&|sealed| sealed.memtables_due = 10));
        assert!(!is_far(&|sealed| sealed.memtables_due = 9));
        assert!(is_far(&|sealed| sealed.descriptors_free = 21));
        assert!(!is_far(&|sealed| sealed.descriptors_free = 20));
        assert!(is_far(&|sealed| sealed.dram.used = 100));
        assert!(!is_far(&|sealed| sealed.dram.used = 101));
        assert!(is_far(&|sealed| sealed.dram.held_by_all = 300));
        assert!(!is_far(&|sealed| sealed.dram.held_by_all = 301));
        // Scans have a flush due, of as much as finds room.
        let scanned = Scans {
            scanned: 200,
            records: 100,
            ..Scans::default()
        };
        assert!(!is_far(&|sealed| sealed.scans = scanned));
    }

    fn wide(memtables: &[u64]) -> Index<'_> {
        Index {
            bytes: u64::MAX,
            may: true,
            memtables,
            ..Index::default()
        }
    }

    proptest! {
        #[test]
        fn of_a_part_a_flush_takes_all(
            memtables in proptest::collection::vec(1u64..500, 0..20),
            takes in 1u64..2000,
            more in 0u64..2000,
        ) {
            let width = Width { is_far: false, takes, bytes_max: takes + more };
            let narrow = Index { bytes: takes, ..wide(&memtables) };
            let taken = Index { may: false, ..wide(&memtables) };
            let all = [narrow, wide(&memtables), taken];
            let Some(division) = divide(&all, &width) else {
                // As one it is as it may be.
                prop_assert!(parts(&memtables, &width).len() <= 1);
                return Ok(());
            };
            prop_assert_eq!(division.place, 1);
            prop_assert_eq!(division.parts.iter().sum::<usize>(), memtables.len());
            let mut rest = &memtables[..];
            for (n, count) in division.parts.iter().enumerate() {
                let (part, newer) = rest.split_at(*count);
                rest = newer;
                let bytes: u64 = part.iter().sum();
                let whole = flush::taken(part.iter().copied(), takes) == *count;
                prop_assert!(whole || bytes <= width.bytes_max);
                prop_assert!(bytes >= takes || n + 1 == division.parts.len());
                // What it is may be said of it alone.
                prop_assert_eq!(divide(&[wide(part)], &width), None);
            }
        }

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
