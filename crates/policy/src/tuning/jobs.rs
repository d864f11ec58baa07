//! Numbers of jobs: how they are divided, what they do in one step, and how they write.

use thermocline_base::limits::VALUE_INLINE_MAX;

// ---------------------------------------------------------------------------------------------------------------------
// Dividing a job among coroutines (`split`).

/// A part of a job has as many tables at least, of the size that tables have. *Chosen*: where a part ends a table ends, too, and that is
/// a smaller one. So at most one table in four is.
pub const SPLIT_TABLES_MIN: u64 = 4;

/// This part of DRAM is what compactions on all threads work with, beside indexes, cached blocks and open tables. *Chosen*: decision 181.
pub const JOBS_DRAM_PARTS: u64 = 2;

/// Bytes of DRAM that a coroutine of a job has at least, where the job has more than one. *Measured*: 1.2 MiB for what it writes, and
/// as much for what it reads in small pieces.
pub const COROUTINE_BYTES: u64 = 2 << 20;

/// So many pieces of files a coroutine has in DRAM. *Derived*: four runs of level 0 and two levels, of each two pieces at hand and one on its
/// way; the rest, a quarter, is for what it writes.
pub const PIECES_A_COROUTINE: u64 = 24;

/// Bytes that a job reads of a file at a time, at most. *Chosen*: the device's rate is reached with less.
pub const PIECE_BYTES_MAX: u64 = 256 << 10;

/// Likewise at least. *Chosen*: some blocks; less would be a call for each.
pub const PIECE_BYTES_MIN: u64 = 32 << 10;

// ---------------------------------------------------------------------------------------------------------------------
// Steps of a job (`steps`).

/// Records after which a step of a job ends. *Chosen* (commit 3a745e6): less than a millisecond.
pub const JOB_STEP_RECORDS: u64 = 256;

/// Bytes that a job has written after which a step ends. *Chosen* (commit 3a745e6): a piece of a file.
pub const JOB_STEP_BYTES: u64 = 256 << 10;

/// A piece of a file is about to end when fewer bytes of it were not asked for yet. *Chosen* (commit e35b05a): some blocks.
pub const JOB_SHORT_BYTES: u64 = 32 << 10;

/// Or fewer than so many times what was read last. *Chosen* (commit e35b05a): the next read may be longer, and the one behind it is to find
/// something, too.
pub const JOB_SHORT_READS: u64 = 2;

/// Keys of a memtable that a job collects under one epoch guard. *Chosen* (commit 9bb7bcd): memory that writers have replaced waits
/// meanwhile.
pub const JOB_KEYS: usize = 256;

/// Operands of a key that a job collects before it folds them for the first time. *Chosen* (commit 4cd0887).
pub const FOLD_ENTRIES: usize = 256;

/// After that, when there are so many times as many as were left. *Chosen* (commit 4cd0887): so what cannot be
/// folded is not gone through again and again.
pub const FOLD_TIMES: usize = 2;

/// Bytes of operands that are folded into one at a time. *Chosen* (commit 4cd0887): half of what a value has that lies with its record; what they
/// become may be longer than they are.
pub const FOLD_BYTES: usize = VALUE_INLINE_MAX / 2;

// ---------------------------------------------------------------------------------------------------------------------
// Keys of a memtable that are gone through at a time: memory that writers have replaced waits meanwhile.

/// Keys of a sealed memtable that are checked under one epoch guard whether anything lives. *Chosen* (commit 267604a).
pub const RECLAIM_KEYS: usize = 256;

/// Keys of indexes that are merged under one promise of DRAM. *Chosen* (commit 9da1ac5): others wait for what is promised.
pub const MERGE_KEYS: usize = 1024;

/// Keys that each of several indexes is asked for at once while they are merged, at least. *Chosen* (commit f34b714): so many are prefetched
/// together.
pub const MERGE_KEYS_EACH_MIN: usize = 32;

/// Keys that are gone through under one epoch guard to see how much an edit would have of them. *Chosen* (commit 0dec625).
pub const NAMED_KEYS: usize = 1024;

// ---------------------------------------------------------------------------------------------------------------------
// What one edit of the manifest takes.

/// An edit names outputs of one part in so many of what a record of the manifest may have, and as many inputs. *Chosen* (commit 0dec625):
/// with what is taken along it has less than it may.
pub const NAMED_PARTS: usize = 4;

/// A job is not divided that names more than one part in so many of the inputs that its edit may have. *Chosen* (commit 3f5df69): it is likely
/// to write tables of as many, and as long, keys as it takes, and each part would have a share of what the edit may name.
pub const NAMED_WHOLE_PARTS: u64 = 2;

/// And one part in so many for what a flush takes along, and what comes in its place. *Chosen* (commit 0dec625).
pub const NAMED_ALONG_PARTS: usize = 2;

/// One part in so many is kept for the rest: how far a flush has come, what was done, partitions of new prefixes. *Chosen* (commit
/// 0dec625).
pub const NAMED_REST_PARTS: usize = 8;

