//! `bench tpcc`, `bench orders` and `bench randomtransaction`: transactions.

use thermocline::options::Emulation;
use thermocline_bench::oltp::{OltpPlan, OltpWorkload};
use thermocline_bench::run_oltp;

use crate::args::BenchArgs;
use crate::commands::measured::{durability, finished, followed, store_options};
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;

/// Runs one.
pub(crate) fn bench(workload: OltpWorkload, args: BenchArgs, output: &mut Output) -> Outcome {
    let plan = plan(workload, args)?;
    plan.validate().map_err(Failure::usage)?;
    interrupt::catch();
    let report = followed(output, "operations", |watch| run_oltp(&plan, watch))?;
    let text = report.to_string();
    let (interrupted, reason) = (report.interrupted, report.invalid_reason.clone());
    let value = serde_json::to_value(&report);
    finished(output, value, &text, (interrupted, reason))
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
