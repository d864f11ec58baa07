//! Every number that decides something: name, unit, meaning, and where it comes from.
//!
//! An origin is one of:
//! - *derived*: it follows from what is written beside it,
//! - *paper*: with its section,
//! - *measured*: with the command that measured it, or the decision (`docs/decisions`) that has the command,
//! - *estimate*: reckoned from the figures of usual devices,
//! - *as in* another store, where it has the same measure,
//! - *chosen*: not measured. The commit that brought it is named.
//!
//! Tests run the same numbers as users. A fraction in an expression elsewhere is a defect, but for what divides by two
//! because a thing has two sides or halves. Sizes that options derive from `pm` and `dram` are in `base::options`: they are what
//! users set, or what stands for it.

mod dram;
mod jobs;
mod joining;
mod reading;
mod waiting;

pub use dram::*;
pub use jobs::*;
pub use joining::*;
pub use reading::*;
pub use waiting::*;

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

// ---------------------------------------------------------------------------------------------------------------------
// The cost models of level 0 in persistent memory (`cost`; PM-Blade §IV.C).

/// By how much a gain must exceed its cost, as a ratio. *Chosen* (commit f691dd3): the hysteresis of all that costs decide.
pub const GAIN_MARGIN: f64 = 1.2;

/// Tables that a read asks in vain, as a part of those that are unsorted. *Paper*: PM-Blade §IV.C, equation 1, n/2.
pub const SEARCHED_PART: f64 = 0.5;

/// From so many reads for each write on what is written is read, wherever: one read for ten writes. *Measured* (decision 90).
pub const READS_OF_WRITES: f64 = 0.1;

/// Nanoseconds in which a count of reads or writes falls to one half. *Chosen* (commit f691dd3): rates follow a change of
/// load within a minute.
pub const RATE_HALF_LIFE_NS: u64 = 10_000_000_000;

/// Seconds for which a rate is trusted: those that a count lives on average. A steady rate that decays sums up to so many
/// seconds of it. *Derived* from [`RATE_HALF_LIFE_NS`].
pub const RATE_HORIZON: f64 = RATE_HALF_LIFE_NS as f64 / 1e9 / std::f64::consts::LN_2;

/// Nanoseconds to look for a key in one table of persistent memory, until it is measured: I_b. *Measured* on tmpfs with one core, rounded (commit f691dd3).
pub const SEARCH_NS: f64 = 500.0;

/// Nanoseconds to merge a record inside persistent memory, until it is measured: I_p. *Measured* likewise.
pub const INTERNAL_NS: f64 = 1000.0;

/// Nanoseconds to merge a record into tables of the SSD, until it is measured: I_s. *Measured* likewise.
pub const MAJOR_NS: f64 = 3000.0;

/// Nanoseconds that an entry of a short merge in memory took where the costs above were measured. *Measured* by
/// `compaction::calibrate`.
pub const USUAL_ENTRY_NS: f64 = 7.0;

/// A machine is not taken for so many times faster or slower than that one, nor a step for so many times than is known. *Chosen*: a clock may have been disturbed.
pub const MACHINE_FACTOR_MAX: f64 = 8.0;

/// What a measurement counts for of what is known, at most. *Chosen*: about the last five count.
pub const MEASURED_WEIGHT: f64 = 0.2;

/// Steps from which on a measurement has its full weight. *Chosen*.
pub const MEASURED_STEPS_FULL: f64 = 10_000.0;

/// How much of what past merges have dropped, other than was counted, is forgotten with each flush; and of how much longer than usual they
/// took, with each that skips level 0. *Chosen*: half of it after fourteen flushes.
pub const CORRECTION_FORGOTTEN: f64 = 0.05;

/// How far a correction of what merges drop may go. *Chosen*.
pub const CORRECTION_MAX: f64 = 8.0;

/// τm in percent of level 0's share: above it is room for what is written meanwhile. *Measured* (decision 93: `reproduce
/// pm-blade space`; 80 before).
pub const MAJOR_PERCENT: u64 = 90;

/// τt in percent of τm, where nothing is read. *Chosen* (commit f691dd3); PM-Blade table II has it as a constant.
pub const KEEP_PERCENT: u64 = 50;

/// Lookups that a scan counts as. *Measured*: of each further run it takes about 3 µs (`thermocline bench ycsb-e`), where a lookup
/// takes half of [`SEARCH_NS`].
pub const SCAN_READS: u64 = 12;

/// So many percent more of τm stay where nothing is written: level 0 fills the slower. *Chosen* (commit f691dd3).
pub const KEEP_PERCENT_READS: u64 = 35;

/// τw: a slice is asked about equation 2 from one part in so many of its share of τm on. *Chosen* (commit f691dd3): half.
pub const WRITE_PARTS: u64 = 2;

