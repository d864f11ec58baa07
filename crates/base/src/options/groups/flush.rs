//! Options of moving data from persistent memory to SSD.

use crate::options::group::option_group;

option_group! {
    /// Options of moving data from persistent memory to SSD.
    FlushOptions, "flush" {
        /// Sealed memtables are flushed into tables when one of the shares below is reached,
        /// and when a write finds no room. Otherwise they are only when asked for, and what finds no
        /// room is refused.
        automatic: Flag = true;
        /// Share of `pm`, in percent, that sealed memtables may take. Below it data stays in
        /// persistent memory, and what is overwritten there never reaches the SSD. With shape `tiered` sealed
        /// memtables share it with tables that stay there, and both may have more, up to a flush below the three quarters from which
        /// on writers are delayed. A flush takes the oldest, with a quarter of what `level0.pm_percent` leaves: that much memtables
        /// have at least.
        pm_percent: Count = 50, 1 => 95;
        /// Share of `dram`, in percent, that indexes may take while there are sealed memtables.
        dram_percent: Count = 60, 1 => 90;
        /// Sealed memtables from which on they are flushed, whatever they take; 0: only what they take
        /// counts. FlatLSM's `flush_immutable_num`, which is 4 there (§4.3).
        // Manifests remember this name, which is older than the word *memtable*.
        generations: Count = 0, 0 => 10_000;
        /// With shapes `global-index` and `immutables`: if sealed memtables that are to be flushed take more than
        /// so many times what lives in them, that is written into tables in persistent memory and not on the SSD, where
        /// those find room. FlatLSM's ratio of log to live bytes, which is 8 there (§4.2.2). 0 never does so.
        rewrite_ratio: Count = 8, 0 => 10_000;
    }
}
