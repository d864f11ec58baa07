//! Delay that the engine put on writers of a run, by cause.

use serde::Serialize;
use thermocline::{Metrics, StallMetrics};

/// Delay by one cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// As `stat` names it ([`StallMetrics::cause`]).
    pub cause: &'static str,
    /// Writes that were delayed.
    pub count: u64,
    /// Their delay in all, in milliseconds.
    pub ms: f64,
    /// The longest delay, in milliseconds.
    pub ms_max: f64,
}

/// The causes that delayed somebody between two readings, the one with the longest delay first. Longest delays are forgotten when
/// a run begins, so those of the second reading are of the run.
pub(crate) fn between(before: &Metrics, after: &Metrics) -> Vec<Stall> {
    let of = |m: &StallMetrics| {
        let mut earlier = before.stalls.iter();
        let earlier = earlier.find(|earlier| earlier.cause == m.cause);
        let (count, ms) = earlier.map_or((0, 0.0), |earlier| (earlier.count, earlier.ms));
        Stall {
            cause: m.cause,
            count: m.count.saturating_sub(count),
            ms: (m.ms - ms).max(0.0),
            ms_max: m.ms_max,
        }
    };
    let mut stalls: Vec<Stall> = after.stalls.iter().map(of).collect();
    stalls.retain(|stall| stall.count > 0);
    stalls.sort_by(|a, b| b.ms_max.total_cmp(&a.ms_max));
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(stalls: &[(&'static str, u64, f64, f64)]) -> Metrics {
        let of = |(cause, count, ms, ms_max): &(&'static str, u64, f64, f64)| StallMetrics {
            cause,
            count: *count,
            ms: *ms,
            ms_max: *ms_max,
        };
        Metrics {
            stalls: stalls.iter().map(of).collect(),
            ..Metrics::default()
        }
    }

    #[test]
    fn what_was_before_does_not_count_and_the_longest_comes_first() {
        let before = metrics(&[("flush", 2, 5.0, 4.0), ("growth", 1, 1.0, 1.0)]);
        let after = metrics(&[
            ("growth", 1, 1.0, 0.0),
            ("flush", 5, 20.0, 12.04),
            ("pm_fill", 1000, 90.0, 30.0),
        ]);
        let stalls = between(&before, &after);
        let of = |cause, count, ms, ms_max| Stall {
            cause,
            count,
            ms,
            ms_max,
        };
        let told = [of("pm_fill", 1000, 90.0, 30.0), of("flush", 3, 15.0, 12.04)];
        assert_eq!(stalls, told);
        assert_eq!(between(&after, &after), []);
    }
}
