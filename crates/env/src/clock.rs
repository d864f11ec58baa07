//! Time.

use std::fmt;

/// Time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;
    /// As [`Clock::now_ns`], but of the clock's last tick, which may be ten milliseconds ago, and never ahead of it. It costs a
    /// few nanoseconds: for whoever asks often, and does not need it better.
    fn tick_ns(&self) -> u64 {
        self.now_ns()
    }
    /// Waits.
    fn sleep_ms(&self, ms: u64);
    /// Seconds since the beginning of 1970 (UTC), as the machine has them. Unlike [`Clock::now_ns`] it means the same to another
    /// process, and may go back, or far ahead, when somebody sets the machine's clock. 0 before 1970.
    fn unix_s(&self) -> u64;
}
