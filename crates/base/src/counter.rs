//! Counters that many threads add to without sharing a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;

#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// `N` counters, each sharded by thread. Reading sums the shards: exact once the adding threads
/// have been joined with, approximate while they run.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    shards: [Shard<N>; SHARDS],
}

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A small number for this thread, never given to another one.
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
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
    /// Adds `n` to counter `i`.
    #[inline]
    pub fn add(&self, i: usize, n: u64) {
        self.shards[thread_number() % SHARDS].0[i].fetch_add(n, Ordering::Relaxed);
    }

    /// The value of counter `i`.
    pub fn get(&self, i: usize) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0[i].load(Ordering::Relaxed))
            .sum()
    }
}
