//! Options of level 0: its shape, and when it is merged inside persistent memory.

use crate::options::costs::Costs;
use crate::options::group::option_group;
use crate::options::shape::Shape;

option_group! {
    /// Options of level 0: what becomes of sealed memtables.
    Level0Options, "level0" {
        /// `global-index` keeps sealed memtables in persistent memory until they are flushed, and merges
        /// their indexes, so that reads ask few; records stay where they are (LogFree §3.3). With
        /// `immutables` each keeps its own index (FlatLSM §4.3). `ssd` flushes each as soon as it is
        /// sealed: level 0 is on the SSD then, in runs that overlap. So does `pm-tables`, into compressed
        /// tables that stay in persistent memory (PM-Blade §IV), as many as `level0.pm_percent` allows.
        /// `tiered` is both: sealed memtables get one index, and when together they are large they become
        /// such tables. `auto` (`None`) is `tiered` where there is persistent memory, and `global-index` where a file of
        /// kind `file` stands in for it: tables there would lie on the SSD as others do.
        shape: Shape = None;
        /// With `pm-tables` and `tiered` the share of `pm`, in percent, that tables may take there; what is
        /// more is compacted into tables on the SSD.
        pm_percent: Count = 65, 1 => 80;
        /// When tables there that lie over each other are merged inside persistent memory. `off`: only
        /// by hand, and all of level 0 leaves when it is full. `corrected` and `printed`: when that pays, by the equations of PM-Blade (§IV.C), corrected or
        /// as they are printed.
        internal: Costs = Costs::Corrected;
        /// Indexes are merged when reads have asked so many of them, beyond those that cannot be spared,
        /// as a merge has keys to move: this share of it, in percent. 0 merges them at once, whether
        /// they are read or not.
        merge_percent: Count = 100, 0 => 100_000;
        /// Whether the keys of tables of level 0 in files lie in DRAM, too, with the block of each, so that a read knows
        /// the block in which to look, or that there is none (TridentKV §3.3). They take the key and 4 bytes, and 24 bytes
        /// a block, an eighth of `dram` at most; tables whose keys find no room are read as others are. When a store is opened,
        /// they are found by reading these tables.
        key_index: Flag = false;
        /// Threads that write ranges of keys at once, where a flush goes range by range: into persistent memory (`tiered`), or
        /// into the base level (`immutables`). 0 takes one for each core, at most 4, if the store has threads of its own.
        evacuation_threads: Count = 0, 0 => 64;
    }
}

impl Level0Options {
    /// The shape of level 0; where it is left to the region that on persistent memory.
    pub fn shape(&self) -> Shape {
        self.shape.unwrap_or(Shape::Tiered)
    }
}
