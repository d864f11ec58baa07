//! Jobs that failed: what is told of the last one, and when one is tried again.
//!
//! A flush that fails is told to whoever needs the room, and a call that compacts a range gets its error. Nobody waits for the other
//! jobs, so theirs would be heard of in an event alone, while writers are held back for what the jobs do not do. So
//! the last failure stays in the metrics until a job from that level succeeds, or the next flush that goes where one failed. What
//! failed for lack of room is not told there.
//!
//! # Why one that fails holds no other up
//! The same job would be picked again, before all others. So the tables that it read rest ([`Resting`]): no job takes them, as if one
//! did that runs, and all others go on. After a pause they are as any other, so that what failed for a moment is tried again though
//! nobody writes; each time that they fail again it is twice as long. Who compacts a range by hand, and what reads nothing, does not
//! wait. Each job that fails puts a table at least to rest, so jobs that ask for the next one come to an end.
//!
//! Where room is wanted on the disk, `pressure::relief` decides what is tried: what begins there, and fails for lack of it, puts nothing to
//! rest, and what rests for that is tried like the others. But a job may find no room on a disk that is not full: by a quota, which no disk
//! tells, or because it takes more than is free, and fills the disk itself for as long as it writes. Its tables rest, until another job has
//! gone well at the latest.
//!
//! Values that cannot move out of a blob file are another matter: as long as their files count as something that is collected soon,
//! writers wait for that. So tables with which a collection has failed twice are left alone for good ([`PassedOver`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thermocline_base::{Error, ErrorKind, FileId};
use thermocline_policy::relief::Pause;
use thermocline_version::Version;

use crate::sync::{Mutex, lock};

/// Tables that no job takes for a while, because one has failed that read them.
#[derive(Debug, Default)]
pub(super) struct Resting(BTreeMap<FileId, Rest>);

#[derive(Debug)]
struct Rest {
    pause: Pause,
    until_ns: u64,
    /// It has failed for lack of room.
    for_room: bool,
}

impl Resting {
    /// A job that read these tables has failed. Whether they rest.
    pub fn note(
        &mut self,
        tables: impl IntoIterator<Item = FileId>,
        error: &Error,
        now_ns: u64,
    ) -> bool {
        if is_of_store(error) {
            return false;
        }
        let for_room = error.is_no_room();
        for table in tables {
            let before = self.0.get(&table).map(|rest| rest.pause);
            let pause = before.map_or_else(Pause::default, |pause| pause.after(false));
            let until_ns = now_ns.saturating_add(pause.ns);
            let rest = Rest {
                pause,
                until_ns,
                for_room,
            };
            self.0.insert(table, rest);
        }
        true
    }

    /// Those that rest at this time, when room is wanted on the disk or not.
    pub fn at(&self, now_ns: u64, relieving: bool) -> BTreeSet<FileId> {
        let rests = |rest: &Rest| now_ns < rest.until_ns && !(rest.for_room && relieving);
        let resting = self.0.iter().filter(|(_, rest)| rests(rest));
        resting.map(|(file, _)| *file).collect()
    }

    /// A job has gone well, and may have made room: what has found none is tried again. What fails then rests for longer all the same.
    pub fn room_came(&mut self) {
        for rest in self.0.values_mut().filter(|rest| rest.for_room) {
            rest.until_ns = 0;
        }
    }

    /// After how long the first of them may be taken again.
    pub fn first_ends_after(&self, now_ns: u64) -> Option<Duration> {
        let ends = self.0.values().map(|rest| rest.until_ns);
        let left = ends.filter_map(|ends| ends.checked_sub(now_ns));
        left.filter(|ns| *ns > 0).min().map(Duration::from_nanos)
    }

    /// Forgets tables that are not there any more.
    pub fn forget_gone(&mut self, version: &Version) {
        self.0.retain(|file, _| is_there(*file, version));
    }
}

/// Whether some of a table is in a version.
fn is_there(file: FileId, version: &Version) -> bool {
    !version.references(file).is_empty()
}

/// Tables whose values do not move, because a collection has failed with them that would be picked again before all others.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    tables: BTreeSet<FileId>,
    /// Tables with which one has failed once, and not for lack of room.
    failed_once: BTreeSet<FileId>,
}

impl PassedOver {
    /// Those tables.
    pub fn tables(&self) -> &BTreeSet<FileId> {
        &self.tables
    }

    /// A collection with these tables has failed.
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
        self.tables.retain(|file| is_there(*file, version));
        self.failed_once.retain(|file| is_there(*file, version));
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
}

/// What may fail, and succeeds later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// A job from this level.
    From(usize),
    /// A flush that takes older tables along into the base level.
    Sink,
    /// One that takes them along into files of level 0.
    Along,
}

impl What {
    /// A flush that takes older tables along, and `sinks` with some of them.
    fn along(sinks: bool) -> What {
        match sinks {
            true => What::Sink,
            false => What::Along,
        }
    }
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

    /// A flush has failed that takes older tables along, and goes on without them as if it had not tried. It `sinks` if some of it was to go
    /// into the base level. That it fails is usual for lack of room or DRAM; of anything else somebody should know.
    pub fn along_failed(&self, sinks: bool, error: &Error) {
        if !matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) || error.is_no_room() {
            return;
        }
        let told = match sinks {
            true => "of a flush into the base level",
            false => "of a flush that takes tables of persistent memory along into files",
        };
        let mut failed = lock(&self.0);
        failed.count += 1;
        failed.last = Some((What::along(sinks), format!("{told}: {error}")));
    }

    /// A flush has written what it takes along.
    pub fn went_along(&self, sinks: bool) {
        self.succeeded(What::along(sinks));
    }

    fn succeeded(&self, what: What) {
        let mut failed = lock(&self.0);
        if failed.last.as_ref().is_some_and(|(last, _)| *last == what) {
            failed.last = None;
        }
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
        for (sinks, says) in [
            (true, "a flush into the base level"),
            (false, "along into files"),
        ] {
            failures.along_failed(sinks, &bad);
            failures.along_failed(sinks, &Error::OutOfSpace("no room".into()));
            assert!(last().is_some_and(|told| told.contains(says)));
            failures.note(0, None, || unreachable!("it succeeded"));
            failures.went_along(!sinks);
            assert!(last().is_some());
            failures.went_along(sinks);
            assert_eq!(last(), None);
        }
        failures.note(2, Some(&bad), || "a job".into());
        failures.note(1, None, || unreachable!("it succeeded"));
        failures.went_along(true);
        assert!(last().is_some_and(|told| told.starts_with("a job: ")));
        failures.note(2, None, || unreachable!("it succeeded"));
        assert_eq!(failures.told(), (3, None));
    }
}
