//! `explain`: what lies in which tier, and what background work comes next, as text or as a page.

mod job;
mod page;
mod picture;

use serde_json::{Value, json};
use thermocline::size::format_size;
use thermocline::{
    CompactionPlan, FamilyPlan, FlushPlan, LevelPlan, Metrics, PartitionRate, PartitionsPlan, Plan,
    RewritePlan,
};
use thermocline_bench::grouped;

use super::{level0, memtables};
use crate::args::ExplainArgs;
use crate::fail::Outcome;
use crate::output::Output;
use crate::store::Access;
use crate::text::{count, escape, name_shown, path_shown};
use page::Page;

/// Characters of a full bar.
const BAR: u64 = 32;

/// Draws the tiers, and says what is decided about them and why.
pub(crate) fn explain(args: &ExplainArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    let (metrics, plan, map) = (db.metrics(), db.plan(), db.map());
    let name = |family: &FamilyPlan| family.name.clone().unwrap_or("(metadata)".into());
    let names: Vec<String> = plan.families.iter().map(name).collect();
    let shown: Vec<String> = names.iter().map(|name| name_shown(name)).collect();
    db.close()?;
    if let Some(path) = &args.output {
        let page = Page {
            title: &args.db.display().to_string(),
            metrics: &metrics,
            map: &map,
            next: &sentences(&plan, &shown),
        };
        crate::files::write_into(path, page.html().as_bytes())?;
        output.note(&format!(
            "{} shows {}",
            path_shown(path),
            path_shown(&args.db)
        ))?;
    }
    if output.json {
        return output.document(&as_json(&plan, &names));
    }
    if args.output.is_some() {
        return Ok(());
    }
    output.line(&path_shown(&args.db))?;
    for line in drawn(&metrics, &plan, &shown) {
        output.line(&line)?;
    }
    output.line("")?;
    output.line("Next")?;
    for sentence in sentences(&plan, &shown) {
        output.line(&format!("  {sentence}"))?;
    }
    Ok(())
}

fn bar(part: u64, whole: u64) -> String {
    let filled = (part.saturating_mul(BAR)).div_ceil(whole.max(1)).min(BAR);
    (0..BAR)
        .map(|n| if n < filled { '#' } else { '.' })
        .collect()
}

fn row(name: &str, part: u64, whole: u64, text: &str) -> String {
    let size = format_size(part);
    format!("  {name:<22} {size:>10}  {}  {text}", bar(part, whole))
}

fn drawn(m: &Metrics, plan: &Plan, names: &[String]) -> Vec<String> {
    [
        dram_lines(m),
        pm_lines(m, plan, names),
        ssd_lines(m, plan, names),
    ]
    .concat()
}

fn dram_lines(m: &Metrics) -> Vec<String> {
    let records = m.dram_records_bytes;
    let dram = m.dram_index_bytes + m.dram_tables_bytes + m.dram_blocks_bytes + records;
    let mut lines = vec![
        "".into(),
        format!(
            "DRAM: {} of {}",
            format_size(dram),
            format_size(m.dram_limit_bytes)
        ),
        row(
            "indexes",
            m.dram_index_bytes,
            m.dram_limit_bytes,
            "of what lies in persistent memory",
        ),
        row(
            "open tables",
            m.dram_tables_bytes,
            m.dram_limit_bytes,
            "filters and tops of indexes",
        ),
        row(
            "blocks",
            m.dram_blocks_bytes,
            m.dram_limit_bytes,
            "cached, and buffers",
        ),
    ];
    if records > 0 {
        let text = "room for memtables, see below";
        lines.push(row("records", records, m.dram_limit_bytes, text));
    }
    lines
}

