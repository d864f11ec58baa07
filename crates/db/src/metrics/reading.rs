//! How metrics are read from the engine.

use thermocline_engine::{EngineMetrics, StallCause, StallUse};

use super::{
    BlobMetrics, CacheMetrics, Hits, LatencyMetrics, LevelMetrics, MemtableMetrics, Metrics,
    RecoveryMetrics, StallMetrics,
};

impl Metrics {
    pub(crate) fn of(engine: &thermocline_engine::Engine) -> Metrics {
        let m = engine.metrics();
        let options = engine.options();
        let counted = Metrics::counted(&m);
        let log_bytes = m.log.as_ref().map_or(0, |log| log.bytes_written);
        Metrics {
            preset: options.preset.name().to_string(),
            region_kind: m.region_kind.name(),
            region_survives: m.region_kind.survives(),
            region_path: m.region_path,
            wal_path: m.log.as_ref().map(|log| log.dir.clone()),
            wal_bytes_written: log_bytes,
            region_bytes: m.space.region_bytes,
            pm_limit_bytes: m.space.limit_bytes,
            pm_allowed_bytes: options.region_bytes_max().max(m.space.limit_bytes),
            pm_attached_bytes: m.space.attached_bytes,
            pm_free_bytes: m.space.free_bytes,
            zones_attached: m.space.zones_attached,
            zones_free: m.space.zones_free,
            dram_index_bytes: m.index_bytes,
            dram_tables_bytes: m.dram.tables,
            dram_blocks_bytes: m
                .dram
                .charged
                .saturating_sub(m.dram.tables + m.dram.records),
            dram_records_bytes: m.dram.records,
            dram_limit_bytes: options.dram,
            pm_active_bytes: m.pm_tier.active,
            pm_sealed_bytes: m.pm_tier.sealed,
            pm_retired_bytes: m.pm_tier.retired,
            pm_tables: m.pm_tier.tables,
            pm_table_bytes: m.pm_tier.table_bytes,
            pm_table_retired_bytes: m.pm_tier.table_bytes_retired,
            levels: m.levels.iter().map(LevelMetrics::of).collect(),
            compaction: m.compaction,
            partitions: m.partitions,
            blobs: BlobMetrics::of(&m.blobs),
            tables_open: m.tables_open,
            block_cache: m.cache.map(CacheMetrics::of).unwrap_or_default(),
            memtables: m.memtables.iter().map(MemtableMetrics::of).collect(),
            deliveries: m.deliveries,
            readers_told: m.readers_told,
            feed: m.feed,
            runtime: m.runtime,
            effective_options: options
                .effective()
                .into_iter()
                .map(|(name, value)| (name.to_string(), value))
                .collect(),
            emulate: options.emulate.name().to_string(),
            ..counted
        }
    }

    /// The counters since the opening, and the sequence numbers of the log.
    fn counted(m: &EngineMetrics) -> Metrics {
        let stalls: Vec<StallMetrics> = m.stalls.iter().map(StallMetrics::of).collect();
        Metrics {
            memtables_dropped: m.memtables_dropped,
            seqno_visible: m.visible,
            seqno_durable: m.durable,
            write_times: m.write_times,
            user_bytes_written: m.user_bytes,
            pm_bytes_written: m.pm.bytes_stored,
            pm_media_bytes_written: m.pm.media_bytes,
            pm_lines_written_back: m.pm.lines_written_back,
            pm_fences: m.pm.fences,
            ssd_bytes_written: m.ssd.written(),
            ssd_bytes_read: m.ssd.read(),
            puts: m.puts,
            deletes: m.deletes,
            range_deletes: m.range_deletes,
            gets: m.gets,
            gets_found: m.found,
            keys_stepped_over: m.stepped_over,
            readers: m.readers as u64,
            pinned_bytes: m.pinned_bytes,
            stall_ms: stalls.iter().map(|stall| stall.ms).sum(),
            stall_ms_max: stalls.iter().map(|stall| stall.ms_max).fold(0.0, f64::max),
            stall_count: stalls.iter().map(|stall| stall.count).sum(),
            stalls,
            latencies: m.latencies.iter().map(LatencyMetrics::of).collect(),
            hits: Hits::of(&m.hits),
            index_merges: m.merges,
            index_keys_merged: m.merged_keys,
            rewrites: m.rewrites,
            rewritten_bytes: m.rewritten_bytes,
            ranges_along: m.ranges_along,
            bytes_along: m.bytes_along,
            ranges_ahead: m.ranges_ahead,
            recovery: RecoveryMetrics::of(&m.recovery),
            ..Metrics::default()
        }
    }
}

impl StallMetrics {
    fn of((cause, stall): &(StallCause, StallUse)) -> StallMetrics {
        StallMetrics {
            cause: cause.name(),
            count: stall.count,
            ms: millis(stall.nanos),
            ms_max: millis(stall.nanos_max),
        }
    }
}

impl BlobMetrics {
    fn of(blobs: &thermocline_engine::BlobState) -> BlobMetrics {
        BlobMetrics {
            files: blobs.files,
            bytes: blobs.bytes,
            table_bytes: blobs.table_bytes,
            memtable_bytes: blobs.memtable_bytes,
            garbage_bytes: blobs.garbage_bytes(),
        }
    }
}

impl MemtableMetrics {
    fn of(memtable: &thermocline_engine::MemtableState) -> MemtableMetrics {
        MemtableMetrics {
            id: memtable.id,
            sealed: memtable.sealed,
            records: memtable.records,
            bytes: memtable.bytes,
            index_bytes: memtable.index_bytes,
            pinned_bytes: memtable.pinned_bytes,
            retired: memtable.retired,
            views: memtable.views,
            readers: memtable.readers,
        }
    }
}

impl Hits {
    fn of(hits: &thermocline_engine::HitCounts) -> Hits {
        Hits {
            memtable: hits.memtable,
            global_index: hits.global_index,
            block_cache: hits.block_cache,
            ssd: hits.ssd,
            pm_table: hits.pm_tables,
        }
    }
}

impl RecoveryMetrics {
    fn of(recovery: &thermocline_engine::Recovery) -> RecoveryMetrics {
        RecoveryMetrics {
            records: recovery.records,
            kept_records: recovery.kept_records,
            chains: recovery.chains,
            cut_records: recovery.cut_records,
            after_crash: recovery.sealed_by_recovery,
            seconds: std::time::Duration::from_nanos(recovery.nanos).as_secs_f64(),
        }
    }
}

impl LevelMetrics {
    fn of(level: &thermocline_engine::LevelState) -> LevelMetrics {
        LevelMetrics {
            level: level.level,
            tables: level.tables,
            runs: level.runs,
            bytes: level.bytes,
            entries: level.entries,
            deletes: level.deletes,
        }
    }
}

impl CacheMetrics {
    fn of(cache: thermocline_engine::CacheState) -> CacheMetrics {
        CacheMetrics {
            hits: cache.hits,
            misses: cache.misses,
            bytes: cache.bytes,
            bytes_max: cache.bytes_max,
        }
    }
}

impl LatencyMetrics {
    fn of(latency: &thermocline_engine::Latency) -> LatencyMetrics {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        LatencyMetrics {
            operation: latency.operation.name(),
            count: latency.count,
            avg: micros(latency.mean_ns),
            p50: micros(latency.p50_ns),
            p90: micros(latency.p90_ns),
            p99: micros(latency.p99_ns),
            p999: micros(latency.p999_ns),
            max: micros(latency.max_ns),
        }
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
