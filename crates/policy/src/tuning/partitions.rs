//! Numbers of partitions: when they are split and merged, and what of them is remembered.

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
