//! How far explorations go.
//!
//! A plain `cargo test` goes a part of the way, so that whoever has just cloned the project is not kept waiting.
//! `THERMOCLINE_EXPLORE=n` goes all the way, `n` times; `.ci/run` sets it to 1. What is counted is states, executions
//! and calls, never time.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

/// How many times the whole is explored, if not only a part of it.
///
/// # Panics
/// If `THERMOCLINE_EXPLORE` is not a number above 0.
pub fn times() -> Option<u64> {
    let times = std::env::var("THERMOCLINE_EXPLORE").ok()?;
    let times = times.parse().ok().filter(|&times| times > 0);
    Some(times.expect("THERMOCLINE_EXPLORE is a number above 0"))
}

/// How many to explore: `part`, or `whole` so many times as [`times`] says.
pub fn explored(part: u64, whole: u64) -> u64 {
    times().map_or(part, |times| times * whole)
}

/// Of how many points one is tried: all of them, or in a plain run one in `part`.
pub fn one_in(part: u64) -> u64 {
    times().map_or(part, |_| 1)
}

/// Whether the `nth` of several is tried: each of them, or in a plain run one in `part`.
pub fn is_tried(nth: usize, part: u64) -> bool {
    (nth as u64).is_multiple_of(one_in(part))
}

/// Runs all of these on all processors, for a long test that would be the last one on one of them. The answers come in
/// any order.
///
/// # Panics
/// If one of the runs does, once the others have ended.
pub fn side_by_side<T: Sync, A: Send>(all: &[T], run: impl Fn(&T) -> A + Sync) -> Vec<A> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut answers = Vec::new();
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            answers.push(run(one));
        }
        answers
    };
    let others = 1..available_parallelism().map_or(1, NonZero::get);
    scope(|scope| {
        let others: Vec<_> = others.map(|_| scope.spawn(share)).collect();
        let mut answers = share();
        for other in others {
            match other.join() {
                Ok(more) => answers.extend(more),
                Err(panic) => resume_unwind(panic),
            }
        }
        answers
    })
}

#[cfg(test)]
mod tests {
    use super::side_by_side;

    #[test]
    fn each_is_run_once() {
        let all: Vec<u64> = (0..1000).collect();
        let mut answers = side_by_side(&all, |n| n + 1);
        answers.sort_unstable();
        assert_eq!(answers, (1..=1000).collect::<Vec<u64>>());
        assert_eq!(side_by_side(&all[..0], |n| n + 1), Vec::<u64>::new());
    }
}
