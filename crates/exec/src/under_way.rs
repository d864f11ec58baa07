//! How much is under way.

use std::sync::Arc;

use thermocline_base::sync::{AtomicUsize, Ordering};

/// Counts what is under way. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct UnderWay(
    // Relaxed: a number by which nothing is guarded.
    Arc<AtomicUsize>,
);

/// So many are under way for as long as this is held.
#[derive(Debug)]
pub(crate) struct Counted {
    count: UnderWay,
    n: usize,
}

impl UnderWay {
    /// How many there are now.
    pub fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, n: usize) -> Counted {
        self.0.fetch_add(n, Ordering::Relaxed);
        let count = self.clone();
        Counted { count, n }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.n, Ordering::Relaxed);
    }
}
