//! Numbers of flushes: what is flushed, and what becomes of each range of keys.

// ---------------------------------------------------------------------------------------------------------------------
// Flushing (`flush`).

/// Free descriptors from which on they run short: one is taken with each memtable. *Chosen* (commit 3ed150c): a quarter of
/// the 64 that the meta zone of the smallest region holds.
pub const DESCRIPTORS_SHORT: usize = 16;

/// What is kept for change feeds yields from so many times as few free descriptors on. *Chosen*: before flushes are due for it.
pub const KEPT_YIELD_TIMES: usize = 2;

/// A flush takes the oldest memtables alone where beside all that waits, and beside tables, there is room for so many times as
/// much. *Derived*: what they become, and what is written meanwhile.
pub const TAKES_ROOM: u64 = 2;

/// Bytes of DRAM: an active memtable whose index takes no more is not sealed for the sake of other stores. *Chosen* (commit
/// 7472c43).
pub const CROWDED_INDEX_BYTES_MIN: u64 = 256 << 10;

/// A runtime is crowded when its stores hold one part in so many of its budget. *Chosen* (commit 7472c43).
pub const CROWDED_PARTS: u64 = 2;

/// In a crowded runtime a store seals an index that takes more than one part in so many of its share of the budget. *Chosen*
/// (commit 7472c43): memtables are a quarter of their room elsewhere, too.
pub const CROWDED_SHARE_PARTS: u64 = 4;

// ---------------------------------------------------------------------------------------------------------------------
// What a flush does with each range of keys (`ranges`).

/// Ranges of a flush by its size, and as many by what is cold in level 0. *Chosen*: each is an edit, and edits have an order.
pub const RANGES_MAX: usize = 16;

/// Tables of the usual size whose bytes a range has in memtables. *Derived*: in tables they take half as many, about, so a
/// range becomes a table.
pub const RANGE_TABLES: u64 = 2;

/// Keys that are looked at for each range, to find where it ends. *Chosen*: a range is right to a sixteenth.
pub const RANGE_MARKS: u64 = 16;

/// Keys between two marks, at most: they are walked over under one epoch guard. *Chosen*.
pub const RANGE_STEP_MAX: u64 = 1024;

/// Ranges that are written at once, where the options do not say how many. *Measured* with two (decision 92: 1.2 times as many
/// writes a second as with one); more are *chosen* for more cores.
pub const RANGE_THREADS: usize = 4;
