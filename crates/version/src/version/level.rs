//! The tables of one level.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::Arc;

use thermocline_base::bounds::is_behind;
use thermocline_base::chunked::{Chunked, Position};
use thermocline_base::{FileId, SeqNo};

use crate::impossible::{Impossible, must};
use crate::table::{Level, Place, TableRef};

/// The table references of a level of a partition: of level 0 newest first, of others in key order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelTables {
    level: Level,
    tables: Chunked<Arc<TableRef>>,
    bytes: u64,
    entries: u64,
    deletes: u64,
}

/// What level 0 is ordered by, newest first. Tables of one age do not overlap.
fn age(table: &TableRef) -> (Reverse<SeqNo>, Reverse<SeqNo>, &[u8], FileId) {
    let (smallest, largest) = (table.smallest_seqno, table.largest_seqno);
    let first = &*table.range.first;
    (Reverse(largest), Reverse(smallest), first, table.file)
}

/// Adds to a sum over a level.
fn sum(sum: u64, more: u64, place: Place) -> Result<u64, Impossible> {
    let checked = sum.checked_add(more);
    let within = format_args!("sums below 2^64 in {place}");
    must(checked.is_some(), "size of a table", within, more)?;
    Ok(checked.unwrap_or(sum))
}

impl LevelTables {
    pub(super) fn new(level: Level) -> LevelTables {
        LevelTables {
            level,
            tables: Chunked::default(),
            bytes: 0,
            entries: 0,
            deletes: 0,
        }
    }

    /// The number of references.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the references stand for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Entries that the references stand for.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Of those, deletes.
    pub fn deletes(&self) -> u64 {
        self.deletes
    }

    /// All references: of level 0 newest first, of others in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<TableRef>> + Clone {
        self.tables.iter()
    }

    /// The same, to be kept: what it shares with this level costs nothing.
    pub fn list(&self) -> &Chunked<Arc<TableRef>> {
        &self.tables
    }

    /// The references that may have `key`: of level 0 newest first, of others at most one.
    pub fn may_have<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Arc<TableRef>> {
        self.overlapping(Bound::Included(key), Bound::Included(key))
    }

    /// The references that may have keys from `from` to `to`, in the level's order.
    pub fn overlapping<'a>(
        &'a self,
        from: Bound<&'a [u8]>,
        to: Bound<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<TableRef>> + Clone {
        let ordered = self.level > Level::ZERO;
        let first = match ordered {
            true => self.tables.position(|table| table.range.ends_below(from)),
            false => self.tables.position(|_| false),
        };
        self.tables
            .iter_from(first)
            .take_while(move |table| !ordered || !is_behind(&table.range.first, to))
            .filter(move |table| table.range.reaches_into(from, to))
    }

    /// The references that overlap the range of `table`.
    pub(crate) fn overlapping_table<'a>(
        &'a self,
        table: &'a TableRef,
    ) -> impl Iterator<Item = &'a Arc<TableRef>> + Clone {
        let largest = &*table.range.last;
        let to = match table.range.open {
            true => Bound::Excluded(largest),
            false => Bound::Included(largest),
        };
        self.overlapping(Bound::Included(&table.range.first), to)
    }

    /// Where a table stands or would stand.
    fn position(&self, table: &TableRef) -> Position {
        match self.level > Level::ZERO {
            true => {
                let first = &*table.range.first;
                self.tables.position(|other| *other.range.first < *first)
            }
            false => self.tables.position(|other| age(other) < age(table)),
        }
    }

    /// Adds a reference; nothing has changed if that cannot be.
    pub(super) fn add(&mut self, place: Place, table: Arc<TableRef>) -> Result<(), Impossible> {
        let bad = self.overlapping_table(&table).find(|other| {
            let aged = table.is_newer_than(other) || other.is_newer_than(&table);
            self.level > Level::ZERO || !aged
        });
        if let Some(other) = bad {
            let wish = match self.level > Level::ZERO {
                true => "a key range that does not overlap",
                false => "where the keys overlap, all seqnos above or below",
            };
            let expected = format!("{wish} {other}");
            return must(
                false,
                "added table",
                expected,
                format!("{table} in {place}"),
            );
        }
        let bytes = sum(self.bytes, table.bytes, place)?;
        let entries = sum(self.entries, table.entries, place)?;
        // No more than entries, so they cannot overflow either.
        self.deletes += table.deletes;
        (self.bytes, self.entries) = (bytes, entries);
        self.tables.insert(self.position(&table), table);
        Ok(())
    }

    /// Removes a reference that is here.
    pub(super) fn remove(&mut self, table: &TableRef) {
        let removed = self.tables.remove(self.position(table));
        debug_assert_eq!(removed.as_deref(), Some(table));
        self.bytes -= table.bytes;
        self.entries -= table.entries;
        self.deletes -= table.deletes;
    }

    #[cfg(test)]
    pub(super) fn shared_chunks(&self, other: &LevelTables) -> (usize, usize) {
        self.tables.shared_chunks(&other.tables)
    }
}
