//! The clock of the operating system.

use std::time::{Duration, Instant, SystemTime};

use crate::clock::Clock;
use crate::sys;

/// The operating system's monotonic clock, and its calendar.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
    /// The same moment, or a little later, by the clock of [`sys::tick_ns`]: so no tick comes before its time.
    start_tick_ns: u64,
}

impl Default for RealClock {
    fn default() -> RealClock {
        RealClock::new()
    }
}

impl RealClock {
    /// A clock that counts from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    pub fn new() -> RealClock {
        RealClock {
            start: Instant::now(),
            start_tick_ns: sys::tick_start_ns(),
        }
    }
}

impl Clock for RealClock {
    /// Stays at 2^64 - 1 after 584 years.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn tick_ns(&self) -> u64 {
        match sys::tick_ns() {
            Some(tick_ns) => tick_ns.saturating_sub(self.start_tick_ns),
            None => self.now_ns(),
        }
    }

    fn sleep_ms(&self, ms: u64) {
        std::thread::sleep(Duration::from_millis(ms));
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the clock"
    )]
    fn unix_s(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_never_ahead_of_the_time_and_never_goes_back() {
        let clock = RealClock::new();
        let mut last = 0;
        for _ in 0..10_000 {
            let tick = clock.tick_ns();
            assert!(last <= tick && tick <= clock.now_ns());
            last = tick;
        }
        // And it moves: many ticks of any machine pass.
        clock.sleep_ms(50);
        assert!(clock.tick_ns() > last);
    }
}
