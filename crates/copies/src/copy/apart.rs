//! Copies lie outside of the database that they are copies of.

use std::path::Path;

use thermocline_base::{Error, Result};
use thermocline_env::Storage;

/// Refuses a place for copies in the folder `of` a database, however deep, and by whatever path. The folder itself is
/// refused for what it has. `dir` is absolute, and need not exist.
///
/// # Errors
/// [`Error::InvalidArgument`]; those of the file system.
pub(crate) fn check_apart(storage: &dyn Storage, dir: &Path, of: &Path) -> Result<()> {
    // One that was removed, and is open all the same, has nothing in it.
    if !storage.is_dir(of)? {
        return Ok(());
    }
    // What is there of the path. The rest is yet to be made.
    let mut there = dir;
    while !storage.is_dir(there)? {
        let Some(parent) = there.parent() else {
            return Ok(());
        };
        there = parent;
    }
    let is_itself = there == dir && storage.is_same(dir, of)?;
    if is_itself || !storage.is_within(there, of)? {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{} lies in the folder of the database {}: what goes with that folder, if it is removed or lost, would take \
         the copy along; choose a folder outside",
        dir.display(),
        of.display()
    )))
}
