//! One run of transactions, from the open to the report.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;

use thermocline::{Db, Durability, Error, Metrics, Options, Result};

use crate::clock::{Duration, Instant, now};
use crate::curve::Curve;
use crate::distribution::Distribution;
use crate::oltp::attempts::{Client, Outcome};
use crate::oltp::plan::{OltpPlan, OltpWorkload};
use crate::oltp::report::{Check, KindReport, OltpReport};
use crate::oltp::tally::Tally;
use crate::orders::Orders;
use crate::report::{Drained, Latency};
use crate::rng::Rng;
use crate::run::{amplification, hits_between, in_folder, level0_bytes, open, waits};
use crate::sums::{KEY_BYTES, Sums, VALUE_BYTES};
use crate::threads::Share;
use crate::tpcc::Tpcc;
use crate::usage::{Usage, usage};
use crate::watch::Watch;
use crate::written_back::Counted;

/// The tables of a run, or its sets of keys.
enum Tables {
    Tpcc(Tpcc),
    Orders(Orders),
    Sums(Sums),
}

impl Tables {
    /// Refuses a database that has not the tables. To open them would make them, in whosever database it is.
    fn check_there(db: &Db, workload: OltpWorkload) -> Result<()> {
        let first = match workload {
            OltpWorkload::Tpcc => Tpcc::FIRST_TABLE,
            OltpWorkload::Orders => Orders::FIRST_TABLE,
            // It has no tables.
            OltpWorkload::RandomTransaction => return Ok(()),
        };
        match db.find_column_family(first) {
            Some(_) => Ok(()),
            None => Err(Error::InvalidArgument(format!(
                "the database has no table '{first}', so it is none of {}; name another one, or leave --use-existing out to make a \
                 new one",
                workload.name()
            ))),
        }
    }

    fn open(db: &Db, plan: &OltpPlan) -> Result<Tables> {
        Ok(match plan.workload {
            OltpWorkload::Tpcc => Tables::Tpcc(Tpcc::open(db, plan)?),
            OltpWorkload::Orders => Tables::Orders(Orders::open(db, plan)?),
            OltpWorkload::RandomTransaction => Tables::Sums(Sums::new(plan)),
        })
    }

    /// Fills the tables; returns how many rows.
    fn load(&self, db: &Db, plan: &OltpPlan, watch: &Watch) -> Result<u64> {
        match self {
            Tables::Tpcc(tpcc) => tpcc.load(db, plan, watch),
            Tables::Orders(orders) => orders.load(db, plan, watch),
            Tables::Sums(_) => Ok(0),
        }
    }

    /// Takes up what is there.
    fn resume(&self, db: &Db) -> Result<()> {
        match self {
            Tables::Tpcc(tpcc) => tpcc.resume(db),
            Tables::Orders(orders) => orders.resume(db),
            Tables::Sums(sums) => sums.resume(db),
        }
    }

    fn kinds(&self) -> &'static [&'static str] {
        match self {
            Tables::Tpcc(_) => Tpcc::KINDS,
            Tables::Orders(_) => Orders::KINDS,
            Tables::Sums(_) => Sums::KINDS,
        }
    }

    fn notes(&self) -> &'static [&'static str] {
        match self {
            Tables::Tpcc(_) => Tpcc::NOTES,
            Tables::Orders(_) => Orders::NOTES,
            Tables::Sums(_) => &[],
        }
    }

    /// The kind of the next transaction of a thread.
    fn draw(&self, rng: &mut Rng) -> usize {
        match self {
            Tables::Tpcc(tpcc) => tpcc.draw(rng),
            Tables::Orders(orders) => orders.draw(rng),
            Tables::Sums(_) => 0,
        }
    }

    /// Makes one transaction; `None` if the run was stopped.
    fn transact(
        &self,
        client: &Client<'_>,
        kind: usize,
        (thread, rng): (u64, &mut Rng),
        tally: &mut Tally,
    ) -> Result<Option<Outcome>> {
        match self {
            Tables::Tpcc(tpcc) => tpcc.transact(client, kind, (thread, rng), tally),
            Tables::Orders(orders) => orders.transact(client, kind, rng, tally),
            Tables::Sums(sums) => sums.transact(client, rng, tally),
        }
    }

    /// How long a terminal waits before and after a transaction.
    fn waits(&self, kind: usize, rng: &mut Rng) -> (Duration, Duration) {
        match self {
            Tables::Tpcc(tpcc) => tpcc.waits(kind, rng),
            Tables::Orders(_) | Tables::Sums(_) => (Duration::ZERO, Duration::ZERO),
        }
    }

    fn check(&self, db: &Db) -> Result<Vec<Check>> {
        match self {
            Tables::Tpcc(tpcc) => tpcc.check(&db.snapshot()),
            Tables::Orders(orders) => orders.check(&db.snapshot()),
            Tables::Sums(sums) => sums.check(&db.snapshot()),
        }
    }
}

