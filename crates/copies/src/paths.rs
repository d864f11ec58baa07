//! Paths that callers give.

use std::path::{Path, PathBuf};

use thermocline_base::{Error, Result};

/// What lies at a path, in the words of a refusal.
pub(crate) const CHECKPOINT: &str = "a checkpoint is a folder";
pub(crate) const BACKUPS: &str = "backups lie in a folder";
pub(crate) const DATABASE: &str = "a database is a folder";
pub(crate) const TABLE: &str = "a table is a file";

/// Refuses the empty path: nothing has it. `what` says what would lie there.
///
/// # Errors
/// [`Error::InvalidArgument`].
pub(crate) fn check(path: &Path, what: &str) -> Result<()> {
    match path.as_os_str().is_empty() {
        true => Err(Error::InvalidArgument(format!(
            "{what}; an empty path was given"
        ))),
        false => Ok(()),
    }
}

/// The path as it stays right when the working folder changes. `what` says what lies there, or will.
///
/// # Errors
/// As [`check`]; those of the system, where there is no working folder.
pub(crate) fn absolute(path: &Path, what: &str) -> Result<PathBuf> {
    check(path, what)?;
    std::path::absolute(path).map_err(|source| Error::io("find the absolute path of", path, source))
}
