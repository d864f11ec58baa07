//! The numbers of a store that `stat` prints and benchmarks report.

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
    /// `file`, `shm` or `dax`; `dram` if records lie in DRAM and in logs; `none` for a copy that was never opened for
    /// writing, since it has no region yet; in tests also `sim` or `shadow`.
    pub region_kind: &'static str,
    /// What data in this kind of region survives, worded to follow "survives".
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
    /// Most persistent memory that the store may use, in bytes, as far as the disk has room for it. If records lie in
    /// DRAM (region kind `dram`), this and the following numbers are of DRAM.
    pub pm_limit_bytes: u64,
    /// Most that the options allow, in bytes. It is more than `pm_limit_bytes` if the region shares a disk with
    /// tables, and the disk has no room for more.
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
    /// DRAM of open tables, in bytes: their filters and the tops of their indexes; and of the keys of level 0.
    pub dram_tables_bytes: u64,
    /// DRAM of blocks of tables that are cached, and of buffers, in bytes.
    pub dram_blocks_bytes: u64,
    /// DRAM in which records lie, with presets `leveled` and `trident`, in bytes.
    pub dram_records_bytes: u64,
    /// Most DRAM that the store may use, in bytes.
    pub dram_limit_bytes: u64,
    /// Persistent memory of records in the memtable that takes the writes, in bytes.
    pub pm_active_bytes: u64,
    /// Persistent memory of records in memtables that wait to be flushed, in bytes.
    pub pm_sealed_bytes: u64,
    /// Persistent memory of records in memtables without live records that readers or feeds still hold, in bytes.
    pub pm_retired_bytes: u64,
    /// Tables of level 0 that lie in persistent memory.
    pub pm_tables: u64,
    /// Persistent memory of those tables, in bytes.
    pub pm_table_bytes: u64,
    /// The part of it in tables that are compacted already and that readers still hold, in bytes.
    pub pm_table_retired_bytes: u64,
    /// The levels of tables, from level 0 to the deepest one that has tables.
    pub levels: Vec<LevelMetrics>,
    /// The work of flushes and compactions since the opening, by level and by reason.
    pub compaction: CompactionUse,
    /// The partitions of the keys, and how often they have changed.
    pub partitions: PartitionUse,
    /// The blob files, in which long values lie.
    pub blobs: BlobMetrics,
    /// Tables that are open.
    pub tables_open: u64,
    /// The cache of blocks; all zeros until a table is read.
    pub block_cache: CacheMetrics,
    /// The memtables, retired ones included, oldest first. The last one takes the writes.
    pub memtables: Vec<MemtableMetrics>,
    /// Memtables dropped since the opening, because nobody needed their records.
    pub memtables_dropped: u64,
    /// The last sequence number that readers see.
    pub seqno_visible: u64,
    /// The last sequence number that survives a crash.
    pub seqno_durable: u64,
    /// The times of writes that the manifest has; `None` if no family ever had a TTL, unless an opening after a crash had no room
    /// on the disk: it may note one, too.
    pub write_times: Option<WriteTimesUse>,
    /// Bytes of keys and values that callers wrote.
    pub user_bytes_written: u64,
    /// Bytes stored in persistent memory.
    pub pm_bytes_written: u64,
    /// Bytes of 256-byte media units touched by write-backs.
    pub pm_media_bytes_written: u64,
    /// Lines of 64 bytes written back, non-temporal ones included.
    pub pm_lines_written_back: u64,
    /// Fences, each of which waits for write-backs.
    pub pm_fences: u64,
    /// Bytes written to SSD files, logs included, and to the device for a region of kind `file`.
    pub ssd_bytes_written: u64,
    /// Bytes read from SSD files.
    pub ssd_bytes_read: u64,
    /// Puts, those of batches included. Merges count, too, and metadata that batches set.
    pub puts: u64,
    /// Deletes, those of batches included.
    pub deletes: u64,
    /// Deletes of ranges.
    pub range_deletes: u64,
    /// Point reads.
    pub gets: u64,
    /// Point reads that found their key.
    pub gets_found: u64,
    /// Deleted keys that iterators have stepped over, and workers that look for deleted keys ahead of them. Keys that they have
    /// passed by a seek do not count.
    pub keys_stepped_over: u64,
    /// Commits and events that callbacks and listeners have not received yet, and events that were dropped.
    pub deliveries: DeliveryUse,
    /// Open snapshots, cursors and iterators, and copies that are being made, those of earlier openings in this process included.
    /// They hold old versions.
    pub readers: u64,
    /// At most 64 of those readers, the oldest first. An iterator that is read from both ends counts as two cursors.
    pub readers_told: Vec<ReaderState>,
    /// Bytes of values that readers hold where they lie. Their place cannot be used again meanwhile.
    pub pinned_bytes: u64,
    /// Change feeds, the persistent memory that is kept for them, and since which number changes can be asked for.
    pub feed: FeedUse,
    /// Delay that the engine itself put on writers, in milliseconds.
    pub stall_ms: f64,
    /// The longest single delay ([`StallMetrics::ms_max`]), in milliseconds, since
    /// [`Db::forget_longest_stalls`](crate::Db::forget_longest_stalls) if that was called.
    pub stall_ms_max: f64,
    /// How many writes were delayed.
    pub stall_count: u64,
    /// How long operations took, for each kind that was timed.
    pub latencies: Vec<LatencyMetrics>,
    /// The runtime of the store; `None` once the store is closed.
    pub runtime: Option<RuntimeMetrics>,
    /// The delay of writers by cause, for every cause.
    pub stalls: Vec<StallMetrics>,
    /// Where point reads found their keys.
    pub hits: Hits,
    /// How often indexes of sealed memtables were merged.
    pub index_merges: u64,
    /// Keys that these merges moved.
    pub index_keys_merged: u64,
    /// Flushes that have rewritten mostly dead memtables into tables in persistent memory, and not on the SSD.
    pub rewrites: u64,
    /// Bytes of the records of those memtables, dead or alive.
    pub rewritten_bytes: u64,
    /// How often flushes have merged down a range of keys, or several that they wrote together, with tables that lay
    /// there: those of level 0 in persistent memory (shape `tiered`, when level 0 is full), or those of the level below
    /// (shape `immutables`).
    pub ranges_along: u64,
    /// Bytes of the tables that were taken along.
    pub bytes_along: u64,
    /// Ranges of keys of which flushes have written several together, with a thread each as far as there are some: into
    /// persistent memory (shape `tiered`), or into the level below level 0 (shape `immutables`).
    pub ranges_ahead: u64,
    /// The work of the last open.
    pub recovery: RecoveryMetrics,
    /// Every option with its effective value, as text that `--set` reads.
    pub effective_options: Vec<(String, String)>,
    /// The emulation profile: `none`, `optane` or `cxl`.
    pub emulate: String,
}

