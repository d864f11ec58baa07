//! Numbers of blob files: when garbage is collected, and which files are joined.

// ---------------------------------------------------------------------------------------------------------------------
// Garbage that is collected (`collect`).

/// Collection of blob files begins at so many percent of the garbage that `blob.space_percent_max` allows, or before. *Chosen*: what moves
/// is there twice for a moment, and what is overwritten meanwhile is garbage, too.
pub const GARBAGE_BEGINS_PERCENT: u64 = 75;

/// And at so many at the earliest, however much a flush brings. *Measured* in the model (`simulate::apart`): the SSD has 3.49 bytes to write a
/// byte with 75, 3.92 with this, and 4.22 with 50; where jobs are not bounded 3.60 with 75.
pub const GARBAGE_BEGINS_PERCENT_MIN: u64 = 60;

/// And is to leave so many where it begins at [`GARBAGE_BEGINS_PERCENT`], else as much less. *Chosen*: to free files, all tables that refer to them are written anew, whose bytes are a few in a hundred
/// of those of values from a KiB on; a fourth of the garbage that is allowed is more than that.
pub const GARBAGE_ENDS_PERCENT: u64 = 50;

/// Jobs that move values move about this part of the garbage that is allowed at a time, all together, and each no more than that. *Chosen*:
/// what they move is there twice until they end, and what is overwritten meanwhile, for which compactions of the same keys wait, is not yet known to be garbage.
pub const MOVED_PARTS: u64 = 8;

/// But with no fewer bytes. *Chosen*: each job has some syncs.
pub const MOVED_BYTES_MIN: u64 = 4 << 20;

/// And with no more. *Chosen*: about as much as a second of a slow disk takes.
pub const MOVED_BYTES_MAX: u64 = 32 << 20;

/// Jobs that move values, where they make no room on a full disk, have one part in so many of what the disk has beyond its reserve. *Chosen*
/// (commit 86f5135): what they move is there twice until they end, and flushes and writers go on meanwhile.
pub const MOVES_ROOM_PARTS: u64 = 2;

/// Jobs that move values before a compaction returns that somebody asked for, beyond one for each table. *Derived*: one table's values
/// take about as many as all garbage that is allowed has parts, where what is alive is three times as much.
pub const COLLECTIONS_BY_HAND: u64 = 4 * MOVED_PARTS;

// ---------------------------------------------------------------------------------------------------------------------
// Files that are joined (`collect::small`).

/// A blob file is small if it has fewer bytes alive than one part in so many of what a file ends with, and than
/// [`SMALL_BYTES_MAX`]. *Derived*: what is joined comes into files that are much larger (`collect::small` has the argument).
pub const SMALL_PARTS: u64 = 4;

/// A blob file that has so many bytes alive is not small. *Chosen*: what a long value has alone, which would be written twice for
/// nothing. To have a terabyte in files of that size takes a million of them, and some hundred megabytes of DRAM and of the manifest; what a
/// flush of a memtable leaves is larger.
pub const SMALL_BYTES_MAX: u64 = 1 << 20;

/// A family may have so many small blob files before some are joined. *Chosen*: as many descriptors as a process needs at least
/// (`docs/budgets.md`), and some kilobytes of the manifest.
pub const SMALL_FILES: usize = 64;

/// Files that are joined at once, at least. *Derived*: half of those that a family may have. At least half of them go for good, so a
/// table is written anew for it once while flushes and jobs leave a quarter of [`SMALL_FILES`].
pub const JOINED_FILES_MIN: usize = 32;

/// What is joined has so many times the bytes of its largest file, for each table that refers to it. *Derived*: each of those tables
/// leaves a file of its own. With four, half of the bytes or more come into files that are twice as large as those that they were in
/// (`collect::small` has the argument).
pub const JOINED_SIZES: u64 = 4;

/// And at least one part in so many of the bytes of those tables, which are written anew for it. *Chosen*: about what a byte costs on its way
/// through the levels, so that values which are written one by one among many records cost no more than those records do. Tables of
/// references alone have a few bytes for each hundred of their values.
pub const JOINED_TABLE_PARTS: u64 = 16;

/// With so many bytes for each hundred that are alive users have all values left where they are. *Derived*: the largest that
/// `blob.space_percent_max` may be.
pub const ALL_STAYS_PERCENT: u64 = 1_000_000;
