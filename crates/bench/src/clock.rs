//! The one place where benchmarks and the command line read the clock.

pub use std::time::{Duration, Instant, SystemTime};

/// The time now.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, outside the engine's simulated world"
)]
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// The date, and the time of day.
#[expect(
    clippy::disallowed_methods,
    reason = "people are told how long ago something was"
)]
pub fn date() -> SystemTime {
    SystemTime::now()
}