/// The tables of one level on the SSD, of all column families. Those of level 0 that lie in persistent memory count among its runs
/// only; [`Metrics::pm_tables`] has their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelMetrics {
    /// The level's number; 0 is the newest.
    pub level: u8,
    /// Tables in it.
    pub tables: u64,
    /// Runs, each a list of tables that do not overlap, wherever these lie, in the family that has most. It is the number
    /// of tables of this level that a read may have to look into.
    pub runs: u64,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Entries, older versions and deletes included.
    pub entries: u64,
    /// Deletes among these entries.
    pub deletes: u64,
}

/// The blob files of a database. Values over `blob.inline_bytes_max` lie there, and those from `blob.value_bytes_min` bytes on that
/// flushes and compactions have set apart on the way to the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobMetrics {
    /// Blob files.
    pub files: u64,
    /// Bytes of the blob files.
    pub bytes: u64,
    /// Bytes of values in them that tables refer to, older versions included.
    pub table_bytes: u64,
    /// Bytes of values in them that memtables have referred to since they began, until they are flushed. Values that
    /// were overwritten since count, too.
    pub memtable_bytes: u64,
    /// About how many bytes of blob files nothing refers to. They are free when nothing refers to their file any
    /// more.
    pub garbage_bytes: u64,
}

/// The cache of blocks, which all databases of a runtime share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheMetrics {
    /// Blocks that were found in it.
    pub hits: u64,
    /// Blocks that had to be read.
    pub misses: u64,
    /// Bytes that the cache takes.
    pub bytes: u64,
    /// Most bytes that the cache may take.
    pub bytes_max: u64,
}

