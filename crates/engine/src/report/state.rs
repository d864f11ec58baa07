//! What a store says about itself, as plain data.

use thermocline_halloc::SpaceUse;
use thermocline_observe::cause::StallCause;
use thermocline_observe::latency::Latency;
use thermocline_observe::stall::StallUse;
use thermocline_pm::{PmCounters, RegionKind};
use thermocline_runtime::RuntimeMetrics;
use thermocline_tables::LevelState;

use super::levels::CompactionUse;
use super::partitions::PartitionUse;
use super::readers::ReaderState;

/// What the open had to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Records indexed again.
    pub records: u64,
    /// Records that are in tables, too, and were passed over: of memtables that were flushed and are still
    /// there, for change feeds or for readers of an earlier opening.
    pub kept_records: u64,
    /// Chains walked.
    pub chains: u64,
    /// Readable records behind the cut, which were cut off.
    pub cut_records: u64,
    /// Whether the process before did not close the store.
    pub sealed_by_recovery: bool,
    /// From the start of open until the store took requests.
    pub nanos: u64,
}

/// One memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemtableState {
    /// Its number.
    pub id: u64,
    /// Whether it takes no more writes.
    pub sealed: bool,
    /// Records in it, older versions and tombstones included.
    pub records: u64,
    /// Persistent memory of its items.
    pub bytes: u64,
    /// DRAM of its indexes. What several memtables have in common counts with the newest of them.
    pub index_bytes: u64,
    /// Bytes of values in it that readers hold in place.
    pub pinned_bytes: u64,
    /// Whether nothing in it is alive, and it stays only for those who hold it.
    pub retired: bool,
    /// Views of earlier moments that hold it, of reads under way, and of cursors that have not been
    /// asked to let go: as long as there are any, its persistent memory is not free. Not exact
    /// while somebody writes.
    pub views: u64,
    /// Registered readers at a moment at which it was the newest memtable. They see it and all
    /// before it.
    pub readers: u64,
}

/// DRAM of a store, in bytes. What is in use is `used + charged`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DramUse {
    /// In use by indexes.
    pub used: u64,
    /// In use by indexes, or promised to writes.
    pub held: u64,
    /// By how much promises were too small; 0 unless something is wrong.
    pub overdrawn: u64,
    /// In use beside the indexes: by blocks of tables that are cached, open tables, buffers, and records
    /// that lie in DRAM.
    pub charged: u64,
    /// Of that, by records that lie in DRAM.
    pub records: u64,
    /// Of that, by open tables: their filters and the tops of their indexes; and by the keys of level 0.
    pub tables: u64,
    /// By how much the limit was exceeded, at most, by what had to be done although nothing could give
    /// way; 0 unless the limit is small.
    pub over: u64,
}

/// Where point reads found their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HitCounts {
    /// In a memtable, by an index of its own.
    pub memtable: u64,
    /// In a memtable, by an index that several have in common.
    pub global_index: u64,
    /// In tables in persistent memory.
    pub pm_tables: u64,
    /// In a table, with all blocks that were needed in DRAM.
    pub block_cache: u64,
    /// In a table, with a block that was read from its file.
    pub ssd: u64,
}

/// The cache of blocks, of all stores of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheState {
    /// Blocks that were found in it.
    pub hits: u64,
    /// Blocks that had to be read.
    pub misses: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Most bytes that it may take.
    pub bytes_max: u64,
}

/// The blob files of a store, in which long values lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlobState {
    /// Files that are named.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of values in them that tables refer to, older versions included.
    pub table_bytes: u64,
    /// Bytes of values in them that memtables which were not flushed have referred to since they
    /// began, what was overwritten since included.
    pub memtable_bytes: u64,
}

impl BlobState {
    /// About how many of their bytes nothing refers to: headers, keys, and values whose files stay for the sake
    /// of others.
    pub fn garbage_bytes(&self) -> u64 {
        let referred = self.table_bytes.saturating_add(self.memtable_bytes);
        self.bytes.saturating_sub(referred)
    }
}

/// Persistent memory of memtables, by what becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PmTier {
    /// Bytes of the memtable that takes the writes.
    pub active: u64,
    /// Bytes of those that wait to be flushed.
    pub sealed: u64,
    /// Bytes of those in which nothing is alive: they go when nobody reads them.
    pub retired: u64,
    /// Tables of level 0 that lie there.
    pub tables: u64,
    /// Bytes of zones that those take.
    pub table_bytes: u64,
    /// Of those, of tables that are compacted: they go when nobody reads them.
    pub table_bytes_retired: u64,
}

/// Bytes that moved between a store and the device of its files since it was opened. What went past the
/// page cache is exact; the rest is counted in the pages touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SsdBytes {
    /// Read from tables; of what went through the page cache, the most that it may have been.
    pub tables_read: u64,
    /// Written to tables.
    pub tables_written: u64,
    /// Read from blob files, as of tables.
    pub blobs_read: u64,
    /// Written to blob files.
    pub blobs_written: u64,
    /// Written to the manifest.
    pub manifest_written: u64,
    /// Written to the region, where that lies on the device: a region of kind `file`.
    pub region_written: u64,
    /// Written to logs, where those lie on the device, in whole pages.
    pub logs_written: u64,
}

impl SsdBytes {
    /// All that was read. The manifest is read only when a store is opened, and does not count.
    pub fn read(&self) -> u64 {
        self.tables_read + self.blobs_read
    }

    /// All that was written.
    pub fn written(&self) -> u64 {
        let files = self.tables_written + self.blobs_written + self.manifest_written;
        files + self.region_written + self.logs_written
    }
}

