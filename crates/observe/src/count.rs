//! How often what was done: a store's own counters.

use thermocline_base::counter::{Counters, SHARDS};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Records that were put, operands and metadata among them.
    Puts,
    /// Deletes.
    Deletes,
    /// Deletes of ranges.
    RangeDeletes,
    /// Bytes of keys and values that were written.
    UserBytes,
    /// Point reads.
    Gets,
    /// Point reads that found a value, in a memtable or a table; or, in a table, an operand, whatever that comes to.
    Found,
    /// Memtables that are gone.
    Dropped,
    /// Flushes that were installed.
    Flushes,
    /// Bytes of the tables that they wrote.
    FlushedBytes,
    /// Point reads that an index of several memtables answered.
    FoundMerged,
    /// Sealed indexes that lookups have asked, beyond the first of each.
    Asked,
    /// Merges of indexes.
    Merges,
    /// Keys of those indexes.
    MergedKeys,
    /// Flushes that rewrote.
    Rewrites,
    /// Bytes of the records that they took, dead or alive.
    RewrittenBytes,
    /// Edits of flushes that took older data along, each with one range or several.
    RangesAlong,
    /// Ranges that were written in a group (`flush::ahead`, `flush::sink`).
    RangesAhead,
    /// Bytes of that data.
    BytesAlong,
    /// Keys without a value, by cursors.
    SteppedOver,
    /// Entries of memtables that cursors have collected.
    Scanned,
    /// Of [`Count::Found`], those that a table has answered.
    FoundInTables,
}

/// The store's own counters.
#[derive(Debug, Default)]
pub struct Counted(Counters<21>);

impl Counted {
    /// Returns a part of what it was before: see [`Counters::add`].
    #[inline]
    pub fn add(&self, what: Count, n: u64) -> u64 {
        self.0.add(what as usize, n)
    }

    /// How often, or how much, so far.
    pub fn get(&self, what: Count) -> u64 {
        self.0.get(what as usize)
    }

    /// The same by parts: see [`Counters::parts`].
    pub fn parts(&self, what: Count) -> [u64; SHARDS] {
        self.0.parts(what as usize)
    }
}