/// Executes `plan`. `watch` follows it and can end it early.
///
/// # Errors
/// As [`OltpPlan::validate`]; [`Error::InvalidArgument`] if the named folder holds a database and the
/// plan does not say to use it; every error of the store.
pub fn run_oltp(plan: &OltpPlan, watch: &Watch) -> Result<OltpReport> {
    plan.validate()?;
    in_folder(plan.db.as_deref(), &plan.options, |path, options| {
        run_in(path, options, plan, watch)
    })
}

fn run_in(path: &Path, options: Options, plan: &OltpPlan, watch: &Watch) -> Result<OltpReport> {
    let db = open(path, options, plan.emulate, plan.use_existing)?;
    if plan.use_existing {
        Tables::check_there(&db, plan.workload)?;
    }
    let tables = Tables::open(&db, plan)?;
    let begun = now();
    let mut loaded = 0;
    let mut load_seconds = 0.0;
    match plan.use_existing {
        true => tables.resume(&db)?,
        false => {
            loaded = tables.load(&db, plan, watch)?;
            db.sync()?;
            load_seconds = (now() - begun).as_secs_f64();
        }
    }
    // Of a part of the tables what must be true of all is not, and nothing is wrong with the store.
    let is_whole = plan.use_existing || !watch.is_stopped();
    let total = plan.transactions.filter(|_| plan.duration.is_none());
    watch.begin(plan.workload.name(), total.unwrap_or(0));
    db.forget_longest_stalls();
    let (metrics, used) = (db.metrics(), usage());
    let (tally, mut seconds) = measure(&db, &tables, plan, watch)?;
    let waited = waits(plan.drain, watch);
    if waited {
        let begun = now();
        db.drain()?;
        seconds += (now() - begun).as_secs_f64();
    }
    if plan.durability == Durability::Buffered {
        db.sync()?;
    }
    let (after, uses) = (db.metrics(), usage());
    watch.begin("check", 0);
    let checks = match is_whole {
        true => tables.check(&db)?,
        false => Vec::new(),
    };
    let mut report = answer(
        plan,
        &tables,
        (&tally, seconds),
        (&metrics, &after),
        (used, uses),
    );
    report.loaded_rows = loaded;
    report.load_seconds = load_seconds;
    report.drained.waited = waited;
    report.interrupted = watch.is_stopped();
    report.invalid_reason = Counted::of(&metrics).reason(&db, &after)?;
    let broken = checks.iter().find(|check| check.faults > 0);
    if let Some(check) = broken {
        report.invalid_reason = Some(format!("it is not true that {}", check.name));
    }
    report.valid = report.invalid_reason.is_none();
    report.checks = checks;
    db.close()?;
    Ok(report)
}

