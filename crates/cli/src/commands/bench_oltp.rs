//! `bench tpcc`, `bench orders` and `bench randomtransaction`: transactions.

use thermocline::options::Emulation;
use thermocline::size::format_size;
use thermocline_bench::oltp::{DURATION, OltpPlan, OltpReport, OltpWorkload};
use thermocline_bench::{Timeline, run_oltp};

use crate::args::BenchArgs;
use crate::commands::bench_page::{Course, Page, Rows, given, machine, wanted};
use crate::commands::measured::{durability, finished, store_options, timed};
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;

/// Runs one.
pub(crate) fn bench(workload: OltpWorkload, args: BenchArgs, output: &mut Output) -> Outcome {
    let report = args.report.clone();
    let plan = plan(workload, args)?;
    plan.validate().map_err(Failure::usage)?;
    let wanted = wanted(report.as_deref())?;
    interrupt::catch();
    let mut timeline = Timeline::of_oltp(&plan);
    let report = timed(output, "operations", &mut timeline, |watch| {
        run_oltp(&plan, watch)
    })?;
    let text = report.to_string();
    let (interrupted, reason) = (report.interrupted, report.invalid_reason.clone());
    let value = serde_json::to_value(&report);
    let numbers = value.as_ref().ok().cloned();
    let printed = finished(output, value, &text, (interrupted, reason));
    let page = Page {
        name: report.workload,
        options: counted(&plan, &report),
        store: Some(&plan.options),
        machine: machine(
            report.region_kind,
            &report.emulate,
            (report.cpu_seconds, report.rss_bytes_max),
        ),
        results: &text,
        numbers: numbers.as_ref(),
        course: Some(Course {
            curves: &report.latency_curves,
            timeline: &timeline,
            seconds: report.seconds,
            ops: report.ops,
        }),
    };
    page.write(wanted.as_deref(), printed, output)
}

/// Options that count for this run, with the values that they had.
fn counted(plan: &OltpPlan, report: &OltpReport) -> Rows {
    let mut rows = match plan.workload {
        OltpWorkload::Tpcc => vec![
            ("--warehouses", plan.tpcc.warehouses.to_string()),
            ("--shrink", plan.tpcc.shrink.to_string()),
        ],
        OltpWorkload::Orders => vec![
            ("--orders", plan.orders.orders.to_string()),
            ("--hot-orders", plan.orders.hot.to_string()),
            ("--warm-orders", plan.orders.warm.to_string()),
            ("--cold-percent", plan.orders.cold_percent.to_string()),
            ("--skew", plan.orders.skew.to_string()),
            ("--row-bytes", plan.orders.row_bytes.to_string()),
        ],
        OltpWorkload::RandomTransaction => vec![
            ("--num", plan.sums.keys.to_string()),
            ("--sets", plan.sums.sets.to_string()),
        ],
    };
    let count = plan.transactions;
    let seconds = plan.duration.or(count.is_none().then_some(DURATION));
    let some = [
        ("--duration", seconds.map(|seconds| format!("{seconds} s"))),
        ("--transactions", count.map(|count| count.to_string())),
        (
            "--db",
            plan.db.as_ref().map(|path| path.display().to_string()),
        ),
    ];
    let some = some.into_iter();
    rows.extend(some.filter_map(|(name, value)| Some((name, value?))));
    rows.extend([
        ("--threads", plan.threads.to_string()),
        ("--durability", report.durability.to_string()),
        ("--seed", plan.seed.to_string()),
        ("--emulate", report.emulate.clone()),
        ("--preset", report.preset.clone()),
        ("--pm", format_size(plan.options.pm)),
        ("--dram", format_size(plan.options.dram)),
    ]);
    rows.extend(given([
        ("--think", plan.tpcc.think),
        ("--optimistic", plan.optimistic),
        ("--serializable", plan.serializable),
        ("--use-existing", plan.use_existing),
        ("--drain", plan.drain),
    ]));
    rows
}

/// Options of the other workloads that were given.
fn foreign(workload: OltpWorkload, args: &BenchArgs) -> Option<&'static str> {
    let counts_keys = workload == OltpWorkload::RandomTransaction;
    let given = [
        (args.num != 100_000 && !counts_keys, "--num"),
        (args.reads.is_some(), "--reads"),
        (args.key_size != 16, "--key-size"),
        (args.value_size != 100, "--value-size"),
        (args.batch != 1, "--batch"),
        (args.async_depth != 1, "--async-depth"),
        (args.awaited, "--awaited"),
        (args.distribution.is_some(), "--distribution"),
        (args.scan_length.is_some(), "--scan-length"),
        (args.compressible != 1.0, "--compressible"),
        (args.seconds_max.is_some(), "--seconds-max"),
        (args.rate.is_some(), "--rate"),
        (args.preload, "--preload"),
        (args.settle, "--settle"),
        (args.space, "--space"),
    ];
    let given = given.into_iter().find(|(given, _)| *given);
    given.map(|(_, name)| name)
}

fn plan(workload: OltpWorkload, args: BenchArgs) -> Outcome<OltpPlan> {
    let usage = |what: String| Failure::usage(thermocline::Error::InvalidArgument(what));
    let name = workload.name();
    if let Some(option) = foreign(workload, &args) {
        return Err(usage(format!(
            "{option} is not an option of {name}, which makes its own keys and values; leave it out"
        )));
    }
    let given = args.oltp.given();
    if let Some((option, Some(of))) = given.iter().find(|(_, of)| of.is_some_and(|of| of != name)) {
        return Err(usage(format!(
            "{option} is an option of {of}, not of {name}; leave it out"
        )));
    }
    let mut plan = OltpPlan::new(workload);
    plan.options = store_options(&args)?;
    plan.db = args.db;
    plan.use_existing = args.use_existing;
    plan.duration = args.duration;
    plan.threads = args.threads;
    plan.durability = durability(args.durability);
    plan.seed = args.seed;
    plan.drain = args.drain;
    plan.emulate = Emulation::parse(&args.emulate).map_err(Failure::usage)?;
    let own = args.oltp;
    plan.transactions = own.transactions;
    plan.optimistic = own.optimistic;
    plan.serializable = own.serializable;
    let tpcc = &mut plan.tpcc;
    tpcc.warehouses = own.warehouses.unwrap_or(tpcc.warehouses);
    tpcc.think = own.think;
    tpcc.shrink = own.shrink.unwrap_or(tpcc.shrink);
    let orders = &mut plan.orders;
    orders.orders = own.orders.unwrap_or(orders.orders);
    orders.hot = own.hot_orders.unwrap_or(orders.hot);
    orders.warm = own.warm_orders.unwrap_or(orders.warm);
    orders.cold_percent = own.cold_percent.unwrap_or(orders.cold_percent);
    orders.skew = own.skew.unwrap_or(orders.skew);
    orders.row_bytes = own.row_bytes.unwrap_or(orders.row_bytes);
    plan.sums.keys = args.num;
    plan.sums.sets = own.sets.unwrap_or(plan.sums.sets);
    Ok(plan)
}
