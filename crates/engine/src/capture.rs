//! The moment of a store that is copied.
//!
//! # What it holds
//! Under the writer's lock and the manifest's: a snapshot at what is visible, the manifest's state, a hold of
//! its version, and the memtables of the view, but for those that were flushed. Then everything up to the
//! snapshot's seqno s is made durable, so that the copy has nothing that the original may lose. (A store
//! that only reads makes nothing durable: see `copies::copy`.) All later
//! steps read what those hold, beside writers, flushes and compactions.
//!
//! A copy (`copies::copy`) has every file of the version, and of the memtables that are in no table yet what a
//! reader at s sees, as tables of level 0 (`stream`): of each key the newest record at or below s, and what lies over it of
//! range tombstones. It is the store at s:
//!
//! 1. *Each record is in one of both.* A flush names its tables, and marks its memtables as flushed, under
//!    the writer's lock, and a crash between that and their drop leaves memtables that the next open knows
//!    as flushed. So what the capture finds unflushed is in no table of its version, and what it finds
//!    flushed is. A flush that is installed later changes neither the version that is held nor the list of
//!    memtables. (Were a record in both, it would be the same record with the same seqno, and so would any
//!    that it hides; but the law of age forbids two tables of one seqno.)
//!    Where an evacuation has not come to its end (`flush::evacuate`), what lies before its front is in tables of the
//!    version, and what lies behind it is taken of the memtables: the snapshot's view has the front of just that
//!    version, since both change under the writer's lock.
//! 2. *The law of age.* Memtables that were not flushed are newer than all tables (`flush`, invariant 1), along each key.
//!    So that they are table by table, too, a table ends at the front: before it lie only younger records.
//! 3. *Nothing that is needed has gone.* The snapshot is registered, so neither writers nor flushes trim what
//!    it sees in memtables. A compaction that was installed before had a horizon at or below s
//!    (`jobs`), so what it left out nobody at s needs; one that is installed later does not touch
//!    the version that is held, nor its files (`version::version_set`).
//! 4. *Nothing newer shows.* Tables have nothing above what was visible (what is ingested becomes visible
//!    before the writer's lock is let go), so nothing above s; of memtables nothing above s is read.
//! 5. *Deletes stay.* A tombstone, of a key or of a range, goes only where no table of the version may have
//!    anything below it (`compaction::retain`).
//!
//! Records of families that were dropped before stay behind; one that is dropped later is in the copy.

mod stream;

use std::collections::BTreeSet;

use thermocline_base::{CfId, Error, Result};
use thermocline_catalog::View;
use thermocline_memtable::Memtable;
use thermocline_version::{Hold, Place, State, TableRef, Version};

use crate::prepared::format::is_key;
use crate::report::ReaderKind;
use crate::snapshot::Snapshot;
use crate::store::{Inner, Moment};
use crate::sync::{Arc, Ordering};

/// See the [module](self).
pub struct Capture {
    /// Keeps what it sees in memtables and in tables.
    snapshot: Snapshot,
    /// Keeps the memtables, for as long as the copy takes.
    view: Arc<View>,
    /// Keeps the files of the manifest's version.
    hold: Hold,
    /// The manifest's.
    state: State,
    /// Those whose records are in no table, newest first.
    memtables: Vec<Arc<Memtable>>,
    /// The files that the copy takes over: the version without tables in persistent memory.
    below: Arc<Version>,
    /// What that lacks, which is written anew.
    written_anew: Vec<(Place, Arc<TableRef>)>,
}

impl Capture {
    /// What is visible now, made durable.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Poisoned`]; a failed persist, which poisons the store.
    pub(crate) fn of(inner: &Arc<Inner>) -> Result<Capture> {
        let captured = {
            let _held_up = inner.memtables.hold_writer_up();
            if inner.common.closed.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            inner.common.poison.check()?;
            let manifest = inner.common.catalog.edits();
            let hold = inner.common.catalog.hold();
            let snapshot = Snapshot::of(Moment::now(inner), ReaderKind::Copy);
            let view = inner.common.catalog.view_to_keep();
            let unflushed = inner.common.reclaim.unflushed(view.memtables.iter());
            let (below, written_anew) = match hold.version().pm_table_count() {
                0 => (hold.version().clone(), Vec::new()),
                _ => {
                    let (below, taken) = hold.version().without_pm_tables();
                    (Arc::new(below), taken)
                }
            };
            Capture {
                below,
                written_anew,
                memtables: unflushed,
                snapshot,
                view,
                hold,
                state: manifest.state().clone(),
            }
        };
        inner
            .common
            .commits
            .sync_up_to(&**inner, captured.snapshot.seqno())?;
        Ok(captured)
    }

    /// The tables below the memtables, and all other files. (The view may have those from
    /// before a compaction that was installed a moment ago; both answer the same.)
    fn version(&self) -> &Arc<Version> {
        self.hold.version()
    }

    /// The first key of a family that the copy takes of a memtable; `None` if all of them are in tables.
    fn first_of(&self, memtable: &Memtable, cf: CfId) -> Option<&[u8]> {
        self.view.first_of(memtable, cf)
    }

    /// Where an evacuation has come to in a family: no table of the copy reaches over that.
    fn front_in(&self, cf: CfId) -> Option<Vec<u8>> {
        let front = self.view.front()?;
        (front.at.cf == cf && !front.at.key.is_empty()).then(|| front.at.key.to_vec())
    }

    /// The families of which something is written anew, ascending.
    fn families(&self) -> BTreeSet<CfId> {
        let memtables = self.memtables.iter().flat_map(|m| m.families());
        let tables = self.written_anew.iter().map(|(place, _)| place.cf);
        memtables.chain(tables).collect()
    }

    /// Whether the record of `key` in `cf` belongs to a family that exists.
    fn exists(&self, cf: CfId, key: &[u8]) -> bool {
        if cf == CfId::METADATA && is_key(key) {
            return true;
        }
        let owner = match cf {
            CfId::METADATA => CfId::of_metadata_key(key),
            cf => Some(cf),
        };
        owner.is_some_and(|cf| self.state.families().contains_key(&cf.0))
    }
}
