//! What older data may lie below an output.

use thermocline_base::{KeyRange, limits};

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
/// let ranges = [KeyRange::inclusive("f", "h"), KeyRange::until("b", "d")];
/// let mut below = RangesBelow::new(ranges.iter().map(KeyRange::borrowed));
/// assert!(below.may_have(b"b") && !below.may_have(b"d") && below.may_have(b"h"));
/// assert_eq!(below.reach(b"c", b"g"), Some((b"c".to_vec(), b"g".to_vec())));
/// assert_eq!(below.reach(b"a", b"e"), Some((b"b".to_vec(), b"d".to_vec())));
/// assert_eq!(below.reach(b"d", b"f"), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct RangesBelow {
    /// In order, neither overlapping nor touching.
    ranges: Vec<KeyRange>,
    /// None before it ends before the last key that was asked for.
    next: usize,
}

impl RangesBelow {
    /// Tables with these ranges.
    pub fn new<'a>(ranges: impl IntoIterator<Item = KeyRange<&'a [u8]>>) -> RangesBelow {
        let mut ranges: Vec<KeyRange<&[u8]>> = ranges.into_iter().collect();
        ranges.sort_unstable_by_key(|range| range.first);
        ranges.dedup_by(|next, last| {
            let meet = last.overlaps(next);
            if meet {
                *last = last.hull(*next);
            }
            meet
        });
        RangesBelow {
            ranges: ranges.iter().map(KeyRange::owned).collect(),
            next: 0,
        }
    }
}

impl Below for RangesBelow {
    fn may_have(&mut self, user_key: &[u8]) -> bool {
        // Keys ascend: mostly this is the range of the last one, or the next.
        let rest = self.ranges[self.next..].iter();
        self.next += rest.take_while(|range| range.ends_before(user_key)).count();
        let range = self.ranges.get(self.next);
        range.is_some_and(|range| *range.first <= *user_key)
    }

    fn reach(&mut self, start: &[u8], end: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let first = self.ranges.partition_point(|r| r.ends_before(start));
        let behind = self.ranges.partition_point(|r| *r.first < *end);
        let within = self.ranges.get(first..behind)?;
        let (from, to) = (&within.first()?.first, within.last()?);
        let from = start.max(from).to_vec();
        if !to.ends_before(end) {
            return Some((from, end.to_vec()));
        }
        let mut behind = to.last.to_vec();
        match to.open {
            true => {}
            // The key right behind would be too long to be one.
            false if behind.len() == limits::KEY_LEN_MAX => behind = end.to_vec(),
            false => behind.push(0),
        }
        Some((from, behind))
    }
}
