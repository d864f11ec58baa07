//! What a store says about itself: the numbers that `stat` prints and benchmarks report.

mod reading;

use std::path::PathBuf;

use thermocline_engine::{
    CompactionUse, DeliveryUse, FeedUse, PartitionUse, ReaderState, RuntimeMetrics, WriteTimesUse,
};

/// A reading of a store's accounting. Counters count since the store was opened.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Metrics {
    /// The preset that the options started from.
    pub preset: String,
    /// `file`, `shm` or `dax`; `dram` where records lie in DRAM and in logs; `none` for a copy that was never
    /// opened for writing, and so has no region yet; in tests also `sim` or `shadow`.
    pub region_kind: &'static str,
    /// What data in this kind of region survives, as words that follow "survives".
    pub region_survives: &'static str,
    /// The file or folder of the region.
    pub region_path: PathBuf,
    /// The folder in which logs are made, if records lie in DRAM.
    pub wal_path: Option<PathBuf>,
    /// Bytes written to logs, in whole pages. They are among `ssd_bytes_written`, unless the folder is on
    /// tmpfs, which stands for persistent memory.
    pub wal_bytes_written: u64,
    /// Size of the region now, in bytes.
    pub region_bytes: u64,
    /// Most persistent memory that the store may use, in bytes, as far as the disk has room for it. Where records lie in
    /// DRAM (region kind `dram`), this and what follows are DRAM.
    pub pm_limit_bytes: u64,
    /// Most that the options allow, in bytes: more than `pm_limit_bytes` where the region shares a disk with tables that has
    /// no room for more.
    pub pm_allowed_bytes: u64,
    /// Persistent memory in zones with an owner, in bytes.
    pub pm_attached_bytes: u64,
    /// Persistent memory in free zones, in bytes.
    pub pm_free_bytes: u64,
    /// Zones with an owner.
    pub zones_attached: u64,
    /// Free zones.
    pub zones_free: u64,
    /// DRAM of the indexes, in bytes.
    pub dram_index_bytes: u64,
    /// DRAM of open tables, in bytes: their filters and the tops of their indexes.
    pub dram_tables_bytes: u64,
    /// DRAM of blocks of tables that are cached, and of buffers, in bytes.
    pub dram_blocks_bytes: u64,
    /// DRAM in which records lie, with preset `leveled`, in bytes.
    pub dram_records_bytes: u64,
    /// Most DRAM that the store may use, in bytes.
    pub dram_limit_bytes: u64,
    /// Persistent memory of records in the memtable that takes the writes, in bytes.
    pub pm_active_bytes: u64,
    /// The same of memtables that wait to be flushed.
    pub pm_sealed_bytes: u64,
    /// The same of memtables in which nothing is alive, and which somebody still reads.
    pub pm_retired_bytes: u64,
    /// Tables of level 0 that lie in persistent memory.
    pub pm_tables: u64,
    /// What they take there.
    pub pm_table_bytes: u64,
    /// The part of it that is compacted already, and that somebody still reads.
    pub pm_table_retired_bytes: u64,
    /// The levels of tables, from 0 to the deepest one that has any.
    pub levels: Vec<LevelMetrics>,
    /// What flushes and compactions have read and written since the opening, by level and by reason.
    pub compaction: CompactionUse,
    /// How keys are divided, and how often that has changed.
    pub partitions: PartitionUse,
    /// The blob files, in which long values lie.
    pub blobs: BlobMetrics,
    /// Tables that are open.
    pub tables_open: u64,
    /// The cache of blocks; all zeros until a table was read.
    pub block_cache: CacheMetrics,
    /// The memtables, oldest first; the last one takes the writes. Those that are retired
    /// are among them.
    pub memtables: Vec<MemtableMetrics>,
    /// Memtables dropped since the opening, because nobody needed what was in them.
    pub memtables_dropped: u64,
    /// The last sequence number that readers see.
    pub seqno_visible: u64,
    /// The last sequence number that survives a crash.
    pub seqno_durable: u64,
    /// What the manifest knows of when something was written; `None` where no family ever had a TTL.
    pub write_times: Option<WriteTimesUse>,
    /// Bytes of keys and values that callers wrote.
    pub user_bytes_written: u64,
    /// Bytes stored in persistent memory.
    pub pm_bytes_written: u64,
    /// Bytes of 256-byte media units touched by write-backs.
    pub pm_media_bytes_written: u64,
    /// Lines of 64 bytes written back, non-temporal ones included.
    pub pm_lines_written_back: u64,
    /// Fences.
    pub pm_fences: u64,
    /// Bytes written to SSD files, logs included, and to the device for a region of kind `file`.
    pub ssd_bytes_written: u64,
    /// Bytes read from SSD files.
    pub ssd_bytes_read: u64,
    /// Puts, those of batches included.
    pub puts: u64,
    /// Deletes, those of batches included.
    pub deletes: u64,
    /// Deletes of ranges.
    pub range_deletes: u64,
    /// Point reads.
    pub gets: u64,
    /// Point reads that found their key.
    pub gets_found: u64,
    /// Deleted keys that iterators have stepped over; those that they have passed in a seek are not counted.
    pub keys_stepped_over: u64,
    /// What callbacks and listeners have not been told yet, and what they never will be.
    pub deliveries: DeliveryUse,
    /// Open snapshots, cursors and iterators, of earlier openings in this process, too: who holds old versions.
    pub readers: u64,
    /// Who they are, those that have been there longest first; 64 of them at most. An iterator that
    /// is read from both ends is two cursors.
    pub readers_told: Vec<ReaderState>,
    /// Bytes of values that readers hold where they lie; their place cannot be used again.
    pub pinned_bytes: u64,
    /// Change feeds, what persistent memory keeps for them, and since when changes can be asked for.
    pub feed: FeedUse,
    /// Delay that the engine itself put on writers, in milliseconds.
    pub stall_ms: f64,
    /// The longest single delay, in milliseconds.
    pub stall_ms_max: f64,
    /// How many writes were delayed.
    pub stall_count: u64,
    /// How long operations took, of the kinds that were timed.
    pub latencies: Vec<LatencyMetrics>,
    /// The runtime that the store is in; `None` once it is closed.
    pub runtime: Option<RuntimeMetrics>,
    /// That delay by cause, for every cause there is.
    pub stalls: Vec<StallMetrics>,
    /// Where point reads found their keys.
    pub hits: Hits,
    /// How often indexes of sealed memtables were merged.
    pub index_merges: u64,
    /// Keys that this moved.
    pub index_keys_merged: u64,
    /// Flushes that have rewritten what was mostly dead into tables in persistent memory, and not on the SSD.
    pub rewrites: u64,
    /// Bytes of the records that those have taken, dead or alive.
    pub rewritten_bytes: u64,
    /// Ranges of keys that flushes have not left in persistent memory, but taken out of it with what lay there of level 0
    /// (shape `tiered`, where level 0 is full).
    pub ranges_along: u64,
    /// Bytes of the tables that were taken along.
    pub bytes_along: u64,
    /// Ranges of keys that flushes have written into persistent memory together, by several threads (shape `tiered`).
    pub ranges_ahead: u64,
    /// What the last open had to do.
    pub recovery: RecoveryMetrics,
    /// Every option with its effective value, as text that `--set` reads.
    pub effective_options: Vec<(String, String)>,
    /// The emulation profile: `none`, `optane` or `cxl`.
    pub emulate: String,
}

