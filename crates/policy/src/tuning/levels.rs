//! Numbers of levels: their shape, what a job takes of them, and what asks for one.

// ---------------------------------------------------------------------------------------------------------------------
// Levels: their shape, and jobs (`pick`, `geometry`).

/// Tables of level 0 in files that a read may have to ask. *As in* RocksDB (`level0_file_num_compaction_trigger`).
pub const LEVEL0_RUNS: usize = 4;

/// Tables in persistent memory that a read may have to ask before their number counts. *Chosen*: equation 1 decides long before.
pub const LEVEL0_PM_RUNS: usize = 64;

/// Bytes of the base level, where options do not say. *As in* RocksDB (`max_bytes_for_level_base`).
pub const BASE_BYTES: u64 = 256 << 20;

/// How much larger each level is than the one above, where options do not say. *As in* RocksDB and LevelDB.
pub const LEVEL_MULTIPLIER: u64 = 10;

/// No level is less than so many times as large as the one above. *Derived*: with one nothing would sink.
pub const LEVEL_MULTIPLIER_MIN: u64 = 2;

/// What a table meets one level below, as a part of what it may meet there on average, in percent: the one that meets least goes
/// first. *Measured* (decision 155): with a level between where this says so stores write least.
pub const MET_PERCENT: u64 = 60;

/// A level above the base level begins to be used where it may have one part in so many of what makes a level worth having anyway.
/// *Measured* in the model: with 4, equal keys that are read write 8.0 bytes a byte at 5 times persistent memory, and 4.9 with 2. Few
/// jobs leave level 0 there, which meet much; most of it goes along with flushes, and would pass through that level, too.
pub const BETWEEN_PARTS: u64 = 2;

/// Bytes of inputs beyond which a job takes no table that it need not. *As in* RocksDB: 25 of 64 MiB (`max_compaction_bytes`).
pub const JOB_BYTES: u64 = 1600 << 20;

/// Tables of the usual size that a job takes, if it need not take more. *As in* RocksDB and LevelDB.
pub const JOB_TABLES: u64 = 25;

/// Bytes of grandparents that a moved table may overlap. *As in* LevelDB: ten tables of 64 MiB.
pub const GRANDPARENT_BYTES: u64 = 640 << 20;

/// Tables of the usual size, two levels below, that a table overlaps at most where it can be cut. *As in* LevelDB.
pub const GRANDPARENT_TABLES: u64 = 10;

/// How many times less than a spill a range must cost to go to the base level. *Chosen*: flushes wait for it (decision 89).
pub const ALONG_MARGIN: u64 = 2;

/// Bytes of the base level that a range which sinks meets at most for each of its own. *Chosen*: FlatLSM has 5 (§5.1) on average.
pub const SINKING_TIMES: u64 = 8;

/// A flush that sinks brings so many times what level 0 and the base level have, if there is so much. *Chosen*: so it writes a tenth more
/// than it brings. *Measured* with once as much: 1.7 times the bytes where values lie in tables (decision 160).
pub const SINKING_BRINGS: u64 = 10;

/// DRAM, in bytes, for each range that is merged into files while others are. *Chosen*: such a merge holds about a megabyte.
pub const SINKING_DRAM_EACH: u64 = 4 << 20;

/// In persistent memory what lies apart stays apart from one part in so many of a table on. *Measured* (decisions 91 and 94:
/// `reproduce pm-blade fig-8a`).
pub const TABLE_MIN_PARTS_PM: u64 = 8;

/// In files a table of level 0 ends at a slice's end from one part in so many of a table on. *Chosen*.
pub const TABLE_MIN_PARTS: u64 = 2;

/// In persistent memory a table ends at a partition's start from one part in so many of a table on. *Chosen* (PM-Blade §IV
/// decides by partition).
pub const TABLE_MIN_PARTS_PARTITION: u64 = 4;

/// Of an empty level 0 a table ends where one of the level below begins from so many quarters of a table on. *Chosen*.
pub const TABLE_MIN_QUARTERS: u64 = 3;

// ---------------------------------------------------------------------------------------------------------------------
// Reads that pay for a compaction (`reads`; LevelDB's seek compaction).

/// Bytes of a table for each read in vain that is allowed. *Estimate*: a read in vain costs about as much as compacting 40 KiB
/// (LevelDB: a seek of 10 ms against 100 MB/s; on an SSD 80 µs against 500 MB/s). With 16 KiB tables pay more than twice.
pub const READ_BYTES: u64 = 16 << 10;

/// Reads in vain that are allowed however small a table is. *As in* LevelDB (`allowed_seeks`).
pub const READS_MIN: u64 = 100;

/// Deletes that a cursor may step over for one charge. *Chosen* (commit c938650).
pub const READ_DELETES: u64 = 32;

/// Tables that wait for their job, at most: the others are charged on. *Chosen*.
pub const READS_WAITING_MAX: usize = 64;

/// Counted reads after which it is looked whether level 0 is to be weighed anew. *Chosen*.
pub const READS_NOTED: u64 = 1024;

// ---------------------------------------------------------------------------------------------------------------------
// Jobs that ask a compaction filter (`filters`).

/// Jobs in a row that do not ask a family's compaction filter, at most, because jobs that asked it came to nothing. *Derived*:
/// one job in so many is done twice, less than two in a hundred.
pub const FILTER_RESTS_MAX: u32 = 64;

/// How many times more of them there are each time. *Chosen* (commit 9bcaaa7).
pub const FILTER_RESTS_GROWTH: u32 = 2;