/// Of what an edit names, all memtables together have one part in so many beside a cut where that cannot be known. *Chosen* (commit 0dec625):
/// edits are that much longer than they should be.
pub const NAMED_UNKNOWN_PARTS: u64 = 16;

/// Bytes of references that an edit changes at most where partitions are split or merged, and one reference more. *Chosen* (commit
/// 4bb2d95): a record of the manifest has room for several times as many.
pub const EDIT_BYTES: usize = 16 << 20;

/// References that an edit has of each table that is cut at a partition's start, or put together there. *Derived*: one table and its two parts,
/// which come, and go.
pub const EDIT_REFERENCES: usize = 3;

/// New partitions that an edit has at most, where their starts are prefixes. *Chosen* (commit 4bb2d95), likewise.
pub const EDIT_PARTITIONS: usize = 16_384;

/// Owners of tables in persistent memory that are reserved by one edit. *Chosen* (commit ed9d8aa): an edit is a sync.
pub const OWNERS_AHEAD: u64 = 16;

/// Owners that are given out at most behind the newest chain that the region knows. *Derived*: it knows that one by the low 16 bits of its
/// number, and which of two is newer by half of those (`halloc::Witness`); this is half of that half.
pub const OWNERS_MAX: u64 = 1 << 14;

/// Families of a table in persistent memory, at most. *Chosen* (commit ed9d8aa): what an edit says of a table stays small.
pub const PM_TABLE_FAMILIES: usize = 256;

// ---------------------------------------------------------------------------------------------------------------------
// How jobs write tables (`split`).

/// One part in so many of DRAM is what a table that is being written gathers before it is written. *Chosen* (commit a528575): each table that
/// is being written holds one such piece.
pub const TABLE_PIECE_PARTS: u64 = 64;

/// Bytes of such a piece, at least. *Chosen* (commit a528575): devices like large pieces.
pub const TABLE_PIECE_BYTES_MIN: u64 = 256 << 10;

/// Likewise at most. *Chosen* (commit a528575).
pub const TABLE_PIECE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of a table in persistent memory that are gathered before they are stored past the cache. *Chosen* (commit 0fc161a): so each line is
/// stored once.
pub const PM_TABLE_GATHERED: usize = 16 << 10;

/// Where a piece of such a table has so many bytes in DRAM its zone is made no wider. *Derived*: the keys that a zone of 1 MiB can hold.
pub const PM_PIECE_DRAM: usize = 1 << 20;

/// Bytes of zones that a piece of a table in persistent memory takes at most for what it begins with. *Derived*: range tombstones have up to
/// 4 MiB (`level0`), in zones of 1 MiB. What a table leaves unfilled is less, however wide its pieces became.
pub const PM_PIECE_BYTES: u64 = 5 << 20;

/// Bytes for data that a zone of such a table should have at least. *Chosen* (commit 0fc161a): a small first part of the region does not make tables
/// of many pieces. Where there are only smaller ones those will do.
pub const PM_ZONE_BYTES_MIN: u64 = 4 << 10;

/// A table in persistent memory ends with one part in so many of the bytes of range tombstones that its format allows, and of blob files. *Chosen*
/// (commit 0fc161a): half, so what comes with its last keys has room. `sst` has the same for tables in files.
pub const PM_TABLE_FULL_PARTS: usize = 2;

/// Range tombstones that reach into a table in a file, or are weighed, have one part in so many of the bytes that its format allows. *Chosen* (commit
/// bd1191b): half, so what comes with the last keys has room.
pub const TOMBSTONES_PARTS: usize = 2;

/// Likewise for one family of a table in persistent memory. *Derived*: families before it may have half.
pub const TOMBSTONES_PARTS_PM: usize = 4;

/// The level of Zstandard. *Chosen* (commit bd1191b): the fastest.
pub const ZSTD_LEVEL: i32 = 1;

/// For how many job threads a store without any divides its jobs. *Chosen* (commit e35b05a): the same on every machine.
pub const JOB_THREADS_ALONE: usize = 4;

// ---------------------------------------------------------------------------------------------------------------------
// Filling indexes (the crate `memtable`).

/// Items of which a thread fills an index at a time, after a crash. *Chosen* (commit a94c551): the others stop at their next step where one
/// fails.
pub const REPLAY_ITEMS: usize = 256;

/// Items whose records lie ahead of the one at hand by so many are prefetched then. *Chosen* (commit 36f8bf6).
pub const REPLAY_AHEAD: usize = 4;

/// Threads that fill indexes after a crash, at most, where the options do not say. *Chosen* (commit 53a96f6).
pub const REPLAY_THREADS_MAX: usize = 8;

/// Operands that are noted before they go into an index together. *Chosen* (commit e9b5d35): under a mebibyte of DRAM.
pub const OPERANDS_TOGETHER: usize = 16 << 10;

/// An item of a batch that is staged is no larger, but for one of a single record. *Chosen* (commit 53a96f6): it is built in DRAM.
pub const STAGED_ITEM_BYTES: u64 = 1 << 20;