/// Bytes: smaller slices are not worth a merge for the sake of writes. *Chosen* (commit f691dd3).
pub const WRITE_BYTES_MIN: u64 = 256 << 10;

// ---------------------------------------------------------------------------------------------------------------------
// Level 0 in persistent memory (`level0`, `internal`).

/// Entries that are drawn from a slice, to see how many are updates. *Derived*: the share is right to about 7 %.
pub const SAMPLES: u64 = 48;

/// A merge that drops this part of what it reads makes room. *Measured* (decision 93: `reproduce pm-blade space`).
pub const ROOM_SHARE: f64 = 0.2;

/// From this part of τm on, in percent, room is made: a merge needs some itself. *Measured* (decision 93).
pub const FILLING_PERCENT: u64 = 75;

/// An internal compaction writes no more than one part in so many of level 0's share at a time. *Chosen* (commit aecbab2): a
/// merge holds inputs and outputs.
pub const INTERNAL_PARTS: u64 = 8;

/// Tables beyond its part that a merge may have begun when it ends. *Derived*: the one at hand, and two whose zones are not full.
pub const INTERNAL_TABLES_OVER: u64 = 3;

/// Where one table would end for its size so many may, at most: at starts of partitions they end from a quarter on.
/// *Derived* from [`TABLE_MIN_PARTS_PARTITION`].
pub const TABLES_OF_ONE: u64 = 4;

/// Tables that a merge writes beside those that its bytes make: the first, and the last one. *Derived*.
pub const TABLES_AT_ENDS: u64 = 2;

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
// Partitions (`partitions`; PM-Blade §III).

/// Neighbours are merged while all of them have at most one part in so many of the limit. *Derived*: what a split made is not
/// merged before most of it is gone, and what a merge made is not split before it has grown four times.
pub const MERGED_PARTS: u64 = 4;

/// Partitions that one edit merges, at most, with those before them. *Derived* from what a record of the manifest holds.
pub const MERGED_MAX: usize = 4096;

/// Bytes of their starts, about, likewise.
pub const MERGED_BYTES: usize = 1 << 20;

/// Tables that are opened for sizes, at most, before one split or merge is decided. *Chosen*: an open is a read of the device.
pub const MEASURED_TABLES: usize = 16;

/// Keys of one table of which it is remembered how much lies before them, beyond those of the largest question: where
/// partitions begin now, and where some were to be split. *Chosen*.
pub const MEASURED_KEYS: usize = 256;

/// Partitions whose rates are remembered over a close. *Chosen*.
pub const RATES_REMEMBERED: usize = 64;

/// The part of a partition's rates that stays with its left half when it is split. *Derived*: it is split in the middle.
pub const SPLIT_RATES: f64 = 0.5;

// ---------------------------------------------------------------------------------------------------------------------
// Room on the disk, and the region (`room`).

/// A job of compaction takes no more of the disk than one part in so many. *Chosen* (commit f06e08a).
pub const DISK_JOB_PARTS: u64 = 10;

/// The reserve is no larger than one part in so many of the disk. *Chosen* (commit f06e08a).
pub const RESERVE_PARTS: u64 = 4;

/// From so many reserves on writers are delayed. *Chosen*: one more than is kept. An idle store gives space back from there on, too.
pub const RESERVES_SOFT: u64 = 2;

/// Bytes of the disk that a byte of the region's growth takes: its own, and one to flush it into. *Derived*.
pub const GROWTH_BYTES: u64 = 2;

/// One part in so many of the region's newest part is to be free, and its pages there, ahead of need. *Measured*: with a sixteenth
/// writers wait for pages (`thermocline bench fillrandom --num 1500000 --pm 4GiB --dram 2GiB`, 0.93 of the rate).
pub const AHEAD_PARTS: u64 = 4;

/// Bytes: a growing region tries whether so much is left of the disk, at most. *Chosen*: on some file systems that takes time.
pub const REGION_TRIES_BYTES: u64 = 16 << 20;

// ---------------------------------------------------------------------------------------------------------------------
// Relief of a full disk (`relief`; commit eebcf4c).

/// Writes that only delete which are worth a flush on a full disk. *Chosen*.
pub const DELETES_MANY: u64 = 1000;

/// Nanoseconds between two flushes of deletes by threads, and of the first rest of tables. *Chosen*: each of many makes a table of its own.
pub const DELETES_PAUSE_NS: u64 = 1_000_000_000;

/// Nanoseconds after which a job that gave up is tried again, the first time: others may have taken its room for a moment.
/// Each time twice as many, up to [`AGAIN_MAX_NS`]. *Chosen*.
pub const AGAIN_NS: u64 = 10_000_000_000;

