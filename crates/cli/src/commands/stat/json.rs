//! What the store says of itself, as one JSON document.

use serde_json::{Value, json};
use thermocline::options::AsyncIo;
use thermocline::{CompactionUse, Metrics, Plan, ReaderState, Result, TableIndexes};

use super::reading::refused_as_json;

/// The document. Its members stay in their order: what is new comes last.
pub(super) fn as_json(m: &Metrics, families: &[String], plan: &Plan) -> Value {
    let mut document = first_members(m, families);
    add_memory(&mut document, m);
    add_work(&mut document, m);
    document["partitions"] = partitions_as_json(plan);
    document["write_times"] = write_times_as_json(m);
    document["ttls"] = ttls_as_json(plan);
    document
}

/// Tables by their index, or why they could not be read.
pub(super) fn indexes_as_json(indexes: &Result<TableIndexes>) -> Value {
    match indexes {
        Ok(indexes) => json!({
            "binary": indexes.binary,
            "learned": indexes.learned,
            "fell_back": indexes.fell_back,
        }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn first_members(m: &Metrics, families: &[String]) -> Value {
    json!({
        "preset": m.preset,
        "region_kind": m.region_kind,
        "region_survives": m.region_survives,
        "region_path": m.region_path.display().to_string(),
        "region_bytes": m.region_bytes,
        "emulate": m.emulate,
        "pm_limit_bytes": m.pm_limit_bytes,
        "pm_attached_bytes": m.pm_attached_bytes,
        "pm_free_bytes": m.pm_free_bytes,
        "zones_attached": m.zones_attached,
        "zones_free": m.zones_free,
        "dram_index_bytes": m.dram_index_bytes,
        "dram_limit_bytes": m.dram_limit_bytes,
        "column_families": families,
        "memtables": memtables_as_json(m),
        "memtables_dropped": m.memtables_dropped,
        "seqno_visible": m.seqno_visible,
        "seqno_durable": m.seqno_durable,
        "user_bytes_written": m.user_bytes_written,
        "pm_bytes_written": m.pm_bytes_written,
        "pm_media_bytes_written": m.pm_media_bytes_written,
        "pm_lines_written_back": m.pm_lines_written_back,
        "pm_fences": m.pm_fences,
        "ssd_bytes_written": m.ssd_bytes_written,
        "ssd_bytes_read": m.ssd_bytes_read,
        "puts": m.puts,
        "deletes": m.deletes,
        "range_deletes": m.range_deletes,
        "gets": m.gets,
        "gets_found": m.gets_found,
        "readers": m.readers,
        "stall_ms": m.stall_ms,
        "stall_ms_max": m.stall_ms_max,
        "stall_count": m.stall_count,
        "hits": {
            "memtable": m.hits.memtable,
            "global_index": m.hits.global_index,
            "pm_table": m.hits.pm_table,
            "block_cache": m.hits.block_cache,
            "ssd": m.hits.ssd,
        },
        "recovery": {
            "records": m.recovery.records,
            "chains": m.recovery.chains,
            "cut_records": m.recovery.cut_records,
            "after_crash": m.recovery.after_crash,
            "seconds": m.recovery.seconds,
        },
        "effective_options": options_as_json(m),
    })
}

fn add_memory(document: &mut Value, m: &Metrics) {
    let readers = m.readers_told.iter().map(reader_as_json);
    document["readers_told"] = readers.collect();
    document["pm_allowed_bytes"] = m.pm_allowed_bytes.into();
    document["pm_active_bytes"] = m.pm_active_bytes.into();
    document["pm_sealed_bytes"] = m.pm_sealed_bytes.into();
    document["pm_retired_bytes"] = m.pm_retired_bytes.into();
    document["pm_tables"] = m.pm_tables.into();
    document["pm_table_bytes"] = m.pm_table_bytes.into();
    document["pm_table_retired_bytes"] = m.pm_table_retired_bytes.into();
    document["dram_tables_bytes"] = m.dram_tables_bytes.into();
    document["dram_blocks_bytes"] = m.dram_blocks_bytes.into();
    let wal_path = m.wal_path.as_ref();
    document["wal_path"] = wal_path.map(|path| path.display().to_string()).into();
    document["wal_bytes_written"] = m.wal_bytes_written.into();
    document["dram_records_bytes"] = m.dram_records_bytes.into();
    document["tables_open"] = m.tables_open.into();
    document["index_merges"] = m.index_merges.into();
    document["index_keys_merged"] = m.index_keys_merged.into();
    document["rewrites"] = m.rewrites.into();
    document["rewritten_bytes"] = m.rewritten_bytes.into();
    document["ranges_along"] = m.ranges_along.into();
    document["bytes_along"] = m.bytes_along.into();
    document["ranges_ahead"] = m.ranges_ahead.into();
}

fn add_work(document: &mut Value, m: &Metrics) {
    document["levels"] = levels_as_json(m);
    document["compaction"] = compaction_as_json(&m.compaction);
    document["partition_changes"] = json!({
        "splits": m.partitions.splits,
        "waits": m.partitions.waits,
        "merged": m.partitions.merged,
        "prefixes": m.partitions.prefixes,
    });
    document["recovery"]["kept_records"] = json!(m.recovery.kept_records);
    document["blobs"] = json!({
        "files": m.blobs.files,
        "bytes": m.blobs.bytes,
        "table_bytes": m.blobs.table_bytes,
        "memtable_bytes": m.blobs.memtable_bytes,
        "garbage_bytes": m.blobs.garbage_bytes,
    });
    document["block_cache"] = json!({
        "hits": m.block_cache.hits,
        "misses": m.block_cache.misses,
        "bytes": m.block_cache.bytes,
        "bytes_max": m.block_cache.bytes_max,
    });
    document["write_amplification_pm"] = m.write_amplification_pm().into();
    document["write_amplification_ssd"] = m.write_amplification_ssd().into();
    document["feed"] = json!({
        "open": m.feed.open,
        "kept_memtables": m.feed.kept_memtables,
        "kept_bytes": m.feed.kept_bytes,
        "kept_blob_bytes": m.feed.kept_blob_bytes,
        "oldest": m.feed.oldest,
    });
    document["stalls"] = stalls_as_json(m);
    document["keys_stepped_over"] = json!(m.keys_stepped_over);
    document["deliveries"] = json!({
        "commits": m.deliveries.commits,
        "events": m.deliveries.events,
        "events_lost": m.deliveries.events_lost,
    });
    document["latency_us"] = latencies_as_json(m);
    document["runtime"] = runtime_as_json(m);
}

fn memtables_as_json(m: &Metrics) -> Value {
    m.memtables
        .iter()
        .map(|memtable| {
            json!({
                "id": memtable.id,
                "sealed": memtable.sealed,
                "records": memtable.records,
                "bytes": memtable.bytes,
                "index_bytes": memtable.index_bytes,
                "retired": memtable.retired,
                "views": memtable.views,
                "readers": memtable.readers,
            })
        })
        .collect()
}

fn options_as_json(m: &Metrics) -> Value {
    let options: serde_json::Map<String, Value> = m
        .effective_options
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    options.into()
}

fn partitions_as_json(plan: &Plan) -> Value {
    let all = plan.families.iter().map(|family| {
        json!({
            "family": family.name.as_deref().unwrap_or("(metadata)"),
            "count": family.partitions.count,
            "bytes_most": family.partitions.bytes_most,
            "bytes_due": family.partitions.bytes_due,
        })
    });
    all.collect()
}

fn reader_as_json(reader: &ReaderState) -> Value {
    json!({
        "kind": reader.kind.name(),
        "seqno": reader.seqno,
        "held_seconds": reader.held.as_secs_f64(),
        "changes_behind": reader.behind,
        "in_call": reader.in_call,
        "retired_bytes": reader.retired_bytes,
    })
}

fn compaction_as_json(c: &CompactionUse) -> Value {
    let levels = c.levels.iter().zip(0..).map(|(l, level)| {
        json!({
            "level": level,
            "jobs": l.jobs,
            "tables_moved": l.tables_moved,
            "bytes_read": l.bytes_read,
            "bytes_in": l.bytes_in,
            "bytes_written": l.bytes_written,
            "entries_dropped": l.entries_dropped,
            "write_amplification": l.write_amplification(),
        })
    });
    let reasons = c.reasons.iter();
    let reasons = reasons.map(|(reason, jobs)| (reason.name().to_string(), json!(jobs)));
    json!({
        "levels": levels.collect::<Vec<Value>>(),
        "reasons": reasons.collect::<serde_json::Map<String, Value>>(),
        "failed": c.failed,
        "last_failure": c.last_failure,
        "running": c.running,
        "level0_runs": c.level0_runs,
        "pending_bytes": c.pending_bytes,
        "percent_worked": c.percent_worked,
        "filters": {
            "removed": c.filters.removed,
            "changed": c.filters.changed,
            "undone": c.filters.undone,
            "failed": c.filters.failed,
            "expired": c.filters.expired,
        },
        "internal": {
            "jobs": c.internal.jobs,
            "given_up": c.internal_given_up,
            "bytes_read": c.internal.bytes_read,
            "bytes_written": c.internal.bytes_written,
            "entries_dropped": c.internal.entries_dropped,
            "by_reads": c.costs.by_reads,
            "by_writes": c.costs.by_writes,
            "by_room": c.costs.by_room,
            "by_warmth": c.costs.by_warmth,
            "decisions": c.costs.last,
        },
    })
}

fn levels_as_json(m: &Metrics) -> Value {
    let levels = m.levels.iter().map(|l| {
        json!({
            "level": l.level,
            "tables": l.tables,
            "runs": l.runs,
            "bytes": l.bytes,
            "entries": l.entries,
            "deletes": l.deletes,
        })
    });
    levels.collect()
}

fn stalls_as_json(m: &Metrics) -> Value {
    let stalls = m.stalls.iter().map(|stall| {
        let value = json!({
            "count": stall.count,
            "ms": stall.ms,
            "ms_max": stall.ms_max,
        });
        (stall.cause.to_string(), value)
    });
    stalls.collect::<serde_json::Map<String, Value>>().into()
}

fn latencies_as_json(m: &Metrics) -> Value {
    let latencies = m.latencies.iter().map(|l| {
        let value = json!({
            "count": l.count,
            "avg": l.avg,
            "p50": l.p50,
            "p90": l.p90,
            "p99": l.p99,
            "p999": l.p999,
            "max": l.max,
        });
        (l.operation.to_string(), value)
    });
    latencies.collect::<serde_json::Map<String, Value>>().into()
}

fn runtime_as_json(m: &Metrics) -> Value {
    let Some(runtime) = m.runtime else {
        return Value::Null;
    };
    json!({
        "stores": runtime.stores,
        "workers": runtime.workers,
        "workers_limit": runtime.workers_limit,
        "stores_waiting": runtime.stores_waiting,
        "couriers": runtime.couriers,
        "couriers_limit": runtime.couriers_limit,
        "calls_waiting": runtime.calls_waiting,
        "timers": runtime.timers,
        "async_io": runtime.async_reads.way.map(AsyncIo::name),
        "async_helpers": runtime.async_reads.helpers,
        "job_io": runtime.job_io.way.map(AsyncIo::name),
        "job_writers": runtime.job_io.writers,
        "panics": runtime.panics,
        "dram_limit_bytes": (runtime.dram_limit_bytes < u64::MAX).then_some(runtime.dram_limit_bytes),
        "dram_used_bytes": runtime.dram_used_bytes,
        "dram_held_bytes": runtime.dram_held_bytes,
        "dram_charged_bytes": runtime.dram_charged_bytes,
        "async_io_refused": refused_as_json(runtime.async_reads.refused),
        "job_io_refused": refused_as_json(runtime.job_io.refused),
    })
}

fn write_times_as_json(m: &Metrics) -> Value {
    let times = m.write_times.map(|times| {
        json!({
            "pairs": times.pairs,
            "oldest_unix_s": times.oldest_unix_s,
            "newest_unix_s": times.newest_unix_s,
            "newest_seqno": times.newest_seqno,
        })
    });
    times.unwrap_or(Value::Null)
}

/// Of each family that has one, and tables.
fn ttls_as_json(plan: &Plan) -> Value {
    let ttls = plan.families.iter().filter_map(|family| {
        let (name, ttl) = (family.name.clone()?, family.ttl?);
        let value = json!({
            "ttl_seconds": ttl.ttl.as_secs(),
            "expired_seqno": ttl.expired,
            "expired_bytes": ttl.expired_bytes,
            "expiring_bytes": ttl.expiring_bytes,
        });
        Some((name, value))
    });
    ttls.collect::<serde_json::Map<String, Value>>().into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// A database may lie in such a folder, and its logs with it.
    #[test]
    fn a_place_that_is_no_text_is_told_as_far_as_it_is() {
        let m = Metrics {
            wal_path: Some(OsStr::from_bytes(b"db\xff").into()),
            ..Metrics::default()
        };
        let mut document = json!({});
        add_memory(&mut document, &m);
        assert_eq!(document["wal_path"], "db\u{fffd}");
        add_memory(&mut document, &Metrics::default());
        assert!(document["wal_path"].is_null());
    }
}
