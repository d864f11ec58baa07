//! Who reads.

use std::time::Duration;

/// What holds a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReaderKind {
    /// A snapshot.
    Snapshot,
    /// A cursor, or one end of an iterator.
    Cursor,
    /// A checkpoint or backup that is being made.
    Copy,
}

impl ReaderKind {
    /// Its name, as `stat` spells it.
    pub fn name(self) -> &'static str {
        match self {
            ReaderKind::Snapshot => "snapshot",
            ReaderKind::Cursor => "cursor",
            ReaderKind::Copy => "copy",
        }
    }
}

/// A reader, as metrics tell of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderState {
    /// What it is.
    pub kind: ReaderKind,
    /// Of each key that was written since, the version that was newest at this seqno stays for it.
    pub seqno: u64,
    /// Since when, by the last tick of the store's clock.
    pub held: Duration,
    /// Changes since that are visible: most versions that stay for it alone.
    pub behind: u64,
    /// Whether it is inside a call. Then it may keep memtables and tables that have gone otherwise.
    pub in_call: bool,
    /// Persistent memory of memtables that have gone otherwise, and that it has not let go of
    /// yet. It is asked to when there is need of that.
    pub retired_bytes: u64,
}

impl std::fmt::Display for ReaderState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, seqno) = (self.kind.name(), self.seqno);
        write!(f, "a {kind} at seqno {seqno} for {:.1?}", self.held)?;
        match self.in_call {
            true => write!(f, ", inside a call"),
            false => Ok(()),
        }
    }
}
