//! Writes that are known to fit the budgets of DRAM.

use std::collections::BTreeSet;

use thermocline_base::CfId;

/// Writes that a promise covers in advance, and records that a store must have written before it gets
/// such a promise. A bound for one write is small; one for many reckons with a new piece of memory for
/// each kind of node, and of hundreds of stores that each write a little all keep what they were promised
/// until they fall idle.
pub(super) const CREDIT: u64 = 1024;

pub(super) const CREDIT_AFTER: u64 = 64;

/// Most families for which it does: of each is reckoned how many of its nodes all those writes may make grow.
pub(super) const CREDIT_FAMILIES: usize = 4;

/// Writes that are known to fit the budgets.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    pub(super) writes: u64,
    /// Records written without credit.
    pub(super) without: u64,
    /// The families that they are in, whichever each, and that the writes in flight are in.
    pub(super) families: BTreeSet<CfId>,
    /// Registered readers for which it was reckoned: with more, version lists are longer.
    pub(super) readers: usize,
    /// The same of groups in flight.
    pub(super) groups: u64,
}

impl Credit {
    /// The next write reckons anew what it may take.
    pub fn spend(&mut self) {
        self.writes = 0;
    }
}