fn pm_lines(m: &Metrics, plan: &Plan, names: &[String]) -> Vec<String> {
    let mut lines = vec![
        "".into(),
        format!(
            "{}: {} of {}",
            match m.dram_records_bytes {
                0 => "Persistent memory",
                _ => "Records in DRAM",
            },
            format_size(m.pm_attached_bytes),
            format_size(m.pm_limit_bytes)
        ),
    ];
    for memtable in m.memtables.iter().rev() {
        let (state, text) = match (memtable.retired, memtable.sealed) {
            (true, _) => ("dead", memtables::why_there(m, memtable)),
            (_, true) => ("sealed", "waits to be flushed"),
            _ => ("written", "takes the writes"),
        };
        let name = format!("memtable {}, {state}", memtable.id);
        let text = format!("{}; {text}", count(memtable.records, "record"));
        lines.push(row(&name, memtable.bytes, m.pm_limit_bytes, &text));
    }
    for (family, name) in plan.families.iter().zip(names) {
        let level = &family.level0_pm;
        if level.tables > 0 {
            let of = match names.len() {
                1 => "level 0".to_string(),
                _ => format!("level 0 of {name}"),
            };
            let text = level_text(level);
            lines.push(row(&of, level.bytes, m.pm_limit_bytes, &text));
        }
    }
    // So that the rows add up to what is taken, by which it is decided what comes next.
    let records: u64 = m.memtables.iter().map(|memtable| memtable.bytes).sum();
    let tables: u64 = plan.families.iter().map(|f| f.level0_pm.bytes).sum();
    let rest = m.pm_attached_bytes.saturating_sub(records + tables);
    if rest > 0 {
        let text = "room in zones that were begun, and beside tables";
        lines.push(row("rest of zones", rest, m.pm_limit_bytes, text));
    }
    lines
}

fn ssd_lines(m: &Metrics, plan: &Plan, names: &[String]) -> Vec<String> {
    let tables: u64 = m.levels.iter().map(|level| level.bytes).sum();
    let on_ssd = tables + m.blobs.bytes;
    let mut lines = vec!["".into(), format!("SSD: {}", format_size(on_ssd))];
    for (family, name) in plan.families.iter().zip(names) {
        if names.len() > 1 {
            lines.push(format!("  column family {name}"));
        }
        for (n, level) in family.levels.iter().enumerate() {
            if level.tables > 0 {
                let text = level_text(level);
                lines.push(row(&format!("level {n}"), level.bytes, on_ssd, &text));
            }
        }
    }
    if m.blobs.files > 0 {
        let text = format!(
            "{}; about {} are garbage",
            count(m.blobs.files, "file"),
            format_size(m.blobs.garbage_bytes)
        );
        lines.push(row("blob files", m.blobs.bytes, on_ssd, &text));
    }
    lines
}

fn level_text(level: &LevelPlan) -> String {
    let tables = count(level.tables as u64, "table");
    match (level.runs_due, level.bytes_due) {
        (Some(runs), Some(bytes)) => format!(
            "{tables} in {}; compacted from {} or {} on (score {:.2})",
            count(level.runs as u64, "run"),
            count(runs as u64, "run"),
            format_size(bytes),
            level.score
        ),
        (_, Some(bytes)) => format!(
            "{tables}; compacted from {} on (score {:.2})",
            format_size(bytes),
            level.score
        ),
        _ => format!("{tables}; the last level"),
    }
}

fn sentences(plan: &Plan, names: &[String]) -> Vec<String> {
    let mut all = vec![flush_text(&plan.flush)];
    all.extend(plan.rewrite.as_ref().map(rewrite_text));
    for (family, name) in plan.families.iter().zip(names) {
        let what = match names.len() {
            1 => "compaction".to_string(),
            _ => format!("compaction of {name}"),
        };
        all.push(match &family.next {
            Some(next) => format!("{what}: {}", job::text(next)),
            None => format!("{what}: none is due; {}", nearest_text(family)),
        });
    }
    if plan.families.is_empty() {
        all.push("compaction: none; nothing lies on the SSD".into());
    }
    all.extend(plan.level0.iter().flat_map(level0::sentences));
    let divided = plan.families.iter().zip(names);
    let divided =
        divided.filter(|(f, _)| f.partitions.count > 1 || f.partitions.bytes_due.is_some());
    all.extend(divided.map(|(family, name)| partitions_text(&family.partitions, name)));
    all.push(match &plan.delay {
        None => "writers: not held back".into(),
        Some(delay) => format!(
            "writers: held back by {:.1} ns a byte, for {}",
            delay.nanos_per_byte,
            delay.cause.name()
        ),
    });
    let given = |percent: u64| {
        format!("clients: compactions work {percent} % of their time, and leave the rest to reads")
    };
    all.extend(plan.percent_worked.map(given));
    all
}

