//! The locks that a transaction has, and the DRAM that it has taken: given back when it ends, however it ends.

use thermocline_base::CfId;

use crate::life::Life;
use crate::locks::key::LockKey;
use crate::locks::table::LockTable;
use crate::memory::{FIRST_ENTRIES, LOCK_BYTES};
use crate::sync::{Arc, Ordering};
use crate::widest::{Bounds, Widest};

/// A range that is locked.
#[derive(Debug)]
struct HeldRange {
    /// Its number in the table.
    arrival: u64,
    start: Vec<u8>,
    end: Vec<u8>,
}

/// Keys of locks begin with their family: here they are all of one.
const EACH: CfId = CfId::DEFAULT;

impl HeldRange {
    fn bounds(&self) -> Bounds<'_> {
        (EACH, &self.start, Some(&self.end))
    }
}

/// The locks of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Held {
    keys: Vec<LockKey>,
    ranges: Vec<HeldRange>,
    widest: Widest,
    /// Bytes of DRAM that it has taken.
    pub bytes: u64,
    /// Those of them that it does not need yet.
    pub spare: u64,
}

impl Held {
    /// So many bytes are its own, of which some are spare. There are no locks yet.
    pub fn take_memory(&mut self, bytes: u64, spare: u64) {
        (self.bytes, self.spare) = (bytes, spare);
    }

    /// It has no DRAM any more. Returns how much it had.
    pub fn forget_memory(&mut self) -> u64 {
        self.spare = 0;
        std::mem::take(&mut self.bytes)
    }

    /// Bytes of memory that it has while there are no locks.
    pub fn capacity(&self) -> usize {
        self.keys.capacity() * size_of::<LockKey>()
            + self.ranges.capacity() * size_of::<HeldRange>()
            + self.widest.capacity()
    }

    /// Bytes of DRAM that its locks cost.
    pub fn lock_bytes(&self) -> u64 {
        let keys = self.keys.iter().map(|key| key.bytes().len());
        let ranges = self.ranges.iter();
        let ranges = ranges.map(|range| range.start.len() + range.end.len());
        let bytes = keys.chain(ranges).sum::<usize>();
        LOCK_BYTES * (self.keys.len() + self.ranges.len()) as u64 + bytes as u64
    }

    fn count(&self, life: &Life) {
        let locks = self.keys.len() + self.ranges.len();
        life.locks.store(locks as u64, Ordering::Relaxed);
    }

    /// A key that was locked.
    pub fn add(&mut self, life: &Life, key: LockKey) {
        if self.keys.is_empty() {
            self.keys.reserve(FIRST_ENTRIES);
        }
        self.keys.push(key);
        self.count(life);
    }

    /// A range that was locked under this number.
    pub fn add_range(&mut self, life: &Life, arrival: u64, (start, end): (Vec<u8>, Vec<u8>)) {
        self.ranges.push(HeldRange {
            arrival,
            start,
            end,
        });
        let ranges = &self.ranges;
        self.widest.add(ranges.len() - 1, |n| ranges[n].bounds());
        self.count(life);
    }

    /// Whether it has locked a range with these keys.
    pub fn covers(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let widest = self
            .widest
            .last_at((EACH, start), |n| self.ranges[n].bounds());
        let until = widest.and_then(|(.., until)| until);
        until.is_some_and(|until| match end {
            Some(end) => end <= until,
            None => start < until,
        })
    }

    /// How many keys and ranges are locked by now.
    #[inline]
    pub fn locked(&self) -> (usize, usize) {
        (self.keys.len(), self.ranges.len())
    }

    /// Gives back what was locked since there were so many keys and ranges. What that cost is spare.
    pub fn back_to(&mut self, life: &Life, table: &LockTable, (keys, ranges): (usize, usize)) {
        let less_ranges = self.ranges.len() > ranges;
        while self.ranges.len() > ranges
            && let Some(range) = self.ranges.pop()
        {
            table.release_range(range.arrival, (&range.start, &range.end));
            self.spare += LOCK_BYTES + (range.start.len() + range.end.len()) as u64;
        }
        while self.keys.len() > keys
            && let Some(key) = self.keys.pop()
        {
            table.release(life.id, &key);
            self.spare += LOCK_BYTES + key.bytes().len() as u64;
        }
        if less_ranges {
            // What lies within one that has gone was left out.
            let (all, widest) = (&self.ranges, &mut self.widest);
            widest.clear();
            (0..all.len()).for_each(|number| widest.add(number, |n| all[n].bounds()));
        }
        self.count(life);
    }

    /// Gives all locks back.
    pub fn release(&mut self, life: &Arc<Life>, table: &LockTable) {
        self.widest.clear();
        for range in self.ranges.drain(..) {
            table.release_range(range.arrival, (&range.start, &range.end));
        }
        for key in self.keys.drain(..) {
            table.release(life.id, &key);
        }
        life.locks.store(0, Ordering::Relaxed);
    }
}
