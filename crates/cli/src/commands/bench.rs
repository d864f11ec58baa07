//! `bench`: run a workload.

use std::path::Path;

use thermocline::Error;
use thermocline::options::Emulation;
use thermocline::size::format_size;
use thermocline_bench::oltp::OltpWorkload;
use thermocline_bench::{Distribution, Plan, Report, Timeline, Workload};

use crate::args::BenchArgs;
use crate::commands::bench_page::{Course, Page, Rows, given, machine, wanted};
use crate::commands::measured::{durability, finished, store_options, timed};
use crate::commands::{bench_oltp, bench_suite};
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;

/// Runs a workload.
pub(crate) fn bench(args: Box<BenchArgs>, output: &mut Output) -> Outcome {
    if args.workload == bench_suite::NAME {
        return bench_suite::bench(*args, output);
    }
    if let Some(option) = args.suite.given() {
        return Err(Failure::Usage(format!(
            "{option} is an option of {}, not of {}; leave it out",
            bench_suite::NAME,
            args.workload
        )));
    }
    if let Some(workload) = OltpWorkload::parse(&args.workload) {
        return bench_oltp::bench(workload, *args, output);
    }
    if let Some((option, of)) = args.oltp.given().first() {
        return Err(Failure::usage(Error::InvalidArgument(format!(
            "{option} is an option of {}, not of {}; leave it out",
            of.unwrap_or("tpcc, orders and randomtransaction"),
            args.workload
        ))));
    }
    let report = args.report.clone();
    let plan = plan(*args)?;
    plan.validate().map_err(Failure::usage)?;
    run(&plan, report.as_deref(), output)
}

/// Runs what is planned, and shows what came of it: on a page, too, if one is asked for.
fn run(plan: &Plan, page: Option<&Path>, output: &mut Output) -> Outcome {
    let wanted = wanted(page)?;
    interrupt::catch();
    let mut timeline = Timeline::of(plan);
    let report = timed(output, "operations", &mut timeline, |watch| {
        thermocline_bench::run(plan, watch)
    })?;
    let text = report.to_string();
    let (interrupted, reason) = (report.interrupted, report.invalid_reason.clone());
    let value = serde_json::to_value(&report);
    let numbers = value.as_ref().ok().cloned();
    let printed = finished(output, value, &text, (interrupted, reason));
    let page = Page {
        name: report.workload,
        options: counted(plan, &report),
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
fn counted(plan: &Plan, report: &Report) -> Rows {
    let workload = plan.workload;
    let mut rows = vec![
        ("--num", plan.num.to_string()),
        ("--threads", plan.threads.to_string()),
        ("--key-size", plan.key_size.to_string()),
        ("--value-size", plan.value_size.to_string()),
        ("--compressible", plan.compressible.to_string()),
        ("--durability", report.durability.to_string()),
        ("--distribution", report.distribution.clone()),
        ("--seed", plan.seed.to_string()),
        ("--emulate", report.emulate.clone()),
        ("--preset", report.preset.clone()),
        ("--pm", format_size(plan.options.pm)),
        ("--dram", format_size(plan.options.dram)),
    ];
    let reads = plan.loads() && plan.duration.is_none();
    let seconds = |seconds: f64| format!("{seconds} s");
    let some = [
        ("--reads", reads.then(|| plan.operations().to_string())),
        ("--duration", plan.duration.map(seconds)),
        ("--seconds-max", plan.seconds_max.map(seconds)),
        ("--rate", plan.rate.map(|rate| rate.to_string())),
        (
            "--batch",
            workload.batches().then(|| plan.batch.to_string()),
        ),
        (
            "--async-depth",
            workload.overlaps().then(|| plan.async_depth.to_string()),
        ),
        (
            "--scan-length",
            workload
                .scans()
                .then(|| plan.effective_scan_length().to_string()),
        ),
        (
            "--db",
            plan.db.as_ref().map(|path| path.display().to_string()),
        ),
    ];
    let some = some.into_iter();
    rows.extend(some.filter_map(|(name, value)| Some((name, value?))));
    rows.extend(given([
        ("--use-existing", plan.use_existing),
        ("--awaited", plan.awaited),
        ("--preload", plan.preload),
        ("--settle", plan.settle),
        ("--drain", plan.drain),
        ("--space", plan.space),
    ]));
    rows
}

fn plan(args: BenchArgs) -> Outcome<Plan> {
    let workload = Workload::parse(&args.workload).map_err(Failure::usage)?;
    let distribution = args
        .distribution
        .as_deref()
        .map(Distribution::parse)
        .transpose()
        .map_err(Failure::usage)?;
    let options = store_options(&args)?;
    Ok(Plan {
        workload,
        options,
        db: args.db,
        use_existing: args.use_existing,
        num: args.num,
        reads: args.reads,
        duration: args.duration,
        seconds_max: args.seconds_max,
        rate: args.rate,
        threads: args.threads,
        key_size: args.key_size,
        value_size: args.value_size,
        durability: durability(args.durability),
        batch: args.batch,
        async_depth: args.async_depth,
        awaited: args.awaited,
        distribution,
        seed: args.seed,
        scan_length: args.scan_length,
        preload: args.preload,
        settle: args.settle,
        drain: args.drain,
        space: args.space,
        emulate: Emulation::parse(&args.emulate).map_err(Failure::usage)?,
        compressible: args.compressible,
    })
}
