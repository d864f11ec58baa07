//! The folder in which a copy is made.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use thermocline_base::sync::Arc;
use thermocline_base::{Error, Result};
use thermocline_env::{LockGuard, Storage};
use thermocline_version::format::{CURRENT, CURRENT_TEMP, manifest_name, manifest_no};
use thermocline_version::{LOCK_NAME, Manifest, State};

use super::note::{Found, Note, end, remove_all};
use super::sites;

/// Exists while a copy is being made.
const COPYING_NAME: &str = "COPYING";

/// See the [module](super).
pub(crate) struct Target {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    note: Note,
    _lock: Box<dyn LockGuard>,
}

impl Target {
    /// Begins a copy in `dir`. It does not exist, is empty, or has the files of an interrupted copy.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming what else is there; [`Error::Locked`] if another process or thread makes a
    /// copy there, or reads what lay there before; those of the file system.
    pub fn begin(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Target> {
        let storage = storage.clone();
        if storage.exists(dir)? {
            check_free(&*storage, dir)?;
            // Files of the copy may get the names of files that a reader has yet to open. Where it cannot be found out there is none.
            if storage.is_folder_held(dir).unwrap_or(false) {
                return Err(Error::Locked {
                    path: dir.to_path_buf(),
                    pid: 0,
                });
            }
        }
        // The folder's name may not be durable, whoever made it.
        storage.create_dir_all(dir)?;
        let lock = storage.lock(&dir.join(LOCK_NAME))?;
        // Checked again: the folder may have changed before it was locked.
        let left = check_free(&*storage, dir)?;
        let path = dir.join(COPYING_NAME);
        if let Found::Note(names) = left {
            clear(&*storage, dir, &names)?;
        }
        Ok(Target {
            note: Note::begin(&storage, &path)?,
            storage,
            dir: dir.to_path_buf(),
            _lock: lock,
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The note in which names are written down before files have them.
    pub fn note(&self) -> &Note {
        &self.note
    }

    /// Makes the database of these files, all of which have durable bytes.
    ///
    /// # Errors
    /// Those of the file system; then there is no database.
    pub fn complete(self, state: State) -> Result<()> {
        let storage = self.storage.clone();
        let noted = self.next_manifest().and_then(|manifest| {
            let names = [CURRENT.into(), CURRENT_TEMP.into(), manifest];
            self.note.record(names)
        });
        // The manifest makes all names in the folder durable before it names itself.
        let made = noted.and_then(|()| Manifest::create_as(storage, &self.dir, state).map(drop));
        made.map_err(|error| self.withdraw(error))?;
        // The database exists. An open removes the note if this fails.
        let _ = self.storage.remove(&self.dir.join(COPYING_NAME));
        Ok(())
    }

    /// The name that the manifest will have: its number is above all that are there.
    fn next_manifest(&self) -> Result<String> {
        let names = self.storage.list(&self.dir)?;
        let last = names.iter().filter_map(|name| manifest_no(name)).max();
        Ok(manifest_name(last.unwrap_or(0).saturating_add(1)))
    }

    /// Removes the files made so far, as far as that can be done. Gives `error` back.
    pub fn withdraw(&self, error: Error) -> Error {
        self.note.disown(&error);
        // The files that stay are no database, and the next copy clears them.
        let _ = clear(&*self.storage, &self.dir, &self.note.names());
        error
    }
}

/// Whether a copy was begun in a folder. It is incomplete unless a database is there.
///
/// # Errors
/// Those of reading.
pub fn is_unfinished(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let found = Found::at(storage, &dir.join(COPYING_NAME))?;
    Ok(matches!(found, Found::Note(_)))
}

/// Removes the note of a copy: it is complete. Another file of its name stays.
///
/// # Errors
/// Those of the file system.
pub fn forget_note(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match is_unfinished(storage, dir)? {
        true => storage.remove(&dir.join(COPYING_NAME)),
        false => Ok(()),
    }
}

/// Removes the files that a note of a copy names, and the note last: without it the remaining files would be a
/// stranger's.
fn clear(storage: &dyn Storage, dir: &Path, names: &BTreeSet<String>) -> Result<()> {
    let current = dir.join(CURRENT);
    if names.contains(CURRENT) {
        if storage.exists(&current)? {
            storage.remove(&current)?;
        }
        // A process before this one may have removed it, and have been killed before that was durable.
        storage.sync_dir(dir, sites::COPY_WITHDRAWN)?;
    }
    remove_all(storage, dir, names)?;
    end(storage, &dir.join(COPYING_NAME))
}

/// Refuses a folder with anything that an interrupted copy has not left. Gives the note of that copy.
fn check_free(storage: &dyn Storage, dir: &Path) -> Result<Found> {
    let shown = dir.display();
    if !storage.is_dir(dir)? {
        return Err(Error::InvalidArgument(format!(
            "{shown} exists and is a file; choose a folder that does not exist yet"
        )));
    }
    let names = storage.list(dir)?;
    if names.iter().any(|name| name == CURRENT) {
        return Err(Error::InvalidArgument(format!(
            "{shown} already holds a database; choose a folder that does not exist yet"
        )));
    }
    let left = Found::at(storage, &dir.join(COPYING_NAME))?;
    let ours = |name: &str| match name {
        LOCK_NAME => true,
        COPYING_NAME => left != Found::Foreign,
        name => left.names(name),
    };
    match names.iter().find(|name| !ours(name)) {
        None => Ok(left),
        Some(stranger) => Err(Error::InvalidArgument(format!(
            "{shown} exists and is not empty (it has '{stranger}'); choose a folder that does not exist \
             yet"
        ))),
    }
}
