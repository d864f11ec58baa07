//! A walk over a family for copies, which ascend bytewise. What else they are given of a store: `work`.

use std::ops::Bound;

use thermocline_base::Result;
use thermocline_base::bounds::KeyBounds;
use thermocline_copies::Entries;
use thermocline_memtable::Direction;

use crate::cursor::Cursor;

/// A walk over a family in bytewise order.
pub struct Ascending {
    cursor: Cursor,
    /// The way that this is in the family's order.
    way: Direction,
    /// Where it begins, until it has.
    begin: Option<Bound<Vec<u8>>>,
    end: Bound<Vec<u8>>,
}

impl Ascending {
    /// Through `cursor`, whose family has the order `reverse`.
    pub(crate) fn new(cursor: Cursor, reverse: bool, (from, to): KeyBounds<'_>) -> Ascending {
        // Tables ascend bytewise, whatever the family does.
        let (way, begin, end) = match reverse {
            false => (Direction::Forward, from, to),
            true => (Direction::Reverse, to, from),
        };
        Ascending {
            cursor,
            way,
            begin: Some(begin.map(<[u8]>::to_vec)),
            end: end.map(<[u8]>::to_vec),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        let until = self.end.as_ref().map(Vec::as_slice);
        let begin = self.begin.take();
        match &begin {
            Some(begin) => {
                let from = begin.as_ref().map(Vec::as_slice);
                self.cursor.seek_within(from, until, self.way)
            }
            None => self.cursor.step_within(until, self.way),
        }
    }
}

impl Entries for Ascending {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let found = self.advance()?;
        Ok(found.then(|| (self.cursor.key(), self.cursor.value())))
    }
}
