//! The one place where the command line opens and writes files of its own.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

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

/// Refuses what is no ordinary file, nor a link to one, without opening it: a FIFO would wait.
pub(crate) fn check(path: &Path) -> Outcome {
    let failed = |e| Failure::Failed(format!("cannot read {}: {e}", path.display()));
    match path.metadata().map_err(failed)?.is_file() {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "{} is not an ordinary file; name one",
            path.display()
        ))),
    }
}

/// A file beside `path`, which takes its name when it is whole. No link is followed, and nothing is written to what is
/// not an ordinary file: it might be anybody's.
#[expect(
    clippy::disallowed_methods,
    reason = "a page for people, outside the engine's simulated world"
)]
fn create_part(path: &Path) -> Outcome<(File, PathBuf)> {
    if let Ok(about) = path.symlink_metadata()
        && !about.is_file()
    {
        return Err(Failure::Failed(format!(
            "{} is not an ordinary file (a link, a folder or a device); name another file",
            path.display()
        )));
    }
    // Nothing is opened that is there, so nothing can be put in its place in between.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let temporary = PathBuf::from(temporary);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .map_err(|e| {
            let remedy = match e.kind() {
                ErrorKind::AlreadyExists => "; remove it if nobody needs it",
                _ => "",
            };
            Failure::Failed(format!(
                "cannot create {}: {e}{remedy}",
                temporary.display()
            ))
        })?;
    Ok((file, temporary))
}

/// Writes a file, in place of one that was there. Its folder is there.
#[expect(
    clippy::disallowed_methods,
    reason = "a page for people, outside the engine's simulated world"
)]
fn write(path: &Path, bytes: &[u8]) -> Outcome {
    let failed = |e| Failure::Failed(format!("cannot write {}: {e}", path.display()));
    let (mut file, temporary) = create_part(path)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // What stays is a part of a page.
        let _ = std::fs::remove_file(temporary);
    }
    written.map_err(failed)
}

/// Refuses a file that [`write_into`] could not write, before hours are spent on what it is to hold. Its folder is made if there
/// is none; what has the file's name stays as it is.
#[expect(
    clippy::disallowed_methods,
    reason = "a page for people, outside the engine's simulated world"
)]
pub(crate) fn prepare(path: &Path) -> Outcome {
    make_folder(path)?;
    let (file, temporary) = create_part(path)?;
    drop(file);
    std::fs::remove_file(&temporary)
        .map_err(|e| Failure::Failed(format!("cannot remove {}: {e}", temporary.display())))
}

/// Refuses a folder that [`write_into`] could not make, since something else has its name or is where it would lie.
pub(crate) fn check_folder(folder: &Path) -> Outcome {
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    match folder.ancestors().find(is_there) {
        Some(path) if !path.is_dir() => Err(Failure::Failed(format!(
            "{} is no folder; name one that files can be written to",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// As [`write`], making the folder where there is none.
pub(crate) fn write_into(path: &Path, bytes: &[u8]) -> Outcome {
    make_folder(path)?;
    write(path, bytes)
}

/// Makes the folder of a file where there is none.
fn make_folder(path: &Path) -> Outcome {
    let folder = path.parent().unwrap_or(Path::new(""));
    let failed = |e| Failure::Failed(format!("cannot make {}: {e}", folder.display()));
    check_folder(folder)?;
    if !folder.as_os_str().is_empty() && !folder.is_dir() {
        DirBuilder::new()
            .recursive(true)
            .create(folder)
            .map_err(failed)?;
    }
    Ok(())
}
