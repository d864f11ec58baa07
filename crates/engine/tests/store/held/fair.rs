//! A clock for a writer beside readers that get no turn.

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_env::Clock;
use thermocline_env::real::RealClock;

/// How many threads read beside a writer.
pub const READERS: usize = 2;

/// Nanoseconds. A reader that has gone on for longer with one round gets no turn: many of them take less.
const ROUND_NS: u64 = 100_000_000;

/// Milliseconds for which such a reader is waited for at most.
const STALL_MS: u64 = 20_000;

/// A clock on which whoever sleeps sleeps on while a reader gets no turn. A writer waits for who is inside a call, but not for long: where
/// processors are busy a thread may stand still for longer, and the writer would be refused.
#[derive(Debug, Default)]
pub struct Fair {
    real: RealClock,
    /// Since when each reader is in the round that it is in; 0 if it is in none.
    since: [AtomicU64; READERS],
}

impl Fair {
    /// Has the `nth` reader begin a round.
    pub fn begin_round(&self, nth: usize) -> Round<'_> {
        self.since[nth].store(self.now_ns().max(1), Ordering::Relaxed);
        Round(&self.since[nth])
    }

    fn gets_no_turn(&self, since: &AtomicU64) -> bool {
        let begun = since.load(Ordering::Relaxed);
        begun > 0 && self.now_ns().saturating_sub(begun) > ROUND_NS
    }
}

/// A round of a reader.
pub struct Round<'a>(&'a AtomicU64);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Clock for Fair {
    fn now_ns(&self) -> u64 {
        self.real.now_ns()
    }

    fn sleep_ms(&self, ms: u64) {
        self.real.sleep_ms(ms);
        for _ in 0..STALL_MS {
            if !self.since.iter().any(|since| self.gets_no_turn(since)) {
                return;
            }
            self.real.sleep_ms(1);
        }
    }

    fn unix_s(&self) -> u64 {
        self.real.unix_s()
    }
}
