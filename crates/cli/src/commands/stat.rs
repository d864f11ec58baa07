//! `stat`: what lies where.

mod events;
mod json;
mod reading;
mod text;

use thermocline::size::format_size;
use thermocline::{Db, MemtableMetrics, Metrics};
use thermocline_bench::grouped;

use crate::args::StatArgs;
use crate::commands::prepared::{as_json, keys_line, line};
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::store::Access;
use crate::text::{hex, name_shown};

/// Shows what the store says about itself.
pub(crate) fn stat(args: &StatArgs, output: &mut Output) -> Outcome {
    if args.watch {
        return Err(Failure::Failed(
            "not supported: --watch needs to read beside a process that writes, which this version cannot; a program \
             has the same numbers of its own database (Db::metrics)"
                .to_string(),
        ));
    }
    let db = args.store.open(&args.db, Access::Read)?;
    if args.events {
        let jobs = db.jobs_done();
        db.close()?;
        return events::show(&jobs, output);
    }
    // So that it can be told how reads would reach the device, though there was none.
    db.decide_io();
    let (metrics, families, plan) = (db.metrics(), db.column_families(), db.plan());
    let (shown, prepared) = (shown(&db, &families), db.prepared()?);
    let (huge_bytes, indexes) = (db.pm_huge_bytes(), db.table_indexes());
    let database = hex(&db.id());
    db.close()?;
    if output.json {
        let mut document = json::as_json(&metrics, &families, &plan);
        document["pm_huge_bytes"] = huge_bytes.into();
        document["table_indexes"] = json::indexes_as_json(&indexes);
        document["prepared"] = prepared.iter().map(|one| as_json(one, false)).collect();
        document["database"] = database.into();
        return output.document(&document);
    }
    output.line(&args.db.display().to_string())?;
    let rows = text::rows(&metrics, (huge_bytes, &indexes), &shown, &plan);
    let rows = std::iter::once(("database", database)).chain(rows);
    for (name, text) in rows.chain(reading::rows(&metrics)) {
        output.line(&format!("  {name:<18} {text}"))?;
    }
    for line in lists(&metrics) {
        output.line(&line)?;
    }
    if !prepared.is_empty() {
        output.line("")?;
        output.line("Prepared transactions (end them with `prepared`)")?;
        for one in &prepared {
            output.line(&format!("  {}", line(one, false)))?;
            if !one.keys.is_empty() {
                output.line(&format!("    {}", keys_line(one)))?;
            }
        }
    }
    output.line("")?;
    output.line("Options (change them with --set)")?;
    for (name, value) in &metrics.effective_options {
        output.line(&format!("  {name:<30} {value}"))?;
    }
    Ok(())
}

/// Memtables, levels and latencies, each as a list with a heading.
fn lists(m: &Metrics) -> Vec<String> {
    [memtables(m), levels(m), latencies(m)].concat()
}

fn memtables(m: &Metrics) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push("".to_string());
    lines.push("Memtables".to_string());
    lines.push(
        "      id  state             records   persistent memory           index  readers  views"
            .to_string(),
    );
    for memtable in &m.memtables {
        lines.push(format!(
            "  {:>6}  {:<10} {:>14} {:>19} {:>15} {:>8} {:>6}",
            memtable.id,
            state(memtable),
            grouped(memtable.records),
            format_size(memtable.bytes),
            format_size(memtable.index_bytes),
            memtable.readers,
            memtable.views
        ));
    }
    lines
}

fn levels(m: &Metrics) -> Vec<String> {
    let mut lines = Vec::new();
    if !m.levels.is_empty() {
        lines.push("".to_string());
        lines.push("Levels on the SSD".to_string());
        lines.push(
            "   level     tables   runs           bytes           entries           deletes"
                .to_string(),
        );
        for l in &m.levels {
            lines.push(format!(
                "  {:>6} {:>10} {:>6} {:>15} {:>17} {:>17}",
                l.level,
                grouped(l.tables),
                grouped(l.runs),
                format_size(l.bytes),
                grouped(l.entries),
                grouped(l.deletes)
            ));
        }
    }
    lines
}

fn latencies(m: &Metrics) -> Vec<String> {
    let mut lines = Vec::new();
    if !m.latencies.is_empty() {
        lines.push("".to_string());
        lines.push(
            "Latencies since the opening, in µs, of the operations that were timed".to_string(),
        );
        lines.push(
            "  operation       timed       mean        p50        p99      p99.9        max"
                .to_string(),
        );
        for l in &m.latencies {
            lines.push(format!(
                "  {:<10} {:>10} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2}",
                l.operation,
                grouped(l.count),
                l.avg,
                l.p50,
                l.p99,
                l.p999,
                l.max
            ));
        }
    }
    lines
}

fn state(memtable: &MemtableMetrics) -> &'static str {
    match memtable {
        MemtableMetrics { retired: true, .. } => "retired",
        MemtableMetrics { sealed: true, .. } => "sealed",
        _ => "writing",
    }
}

/// The families as text, with what is special about them.
fn shown(db: &Db, families: &[String]) -> Vec<String> {
    let told = |name: &String| {
        let family = db.find_column_family(name)?;
        let name = name_shown(name);
        Some(match family.options().reverse {
            Some(true) => format!("{name} (descending)"),
            _ => name,
        })
    };
    families.iter().filter_map(told).collect()
}
