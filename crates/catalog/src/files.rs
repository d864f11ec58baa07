//! Which files of a store's folder are its own, and which of those nobody needs.
//!
//! # Whose a file is
//! A stranger's file may lie in the folder, under a name that looks like one of ours. A file is removed only if it is proven
//! ours:
//! - A *table* is written under a name that says whose it is ([`FileName::Unfinished`]). It gets its own name when its bytes
//!   are durable, and only if nothing has that by then. So a file with a table's name that does not end as a table of ours never was
//!   ours; nor is one beside a table that has not got its name.
//! - A *blob file* begins with a header that says whose it is. One that begins with a part of that header, or with zeros, is
//!   what a crash leaves of one: it holds no value.
//! - A folder, a link, a device is not ours: we make none. Nor is what we may not read: all that we make is its owner's.

use std::io::ErrorKind::{InvalidInput, PermissionDenied};
use std::path::{Path, PathBuf};

use thermocline_base::{Error, FileId, Result};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{FileName, Identity, identity_of, is_blobs_of};
use thermocline_tables::TableFiles;
use thermocline_version::{FileKind, Origins, Version, VersionSet};

/// The tables and blob files in a folder, by their names.
///
/// # Errors
/// Those of the file system.
pub fn files_in(storage: &dyn Storage, dir: &Path) -> Result<Vec<(FileId, FileKind)>> {
    let names = names_in(storage, dir)?;
    Ok(names.into_iter().filter_map(kind_of).collect())
}

fn names_in(storage: &dyn Storage, dir: &Path) -> Result<Vec<FileName>> {
    let names = storage.list(dir)?;
    Ok(names
        .iter()
        .filter_map(|name| FileName::parse(name))
        .collect())
}

fn kind_of(name: FileName) -> Option<(FileId, FileKind)> {
    match name {
        FileName::Table(file) => Some((file, FileKind::Table)),
        FileName::Blob(file) => Some((file, FileKind::Blob)),
        FileName::Unfinished(_) => None,
    }
}

/// Looks, when a store is opened, whether all named files are there, and removes those that nobody names: now,
/// or if `elders`, who are readers of an earlier opening, may read them, when those have gone; what cannot be removed for want of
/// room, later. Who reads only (`read_only`) removes nothing.
///
/// # Errors
/// [`Error::Corruption`] if a file that the manifest names is missing; those of the file system.
pub fn sweep(
    files: &TableFiles,
    versions: &mut VersionSet,
    (read_only, elders): (bool, bool),
) -> Result<()> {
    let names = names_in(&*files.storage, &files.dir)?;
    let there: Vec<_> = names.iter().copied().filter_map(kind_of).collect();
    let unnamed = versions
        .sweep(&there)
        .map_err(|error| in_folder(error, &files.dir))?;
    if read_only {
        return Ok(());
    }
    let mut going = Vec::new();
    for found in unnamed {
        let (path, identity) = (path_of(files, found), files.identity(found.0));
        if is_ours(&*files.storage, &path, found.1, identity)? {
            going.push(found);
        }
    }
    for name in names {
        // Nobody reads it, and nobody writes it any more: the folder is locked.
        if let FileName::Unfinished(identity) = name
            && identity == files.identity(identity.file)
        {
            let path = files.unfinished_path(identity.file);
            removed_or_no_room(files.storage.remove(&path))?;
        }
    }
    if elders {
        versions.left_by_sweep(&going);
        return Ok(());
    }
    for found in going {
        let removed = files.storage.remove(&path_of(files, found));
        if !removed_or_no_room(removed)? {
            versions.left_by_sweep(&[found]);
        }
    }
    Ok(())
}

/// The same error, with the folder of the file that it names: a process may have many stores, with files of the same names.
fn in_folder(mut error: Error, dir: &Path) -> Error {
    if let Error::Corruption { place, .. } = &mut error {
        *place = dir.join(place.as_str()).display().to_string();
    }
    error
}

