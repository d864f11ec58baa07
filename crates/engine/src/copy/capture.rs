//! The moment of a store that is copied.

use std::collections::BTreeSet;

use thermocline_base::options::Options;
use thermocline_base::{CfId, Error, Result};
use thermocline_memtable::Memtable;
use thermocline_version::{Hold, Place, State, TableRef, Version};

use crate::holds::ReaderKind;
use crate::open::stored;
use crate::snapshot::{Moment, Snapshot};
use crate::store::Inner;
use crate::sync::{Arc, Ordering, lock};
use crate::view::View;

/// See the [module](super).
pub(crate) struct Capture {
    /// Keeps what it sees in generations and in tables.
    pub snapshot: Snapshot,
    /// Keeps the generations, for as long as the copy takes.
    view: Arc<View>,
    /// Keeps the files of the manifest's version.
    hold: Hold,
    /// The manifest's.
    pub state: State,
    /// Those whose records are in no table, newest first.
    pub generations: Vec<Arc<Memtable>>,
    /// The files that the copy takes over: the version without tables in persistent memory.
    below: Arc<Version>,
    /// What that lacks, which is written anew.
    pub written_anew: Vec<(Place, Arc<TableRef>)>,
}

impl Capture {
    /// What is visible now, made durable.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Poisoned`]; a failed persist, which poisons the store.
    pub fn of(inner: &Arc<Inner>) -> Result<Capture> {
        let captured = {
            let _writer = lock(&inner.writer);
            if inner.closed.load(Ordering::Acquire) {
                return Err(Error::Closed);
            }
            inner.poison.check()?;
            let manifest = lock(&inner.manifest);
            let hold = lock(&inner.versions).hold();
            let snapshot = Snapshot::of(Moment::now(inner), ReaderKind::Copy);
            let view = inner.view.load_full();
            let reclaim = lock(&inner.reclaim);
            let unflushed = view.memtables.iter();
            let unflushed = unflushed.filter(|m| !reclaim.is_flushed(m.generation()));
            let (below, written_anew) = match hold.version().pm_tables().len() {
                0 => (hold.version().clone(), Vec::new()),
                _ => {
                    let (below, taken) = hold.version().without_pm_tables();
                    (Arc::new(below), taken)
                }
            };
            Capture {
                below,
                written_anew,
                generations: unflushed.cloned().collect(),
                snapshot,
                view,
                hold,
                state: manifest.state().clone(),
            }
        };
        inner
            .commits
            .sync_up_to(&**inner, captured.snapshot.seqno())?;
        Ok(captured)
    }

    /// The tables below the generations, and all other files. (The view may have those from
    /// before a compaction that was installed a moment ago; both answer the same.)
    pub fn version(&self) -> &Arc<Version> {
        self.hold.version()
    }

    /// What the copy takes over of it, file by file.
    pub fn below(&self) -> &Arc<Version> {
        &self.below
    }

    /// The first key of a family that the copy takes of a generation; `None` if all of them are in tables.
    pub fn first_of(&self, memtable: &Memtable, cf: CfId) -> Option<&[u8]> {
        self.view.first_of(memtable, cf)
    }

    /// Where an evacuation has come to in a family: no table of the copy reaches over that.
    pub fn front_in(&self, cf: CfId) -> Option<Vec<u8>> {
        let front = self.view.front()?;
        (front.at.cf == cf && !front.at.key.is_empty()).then(|| front.at.key.to_vec())
    }

    /// The families of which something is written anew, ascending.
    pub fn families(&self) -> BTreeSet<CfId> {
        let generations = self.generations.iter().flat_map(|m| m.families());
        let tables = self.written_anew.iter().map(|(place, _)| place.cf);
        generations.chain(tables).collect()
    }

    /// Whether the record of `key` in `cf` belongs to a family that exists.
    pub fn exists(&self, cf: CfId, key: &[u8]) -> bool {
        let owner = match cf {
            CfId::METADATA => CfId::of_metadata_key(key),
            cf => Some(cf),
        };
        owner.is_some_and(|cf| self.state.families().contains_key(&cf.0))
    }

    /// The state of a copy: of what is in tables, with the store's options but for where its region or its logs
    /// lie.
    ///
    /// # Errors
    /// None, if `db_id` is a new one.
    pub fn copied(&self, options: &Options, db_id: [u8; 16], region_id: [u8; 16]) -> Result<State> {
        let options = Options {
            pm_path: None,
            wal_path: None,
            ..options.clone()
        };
        let version = self.below.clone();
        self.state
            .copied(version, stored(&options), db_id, region_id)
    }
}
