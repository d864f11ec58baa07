//! How the groups of a piece are divided into runs, and how long their prefixes are.
//!
//! # Argument
//! What a run shares is taken off the first key of each of its groups, and so is the prefix, which the array
//! has instead. So a longer prefix costs no bytes, but a search passes over more of them: the shortest one
//! that tells groups apart is chosen. A run is divided where what its parts share is longer by more than
//! the parts cost, at twice their price, and by some bytes a group, so that a piece has few runs: they are
//! searched first.
//!
//! The writer needs to know that what it has taken fits, before the plan is made. So the plan keeps
//! promises that it counts on:
//!
//! 1. What keys of one family share in the piece is taken off every one of them: no run shares less.
//! 2. Dividing runs does not make the piece larger.
//! 3. Padding behind keys that end within their prefixes takes at most [`PAD_MAX`] bytes for each group of
//!    a run.

use std::ops::Range;

use crate::format::coding::shared;
use crate::format::{ARRAY_ALIGN, PREFIX_LENS, RUN_HEAD, SHARED_MAX};

/// See 3.
pub(crate) const PAD_MAX: usize = 8;

/// Bytes of an array for each group, beside its prefix: the offset, and a share of what its block takes.
pub(crate) const PLACE_MAX: usize = 4 + 4;

/// What a run takes at most, beside its keys: its own, the end of its array, and zeros before that.
pub(crate) const RUN_MAX: usize = RUN_HEAD + ARRAY_ALIGN + 8;

/// Groups that a part of a run has on average, or it is not divided.
const PART_GROUPS: usize = 32;

/// Bytes that dividing a run saves for each group on average, or it is not divided.
const GAIN_MIN: usize = 4;

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPlan {
    pub groups: Range<usize>,
    pub shared: usize,
    pub prefix_len: usize,
}

/// What the plan needs to know of a group.
pub(crate) trait Groups {
    /// How many there are.
    fn count(&self) -> usize;
    /// The first key of one.
    fn first_key(&self, n: usize) -> &[u8];
    /// Bytes of the separator, if a run began with this group.
    fn separator_len(&self, n: usize) -> usize;
    /// Whether it is of another family than the group before.
    fn begins_family(&self, n: usize) -> bool;
}

/// The runs of a piece, in order.
pub(crate) fn plan(groups: &impl Groups) -> Vec<RunPlan> {
    let count = groups.count();
    // With the first key before; they are looked at again and again.
    let beside: Vec<u8> = (0..count)
        .map(|n| match n {
            0 => 0,
            n => narrow(shared(groups.first_key(n - 1), groups.first_key(n))),
        })
        .collect();
    let mut runs = Vec::new();
    let mut from = 0;
    for n in 1..=count {
        if n == count || groups.begins_family(n) {
            divide(groups, &beside, from..n, &mut runs);
            from = n;
        }
    }
    runs
}

fn narrow(len: usize) -> u8 {
    u8::try_from(len.min(SHARED_MAX)).expect("255 at most")
}

/// What the first keys of these groups share, since keys ascend.
fn shared_in(groups: &impl Groups, range: &Range<usize>) -> usize {
    let (first, last) = (
        groups.first_key(range.start),
        groups.first_key(range.end - 1),
    );
    shared(first, last).min(SHARED_MAX)
}

fn divide(groups: &impl Groups, beside: &[u8], range: Range<usize>, runs: &mut Vec<RunPlan>) {
    let here = shared_in(groups, &range);
    let inner = range.start + 1..range.end;
    let cuts = inner.clone().filter(|n| usize::from(beside[*n]) == here);
    let parts = 1 + cuts.clone().count();
    if here == SHARED_MAX || parts < 2 || range.len() < PART_GROUPS * parts {
        return runs.push(RunPlan {
            prefix_len: prefix_len(groups, beside, &range, here),
            shared: here,
            groups: range,
        });
    }
    let ends: Vec<usize> = cuts.chain([range.end]).collect();
    let (mut gain, mut cost, mut from) = (0, 0, range.start);
    for &end in &ends {
        let part = from..end;
        let there = shared_in(groups, &part);
        gain += part.len() * (there - here);
        cost += RUN_MAX + there + groups.separator_len(from);
        from = end;
    }
    if gain <= 2 * cost || gain < GAIN_MIN * range.len() {
        return runs.push(RunPlan {
            prefix_len: prefix_len(groups, beside, &range, here),
            shared: here,
            groups: range,
        });
    }
    let mut from = range.start;
    for end in ends {
        divide(groups, beside, from..end, runs);
        from = end;
    }
}

/// The shortest prefix that tells all but a few neighbours apart.
fn prefix_len(groups: &impl Groups, beside: &[u8], range: &Range<usize>, shared: usize) -> usize {
    let padding = |len: usize| -> usize {
        let keys = range.clone().map(|n| groups.first_key(n).len() - shared);
        keys.map(|rest| len.saturating_sub(rest)).sum()
    };
    let ties = |len: usize| {
        let inner = range.start + 1..range.end;
        let tied = inner.filter(|n| usize::from(beside[*n]) >= shared + len);
        tied.count()
    };
    let mut best = (usize::MAX, PREFIX_LENS[0]);
    for len in PREFIX_LENS {
        if padding(len) > PAD_MAX * range.len() {
            break;
        }
        let ties = ties(len);
        if ties < best.0 {
            best = (ties, len);
        }
        if ties <= range.len() / 16 {
            break;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Keys(Vec<Vec<u8>>);

    impl Groups for Keys {
        fn count(&self) -> usize {
            self.0.len()
        }
        fn first_key(&self, n: usize) -> &[u8] {
            &self.0[n]
        }
        fn separator_len(&self, n: usize) -> usize {
            self.0[n].len()
        }
        fn begins_family(&self, _n: usize) -> bool {
            false
        }
    }

    fn of(keys: impl Iterator<Item = String>) -> Vec<RunPlan> {
        plan(&Keys(keys.map(String::into_bytes).collect()))
    }

    #[test]
    fn runs_end_where_tables_do() {
        let tables = ["orders", "orders_by_shop", "shops"];
        let keys = tables
            .iter()
            .flat_map(|t| (0..200).map(move |n| format!("{t:-<40}/{n:09}")));
        let runs = of(keys);
        let ends: Vec<usize> = runs.iter().map(|run| run.groups.end).collect();
        assert_eq!(ends, [200, 400, 600]);
        assert!(runs.iter().all(|run| run.shared >= 47), "{runs:?}");
        assert!(runs.iter().all(|run| run.prefix_len == 4), "{runs:?}");
    }

    #[test]
    fn keys_without_tables_are_one_run() {
        let mut keys: Vec<u64> = (0..5000u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        keys.sort_unstable();
        let runs = of(keys.iter().map(|n| format!("{n:020}")));
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].prefix_len, 8, "4 of 20 digits are too few for 5000");
    }

    #[test]
    fn short_keys_are_not_padded_out() {
        let mut keys: Vec<String> = (0..300).map(|n| format!("{n}")).collect();
        keys.sort();
        assert_eq!(of(keys.into_iter())[0].prefix_len, 4);
        let same = (0..100).map(|_| "key".to_string());
        let runs = of(same);
        assert_eq!((runs[0].shared, runs[0].prefix_len), (3, 4));
    }
}
