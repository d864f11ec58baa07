//! Files of another folder: linked, or copied byte for byte.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, FileId, Result};
use thermocline_env::{File, OpenMode, Storage};

use super::sites;
use crate::store::Captured;
use crate::sum::Summing;

/// Bytes that are read and written at once.
const PIECE_BYTES: usize = 1 << 20;

/// The result of copying a file.
#[derive(Debug)]
pub(crate) struct Copied {
    pub bytes: u64,
    pub sums: Summing,
}

/// Copies a file to a free name. Its bytes are durable on return, its name is not. `go_on` is called before each
/// piece, with the bytes of the one before.
pub(crate) fn copy_file(
    storage: &dyn Storage,
    from: &Path,
    to: &Path,
    go_on: impl FnMut(u64) -> Result<()>,
) -> Result<Copied> {
    let source = storage.open(from, OpenMode::Read)?;
    copy_open_file(storage, &*source, to, go_on)
}

/// As [`copy_file`], of a file that is open.
pub(crate) fn copy_open_file(
    storage: &dyn Storage,
    source: &dyn File,
    to: &Path,
    mut go_on: impl FnMut(u64) -> Result<()>,
) -> Result<Copied> {
    let target = storage.open(to, OpenMode::CreateNew)?;
    let len = source.len()?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut before = 0;
    let mut copied = Copied {
        bytes: 0,
        sums: Summing::new(),
    };
    while copied.bytes < len {
        go_on(before)?;
        let left = usize::try_from(len - copied.bytes).unwrap_or(usize::MAX);
        let piece = &mut piece[..left.min(PIECE_BYTES)];
        source.read_exact_at(piece, copied.bytes)?;
        target.write_at(piece, copied.bytes)?;
        copied.sums.add(piece);
        before = piece.len() as u64;
        copied.bytes += before;
    }
    if !active(Bug::CopyForgetsSync) {
        target.sync(sites::COPY_WRITTEN)?;
    }
    Ok(copied)
}

/// A file of a moment: as the store keeps it open, if somebody else writes to it ([`Captured::kept`]), and by its name if not.
pub(crate) fn open_captured(
    storage: &dyn Storage,
    captured: &impl Captured,
    file: FileId,
    path: &Path,
) -> Result<Arc<dyn File>> {
    let kept = captured.kept(file);
    match kept {
        Ok(Some(kept)) => Ok(kept),
        not_kept => match storage.open(path, OpenMode::Read) {
            Err(error) if is_gone(&error) => not_kept.and(Err(error)),
            opened => opened,
        },
    }
}

/// Whether there is no file of that name.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// Gives a file a second name, or copies it if that cannot be. The file never changes any more and is durable.
pub(crate) fn link_or_copy(
    storage: &dyn Storage,
    from: &Path,
    to: &Path,
    go_on: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let refused = match storage.link(from, to) {
        Ok(()) => return Ok(()),
        Err(refused) => refused,
    };
    let cannot = [
        ErrorKind::CrossesDevices,
        ErrorKind::Unsupported,
        ErrorKind::TooManyLinks,
        // The file system has no hard links.
        ErrorKind::PermissionDenied,
    ];
    match &refused {
        Error::Io { source, .. } if cannot.contains(&source.kind()) => {
            copy_file(storage, from, to, go_on).map(drop)
        }
        _ => Err(refused),
    }
}