/// The tables of one level on the SSD, of all column families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelMetrics {
    /// Its number; 0 is the newest.
    pub level: u8,
    /// Tables in it.
    pub tables: u64,
    /// Lists of tables that do not overlap, of the family that has most: how many tables of the level a
    /// read may have to look into.
    pub runs: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Entries, older versions and deletes included.
    pub entries: u64,
    /// Of those, deletes.
    pub deletes: u64,
}

/// The blob files of a database: values over `blob.inline_bytes_max` lie there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobMetrics {
    /// Blob files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of values in them that tables refer to, older versions included.
    pub table_bytes: u64,
    /// Bytes of values in them that memtables have referred to since they began and that were not
    /// flushed, what was overwritten since included.
    pub memtable_bytes: u64,
    /// About how many of their bytes nothing refers to. They come back when nothing refers to the file.
    pub garbage_bytes: u64,
}

/// The cache of blocks, which all databases of a runtime share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheMetrics {
    /// Blocks that were found in it.
    pub hits: u64,
    /// Blocks that had to be read.
    pub misses: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Most bytes that it may take.
    pub bytes_max: u64,
}

/// One memtable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemtableMetrics {
    /// Its number; later memtables have higher ones.
    pub id: u64,
    /// Whether it takes no more writes.
    pub sealed: bool,
    /// Records in it, older versions and tombstones included.
    pub records: u64,
    /// Persistent memory of its records and headers, in bytes.
    pub bytes: u64,
    /// DRAM of its index, in bytes.
    pub index_bytes: u64,
    /// Bytes of values in it that readers hold where they lie.
    pub pinned_bytes: u64,
    /// Whether nothing in it is alive, and it stays only for those who hold it.
    pub retired: bool,
    /// Views of earlier moments that hold it: those of reads under way, and of cursors that have
    /// not been asked to let go of them. While there are any, its persistent memory is not free.
    /// Not exact while somebody writes.
    pub views: u64,
    /// Open snapshots and iterators at a moment at which it was the newest memtable.
    pub readers: u64,
}

