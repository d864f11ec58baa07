//! One run, from the open to the report.

use std::path::Path;
use std::sync::Arc;

use thermocline::options::Emulation;
use thermocline::{Db, Durability, Error, Metrics, Options, Result};
use thermocline_env::Env;

use crate::clock::now;
use crate::device_read::{BlockReader, Blocks};
use crate::held_back;
use crate::load::{Beside, Writer, load};
use crate::mix::{Inserts, Mixed};
use crate::plan::Plan;
use crate::reading::{Reader, SEQUENTIAL_GROUP};
use crate::report::{Drained, HitCounts, Latencies, Report};
use crate::scratch::Scratch;
use crate::space::sampled;
use crate::threads::{Limits, Pace, Tally, spread};
use crate::usage::{Usage, usage};
use crate::watch::Watch;
use crate::workload::Workload;
use crate::written_back::Counted;

/// Executes `plan`. `watch` follows it and can end it early.
///
/// # Errors
/// As [`Plan::validate`]; [`Error::InvalidArgument`] if the named folder holds a database and the
/// plan does not say to use it; every error of the store.
pub fn run(plan: &Plan, watch: &Watch) -> Result<Report> {
    plan.validate()?;
    in_folder(plan.db.as_deref(), &plan.options, |path, options| {
        run_in(path, options, plan, watch)
    })
}

/// Does `work` in the folder `db`, or in one of its own that is gone afterwards, with options that say where its region and its
/// logs lie.
pub(crate) fn in_folder<R>(
    db: Option<&Path>,
    options: &Options,
    work: impl FnOnce(&Path, Options) -> Result<R>,
) -> Result<R> {
    let mut options = options.clone();
    let Some(path) = db else {
        let mut scratch = Scratch::new("thermocline-bench")?;
        options.pm_path = scratch.region(options.pm_path.as_deref())?;
        options.wal_path = scratch.logs(options.wal_path.as_deref())?;
        let done = work(scratch.path(), options)?;
        scratch.remove()?;
        return Ok(done);
    };
    work(path, options)
}

/// Opens the database of a run: a new one, or, if the run says so, one that is there.
pub(crate) fn open(
    path: &Path,
    options: Options,
    emulate: Emulation,
    use_existing: bool,
) -> Result<Db> {
    let there = Db::stored_options(path)?.is_some();
    if there && !use_existing {
        return Err(Error::InvalidArgument(format!(
            "{} already holds a database; add --use-existing to use it, or name a new folder",
            path.display()
        )));
    }
    let options = Options {
        create_if_missing: !use_existing,
        read_only: false,
        emulate: match emulate {
            Emulation::None => options.emulate,
            profile => profile,
        },
        ..options
    };
    Db::open(path, options)
}

fn run_in(path: &Path, options: Options, plan: &Plan, watch: &Watch) -> Result<Report> {
    let db = open(path, options, plan.emulate, plan.use_existing)?;
    if plan.loads() && !plan.use_existing {
        load(&db, plan, watch)?;
    }
    if waits(plan.settle, watch) {
        watch.begin("settling", 0);
        db.drain()?;
    }
    if plan.workload == Workload::DeviceRead {
        return read_device(db, path, plan, watch);
    }
    begin(plan, watch);
    // Of the longest delay there is no difference of two readings.
    db.forget_longest_stalls();
    let (metrics, used) = (db.metrics(), usage());
    let work = || measured(&db, plan, watch);
    let (done, space) = match plan.space {
        false => (work(), None),
        true => {
            let (done, space) = sampled((&db, path), (plan, watch), work);
            (done, Some(space))
        }
    };
    let (tally, seconds, waited) = done?;
    let (after, uses) = (db.metrics(), usage());
    let (metrics, counted) = ((&metrics, &after), Counted::of(&metrics));
    let mut report = answer(plan, watch, &tally, seconds, metrics, (used, uses));
    // Also if it was ended meanwhile: the wait is among the seconds.
    report.drained.waited = waited;
    report.invalid_reason = counted.reason(&db, &after)?;
    report.valid = report.invalid_reason.is_none();
    let space = space.transpose()?;
    db.close()?;
    Ok(Report { space, ..report })
}

/// Whether background work is waited for, if that is asked for. Behind a large load it takes minutes, for which nobody waits who
/// has ended the run: its numbers are none of a store at rest, and it says that it was ended early.
pub(crate) fn waits(asked: bool, watch: &Watch) -> bool {
    asked && !watch.is_stopped()
}