/// Which level is nearest to a compaction, where none is due.
fn nearest_text(family: &FamilyPlan) -> String {
    let levels = family.levels.iter().enumerate();
    let levels = levels.map(|(n, level)| (format!("level {n}"), level.score));
    let in_pm = "level 0 in persistent memory".to_string();
    let mut nearest = ("level 0".to_string(), 0.0);
    for level in levels.chain([(in_pm, family.level0_pm.score)]) {
        if level.1 > nearest.1 {
            nearest = level;
        }
    }
    let (name, score) = nearest;
    format!("{name} is nearest to it, with a score of {score:.2} of 1")
}

fn partitions_text(p: &PartitionsPlan, family: &str) -> String {
    let shown = |key: &[u8]| {
        let mut text = String::new();
        escape(key, &mut text);
        text
    };
    let next = match (&p.split, &p.merge[..], p.bytes_due) {
        (Some(key), _, _) => format!("; the next split is at {}", shown(key)),
        (_, [key], _) => format!("; the one from {} on is merged next", shown(key)),
        (_, [key, ..], _) => format!(
            "; {} are merged next, the first from {} on",
            grouped(p.merge.len() as u64),
            shown(key)
        ),
        (_, _, Some(_)) => "; none is split or merged now".into(),
        _ => String::new(),
    };
    let due = p.bytes_due.map_or(String::new(), |due| {
        format!(" (split from {} on)", format_size(due))
    });
    let total = |rate: &PartitionRate| rate.reads + rate.writes;
    let busiest = p.rates.iter().max_by(|a, b| total(a).total_cmp(&total(b)));
    let busiest = busiest.map_or(String::new(), |rate| {
        format!(
            "; the busiest, from {} on, has lately {:.0} reads, {:.0} writes and {:.0} updates a second",
            match rate.start.is_empty() {
                true => "the first key".to_string(),
                false => shown(&rate.start),
            },
            rate.reads,
            rate.writes,
            rate.updates
        )
    });
    format!(
        "partitions of {family}: {}, the largest with about {} on the SSD{due}{next}{busiest}",
        grouped(p.count as u64),
        format_size(p.bytes_most)
    )
}

/// Partitions of which the rates are told.
const BUSIEST: usize = 10;

/// The busiest ones, and how often they are read and written.
fn rates_as_json(p: &PartitionsPlan) -> Value {
    let mut rates: Vec<&PartitionRate> = p.rates.iter().collect();
    rates.sort_by(|a, b| (b.reads + b.writes).total_cmp(&(a.reads + a.writes)));
    let told = rates.into_iter().take(BUSIEST).map(|rate| {
        json!({
            "start": rate.start.escape_ascii().to_string(),
            "reads_per_s": rate.reads,
            "writes_per_s": rate.writes,
            "updates_per_s": rate.updates,
        })
    });
    told.collect()
}

fn flush_text(f: &FlushPlan) -> String {
    let when = match (f.automatic, f.due) {
        (false, _) => "only when asked for",
        (_, true) => "due now",
        (_, false) => "not due",
    };
    let memtables = match f.sealed_due {
        0 => String::new(),
        due => format!(
            "{} sealed (due from {due} on), ",
            count(f.sealed as u64, "memtable")
        ),
    };
    format!(
        "flush: {when}; {memtables}{} of zones sealed (due from {} on), {} of long \
         values (from {} on), {} of DRAM taken (from {} on), {} left (from {} down)",
        format_size(f.sealed_bytes),
        format_size(f.sealed_bytes_due),
        format_size(f.sealed_blob_bytes),
        format_size(f.sealed_blob_bytes_due),
        format_size(f.dram_bytes),
        format_size(f.dram_bytes_due),
        count(f.memtables_free as u64, "place"),
        grouped(f.memtables_free_due as u64),
    )
}

