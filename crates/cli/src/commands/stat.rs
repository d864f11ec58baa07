//! `stat`: what lies where.

use serde_json::{Value, json};
use thermocline::size::format_size;
use thermocline::{CompactionUse, Db, GenerationMetrics, LevelMetrics, Metrics, Plan, ReaderState};
use thermocline_bench::grouped;

use crate::args::DbArgs;
use crate::fail::Outcome;
use crate::output::Output;
use crate::store::Access;
use crate::text::count;

/// So many readers are shown, of those that have been there longest.
const READERS_SHOWN: usize = 8;

/// Shows what the store says about itself.
pub(crate) fn stat(args: &DbArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    let (metrics, families, plan) = (db.metrics(), db.column_families(), db.plan());
    let shown = shown(&db, &families);
    db.close()?;
    if output.json {
        let mut document = as_json(&metrics, &families);
        document["partitions"] = partitions_as_json(&plan);
        return output.document(&document);
    }
    output.line(&args.db.display().to_string())?;
    for (name, text) in tiers(&metrics, &shown, partitions(&plan)) {
        output.line(&format!("  {name:<18} {text}"))?;
    }
    output.line("")?;
    output.line("Memtable generations")?;
    output.line(
        "      id  state             records   persistent memory           index  readers  views",
    )?;
    for g in &metrics.generations {
        output.line(&format!(
            "  {:>6}  {:<10} {:>14} {:>19} {:>15} {:>8} {:>6}",
            g.id,
            state(g),
            grouped(g.records),
            format_size(g.bytes),
            format_size(g.index_bytes),
            g.readers,
            g.views
        ))?;
    }
    if !metrics.levels.is_empty() {
        output.line("")?;
        output.line("Levels on the SSD")?;
        output.line(
            "   level     tables   runs           bytes           entries           deletes",
        )?;
        for l in &metrics.levels {
            output.line(&format!(
                "  {:>6} {:>10} {:>6} {:>15} {:>17} {:>17}",
                l.level,
                grouped(l.tables),
                grouped(l.runs),
                format_size(l.bytes),
                grouped(l.entries),
                grouped(l.deletes)
            ))?;
        }
    }
    if !metrics.latencies.is_empty() {
        output.line("")?;
        output.line("Latencies since the opening, in µs, of the operations that were timed")?;
        output.line(
            "  operation       timed       mean        p50        p99      p99.9        max",
        )?;
        for l in &metrics.latencies {
            output.line(&format!(
                "  {:<10} {:>10} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2}",
                l.operation,
                grouped(l.count),
                l.avg,
                l.p50,
                l.p99,
                l.p999,
                l.max
            ))?;
        }
    }
    output.line("")?;
    output.line("Options (change them with --set)")?;
    for (name, value) in &metrics.effective_options {
        output.line(&format!("  {name:<28} {value}"))?;
    }
    Ok(())
}

fn state(generation: &GenerationMetrics) -> &'static str {
    match generation {
        GenerationMetrics { retired: true, .. } => "retired",
        GenerationMetrics { sealed: true, .. } => "sealed",
        _ => "writing",
    }
}

/// The families as text, with what is special about them.
fn shown(db: &Db, families: &[String]) -> Vec<String> {
    let shown = |name: &String| {
        let family = db.find_column_family(name)?;
        Some(match family.options().reverse {
            Some(true) => format!("{name} (descending)"),
            _ => name.clone(),
        })
    };
    families.iter().filter_map(shown).collect()
}