/// Runs all threads for as long as the plan says.
fn measure(db: &Db, tables: &Tables, plan: &OltpPlan, watch: &Watch) -> Result<(Tally, f64)> {
    let start = Barrier::new(plan.threads);
    let one = |thread: u64| {
        let tally = Tally::new(tables.kinds().len(), tables.notes().len());
        start.wait();
        let begun = now();
        let result = tally.and_then(|tally| work(db, tables, plan, watch, (thread, begun), tally));
        if result.is_err() {
            watch.stop();
        }
        result.map(|tally| (tally, (now() - begun).as_secs_f64()))
    };
    std::thread::scope(|scope| {
        let threads = 0..plan.threads as u64;
        let handles: Vec<_> = threads.map(|t| scope.spawn(move || one(t))).collect();
        let mut sum = Tally::new(tables.kinds().len(), tables.notes().len())?;
        let mut longest = 0.0f64;
        let results: Vec<_> = handles
            .into_iter()
            .map(|handle| match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        for result in results {
            let (tally, seconds) = result?;
            sum.add(&tally);
            longest = longest.max(seconds);
        }
        Ok((sum, longest))
    })
}

/// What one thread does.
fn work(
    db: &Db,
    tables: &Tables,
    plan: &OltpPlan,
    watch: &Watch,
    (thread, begun): (u64, Instant),
    mut tally: Tally,
) -> Result<Tally> {
    let client = Client {
        db,
        options: plan.txn_options(),
        watch,
    };
    // Not the numbers that loading draws.
    let mut rng = Rng::of_part(plan.seed, 1 << 32 | thread);
    let end = plan
        .seconds()
        .map(|seconds| begun + Duration::from_secs_f64(seconds));
    let total = plan.transactions.unwrap_or(u64::MAX);
    let share = Share::of(total, thread, plan.threads as u64);
    for _ in share.from..share.until {
        if has_passed(end, now()) || watch.is_stopped() {
            break;
        }
        let kind = tables.draw(&mut rng);
        let (before, after) = tables.waits(kind, &mut rng);
        if !wait(before, end, watch) {
            break;
        }
        let from = now();
        let done = tables.transact(&client, kind, (thread, &mut rng), &mut tally)?;
        let Some(outcome) = done else {
            break;
        };
        let time = now();
        let nanos = u64::try_from((time - from).as_nanos()).unwrap_or(u64::MAX);
        let second = usize::try_from((time - begun).as_secs()).unwrap_or(0);
        tally.done(kind, nanos, second, outcome == Outcome::RollBack);
        watch.add(1);
        wait(after, end, watch);
    }
    Ok(tally)
}

/// Whether the end of the run, if it has one, is past.
fn has_passed(end: Option<Instant>, at: Instant) -> bool {
    end.is_some_and(|end| at >= end)
}

/// Waits, unless the run ends. Returns whether it goes on.
fn wait(time: Duration, end: Option<Instant>, watch: &Watch) -> bool {
    if time.is_zero() {
        return true;
    }
    let until = now() + time;
    loop {
        let at = now();
        if has_passed(end, at) || watch.is_stopped() {
            return false;
        }
        if at >= until {
            return true;
        }
        std::thread::sleep((until - at).min(Duration::from_millis(50)));
    }
}

/// What was done of each kind, by name.
fn kinds(tables: &Tables, tally: &Tally) -> BTreeMap<&'static str, KindReport> {
    tables
        .kinds()
        .iter()
        .zip(&tally.kinds)
        .map(|(name, done)| {
            let kind = KindReport {
                committed: done.committed,
                rolled_back: done.rolled_back,
                latency_us: Latency::of(&done.latency_ns),
                aborts: done.aborts,
            };
            (*name, kind)
        })
        .collect()
}

/// How long each kind took, as other workloads tell it: without a name where there is one kind alone.
fn latencies(kinds: &BTreeMap<&'static str, KindReport>) -> serde_json::Value {
    let each = kinds.iter().map(|(name, kind)| (*name, kind.latency_us));
    let each: BTreeMap<&'static str, Latency> = each.collect();
    let told = match each.first_key_value() {
        Some((_, one)) if each.len() == 1 => serde_json::to_value(one),
        _ => serde_json::to_value(&each),
    };
    told.unwrap_or_default()
}

/// The same by percentile.
fn curves(tables: &Tables, tally: &Tally) -> Vec<Curve> {
    let names = tables.kinds().iter().copied();
    Curve::all(names.zip(tally.kinds.iter().map(|done| &done.latency_ns)))
}

/// What is counted beside, by name.
fn counts(tables: &Tables, tally: &Tally) -> BTreeMap<&'static str, u64> {
    let names = tables.notes().iter().copied();
    names.zip(tally.notes.iter().copied()).collect()
}

