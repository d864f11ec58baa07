//! Threads that work on shares of one job, and their clock.

use hdrhistogram::Histogram;
use thermocline::{Error, Result};

use crate::clock::{Duration, Instant, now};
use crate::plan::Plan;
use crate::watch::Watch;
use crate::workload::Operation;

/// Longest latency that is told apart, in nanoseconds; a longer one counts as this.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Operations between two looks at the watch.
pub(crate) const REPORT_OPS: u64 = 64;

/// What was done of one kind of operation.
pub(crate) struct Done {
    pub latency_ns: Histogram<u64>,
    pub ops: u64,
}

/// What a thread, or all of them, did.
pub(crate) struct Tally {
    /// By the number of the operation; those of the plan's workload are there.
    done: [Option<Done>; Operation::ALL.len()],
    /// Operations that count: all but those beside the workload's own.
    pub ops: u64,
    pub found: u64,
    pub entries: u64,
}

impl Tally {
    fn new(operations: &[Operation]) -> Result<Tally> {
        let mut done = [const { None }; Operation::ALL.len()];
        for &operation in operations {
            let latency_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3)
                .map_err(|e| Error::InvalidArgument(format!("the latency histogram: {e}")))?;
            done[operation as usize] = Some(Done { latency_ns, ops: 0 });
        }
        Ok(Tally {
            done,
            ops: 0,
            found: 0,
            entries: 0,
        })
    }

    /// What was done of each kind, in the order of their numbers.
    pub fn kinds(&self) -> impl Iterator<Item = (Operation, &Done)> {
        let kinds = Operation::ALL.into_iter().zip(&self.done);
        kinds.filter_map(|(operation, done)| Some((operation, done.as_ref()?)))
    }

    fn add(&mut self, other: Tally) {
        for (mine, theirs) in self.done.iter_mut().zip(other.done) {
            if let (Some(mine), Some(theirs)) = (mine, theirs) {
                mine.latency_ns += theirs.latency_ns;
                mine.ops += theirs.ops;
            }
        }
        self.ops += other.ops;
        self.found += other.found;
        self.entries += other.entries;
    }
}

/// A thread's share: operations `from..until` of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub thread: u64,
    pub from: u64,
    pub until: u64,
}

impl Share {
    /// The share of `thread` in `total` operations over `threads`.
    pub fn of(total: u64, thread: u64, threads: u64) -> Share {
        let edge = |t: u64| {
            let place = u128::from(total) * u128::from(t) / u128::from(threads);
            u64::try_from(place).unwrap_or(total)
        };
        Share {
            thread,
            from: edge(thread),
            until: edge(thread + 1),
        }
    }

    /// The share of `thread` in the operations of `plan`; without end if time is the limit.
    pub fn of_operations(plan: &Plan, thread: u64) -> Share {
        let mut share = Share::of(plan.operations(), thread, plan.threads as u64);
        if plan.duration.is_some() {
            share.until = u64::MAX;
        }
        share
    }
}

/// Behind a thread that is ahead by less, the next operation begins at once: sleeps are not shorter.
const AHEAD: Duration = Duration::from_millis(1);

/// How often a thread that waits for its next operation looks whether the run ends.
const LOOK: Duration = Duration::from_millis(50);

/// How often a thread begins an operation.
struct Rate {
    /// Between two of them.
    each: Duration,
    /// When the next one is due.
    next: Instant,
}

impl Rate {
    /// So many operations a second.
    fn new(per_second: f64, begun: Instant) -> Rate {
        Rate {
            each: Duration::from_secs_f64(per_second.recip()),
            next: begun,
        }
    }

    /// How long to wait at `time` before the next one, behind so many.
    fn wait(&mut self, time: Instant, ops: u64) -> Option<Duration> {
        self.next += self.each.mul_f64(ops as f64);
        let ahead = self.next.saturating_duration_since(time);
        (ahead >= AHEAD).then_some(ahead)
    }
}

/// The stopwatch of one thread.
pub(crate) struct Pace<'a> {
    watch: &'a Watch,
    last: Instant,
    deadline: Option<Instant>,
    rate: Option<Rate>,
    unreported: u64,
    beside: bool,
    pub tally: Tally,
}