/// One memtable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemtableMetrics {
    /// The memtable's number; later memtables have higher ones.
    pub id: u64,
    /// Whether the memtable takes no more writes.
    pub sealed: bool,
    /// Records in it, older versions and tombstones included.
    pub records: u64,
    /// Persistent memory of its records and headers, in bytes.
    pub bytes: u64,
    /// DRAM of its index, in bytes.
    pub index_bytes: u64,
    /// Bytes of values in it that readers hold where they lie.
    pub pinned_bytes: u64,
    /// Whether the memtable has no live record, and stays only for readers or feeds that hold it.
    pub retired: bool,
    /// Older views that hold the memtable: those of running reads, and of cursors that were not asked yet to let go
    /// of them. While there are any, its persistent memory is not free. The number is not exact while others write.
    pub views: u64,
    /// Open snapshots and iterators of a moment at which this was the newest memtable.
    pub readers: u64,
}

/// How long operations of one kind took, from call to return, in microseconds, failed ones included. One operation in
/// `metrics.latency_every` is timed, chosen at random. Quantiles are at most a sixteenth too long.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LatencyMetrics {
    /// The kind: `put`, of merges, too; `delete`, `batch`, `get`, `multi_get`; `seek` and `step` of cursors and iterators.
    pub operation: &'static str,
    /// Number of timed operations.
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
    /// `growth`: the region grew. `memtable`: the manifest had to name the next memtable. `flush`: there was no room
    /// before a flush. `callbacks`: too many commits waited for their callbacks. The other causes delay writers a little, and
    /// more as something fills up: `pm_fill`, `level0_tables`, `pending_bytes`, `disk_room`, `garbage`.
    pub cause: &'static str,
    /// Writes that were delayed. One that was refused at once is none of them.
    pub count: u64,
    /// Their delay in all, in milliseconds.
    pub ms: f64,
    /// The longest delay, in milliseconds, since [`Db::forget_longest_stalls`](crate::Db::forget_longest_stalls) if that was called.
    /// Of a sleep it is what the engine asked for; what the system let it sleep beyond that is in `ms` alone.
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

/// The work of an open to recover the store.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecoveryMetrics {
    /// Records indexed again.
    pub records: u64,
    /// Records that were passed over because tables have them, too. They are in persistent memory for change feeds,
    /// or for readers that have outlived an earlier opening.
    pub kept_records: u64,
    /// Chains of zones walked.
    pub chains: u64,
    /// Readable records of unfinished writes that were cut off at the end.
    pub cut_records: u64,
    /// Whether the last process did not close the store.
    pub after_crash: bool,
    /// Time from the start of open until the store took requests, in seconds.
    pub seconds: f64,
}

impl Metrics {
    /// Bytes written to the SSD for each byte of keys and values that callers wrote, since the opening. `None` if
    /// nothing was written.
    pub fn write_amplification_ssd(&self) -> Option<f64> {
        self.for_each_user_byte(self.ssd_bytes_written)
    }

    /// Bytes stored in persistent memory for each byte of keys and values that callers wrote, since the opening.
    /// `None` if nothing was written.
    pub fn write_amplification_pm(&self) -> Option<f64> {
        self.for_each_user_byte(self.pm_bytes_written)
    }

    fn for_each_user_byte(&self, bytes: u64) -> Option<f64> {
        let user = self.user_bytes_written;
        (user > 0).then(|| bytes as f64 / user as f64)
    }
}
