//! Numbers of DRAM, and of the logs that make durable what lies there: what is promised ahead, kept, and waits.

// ---------------------------------------------------------------------------------------------------------------------
// DRAM that is promised for writes ahead (`promise`).

/// Writes that a promise of DRAM covers in advance. *Chosen* (commit 738ad3c): one in so many writes reckons.
pub const CREDIT: u64 = 1024;

/// Records that a store must have written before it gets such a promise. *Chosen* (commit 3ce0364): of hundreds of stores that each write
/// a little all keep what they were promised until they fall idle.
pub const CREDIT_AFTER: u64 = 64;

/// Most families for which it does. *Chosen* (commit 738ad3c): of each is reckoned how many of its nodes all those writes may make grow.
pub const CREDIT_FAMILIES: usize = 4;

/// Groups in flight for which a promise is made beyond those that there are. *Chosen*: with more, a write reckons anew.
pub const CREDIT_GROUPS: u64 = 8;

// ---------------------------------------------------------------------------------------------------------------------
// Logs (the engine's `wal`).

/// Logs that are kept to be used again. *Chosen* (commit 6361f07).
pub const LOGS_SPARE: usize = 2;

/// What writes that do not only delete leave of a log, in bytes, where the disk has no more room. *Chosen* (commit b96c8f3).
pub const LOG_DELETES_BYTES: u64 = 8 << 10;

/// Bytes that wait in DRAM for the sync of a log, at most, and one item: what is more is written before. *Chosen* (commit 267604a): a batch,
/// or a log that is copied, may be as large as memory for records.
pub const LOG_WAITING_BYTES: usize = 4 << 20;

/// Memtables that are loaded of logs may have one part in so many more at a time than they should have, where they need it. *Chosen*
/// (commit 6361f07): other rests of zones stay unused than when they were written.
pub const LOADED_PARTS: u64 = 8;

/// And so many times what the item at hand takes, if that is more. *Derived*: where zones are smaller than when it was written it may take twice
/// its size.
pub const LOADED_ITEM_TIMES: u64 = 2;

/// A region in DRAM may have so many times what memtables may have. *Derived*: of what fitted when it was written each memtable may leave more of
/// its last zone unused, which is twice as much as fitted, and each item may take twice its size.
pub const LOADED_REGION_TIMES: u64 = 4;

// ---------------------------------------------------------------------------------------------------------------------
// What is kept of versions, and of readers (the engine's `compact::sums` and `holds`).

/// Levels of families of which sums are kept at least before it is looked which of them nobody asks for any more. *Chosen* (commit 16a7885).
pub const SUMS_KEPT_MIN: usize = 64;

/// And they are looked through again when there are so many times as many as stayed. *Derived*: to look at all costs as much as to keep as many
/// as there were when it was done last.
pub const SUMS_GROWTH: usize = 2;

/// Places of readers for which a list of them has memory while nobody is in it. *Chosen* (commit 0809352).
pub const HOLDS_KEPT: usize = 16;

// ---------------------------------------------------------------------------------------------------------------------
// What of tables stays in DRAM (the crate `tables`).

/// One part in so many of DRAM is what the cache of blocks may have. *Measured*: decision 161.
pub const CACHE_DRAM_PARTS: u64 = 2;

/// And one part in so many what open tables may have, and as much the keys of level 0. *Chosen* (commit 09d31ff).
pub const OPEN_DRAM_PARTS: u64 = 8;

/// Tables may stay open, where no option says how many, though the process may have few files open. *Chosen* (commit 89b27fe; decision 170).
pub const OPEN_TABLES_MIN: u64 = 512;

/// Otherwise as many as one part in so many of the files that the process may have open. *Chosen* (decision 170): others want some, too.
pub const OPEN_FILES_PARTS: u64 = 2;

/// Open tables for which the list of them has room at first. *Chosen* (commit a62864d).
pub const OPEN_PLACES_MIN: usize = 16;

/// Blob files that stay open, where no option says how many. *Chosen* (commit a62864d): what one takes is a descriptor, and its place in two
/// lists, and no index that would have to be read again.
pub const OPEN_BLOB_FILES: usize = 512;

/// Of no more tables than this, what readers have of a version is never begun anew for the next one. *Chosen* (commit 70c79b9): so many are in a chunk
/// or two, and to take out most of them costs little.
pub const HELD_TABLES_FEW: usize = 64;

// ---------------------------------------------------------------------------------------------------------------------
// What of memtables is in DRAM for a while (the crate `memtable`).

/// Bytes of buffers in which a thread builds items that are kept from one to the next, at most. *Chosen* (commit 21407b4).
pub const ITEM_KEPT_BYTES: usize = 1 << 20;

/// Bytes of replaced nodes that may wait for readers while an index is built. *Chosen* (commit 5961ed7).
pub const NODES_WAITING_MIN: u64 = 8 << 10;

/// And one part in so many of the index. *Chosen* (commit 5961ed7): an index that was built anew is about as small as it can be.
pub const NODES_WAITING_PARTS: u64 = 64;
