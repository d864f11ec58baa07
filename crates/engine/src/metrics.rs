//! What a store says about itself.

use thermocline_base::counter::Counters;
use thermocline_base::sync::lock;
use thermocline_halloc::SpaceUse;
use thermocline_pm::{PmCounters, RegionKind};

use crate::store::Engine;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    Puts,
    Deletes,
    UserBytes,
    Gets,
    Found,
}

/// The store's own counters.
#[derive(Debug, Default)]
pub(crate) struct Counted(Counters<5>);

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
    /// Memtable generations, oldest first.
    pub generations: Vec<GenerationState>,
    /// DRAM of all indexes.
    pub index_bytes: u64,
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
    /// What the open did.
    pub recovery: Recovery,
    /// Bytes of the manifest.
    pub manifest_bytes: u64,
}

impl Engine {
    /// Reads all counters.
    pub fn metrics(&self) -> EngineMetrics {
        let inner = &*self.inner;
        let view = inner.view.load();
        let generations: Vec<GenerationState> = view
            .memtables
            .iter()
            .rev()
            .map(|memtable| GenerationState {
                id: memtable.generation(),
                sealed: memtable.is_sealed(),
                records: memtable.len(),
                bytes: memtable.bytes(),
                index_bytes: memtable.index_bytes(),
                pinned_bytes: memtable.pinned_bytes(),
            })
            .collect();
        EngineMetrics {
            region_kind: inner.space.region().kind(),
            region_path: inner.space.region().path().to_path_buf(),
            space: inner.space.usage(),
            pm: inner.space.region().counters(),
            index_bytes: generations.iter().map(|g| g.index_bytes).sum(),
            generations,
            visible: inner.ring.visible(),
            durable: inner.ring.durable(),
            puts: inner.counted.get(Count::Puts),
            deletes: inner.counted.get(Count::Deletes),
            user_bytes: inner.counted.get(Count::UserBytes),
            gets: inner.counted.get(Count::Gets),
            found: inner.counted.get(Count::Found),
            readers: inner.readers.open(),
            pinned_bytes: inner.pins.bytes(),
            recovery: inner.recovery,
            manifest_bytes: lock(&inner.manifest).len(),
        }
    }

    /// The options in force.
    pub fn options(&self) -> &thermocline_base::options::Options {
        &self.inner.options
    }
}