/// How the keys of each family are divided.
fn partitions(plan: &Plan) -> String {
    let divided = plan.families.iter().filter(|f| f.partitions.count > 1);
    let all: Vec<String> = divided
        .map(|family| {
            let (name, own) = (family.name.as_deref(), &family.partitions);
            let largest = match own.bytes_most {
                0 => String::new(),
                bytes => format!(", the largest about {} on the SSD", format_size(bytes)),
            };
            let name = name.unwrap_or("(metadata)");
            format!("{} of {name}{largest}", grouped(own.count as u64))
        })
        .collect();
    match all.is_empty() {
        true => "one, of all keys".to_string(),
        false => all.join("; "),
    }
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

fn tiers(m: &Metrics, families: &[String], partitions: String) -> Vec<(&'static str, String)> {
    let recovery = &m.recovery;
    let mut rows = vec![
        ("preset", m.preset.clone()),
        (
            "region",
            match m.region_kind {
                "none" => "none yet".to_string(),
                kind => format!("kind {kind} at {}", m.region_path.display()),
            },
        ),
        ("survives", m.region_survives.to_string()),
        (
            "log",
            match &m.wal_path {
                None => "none: records are durable where they lie".to_string(),
                Some(path) => format!(
                    "{} written to {}",
                    format_size(m.wal_bytes_written),
                    path.display()
                ),
            },
        ),
        (
            match m.dram_records_bytes {
                0 => "persistent memory",
                _ => "records in DRAM",
            },
            format!(
                "{} in use in {}, {} free in {}; at most {}{}",
                format_size(m.pm_attached_bytes),
                count(m.zones_attached, "zone"),
                format_size(m.pm_free_bytes),
                count(m.zones_free, "zone"),
                format_size(m.pm_limit_bytes),
                on_its_disk(m)
            ),
        ),
        (
            "of that",
            format!(
                "{} being written, {} waiting to be flushed, {} dead and still read{}",
                format_size(m.pm_active_bytes),
                format_size(m.pm_sealed_bytes),
                format_size(m.pm_retired_bytes),
                in_pm_tables(m)
            ),
        ),
        (
            "DRAM",
            format!(
                "{} of indexes, {} for records, {} of {}, {} of blocks; at most {}",
                format_size(m.dram_index_bytes),
                format_size(m.dram_records_bytes),
                format_size(m.dram_tables_bytes),
                count(m.tables_open, "open table"),
                format_size(m.dram_blocks_bytes),
                format_size(m.dram_limit_bytes)
            ),
        ),
        ("SSD levels", on_ssd(m)),
        ("blob files", in_blobs(m)),
        ("partitions", partitions),
        ("column families", families.join(", ")),
        (
            "sequence numbers",
            format!(
                "{} visible, {} durable",
                grouped(m.seqno_visible),
                grouped(m.seqno_durable)
            ),
        ),
        (
            "opening",
            format!(
                "{} in {:.1} ms: {} indexed{}{}",
                if recovery.after_crash {
                    "after a crash,"
                } else {
                    "after an orderly close,"
                },
                recovery.seconds * 1000.0,
                count(recovery.records, "record"),
                match recovery.kept_records {
                    0 => String::new(),
                    kept => format!(", {} kept that were flushed", grouped(kept)),
                },
                match recovery.cut_records {
                    0 => String::new(),
                    cut => format!(", {} of unfinished writes cut off", count(cut, "record")),
                }
            ),
        ),
    ];
    if m.emulate != "none" {
        rows.push(("emulation", m.emulate.clone()));
    }
    if m.readers > 0 {
        rows.push(("readers", format!("{} open", grouped(m.readers))));
        for reader in m.readers_told.iter().take(READERS_SHOWN) {
            let behind = count(reader.behind, "change");
            rows.push(("", format!("{reader}, {behind} behind")));
        }
    }
    if m.feed.open > 0 || m.feed.kept_generations > 0 {
        let mut kept = format_size(m.feed.kept_bytes);
        if m.feed.kept_blob_bytes > 0 {
            kept += &format!(" and {} in blob files", format_size(m.feed.kept_blob_bytes));
        }
        rows.push((
            "change feeds",
            format!("{} open, {kept} kept for them", m.feed.open),
        ));
    }
    for (l, level) in m
        .compaction
        .levels
        .iter()
        .zip(0..)
        .filter(|(l, _)| l.jobs > 0)
    {
        let amplification = l.write_amplification();
        let amplification = amplification.map_or(String::new(), |w| {
            format!(", {w:.2} for each byte from above")
        });
        rows.push((
            "written by jobs",
            format!(
                "level {level}: {}, {} read, {} written{amplification}",
                count(l.jobs, "job"),
                format_size(l.bytes_read),
                format_size(l.bytes_written)
            ),
        ));
    }
    rows.extend(internal_rows(&m.compaction));
    let p = &m.partitions;
    if p.splits + p.merged + p.prefixes > 0 {
        rows.push((
            "partitions changed",
            format!(
                "{}, {} behind compactions, {} merged, {} of prefixes",
                count(p.splits, "split"),
                count(p.waits, "wait"),
                grouped(p.merged),
                grouped(p.prefixes)
            ),
        ));
    }
    if m.deliveries.events_lost > 0 {
        let lost = count(m.deliveries.events_lost, "event");
        rows.push(("not told", format!("{lost}: too many waited")));
    }
    for stall in m.stalls.iter().filter(|stall| stall.count > 0) {
        rows.push((
            "writers held back",
            format!(
                "by {}: {}, {:.1} ms in all, {:.1} ms at most",
                stall.cause,
                count(stall.count, "time"),
                stall.ms,
                stall.ms_max
            ),
        ));
    }
    if m.index_merges > 0 {
        rows.push((
            "indexes merged",
            format!(
                "{}, {} moved",
                count(m.index_merges, "time"),
                count(m.index_keys_merged, "key")
            ),
        ));
    }
    if m.rewrites > 0 {
        rows.push((
            "rewritten",
            format!(
                "{}, {} of records given up for what lived in them",
                count(m.rewrites, "time"),
                format_size(m.rewritten_bytes)
            ),
        ));
    }
    if m.ranges_along > 0 {
        rows.push((
            "left with flushes",
            format!(
                "{} of keys, with {} of tables",
                count(m.ranges_along, "range"),
                format_size(m.bytes_along)
            ),
        ));
    }
    if m.ranges_ahead > 0 {
        let ranges = format!("{} of keys", count(m.ranges_ahead, "range"));
        rows.push(("flushed together", ranges));
    }
    let in_pm = m.hits.memtable + m.hits.global_index + m.hits.pm_table;
    let found = in_pm + m.hits.block_cache + m.hits.ssd;
    if found > 0 {
        rows.push((
            "reads found in",
            format!(
                "memtables {}, the global index {}, PM tables {}, cached blocks {}, the SSD {}",
                grouped(m.hits.memtable),
                grouped(m.hits.global_index),
                grouped(m.hits.pm_table),
                grouped(m.hits.block_cache),
                grouped(m.hits.ssd)
            ),
        ));
    }
    let written = (m.write_amplification_pm(), m.write_amplification_ssd());
    rows.push((
        "amplification",
        match written {
            (Some(pm), Some(ssd)) => {
                format!("{pm:.2} in persistent memory, {ssd:.2} on the SSD")
            }
            _ => "counted from the opening; nothing was written since".to_string(),
        },
    ));
    rows
}

/// Why persistent memory may not be as large as it was allowed to be.
fn on_its_disk(m: &Metrics) -> String {
    match m.pm_limit_bytes < m.pm_allowed_bytes {
        false => String::new(),
        true => format!(
            ", since its disk has no room for the {} that are allowed; what is free at its end goes back when \
             the disk is full, or nearly so and the store idle",
            format_size(m.pm_allowed_bytes)
        ),
    }
}

/// What lies on the SSD, in a few words.
/// The part of level 0 that lies in persistent memory.
fn in_pm_tables(m: &Metrics) -> String {
    match m.pm_tables {
        0 => String::new(),
        tables => format!(
            "; {} of level 0 in {}, of which {} are compacted and still read",
            format_size(m.pm_table_bytes),
            count(tables, "PM table"),
            format_size(m.pm_table_retired_bytes)
        ),
    }
}

fn on_ssd(m: &Metrics) -> String {
    let of = |value: fn(&LevelMetrics) -> u64| m.levels.iter().map(value).sum::<u64>();
    match of(|level| level.tables) {
        0 => "no tables yet".to_string(),
        tables => format!(
            "{} in {}, with {}",
            format_size(of(|level| level.bytes)),
            count(tables, "table"),
            match of(|level| level.entries) {
                1 => "1 entry".to_string(),
                entries => format!("{} entries", grouped(entries)),
            }
        ),
    }
}

/// What long values take, in a few words.
fn in_blobs(m: &Metrics) -> String {
    let blobs = &m.blobs;
    match blobs.files {
        0 => "none: no long values".to_string(),
        files => format!(
            "{} in {}: {} in tables, {} in memtables, {} garbage",
            format_size(blobs.bytes),
            count(files, "file"),
            format_size(blobs.table_bytes),
            format_size(blobs.memtable_bytes),
            format_size(blobs.garbage_bytes)
        ),
    }
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

fn as_json(m: &Metrics, families: &[String]) -> Value {
    let generations: Vec<Value> = m
        .generations
        .iter()
        .map(|g| {
            json!({
                "id": g.id,
                "sealed": g.sealed,
                "records": g.records,
                "bytes": g.bytes,
                "index_bytes": g.index_bytes,
                "retired": g.retired,
                "views": g.views,
                "readers": g.readers,
            })
        })
        .collect();
    let options: serde_json::Map<String, Value> = m
        .effective_options
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
        .collect();
    let mut document = json!({
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
        "generations": generations,
        "generations_dropped": m.generations_dropped,
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
        "effective_options": options,
    });
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
    document["wal_path"] = json!(m.wal_path);
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
        "kept_generations": m.feed.kept_generations,
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
    document
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
        "running": c.running,
        "level0_runs": c.level0_runs,
        "pending_bytes": c.pending_bytes,
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

/// What was merged inside persistent memory, and the last decisions about that.
fn internal_rows(c: &CompactionUse) -> Vec<(&'static str, String)> {
    let (did, costs) = (&c.internal, &c.costs);
    let mut rows = Vec::new();
    if did.jobs > 0 {
        rows.push((
            "merged in level 0",
            format!(
                "{}, {} for reads, {} for writes and {} for room; {} read, {} written, {} dropped",
                count(did.jobs, "job"),
                grouped(costs.by_reads),
                grouped(costs.by_writes),
                grouped(costs.by_room),
                format_size(did.bytes_read),
                format_size(did.bytes_written),
                count(did.entries_dropped, "record")
            ),
        ));
    }
    rows.extend(costs.last.iter().map(|text| ("decided", text.clone())));
    rows
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
        "panics": runtime.panics,
        "dram_limit_bytes": (runtime.dram_limit_bytes < u64::MAX).then_some(runtime.dram_limit_bytes),
        "dram_used_bytes": runtime.dram_used_bytes,
        "dram_held_bytes": runtime.dram_held_bytes,
        "dram_charged_bytes": runtime.dram_charged_bytes,
    })
}
