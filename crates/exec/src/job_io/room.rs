//! What is under way, and when a write may begin.

use std::sync::Arc;

use thermocline_env::Clock;

use super::inline::Inline;
use crate::helpers::Helpers;
use crate::pool::BufPool;
use crate::under_way::{Counted, UnderWay};

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
        clock: Arc<dyn Clock>,
    },
    Inline(Inline),
}

/// See the [module](self).
pub(super) struct Room {
    pub way: Way,
    pub pool: BufPool,
    /// Reads that readers of the stores wait for.
    clients: UnderWay,
    /// Reads of jobs.
    pub reads: UnderWay,
    writes: UnderWay,
    /// Of those, writes for which writers wait.
    first: UnderWay,
}

impl Room {
    pub fn new(way: Way, pool: BufPool, clients: UnderWay) -> Arc<Room> {
        Arc::new(Room {
            way,
            pool,
            clients,
            reads: UnderWay::default(),
            writes: UnderWay::default(),
            first: UnderWay::default(),
        })
    }

    /// Whether as many reads and writes are under way as may be.
    pub fn is_full(&self, depth: usize) -> bool {
        self.reads.now() + self.writes.now() + self.clients.now() >= depth
    }

    /// The threads that make a write with this turn; `None` without threads.
    pub fn writers(&self, turn: Turn) -> Option<&Arc<Helpers>> {
        match (&self.way, turn) {
            (Way::Threads { patient, .. }, Turn::Within(_)) => Some(patient),
            (Way::Threads { writers, .. }, Turn::First | Turn::Now) => Some(writers),
            (Way::Inline(_), _) => None,
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
    pub fn turn_to_write(&self, turn: Turn) -> [Counted<'_>; 2] {
        if let (Way::Threads { clock, .. }, Turn::Within(depth)) = (&self.way, turn) {
            let mut left = PATIENCE_MS;
            while left > 0 && (self.is_full(depth) || self.first.now() > 0) {
                clock.sleep_ms(1);
                left -= 1;
            }
        }
        let first = usize::from(turn == Turn::First);
        [self.writes.add(1), self.first.add(first)]
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Way::Threads {
            writers, patient, ..
        } = &self.way
        {
            writers.stop();
            patient.stop();
        }
    }
}
