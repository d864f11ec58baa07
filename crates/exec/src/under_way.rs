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
pub struct Counted<'a> {
    count: &'a UnderWay,
    n: usize,
}

/// One more is, for as long as this is held, wherever that is.
#[derive(Debug)]
pub(crate) struct Held(UnderWay);

impl UnderWay {
    /// How many there are now.
    pub fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, n: usize) -> Counted<'_> {
        self.0.fetch_add(n, Ordering::Relaxed);
        Counted { count: self, n }
    }

    pub(crate) fn hold(&self) -> Held {
        self.0.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.n, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
