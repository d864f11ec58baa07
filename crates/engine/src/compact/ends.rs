//! The end of a job in the list of those that run.

use crate::store::Common;
use crate::sync::lock;

/// Ends what a job holds, however it ends.
pub(crate) struct Ends<'a> {
    common: &'a Common,
    id: u64,
}

impl<'a> Ends<'a> {
    pub(super) fn new(common: &'a Common, id: u64) -> Ends<'a> {
        Ends { common, id }
    }
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let compactions = &self.common.compactions;
        // What it worked with is given back. Before it leaves the list: a writer that sees no job any more
        // must see this (`room`).
        self.common.room.note();
        lock(&compactions.jobs)
            .running
            .retain(|job| job.id != self.id);
        compactions.ended.notify_all();
    }
}
