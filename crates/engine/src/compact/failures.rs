//! Jobs that failed: what is told of the last one, and when one is tried again.
//!
//! A flush that fails is told to whoever needs the room, and a call that compacts a range gets its error. Nobody waits for the other
//! jobs, so theirs would be heard of in an event alone, while writers are held back for what the jobs do not do. So
//! the last failure stays in the metrics until a job from that level succeeds. What failed for a moment is tried again though nobody writes, after
//! a pause that becomes twice as long each time. What failed for lack of room is `pressure::relief`'s.

use std::time::Duration;

use thermocline_base::{Error, ErrorKind};
use thermocline_policy::relief::Pause;

use crate::sync::{Mutex, lock};

/// The failures of a store's jobs.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Failed>);

#[derive(Debug, Default)]
struct Failed {
    count: u64,
    /// The level that it was from, and what is told of it.
    last: Option<(usize, String)>,
    /// How long the next try waits.
    pause: Pause,
}

impl Failures {
    /// A job from this level has ended, and failed with this error if there is one, of which `told` says what it was.
    pub(super) fn note(&self, from: usize, error: Option<&Error>, told: impl FnOnce() -> String) {
        let Some(error) = error else {
            return self.succeeded(from);
        };
        if matches!(error, Error::Closed | Error::Poisoned(_)) || error.is_no_room() {
            return;
        }
        let mut failed = lock(&self.0);
        failed.count += 1;
        failed.last = Some((from, format!("{}: {error}", told())));
    }

    /// A flush has failed to write into the base level, and goes to level 0 as if it had not tried. That is usual for lack of room or
    /// DRAM; of anything else somebody should know.
    pub fn sink_failed(&self, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) || error.is_no_room() {
            return;
        }
        let mut failed = lock(&self.0);
        failed.count += 1;
        failed.last = Some((0, format!("of a flush into the base level: {error}")));
    }

    /// A job from this level has succeeded.
    fn succeeded(&self, from: usize) {
        let mut failed = lock(&self.0);
        if failed
            .last
            .as_ref()
            .is_some_and(|(level, _)| *level == from)
        {
            failed.last = None;
            failed.pause = Pause::default();
        }
    }

    /// After how long somebody is to try again; `None` if there is nothing to try. Each time it is longer.
    pub fn again(&self) -> Option<Duration> {
        let mut failed = lock(&self.0);
        failed.last.as_ref()?;
        let pause = failed.pause;
        failed.pause = pause.after(false);
        Some(Duration::from_nanos(pause.ns))
    }

    /// How many there were, and the last one, if no such job has succeeded since.
    pub fn told(&self) -> (u64, Option<String>) {
        let failed = lock(&self.0);
        let last = failed.last.as_ref().map(|(_, told)| told.clone());
        (failed.count, last)
    }
}
