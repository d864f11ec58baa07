//! Iterators over ranges of keys.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

use thermocline_base::bounds::behind_prefix;
use thermocline_base::{Error, Result};
use thermocline_engine::{Cursor, Direction, Elsewhere, Operation};

use crate::Value;
use crate::range::{Bounds, check_order};

/// An iterator over the entries of a range, from both ends, at the moment at which it was made: later writes do not
/// show. It ends after an error. If the range ends before it begins, the first item is that error.
#[derive(Debug)]
pub struct Scan {
    /// The error that kept the iterator from beginning. It is the first item.
    failed: Option<Error>,
    /// `None` once it has ended.
    range: Option<Range>,
}

/// The entries that are still to be given. All bounds are in the family's order.
#[derive(Debug)]
struct Range {
    begin: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    front: Cursor,
    /// The cursor of the back end, made when first asked for. It sees the same moment.
    back: Option<Cursor>,
    front_begun: bool,
}

impl Scan {
    pub(crate) fn new(cursor: Result<Cursor>, (begin, end): Bounds) -> Scan {
        let front = match cursor {
            Ok(cursor) => cursor,
            Err(error) => {
                return Scan {
                    failed: Some(error),
                    range: None,
                };
            }
        };
        let failed = check_order(&begin, &end, front.is_reverse()).err();
        let range = Range {
            begin,
            end,
            front,
            back: None,
            front_begun: false,
        };
        Scan {
            failed,
            range: range.is_sane().then_some(range),
        }
    }

    /// The same entries without their values: each value is empty. What lies in blob files is not read then, and operands are not
    /// merged, so a key is given whatever its value would be. Values that lie beside their keys, in tables or in persistent
    /// memory, are still read with these and checked, but not copied.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// for day in ["2026-01-01", "2026-01-02", "2026-02-01"] {
    ///     db.put(day, vec![7; 2 << 20])?;
    /// }
    /// assert_eq!(db.prefix("2026-01-").keys_only().count(), 2);
    /// let (last, value) = db.iter().keys_only().next_back().unwrap()?;
    /// assert_eq!((&*last, value.len()), (&b"2026-02-01"[..], 0));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    #[must_use = "it is the iterator"]
    pub fn keys_only(self) -> Scan {
        let range = self.range.map(|range| Range {
            front: range.front.keys_only(),
            back: range.back.map(Cursor::keys_only),
            ..range
        });
        Scan { range, ..self }
    }

    /// Where its ends may move while nobody waits; `None` if it has at most an error to give.
    pub(crate) fn elsewhere(&self) -> Option<Elsewhere> {
        let range = self.range.as_ref().filter(|_| self.failed.is_none());
        range.map(|range| range.front.elsewhere())
    }

    fn step(&mut self, at_back: bool) -> Option<<Scan as Iterator>::Item> {
        if let Some(error) = self.failed.take() {
            return Some(Err(error));
        }
        let entry = self.range.as_mut()?.step(at_back).transpose();
        if !matches!(entry, Some(Ok(_))) {
            self.range = None;
        }
        entry
    }
}

impl Range {
    fn step(&mut self, at_back: bool) -> Result<Option<(Vec<u8>, Value)>> {
        if !self.moved(at_back)? {
            return Ok(None);
        }
        let cursor = match &mut self.back {
            Some(back) if at_back => back,
            _ => &mut self.front,
        };
        let entry = (cursor.key().to_vec(), Value::owned(cursor.take_value()));
        // An entry that this end has given must not be given by the other.
        set_excluded(
            if at_back {
                &mut self.end
            } else {
                &mut self.begin
            },
            &entry.0,
        );
        Ok(Some(entry))
    }

    /// Moves one end, and measures how long that takes.
    fn moved(&mut self, at_back: bool) -> Result<bool> {
        let begun = self.front.latencies().begin();
        let first = match at_back {
            true => self.back.is_none(),
            false => !self.front_begun,
        };
        let moved = match at_back {
            true => self.back(),
            false => self.front(),
        };
        let operation = match first {
            true => Operation::Seek,
            false => Operation::Step,
        };
        self.front.latencies().end(operation, begun);
        moved
    }

    /// Moves the front end, up to the bound of the other one: nothing behind that is read.
    fn front(&mut self) -> Result<bool> {
        let (until, way) = (bytes(&self.end), Direction::Forward);
        if self.front_begun {
            return self.front.step_within(until, way);
        }
        self.front_begun = true;
        self.front.seek_within(bytes(&self.begin), until, way)
    }

    /// As [`Range::front`], the other end.
    fn back(&mut self) -> Result<bool> {
        let (until, way) = (bytes(&self.begin), Direction::Reverse);
        if let Some(back) = &mut self.back {
            return back.step_within(until, way);
        }
        let back = self.back.insert(self.front.sibling());
        back.seek_within(bytes(&self.end), until, way)
    }

    fn order(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.front.is_reverse() {
            b.cmp(a)
        } else {
            a.cmp(b)
        }
    }

    /// Whether anything can lie between the bounds.
    fn is_sane(&self) -> bool {
        match (&self.begin, &self.end) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
            (Bound::Included(a), Bound::Included(b)) => self.order(a, b).is_le(),
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                self.order(a, b).is_lt()
            }
        }
    }
}

fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
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
        self.step(false)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl std::iter::FusedIterator for Scan {}

pub(crate) fn owned<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Bounds {
    let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
    (own(range.start_bound()), own(range.end_bound()))
}

/// The keys that begin with `prefix`, in a family whose keys descend if `reverse`.
pub(crate) fn prefix_bounds(prefix: &[u8], reverse: bool) -> Bounds {
    let high = behind_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
    let low = Bound::Included(prefix.to_vec());
    if reverse { (high, low) } else { (low, high) }
}
