//! Deleted keys that a cursor has passed.

use thermocline_base::sync::SCHEDULED;
use thermocline_policy::tuning::{GAP_KEYS, GAP_PASSED_PARTS};

/// Adjacent keys without a value that are worth a gap. It is small in unit tests and schedules, which have few keys.
pub(super) const NOTED_AFTER: u64 = if SCHEDULED || cfg!(test) { 3 } else { GAP_KEYS };

/// The number of keys as which a passed gap counts.
pub(super) const GAP_COUNTS: u64 = NOTED_AFTER / GAP_PASSED_PARTS + 1;

/// The keys that a cursor has passed since the last key with a value.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Keys that were stepped over.
    pub(super) stepped: u64,
    pub(super) counts: u64,
    /// The first key of the stretch, if anything was passed.
    pub(super) first: Vec<u8>,
    /// Where the last passed gap ended.
    pub(super) edge: Vec<u8>,
    /// The first bytes of the key at which the next gap on the way begins; `None` if that is not known.
    pub(super) near: Option<u64>,
}

impl Passed {
    pub fn begin(&mut self) {
        (self.stepped, self.counts) = (0, 0);
        self.edge.clear();
    }

    /// The keys that were stepped over since the last key with a value.
    pub fn stepped(&self) -> u64 {
        self.stepped
    }

    /// `key` has no value.
    pub fn step(&mut self, key: &[u8]) {
        self.stepped += 1;
        self.count(key, 1);
    }

    pub(super) fn count(&mut self, key: &[u8], counts: u64) {
        if self.counts == 0 {
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        self.counts += counts;
    }
}

/// The first key behind `key`.
pub(super) fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
