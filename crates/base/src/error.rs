//! The one error type of the engine.
//!
//! Each layer could wrap the errors of the layer below in an enum of its own; but what a user needs
//! is what the lowest layer knew (the file, the zone, the offset, the limit), unchanged, at the
//! top. So all layers share one enum whose variants are the things a caller can act on.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every fallible operation of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with what is needed to find and mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes at rest are not what was written there. Never returned for an absent key.
    #[error("corruption in {place} at offset {offset}: {what} (expected {expected}, got {got})")]
    Corruption {
        /// The structure that is damaged.
        what: String,
        /// The file or zone, by name.
        place: String,
        /// Byte offset within that file or region.
        offset: u64,
        /// What should have been there.
        expected: String,
        /// What is there.
        got: String,
    },
    /// The operating system refused an operation.
    #[error("cannot {op} {}{}: {source}", path.display(), at(*offset))]
    Io {
        /// The operation, as a verb ("read", "sync").
        op: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The offset in bytes, where the operation has one.
        offset: Option<u64>,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An argument or option breaks a rule; the message names it and the limit. Nothing was done.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// Another write came first (transactions).
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another row has the values that only one row may have (tables of records). Trying again does not help.
    #[error("duplicate: {0}")]
    Duplicate(String),
    /// The resource is in use; trying later can succeed.
    #[error("busy: {0}")]
    Busy(String),
    /// The database is open in another handle or process.
    #[error("{} is locked by {}; close it there first", path.display(), holder(*pid))]
    Locked {
        /// The database's folder.
        path: PathBuf,
        /// The process that holds the lock, 0 if it left no name (readers write nothing, and there may have been no room).
        pid: u32,
    },
    /// The database has been closed, by this handle or by another one.
    #[error("the database is closed; open it again to use it")]
    Closed,
    /// An earlier persist failed, so it is unknown what is durable. Reads go on; writes fail until the database is
    /// reopened.
    #[error("the store is poisoned by an earlier failure and takes no writes until reopened: {0}")]
    Poisoned(String),
    /// A feature that this version does not have.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A budget is used up; the message names it, its size and the remedy.
    #[error("out of space: {0}")]
    OutOfSpace(String),
    /// Changes were asked for that are not kept any more. A follower begins anew, with a copy.
    #[error(
        "the changes since seqno {since} are not kept any more, only those since {oldest}: begin anew with \
         a checkpoint, a backup or a scan of a snapshot, and keep more (feed.retain_bytes, \
         feed.pins_percent_max)"
    )]
    ChangesGone {
        /// The sequence number since which changes were asked for.
        since: u64,
        /// The smallest sequence number that can be asked for.
        oldest: u64,
    },
}

fn holder(pid: u32) -> String {
    match pid {
        0 => "a process that left no name, as those do that read it".into(),
        // In another container there may be one of the same number.
        pid if pid == std::process::id() => format!("process {pid} (this one has that number)"),
        pid => format!("process {pid}"),
    }
}

fn at(offset: Option<u64>) -> String {
    offset
        .map(|o| format!(" at offset {o}"))
        .unwrap_or_default()
}

/// The kinds of [`Error`], for callers that only branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// See [`Error::Corruption`].
    Corruption,
    /// See [`Error::Io`].
    Io,
    /// See [`Error::InvalidArgument`].
    InvalidArgument,
    /// See [`Error::Conflict`].
    Conflict,
    /// See [`Error::Duplicate`].
    Duplicate,
    /// See [`Error::Busy`].
    Busy,
    /// See [`Error::Locked`].
    Locked,
    /// See [`Error::Closed`].
    Closed,
    /// See [`Error::Poisoned`].
    Poisoned,
    /// See [`Error::Unsupported`].
    Unsupported,
    /// See [`Error::OutOfSpace`].
    OutOfSpace,
    /// See [`Error::ChangesGone`].
    ChangesGone,
}

impl Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Corruption { .. } => ErrorKind::Corruption,
            Error::Io { .. } => ErrorKind::Io,
            Error::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Error::Conflict(_) => ErrorKind::Conflict,
            Error::Duplicate(_) => ErrorKind::Duplicate,
            Error::Busy(_) => ErrorKind::Busy,
            Error::Locked { .. } => ErrorKind::Locked,
            Error::Closed => ErrorKind::Closed,
            Error::Poisoned(_) => ErrorKind::Poisoned,
            Error::Unsupported(_) => ErrorKind::Unsupported,
            Error::OutOfSpace(_) => ErrorKind::OutOfSpace,
            Error::ChangesGone { .. } => ErrorKind::ChangesGone,
        }
    }

    /// Whether there was no room: a budget of the store is used up ([`Error::OutOfSpace`]), or the disk, a quota or
    /// the largest allowed file is.
    pub fn is_no_room(&self) -> bool {
        match self {
            Error::OutOfSpace(_) => true,
            Error::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            ),
            _ => false,
        }
    }

    /// Whether the operating system failed to make something durable, for any reason. Then it is unknown what of it
    /// the device has.
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, Error::Io { op, .. } if op.starts_with("sync"))
    }

    /// A corruption at `offset` of `place`.
    #[cold]
    pub fn corruption(
        what: impl Into<String>,
        place: impl Into<String>,
        offset: u64,
        expected: impl ToString,
        got: impl ToString,
    ) -> Error {
        Error::Corruption {
            what: what.into(),
            place: place.into(),
            offset,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// An operating-system error of `op` on `path`.
    #[cold]
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Io {
            op,
            path: path.to_path_buf(),
            offset: None,
            source,
        }
    }

    /// An operating-system error of `op` on `path` at byte `offset`.
    #[cold]
    pub fn io_at(op: &'static str, path: &Path, offset: u64, source: io::Error) -> Error {
        Error::Io {
            op,
            path: path.to_path_buf(),
            offset: Some(offset),
            source,
        }
    }
}
