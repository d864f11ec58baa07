//! Merges of indexes: the turn, and what is known.

use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Merges of a store: one at a time.
#[derive(Debug, Default)]
pub(crate) struct Merges {
    /// Held by whoever merges indexes, or takes memtables for a flush. Behind `flushing`, before the
    /// writer's.
    pub turn: Mutex<()>,
    /// How many flushes wait for the turn. Relaxed: who misses it is waited for a step longer.
    pub(super) flushes: AtomicU64,
    /// What [`Count::Asked`] was when indexes were last merged.
    pub paid: AtomicU64,
    /// What it is when the next merge may pay. Relaxed, as `paid`: they guard nothing.
    pub next: AtomicU64,
}

impl Merges {
    /// Ends a merge that is under way, and keeps others from beginning as long as this is held.
    pub fn turn_for_flush(&self) -> MutexGuard<'_, ()> {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let turn = lock(&self.turn);
        self.flushes.fetch_sub(1, Ordering::Relaxed);
        turn
    }

    /// There is something else to merge.
    pub fn look_again(&self) {
        self.next.store(0, Ordering::Relaxed);
    }

    pub(super) fn gives_way(&self) -> bool {
        self.flushes.load(Ordering::Relaxed) > 0
    }
}