/// How long operations of one kind took, from the call to its return, in microseconds; failed ones
/// included. Of all operations one in `metrics.latency_every` is timed, chosen at random. Quantiles are
/// at most a sixteenth too long.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyMetrics {
    /// `put`, `delete`, `batch`, `get`, `multi_get`; `seek` and `step` of cursors and iterators.
    pub operation: &'static str,
    /// How many were timed.
    pub count: u64,
    /// The mean.
    pub avg: f64,
    /// Half of them took no longer.
    pub p50: f64,
    /// Nine of ten took no longer.
    pub p90: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// 999 of 1000 took no longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// Delay that the engine put on writers, by one cause.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StallMetrics {
    /// `growth`: the region grew. `memtable`: the manifest had to name the next memtable.
    /// `flush`: there was no room before something was flushed. The others hold writers back a little, the
    /// more the fuller something is: `pm_fill`, `level0_tables`, `pending_bytes`, `disk_room`.
    pub cause: &'static str,
    /// Writes that were delayed.
    pub count: u64,
    /// In all, in milliseconds.
    pub ms: f64,
    /// The longest, in milliseconds.
    pub ms_max: f64,
}

/// Where point reads found their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits {
    /// In a memtable.
    pub memtable: u64,
    /// Through the global index.
    pub global_index: u64,
    /// In a table in persistent memory.
    pub pm_table: u64,
    /// In a block that was in DRAM.
    pub block_cache: u64,
    /// In a block that was read from the SSD.
    pub ssd: u64,
}

/// What an open had to do to bring the store back.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecoveryMetrics {
    /// Records indexed again.
    pub records: u64,
    /// Records that are in tables, too, and were passed over: they are still in persistent memory for
    /// change feeds, or for readers that have outlived an earlier opening.
    pub kept_records: u64,
    /// Chains of zones walked.
    pub chains: u64,
    /// Readable records of unfinished writes that were cut off at the end.
    pub cut_records: u64,
    /// Whether the process before did not close the store.
    pub after_crash: bool,
    /// Time from the start of open until the store took requests, in seconds.
    pub seconds: f64,
}

impl Metrics {
    /// Bytes written to the SSD for each byte that callers wrote, since the opening. `None` if nobody
    /// wrote anything.
    pub fn write_amplification_ssd(&self) -> Option<f64> {
        self.for_each_user_byte(self.ssd_bytes_written)
    }

    /// Bytes stored in persistent memory for each byte that callers wrote, as
    /// [`Metrics::write_amplification_ssd`].
    pub fn write_amplification_pm(&self) -> Option<f64> {
        self.for_each_user_byte(self.pm_bytes_written)
    }

    fn for_each_user_byte(&self, bytes: u64) -> Option<f64> {
        let user = self.user_bytes_written;
        (user > 0).then(|| bytes as f64 / user as f64)
    }
}