fn settings(plan: &OltpPlan) -> serde_json::Value {
    let settings = match plan.workload {
        OltpWorkload::Tpcc => serde_json::to_value(plan.tpcc),
        OltpWorkload::Orders => serde_json::to_value(plan.orders),
        OltpWorkload::RandomTransaction => serde_json::to_value(plan.sums),
    };
    settings.unwrap_or_default()
}

fn answer(
    plan: &OltpPlan,
    tables: &Tables,
    (tally, seconds): (&Tally, f64),
    (before, after): (&Metrics, &Metrics),
    (used, uses): (Usage, Usage),
) -> OltpReport {
    let since = |field: fn(&Metrics) -> u64| field(after).saturating_sub(field(before));
    let user_bytes = since(|m| m.user_bytes_written);
    let pm_bytes = since(|m| m.pm_bytes_written);
    let ssd_bytes = since(|m| m.ssd_bytes_written);
    let kinds = kinds(tables, tally);
    let [durability, locking, isolation] = plan.words();
    let new_orders = kinds.get("new_order").map(|kind| kind.committed as f64);
    let has_sets = plan.workload == OltpWorkload::RandomTransaction;
    OltpReport {
        workload: plan.workload.name(),
        preset: after.preset.clone(),
        durability,
        locking,
        isolation,
        threads: plan.threads,
        num: has_sets.then_some(plan.sums.keys),
        key_size: has_sets.then_some(KEY_BYTES),
        value_size: has_sets.then_some(VALUE_BYTES),
        distribution: has_sets.then(|| Distribution::Uniform.to_string()),
        seed: plan.seed,
        region_kind: after.region_kind,
        emulate: after.emulate.clone(),
        settings: settings(plan),
        loaded_rows: 0,
        load_seconds: 0.0,
        ops: tally.ops(),
        seconds,
        ops_per_sec: tally.ops() as f64 / seconds.max(1e-9),
        new_orders_per_minute: new_orders.map(|count| 60.0 * count / seconds.max(1e-9)),
        latency_us: latencies(&kinds),
        latency_curves: curves(tables, tally),
        kinds,
        ops_by_second: tally.seconds.clone(),
        counts: counts(tables, tally),
        checks: Vec::new(),
        user_bytes_written: user_bytes,
        pm_bytes_written: pm_bytes,
        pm_media_bytes_written: since(|m| m.pm_media_bytes_written),
        pm_lines_written_back: since(|m| m.pm_lines_written_back),
        pm_fences: since(|m| m.pm_fences),
        ssd_bytes_written: ssd_bytes,
        ssd_bytes_read: since(|m| m.ssd_bytes_read),
        write_amplification_ssd: amplification(ssd_bytes, user_bytes),
        write_amplification_pm: amplification(pm_bytes, user_bytes),
        drained: Drained {
            waited: false,
            level0_bytes: level0_bytes(after),
        },
        stall_ms: (after.stall_ms - before.stall_ms).max(0.0),
        stall_ms_max: after.stall_ms_max,
        stall_count: since(|m| m.stall_count),
        cpu_seconds: (uses.cpu_seconds - used.cpu_seconds).max(0.0),
        rss_bytes_max: uses.rss_bytes_max,
        dram_index_bytes: after.dram_index_bytes,
        hits: hits_between(before, after),
        interrupted: false,
        valid: true,
        invalid_reason: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It would be said of a store that is right that it is not.
    #[test]
    fn tables_that_were_not_loaded_to_the_end_are_not_checked() {
        let mut plan = OltpPlan::new(OltpWorkload::Tpcc);
        plan.tpcc.shrink = 100;
        plan.transactions = Some(10);
        plan.drain = true;
        let watch = Watch::new();
        let whole = run_oltp(&plan, &watch).unwrap();
        assert!(whole.valid && !whole.interrupted && whole.drained.waited);
        assert_eq!((whole.ops, whole.checks.len()), (10, 5));
        watch.stop();
        let ended = run_oltp(&plan, &watch).unwrap();
        assert!(ended.interrupted && ended.checks.is_empty());
        assert_eq!(ended.invalid_reason, None);
        assert!(ended.valid && !ended.drained.waited);
    }
}
