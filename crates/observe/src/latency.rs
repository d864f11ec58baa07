//! How long operations take, from the call to its return.
//!
//! Not every operation is timed: reading the clock twice costs as much as a fifth of a fast get. One in
//! `metrics.latency_every` is, chosen at random, so that no pattern of operations hides from it; each
//! thread has a generator of its own for that, which begins at a place of its own: threads that end after a few operations are
//! timed as often as others. A time goes to a histogram of the thread's shard. They are
//! made when they are first needed: a store that nobody uses has none.
//!
//! Measured on a virtual machine with two cores, in processor time: `begin` and `end` together take 63 ns
//! for an operation that is timed, nearly all of it the clock, and 2.3 ns for one that is not; so 4 ns on
//! average with the default of 32 (`cargo run --release -p thermocline-observe --features examples --example latency_cost`; what
//! it prints is the time that passed).

mod histogram;

use std::sync::{Arc, OnceLock};

use thermocline_base::counter::thread_number;
use thermocline_base::sync::thread::random;
use thermocline_env::Clock;

use histogram::{Histogram, Sum};

const SHARDS: usize = 16;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// A put or merge of its own.
    Put,
    /// A delete of its own.
    Delete,
    /// A batch.
    Batch,
    /// A point read.
    Get,
    /// A read of several keys.
    MultiGet,
    /// A cursor or iterator that goes to a key, or to an end.
    Seek,
    /// A cursor or iterator that goes to the next entry, or the one before.
    Step,
}

impl Operation {
    /// Every kind.
    pub const ALL: [Operation; 7] = [
        Operation::Put,
        Operation::Delete,
        Operation::Batch,
        Operation::Get,
        Operation::MultiGet,
        Operation::Seek,
        Operation::Step,
    ];

    /// Its name, as `stat` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Put => "put",
            Operation::Delete => "delete",
            Operation::Batch => "batch",
            Operation::Get => "get",
            Operation::MultiGet => "multi_get",
            Operation::Seek => "seek",
            Operation::Step => "step",
        }
    }
}

/// How long operations of one kind took, of those that were timed. Quantiles are at most a sixteenth
/// too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The kind.
    pub operation: Operation,
    /// How many were timed.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: u64,
    /// Half of them took no longer than this.
    pub p50_ns: u64,
    /// Nine of ten took no longer than this.
    pub p90_ns: u64,
    /// 99 of 100 took no longer than this.
    pub p99_ns: u64,
    /// 999 of 1000 took no longer than this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The times of one store's operations.
pub struct Latencies {
    /// One operation in this many is timed; 0 is none.
    every: u64,
    clock: Arc<dyn Clock>,
    shards: [OnceLock<Box<Shard>>; SHARDS],
}

type Shard = [OnceLock<Box<Histogram>>; Operation::ALL.len()];

/// When an operation began, if it is timed.
#[derive(Debug, Clone, Copy)]
#[must_use = "`Latencies::end` takes it"]
pub struct Begun(Option<u64>);

/// True once in `every` calls, at random.
#[inline]
pub fn chosen(every: u64) -> bool {
    // Scaled to 0..every.
    (u64::from(random()) * every) >> 32 == 0
}

impl Latencies {
    /// No times yet. One operation in `every` will be timed by `clock`; 0 is none, and at most 2^32.
    pub fn new(every: u64, clock: Arc<dyn Clock>) -> Latencies {
        Latencies {
            every,
            clock,
            shards: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// An operation begins.
    #[inline]
    pub fn begin(&self) -> Begun {
        let timed = match self.every {
            0 => false,
            1 => true,
            every => chosen(every),
        };
        Begun(timed.then(|| self.clock.now_ns()))
    }

    /// The operation that `begun` is of has ended, well or not.
    #[inline]
    pub fn end(&self, operation: Operation, begun: Begun) {
        if let Begun(Some(begun)) = begun {
            self.add(operation, self.clock.now_ns().saturating_sub(begun));
        }
    }

    /// Does `operation`.
    #[inline]
    pub fn time<T>(&self, operation: Operation, work: impl FnOnce() -> T) -> T {
        let begun = self.begin();
        let done = work();
        self.end(operation, begun);
        done
    }

    fn add(&self, operation: Operation, nanos: u64) {
        let shard = self.shards[thread_number() % SHARDS].get_or_init(Box::default);
        let histogram = shard[operation as usize].get_or_init(Box::default);
        histogram.add(nanos);
    }

    /// The times so far, of the kinds that were timed.
    pub fn read(&self) -> Vec<Latency> {
        let of = |operation: Operation| {
            let mut sum = Sum::default();
            let shards = self.shards.iter().filter_map(OnceLock::get);
            let histograms = shards.filter_map(|shard| shard[operation as usize].get());
            histograms.for_each(|histogram| sum.add(histogram));
            let count = sum.count();
            (count > 0).then(|| Latency {
                operation,
                count,
                mean_ns: sum.nanos() / count,
                p50_ns: sum.quantile(500),
                p90_ns: sum.quantile(900),
                p99_ns: sum.quantile(990),
                p999_ns: sum.quantile(999),
                max_ns: sum.nanos_max(),
            })
        };
        Operation::ALL.into_iter().filter_map(of).collect()
    }
}

impl std::fmt::Debug for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.read().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_env::simulated::SimClock;

    use super::*;

    #[test]
    fn each_operation_is_timed_by_the_clock_and_under_its_name() {
        let clock = Arc::new(SimClock::new());
        let latencies = Latencies::new(1, clock.clone());
        assert_eq!(latencies.read(), []);
        for (n, operation) in (1..).zip(Operation::ALL) {
            for _ in 0..n {
                latencies.time(operation, || clock.advance_ns(10 * n));
            }
        }
        let expected = |(n, operation): (u64, Operation)| Latency {
            operation,
            count: n,
            mean_ns: 10 * n,
            p50_ns: 10 * n,
            p90_ns: 10 * n,
            p99_ns: 10 * n,
            p999_ns: 10 * n,
            max_ns: 10 * n,
        };
        let expected: Vec<Latency> = (1..).zip(Operation::ALL).map(expected).collect();
        assert_eq!(latencies.read(), expected);
    }

    #[test]
    fn none_or_one_in_so_many_is_timed_in_any_pattern() {
        for every in [0, 2, 7, 16, 1000] {
            let latencies = Latencies::new(every, Arc::new(SimClock::new()));
            let other = Latencies::new(16, Arc::new(SimClock::new()));
            let rounds = 4000 * every.max(1);
            for _ in 0..rounds {
                latencies.time(Operation::Put, || ());
                // Operations of another store, and of another kind, in step with it.
                other.time(Operation::Put, || ());
                latencies.time(Operation::Get, || ());
                other.time(Operation::Get, || ());
            }
            let counts: Vec<u64> = latencies.read().iter().map(|l| l.count).collect();
            if every == 0 {
                assert_eq!(counts, [0; 0]);
                continue;
            }
            // Expected 4000, with a standard deviation of 63.
            let fair = |&n: &u64| n.abs_diff(4000) < 500;
            assert!(
                counts.len() == 2 && counts.iter().all(fair),
                "{every}: {counts:?}"
            );
        }
    }

    #[test]
    fn times_of_many_threads_add_up() {
        let latencies = Latencies::new(1, Arc::new(SimClock::new()));
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        latencies.time(Operation::Get, || ());
                    }
                });
            }
        });
        assert_eq!(latencies.read()[0].count, 20_000);
    }
}
