//! What is the same for all workloads: following a run, and printing what it found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use thermocline::options::Emulation;
use thermocline::{Durability, Options, Result};
use thermocline_bench::{Snapshot, Timeline, Watch};

use crate::args::{BenchArgs, DurabilityArg};
use crate::fail::{Failure, Outcome, even_unread};
use crate::interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::store::Access;

/// How often the bar moves and Ctrl-C is looked for.
const TICK: Duration = Duration::from_millis(50);

/// Prints a report, and answers whether its numbers are those of a whole, valid run.
pub(super) fn finished(
    output: &mut Output,
    report: serde_json::Result<serde_json::Value>,
    text: &str,
    (interrupted, invalid): (bool, Option<String>),
) -> Outcome {
    let printed = if output.json {
        let value =
            report.map_err(|e| Failure::Failed(format!("cannot print the report as JSON: {e}")))?;
        output.document(&value)
    } else {
        output.line(text)
    };
    let printed = printed.and_then(|()| output.finish());
    judged(printed, (interrupted, invalid))
}

/// What a run comes to whose report was printed, or could not be.
fn judged(printed: Outcome, (interrupted, invalid): (bool, Option<String>)) -> Outcome {
    let failed = match invalid {
        _ if interrupted => "interrupted: the numbers are those of the part that ran".to_string(),
        Some(reason) => format!("the run is invalid: {reason}"),
        None => return printed,
    };
    even_unread(printed)?;
    Err(Failure::Failed(failed))
}

/// The options of the store.
pub(super) fn store_options(args: &BenchArgs) -> Outcome<Options> {
    let existing = args.db.clone().unwrap_or_default();
    let access = if args.use_existing {
        Access::Write
    } else {
        Access::Create
    };
    let mut options = args.store.options(&existing, access)?;
    // What cannot be slowed down is wrong before anything is opened.
    let emulate = Emulation::parse(&args.emulate).map_err(Failure::usage)?;
    if emulate != Emulation::None {
        options.emulate = emulate;
        options.validate().map_err(Failure::usage)?;
    }
    Ok(options)
}

pub(super) fn durability(of: DurabilityArg) -> Durability {
    match of {
        DurabilityArg::Immediate => Durability::Immediate,
        DurabilityArg::Buffered => Durability::Buffered,
    }
}

/// Runs `work` here while another thread moves the bar, which counts `unit`, and looks for Ctrl-C.
pub(super) fn followed<T>(
    output: &Output,
    unit: &str,
    work: impl FnOnce(&Watch) -> Result<T>,
) -> Result<T> {
    told(output, unit, |watch, _| work(watch))
}

/// As [`followed`], noting on a timeline how far the work is.
pub(super) fn timed<T>(
    output: &Output,
    unit: &str,
    timeline: &mut Timeline,
    work: impl FnOnce(&Watch) -> Result<T>,
) -> Result<T> {
    let note = |now: &Snapshot| timeline.look(now);
    watched(output, unit, note, |watch, _| work(watch))
}

/// As [`followed`], of work that has lines to say meanwhile.
pub(super) fn told<T>(
    output: &Output,
    unit: &str,
    work: impl FnOnce(&Watch, &dyn Fn(&str)) -> Result<T>,
) -> Result<T> {
    watched(output, unit, |_| (), work)
}

fn watched<T>(
    output: &Output,
    unit: &str,
    mut note: impl FnMut(&Snapshot) + Send,
    work: impl FnOnce(&Watch, &dyn Fn(&str)) -> Result<T>,
) -> Result<T> {
    let watch = Watch::new();
    let mut progress = Progress::new(output, 0, unit);
    let aside = progress.aside(output);
    let look = || {
        if interrupt::asked() {
            watch.stop();
        }
        let now = watch.snapshot();
        note(&now);
        progress.set_total(now.total.max(now.done));
        progress.set(now.phase, now.done);
    };
    beside(look, || work(&watch, &|text: &str| aside.tell(text)))
}

/// Does `work` here, and calls `look` on another thread once in a [`TICK`] until that has ended, be it by a panic.
pub(super) fn beside<T>(mut look: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
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

    #[test]
    fn a_run_that_does_not_count_has_failed_though_nobody_reads_of_it() {
        let unread = || Err(Failure::NoReader);
        for doubts in [(true, None), (false, Some("why".to_string()))] {
            let come_to = judged(unread(), doubts);
            assert!(matches!(come_to, Err(Failure::Failed(_))), "{come_to:?}");
        }
        let come_to = judged(unread(), (false, None));
        assert!(matches!(come_to, Err(Failure::NoReader)), "{come_to:?}");
        judged(Ok(()), (false, None)).unwrap();
    }
}
