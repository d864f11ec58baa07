//! Time.

use std::fmt;

/// Time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;
    /// Waits.
    fn sleep_ms(&self, ms: u64);
}
