//! The one place where a benchmark reads the clock.

pub use std::time::{Duration, Instant};

/// The time now.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, outside the engine's simulated world"
)]
#[inline]
pub fn now() -> Instant {
    Instant::now()
}
