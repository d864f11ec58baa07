//! Checkpoints: the store as it is now, in another folder. See [`copy`](crate::copy) for the argument.

use std::path::Path;

use thermocline_base::{Error, FileId, Result};
use thermocline_tables::file_name;
use thermocline_version::{Change, FileKind, NextIds, State, VersionEdit};

use crate::blobs::unreferenced;
use crate::copy::note::Note;
use crate::copy::{Capture, Target, link_or_copy, stream};
use crate::create::region_id_of_copy;
use crate::store::{Engine, Inner};
use crate::sync::{Arc, Ordering};

impl Engine {
    /// Makes `dir` a database of its own with all that is visible now, families, metadata and options
    /// included. Its tables and blob files are hard links where `dir` lies on the same file system, and copies where
    /// not. All of it is durable on return, and in this store, too, all that it has. Writers go on
    /// meanwhile.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `dir` exists and is not empty; [`Error::Locked`] if somebody makes
    /// a copy there; [`Error::Closed`]; [`Error::Poisoned`]; [`Error::Unsupported`] for records that
    /// cannot be in tables; [`Error::Corruption`] of a record; those of the file system. There is no
    /// database in `dir` then (or, where the file system refuses to remove anything either, all of it),
    /// and this store is unharmed.
    pub fn checkpoint(&self, dir: &Path) -> Result<()> {
        let dir = std::path::absolute(dir)
            .map_err(|source| Error::io("find the absolute path of", dir, source))?;
        let inner = &self.inner;
        inner.check_open()?;
        let target = Target::begin(&inner.world.env.storage, &dir)?;
        match inner.fill(&target) {
            Ok(state) => target.complete(state),
            Err(error) => Err(target.withdraw(error)),
        }
    }
}

impl Inner {
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    /// Brings all files into the target, and says what it will be.
    fn fill(self: &Arc<Inner>, target: &Target) -> Result<State> {
        let capture = Capture::of(self)?;
        let state = self.stream_state(&capture, (target.dir(), target.note()))?;
        let storage = &*self.world.env.storage;
        let wanted = |(file, _): &(FileId, FileKind)| state.version().file(*file).is_some();
        let wanted = capture.version().files().filter(wanted);
        let names: Vec<String> = wanted
            .map(|(f, kind)| file_name(f, kind).to_string())
            .collect();
        target.note().record(names.iter().cloned())?;
        for name in names {
            let (from, to) = (self.dir.join(&name), target.dir().join(&name));
            link_or_copy(storage, &from, &to, || self.check_open())?;
        }
        Ok(state)
    }

    /// Writes what the capture has outside of tables into tables of a folder with a note. Gives the state of a new
    /// database that has both.
    pub fn stream_state(&self, capture: &Capture, to: (&Path, &Note)) -> Result<State> {
        let mut db_id = [0; 16];
        let random = &*self.world.env.random;
        random.fill(&mut db_id)?;
        let region_id = region_id_of_copy(random, self.is_logged())?;
        let mut state = capture.copied(&self.options, db_id, region_id)?;
        // Not 0, as everywhere.
        let mut file = state.next_ids().file.max(1);
        let tables = stream(capture, to, db_id, &mut file)?;
        if !tables.is_empty() {
            let ids = NextIds {
                file,
                ..state.next_ids()
            };
            let mut edit = VersionEdit::from(Change::NextIds(ids));
            edit.changes.extend(tables);
            state.apply(&edit)?;
        }
        // What only records referred to that the copy does not have.
        if let Some(edit) = unreferenced(state.version(), [].iter()) {
            state.apply(&edit)?;
        }
        Ok(state)
    }
}
