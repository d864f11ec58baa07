//! The state of a database that is a copy of another one.

use std::sync::Arc;

use thermocline_base::{Error, Result};

use super::State;
use super::evacuation::Flushed;
use crate::version::Version;

impl State {
    /// The state of a copy that takes over the families and the files of `version` (one that this state
    /// had, with the families that it has), and neither region nor memtables. It goes on with the ids of
    /// this one. It names no memtable, by which one knows that its region has yet to be made.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if this is no database, or `db_id` is its own id.
    pub fn copied(
        &self,
        version: Arc<Version>,
        options: Vec<(String, String)>,
        db_id: [u8; 16],
        region_id: [u8; 16],
    ) -> Result<State> {
        let refused = |why: &str| Err(Error::InvalidArgument(why.into()));
        let Some(from) = self.db_id() else {
            return refused("what was never created cannot be copied");
        };
        if from == db_id {
            return refused("a copy of a database has an id of its own");
        }
        let mut inherited = self.inherited.clone();
        // None if no file was made since it was copied itself.
        if self.next.file > inherited.last().map_or(0, |(below, _)| *below) {
            inherited.push((self.next.file, from));
        }
        let mut version = version;
        // It has no memtables.
        if version.has_front() {
            Arc::make_mut(&mut version).set_front(None);
        }
        Ok(State {
            identity: Some((db_id, region_id)),
            options,
            families: self.families.clone(),
            next: self.next,
            inherited,
            // Seqnos that were given out stay given out.
            flushed: Flushed {
                up_to: self.flushed.up_to,
                evacuation: None,
            },
            version,
            rates: self.rates.clone(),
            // Its seqnos go on behind those that they speak of.
            times: self.times.clone(),
            // They made what it has.
            jobs: self.jobs.clone(),
            // They are in its tables.
            prepared: self.prepared,
            ..State::default()
        })
    }
}
