//! What exists: the edits that change it, the state they add up to, and the manifest in which
//! they outlive the process.
//!
//! The manifest alone decides what belongs to a database beyond the records in its live chains:
//! which column families there are, which memtables and chains, where recovery cut a
//! chain, and which ids have ever been given out.
//!
//! - [`version`]: which tables and blob files exist: immutable, shared, quick to look up in.
//! - [`partitions`]: how the keys of a family are divided.
//! - [`version_set`]: the versions that somebody still reads, and so which files may go.
//! - [`age`]: the law of age, as far as an edit shows it.
//! - [`edit`]: one [`VersionEdit`] is a list of [`Change`]s that happen together or not at all.
//! - [`state`]: a [`State`] is the sum of all edits; it refuses those that cannot be.
//! - [`Origins`]: which database wrote a file, where one is a copy of another.
//! - [`write_times`]: when what was written was written, as far as is known.
//! - [`manifest`]: the log of edits, its switch to a new file, and the crash argument. A database that is destroyed loses
//!   it last ([`Doomed`]).
//! - [`format`](mod@format): every byte of it.
#![forbid(unsafe_code)]

pub mod age;
pub mod edit;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
mod folder;
pub mod format;
mod impossible;
pub mod job_done;
pub mod manifest;
mod origin;
pub mod partitions;
mod pm_table;
pub mod sites;
pub mod state;
mod table;
pub mod version;
pub mod version_set;
pub mod write_times;

pub use edit::{Change, NextIds, StoredRate, VersionEdit};
pub use folder::{LOCK_NAME, NO_REGION};
pub use job_done::{JobDone, JobsDone};
pub use manifest::Manifest;
pub use manifest::destroy::Doomed;
pub use origin::Origins;
pub use partitions::{Partition, Partitions};
pub use pm_table::PmTableInfo;
pub use state::{Chain, Cut, Evacuation, MemtableEntry, State};
pub use table::{BlobBytes, Level, PartitionId, Place, TableRef};
pub use version::{
    BlobFile, FamilyTables, FileKind, Joined, LevelTables, PmTotals, TableDifference, Version,
};
pub use version_set::{Hold, VersionSet};
pub use write_times::{WriteTime, WriteTimes};