fn rewrite_text(r: &RewritePlan) -> String {
    let lives = match r.live_bytes {
        Some(live) => format!("{} of {}", format_size(live), format_size(r.bytes)),
        None => format!(
            "more than one part in {} of {}",
            r.ratio,
            format_size(r.bytes)
        ),
    };
    let where_to = match r.rewrites() {
        true => "it rewrites that inside persistent memory",
        false => "it goes to the SSD",
    };
    format!(
        "the next flush: {lives} that are sealed live, and tables in persistent memory may have {} more; \
         {where_to}",
        format_size(r.room_bytes)
    )
}

fn level_as_json((n, level): (usize, &LevelPlan)) -> Value {
    json!({
        "level": n,
        "tables": level.tables,
        "bytes": level.bytes,
        "runs": level.runs,
        "bytes_due": level.bytes_due,
        "runs_due": level.runs_due,
        "score": level.score,
    })
}

fn next_as_json(next: &CompactionPlan) -> Value {
    json!({
        "reason": next.reason.name(),
        "because": next.because,
        "from": next.from,
        "to": next.to,
        "tables": next.tables,
        "bytes": next.bytes,
        "moved": next.moved,
    })
}

fn family_as_json(family: &FamilyPlan, name: &str) -> Value {
    let levels: Vec<Value> = family
        .levels
        .iter()
        .enumerate()
        .map(level_as_json)
        .collect();
    json!({
        "family": name,
        "levels": levels,
        "level0_pm": level_as_json((0, &family.level0_pm)),
        "running": family.running,
        "partitions": {
            "count": family.partitions.count,
            "bytes_most": family.partitions.bytes_most,
            "bytes_due": family.partitions.bytes_due,
            "split": family.partitions.split.as_ref().map(|key| key.escape_ascii().to_string()),
            "merged": family.partitions.merge.len(),
            "busiest": rates_as_json(&family.partitions),
        },
        "next": family.next.as_ref().map(next_as_json),
    })
}

fn as_json(plan: &Plan, names: &[String]) -> Value {
    let families = plan.families.iter().zip(names);
    let families = families.map(|(family, name)| family_as_json(family, name));
    let families: Vec<Value> = families.collect();
    let f = &plan.flush;
    json!({
        "flush": {
            "automatic": f.automatic,
            "due": f.due,
            "sealed": f.sealed,
            "sealed_due": f.sealed_due,
            "sealed_bytes": f.sealed_bytes,
            "sealed_bytes_due": f.sealed_bytes_due,
            "sealed_blob_bytes": f.sealed_blob_bytes,
            "sealed_blob_bytes_due": f.sealed_blob_bytes_due,
            "dram_bytes": f.dram_bytes,
            "dram_bytes_due": f.dram_bytes_due,
            "memtables_free": f.memtables_free,
            "memtables_free_due": f.memtables_free_due,
        },
        "rewrite": plan.rewrite.as_ref().map(|r| json!({
            "rewrites": r.rewrites(),
            "ratio": r.ratio,
            "bytes": r.bytes,
            "live_bytes": r.live_bytes,
            "room_bytes": r.room_bytes,
        })),
        "families": families,
        "level0_costs": plan.level0.as_ref().map(level0::as_json),
        "delay": plan.delay.map(|delay| json!({
            "nanos_per_byte": delay.nanos_per_byte,
            "cause": delay.cause.name(),
        })),
        "compactions_percent_worked": plan.percent_worked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With preset `leveled` there is no persistent memory. Who leaves out the room for records says that most of a full budget is free.
    #[test]
    fn records_that_lie_in_dram_are_part_of_it() {
        let mut metrics = Metrics {
            dram_limit_bytes: 8 << 20,
            dram_index_bytes: 1 << 20,
            ..Metrics::default()
        };
        assert_eq!(dram_lines(&metrics)[1], "DRAM: 1 MiB of 8 MiB");
        metrics.dram_records_bytes = 4 << 20;
        let text = dram_lines(&metrics).join("\n");
        assert!(text.contains("DRAM: 5 MiB of 8 MiB\n") && text.contains("  records "));
    }
}
