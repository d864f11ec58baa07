//! Counters that many threads add to without sharing a cache line.

use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::sync::thread::number as thread_number;

/// Parts of a counter. A thread adds to the same part always.
pub const SHARDS: usize = 16;

#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` counters, each sharded by thread. Reading sums the shards: exact once the adding threads
/// have been joined with, approximate while they run.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    shards: [Shard<N>; SHARDS],
}

impl<const N: usize> Default for Counters<N> {
    fn default() -> Self {
        let zero = || Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Counters {
            shards: std::array::from_fn(|_| zero()),
        }
    }
}

impl<const N: usize> Counters<N> {
    /// Adds `n` to counter `i`. Returns what this thread's shard of it was before.
    #[inline]
    pub fn add(&self, i: usize, n: u64) -> u64 {
        self.shards[thread_number() % SHARDS].0[i].fetch_add(n, Ordering::Relaxed)
    }

    /// The value of counter `i`.
    pub fn get(&self, i: usize) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0[i].load(Ordering::Relaxed))
            .sum()
    }

    /// The parts of counter `i`: each is what some of the threads have added.
    pub fn parts(&self, i: usize) -> [u64; SHARDS] {
        std::array::from_fn(|part| self.shards[part].0[i].load(Ordering::Relaxed))
    }
}
