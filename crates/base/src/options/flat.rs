//! The sizes of FlatLSM's system (§4.3, §5.1): memtables of 2 GiB, 6 of them at most, and a level 1 of 40 GB.

/// Memtables that there are at most: its `max_write_buffer_number`.
pub(in crate::options) const MEMTABLES: u64 = 6;

/// A flush is due when so many are sealed: its `flush_immutable_num`.
pub(in crate::options) const MEMTABLES_FLUSHED: u64 = 4;

/// What level 1 has, in thirds of what memtables have at most.
pub(in crate::options) const LEVEL1_THIRDS: u64 = 10;

/// The shortest value that lies apart from its key: those of 128 and 256 bytes do not (§4.4.2).
pub(in crate::options) const VALUE_BYTES_MIN: u64 = 512;

/// Percent of persistent memory for sealed memtables: a little more than [`MEMTABLES_FLUSHED`] of [`MEMTABLES`] have, so that their number
/// counts.
pub(in crate::options) const SEALED_PERCENT: u64 = 70;

/// Levels on the SSD (§4.3).
pub(in crate::options) const LEVELS: u64 = 2;
