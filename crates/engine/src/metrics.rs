//! What a store says about itself.

use std::sync::Arc;

use thermocline_catalog::owned::Retired;
use thermocline_env::FsKind;
use thermocline_halloc::SpaceUse;
use thermocline_memtable::{Home, Memtable};
use thermocline_observe::cause::StallCause;
use thermocline_observe::count::Count;
use thermocline_pm::RegionKind;
use thermocline_tables::FoundIn;

use crate::report::{
    BlobState, CacheState, CompactionUse, DeliveryUse, DramUse, EngineMetrics, HitCounts, LogUse,
    MemtableState, PartitionUse, PmTier, SsdBytes, WriteTimesUse,
};
use crate::store::Reporter;

/// A memtable, the index that leads to it if that is known, and whether it is retired.
type Held = (Arc<Home>, Option<Arc<Memtable>>, bool);

impl Reporter {
    fn ssd_bytes(&self, log: Option<&LogUse>) -> SsdBytes {
        let tables = self.common.catalog.table_files.bytes();
        let blobs = self.common.catalog.table_files.blob_bytes();
        SsdBytes {
            tables_read: tables.read(),
            tables_written: tables.written(),
            blobs_read: blobs.read(),
            blobs_written: blobs.written(),
            manifest_written: self.common.catalog.bytes().written(),
            region_written: self.common.space.region().counters().device_bytes,
            logs_written: log
                .filter(|log| log.on_ssd)
                .map_or(0, |log| log.bytes_written),
        }
    }

    fn log_use(&self) -> Option<LogUse> {
        let wal = self.memtables.wal.as_ref()?;
        let dir = wal.dir().dir.clone();
        let kind = self.common.world.env.storage.fs_kind(&dir);
        Some(LogUse {
            on_ssd: !matches!(kind, Ok(FsKind::Tmpfs)),
            dir,
            bytes_written: wal.bytes().written(),
        })
    }

    fn dram_use(&self) -> DramUse {
        let (account, region) = (&self.common.account, self.common.space.region());
        let files = &self.common.catalog.table_files;
        DramUse {
            used: account.used(),
            held: account.held(),
            overdrawn: account.overdrawn(),
            charged: account.charged(),
            records: match region.kind() {
                RegionKind::Dram => region.len(),
                _ => 0,
            },
            tables: files.open_use().bytes() + files.keys.bytes(),
            over: account.over(),
        }
    }

    fn hits(&self) -> HitCounts {
        let tables = &self.common.catalog.table_files;
        let (block_cache, ssd) = (tables.found(FoundIn::Cache), tables.found(FoundIn::File));
        let pm_tables = tables.found(FoundIn::Pm);
        // Counted first there, so that none is missing here.
        let global_index = self.common.counted.get(Count::FoundMerged);
        let found = self.common.counted.get(Count::Found);
        HitCounts {
            memtable: found.saturating_sub(pm_tables + block_cache + ssd + global_index),
            global_index,
            pm_tables,
            block_cache,
            ssd,
        }
    }

    fn blob_state(&self) -> BlobState {
        let version = self.common.catalog.version();
        let mut state = BlobState::default();
        for (_, blob) in version.blob_files() {
            state.files += 1;
            // A manifest may say of files what it likes.
            state.bytes = state.bytes.saturating_add(blob.bytes);
            state.table_bytes = state.table_bytes.saturating_add(blob.referenced_bytes);
        }
        if state.files > 0 {
            let active = self.common.catalog.view().memtables[0].blob_bytes();
            state.memtable_bytes = active + self.common.sealed().blob_bytes;
        }
        state
    }

