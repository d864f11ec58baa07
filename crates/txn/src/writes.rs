//! What a transaction has written and nobody else sees: over what its snapshot has, and back to a savepoint.
//!
//! Of each key the last write counts; an operand is merged into the write before, and where there is none it is kept as an
//! operand, which the snapshot's value, or nothing in a range that was deleted, is read through. A range that was deleted hides what the snapshot has there, and what the
//! transaction had put there before; what it puts there later shows. So the ranges come first in the batch, and the order
//! among keys does not matter.
//!
//! # The log
//! Writes lie one behind the other in a batch, the *log*, and none is changed: of a key that is written again the write
//! before *counts* no longer, nor does one that lies in a range that is deleted later. To come back to a savepoint is to
//! take the last step back until there are as many writes and ranges as there were; each step knows what counted before.
//! A transaction that writes each key once, as most do, has its batch when it commits, and copies nothing.
//!
//! A write is found by its key's hash. The order of keys is made when somebody goes along them, and kept from then on.

mod changes;
mod ranges;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Bound;

use thermocline_base::bounds::{KeyBounds, is_behind, is_below};
use thermocline_base::merge::MergeOperator;
use thermocline_base::shown::shown;
use thermocline_base::{BatchEntry, CfId, Error, Kind, Result, WriteBatch, limits, merge};

use crate::by_hash::ByHash;
use crate::footprint::{Asked, OneKey, Span};
use crate::memory::{FIRST_BYTES, FIRST_ENTRIES, SAVEPOINT_BYTES, write_bytes};
use changes::{Changes, Written};
use ranges::{Deleted, Ranges};

/// Bytes that a batch counts for each change beside key and value.
const ENTRY_BYTES: usize = 16;

/// What is written to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write<'a> {
    /// It has this value, or none.
    Value(Option<Cow<'a, [u8]>>),
    /// This operand is merged into what it has: several that were folded.
    Operand(Cow<'a, [u8]>),
}

impl Write<'_> {
    /// As a change of a batch.
    fn parts(&self) -> (Kind, &[u8]) {
        match self {
            Write::Value(Some(value)) => (Kind::Put, value),
            Write::Value(None) => (Kind::Delete, &[]),
            Write::Operand(operand) => (Kind::Merge, operand),
        }
    }

    /// Bytes of what is written.
    pub fn len(&self) -> usize {
        self.parts().1.len()
    }
}

/// What of its own a transaction sees of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own<'a> {
    /// This value, or none.
    Value(Option<&'a [u8]>),
    /// What the operand makes of the snapshot's value.
    Operand(&'a [u8]),
    /// What the operand makes of nothing.
    Alone(&'a [u8]),
}

/// Operands that were folded are one operand to all who get them: tables and change feeds have no longer ones.
fn check_folded(key: &[u8], len: usize) -> Result<()> {
    let most = limits::MERGE_OPERAND_LEN_MAX;
    if len <= most {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "the operands that a transaction merges into key '{}' come to at most {most} bytes; with this one they would have {len}: \
         commit before it, or read the key for update and put the merged value",
        shown(key)
    )))
}

/// A point in a transaction to which its writes can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a savepoint is of use only to be rolled back to"]
pub struct Savepoint {
    owner: Owner,
    number: u64,
}

/// Of which store a transaction is, and its number there.
pub(crate) type Owner = (u64, u64);

/// How much of the writes there was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    writes: usize,
    ranges: usize,
}

/// Keys of each family in order, and the write that counts.
type Ordered = BTreeMap<CfId, BTreeMap<Box<[u8]>, usize>>;

/// The writes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    /// All that were not taken back, in the order in which they were made.
    log: WriteBatch,
    states: Vec<Written>,
    found: ByHash,
    /// Those that count, once somebody goes along the keys.
    ordered: OnceCell<Ordered>,
    asked: Asked,
    ranges: Ranges,
    /// Of what counts, ranges included: keys and values in bytes, and how many.
    bytes: usize,
    count: usize,
    /// Numbers of savepoints, and what there was.
    savepoints: Vec<(u64, Point)>,
    next_savepoint: u64,
}

