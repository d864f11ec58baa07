//! The budget on which several accounts draw.

use std::sync::{Arc, Weak};

use crate::budget::tally::{Evict, Tally};
use crate::sync::{AtomicU64, Ordering};

/// The budget on which several accounts draw. See the module's text.
#[derive(Debug)]
pub struct Budget {
    pub(super) tally: Tally,
    /// The part of the charged bytes that nobody can give back.
    kept: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes; `u64::MAX` is no limit.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            tally: Tally::new(limit),
            kept: AtomicU64::new(0),
        })
    }

    /// Most bytes that all accounts hold.
    pub fn limit(&self) -> u64 {
        self.tally.limit()
    }

    /// Bytes in use or promised.
    pub fn held(&self) -> u64 {
        self.tally.held()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.tally.used()
    }

    /// Bytes beside the indexes.
    pub fn charged(&self) -> u64 {
        self.tally.charged()
    }

    /// Has `who` asked to give back from now on, after the holders that are asked already.
    pub fn add_evicting(&self, who: Weak<dyn Evict>) {
        self.tally.add_evicting(who);
    }

    /// As [`Budget::add_evicting`], before the holders that are asked already.
    pub fn add_evicting_first(&self, who: Weak<dyn Evict>) {
        self.tally.add_evicting_first(who);
    }

    /// Counts bytes that nobody can give back, if there is room.
    pub(super) fn keep(&self, bytes: u64) -> bool {
        let most = self.limit() / 2;
        let more = |kept: u64| kept.checked_add(bytes).filter(|&kept| kept <= most);
        // Relaxed: the counter guards nothing but itself.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.kept.fetch_update(set, fetch, more).is_ok()
    }

    pub(super) fn let_go_kept(&self, bytes: u64) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}