impl Pace<'_> {
    /// From now on, what this thread does is beside the workload's own operations: it is measured,
    /// but neither counted nor reported to the watch.
    pub fn beside(&mut self) {
        self.beside = true;
    }

    /// Ends one operation that began at `begun`, beside others. Answers whether to go on.
    pub fn lap_since(&mut self, begun: Instant, operation: Operation) -> bool {
        self.last = begun;
        self.lap(operation, 1, 1)
    }

    /// Ends `ops` operations that are worth `samples` entries in the histogram and begins the next.
    /// Answers whether to go on.
    #[inline]
    pub fn lap(&mut self, operation: Operation, ops: u64, samples: u64) -> bool {
        let time = now();
        let nanos = u64::try_from((time - self.last).as_nanos()).unwrap_or(LATENCY_NS_MAX);
        self.last = time;
        let each = (nanos / samples).clamp(1, LATENCY_NS_MAX);
        if let Some(done) = &mut self.tally.done[operation as usize] {
            done.latency_ns.saturating_record_n(each, samples);
            done.ops += ops;
        }
        if self.beside {
            return !self.watch.is_stopped() && self.deadline.is_none_or(|end| time < end);
        }
        self.tally.ops += ops;
        self.unreported += ops;
        if self.unreported >= REPORT_OPS {
            self.watch.add(self.unreported);
            self.unreported = 0;
            if self.watch.is_stopped() {
                return false;
            }
        }
        if let Some(wait) = self.rate.as_mut().and_then(|rate| rate.wait(time, ops)) {
            let goes_on = self.sleep_until(time + wait);
            self.last = now();
            return goes_on;
        }
        self.deadline.is_none_or(|end| self.last < end)
    }

    /// Sleeps up to that time. Answers whether the run goes on then: it may end meanwhile, and the next operation of a low
    /// rate may be far off.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            let at = now();
            if self.watch.is_stopped() || self.deadline.is_some_and(|end| at >= end) {
                return false;
            }
            if at >= due {
                return true;
            }
            let next = self.deadline.map_or(due, |end| due.min(end));
            std::thread::sleep((next - at).min(LOOK));
        }
    }
}

/// How long threads work, and how fast each; none: as long as there is something, and as fast as they can.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// In seconds.
    duration: Option<f64>,
    /// In operations a second of each thread. Those beside the workload's own keep none.
    rate: Option<f64>,
}

impl Limits {
    /// Of the operations of `plan`: the workload's own threads keep its rate together.
    pub fn of(plan: &Plan) -> Limits {
        Limits {
            duration: plan.duration.or(plan.seconds_max),
            rate: plan.rate.map(|rate| rate / plan.threads as f64),
        }
    }
}

/// When a thread worked, and whether that was beside the workload's own operations.
#[derive(Debug, Clone, Copy)]
struct Worked {
    begun: Instant,
    ended: Instant,
    beside: bool,
}

/// Seconds from the first one's start, which is common but for the scheduler, to the last one's end. Who worked beside the
/// others ended behind them, perhaps held back for long in a last write that is no operation of the workload's.
fn seconds_of(threads: &[Worked]) -> f64 {
    let own = || threads.iter().filter(|worked| !worked.beside);
    let first = own().map(|worked| worked.begun).min();
    let last = own().map(|worked| worked.ended).max();
    let span = first.zip(last).map(|(first, last)| last - first);
    span.map_or(0.0, |span| span.as_secs_f64())
}

