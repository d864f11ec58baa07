//! What a log says about a store after each line of its script.

use std::fmt::Write as _;

use thermocline_engine::{Engine, LevelState};

/// Adds the counts of `engine` to `log`.
pub fn write(engine: &Engine, log: &mut String) {
    let metrics = engine.metrics();
    for decision in &metrics.compaction.costs.last {
        writeln!(log, "  costs: {decision}").unwrap();
    }
    let (pm, ssd) = (&metrics.pm, &metrics.ssd);
    writeln!(
        log,
        "  bytes: user {} | pm stored {} lines {} fences {} media {} | tables read {} written {} | blobs read {} \
         written {} | manifest {} | region {}",
        metrics.user_bytes,
        pm.bytes_stored,
        pm.lines_written_back,
        pm.fences,
        pm.media_bytes,
        ssd.tables_read,
        ssd.tables_written,
        ssd.blobs_read,
        ssd.blobs_written,
        ssd.manifest_written,
        metrics.space.region_bytes,
    )
    .unwrap();
    let tier = &metrics.pm_tier;
    writeln!(
        log,
        "  pm: active {} sealed {} retired {} | tables {} of {} bytes, retired {} | memtables {}",
        tier.active,
        tier.sealed,
        tier.retired,
        tier.tables,
        tier.table_bytes,
        tier.table_bytes_retired,
        metrics.memtables.len(),
    )
    .unwrap();
    let level = |level: &LevelState| {
        format!(
            "L{} {} tables, {} runs, {} bytes, {} entries",
            level.level, level.tables, level.runs, level.bytes, level.entries
        )
    };
    let levels: Vec<String> = metrics.levels.iter().map(level).collect();
    writeln!(log, "  levels: {}", levels.join(" | ")).unwrap();
    let use_of = &metrics.compaction;
    let reasons = use_of.reasons.iter().filter(|(_, jobs)| *jobs > 0);
    let reasons: Vec<String> = reasons
        .map(|(why, jobs)| format!("{why:?} {jobs}"))
        .collect();
    writeln!(
        log,
        "  jobs: flushes {} of {} bytes, index merges {}, rewrites {}, along {} | {} | given up {} | costs {} {} {} {}",
        metrics.flushes,
        metrics.flushed_bytes,
        metrics.merges,
        metrics.rewrites,
        metrics.ranges_along,
        reasons.join(", "),
        use_of.internal_given_up,
        use_of.costs.by_reads,
        use_of.costs.by_writes,
        use_of.costs.by_room,
        use_of.costs.by_warmth,
    )
    .unwrap();
    let partitions = &metrics.partitions;
    let stalls = metrics.stalls.iter().filter(|(_, used)| used.count > 0);
    let stalls: Vec<String> = stalls
        .map(|(cause, used)| format!("{} {used:?}", cause.name()))
        .collect();
    writeln!(
        log,
        "  partitions {} | stalls {} | found {} of {} gets, asked {}",
        partitions.count,
        stalls.join(", "),
        metrics.found,
        metrics.gets,
        metrics.asked,
    )
    .unwrap();
}
