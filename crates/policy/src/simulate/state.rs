//! A run, as of now.

use thermocline_base::options::Options;

use super::doing::Doing;
use super::setting::{Outcome, Setting};
use super::store::{Sealed, Store};
use crate::pressure::Slope;

/// A run.
pub(super) struct Run {
    pub setting: Setting,
    pub options: Options,
    pub slope: Slope,
    pub memtable_bytes: u64,
    pub store: Store,
    /// Memtables that wait, oldest first.
    pub sealed: Vec<Sealed>,
    /// What goes on: a flush, and jobs.
    pub work: Vec<Doing>,
    pub now_ns: f64,
    pub outcome: Outcome,
}
