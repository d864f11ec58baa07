//! What somebody is told who would have to wait.

use thermocline_base::Error;

/// The error for a write that asked not to wait.
#[cold]
pub(crate) fn busy(cause: &str) -> Error {
    Error::Busy(format!(
        "the write would have to wait {cause}, and it asked not to"
    ))
}
