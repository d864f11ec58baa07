//! `stat`: what lies where.

mod events;
mod json;
mod reading;
mod text;

use std::time::Duration;

use thermocline::size::format_size;
use thermocline::{Db, MemtableMetrics, Metrics};
use thermocline_bench::clock::{Instant, now};
use thermocline_bench::grouped;

use crate::args::StatArgs;
use crate::commands::prepared::{as_json, keys_line, line};
use crate::fail::{Failure, Outcome, tell_aside};
use crate::interrupt;
use crate::output::Output;
use crate::store::Access;
use crate::text::{count, hex, name_shown, path_shown};

/// Clears a terminal, and goes on at its first line.
const CLEAR: &[u8] = b"\x1b[2J\x1b[H";

/// How often it is looked for Ctrl-C.
const LOOKS_FOR_CTRL_C: Duration = Duration::from_millis(50);

/// Shows what the store says about itself.
pub(crate) fn stat(args: &StatArgs, output: &mut Output) -> Outcome {
    let Some(every) = args.watch else {
        let db = args.store.open(&args.db, Access::Read)?;
        return show(db, args, output).map(drop);
    };
    if output.json {
        return Err(Failure::Usage(
            "--watch has no end, and --json is one document; call `stat --json` again and again"
                .into(),
        ));
    }
    interrupt::catch();
    watch(args, every, output)
}

/// Shows it again and again, until Ctrl-C or nobody reads it any more. Of a terminal it has the whole screen. A look that cannot be had
/// just now is told aside, and left out.
fn watch(args: &StatArgs, every: Duration, output: &mut Output) -> Outcome {
    let mut before: Option<(Instant, u64)> = None;
    while !interrupt::asked() {
        let looked = now();
        // Before the screen is cleared: what it has stays if this fails.
        if let Some(db) = or_told(args.store.open(&args.db, Access::Watch))? {
            if output.is_terminal() {
                output.bytes(CLEAR)?;
            }
            let last = show(db, args, output)?;
            if let Some((at, seqno)) = before {
                output.line("")?;
                output.line(&since(looked - at, last.saturating_sub(seqno)))?;
            }
            if !output.is_terminal() {
                output.line("")?;
            }
            output.finish()?;
            before = Some((looked, last));
        }
        while now() - looked < every && !interrupt::asked() {
            std::thread::park_timeout(LOOKS_FOR_CTRL_C.min(every));
        }
    }
    Ok(())
}

/// What was found; nothing if it may be found the next time, which is told.
fn or_told<T>(found: Outcome<T>) -> Outcome<Option<T>> {
    match found {
        Err(Failure::NotNow(why)) => {
            tell_aside(&why);
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// What was written between two looks.
fn since(time: Duration, seqnos: u64) -> String {
    format!(
        "Since the look before: {} in {:.1} s",
        count(seqnos, "sequence number"),
        time.as_secs_f64()
    )
}

/// Shows it once. Returns the last sequence number.
fn show(db: Db, args: &StatArgs, output: &mut Output) -> Outcome<u64> {
    if args.events {
        let (jobs, last) = (db.jobs_done(), db.metrics().seqno_visible);
        db.close()?;
        return events::show(&jobs, output).map(|()| last);
    }
    // So that it can be told how reads would reach the device, though there was none.
    db.decide_io();
    let (metrics, families, plan) = (db.metrics(), db.column_families(), db.plan());
    let (shown, prepared) = (shown(&db, &families), db.prepared()?);
    let (huge_bytes, indexes) = (db.pm_huge_bytes(), db.table_indexes());
    let database = hex(&db.id());
    let last = metrics.seqno_visible;
    db.close()?;
    if output.json {
        let mut document = json::as_json(&metrics, &families, &plan);
        document["pm_huge_bytes"] = huge_bytes.into();
        document["table_indexes"] = json::indexes_as_json(&indexes);
        document["prepared"] = prepared.iter().map(|one| as_json(one, false)).collect();
        document["database"] = database.into();
        return output.document(&document).map(|()| last);
    }
    output.line(&path_shown(&args.db))?;
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
    // Whoever watches has seen them, and wants the rest on one screen.
    if args.watch.is_none() {
        output.line("")?;
        output.line("Options (change them with --set)")?;
        for (name, value) in &metrics.effective_options {
            output.line(&format!("  {name:<30} {value}"))?;
        }
    }
    Ok(last)
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

#[cfg(test)]
mod tests {
    use thermocline::Error;

    use super::*;

    #[test]
    fn who_watches_a_store_that_is_busy_looks_again() {
        let busy = || Error::Busy("it is written to all the time".to_string());
        let look = |access: Access, error: Error| or_told(Err::<(), _>(access.failure(error)));
        assert!(matches!(look(Access::Watch, busy()), Ok(None)));
        assert!(look(Access::Read, busy()).is_err());
        let none = Error::InvalidArgument("there is no database".to_string());
        assert!(look(Access::Watch, none).is_err());
        assert!(matches!(or_told(Ok(7)), Ok(Some(7))));
    }
}