/// What counts begins now.
fn begin(plan: &Plan, watch: &Watch) {
    let total = match plan.duration {
        Some(_) => 0,
        None => plan.operations(),
    };
    watch.begin(plan.workload.name(), total);
}

/// Closes the store, and reads blocks of the files that it has made.
fn read_device(db: Db, path: &Path, plan: &Plan, watch: &Watch) -> Result<Report> {
    watch.begin("settling", 0);
    if !plan.use_existing {
        // What was loaded may lie above the SSD.
        db.compact::<&str>(..)?;
    }
    db.drain()?;
    // None of the reads that follow is delayed by what was loaded.
    db.forget_longest_stalls();
    let metrics = db.metrics();
    db.close()?;
    let blocks = Blocks::open(&*Env::real().storage, path, plan)?;
    let readers = (0..plan.threads as u64).map(|thread| BlockReader::new(&blocks, plan, thread));
    begin(plan, watch);
    let used = usage();
    let (tally, seconds) = spread(
        readers.collect(),
        &plan.workload.operations(),
        Limits::of(plan),
        watch,
        BlockReader::read,
    )?;
    let same = (&metrics, &metrics);
    let report = answer(plan, watch, &tally, seconds, same, (used, usage()));
    Ok(Report {
        ssd_bytes_read: blocks.bytes_read(),
        device: Some(blocks.told()),
        ..report
    })
}

/// All that counts, to its end: what was done, in how many seconds, and whether background work was waited for.
fn measured(db: &Db, plan: &Plan, watch: &Watch) -> Result<(Tally, f64, bool)> {
    let (tally, mut seconds) = measure(db, plan, watch)?;
    let waited = waits(plan.drain, watch);
    if waited {
        let begun = now();
        db.drain()?;
        seconds += (now() - begun).as_secs_f64();
    }
    // What was buffered last is written back before the lines are counted.
    if plan.durability == Durability::Buffered {
        db.sync()?;
    }
    Ok((tally, seconds, waited))
}

/// What one thread does.
enum Worker {
    Reads(Reader),
    Writes(Writer),
    Mixes(Mixed),
    WritesBeside(Beside),
}

impl Worker {
    fn work(self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        match self {
            Worker::Reads(reader) => reader.read(db, pace),
            Worker::Writes(writer) => writer.write(db, pace),
            Worker::Mixes(mixed) => mixed.work(db, pace),
            Worker::WritesBeside(beside) => beside.write(db, pace),
        }
    }
}

fn measure(db: &Db, plan: &Plan, watch: &Watch) -> Result<(Tally, f64)> {
    let token = Arc::new(());
    let inserts = Arc::new(Inserts::of(plan, db)?);
    let worker = |thread| {
        if plan.workload.only_writes() {
            Worker::Writes(Writer::of_workload(plan, thread))
        } else if plan.workload.mix().is_empty() {
            Worker::Reads(Reader::new(plan, thread, token.clone()))
        } else {
            Worker::Mixes(Mixed::new(plan, thread, inserts.clone()))
        }
    };
    let mut workers: Vec<Worker> = (0..plan.threads as u64).map(worker).collect();
    if plan.workload == Workload::ReadWhileWriting {
        workers.push(Worker::WritesBeside(Beside::new(plan, token)));
    }
    let operations = plan.workload.operations();
    spread(
        workers,
        &operations,
        Limits::of(plan),
        watch,
        |worker: Worker, pace| worker.work(db, pace),
    )
}

