//! Following a run from another thread, and stopping it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::{Duration, Instant, now};

/// How far a run is. One thread runs, any other may look or stop it.
#[derive(Debug, Default)]
pub struct Watch {
    phase: Mutex<Phase>,
    done: AtomicU64,
    total: AtomicU64,
    stop: Arc<AtomicBool>,
}

/// What is going on, and since when.
#[derive(Debug, Clone, Copy, Default)]
struct Phase {
    name: &'static str,
    begun: Option<Instant>,
}

/// What a [`Watch`] shows at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// What is going on; empty before the start.
    pub phase: &'static str,
    /// Operations done in this phase.
    pub done: u64,
    /// Operations of this phase; 0 where time is the limit.
    pub total: u64,
    /// How long ago this phase began; zero before the start.
    pub elapsed: Duration,
}

impl Watch {
    /// A watch at the start.
    pub fn new() -> Watch {
        Watch::default()
    }

    /// A watch for one of several runs: it is stopped with this one, and how far it is shows in it alone.
    pub fn part(&self) -> Watch {
        Watch {
            stop: Arc::clone(&self.stop),
            ..Watch::default()
        }
    }

    /// How far the run is.
    pub fn snapshot(&self) -> Snapshot {
        let phase = *self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        Snapshot {
            phase: phase.name,
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            elapsed: phase.begun.map_or(Duration::ZERO, |begun| now() - begun),
        }
    }

    /// Asks the run to end early. It then reports what it did so far.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Begins a phase of `total` operations.
    pub fn begin(&self, phase: &'static str, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        let begun = Some(now());
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = Phase { name: phase, begun };
    }

    /// Says what is going on now, within what was begun.
    pub fn name(&self, phase: &'static str) {
        let mut going_on = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        going_on.name = phase;
    }

    /// Counts operations of the current phase.
    #[inline]
    pub fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_stops_with_the_whole_and_counts_for_itself() {
        let whole = Watch::new();
        assert_eq!(whole.snapshot().elapsed, Duration::ZERO);
        whole.begin("runs", 7);
        let part = whole.part();
        part.begin("loading", 100);
        part.add(50);
        assert_eq!((whole.snapshot().done, whole.snapshot().total), (0, 7));
        whole.name("reading");
        assert_eq!(whole.snapshot().phase, "reading");
        assert_eq!(part.snapshot().phase, "loading");
        assert!(!part.is_stopped());
        whole.stop();
        assert!(part.is_stopped());
    }
}
