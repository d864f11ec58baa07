//! What a write is checked against when its turn has come.

use std::cell::Cell;

use thermocline_base::{Result, SeqNo};
use thermocline_commit::recent::Footprint;

use crate::store::Common;

/// Keys that must not have changed since a moment.
pub(crate) struct Guarded<'a> {
    since: SeqNo,
    footprint: &'a dyn Footprint,
    /// Up to where they have not.
    checked: Cell<SeqNo>,
}

impl<'a> Guarded<'a> {
    pub fn new(since: SeqNo, footprint: &'a dyn Footprint) -> Guarded<'a> {
        Guarded {
            since,
            footprint,
            checked: Cell::new(since),
        }
    }

    /// Looks at the changes that were noted since this was asked last.
    pub fn check(&self, common: &Common) -> Result<()> {
        let checked = common
            .commits
            .recent
            .check(self.checked.get(), self.footprint);
        let up_to = checked.map_err(|met| common.conflict(self.since, &met))?;
        self.checked.set(up_to);
        Ok(())
    }
}
