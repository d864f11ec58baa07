//! Options of the write path: when a memtable is sealed, what is staged.

use crate::options::group::option_group;

option_group! {
    /// Options of the write path.
    MemtableOptions, "memtable" {
        /// A memtable is sealed when its records and headers fill this much
        /// persistent memory. 0 derives it from `pm`: an eighth; with shape `tiered` a sixteenth, and a thirty-second
        /// while tables lie beside memtables there; at most 256 MiB, or a sixty-fourth of `pm` where that is
        /// more. With preset `flat-lsm` it is a sixth of `pm`. With presets `leveled` and `trident`, whose memtables lie
        /// in DRAM and may have a quarter of `dram`, it is a quarter of that, at most 64 MiB.
        /// Where memtables are flushed by themselves it is at most a quarter of what they may have, also if it is set:
        /// of `pm`, and with `tiered` of half of `pm`.
        bytes_max: Bytes = 0, 0 => 64 << 30;
        /// A batch of several records that take more persistent memory than this is staged: written
        /// beside all other writers, and committed as a memtable of its own instead of one item.
        /// So is one that fits the region in several pieces only. That takes some syncs of the manifest. There are at
        /// most 64 memtables at a time.
        item_bytes_max: Bytes = (64 << 20) - 4096, 4 << 10 => (64 << 20) - 4096;
        /// An idle store appends an empty item after this time, so that its last
        /// acknowledged write is covered by a later `published`. 0 switches
        /// it off.
        idle_ms: Millis = 1000, 0 => 3_600_000;
        /// Threads that rebuild the index at open. 0 takes one for each core, at most 8.
        replay_threads: Count = 0, 0 => 256;
    }
}
