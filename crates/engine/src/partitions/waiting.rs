//! Splits of partitions that wait.

use std::sync::Weak;

use thermocline_base::CfId;
use thermocline_policy::pick::Held;
use thermocline_version::Version;

use super::measure::Measures;
use crate::sync::{Mutex, MutexGuard, lock};

/// Who may have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// Whoever splits by size.
    Size,
    /// A call for a split, by its number.
    Hand(u64),
}

/// A split that waits for jobs, and what is kept free for it.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub waiter: Waiter,
    pub cf: CfId,
    pub key: Vec<u8>,
    pub holds: Vec<Held>,
}

/// The turn to split or merge partitions, with what is known from the last time. Taken by this room alone.
#[derive(Debug, Default)]
pub(crate) struct AdjustTurn(Mutex<Adjusting>);

impl AdjustTurn {
    pub(super) fn take(&self) -> MutexGuard<'_, Adjusting> {
        lock(&self.0)
    }
}

/// What splitting and merging by size knows.
#[derive(Debug, Default)]
pub(super) struct Adjusting {
    /// In this version there was nothing to do.
    pub(super) looked: Weak<Version>,
    pub(super) measures: Measures,
}
