//! Numbers of memtables: when they are sealed, their indexes merged, and tables made of them for scans.

// ---------------------------------------------------------------------------------------------------------------------
// Sealing a memtable, and naming the next one ahead (`seal`).

/// Seqnos that a memtable spans at most before it is sealed. A record stores the low half of its seqno, so it must span less
/// than 2^32; each open after a crash leaves a gap. *Derived*: half of what the format allows.
pub const SPAN_MAX: u64 = 1 << 31;

/// The next memtable is named when the active one has more than one part in so many of what it may have. *Chosen*: half, so that
/// naming, which takes a sync, has as much time again.
pub const PREPARE_PARTS: u64 = 2;

/// Where DRAM is short, an active memtable is sealed whose index takes more than one part in so many of what indexes may have.
/// *Chosen*: sealing a smaller one frees little.
pub const INDEX_PARTS: u64 = 8;

// ---------------------------------------------------------------------------------------------------------------------
// Merging indexes of sealed memtables (`indexes`).

/// An index is merged with all newer ones if it has at most so many times their keys. *Derived*: then what stays is few
/// indexes, and a pointer is moved only when what it is in grows by half (decisions 56 and 57).
pub const INDEX_RATIO: u64 = 2;

/// While a flush is near a merged index leads to so many halves of memtables, even where it takes less. *Derived*: of fewer than two memtables there is
/// nothing to merge, and each may own a zone more than it has bytes.
pub const INDEX_HALF_MEMTABLES: u64 = 5;

/// No flush is near while memtables have at most one part in so many of what makes one due. *Derived*: an index that leads to all of
/// them is divided about as fast as one writer brings records, so at most as much has come before it is.
pub const FAR_PARTS: u64 = 2;

/// And indexes of the store have at most one part in so many of the DRAM that makes one due. *Derived*: by default that is six
/// tenths, so they have a tenth; and an index is made only where it takes no more than an eighth of what is free
/// (`base::budget`), so that the parts of one find room beside it.
pub const FAR_DRAM_PARTS: u64 = 6;

/// Before a flush, merged indexes are made anew if dead memtables that they keep hold one part in so many of what waits.
/// *Chosen*: moving pointers is cheaper than writing tables.
pub const INDEX_DEAD_PARTS: u64 = 4;

/// Indexes that a thread asks between two looks whether a merge has come to pay. *Chosen*: a power of two, so the look costs nothing.
pub const INDEX_LOOK_EVERY: u64 = 1 << 12;

// ---------------------------------------------------------------------------------------------------------------------
// Tables for scans (`scans`).

/// Entries of a scan for each record from which on a table of it pays. *Measured*: an entry takes 0.3 to 1 µs longer in a memtable
/// (`thermocline bench seekrandom --num 1000000 --pm 8GiB --dram 2GiB`, by itself and with `--set level0.shape=pm-tables`), and a
/// record takes 1 to 2 µs to flush.
pub const SCANS_PER_RECORD: u64 = 2;

/// What is made tables for scans is at least this part of a usual flush. *Chosen*: narrow tables are merged again.
pub const SCANS_FLUSH_PARTS: u64 = 8;

/// Entries of scans between two looks whether a flush has come to pay. *Chosen*: a power of two, so the look costs nothing.
pub const SCANS_LOOK_EVERY: u64 = 1 << 16;