    /// All memtables, and who holds them.
    fn memtables(&self) -> Vec<MemtableState> {
        let view = self.common.catalog.view();
        let readers = self.common.commits.readers.by_seqno();
        let mut all: Vec<Held> = Vec::new();
        for Retired { home, index } in self.common.retired() {
            let index = index.upgrade().filter(|index| !index.is_merged());
            all.push((home, index, true));
        }
        for memtable in &view.memtables {
            let homes = memtable.homes().iter();
            all.extend(homes.map(|home| (home.clone(), Some(memtable.clone()), false)));
        }
        all.sort_by_key(|(home, ..)| home.id());
        // Retired since the view was loaded: in both.
        all.dedup_by_key(|(home, ..)| home.id());
        let next = |i: usize| all.get(i + 1).map_or(u64::MAX, |(home, ..)| home.base().0);
        let state = |(i, (home, index, retired)): (usize, &Held)| {
            let index = index.as_ref();
            let from = if i == 0 { 0 } else { home.base().0 };
            let at = readers.range(from..next(i));
            let newest = index.filter(|index| index.id() == home.id());
            MemtableState {
                id: home.id(),
                sealed: index.is_none_or(|index| index.is_sealed()),
                records: home.len(),
                bytes: home.bytes(),
                index_bytes: newest.map_or(0, |index| index.index_bytes()),
                pinned_bytes: home.pinned_bytes(),
                retired: *retired,
                views: holders(home, index, *retired),
                readers: at.map(|(_, &count)| count as u64).sum(),
            }
        };
        all.iter().enumerate().map(state).collect()
    }

    /// Reads all counters. What is a part of something else is read before it: a read counts before it has found its key.
    pub fn metrics(&self) -> EngineMetrics {
        let (memtables, log) = (self.memtables(), self.log_use());
        let region_kind = self.common.space.region().kind();
        let mut space = self.common.space.usage();
        if region_kind == RegionKind::Absent {
            // What stands in for it takes none, and sets no limit.
            space = SpaceUse {
                limit_bytes: self.common.options.pm,
                ..SpaceUse::default()
            };
        }
        EngineMetrics {
            region_kind,
            region_path: self.common.space.region().path().to_path_buf(),
            space,
            pm: self.common.space.region().counters(),
            ssd: self.ssd_bytes(log.as_ref()),
            log,
            index_bytes: memtables.iter().map(|m| m.index_bytes).sum(),
            dram: self.dram_use(),
            pm_tier: self.pm_tier(&memtables),
            levels: self.common.catalog.view().tables.levels(),
            blobs: self.blob_state(),
            tables_open: self.common.catalog.table_files.open_use().tables(),
            tables_opened: self.common.catalog.table_files.open_use().opened(),
            cache: self.cache_state(),
            hits: self.hits(),
            memtables,
            memtables_dropped: self.common.counted.get(Count::Dropped),
            flushes: self.common.counted.get(Count::Flushes),
            flushed_bytes: self.common.counted.get(Count::FlushedBytes),
            visible: self.common.commits.ring.visible(),
            write_times: self.write_times_use(),
            durable: self.common.commits.ring.durable(),
            puts: self.common.counted.get(Count::Puts),
            deletes: self.common.counted.get(Count::Deletes),
            range_deletes: self.common.counted.get(Count::RangeDeletes),
            user_bytes: self.common.counted.get(Count::UserBytes),
            found: self.common.counted.get(Count::Found),
            gets: self.common.counted.get(Count::Gets),
            asked: self.common.counted.get(Count::Asked),
            stepped_over: self.common.counted.get(Count::SteppedOver),
            merges: self.common.counted.get(Count::Merges),
            merged_keys: self.common.counted.get(Count::MergedKeys),
            rewrites: self.common.counted.get(Count::Rewrites),
            rewritten_bytes: self.common.counted.get(Count::RewrittenBytes),
            ranges_along: self.common.counted.get(Count::RangesAlong),
            bytes_along: self.common.counted.get(Count::BytesAlong),
            ranges_ahead: self.common.counted.get(Count::RangesAhead),
            feed: self.feeds.feed_use(),
            deliveries: self.delivery_use(),
            readers: self.reads.holds.users(),
            readers_told: self.reads.readers_told(),
            pinned_bytes: self.reads.pins.upgrade().map_or(0, |pins| pins.bytes()),
            latencies: self.common.latencies.read(),
            runtime: self.common.background.runtime_metrics(),
            stalls: StallCause::ALL
                .map(|cause| (cause, self.common.stalls.get(cause)))
                .to_vec(),
            recovery: self.common.recovery,
            manifest_bytes: self.common.catalog.edits().manifest_bytes(),
            compaction: self.compaction_use(),
            partitions: self.partition_use(),
        }
    }
}

