//! The one place where the command line opens files of its own.

use std::fs::File;
use std::path::Path;

use crate::fail::{Failure, Outcome};

/// Opens an ordinary file for reading; also its length in bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "a user's input file, outside the engine's simulated world"
)]
pub(crate) fn open(path: &Path) -> Outcome<(File, u64)> {
    let failed = |e| Failure::Failed(format!("cannot read {}: {e}", path.display()));
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(Failure::Failed(format!(
            "{} is a folder; name a file",
            path.display()
        )));
    }
    Ok((file, about.len()))
}
