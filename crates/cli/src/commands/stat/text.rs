//! What the store says of itself, as rows of text: a name, and what there is to say.

use thermocline::size::format_size;
use thermocline::{CompactionUse, LevelMetrics, Metrics, Plan, Result, TableIndexes, TtlPlan};
use thermocline_bench::grouped;

use crate::commands::memtables;
use crate::text::{count, name_shown, path_shown};

/// So many readers are shown, of those that have been there longest.
const READERS_SHOWN: usize = 8;

/// A name, and what there is to say.
pub(super) type Row = (&'static str, String);

/// All rows.
pub(super) fn rows(
    m: &Metrics,
    (huge_bytes, indexes): (Option<u64>, &Result<TableIndexes>),
    families: &[String],
    plan: &Plan,
) -> Vec<Row> {
    [
        memory(m),
        huge_pages(m, huge_bytes),
        contents(m, families, partitions(plan)),
        of_indexes(indexes),
        ttls(plan),
        holders(m),
        jobs(m),
        moves(m),
        reads(m),
    ]
    .concat()
}

/// How much of the region is reached through huge pages.
fn huge_pages(m: &Metrics, huge_bytes: Option<u64>) -> Vec<Row> {
    let text = huge_bytes.map(|bytes| {
        format!(
            "{} of {} of the region",
            format_size(bytes),
            format_size(m.region_bytes)
        )
    });
    text.map(|text| ("huge pages", text)).into_iter().collect()
}

/// Where records lie, and what memory is taken.
fn memory(m: &Metrics) -> Vec<Row> {
    vec![
        ("preset", m.preset.clone()),
        (
            "region",
            match m.region_kind {
                "none" => "none yet".to_string(),
                kind => format!("kind {kind} at {}", path_shown(&m.region_path)),
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
                    path_shown(path)
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
                "{} being written, {} waiting to be flushed, {} dead and not free yet{}{}",
                format_size(m.pm_active_bytes),
                format_size(m.pm_sealed_bytes),
                format_size(m.pm_retired_bytes),
                kept_for_feeds(m),
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
    ]
}

/// What is in the store, and how it was opened.
fn contents(m: &Metrics, families: &[String], partitions: String) -> Vec<Row> {
    let recovery = &m.recovery;
    vec![
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
    ]
}

/// What of families has expired, as far as it lies in tables.
fn ttls(plan: &Plan) -> Vec<Row> {
    let families = plan.families.iter();
    let ttls = families.filter_map(|family| Some((family.name.as_ref()?, family.ttl?)));
    let row = |(name, of): (&String, TtlPlan)| {
        let text = format!(
            "{} keeps {} s; of tables {} have expired as a whole, and {} may have in part",
            name_shown(name),
            grouped(of.ttl.as_secs()),
            format_size(of.expired_bytes),
            format_size(of.expiring_bytes - of.expired_bytes)
        );
        ("time to live", text)
    };
    ttls.map(row).collect()
}

/// What slows the store down, and who keeps something in it.
fn holders(m: &Metrics) -> Vec<Row> {
    let mut rows = Vec::new();
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
    if m.feed.open > 0 || m.feed.kept_memtables > 0 {
        let mut kept = format_size(m.feed.kept_bytes);
        if m.feed.kept_blob_bytes > 0 {
            kept += &format!(" and {} in blob files", format_size(m.feed.kept_blob_bytes));
        }
        rows.push((
            "change feeds",
            format!("{} open, {kept} kept for them", m.feed.open),
        ));
    }
    rows
}

/// What background work has done, and whom it held back.
fn jobs(m: &Metrics) -> Vec<Row> {
    let mut rows = Vec::new();
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
    if let Some(failure) = &m.compaction.last_failure {
        rows.push(("compaction failed", failure.clone()));
    }
    if let Some(percent) = m.compaction.percent_worked {
        let text = format!("{percent} % of their time, the rest is left to reads");
        rows.push(("compactions work", text));
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
    rows
}

/// What was moved between memtables and tables beside jobs.
fn moves(m: &Metrics) -> Vec<Row> {
    let mut rows = Vec::new();
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
                "{}, with {} of tables",
                count(m.ranges_along, "time"),
                format_size(m.bytes_along)
            ),
        ));
    }
    if m.ranges_ahead > 0 {
        let ranges = format!("{} of keys", count(m.ranges_ahead, "range"));
        rows.push(("flushed together", ranges));
    }
    rows
}

