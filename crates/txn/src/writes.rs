//! What a transaction has written and nobody else sees: over what its snapshot has, and back to a savepoint.
//!
//! Of each key the last write counts; an operand is merged into the write before, and where there is none it is kept as an
//! operand, which the snapshot's value, or nothing in a range that was deleted, is read through. A range that was deleted hides what the snapshot has there, and what the
//! transaction had put there before; what it puts there later shows. So the ranges come first in the batch, and the order
//! among keys does not matter.

use std::collections::BTreeMap;
use std::ops::Bound;

use thermocline_base::merge::MergeOperator;
use thermocline_base::{CfId, Error, Result, WriteBatch, limits, merge};

use crate::footprint::Span;

/// Bytes that a batch counts for each change beside key and value.
const ENTRY_BYTES: usize = 16;

/// What was written to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Write {
    /// It has this value, or none.
    Value(Option<Vec<u8>>),
    /// This operand is merged into what it has: several that were folded.
    Operand(Vec<u8>),
}

impl Write {
    /// Bytes of what is written.
    pub fn len(&self) -> usize {
        match self {
            Write::Value(value) => value.as_ref().map_or(0, Vec::len),
            Write::Operand(operand) => operand.len(),
        }
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

type Keys = BTreeMap<Vec<u8>, Write>;

/// A point in a transaction to which its writes can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a savepoint is of use only to be rolled back to"]
pub struct Savepoint {
    txn: u64,
    number: u64,
}

/// What undoes a step.
#[derive(Debug)]
enum Undo {
    /// The key had this write, or none.
    Key(CfId, Vec<u8>, Option<Write>),
    /// The last deleted range was not there.
    Range,
}

/// The writes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    families: BTreeMap<CfId, Keys>,
    ranges: Vec<Span>,
    /// Keys and values in bytes, and ranges.
    bytes: usize,
    count: usize,
    /// Back to the first savepoint.
    undo: Vec<Undo>,
    /// Numbers of savepoints, and how long `undo` was.
    savepoints: Vec<(u64, usize)>,
    next_savepoint: u64,
}

impl Writes {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What of its own a transaction sees of a key: `None` if that is what the snapshot has.
    pub fn get(&self, cf: CfId, key: &[u8]) -> Option<Own<'_>> {
        if self.is_empty() {
            return None;
        }
        match self.families.get(&cf).and_then(|keys| keys.get(key)) {
            Some(own) => Some(self.seen(cf, key, own)),
            None => self.covers(cf, key).then_some(Own::Value(None)),
        }
    }

