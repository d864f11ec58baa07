//! Errors of a full disk, and what each leaves behind.

use std::path::Path;

use thermocline_base::Error;

/// Whether a *write* was refused for want of room.
pub(super) fn is_full(error: &Error) -> bool {
    error.is_no_room() && !error.is_failed_sync()
}

pub(super) fn out_of_space(path: &Path, error: &Error) -> Error {
    Error::OutOfSpace(format!(
        "the disk has no room for an edit of the manifest in {}: make room there; nothing has changed ({error})",
        path.display()
    ))
}
