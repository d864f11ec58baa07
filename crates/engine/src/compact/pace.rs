//! A limit on the bytes that compactions read and write in a second, all jobs together.

use thermocline_base::Result;
use thermocline_env::Clock;

use crate::sync::{Arc, Mutex, lock};

/// A job sleeps no longer than this at once, so that it hears of the store's closing.
const NAP_MS: u64 = 10;

const NANOS: u64 = 1_000_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Pace {
    /// Bytes in a second; 0 is no limit.
    rate: u64,
    clock: Arc<dyn Clock>,
    /// Up to when, by the clock, what was read and written has used the rate up.
    used_up_to: Mutex<u64>,
}

impl Pace {
    pub fn new(rate: u64, clock: Arc<dyn Clock>) -> Pace {
        Pace {
            rate,
            clock,
            used_up_to: Mutex::new(0),
        }
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.rate > 0
    }

    /// `bytes` more were read or written: waits until that is no more than the rate allows. Before each
    /// nap `go_on` is asked.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub fn spent(&self, bytes: u64, go_on: &dyn Fn() -> Result<()>) -> Result<()> {
        if self.rate == 0 || bytes == 0 {
            return Ok(());
        }
        let cost = u128::from(bytes) * u128::from(NANOS) / u128::from(self.rate);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let until = {
            let mut used = lock(&self.used_up_to);
            // What was not used is not saved up.
            *used = (*used).max(self.clock.now_ns()).saturating_add(cost);
            *used
        };
        loop {
            let left_ms = until.saturating_sub(self.clock.now_ns()) / 1_000_000;
            if left_ms == 0 {
                return Ok(());
            }
            go_on()?;
            self.clock.sleep_ms(left_ms.min(NAP_MS));
        }
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::Error;
    use thermocline_env::simulated::SimClock;

    use super::*;

    #[test]
    fn time_passes_as_the_rate_says_and_nobody_sleeps_for_long() {
        let clock = Arc::new(SimClock::new());
        let pace = Pace::new(1 << 20, clock.clone());
        for _ in 0..8 {
            pace.spent(256 << 10, &|| Ok(())).unwrap();
        }
        let ms = clock.now_ns() / 1_000_000;
        assert!((1990..=2000).contains(&ms), "{ms}");
        // A pause is not made up for.
        clock.advance_ns(10 * NANOS);
        pace.spent(1 << 20, &|| Ok(())).unwrap();
        let ms = clock.now_ns() / 1_000_000;
        assert!((12_990..=13_000).contains(&ms), "{ms}");
        let naps = std::cell::Cell::new(0);
        let closed = pace.spent(1 << 30, &|| {
            naps.set(naps.get() + 1);
            match naps.get() {
                3 => Err(Error::Closed),
                _ => Ok(()),
            }
        });
        assert!(matches!(closed, Err(Error::Closed)));
        assert!(clock.now_ns() / 1_000_000 - ms <= 2 * NAP_MS);
        Pace::new(0, clock.clone())
            .spent(1 << 40, &|| Err(Error::Closed))
            .unwrap();
    }
}