impl Writes {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Has nothing any more; keeps the memory of short lists.
    pub fn clear(&mut self) {
        self.log.clear();
        self.states.clear();
        self.found.clear();
        self.ordered.take();
        self.asked = Asked::default();
        self.ranges.clear();
        (self.bytes, self.count) = (0, 0);
        self.savepoints.clear();
        self.next_savepoint = 0;
    }

    /// Bytes of memory that it has while it has nothing.
    pub fn capacity(&self) -> usize {
        let states = self.states.capacity() * size_of::<Written>();
        let savepoints = self.savepoints.capacity() * size_of::<(u64, Point)>();
        let lists = states + self.ranges.capacity() + savepoints;
        self.log.capacity() + self.found.capacity() + lists
    }

    /// The write of a key that counts.
    fn find(&self, key: &OneKey<'_>) -> Option<usize> {
        self.found.find(key.hash, |number| {
            let own = self.log.get(number);
            self.states[number].counts && own.cf == key.cf && own.key == key.key
        })
    }

    /// What of its own a transaction sees of a key: `None` if that is what the snapshot has.
    pub fn get(&self, key: &OneKey<'_>) -> Option<Own<'_>> {
        if self.is_empty() {
            return None;
        }
        match self.find(key) {
            Some(number) => Some(self.seen(&self.log.get(number))),
            None => self.covers(key.cf, key.key).then_some(Own::Value(None)),
        }
    }

    fn seen<'a>(&self, write: &BatchEntry<'a>) -> Own<'a> {
        match write.kind {
            Kind::Put => Own::Value(Some(write.value)),
            Kind::Merge if self.covers(write.cf, write.key) => Own::Alone(write.value),
            Kind::Merge => Own::Operand(write.value),
            _ => Own::Value(None),
        }
    }

    /// The hashes of the keys that it writes, and of some that it does not write any more.
    pub fn hashes(&self) -> impl Iterator<Item = u64> {
        self.found.hashes()
    }

    /// Whether it writes a key by itself, not only with a range.
    pub fn has(&self, key: &OneKey<'_>) -> bool {
        self.find(key).is_some()
    }

    /// The ranges that were deleted.
    pub fn deleted(&self) -> &Ranges {
        &self.ranges
    }

    /// Whether a range that has the key was deleted.
    pub fn covers(&self, cf: CfId, key: &[u8]) -> bool {
        self.ranges.cover(cf, key)
    }

    /// The first of its own writes in a range, or the last one, unless it is `ascending`.
    pub fn next(
        &self,
        cf: CfId,
        (from, to): KeyBounds<'_>,
        ascending: bool,
    ) -> Option<(&[u8], Own<'_>)> {
        if self.log.is_empty() || thermocline_base::bounds::is_empty((from, to)) {
            return None;
        }
        let mut own = self.ordered().get(&cf)?.range::<[u8], _>((from, to));
        let (_, number) = match ascending {
            true => own.next(),
            false => own.next_back(),
        }?;
        let write = self.log.get(*number);
        Some((write.key, self.seen(&write)))
    }

    /// Whether it writes a key of a range by itself.
    pub fn has_within(&self, cf: CfId, (from, to): KeyBounds<'_>) -> bool {
        if self.ordered.get().is_some() || !self.asked.again() {
            return self.next(cf, (from, to), true).is_some();
        }
        let is_within = |key: &[u8]| !is_below(key, from) && !is_behind(key, to);
        let mut all = self.log.iter().zip(&self.states);
        all.any(|(write, state)| state.counts && write.cf == cf && is_within(write.key))
    }

    fn ordered(&self) -> &Ordered {
        self.ordered.get_or_init(|| {
            let mut ordered = Ordered::new();
            let all = self.log.iter().zip(&self.states).enumerate();
            for (number, (write, _)) in all.filter(|(_, (_, state))| state.counts) {
                let keys = ordered.entry(write.cf).or_default();
                keys.insert(write.key.into(), number);
            }
            ordered
        })
    }

    /// Whether so many bytes more fit a batch, in a change behind which writes with these numbers do not count any more.
    fn check(&self, bytes: usize, gone: &[usize]) -> Result<()> {
        let gone = gone.iter().map(|&number| {
            let write = self.log.get(number);
            write.key.len() + write.value.len() + ENTRY_BYTES
        });
        let gone: usize = gone.sum();
        let all = self.bytes + bytes + ENTRY_BYTES * (self.count + 1) - gone;
        if all <= limits::BATCH_BYTES_MAX {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "a transaction writes at most {} bytes; this one would have {all}",
            limits::BATCH_BYTES_MAX
        )))
    }

    /// As if there were so many more that none fits beside them.
    #[cfg(test)]
    pub fn fill(&mut self) {
        self.bytes = limits::BATCH_BYTES_MAX - ENTRY_BYTES * self.count;
    }

    /// Writes to a key.
    pub fn set(&mut self, key: &OneKey<'_>, write: &Write<'_>) -> Result<()> {
        let replaced = self.find(key);
        self.check(key.key.len() + write.len(), replaced.as_slice())?;
        if let Some(before) = replaced {
            self.set_counts(before, false);
        }
        if self.log.is_empty() {
            self.log.reserve(FIRST_ENTRIES, FIRST_BYTES);
            self.states.reserve(FIRST_ENTRIES);
        }
        let (kind, value) = write.parts();
        self.log.push_checked(&BatchEntry {
            kind,
            cf: key.cf,
            key: key.key,
            value,
        });
        self.found.push(key.hash);
        self.states.push(Written {
            counts: false,
            replaced,
        });
        self.set_counts(self.log.len() - 1, true);
        Ok(())
    }

    /// A write counts from now on, or no longer.
    fn set_counts(&mut self, number: usize, counts: bool) {
        self.states[number].counts = counts;
        let write = self.log.get(number);
        let bytes = write.key.len() + write.value.len();
        if counts {
            self.bytes += bytes;
            self.count += 1;
        } else {
            self.bytes -= bytes;
            self.count -= 1;
        }
        if let Some(ordered) = self.ordered.get_mut() {
            let keys = ordered.entry(write.cf).or_default();
            match counts {
                true => keys.insert(write.key.into(), number),
                false => keys.remove(write.key),
            };
        }
    }

    /// What is written if `operand` is merged into what was written before.
    pub fn merged<'a>(
        &self,
        key: &OneKey<'_>,
        operand: &'a [u8],
        operator: &dyn MergeOperator,
    ) -> Result<Write<'a>> {
        let one = |before: Option<&[u8]>| {
            merge::merge_one(operator, key.key, before, operand).map(Cow::Owned)
        };
        let before = self.find(key).map(|number| self.log.get(number));
        Ok(match before.map(|before| (before.kind, before.value)) {
            None => Write::Operand(operand.into()),
            Some((Kind::Put, value)) => Write::Value(Some(one(Some(value))?)),
            Some((Kind::Merge, before)) => {
                let folded = one(Some(before))?;
                check_folded(key.key, folded.len())?;
                Write::Operand(folded)
            }
            Some(_) => Write::Value(Some(one(None)?)),
        })
    }

    /// What it takes to delete the keys of a range, if nothing is written before that is done.
    pub fn deletion(&self, span: Span) -> Result<Deleted> {
        let mut hidden = Vec::new();
        if !self.log.is_empty()
            && let Some(keys) = self.ordered().get(&span.cf)
        {
            let to = span.end.as_deref();
            let to = to.map_or(Bound::Unbounded, Bound::Excluded);
            let within = keys.range::<[u8], _>((Bound::Included(&*span.start), to));
            hidden.extend(within.map(|(_, number)| *number));
        }
        self.check(span.bytes(), &hidden)?;
        Ok(Deleted {
            span,
            after: self.log.len(),
            hidden: hidden.into(),
        })
    }

    /// Deletes the keys of a range.
    pub fn delete_range(&mut self, range: Deleted) {
        for &number in &range.hidden {
            self.set_counts(number, false);
        }
        self.bytes += range.span.bytes();
        self.count += 1;
        self.ranges.push(range);
    }

    fn point(&self) -> Point {
        Point {
            writes: self.log.len(),
            ranges: self.ranges.len(),
        }
    }

    /// A point to come back to, in the transaction `owner`.
    pub fn savepoint(&mut self, owner: Owner) -> Savepoint {
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((number, self.point()));
        Savepoint { owner, number }
    }

    /// A savepoint is not needed any more: it goes, unless others were made since. Returns what that frees of DRAM.
    pub fn forget(&mut self, owner: Owner, savepoint: Savepoint) -> u64 {
        let is_it =
            |last: &mut (u64, Point)| (owner, last.0) == (savepoint.owner, savepoint.number);
        let gone = self.savepoints.pop_if(is_it);
        gone.map_or(0, |_| SAVEPOINT_BYTES)
    }

    /// Takes back all writes since a savepoint, which stays. Returns what they cost of DRAM, with the savepoints since.
    pub fn rollback_to(&mut self, owner: Owner, savepoint: Savepoint) -> Result<u64> {
        // Numbers ascend.
        let number = |(number, _): &(u64, Point)| *number;
        let at = self
            .savepoints
            .binary_search_by_key(&savepoint.number, number);
        let Some(at) = at.ok().filter(|_| savepoint.owner == owner) else {
            return Err(Error::InvalidArgument(
                "this savepoint is of another transaction, or was made after one that was rolled back to; take a \
                 new one"
                    .into(),
            ));
        };
        let (_, point) = self.savepoints[at];
        let later = self.savepoints.len() - (at + 1);
        self.savepoints.truncate(at + 1);
        let mut freed = SAVEPOINT_BYTES * later as u64;
        while self.point() != point {
            let (writes, more) = (self.log.len(), self.ranges.len() > point.ranges);
            let last_range = match more {
                true => self.ranges.pop_behind(writes),
                false => None,
            };
            freed += match last_range {
                Some(range) => self.show_again(&range),
                None => write_bytes(self.undo_write()),
            };
        }
        Ok(freed)
    }

    /// A range that was deleted last is not any more. Returns what it cost of DRAM.
    fn show_again(&mut self, range: &Deleted) -> u64 {
        self.bytes -= range.span.bytes();
        self.count -= 1;
        for &number in &range.hidden {
            self.set_counts(number, true);
        }
        range.cost()
    }

    /// Takes the last write back, which counts: all that was made later is taken back. Returns how many bytes it had.
    fn undo_write(&mut self) -> usize {
        let Some(last) = self.log.len().checked_sub(1) else {
            return 0;
        };
        let write = self.log.get(last);
        let bytes = write.key.len() + write.value.len();
        self.set_counts(last, false);
        self.log.truncate(last);
        self.found.truncate(last);
        let replaced = self.states.pop().and_then(|state| state.replaced);
        if let Some(before) = replaced {
            self.set_counts(before, true);
        }
        bytes
    }

    /// The log, where all of it counts: then it is all that is written.
    pub fn batch(&self) -> Option<&WriteBatch> {
        let all_counts = self.ranges.is_empty() && self.count == self.log.len();
        all_counts.then_some(&self.log)
    }

    /// All that is written, in this order: the ranges, then each write that counts.
    pub fn changes(&self) -> Changes<'_> {
        Changes::new(self.count, self.ranges.all(), (&self.log, &self.states))
    }
}

#[cfg(test)]
mod tests;