/// See [`AGAIN_NS`]; and after no longer a pause a flush of deletes that has failed, or a job, is tried again. *Derived*: six doublings.
pub const AGAIN_MAX_NS: u64 = 640_000_000_000;

/// How many times longer each wait is than the one before. *Chosen*.
pub const AGAIN_GROWTH: u64 = 2;

/// Nanoseconds after which a writer that found no room for a long value, and did not try again, is forgotten. *Chosen*.
pub const STARVED_NS: u64 = 60_000_000_000;

/// No work of this kind goes into the last part in so many of the disk, beside what flushes need. *Chosen*.
pub const RELIEF_MARGIN_PARTS: u64 = 100;

/// Bytes of that margin, at most. *Chosen*.
pub const RELIEF_MARGIN_BYTES: u64 = 64 << 20;

/// A job that gave up is tried again when it is one part in so many smaller. *Chosen*: fewer than a hundred tries for 2⁴⁰ bytes.
pub const GAVE_UP_PARTS: u64 = 4;

/// A job that gave up is tried again with one part in so many more room. *Chosen*.
pub const ROOM_MORE_PARTS: u64 = 4;

/// And with so many bytes more at least. *Chosen*.
pub const ROOM_MORE_BYTES: u64 = 256 << 10;

/// Bytes after which a job that makes room looks whether it takes too much itself. *Chosen*.
pub const ROOM_LOOK_BYTES: u64 = 256 << 10;

/// Nanoseconds after which a store whose region is full of what readers hold looks at them again. *Chosen*.
pub const READERS_AGAIN_NS: u64 = 50_000_000;

/// Nanoseconds without a write after which a store is idle, where options do not say. *Chosen*.
pub const IDLE_NS: u64 = 1_000_000_000;

/// Jobs in a row that do not ask a family's compaction filter, at most, because jobs that asked it came to nothing. *Derived*:
/// one job in so many is done twice, less than two in a hundred.
pub const FILTER_RESTS_MAX: u32 = 64;

// ---------------------------------------------------------------------------------------------------------------------
// What expires (`pick::expired`, `expiry`).

/// A manifest notes the time again after each of so many parts of its store's shortest TTL. *Chosen*: what has expired
/// stays that much longer, one part in a hundred, and a pair costs the manifest 21 bytes.
pub const TTL_PARTS: u64 = 100;

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

/// Jobs that move values before a compaction returns that somebody asked for, beyond one for each table. *Derived*: one table's values
/// take about as many as all garbage that is allowed has parts, where what is alive is three times as much.
pub const COLLECTIONS_BY_HAND: u64 = 4 * MOVED_PARTS;

/// Deletes are brought to what lies below if there is one for at most so many entries there. *Chosen*: decision 162.
pub const DELETES_ONE_IN: u64 = 2;

/// Expired tables that one job takes. *Derived*: the edit that removes them has 17 MB with the longest keys, a quarter of what it may have.
pub const EXPIRED_TABLES_MAX: usize = 256;

/// Time after which expired tables are looked at again that somebody read when they were to go, in nanoseconds. *Chosen*: a second, so that
/// a store where somebody always reads tries once in a second what costs it microseconds.
pub const EXPIRED_AGAIN_NS: u64 = 1_000_000_000;

/// Ranges of deleted keys that a family remembers, so that whole tables may go. *Chosen*: a range counts only if it
/// covers a table, and each pick looks through all of them.
pub const DELETED_RANGES_MAX: usize = 1024;

/// Range tombstones that together cover a table at most, for it to go unread. *Chosen*: a table of a million small ranges waits for a
/// compaction, and no pick walks through them.
pub const DELETED_FRAGMENTS_MAX: usize = 256;

/// Deleted keys that a cursor steps over at once, from which on it is looked whether whole tables have nothing else. *Chosen*: about the keys of
/// a small table, and so many that the look costs less than the steps.
pub const EMPTY_STEPS: u64 = 1024;

/// Deletes of single keys between two that are kept as probes. *Chosen*: a scan that comes before somebody has looked steps over so many,
/// in about 0.2 ms.
pub const EXPLORE_EVERY: u64 = 1024;

/// Probes that are kept. *Chosen*: deletes go on in few places at a time.
pub const EXPLORE_PROBES: usize = 8;

/// Time after a probe until it is looked at, in nanoseconds. *Chosen*: 10 ms, so that one look is for many deletes.
pub const EXPLORE_AFTER_NS: u64 = 10_000_000;

/// Deleted keys that a worker steps over before it gives way to other tasks. *Chosen*: some milliseconds.
pub const EXPLORE_STEPS: u64 = 8192;

/// Steps that each delete pays for. *Derived*: a gap noted beside a write in flight is stepped through twice; and probes have two sides.
pub const EXPLORE_STEPS_A_DELETE: u64 = 4;