/// Whether something that nobody needs was removed, when a store is opened. Some file systems write nothing in place and need room
/// to note that a file has gone: on a full disk it stays, and a store opens all the same.
///
/// # Errors
/// Any other failure of the removal.
pub fn removed_or_no_room(removed: Result<()>) -> Result<bool> {
    match removed {
        Err(error) if error.is_no_room() => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Removes a file that nobody names or reads any more. Returns whether it is gone.
pub fn unlink(files: &TableFiles, (file, kind): (FileId, FileKind)) -> bool {
    let storage = &files.storage;
    // Several may do so at the same time: what somebody else has removed is gone, too.
    let gone =
        |path: &Path| storage.remove(path).is_ok() || matches!(storage.exists(path), Ok(false));
    let path = path_of(files, (file, kind));
    if kind == FileKind::Blob {
        return gone(&path);
    }
    let unfinished = files.unfinished_path(file);
    match storage.exists(&unfinished) {
        // Its writer gave up. What has the name that it never got is somebody's.
        Ok(true) => gone(&unfinished),
        Ok(false) => gone(&path),
        Err(_) => false,
    }
}

fn path_of(files: &TableFiles, (file, kind): (FileId, FileKind)) -> PathBuf {
    match kind {
        FileKind::Table => files.path(file),
        FileKind::Blob => files.blob_path(file),
    }
}

/// Removes the tables and blob files in `dir` of a database that is to be no more: those that its `version` names, and others
/// that are proven ours. A crash keeps each of them or not: the caller syncs the folder.
///
/// # Errors
/// Those of the file system. Whoever calls again goes on.
pub fn remove_all(
    storage: &dyn Storage,
    dir: &Path,
    version: &Version,
    origins: &Origins,
) -> Result<()> {
    let identity = |file| Identity::new(origins.of(file), file);
    for name in names_in(storage, dir)? {
        let path = dir.join(name.to_string());
        let goes = match (kind_of(name), name) {
            // A damaged one proves nothing any more, nor does one that may not be read. If it is named its name was given to a
            // file of ours.
            (Some((id, kind)), _) if version.file(id) == Some(kind) => is_file(storage, &path)?,
            (Some((id, kind)), _) => is_ours(storage, &path, kind, identity(id))?,
            (None, FileName::Unfinished(owner)) => {
                owner == identity(owner.file) && is_file(storage, &path)?
            }
            (None, _) => false,
        };
        if goes {
            storage.remove(&path)?;
        }
    }
    Ok(())
}

/// Whether it is an ordinary file, were it one that may not be read.
fn is_file(storage: &dyn Storage, path: &Path) -> Result<bool> {
    match storage.open(path, OpenMode::Read) {
        Err(Error::Io { source, .. }) if source.kind() == InvalidInput => Ok(false),
        Err(Error::Io { source, .. }) if source.kind() == PermissionDenied => {
            storage.is_dir(path).map(|is_dir| !is_dir)
        }
        opened => opened.map(|_| true),
    }
}

/// See the [module](self).
fn is_ours(storage: &dyn Storage, path: &Path, kind: FileKind, identity: Identity) -> Result<bool> {
    let file = match storage.open(path, OpenMode::Read) {
        Err(error) if is_of_a_stranger(&error) => return Ok(false),
        opened => opened?,
    };
    if kind == FileKind::Blob {
        return is_blobs_of(&*file, identity);
    }
    match identity_of(&*file) {
        Ok(found) => Ok(found == identity),
        Err(Error::Corruption { .. } | Error::Unsupported(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether opening a file fails like that which is none of ours: a folder, a link, a device, or what we may not read.
fn is_of_a_stranger(error: &Error) -> bool {
    let kinds = [InvalidInput, PermissionDenied];
    matches!(error, Error::Io { source, .. } if kinds.contains(&source.kind()))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Whoever runs this test may be root, who may read all. So only the decision is looked at.
    #[test]
    fn what_may_not_be_read_is_a_strangers() {
        let of = |code| {
            Error::io(
                "open",
                Path::new("1.sst"),
                io::Error::from_raw_os_error(code),
            )
        };
        let (eacces, eperm, eio, emfile) = (13, 1, 5, 24);
        assert!(is_of_a_stranger(&of(eacces)) && is_of_a_stranger(&of(eperm)));
        assert!(!is_of_a_stranger(&of(eio)) && !is_of_a_stranger(&of(emfile)));
    }
}
