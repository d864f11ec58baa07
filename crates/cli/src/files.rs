//! The one place where the command line opens and writes files of its own.

use std::fs::{DirBuilder, File};
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

/// Writes a file, in place of one that was there.
#[expect(
    clippy::disallowed_methods,
    reason = "a page for people, outside the engine's simulated world"
)]
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let failed = |e| Failure::Failed(format!("cannot write {}: {e}", path.display()));
    std::fs::write(path, bytes).map_err(failed)
}

/// As [`write`], making the folder where there is none.
pub(crate) fn write_into(path: &Path, bytes: &[u8]) -> Outcome {
    let folder = path.parent().unwrap_or(Path::new(""));
    let failed = |e| Failure::Failed(format!("cannot make {}: {e}", folder.display()));
    if !folder.as_os_str().is_empty() && !folder.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .create(folder)
            .map_err(failed)?;
    }
    write(path, bytes)
}
