//! Iterators over ranges of keys.

use std::ops::{Bound, RangeBounds};

use thermocline_base::Result;
use thermocline_engine::{Cursor, Direction};

use crate::Value;

/// An iterator over the entries of a range, from both ends, at the moment at which it was made:
/// later writes do not show. After an error it ends.
#[derive(Debug)]
pub struct Scan {
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    front: Cursor,
    /// Made when first asked for; sees the same moment.
    back: Option<Cursor>,
    front_begun: bool,
    done: bool,
}

impl Scan {
    pub(crate) fn new(cursor: Cursor, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Scan {
        let done = !sane(&low, &high);
        Scan {
            low,
            high,
            front: cursor,
            back: None,
            front_begun: false,
            done,
        }
    }

    fn front(&mut self) -> Result<bool> {
        if self.front_begun {
            return self.front.next();
        }
        self.front_begun = true;
        match &self.low {
            Bound::Included(key) => self.front.seek(key),
            Bound::Excluded(key) => self.front.seek_past(key, Direction::Forward),
            Bound::Unbounded => self.front.seek_to_first(),
        }
    }

    fn back(&mut self) -> Result<bool> {
        if let Some(back) = &mut self.back {
            return back.prev();
        }
        let back = self.back.insert(self.front.sibling());
        match &self.high {
            Bound::Included(key) => back.seek_for_prev(key),
            Bound::Excluded(key) => back.seek_past(key, Direction::Reverse),
            Bound::Unbounded => back.seek_to_last(),
        }
    }

    fn entry(&mut self, moved: Result<bool>, at_back: bool) -> Option<<Scan as Iterator>::Item> {
        let cursor = if at_back {
            self.back.as_ref()?
        } else {
            &self.front
        };
        let key = match moved {
            Err(error) => {
                self.done = true;
                return Some(Err(error));
            }
            Ok(true) => cursor.key(),
            Ok(false) => {
                self.done = true;
                return None;
            }
        };
        let inside = match (at_back, &self.low, &self.high) {
            (true, Bound::Included(low), _) => key >= low.as_slice(),
            (true, Bound::Excluded(low), _) => key > low.as_slice(),
            (false, _, Bound::Included(high)) => key <= high.as_slice(),
            (false, _, Bound::Excluded(high)) => key < high.as_slice(),
            _ => true,
        };
        if !inside {
            self.done = true;
            return None;
        }
        let entry = (key.to_vec(), Value::copy(cursor.value()));
        // What this end has given, the other must not give again.
        set_excluded(
            if at_back {
                &mut self.high
            } else {
                &mut self.low
            },
            &entry.0,
        );
        Some(Ok(entry))
    }
}

/// Sets a bound to "behind `key`", reusing its memory.
fn set_excluded(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    let mut buffer = match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(buffer) | Bound::Excluded(buffer) => buffer,
        Bound::Unbounded => Vec::with_capacity(key.len()),
    };
    buffer.clear();
    buffer.extend_from_slice(key);
    *bound = Bound::Excluded(buffer);
}

impl Iterator for Scan {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let moved = self.front();
        self.entry(moved, false)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let moved = self.back();
        self.entry(moved, true)
    }
}

impl std::iter::FusedIterator for Scan {}

fn sane(low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    match (low, high) {
        (Bound::Included(a), Bound::Included(b)) => a <= b,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a < b,
    }
}

pub(crate) fn owned<K: AsRef<[u8]>>(
    range: &impl RangeBounds<K>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (own(range.start_bound()), own(range.end_bound()))
}

pub(crate) fn prefix_bounds(prefix: &[u8]) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            break;
        }
        end.pop();
    }
    let high = if end.is_empty() {
        Bound::Unbounded
    } else {
        Bound::Excluded(end)
    };
    (Bound::Included(prefix.to_vec()), high)
}