fn answer(
    plan: &Plan,
    watch: &Watch,
    tally: &Tally,
    seconds: f64,
    (before, after): (&Metrics, &Metrics),
    (used, uses): (Usage, Usage),
) -> Report {
    let since = |field: fn(&Metrics) -> u64| field(after).saturating_sub(field(before));
    let user_bytes = since(|m| m.user_bytes_written);
    let pm_bytes = since(|m| m.pm_bytes_written);
    let ssd_bytes = since(|m| m.ssd_bytes_written);
    let lines = since(|m| m.pm_lines_written_back);
    let sequential = matches!(plan.workload, Workload::ReadSeq | Workload::ReadReverse);
    Report {
        workload: plan.workload.name(),
        preset: after.preset.clone(),
        durability: match plan.durability {
            Durability::Immediate => "immediate",
            Durability::Buffered => "buffered",
        },
        threads: plan.threads,
        num: plan.num,
        key_size: plan.key_size,
        value_size: plan.value_size,
        distribution: plan.effective_distribution().to_string(),
        region_kind: after.region_kind,
        emulate: after.emulate.clone(),
        seed: plan.seed,
        batch: plan.batch,
        ops: tally.ops,
        seconds,
        ops_per_sec: tally.ops as f64 / seconds.max(1e-9),
        latency_us: Latencies::of(tally),
        latency_curves: Report::curves(tally),
        ops_by_kind: Report::ops_by_kind(tally),
        latency_group: if sequential { SEQUENTIAL_GROUP } else { 1 },
        found: plan.workload.finds().then_some(tally.found),
        entries: plan.workload.scans().then_some(tally.entries),
        user_bytes_written: user_bytes,
        pm_bytes_written: pm_bytes,
        wal_bytes_written: since(|m| m.wal_bytes_written),
        pm_media_bytes_written: since(|m| m.pm_media_bytes_written),
        pm_lines_written_back: lines,
        pm_fences: since(|m| m.pm_fences),
        ssd_bytes_written: ssd_bytes,
        ssd_bytes_read: since(|m| m.ssd_bytes_read),
        write_amplification_ssd: amplification(ssd_bytes, user_bytes),
        write_amplification_pm: amplification(pm_bytes, user_bytes),
        drained: Drained {
            // Who has waited says so.
            waited: false,
            level0_bytes: level0_bytes(after),
        },
        stall_ms: (after.stall_ms - before.stall_ms).max(0.0),
        stall_ms_max: after.stall_ms_max,
        stall_count: since(|m| m.stall_count),
        stalls: held_back::between(before, after),
        cpu_seconds: (uses.cpu_seconds - used.cpu_seconds).max(0.0),
        rss_bytes_max: uses.rss_bytes_max,
        dram_index_bytes: after.dram_index_bytes,
        hits: hits_between(before, after),
        space: None,
        device: None,
        interrupted: watch.is_stopped(),
        // Who knows the store at rest says what is wrong.
        valid: true,
        invalid_reason: None,
    }
}

/// Where point reads of a run found their keys.
pub(crate) fn hits_between(before: &Metrics, after: &Metrics) -> HitCounts {
    let since = |field: fn(&Metrics) -> u64| field(after).saturating_sub(field(before));
    HitCounts {
        memtable: since(|m| m.hits.memtable),
        global_index: since(|m| m.hits.global_index),
        pm_table: since(|m| m.hits.pm_table),
        block_cache: since(|m| m.hits.block_cache),
        ssd: since(|m| m.hits.ssd),
    }
}

/// Bytes above level 1: records in persistent memory, and tables of level 0, wherever they lie. What is flushed or compacted
/// already, and only held by readers, does not count.
pub(crate) fn level0_bytes(m: &Metrics) -> u64 {
    let on_ssd = m.levels.iter().filter(|level| level.level == 0);
    let on_ssd: u64 = on_ssd.map(|level| level.bytes).sum();
    let in_pm = m.pm_table_bytes.saturating_sub(m.pm_table_retired_bytes);
    m.pm_active_bytes + m.pm_sealed_bytes + in_pm + on_ssd
}

pub(crate) fn amplification(written: u64, user: u64) -> f64 {
    if user == 0 {
        return 0.0;
    }
    written as f64 / user as f64
}

#[cfg(test)]
mod tests {
    use thermocline::LevelMetrics;

    use super::*;

    #[test]
    fn nobody_waits_for_background_work_who_has_ended_the_run() {
        let watch = Watch::new();
        assert!(waits(true, &watch));
        assert!(!waits(false, &watch));
        watch.stop();
        assert!(!waits(true, &watch));
    }

    #[test]
    fn level_0_counts_wherever_its_tables_lie() {
        let level = |level: u8, bytes: u64| LevelMetrics {
            level,
            bytes,
            ..LevelMetrics::default()
        };
        let metrics = Metrics {
            pm_active_bytes: 1,
            pm_sealed_bytes: 20,
            pm_retired_bytes: 7,
            pm_tables: 3,
            pm_table_bytes: 5300,
            pm_table_retired_bytes: 5000,
            levels: vec![level(0, 4000), level(1, 9)],
            ..Metrics::default()
        };
        assert_eq!(level0_bytes(&metrics), 4321);
    }
}
