//! What a write is checked against when its turn has come.

use std::cell::Cell;

use thermocline_base::{Result, SeqNo};
use thermocline_commit::recent::Footprint;

use crate::prepared::registry::Step;
use crate::store::Common;

/// Keys that must not have changed since a moment, and what a write does about prepared transactions.
pub(crate) struct Guarded<'a> {
    since: SeqNo,
    /// `None` where nothing was read.
    footprint: Option<&'a dyn Footprint>,
    /// Up to where they have not.
    checked: Cell<SeqNo>,
    pub step: Step<'a>,
}

impl<'a> Guarded<'a> {
    pub fn new(since: SeqNo, footprint: &'a dyn Footprint) -> Guarded<'a> {
        Guarded {
            footprint: Some(footprint),
            ..Guarded::step((since, None), Step::Keep)
        }
    }

    /// One that prepares or resolves a transaction.
    pub fn step(
        (since, footprint): (SeqNo, Option<&'a dyn Footprint>),
        step: Step<'a>,
    ) -> Guarded<'a> {
        Guarded {
            since,
            footprint,
            checked: Cell::new(since),
            step,
        }
    }

    /// Looks at the changes that were noted since this was asked last.
    pub fn check(&self, common: &Common) -> Result<()> {
        let Some(footprint) = self.footprint else {
            return Ok(());
        };
        let checked = common.commits.recent.check(self.checked.get(), footprint);
        let up_to = checked.map_err(|met| common.conflict(self.since, &met))?;
        self.checked.set(up_to);
        Ok(())
    }
}

/// What a write does about prepared transactions.
pub(crate) fn step_of<'a>(guard: Option<&Guarded<'a>>) -> Step<'a> {
    guard.map_or(Step::Keep, |guard| guard.step)
}