/// The logs of a store whose records lie in DRAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogUse {
    /// The folder in which they are made.
    pub dir: std::path::PathBuf,
    /// Whether that is on a device; on tmpfs, which stands for persistent memory, it is not.
    pub on_ssd: bool,
    /// Bytes written to them since the store was opened, in whole pages.
    pub bytes_written: u64,
}

/// What a store owes to callbacks and listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeliveryUse {
    /// Commits whose callbacks have not returned; at most 65,536.
    pub commits: u64,
    /// Events that wait for whoever listens; at most 4,096, and the store's end.
    pub events: u64,
    /// Events since the opening that were dropped, because so many waited.
    pub events_lost: u64,
}

/// A reading of a store's accounting.
#[derive(Debug, Clone)]
pub struct EngineMetrics {
    /// The region's kind.
    pub region_kind: RegionKind,
    /// Its place.
    pub region_path: std::path::PathBuf,
    /// Its space.
    pub space: SpaceUse,
    /// What was stored and persisted there.
    pub pm: PmCounters,
    /// What was transferred from and to the device of its files.
    pub ssd: SsdBytes,
    /// Its logs, if its records lie in DRAM.
    pub log: Option<LogUse>,
    /// Memtables, oldest first; those that are retired are among them.
    pub memtables: Vec<MemtableState>,
    /// Memtables dropped since the store was opened.
    pub memtables_dropped: u64,
    /// What they take, by what becomes of them.
    pub pm_tier: PmTier,
    /// The levels of tables, from 0 to the deepest one that has any; those between may be empty.
    pub levels: Vec<LevelState>,
    /// Its blob files.
    pub blobs: BlobState,
    /// Tables that are open.
    pub tables_open: u64,
    /// How often a table was opened.
    pub tables_opened: u64,
    /// The cache of blocks, once there is one.
    pub cache: Option<CacheState>,
    /// Where point reads found their values.
    pub hits: HitCounts,
    /// Flushes that have written what memtables had into tables.
    pub flushes: u64,
    /// Bytes of those tables.
    pub flushed_bytes: u64,
    /// DRAM of all indexes.
    pub index_bytes: u64,
    /// What counts in the budgets, promises included.
    pub dram: DramUse,
    /// The last seqno that readers see.
    pub visible: u64,
    /// What the manifest knows of when something was written; `None` if nothing.
    pub write_times: Option<WriteTimesUse>,
    /// The last seqno that survives a crash.
    pub durable: u64,
    /// Puts.
    pub puts: u64,
    /// Deletes of one key.
    pub deletes: u64,
    /// Deletes of ranges.
    pub range_deletes: u64,
    /// Bytes of keys and values written.
    pub user_bytes: u64,
    /// Point reads.
    pub gets: u64,
    /// Point reads that found their key.
    pub found: u64,
    /// Sealed indexes that point reads and cursors have asked, beyond the first of each.
    pub asked: u64,
    /// Keys without a value that cursors have stepped over.
    pub stepped_over: u64,
    /// Merges of indexes.
    pub merges: u64,
    /// Keys that they have moved.
    pub merged_keys: u64,
    /// Flushes that have rewritten what was mostly dead into tables in persistent memory.
    pub rewrites: u64,
    /// Bytes of the records that those have taken, dead or alive.
    pub rewritten_bytes: u64,
    /// How often ranges of flushes, one or several together, were merged down with tables that lay there.
    pub ranges_along: u64,
    /// Bytes of the tables that they have taken along.
    pub bytes_along: u64,
    /// Ranges of flushes that were written together, by several threads where there are some.
    pub ranges_ahead: u64,
    /// Change feeds, and what is kept for them.
    pub feed: FeedUse,
    /// What callbacks and listeners have not been told yet.
    pub deliveries: DeliveryUse,
    /// Open snapshots, cursors and iterators, of earlier openings in this process, too.
    pub readers: usize,
    /// Who they are, those that have been there longest first: 64 of them at most.
    pub readers_told: Vec<ReaderState>,
    /// Bytes of values that readers hold in place, in dropped memtables, too.
    pub pinned_bytes: u64,
    /// How long operations took, of the kinds that were timed.
    pub latencies: Vec<Latency>,
    /// What the runtime says about itself; `None` once the store is closed.
    pub runtime: Option<RuntimeMetrics>,
    /// Delay that the store's own work put on writers, by cause.
    pub stalls: Vec<(StallCause, StallUse)>,
    /// What the open did.
    pub recovery: Recovery,
    /// Bytes of the manifest.
    pub manifest_bytes: u64,
    /// What compactions and flushes have moved between levels.
    pub compaction: CompactionUse,
    /// How keys are divided.
    pub partitions: PartitionUse,
}

/// What change feeds use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedUse {
    /// Feeds that are open, and not cut off.
    pub open: usize,
    /// Memtables that are kept for feeds only.
    pub kept_memtables: usize,
    /// Persistent memory that those own, in bytes.
    pub kept_bytes: u64,
    /// Values in blob files that their records refer to, in bytes: the SSD keeps them, too.
    pub kept_blob_bytes: u64,
    /// The smallest seqno since which changes can be asked for.
    pub oldest: u64,
}

/// What the manifest knows of when something was written: pairs of a seqno and a time, by which everything up to that seqno was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteTimesUse {
    /// Pairs.
    pub pairs: u64,
    /// The time of the first, in seconds since the beginning of 1970 (UTC).
    pub oldest_unix_s: u64,
    /// The time of the last.
    pub newest_unix_s: u64,
    /// The seqno of the last.
    pub newest_seqno: u64,
}
