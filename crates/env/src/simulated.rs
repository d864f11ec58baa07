//! A clock that a test advances and randomness from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::Result;

use crate::clock::Clock;
use crate::random::Random;

const NS_A_SECOND: u64 = 1_000_000_000;

/// A clock that stands still until [`SimClock::advance_ns`] or [`Clock::sleep_ms`] moves it.
#[derive(Debug, Default)]
pub struct SimClock {
    now_ns: AtomicU64,
    /// What is added to the seconds of `now_ns`, modulo 2^64.
    unix_s: AtomicU64,
}

impl SimClock {
    /// A clock at zero.
    pub fn new() -> SimClock {
        SimClock::default()
    }

    /// Moves the clock forward.
    pub fn advance_ns(&self, ns: u64) {
        self.now_ns.fetch_add(ns, Ordering::SeqCst);
    }

    /// Sets what [`Clock::unix_s`] says, back or ahead, from where it goes on as the clock does.
    pub fn set_unix_s(&self, unix_s: u64) {
        let passed = self.now_ns() / NS_A_SECOND;
        self.unix_s
            .store(unix_s.wrapping_sub(passed), Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    /// Returns at once; the time has passed.
    fn sleep_ms(&self, ms: u64) {
        self.advance_ns(ms.saturating_mul(1_000_000));
    }

    fn unix_s(&self) -> u64 {
        let passed = self.now_ns() / NS_A_SECOND;
        self.unix_s.load(Ordering::SeqCst).wrapping_add(passed)
    }
}

/// The splitmix64 sequence of a seed. Not for secrets.
///
/// ```
/// use thermocline_env::{Random, simulated::SeededRandom};
/// let (mut a, mut b) = ([0; 20], [0; 20]);
/// SeededRandom::new(7).fill(&mut a).unwrap();
/// SeededRandom::new(7).fill(&mut b).unwrap();
/// assert_eq!(a, b);
/// ```
#[derive(Debug)]
pub struct SeededRandom {
    state: AtomicU64,
}

impl SeededRandom {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom {
            state: AtomicU64::new(seed),
        }
    }

    /// The next number.
    pub fn next_u64(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self
            .state
            .fetch_add(STEP, Ordering::SeqCst)
            .wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0. Slightly uneven for bounds near 2^64.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.next_u64() % bound
    }
}

impl Random for SeededRandom {
    fn fill(&self, buf: &mut [u8]) -> Result<()> {
        for chunk in buf.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_only_when_told() {
        let clock = SimClock::new();
        assert_eq!(clock.now_ns(), 0);
        clock.advance_ns(5);
        clock.sleep_ms(2);
        assert_eq!(clock.now_ns(), 2_000_005);
        assert_eq!(clock.now_ns(), 2_000_005);
    }

    #[test]
    fn the_calendar_goes_on_from_where_it_is_set_and_the_clock_never_goes_back() {
        let clock = SimClock::new();
        clock.advance_ns(3 * NS_A_SECOND);
        assert_eq!(clock.unix_s(), 3);
        for set in [1_000, 10, 1 << 40] {
            clock.set_unix_s(set);
            assert_eq!(clock.unix_s(), set);
            let before = clock.now_ns();
            clock.advance_ns(2 * NS_A_SECOND);
            assert_eq!(clock.unix_s(), set + 2);
            assert_eq!(clock.now_ns(), before + 2 * NS_A_SECOND);
        }
    }

    #[test]
    fn a_seed_gives_one_sequence_and_another_seed_another() {
        let draw = |seed| {
            let random = SeededRandom::new(seed);
            (0..100).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut sorted = draw(3);
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 100);
    }
}
