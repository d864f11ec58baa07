//! The folder in which a copy is made.

use std::path::{Path, PathBuf};

use thermocline_base::{Error, Result};
use thermocline_env::{LockGuard, OpenMode, Storage};
use thermocline_sst::FileName;
use thermocline_version::format::{CURRENT, CURRENT_TEMP, manifest_no};
use thermocline_version::{Manifest, State};

use super::sites;
use crate::layout::LOCK_NAME;
use crate::sync::Arc;

/// Exists while a copy is being made.
pub(crate) const COPYING_NAME: &str = "COPYING";

/// See the [module](super).
pub(crate) struct Target {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    _lock: Box<dyn LockGuard>,
}

impl Target {
    /// Begins a copy in `dir`, which does not exist, or is empty, or has what an interrupted copy left.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] saying what is there; [`Error::Locked`] if somebody else makes a copy
    /// there; those of the file system.
    pub fn begin(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Target> {
        let storage = storage.clone();
        if storage.exists(dir)? {
            check_free(&*storage, dir)?;
        } else {
            storage.create_dir_all(dir)?;
        }
        let target = Target {
            _lock: storage.lock(&dir.join(LOCK_NAME))?,
            storage,
            dir: dir.to_path_buf(),
        };
        // Again: somebody may have made it into something before it was locked.
        check_free(&*target.storage, dir)?;
        target.note().map_err(|error| target.withdraw(error))?;
        Ok(target)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn note(&self) -> Result<()> {
        self.clear()?;
        let file = self
            .storage
            .open(&self.dir.join(COPYING_NAME), OpenMode::CreateNew)?;
        file.sync(sites::COPY_NOTED)?;
        self.storage.sync_dir(&self.dir, sites::COPY_NOTED)
    }

    /// Makes the database of these files, all of which have durable bytes.
    ///
    /// # Errors
    /// Those of the file system; then there is no database.
    pub fn complete(self, state: State) -> Result<()> {
        let storage = self.storage.clone();
        // It makes all names in the folder durable before it names itself.
        let made = Manifest::create_as(storage, &self.dir, state).map(drop);
        made.map_err(|error| self.withdraw(error))?;
        // The database exists. Whoever opens it removes the note if this fails.
        let _ = self.storage.remove(&self.dir.join(COPYING_NAME));
        Ok(())
    }

    /// Removes what was made so far, as far as that can be done. Gives `error` back.
    pub fn withdraw(&self, error: Error) -> Error {
        // What stays is no database, and the next copy clears it.
        let _ = self.clear();
        error
    }

    fn clear(&self) -> Result<()> {
        let has = |name: &str| self.storage.exists(&self.dir.join(name));
        if has(CURRENT)? {
            self.storage.remove(&self.dir.join(CURRENT))?;
            self.storage.sync_dir(&self.dir, sites::COPY_WITHDRAWN)?;
        }
        for name in self.storage.list(&self.dir)? {
            if name != LOCK_NAME && name != COPYING_NAME {
                self.storage.remove(&self.dir.join(&name))?;
            }
        }
        // The note last: without it what is left would be a stranger's.
        if has(COPYING_NAME)? {
            self.storage.sync_dir(&self.dir, sites::COPY_WITHDRAWN)?;
            self.storage.remove(&self.dir.join(COPYING_NAME))?;
        }
        Ok(())
    }
}

/// Refuses a folder in which something lies that an interrupted copy has not left.
fn check_free(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let shown = dir.display();
    if !storage.is_dir(dir)? {
        return Err(Error::InvalidArgument(format!(
            "{shown} exists and is a file; choose a folder that does not exist yet"
        )));
    }
    let names = storage.list(dir)?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if has(CURRENT) {
        return Err(Error::InvalidArgument(format!(
            "{shown} already holds a database; choose a folder that does not exist yet"
        )));
    }
    let left = has(COPYING_NAME);
    let ours = |name: &&String| {
        let made = FileName::parse(name).is_some()
            || manifest_no(name).is_some()
            || [CURRENT_TEMP, COPYING_NAME].contains(&name.as_str());
        *name == LOCK_NAME || left && made
    };
    match names.iter().find(|name| !ours(name)) {
        None => Ok(()),
        Some(stranger) => Err(Error::InvalidArgument(format!(
            "{shown} exists and is not empty (it has '{stranger}'); choose a folder that does not exist \
             yet"
        ))),
    }
}
