//! What was done about partitions.

use crate::sync::{AtomicU64, Ordering};

/// How the keys of a store's families are divided, and what was done about it since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionUse {
    /// Partitions of all families: at least one of each.
    pub count: u64,
    /// Splits, by size and by hand.
    pub splits: u64,
    /// How often a split met a compaction that had to end first.
    pub waits: u64,
    /// Partitions that were merged with the one before them.
    pub merged: u64,
    /// Partitions that flushes have made of prefixes.
    pub prefixes: u64,
}

/// The counters. Relaxed: they guard nothing.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    splits: AtomicU64,
    waits: AtomicU64,
    merged: AtomicU64,
    prefixes: AtomicU64,
}

impl Usage {
    /// What was counted; how many partitions there are is the store's to say.
    pub fn counted(&self) -> PartitionUse {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PartitionUse {
            count: 0,
            splits: get(&self.splits),
            waits: get(&self.waits),
            merged: get(&self.merged),
            prefixes: get(&self.prefixes),
        }
    }

    pub fn split(&self) {
        self.splits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn waited(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn merged(&self, partitions: usize) {
        self.merged.fetch_add(partitions as u64, Ordering::Relaxed);
    }

    pub fn met(&self, prefixes: usize) {
        self.prefixes.fetch_add(prefixes as u64, Ordering::Relaxed);
    }
}
