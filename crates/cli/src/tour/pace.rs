//! How long things take, and whether the tour goes on.

use std::time::Duration;

use thermocline_bench::clock::{Instant, now};

use crate::fail::{Failure, Outcome};
use crate::interrupt;

/// An error if the user wants it to end.
pub(super) fn go_on() -> Outcome {
    if interrupt::asked() {
        return Err(Failure::Failed("the tour was interrupted".to_string()));
    }
    Ok(())
}

pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun: Instant = now();
    let result = work();
    (result, now() - begun)
}

pub(super) fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

pub(super) fn rate(count: u64, time: Duration) -> u64 {
    whole(count as f64 / time.as_secs_f64().max(1e-9))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a rate for people, rounded; a float beyond the range saturates"
)]
pub(super) fn whole(x: f64) -> u64 {
    x.round() as u64
}