/// Where reads found their keys, and what writes became.
fn reads(m: &Metrics) -> Vec<Row> {
    let mut rows = Vec::new();
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
            let name = name.map_or("(metadata)".to_string(), name_shown);
            format!("{} of {name}{largest}", grouped(own.count as u64))
        })
        .collect();
    match all.is_empty() {
        true => "one, of all keys".to_string(),
        false => all.join("; "),
    }
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

/// What of dead memtables change feeds may ask for.
fn kept_for_feeds(m: &Metrics) -> String {
    match memtables::kept_bytes(m) {
        0 => String::new(),
        bytes => format!(" ({} of them kept for change feeds)", format_size(bytes)),
    }
}

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

/// What lies on the SSD, in a few words.
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

/// Which indexes tables have, where a learned one was wanted.
fn of_indexes(of: &Result<TableIndexes>) -> Vec<Row> {
    let text = match of {
        Err(error) => format!("not read: {error}"),
        Ok(of) if of.learned + of.fell_back == 0 => return Vec::new(),
        Ok(of) => format!(
            "{} learned; {} binary, as no learned one fits; {} binary, as was wanted",
            grouped(of.learned),
            grouped(of.fell_back),
            grouped(of.binary)
        ),
    };
    vec![("table indexes", text)]
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

/// What was merged inside persistent memory, for what, and the last decisions about that.
///
/// Merges are counted when they have ended, and what costs decide when it begins. So the two need not add up.
fn internal_rows(c: &CompactionUse) -> Vec<Row> {
    let (did, costs) = (&c.internal, &c.costs);
    let begun = costs.by_reads + costs.by_writes + costs.by_room;
    let mut rows = Vec::new();
    if did.jobs > 0 {
        let others = match did.jobs.saturating_sub(begun) {
            0 => String::new(),
            others => format!(", {} or more by hand or for a full disk", grouped(others)),
        };
        rows.push((
            "merged in level 0",
            format!(
                "{}{others}; {} read, {} written, {} dropped",
                count(did.jobs, "job"),
                format_size(did.bytes_read),
                format_size(did.bytes_written),
                count(did.entries_dropped, "record")
            ),
        ));
    }
    if begun + c.internal_given_up > 0 {
        rows.push((
            "merges begun",
            format!(
                "{} for reads, {} for writes and {} for room; {} gave up",
                grouped(costs.by_reads),
                grouped(costs.by_writes),
                grouped(costs.by_room),
                grouped(c.internal_given_up)
            ),
        ));
    }
    rows.extend(costs.last.iter().map(|text| ("decided", text.clone())));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_that_ended_are_told_apart_from_those_that_costs_began() {
        assert_eq!(internal_rows(&CompactionUse::default()), []);
        let mut c = CompactionUse::default();
        (c.costs.by_reads, c.costs.by_room, c.internal_given_up) = (2, 1, 1);
        let begun = "2 for reads, 0 for writes and 1 for room; 1 gave up";
        let begun = ("merges begun", begun.to_string());
        assert_eq!(internal_rows(&c), std::slice::from_ref(&begun));
        (c.internal.jobs, c.internal.bytes_read) = (2, 1 << 20);
        let merged = |jobs: &str| {
            let text = format!("{jobs}; 1 MiB read, 0 B written, 0 records dropped");
            ("merged in level 0", text)
        };
        assert_eq!(internal_rows(&c), [merged("2 jobs"), begun.clone()]);
        c.internal.jobs = 5;
        let jobs = "5 jobs, 2 or more by hand or for a full disk";
        assert_eq!(internal_rows(&c), [merged(jobs), begun]);
    }
}
