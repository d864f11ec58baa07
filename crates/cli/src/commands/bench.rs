//! `bench`: run a workload, follow it, print what it found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
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
    let mut progress = Progress::new(output, 0, "operations");
    let look = || {
        if interrupt::asked() {
            watch.stop();
        }
        let now = watch.snapshot();
        progress.set_total(now.total.max(now.done));
        progress.set(now.phase, now.done);
    };
    beside(look, || thermocline_bench::run(plan, &watch))
}

/// Does `work` here, and calls `look` on another thread once in a [`TICK`] until that has ended, be it by a panic.
fn beside<T>(mut look: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                look();
            }
        });
        let _ends = Ends {
            ended: &ended,
            thread: looks.thread().clone(),
        };
        work()
    })
}

/// Has a thread end when it goes.
struct Ends<'a> {
    ended: &'a AtomicBool,
    thread: Thread,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_looks_ends_with_the_work_and_with_its_panic() {
        assert_eq!(beside(|| (), || 7), 7);
        let panics = || beside(|| (), || panic!("in the work"));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
