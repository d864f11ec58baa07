//! Where a manifest ends.

use std::ffi::OsString;
use std::path::Path;

/// Which manifest, by the name of its file, and where it ends. An edit changes that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position(pub(super) Option<OsString>, u64);

impl Position {
    /// That of a manifest of so many bytes.
    pub fn of(manifest: &Path, bytes: u64) -> Position {
        Position(manifest.file_name().map(OsString::from), bytes)
    }
}
