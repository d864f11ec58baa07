//! Which merges inside persistent memory are wanted.

use crate::compact::job::picked::Job;
use crate::sync::Mutex;
use std::sync::Weak;
use thermocline_version::Version;

/// What internal compactions know of each other.
#[derive(Debug, Default)]
pub(crate) struct Internal {
    /// In this version one has given up.
    pub(super) gave_up: Mutex<Weak<Version>>,
}

/// Of a range that somebody wants merged.
pub(super) enum Wanted {
    Job(Box<Job>),
    /// A running job holds some of it, or will make room.
    Wait,
    /// Nobody is at work, and there is no room.
    Room,
    Done,
}
