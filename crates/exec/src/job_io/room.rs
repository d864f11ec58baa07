//! What is under way, and when a write may begin.

use std::sync::Arc;
use std::time::Duration;

use thermocline_env::Clock;

use super::inline::Inline;
use crate::helpers::Helpers;
use crate::pool::BufPool;
use crate::under_way::{Held, UnderWay};

/// Milliseconds after which a write begins without room.
pub const PATIENCE_MS: u64 = 10;

/// When the writes of a file may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// At once, and others make room for them.
    First,
    /// At once.
    Now,
    /// When fewer reads and writes than this are under way, or after [`PATIENCE_MS`].
    Within(usize),
}

/// How writes are made.
pub(super) enum Way {
    Threads {
        writers: Arc<Helpers>,
        /// Threads that may have to wait for room. Other writes have their own threads, so they need not wait for
        /// these.
        patient: Arc<Helpers>,
        /// Threads that make syncs, which last longer than writes.
        syncers: Arc<Helpers>,
        clock: Arc<dyn Clock>,
    },
    Inline(Inline),
}

/// See the [module](self).
pub(super) struct Room {
    pub way: Way,
    pub pool: BufPool,
    /// Reads that readers of the stores wait for, and beside them reads and writes of jobs.
    pub under_way: UnderWay,
}

impl Room {
    pub fn new(way: Way, pool: BufPool, under_way: UnderWay) -> Arc<Room> {
        Arc::new(Room {
            way,
            pool,
            under_way,
        })
    }

    /// The threads that make a write with this turn; `None` without threads.
    pub fn writers(&self, turn: Turn) -> Option<&Arc<Helpers>> {
        match (&self.way, turn) {
            (Way::Threads { patient, .. }, Turn::Within(_)) => Some(patient),
            (Way::Threads { writers, .. }, Turn::First | Turn::Now) => Some(writers),
            (Way::Inline(_), _) => None,
        }
    }

    /// The threads that make syncs; `None` without threads.
    pub fn syncers(&self) -> Option<&Arc<Helpers>> {
        match &self.way {
            Way::Threads { syncers, .. } => Some(syncers),
            Way::Inline(_) => None,
        }
    }

    /// Threads that write, and have started.
    pub fn threads(&self) -> usize {
        match &self.way {
            Way::Threads {
                writers, patient, ..
            } => writers.threads() + patient.threads(),
            Way::Inline(_) => 0,
        }
    }

    /// Waits until a write with this `turn` may begin. It counts as under way for as long as what is returned is held.
    pub fn turn_to_write(&self, turn: Turn) -> Held {
        match (turn, &self.way) {
            (Turn::First, _) => self.under_way.first_job(),
            (Turn::Within(depth), Way::Threads { clock, .. }) => {
                self.under_way.job_within(depth, patience(&**clock))
            }
            // Without threads nobody could make room meanwhile.
            (Turn::Within(_), Way::Inline(_)) | (Turn::Now, _) => self.under_way.job(),
        }
    }
}

/// How long a write that waits still does. It begins to wait when this is asked for the first time.
fn patience(clock: &dyn Clock) -> impl FnMut() -> Option<Duration> {
    let mut until = None;
    move || {
        let now = clock.now_ns();
        let until = *until.get_or_insert(now.saturating_add(PATIENCE_MS * 1_000_000));
        Some(Duration::from_nanos(until.saturating_sub(now)))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Way::Threads {
            writers,
            patient,
            syncers,
            ..
        } = &self.way
        {
            writers.stop();
            patient.stop();
            syncers.stop();
        }
    }
}
