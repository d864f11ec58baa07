//! All that a transaction writes, gone through where it lies: it may be a large part of what transactions may have of DRAM, and a
//! copy would come on top of that.

use std::iter::Enumerate;
use std::slice;

use thermocline_base::{BatchEntry, WriteBatch};

use crate::writes::ranges::Deleted;

/// A write of the log.
#[derive(Debug)]
pub(crate) struct Written {
    /// Whether it is the last one of its key, which no range was deleted with since.
    pub counts: bool,
    /// The one that counted before.
    pub replaced: Option<usize>,
}

/// The ranges that were deleted, and behind them each write that counts.
#[derive(Debug, Clone)]
pub(crate) struct Changes<'a> {
    ranges: slice::Iter<'a, Deleted>,
    log: &'a WriteBatch,
    states: Enumerate<slice::Iter<'a, Written>>,
    left: usize,
}

impl<'a> Changes<'a> {
    /// So many, of these ranges and this log.
    pub fn new(
        count: usize,
        ranges: &'a [Deleted],
        (log, states): (&'a WriteBatch, &'a [Written]),
    ) -> Changes<'a> {
        Changes {
            ranges: ranges.iter(),
            log,
            states: states.iter().enumerate(),
            left: count,
        }
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = BatchEntry<'a>;

    fn next(&mut self) -> Option<BatchEntry<'a>> {
        let next = match self.ranges.next() {
            Some(range) => range.change(),
            None => {
                let (number, _) = self.states.find(|(_, state)| state.counts)?;
                self.log.get(number)
            }
        };
        self.left -= 1;
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Changes<'_> {}