    fn seen<'a>(&self, cf: CfId, key: &[u8], write: &'a Write) -> Own<'a> {
        match write {
            Write::Value(value) => Own::Value(value.as_deref()),
            Write::Operand(operand) if self.covers(cf, key) => Own::Alone(operand),
            Write::Operand(operand) => Own::Operand(operand),
        }
    }

    /// The keys that it writes.
    pub fn keys(&self) -> impl Iterator<Item = (CfId, &[u8])> {
        let families = self.families.iter();
        families.flat_map(|(cf, keys)| keys.keys().map(|key| (*cf, &**key)))
    }

    /// Whether it writes a key by itself, not only with a range.
    pub fn has(&self, cf: CfId, key: &[u8]) -> bool {
        self.families
            .get(&cf)
            .is_some_and(|keys| keys.contains_key(key))
    }

    /// Whether a range that has the key was deleted.
    pub fn covers(&self, cf: CfId, key: &[u8]) -> bool {
        self.ranges.iter().any(|range| range.has(cf, key))
    }

    /// The first of its own writes in a range, or the last one, unless it is `ascending`.
    pub fn next(
        &self,
        cf: CfId,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
        ascending: bool,
    ) -> Option<(&[u8], Own<'_>)> {
        if thermocline_base::bounds::is_empty((from, to)) {
            return None;
        }
        let mut own = self.families.get(&cf)?.range::<[u8], _>((from, to));
        let (key, write) = match ascending {
            true => own.next(),
            false => own.next_back(),
        }?;
        Some((key, self.seen(cf, key, write)))
    }

    /// Whether so many bytes more fit a batch.
    fn check(&self, bytes: usize) -> Result<()> {
        let all = self.bytes + bytes + ENTRY_BYTES * (self.count + 1);
        if all <= limits::BATCH_BYTES_MAX {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "a transaction writes at most {} bytes; this one would have {all}",
            limits::BATCH_BYTES_MAX
        )))
    }

    /// Writes to a key.
    pub fn set(&mut self, cf: CfId, key: &[u8], write: Write) -> Result<()> {
        self.check(key.len() + write.len())?;
        let before = self.replace(cf, key.to_vec(), Some(write));
        self.note(|| Undo::Key(cf, key.to_vec(), before));
        Ok(())
    }

    /// What is written if `operand` is merged into what was written before.
    pub fn merged(
        &self,
        cf: CfId,
        key: &[u8],
        operand: &[u8],
        operator: &dyn MergeOperator,
    ) -> Result<Write> {
        let one = |before: Option<&[u8]>| merge::merge_one(operator, key, before, operand);
        let before = self.families.get(&cf).and_then(|keys| keys.get(key));
        Ok(match before {
            None => Write::Operand(operand.to_vec()),
            Some(Write::Value(value)) => Write::Value(Some(one(value.as_deref())?)),
            Some(Write::Operand(before)) => Write::Operand(one(Some(before))?),
        })
    }

    /// Deletes the keys of a range.
    pub fn delete_range(&mut self, span: Span) -> Result<()> {
        let end_len = span.end.as_ref().map_or(0, Vec::len);
        self.check(span.start.len() + end_len)?;
        let keys = self.families.get(&span.cf);
        let own = keys.map(|keys| {
            let to = span
                .end
                .as_deref()
                .map_or(Bound::Unbounded, Bound::Excluded);
            let within = keys.range::<[u8], _>((Bound::Included(&*span.start), to));
            within.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        });
        for key in own.unwrap_or_default() {
            let before = self.replace(span.cf, key.clone(), None);
            self.note(|| Undo::Key(span.cf, key, before));
        }
        self.bytes += span.start.len() + end_len;
        self.count += 1;
        self.ranges.push(span);
        self.note(|| Undo::Range);
        Ok(())
    }

    fn note(&mut self, undo: impl FnOnce() -> Undo) {
        if !self.savepoints.is_empty() {
            self.undo.push(undo());
        }
    }

    /// Gives a key this write, or none. Returns what it had.
    fn replace(&mut self, cf: CfId, key: Vec<u8>, write: Option<Write>) -> Option<Write> {
        let size = Write::len;
        let key_len = key.len();
        let keys = self.families.entry(cf).or_default();
        let (added, before) = match write {
            Some(write) => (Some(size(&write)), keys.insert(key, write)),
            None => (None, keys.remove(&key)),
        };
        if let Some(value_len) = added {
            self.bytes += key_len + value_len;
            self.count += 1;
        }
        if let Some(before) = &before {
            self.bytes -= key_len + size(before);
            self.count -= 1;
        }
        before
    }

    /// A point to come back to, in transaction `txn`.
    pub fn savepoint(&mut self, txn: u64) -> Savepoint {
        let number = self.next_savepoint;
        self.next_savepoint += 1;
        self.savepoints.push((number, self.undo.len()));
        Savepoint { txn, number }
    }

    /// Takes back all writes since a savepoint, which stays. Calls `undone` with each key of them.
    pub fn rollback_to(
        &mut self,
        txn: u64,
        savepoint: Savepoint,
        mut undone: impl FnMut(CfId, &[u8]),
    ) -> Result<()> {
        let at = self
            .savepoints
            .iter()
            .position(|(number, _)| *number == savepoint.number);
        let Some(at) = at.filter(|_| savepoint.txn == txn) else {
            return Err(Error::InvalidArgument(
                "this savepoint is of another transaction, or was made after one that was rolled back to; take a \
                 new one"
                    .into(),
            ));
        };
        let (_, len) = self.savepoints[at];
        self.savepoints.truncate(at + 1);
        for undo in self.undo.split_off(len).into_iter().rev() {
            match undo {
                Undo::Key(cf, key, before) => {
                    undone(cf, &key);
                    self.replace(cf, key, before);
                }
                Undo::Range => {
                    if let Some(range) = self.ranges.pop() {
                        self.bytes -= range.start.len() + range.end.map_or(0, |end| end.len());
                        self.count -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// All of it as one batch.
    pub fn batch(&self) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for range in &self.ranges {
            batch.delete_range(range.cf, &range.start, range.end.as_deref())?;
        }
        for (cf, keys) in &self.families {
            for (key, write) in keys {
                match write {
                    Write::Value(Some(value)) => batch.put(*cf, key, value)?,
                    Write::Value(None) => batch.delete(*cf, key)?,
                    Write::Operand(operand) => batch.merge(*cf, key, operand)?,
                }
            }
        }
        Ok(batch)
    }
}