impl Reporter {
    fn pm_tier(&self, memtables: &[MemtableState]) -> PmTier {
        let tables = self.common.pm_tables_use();
        PmTier {
            tables: tables.tables,
            table_bytes: tables.bytes,
            table_bytes_retired: tables.retired_bytes,
            ..memtables_in_pm(memtables)
        }
    }
}

fn memtables_in_pm(memtables: &[MemtableState]) -> PmTier {
    let mut tier = PmTier::default();
    for memtable in memtables {
        let sum = match memtable {
            MemtableState { retired: true, .. } => &mut tier.retired,
            MemtableState { sealed: true, .. } => &mut tier.sealed,
            _ => &mut tier.active,
        };
        *sum += memtable.bytes;
    }
    tier
}

/// How many hold a memtable beside those who do so for themselves: views of earlier moments that have
/// its index, other indexes that lead to it, and pinned values.
fn holders(home: &Arc<Home>, index: Option<&Arc<Memtable>>, retired: bool) -> u64 {
    // Ours, and the index.
    let mut own = 1 + usize::from(index.is_some());
    let mut all = Arc::strong_count(home);
    own += usize::from(retired);
    if let Some(index) = index.filter(|index| !index.is_merged()) {
        // Ours, the current view or nobody, and the writer.
        let of_index = 1 + usize::from(!retired) + usize::from(!index.is_sealed());
        all += Arc::strong_count(index).saturating_sub(of_index);
    }
    all.saturating_sub(own) as u64
}

impl Reporter {
    fn cache_state(&self) -> Option<CacheState> {
        let cache = self.common.catalog.table_files.cache_use()?;
        Some(CacheState {
            hits: cache.hits,
            misses: cache.misses,
            bytes: cache.bytes,
            bytes_max: cache.bytes_max,
        })
    }

    fn delivery_use(&self) -> DeliveryUse {
        let (events, events_lost) = self.common.events.usage();
        DeliveryUse {
            commits: self.common.commits.places() as u64,
            events,
            events_lost,
        }
    }
}

impl Reporter {
    /// What compactions have done and are behind.
    pub fn compaction_use(&self) -> CompactionUse {
        let compactions = &self.common.compactions;
        let behind = compactions.behind();
        let (failed, last_failure) = compactions.failures.told();
        CompactionUse {
            failed,
            last_failure,
            costs: compactions.costs.usage(),
            filters: compactions.filter_use(),
            running: compactions.running(),
            level0_runs: behind.level0_runs,
            pending_bytes: behind.pending_bytes,
            percent_worked: compactions.percent_worked(&self.common.catalog.table_files),
            ..compactions.usage.counted()
        }
    }

    fn write_times_use(&self) -> Option<WriteTimesUse> {
        let times = self.common.catalog.write_times();
        let (oldest, newest) = (times.pairs().first()?, times.last()?);
        Some(WriteTimesUse {
            pairs: times.pairs().len() as u64,
            oldest_unix_s: oldest.unix_s,
            newest_unix_s: newest.unix_s,
            newest_seqno: newest.seqno.0,
        })
    }

    /// How keys are divided, and what was done about it.
    pub fn partition_use(&self) -> PartitionUse {
        let version = self.common.catalog.version();
        let families = self.common.families.count();
        let more = version
            .divided()
            .map(|(_, partitions)| partitions.len() - 1);
        PartitionUse {
            count: (families + more.sum::<usize>()) as u64,
            ..self.common.compactions.partition_usage.counted()
        }
    }
}
