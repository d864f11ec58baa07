//! Options of reading: checksums, pinned values, readahead, the cache.

use crate::async_io::AsyncIo;
use crate::options::group::option_group;

option_group! {
    /// Options of reading.
    ReadOptions, "read" {
        /// Check the checksum of every record that is returned.
        verify_checksums: Flag = true;
        /// Values from this size on are not copied by a get but pinned: they are read where they
        /// lie, which their memtable keeps for as long as they are held.
        pin_bytes_min: Bytes = 1 << 10, 1 => 1 << 30;
        /// While pinned values take more than this share of the region, in percent, all are copied.
        pins_percent_max: Count = 5, 0 => 100;
        /// How many records an iterator looks up ahead, at most.
        readahead: Count = 64, 1 => 4096;
        /// Most bytes of DRAM that blocks of tables are kept in, of all stores in a runtime: the first one
        /// that opens a table decides. It grows as blocks come, and makes room for indexes. 0 derives it
        /// from `dram`: half of it.
        cache_bytes: Bytes = 0, 0 => 1 << 46;
        /// Most tables that stay open, and most blob files. With 0 there may be as many tables as half of the files that the process may have
        /// open, or 512 where that is more, and 512 blob files. A table takes DRAM for its filter and the top of its index, and all of them an eighth of
        /// `dram` at most. Each takes a file descriptor, too, as long as the process has some left: else files that nobody reads are closed,
        /// which costs the next read of each a call and no transfer.
        open_tables: Count = 0, 0 => 1 << 20;
        /// Most bytes that a cursor reads at a time of a table that it goes through in order, and of values to which a table refers. How much it
        /// reads at first depends on how far cursors went lately. 0 switches reading ahead off.
        ahead_bytes: Bytes = 256 << 10, 0 => 256 << 10;
        /// How asynchronous reads, and those that jobs make ahead of their need, reach the device: `interrupt`, `sqpoll` and `iopoll` are ways of io_uring, `threads`
        /// waits in a thread for each read, and has a cursor or a `multi_get` make several reads one after the other. What the system refuses falls back to the next simpler way; the metrics
        /// name the one in use. Of all stores in a runtime the first one that reads so decides, of each kind.
        async_io: AsyncIo = AsyncIo::Interrupt;
    }
}
