//! What older data may lie below an output.

use thermocline_base::limits;

use thermocline_base::KeyRange;

/// What older data there may be that are not among a merge's inputs: in deeper levels. To answer
/// "there may be" is never wrong, only wasteful; what it answers must stay true until the output is
/// installed.
pub trait Below {
    /// Whether there may be an older entry of `user_key`, or an older range tombstone over it.
    /// Asked with keys that ascend strictly.
    fn may_have(&mut self, user_key: &[u8]) -> bool;

    /// The least range, first key and first key behind, such that from `start` on and before `end`
    /// nothing older lies outside of it. `None` if there is nothing at all. Asked in any order.
    fn reach(&mut self, start: &[u8], end: &[u8]) -> Option<(Vec<u8>, Vec<u8>)>;
}

/// The output goes to the deepest level: there is nothing below.
#[derive(Debug, Clone, Copy, Default)]
pub struct NothingBelow;

impl Below for NothingBelow {
    fn may_have(&mut self, _user_key: &[u8]) -> bool {
        false
    }

    fn reach(&mut self, _start: &[u8], _end: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        None
    }
}

/// Below lie tables of which only the ranges are known, in any number of levels.
///
/// ```
/// use thermocline_base::KeyRange;
/// use thermocline_compaction::retain::{Below, RangesBelow};
/// let mut below = RangesBelow::new([KeyRange::inclusive(b"f", b"h"), KeyRange::until(b"b", b"d")]);
/// assert!(below.may_have(b"b") && !below.may_have(b"d") && below.may_have(b"h"));
/// assert_eq!(below.reach(b"c", b"g"), Some((b"c".to_vec(), b"g".to_vec())));
/// assert_eq!(below.reach(b"a", b"e"), Some((b"b".to_vec(), b"d".to_vec())));
/// assert_eq!(below.reach(b"d", b"f"), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct RangesBelow {
    /// First key and first key behind, in order, neither overlapping nor touching.
    ranges: Vec<(Vec<u8>, End)>,
    /// None before it ends before the last key that was asked for.
    next: usize,
}

/// Where a range ends. A key and the one right behind it, which has a zero more, differ by the
/// flag; so the longest key has one behind it too.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct End {
    key: Vec<u8>,
    inclusive: bool,
}

impl End {
    fn is_before(&self, key: &[u8]) -> bool {
        match self.inclusive {
            true => *self.key < *key,
            false => *self.key <= *key,
        }
    }
}

impl RangesBelow {
    /// Tables with these ranges.
    pub fn new<'a>(ranges: impl IntoIterator<Item = KeyRange<'a>>) -> RangesBelow {
        let end = |range: &KeyRange<'_>| End {
            key: range.last.to_vec(),
            inclusive: !range.open,
        };
        let ranges = ranges.into_iter();
        let mut all: Vec<_> = ranges.map(|r| (r.first.to_vec(), end(&r))).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let apart = last.1.is_before(&next.0);
            if !apart && next.1 > last.1 {
                std::mem::swap(&mut last.1, &mut next.1);
            }
            !apart
        });
        RangesBelow {
            ranges: all,
            next: 0,
        }
    }
}

impl Below for RangesBelow {
    fn may_have(&mut self, user_key: &[u8]) -> bool {
        // Keys ascend: mostly this is the range of the last one, or the next.
        let rest = &self.ranges[self.next..];
        self.next += rest
            .iter()
            .take_while(|(_, end)| end.is_before(user_key))
            .count();
        self.ranges
            .get(self.next)
            .is_some_and(|(first, _)| **first <= *user_key)
    }

    fn reach(&mut self, start: &[u8], end: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let first = self
            .ranges
            .partition_point(|(_, last)| last.is_before(start));
        let behind = self.ranges.partition_point(|(first, _)| **first < *end);
        let within = self.ranges.get(first..behind)?;
        let (from, to) = (&within.first()?.0, &within.last()?.1);
        let from = start.max(from).to_vec();
        if !to.is_before(end) {
            return Some((from, end.to_vec()));
        }
        let mut behind = to.key.clone();
        match to.inclusive {
            // The key right behind would be too long to be one.
            true if behind.len() == limits::KEY_LEN_MAX => behind = end.to_vec(),
            true => behind.push(0),
            false => {}
        }
        Some((from, behind))
    }
}
