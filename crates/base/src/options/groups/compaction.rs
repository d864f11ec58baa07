//! Options of the levels on SSD.

use crate::codec::Codec;
use crate::options::group::option_group;
use crate::scheduler::Scheduler;

option_group! {
    /// Options of the levels on SSD, and of moving data down them.
    CompactionOptions, "compaction" {
        /// Runs in level 0 from which on it is compacted, in each slice of keys by itself: tables that
        /// were flushed one after the other and do not overlap are one run.
        level0_tables: Count = 4, 1 => 1024;
        /// Bytes that the level into which level 0 is compacted may have, and bytes in level 0 from
        /// which on that is compacted. 0 derives it: `level0_tables` times what comes there at once, at least four
        /// tables. At once come a memtable with shape `ssd`, so with presets `leveled` and `trident`; the share of sealed memtables
        /// (`flush.pm_percent`) with `global-index` and `immutables`; the share of tables in persistent memory
        /// (`level0.pm_percent`) with `pm-tables`; half of that share with `tiered`; and a memtable where nothing is flushed
        /// by itself. With preset `flat-lsm` it is ten thirds of `pm`.
        base_bytes: Bytes = 0, 0 => 1 << 50;
        /// How much larger each level may be than the one above it.
        multiplier: Count = 10, 2 => 100;
        /// The deepest level. A store that has deeper ones already keeps them.
        levels: Count = 6, 1 => 7;
        /// Whether the size of the last level decides about those of the others, so that about one
        /// part in `multiplier` of what is stored is stale, beside level 0. A level that would be smaller
        /// than `base_bytes` is not used, unless level 0 brings so little to the next one that it pays; then half of
        /// that is enough. Otherwise level 1 has `base_bytes`.
        dynamic: Flag = true;
        /// A table is ended at the first new key at which it has this size; one that a flush writes
        /// between half of it and half as much again, where tables of older flushes end. 0 derives it: a
        /// quarter of a memtable, from 4 to 64 MiB (2 where `pm`, or what stands for it, is at most 32 MiB); with shape
        /// `tiered` a memtable, up to 16 MiB, if that is more.
        table_bytes: Bytes = 0, 0 => 1 << 30;
        /// What a data block takes on the device, at most, unless it holds one larger record.
        block_bytes: Bytes = 4 << 10, 256 => 1 << 20;
        /// How blocks of level 0 are compressed. They are read and written once more soon.
        compression_level0: Codec = Codec::None;
        /// How blocks between level 0 and the last level are compressed.
        compression: Codec = Codec::Lz4;
        /// How blocks of the last level are compressed.
        compression_last: Codec = Codec::Lz4;
        /// Bytes that compactions read and write in a second, together. 0 is no limit. Flushes are
        /// not held back.
        rate_bytes: Bytes = 0, 0 => 1 << 40;
        /// Whether compactions give way to clients: while reads of clients are under way at the device they work for a part of their
        /// time only, a twentieth at least. The more waits for them the larger that part is, and before writers would be delayed they do not
        /// rest at all; nor do they where no client reads. `rate_bytes` bounds them all the same. Flushes, merges inside persistent memory,
        /// and compactions by hand are not held back.
        rate_adapts: Flag = false;
        /// How flushes and compactions wait for the device (PM-Blade §V). `threads`: each job has a thread, which reads, merges
        /// and writes one after the other. `coroutines`: a compaction is divided among coroutines of its thread, and while one
        /// waits another one goes on. `stages`: in addition, while a coroutine merges, what it needs next is read, and what it
        /// has written is written.
        scheduler: Scheduler = Scheduler::Stages;
        /// How many reads and writes of files may be under way with `stages` for a compaction to write, or to read what it needs
        /// later: those of jobs, and those that readers wait for. A write that has waited for 10 ms begins all the same. A compaction has as many
        /// coroutines as this has for each job thread, but one at least. It is the `q` of PM-Blade §V.
        io_depth: Count = 4, 1 => 1024;
        /// One read of tables in so many, chosen at random, is looked at for tables that are asked in vain:
        /// those are compacted when that costs less than reading on like this. 0 looks at none.
        read_sample: Count = 64, 0 => 1 << 32;
    }
}
