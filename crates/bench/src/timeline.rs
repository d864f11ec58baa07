//! How fast a run went over time, by what its [`Watch`](crate::Watch) has shown.
//!
//! Whoever follows a run notes each look ([`Timeline::look`]); the run itself does nothing for it. However long a run is,
//! there are no more samples than some hundreds: then every second one goes, and the next ones are twice as far apart.

use crate::clock::Duration;
use crate::oltp::OltpPlan;
use crate::plan::Plan;
use crate::reading::SEQUENTIAL_GROUP;
use crate::threads::REPORT_OPS;
use crate::watch::Snapshot;

/// Between two samples at first.
const STEP: Duration = Duration::from_millis(50);

/// Most samples that are kept.
const SAMPLES_MAX: usize = 512;

/// Most steps of which the rate is told.
const STEPS_MAX: u64 = 100;

/// How often threads say in one step at least what they have done, so that a rate is wrong by no more than a tenth.
const REPORTS_MIN: u64 = 10;

/// How many operations were done when.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// What counts.
    phase: &'static str,
    /// Operations that threads tell of at once.
    grain: u64,
    /// Between two samples.
    step: Duration,
    /// Since the phase began, with the operations that were done by then.
    samples: Vec<(Duration, u64)>,
}

impl Timeline {
    /// Of a run of `plan`.
    pub fn of(plan: &Plan) -> Timeline {
        let each = REPORT_OPS.max(SEQUENTIAL_GROUP).max(plan.batch as u64);
        Timeline::new(plan.workload.name(), each, plan.threads)
    }

    /// Of a run of transactions.
    pub fn of_oltp(plan: &OltpPlan) -> Timeline {
        Timeline::new(plan.workload.name(), 1, plan.threads)
    }

    fn new(phase: &'static str, each: u64, threads: usize) -> Timeline {
        Timeline {
            phase,
            grain: each.saturating_mul(threads as u64).max(1),
            step: STEP,
            samples: Vec::new(),
        }
    }

    /// Notes how far the run is, if that counts.
    pub fn look(&mut self, now: &Snapshot) {
        let (at, done) = self.samples.last().copied().unwrap_or_default();
        // Less was done if something else has begun, and has not said its name yet.
        let counts = now.phase == self.phase && now.done >= done;
        if !counts || now.elapsed < at + self.step {
            return;
        }
        self.samples.push((now.elapsed, now.done));
        if self.samples.len() >= SAMPLES_MAX {
            let mut nth = 0usize;
            self.samples.retain(|_| {
                nth += 1;
                nth.is_multiple_of(2)
            });
            self.step *= 2;
        }
    }

    /// Operations a second in even steps of a run of so many seconds and operations: fewer steps where less was done than
    /// threads tell of at once.
    pub fn rates(&self, seconds: f64, ops: u64) -> Vec<f64> {
        let steps = ops / self.grain.saturating_mul(REPORTS_MIN);
        let steps = steps.clamp(1, STEPS_MAX);
        let mut points = vec![(0.0, 0.0)];
        let seen = self.samples.iter();
        let seen = seen.map(|(at, done)| (at.as_secs_f64(), *done));
        // The end is known better.
        let within = seen.filter(|(at, done)| *at < seconds && *done <= ops);
        points.extend(within.map(|(at, done)| (at, done as f64)));
        points.push((seconds, ops as f64));
        let width = seconds / steps as f64;
        let done_at = |step: u64| done_at(&points, width * step as f64);
        let rate = |step: u64| (done_at(step + 1) - done_at(step)) / width.max(1e-9);
        (0..steps).map(rate).collect()
    }
}

/// What was done by a time, taken to have gone evenly between two of at least two points.
fn done_at(points: &[(f64, f64)], time: f64) -> f64 {
    let next = points.partition_point(|(at, _)| *at < time);
    let next = next.clamp(1, points.len() - 1);
    let ((from, low), (to, high)) = (points[next - 1], points[next]);
    let part = (time - from) / (to - from).max(f64::MIN_POSITIVE);
    low + (high - low) * part.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    fn seen(phase: &'static str, millis: u64, done: u64) -> Snapshot {
        Snapshot {
            phase,
            done,
            total: 0,
            elapsed: Duration::from_millis(millis),
        }
    }

    /// 10,000 operations in the first second, and none in the next one.
    #[test]
    fn rates_are_those_of_even_steps_of_the_phase_that_counts() {
        let mut timeline = Timeline::of(&Plan::new(Workload::ReadRandom));
        timeline.look(&seen("loading", 700, 90_000));
        for tenth in 1..=20u64 {
            let done = 1000 * tenth.min(10);
            timeline.look(&seen("readrandom", 100 * tenth, done));
            // Too early for the next sample.
            timeline.look(&seen("readrandom", 100 * tenth + 1, done));
        }
        assert_eq!(timeline.samples.len(), 20);
        // Of the next phase, whose name comes later.
        timeline.look(&seen("readrandom", 2100, 0));
        timeline.look(&seen("check", 2200, 0));
        assert_eq!(timeline.samples.len(), 20);
        let rates = timeline.rates(2.0, 10_000);
        // Threads tell of 64 at once.
        assert_eq!(rates.len(), 15);
        for (n, rate) in rates.iter().enumerate() {
            let expected = match n {
                0..7 => 10_000.0,
                7 => 5_000.0,
                _ => 0.0,
            };
            assert!((rate - expected).abs() < 1.0, "{n}: {rates:?}");
        }
    }

    #[test]
    fn a_run_that_nobody_saw_has_one_rate() {
        let timeline = Timeline::of(&Plan::new(Workload::FillSeq));
        assert_eq!(timeline.rates(0.5, 100), [200.0]);
        assert_eq!(timeline.rates(0.0, 0), [0.0]);
        let many = timeline.rates(0.01, 1_000_000);
        assert_eq!(many.len(), 100);
        assert!(many.iter().all(|rate| (rate / 1e8 - 1.0).abs() < 1e-6));
    }

    /// A run of a month is told in as many samples as one of a minute, and its first hour counts, too.
    #[test]
    fn samples_do_not_grow_with_the_run() {
        let mut timeline = Timeline::of(&Plan::new(Workload::Overwrite));
        for look in 1..=100_000u64 {
            timeline.look(&seen("overwrite", 50 * look, 50 * look));
            assert!(timeline.samples.len() < SAMPLES_MAX);
        }
        assert!(timeline.samples.len() >= SAMPLES_MAX / 4);
        let rates = timeline.rates(5000.0, 5_000_000);
        assert_eq!(rates.len(), 100);
        assert!(rates.iter().all(|rate| (rate - 1000.0).abs() < 1.0));
    }
}
