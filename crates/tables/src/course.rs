//! How a cursor goes through tables.

use std::ops::Bound;

use thermocline_base::SeqNo;
use thermocline_base::bounds::{KeyBounds, is_behind, is_below, shared_prefix};
use thermocline_memtable::Direction;
use thermocline_sst::{KeyRef, Move};
use thermocline_version::TableRef;

/// The way that a cursor goes, in the order of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    /// Whether it ascends.
    pub direction: Direction,
    /// It sees what is not newer.
    pub seqno: SeqNo,
    /// Keys behind this bound, as the cursor goes, are not asked for.
    pub until: Bound<&'a [u8]>,
}

impl<'a> Course<'a> {
    /// Where the keys lie that are asked for from `from` on.
    pub fn range_from(&self, from: Bound<&'a [u8]>) -> KeyBounds<'a> {
        match self.direction {
            Direction::Forward => (from, self.until),
            Direction::Reverse => (self.until, from),
        }
    }

    /// Whether a key lies behind all that is asked for.
    pub fn is_over(&self, key: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => is_behind(key, self.until),
            Direction::Reverse => is_below(key, self.until),
        }
    }

    /// Whether all of a table does.
    pub fn is_over_before(&self, table: &TableRef) -> bool {
        match self.direction {
            Direction::Forward => is_behind(&table.range.first, self.until),
            Direction::Reverse => table.range.ends_below(self.until),
        }
    }
}

/// Where a source was placed that has passed over tables, and the prefix that they have denied.
#[derive(Debug)]
pub(crate) struct PassedOver {
    from: Bound<Vec<u8>>,
    prefix: Vec<u8>,
}

impl PassedOver {
    pub fn new(from: Bound<&[u8]>, prefix: Vec<u8>) -> PassedOver {
        let from = from.map(<[u8]>::to_vec);
        PassedOver { from, prefix }
    }

    pub fn place(&self) -> Bound<&[u8]> {
        self.from.as_ref().map(Vec::as_slice)
    }

    /// Whether all that is asked for from there on still begins with that prefix. It may begin with another one of that length: a
    /// source that was placed before `ac` may have been asked for nothing, which begins with `ac`, and be asked for what begins
    /// with `ab` now.
    pub fn is_all(&self, course: Course<'_>) -> bool {
        let asked = shared_prefix(course.range_from(self.place()), self.prefix.len());
        asked.is_some_and(|prefix| *prefix == *self.prefix)
    }
}

/// The move to the first key from the bound on, in this direction.
pub(crate) fn first_move(from: Bound<&[u8]>, direction: Direction) -> Move<'_> {
    // As a target the greatest seqno stands before all versions of a key, and 0 behind them.
    let (before, behind) = (SeqNo::MAX, SeqNo(0));
    match (direction, from) {
        (Direction::Forward, Bound::Unbounded) => Move::First,
        (Direction::Forward, Bound::Included(key)) => Move::Seek(KeyRef::new(key, before)),
        (Direction::Forward, Bound::Excluded(key)) => Move::Seek(KeyRef::new(key, behind)),
        (Direction::Reverse, Bound::Unbounded) => Move::Last,
        (Direction::Reverse, Bound::Included(key)) => Move::SeekForPrev(KeyRef::new(key, behind)),
        (Direction::Reverse, Bound::Excluded(key)) => Move::SeekForPrev(KeyRef::new(key, before)),
    }
}
