//! Numbers of level 0 in persistent memory: what costs say of it, and how it is merged.

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
/// *Derived* from [`TABLE_MIN_PARTS_PARTITION`](super::TABLE_MIN_PARTS_PARTITION).
pub const TABLES_OF_ONE: u64 = 4;

/// Tables that a merge writes beside those that its bytes make: the first, and the last one. *Derived*.
pub const TABLES_AT_ENDS: u64 = 2;
