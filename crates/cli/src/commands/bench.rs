//! `bench`: run a workload.

use thermocline::Error;
use thermocline::options::Emulation;
use thermocline_bench::oltp::OltpWorkload;
use thermocline_bench::{Distribution, Plan, Workload};

use crate::args::BenchArgs;
use crate::commands::measured::{durability, finished, followed, store_options};
use crate::commands::{bench_oltp, bench_suite};
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;

/// Runs a workload.
pub(crate) fn bench(args: Box<BenchArgs>, output: &mut Output) -> Outcome {
    if args.report.is_some() {
        return Err(Failure::Failed(
            "not supported: --report needs plots, which this version does not have; use --json"
                .to_string(),
        ));
    }
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
    let plan = plan(*args)?;
    plan.validate().map_err(Failure::usage)?;
    interrupt::catch();
    let report = followed(output, "operations", |watch| {
        thermocline_bench::run(&plan, watch)
    })?;
    let text = report.to_string();
    let (interrupted, reason) = (report.interrupted, report.invalid_reason.clone());
    let value = serde_json::to_value(&report);
    finished(output, value, &text, (interrupted, reason))
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
