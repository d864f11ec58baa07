//! Copies lie outside of the database, or of the folder of backups, that they are copies of.

use std::path::{Component, Path, PathBuf};

use thermocline_base::{Error, Result};
use thermocline_env::Storage;

/// Refuses a place for copies in the folder `of` a database, however deep, and by whatever path. The folder itself is
/// refused for what it has. `dir` is absolute, and need not exist.
///
/// # Errors
/// [`Error::InvalidArgument`]; those of the file system.
pub(crate) fn check_apart(storage: &dyn Storage, dir: &Path, of: &Path) -> Result<()> {
    if !lies_in(storage, dir, of)? {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{} lies in the folder of the database {}: what goes with that folder, if it is removed or lost, would take \
         the copy along; choose a folder outside",
        dir.display(),
        of.display()
    )))
}

/// Whether a place for copies lies in the folder `of`, however deep, and by whatever path, and is not that folder itself. `dir` is
/// absolute, and need not exist.
///
/// # Errors
/// Those of the file system.
pub(crate) fn lies_in(storage: &dyn Storage, dir: &Path, of: &Path) -> Result<bool> {
    // One that was removed, and is open all the same, has nothing in it.
    if !storage.is_dir(of)? {
        return Ok(false);
    }
    // The folder itself, not by way of one that is yet to be made: nobody would see what it has.
    let is_itself = storage.is_dir(dir)? && storage.is_same(dir, of)?;
    Ok(!is_itself && leads_into(storage, dir, of)?)
}

/// Whether a path, once it is made, lies in the folder `of`, or goes there on its way and leaves something. To make `new/../db/copy` makes
/// `new`, and then leads into `db`: what is yet to be made, and left again, counts for nothing.
fn leads_into(storage: &dyn Storage, dir: &Path, of: &Path) -> Result<bool> {
    let mut parts: Vec<Component<'_>> = dir.components().collect();
    loop {
        let path_of = |len: usize| parts[..len].iter().collect::<PathBuf>();
        let mut there = parts.len();
        while there > 0 && !storage.is_dir(&path_of(there))? {
            there -= 1;
        }
        if there == 0 {
            return Ok(false);
        }
        // The rest is made in it.
        if storage.is_within(&path_of(there), of)? {
            return Ok(true);
        }
        let mut missing = parts[there..].iter();
        match missing.position(|part| *part == Component::ParentDir) {
            // The one before it is missing, too.
            Some(up) if up > 0 => drop(parts.drain(there + up - 1..=there + up)),
            _ => return Ok(false),
        }
    }
}
