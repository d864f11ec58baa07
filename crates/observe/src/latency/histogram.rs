//! A histogram of times that many threads may add to.
//!
//! Buckets are sixteen to each power of two of nanoseconds, so a time is known to a sixteenth, from
//! nanoseconds to eighteen minutes, in five KiB. Longer times count in the last bucket.

use thermocline_base::size::index;
use thermocline_base::sync::{AtomicU64, Ordering};

/// Bits of a time that its bucket keeps, below the highest.
const BITS: u32 = 4;

/// Buckets for each power of two.
const EACH: u64 = 1 << BITS;

/// Times from 2^40 ns on are not told apart.
const POWERS: u32 = 40;

const BUCKETS: usize = ((POWERS - BITS + 1) as usize) << BITS;

/// Adds with relaxed order: numbers to be read, which guard nothing.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
    nanos_max: AtomicU64,
}

/// The sum of some histograms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sum {
    buckets: Vec<u64>,
    nanos: u64,
    nanos_max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            nanos: AtomicU64::new(0),
            nanos_max: AtomicU64::new(0),
        }
    }
}

/// The bucket of a time.
fn bucket(nanos: u64) -> usize {
    let nanos = nanos.min((1 << POWERS) - 1);
    if nanos < EACH {
        return index(nanos);
    }
    let power = nanos.ilog2();
    let first = u64::from(power - BITS + 1) << BITS;
    index(first + ((nanos >> (power - BITS)) & (EACH - 1)))
}

/// The longest time of a bucket.
fn longest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EACH {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    (((EACH + (bucket & (EACH - 1))) + 1) << shift) - 1
}

impl Histogram {
    pub fn add(&self, nanos: u64) {
        self.buckets[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        if nanos > self.nanos_max.load(Ordering::Relaxed) {
            self.nanos_max.fetch_max(nanos, Ordering::Relaxed);
        }
    }
}

impl Default for Sum {
    fn default() -> Sum {
        Sum {
            buckets: vec![0; BUCKETS],
            nanos: 0,
            nanos_max: 0,
        }
    }
}

impl Sum {
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.nanos += histogram.nanos.load(Ordering::Relaxed);
        let max = histogram.nanos_max.load(Ordering::Relaxed);
        self.nanos_max = self.nanos_max.max(max);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all times.
    pub fn nanos(&self) -> u64 {
        self.nanos
    }

    /// The longest time.
    pub fn nanos_max(&self) -> u64 {
        self.nanos_max
    }

    /// A time that `thousandths` of all are not above; at most a sixteenth more than the shortest such.
    pub fn quantile(&self, thousandths: u64) -> u64 {
        let rank = (self.count() * thousandths).div_ceil(1000).max(1);
        let mut seen = 0;
        let at = self.buckets.iter().position(|&n| {
            seen += n;
            seen >= rank
        });
        // The last bucket has no longest time.
        at.filter(|&at| at + 1 < BUCKETS)
            .map_or(self.nanos_max, |at| longest(at).min(self.nanos_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_a_sixteenth_wide_at_most() {
        let mut next = 0;
        for at in 0..BUCKETS {
            let (shortest, longest) = (next, longest(at));
            assert_eq!((bucket(shortest), bucket(longest)), (at, at));
            assert!(
                longest - shortest <= shortest / 16,
                "{shortest} to {longest}"
            );
            next = longest + 1;
        }
        assert_eq!(next, 1 << POWERS);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_times_to_a_sixteenth() {
        let mut random = 1u64;
        for n in [1, 2, 10, 999, 1000, 20_000] {
            let histogram = Histogram::default();
            let mut times: Vec<u64> = (0..n)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    random >> (24 + random % 40)
                })
                .collect();
            for &time in &times {
                histogram.add(time);
            }
            times.sort_unstable();
            let mut sum = Sum::default();
            sum.add(&histogram);
            assert_eq!(sum.count(), n);
            assert_eq!(sum.nanos(), times.iter().sum::<u64>());
            assert_eq!(Some(&sum.nanos_max()), times.last());
            for thousandths in [1, 500, 900, 990, 999, 1000] {
                let rank = (n * thousandths).div_ceil(1000).max(1);
                let exact = times[index(rank - 1)];
                let found = sum.quantile(thousandths);
                assert!(
                    found >= exact && found - exact <= exact / 16,
                    "{found} {exact}"
                );
            }
        }
    }

    #[test]
    fn times_beyond_the_last_bucket_keep_the_longest() {
        let histogram = Histogram::default();
        histogram.add(u64::MAX >> 8);
        let mut sum = Sum::default();
        sum.add(&histogram);
        assert_eq!(sum.quantile(500), u64::MAX >> 8);
        assert_eq!(Sum::default().quantile(999), 0);
    }
}