/// Runs one thread for each of `workers` and adds up what they did; also in how many seconds ([`seconds_of`]). A thread that
/// fails stops the others.
pub(crate) fn spread<W: Send>(
    workers: Vec<W>,
    operations: &[Operation],
    limits: Limits,
    watch: &Watch,
    work: impl Fn(W, &mut Pace<'_>) -> Result<()> + Sync,
) -> Result<(Tally, f64)> {
    let start = std::sync::Barrier::new(workers.len() + 1);
    let run_one = |worker: W| -> Result<(Tally, Worked)> {
        let tally = Tally::new(operations);
        start.wait();
        let begun = now();
        let mut pace = Pace {
            watch,
            last: begun,
            deadline: limits
                .duration
                .map(|seconds| begun + Duration::from_secs_f64(seconds)),
            rate: limits.rate.map(|rate| Rate::new(rate, begun)),
            unreported: 0,
            beside: false,
            tally: tally?,
        };
        let result = work(worker, &mut pace);
        watch.add(pace.unreported);
        if result.is_err() {
            watch.stop();
        }
        let worked = Worked {
            begun,
            ended: now(),
            beside: pace.beside,
        };
        result.map(|()| (pace.tally, worked))
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(|| run_one(worker)))
            .collect();
        start.wait();
        let results: Vec<_> = handles
            .into_iter()
            .map(|handle| match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect();
        let mut sum = Tally::new(operations)?;
        // Not this thread's clock: it may be woken long after the others have begun.
        let mut threads = Vec::new();
        for result in results {
            let (one, worked) = result?;
            sum.add(one);
            threads.push(worked);
        }
        Ok((sum, seconds_of(&threads)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    #[test]
    fn a_rate_is_kept_on_average() {
        let begun = now();
        let after = |millis| begun + Duration::from_millis(millis);
        // A millisecond for each.
        let mut rate = Rate::new(1000.0, begun);
        assert_eq!(rate.wait(begun, 1), Some(Duration::from_millis(1)));
        assert_eq!(rate.wait(after(1), 1), Some(Duration::from_millis(1)));
        // Who was late begins at once, until it has made up for it.
        assert_eq!(rate.wait(after(5), 1), None);
        assert_eq!(rate.wait(after(5), 2), None);
        assert_eq!(rate.wait(after(5), 3), Some(Duration::from_millis(3)));
    }

    /// A rate of which one operation takes longer than a clock can say would be a panic in the middle of a run.
    #[test]
    fn the_lowest_rate_is_kept_by_the_most_threads_and_a_lower_one_is_refused() {
        let plan = |rate| Plan {
            threads: 1024,
            rate: Some(rate),
            ..Plan::new(Workload::ReadRandom)
        };
        let lowest = plan(1e-9);
        lowest.validate().unwrap();
        let begun = now();
        let mut rate = Limits::of(&lowest)
            .rate
            .map(|rate| Rate::new(rate, begun))
            .unwrap();
        // As many as one batch may have.
        assert!(rate.wait(begun, 1 << 20) > Some(Duration::from_secs(1 << 40)));
        for wrong in [9e-10, 1e-300, f64::MIN_POSITIVE, 0.0, -1.0, f64::NAN, 1e9] {
            let error = plan(wrong).validate().unwrap_err().to_string();
            assert!(error.contains("rate is a number"), "{wrong}: {error}");
        }
    }

    /// The next operation is due in eleven days: a broken run would sleep until then, whoever ends it.
    #[test]
    fn a_run_that_keeps_a_low_rate_ends_with_its_time_and_when_it_is_stopped() {
        for (duration, stops) in [(Some(0.01), false), (None, true)] {
            let watch = Watch::new();
            let limits = Limits {
                duration,
                rate: Some(1e-6),
            };
            let run = spread(vec![0u64], &[Operation::Read], limits, &watch, |_, pace| {
                if stops {
                    watch.stop();
                }
                while pace.lap(Operation::Read, 1, 1) {
                    std::thread::yield_now();
                }
                Ok(())
            });
            assert_eq!(run.unwrap().0.ops, 1);
        }
    }

    #[test]
    fn who_writes_beside_readers_takes_no_share_of_their_rate() {
        for workload in [Workload::ReadWhileWriting, Workload::ReadRandom] {
            let plan = Plan {
                threads: 2,
                rate: Some(2000.0),
                ..Plan::new(workload)
            };
            assert_eq!(Limits::of(&plan).rate, Some(1000.0));
        }
    }

    /// Of `readwhilewriting` only the reads count, so the time is theirs: not that of a last write that waits for room.
    #[test]
    fn who_works_beside_the_others_makes_them_no_slower() {
        let start = now();
        let worked = |begun, ended, beside| Worked {
            begun: start + Duration::from_millis(begun),
            ended: start + Duration::from_millis(ended),
            beside,
        };
        let readers = [worked(3, 500, false), worked(2, 1002, false)];
        assert_eq!(seconds_of(&readers), 1.0);
        let [one, other] = readers;
        assert_eq!(seconds_of(&[one, other, worked(0, 9000, true)]), 1.0);
        assert_eq!(seconds_of(&[]), 0.0);
    }

    #[test]
    fn shares_cover_everything_once() {
        for (total, threads) in [(10, 3), (1, 4), (1000, 7), (u64::MAX >> 1, 5)] {
            let mut next = 0;
            for thread in 0..threads {
                let share = Share::of(total, thread, threads);
                assert_eq!(share.from, next);
                next = share.until;
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn one_failure_stops_all() {
        let watch = Watch::new();
        let result = spread(
            vec![0u64, 1, 2],
            &[Operation::Read],
            Limits::default(),
            &watch,
            |worker, pace| {
                if worker == 1 {
                    return Err(Error::InvalidArgument("planted".to_string()));
                }
                while pace.lap(Operation::Read, 1, 1) {
                    std::thread::yield_now();
                }
                Ok(())
            },
        );
        assert!(result.is_err_and(|e| e.to_string().contains("planted")));
    }
}
