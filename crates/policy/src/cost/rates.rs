//! How often a partition is read and written, lately.

use crate::tuning::{RATE_HALF_LIFE_NS, RATE_HORIZON};

/// Counted operations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Counts {
    /// Reads.
    pub reads: f64,
    /// Records written.
    pub writes: f64,
    /// Of them those that overwrote or deleted what was there.
    pub updates: f64,
}

/// Counts that decay: each falls to one half in [`RATE_HALF_LIFE_NS`]. Reads are sampled by their threads and
/// writes are counted when they are merged, so nothing here lies on anybody's way.
///
/// A steady rate of x a second is told as x, whatever the half-life; one that has ended is told as
/// half of it after a half-life.
///
/// ```
/// use thermocline_policy::cost::{Counts, Rates};
/// use thermocline_policy::tuning::RATE_HALF_LIFE_NS;
/// let mut rates = Rates::default();
/// let second = 1_000_000_000;
/// for now in 1..=100 {
///     rates.add(now * second, Counts { reads: 500.0, ..Counts::default() });
/// }
/// let now = 100 * second;
/// assert!((rates.per_second(now).reads - 500.0).abs() < 25.0);
/// assert!((rates.per_second(now + RATE_HALF_LIFE_NS).reads - 250.0).abs() < 15.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Rates {
    /// Decayed to `as_of`.
    counts: Counts,
    /// A time of the clock, in nanoseconds.
    as_of: u64,
}

impl Rates {
    /// Adds what was counted up to the time `now`. A clock that goes back decays nothing.
    pub fn add(&mut self, now: u64, more: Counts) {
        *self = self.at(now);
        self.counts.reads += more.reads;
        self.counts.writes += more.writes;
        self.counts.updates += more.updates;
    }

    /// As of `now`.
    fn at(&self, now: u64) -> Rates {
        let age = now.saturating_sub(self.as_of) as f64 / RATE_HALF_LIFE_NS as f64;
        let left = 0.5f64.powf(age);
        Rates {
            counts: Counts {
                reads: self.counts.reads * left,
                writes: self.counts.writes * left,
                updates: self.counts.updates * left,
            },
            as_of: self.as_of.max(now),
        }
    }

    /// What a second has, as of `now`.
    pub fn per_second(&self, now: u64) -> Counts {
        let counts = self.at(now).counts;
        Counts {
            reads: counts.reads / RATE_HORIZON,
            writes: counts.writes / RATE_HORIZON,
            updates: counts.updates / RATE_HORIZON,
        }
    }

    /// As if a second had lately had so much, as of `now`.
    pub fn of(now: u64, per_second: Counts) -> Rates {
        Rates {
            counts: Counts {
                reads: per_second.reads * RATE_HORIZON,
                writes: per_second.writes * RATE_HORIZON,
                updates: per_second.updates * RATE_HORIZON,
            },
            as_of: now,
        }
    }

    /// Divides them between the two parts of a partition that was split. The left one has the share `left` of the
    /// bytes.
    pub fn split(self, left: f64) -> (Rates, Rates) {
        let part = |share: f64| Rates {
            counts: Counts {
                reads: self.counts.reads * share,
                writes: self.counts.writes * share,
                updates: self.counts.updates * share,
            },
            as_of: self.as_of,
        };
        (part(left), part(1.0 - left))
    }

    /// Those of two neighbours that became one partition.
    pub fn joined(self, other: Rates) -> Rates {
        let now = self.as_of.max(other.as_of);
        let mut joined = self.at(now);
        joined.add(now, other.at(now).counts);
        joined
    }
}
