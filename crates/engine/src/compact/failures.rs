//! Jobs that failed: what is told of the last one, and when one is tried again.
//!
//! A flush that fails is told to whoever needs the room, and a call that compacts a range gets its error. Nobody waits for the other
//! jobs, so theirs would be heard of in an event alone, while writers are held back for what the jobs do not do. So
//! the last failure stays in the metrics until a job from that level succeeds, or the next flush that goes where one failed. What failed for a moment is tried again though nobody writes, after
//! a pause that becomes twice as long each time; where that would be the same job again, before all others, its tables are left alone
//! ([`PassedOver`]). What failed for lack of room is `pressure::relief`'s.

use std::collections::BTreeSet;
use std::time::Duration;

use thermocline_base::{Error, ErrorKind, FileId};
use thermocline_policy::relief::Pause;
use thermocline_version::Version;

use crate::sync::{Mutex, lock};

/// Tables that some jobs leave alone, because one has failed with them that would be picked again before all others.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    tables: BTreeSet<FileId>,
    /// Tables with which a job has failed once, and not for lack of room.
    failed_once: BTreeSet<FileId>,
}

impl PassedOver {
    /// Those tables.
    pub fn tables(&self) -> &BTreeSet<FileId> {
        &self.tables
    }

    /// A job with these tables has failed.
    pub fn note(&mut self, tables: impl IntoIterator<Item = FileId>, error: &Error) {
        if is_of_store(error) || error.is_no_room() {
            return;
        }
        for table in tables {
            // A place of a disk that cannot be read now may be read later. If not, it must not keep all others waiting.
            let is_over = matches!(error, Error::Corruption { .. });
            if is_over || !self.failed_once.insert(table) {
                self.tables.insert(table);
            }
        }
    }

    /// Forgets tables that are not there any more.
    pub fn forget_gone(&mut self, version: &Version) {
        if self.tables.is_empty() && self.failed_once.is_empty() {
            return;
        }
        let tables = version.families().flat_map(|cf| version.tables_of(cf));
        let there: BTreeSet<FileId> = tables.map(|(_, table)| table.file).collect();
        self.tables.retain(|file| there.contains(file));
        self.failed_once.retain(|file| there.contains(file));
    }
}

/// Whether the whole store has ended: nothing that a job read is at fault.
pub(super) fn is_of_store(error: &Error) -> bool {
    matches!(error, Error::Closed | Error::Poisoned(_))
}

/// The failures of a store's jobs.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Failed>);

#[derive(Debug, Default)]
struct Failed {
    count: u64,
    /// What failed, and what is told of it.
    last: Option<(What, String)>,
    /// How long the next try waits.
    pause: Pause,
}

/// What may fail, and succeeds later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A job from this level.
    From(usize),
    /// A flush into the base level.
    Sink,
}

impl Failures {
    /// A job from this level has ended, and failed with this error if there is one, of which `told` says what it was.
    pub(super) fn note(&self, from: usize, error: Option<&Error>, told: impl FnOnce() -> String) {
        let Some(error) = error else {
            return self.succeeded(What::From(from));
        };
        if is_of_store(error) || error.is_no_room() {
            return;
        }
        let mut failed = lock(&self.0);
        failed.count += 1;
        failed.last = Some((What::From(from), format!("{}: {error}", told())));
    }

    /// A flush has failed to write into the base level, and goes to level 0 as if it had not tried. That is usual for lack of room or
    /// DRAM; of anything else somebody should know.
    pub fn sink_failed(&self, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) || error.is_no_room() {
            return;
        }
        let mut failed = lock(&self.0);
        failed.count += 1;
        failed.last = Some((
            What::Sink,
            format!("of a flush into the base level: {error}"),
        ));
    }

    /// A flush has written into the base level.
    pub fn sank(&self) {
        self.succeeded(What::Sink);
    }

    fn succeeded(&self, what: What) {
        let mut failed = lock(&self.0);
        if failed.last.as_ref().is_some_and(|(last, _)| *last == what) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_told_until_its_own_kind_succeeds() {
        let failures = Failures::default();
        let bad = Error::corruption("a block", "/db/000001.sst", 7, 1, 2);
        let last = || failures.told().1;
        failures.sink_failed(&bad);
        failures.sink_failed(&Error::OutOfSpace("no room".into()));
        assert!(last().is_some_and(|told| told.contains("a flush into the base level")));
        failures.note(0, None, || unreachable!("it succeeded"));
        assert!(last().is_some());
        failures.sank();
        assert_eq!(last(), None);
        failures.note(2, Some(&bad), || "a job".into());
        failures.note(1, None, || unreachable!("it succeeded"));
        failures.sank();
        assert!(last().is_some_and(|told| told.starts_with("a job: ")));
        failures.note(2, None, || unreachable!("it succeeded"));
        assert_eq!(failures.told(), (2, None));
    }
}
