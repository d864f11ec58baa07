//! `bench`: run a workload, follow it, print what it found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thermocline::options::Emulation;
use thermocline::{Durability, Result};
use thermocline_bench::{Distribution, Plan, Report, Watch, Workload};

use crate::args::{BenchArgs, DurabilityArg};
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::store::Access;

/// How often the bar moves and Ctrl-C is looked for.
const TICK: Duration = Duration::from_millis(50);

/// Runs a workload.
pub(crate) fn bench(args: Box<BenchArgs>, output: &mut Output) -> Outcome {
    if args.report.is_some() {
        return Err(Failure::Failed(
            "not supported: --report needs plots, which this version does not have; use --json"
                .to_string(),
        ));
    }
    let plan = plan(*args)?;
    plan.validate().map_err(Failure::usage)?;
    interrupt::catch();
    let report = followed(&plan, output)?;
    if output.json {
        let value = serde_json::to_value(&report)
            .map_err(|e| Failure::Failed(format!("cannot print the report as JSON: {e}")))?;
        output.document(&value)?;
    } else {
        output.line(&report.to_string())?;
    }
    output.finish()?;
    match report.invalid_reason {
        _ if report.interrupted => Err(Failure::Failed(
            "interrupted: the numbers are those of the part that ran".to_string(),
        )),
        Some(reason) => Err(Failure::Failed(format!("the run is invalid: {reason}"))),
        None => Ok(()),
    }
}

fn plan(args: BenchArgs) -> Outcome<Plan> {
    let workload = Workload::parse(&args.workload).map_err(Failure::usage)?;
    let distribution = args
        .distribution
        .as_deref()
        .map(Distribution::parse)
        .transpose()
        .map_err(Failure::usage)?;
    let existing = match &args.db {
        Some(path) => path.clone(),
        None => std::path::PathBuf::new(),
    };
    let access = if args.use_existing {
        Access::Write
    } else {
        Access::Create
    };
    Ok(Plan {
        workload,
        options: args.store.options(&existing, access)?,
        db: args.db,
        use_existing: args.use_existing,
        num: args.num,
        reads: args.reads,
        duration: args.duration,
        threads: args.threads,
        key_size: args.key_size,
        value_size: args.value_size,
        durability: match args.durability {
            DurabilityArg::Immediate => Durability::Immediate,
            DurabilityArg::Buffered => Durability::Buffered,
        },
        batch: args.batch,
        async_depth: args.async_depth,
        distribution,
        seed: args.seed,
        scan_length: args.scan_length,
        drain: args.drain,
        emulate: Emulation::parse(&args.emulate).map_err(Failure::usage)?,
        compressible: args.compressible,
    })
}

/// Runs `plan` here while another thread moves the bar and looks for Ctrl-C.
fn followed(plan: &Plan, output: &Output) -> Result<Report> {
    let watch = Watch::new();
    let ended = AtomicBool::new(false);
    let mut progress = Progress::new(output, 0, "operations");
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                if interrupt::asked() {
                    watch.stop();
                }
                let now = watch.snapshot();
                progress.set_total(now.total.max(now.done));
                progress.set(now.phase, now.done);
            }
        });
        let report = thermocline_bench::run(plan, &watch);
        ended.store(true, Ordering::Relaxed);
        follower.thread().unpark();
        report
    })
}
