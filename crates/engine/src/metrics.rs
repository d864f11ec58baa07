//! What a store says about itself.

use std::sync::Arc;

use thermocline_base::counter::Counters;
use thermocline_base::sync::lock;
use thermocline_halloc::SpaceUse;
use thermocline_memtable::Memtable;
use thermocline_pm::{PmCounters, RegionKind};

use crate::compact::CompactionUse;
use crate::latency::{Latencies, Latency};
use crate::runtime::RuntimeMetrics;
use crate::stall::{StallCause, StallUse};
use crate::store::{Engine, Inner};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Puts,
    Deletes,
    UserBytes,
    Gets,
    Found,
    Dropped,
}

/// The store's own counters.
#[derive(Debug, Default)]
pub(crate) struct Counted(Counters<6>);

impl Counted {
    #[inline]
    pub fn add(&self, what: Count, n: u64) {
        self.0.add(what as usize, n);
    }

    pub fn get(&self, what: Count) -> u64 {
        self.0.get(what as usize)
    }
}

/// What the open had to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovery {
    /// Records indexed again.
    pub records: u64,
    /// Chains walked.
    pub chains: u64,
    /// Readable records behind the cut, which were cut off.
    pub cut_records: u64,
    /// Whether the process before did not close the store.
    pub sealed_by_recovery: bool,
    /// From the start of open until the store took requests.
    pub nanos: u64,
}

/// One memtable generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GenerationState {
    /// Its number.
    pub id: u64,
    /// Whether it takes no more writes.
    pub sealed: bool,
    /// Records in it, older versions and tombstones included.
    pub records: u64,
    /// Persistent memory of its items.
    pub bytes: u64,
    /// DRAM of its indexes.
    pub index_bytes: u64,
    /// Bytes of values in it that readers hold in place.
    pub pinned_bytes: u64,
    /// Whether nothing in it is alive, and it stays only for those who hold it.
    pub retired: bool,
    /// Views of earlier moments that hold it: as long as there are any, its persistent memory is
    /// not free. Not exact while somebody writes.
    pub views: u64,
    /// Registered readers at a moment at which it was the newest generation. They see it and all
    /// before it.
    pub readers: u64,
}

/// DRAM of a store's indexes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DramUse {
    /// In use.
    pub used: u64,
    /// In use or promised to writes.
    pub held: u64,
    /// By how much promises were too small; 0 unless something is wrong.
    pub overdrawn: u64,
}

/// Bytes that moved between a store and the device of its files since it was opened. What went past the
/// page cache is exact; the rest is counted in the pages touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SsdBytes {
    /// Read from tables; of what went through the page cache, the most that it may have been.
    pub tables_read: u64,
    /// Written to tables.
    pub tables_written: u64,
    /// Written to the manifest.
    pub manifest_written: u64,
    /// Written to the region, where that lies on the device: a region of kind `file`.
    pub region_written: u64,
}

impl SsdBytes {
    /// All that was read. The manifest is read only when a store is opened, and does not count.
    pub fn read(&self) -> u64 {
        self.tables_read
    }

    /// All that was written.
    pub fn written(&self) -> u64 {
        self.tables_written + self.manifest_written + self.region_written
    }
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
    /// Memtable generations, oldest first; those that are retired are among them.
    pub generations: Vec<GenerationState>,
    /// Generations dropped since the store was opened.
    pub generations_dropped: u64,
    /// DRAM of all indexes.
    pub index_bytes: u64,
    /// What of that counts in the budgets, promises included.
    pub dram: DramUse,
    /// The last seqno that readers see.
    pub visible: u64,
    /// The last seqno that survives a crash.
    pub durable: u64,
    /// Puts.
    pub puts: u64,
    /// Deletes.
    pub deletes: u64,
    /// Bytes of keys and values written.
    pub user_bytes: u64,
    /// Point reads.
    pub gets: u64,
    /// Point reads that found their key.
    pub found: u64,
    /// Open snapshots, cursors and iterators.
    pub readers: usize,
    /// Bytes of values that readers hold in place, in dropped generations, too.
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
}

impl Inner {
    fn ssd_bytes(&self) -> SsdBytes {
        let tables = self.table_files.bytes();
        SsdBytes {
            tables_read: tables.read(),
            tables_written: tables.written(),
            manifest_written: self.manifest_bytes.written(),
            region_written: self.space.region().counters().device_bytes,
        }
    }

    /// All generations, and who holds them.
    fn generations(&self) -> Vec<GenerationState> {
        let view = self.view.load();
        let readers = self.readers.by_seqno();
        let mut all: Vec<(&Arc<Memtable>, bool)> = Vec::new();
        let retired = self.retired();
        all.extend(retired.iter().map(|memtable| (memtable, true)));
        all.extend(view.memtables.iter().map(|memtable| (memtable, false)));
        all.sort_by_key(|(memtable, _)| memtable.generation());
        // Retired since the view was loaded: in both.
        all.dedup_by_key(|(memtable, _)| memtable.generation());
        let next = |i: usize| all.get(i + 1).map_or(u64::MAX, |(m, _)| m.base().0);
        let state = |(i, &(memtable, retired)): (usize, &(&Arc<Memtable>, bool))| {
            // The current view and the writer; or those who keep the list, and us.
            let own = 1 + usize::from(retired || !memtable.is_sealed());
            let from = if i == 0 { 0 } else { memtable.base().0 };
            let at = readers.range(from..next(i));
            GenerationState {
                id: memtable.generation(),
                sealed: memtable.is_sealed(),
                records: memtable.len(),
                bytes: memtable.bytes(),
                index_bytes: memtable.index_bytes(),
                pinned_bytes: memtable.pinned_bytes(),
                retired,
                views: Arc::strong_count(memtable).saturating_sub(own) as u64,
                readers: at.map(|(_, &count)| count as u64).sum(),
            }
        };
        all.iter().enumerate().map(state).collect()
    }
}

impl Engine {
    /// Reads all counters.
    pub fn metrics(&self) -> EngineMetrics {
        let inner = &*self.inner;
        let generations = inner.generations();
        EngineMetrics {
            region_kind: inner.space.region().kind(),
            region_path: inner.space.region().path().to_path_buf(),
            space: inner.space.usage(),
            pm: inner.space.region().counters(),
            ssd: inner.ssd_bytes(),
            index_bytes: generations.iter().map(|g| g.index_bytes).sum(),
            dram: DramUse {
                used: inner.account.used(),
                held: inner.account.held(),
                overdrawn: inner.account.overdrawn(),
            },
            generations,
            generations_dropped: inner.counted.get(Count::Dropped),
            visible: inner.ring.visible(),
            durable: inner.ring.durable(),
            puts: inner.counted.get(Count::Puts),
            deletes: inner.counted.get(Count::Deletes),
            user_bytes: inner.counted.get(Count::UserBytes),
            gets: inner.counted.get(Count::Gets),
            found: inner.counted.get(Count::Found),
            readers: inner.readers.open(),
            pinned_bytes: inner.pins.bytes(),
            latencies: inner.latencies.read(),
            runtime: inner.background.runtime_metrics(),
            stalls: StallCause::ALL
                .map(|cause| (cause, inner.stalls.get(cause)))
                .to_vec(),
            recovery: inner.recovery,
            manifest_bytes: lock(&inner.manifest).len(),
            compaction: inner.compaction_use(),
        }
    }

    /// Where the times of operations go.
    #[inline]
    pub fn latencies(&self) -> &Latencies {
        &self.inner.latencies
    }

    /// The options in force.
    pub fn options(&self) -> &thermocline_base::options::Options {
        &self.inner.options
    }
}
