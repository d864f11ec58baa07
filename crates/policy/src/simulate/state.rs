//! A run, as of now.

use super::doing::Doing;
use super::setting::{Outcome, Setting};
use super::store::{Sealed, Store};
use crate::pressure::Slope;

/// A run.
pub(super) struct Run {
    pub setting: Setting,
    pub slope: Slope,
    /// Persistent memory, or DRAM, for memtables and tables.
    pub region_bytes: u64,
    pub store: Store,
    /// Memtables that wait, oldest first.
    pub sealed: Vec<Sealed>,
    pub active: Active,
    /// Entries that scans have collected of the memtables that are there.
    pub scanned: f64,
    /// What goes on: a flush, and jobs.
    pub work: Vec<Doing>,
    /// In this state of the store no job was due.
    pub nothing_due_at: u64,
    pub now_ns: f64,
    /// The part of their time that jobs work.
    pub share: f64,
    /// Records written, ever.
    pub written: u64,
    pub outcome: Outcome,
    /// Memtables that count.
    pub counted: u64,
}

/// The memtable that is written, and what was sealed sooner of what would have filled it. In bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Active {
    pub bytes: f64,
    pub sealed_sooner: u64,
    /// By how much it grows in a nanosecond.
    pub per_ns: f64,
}
