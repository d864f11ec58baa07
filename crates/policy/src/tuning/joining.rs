//! Numbers of blob files that are joined (`collect::small`).

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
