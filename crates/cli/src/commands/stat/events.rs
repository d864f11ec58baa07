//! `stat --events`: the last flushes and compactions.

use serde_json::{Value, json};
use thermocline::JobDone;
use thermocline::size::format_size;
use thermocline_bench::clock::{Duration, SystemTime, date};
use thermocline_bench::grouped;

use crate::fail::Outcome;
use crate::output::Output;
use crate::text::{count, name_shown};

/// Where a line's text begins.
const TEXT_AT: usize = 68;

/// Shows them, oldest first.
pub(super) fn show(jobs: &[JobDone], output: &mut Output) -> Outcome {
    if output.json {
        let events: Vec<Value> = jobs.iter().map(as_json).collect();
        return output.document(&json!({ "events": events }));
    }
    if jobs.is_empty() {
        return output.line("nothing was flushed or compacted yet");
    }
    let heads = [
        "ended", "took, ms", "reading", "merging", "writing", "syncing",
    ];
    let [ended, took, reading, merging, writing, syncing] = heads;
    output.line(&format!(
        "{ended:>10} {took:>10} {reading:>10} {merging:>10} {writing:>10} {syncing:>10}"
    ))?;
    let now = date();
    for job in jobs {
        output.line(&first_line(job, now))?;
        output.line(&format!("{:TEXT_AT$}{}", "", job.because))?;
    }
    Ok(())
}

fn first_line(job: &JobDone, now: SystemTime) -> String {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let stages = job.stages;
    let times = format!(
        "{:>10} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.1}",
        ago(job.ended, now),
        ms(job.took),
        ms(stages.reading),
        ms(stages.merging(job.took)),
        ms(stages.writing),
        ms(stages.syncing),
    );
    format!("{times:TEXT_AT$}{}", what(job))
}

/// How long ago it ended: clocks may have been set back since.
fn ago(ended: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(ended).map_or(0, |past| past.as_secs());
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

fn what(job: &JobDone) -> String {
    let inputs = match job.from {
        None => count(job.inputs, "memtable"),
        Some(from) => {
            let of = job.family.as_deref().map(name_shown).unwrap_or_default();
            format!("{of} {from} to {}, {}", job.to, count(job.inputs, "table"))
        }
    };
    // What is moved stays as it is, and perhaps nothing is left of what was read.
    let outputs = match (job.tables, job.bytes_written) {
        (0, 0) => "nothing written".to_string(),
        (tables, bytes) => format!("{} of {}", count(tables, "table"), format_size(bytes)),
    };
    let mut text = format!(
        "{} {} of {}: {outputs}",
        job.work,
        inputs.trim_start(),
        format_size(job.bytes_in),
    );
    if job.from.is_none() && job.to > 0 {
        text += &format!(" down to level {}", job.to);
    }
    if job.tables_in_pm > 0 {
        text += &format!(", {} in persistent memory", grouped(job.tables_in_pm));
    }
    if job.entries_dropped > 0 {
        let of = grouped(job.entries_read);
        text += &format!("; {} of {of} entries dropped", grouped(job.entries_dropped));
    }
    text
}

fn as_json(job: &JobDone) -> Value {
    let since_1970 = job.ended.duration_since(SystemTime::UNIX_EPOCH);
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    json!({
        "work": job.work,
        "because": job.because,
        "ended_unix_s": since_1970.map_or(0, |since| since.as_secs()),
        "column_family": job.family,
        "from_level": job.from,
        "to_level": job.to,
        "inputs": job.inputs,
        "bytes_in": job.bytes_in,
        "tables": job.tables,
        "tables_in_pm": job.tables_in_pm,
        "bytes_read": job.bytes_read,
        "bytes_written": job.bytes_written,
        "entries_read": job.entries_read,
        "entries_dropped": job.entries_dropped,
        "took_us": us(job.took),
        "reading_us": us(job.stages.reading),
        "merging_us": us(job.stages.merging(job.took)),
        "writing_us": us(job.stages.writing),
        "syncing_us": us(job.stages.syncing),
    })
}
