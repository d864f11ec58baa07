//! The clock of a history.

use thermocline_base::sync::{AtomicU64, Ordering};

/// Counts steps. Clients share one and take a step before and after each call.
///
/// ```
/// # use thermocline_testkit::history::Clock;
/// let clock = Clock::default();
/// assert!(clock.step() < clock.step());
/// ```
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// The next step; the first is 1. Whatever happened in a thread before it took a step has happened
    /// for every thread that takes a later one.
    pub fn step(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}
