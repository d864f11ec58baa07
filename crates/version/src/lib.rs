//! What exists: the edits that change it, the state they add up to, and the manifest in which
//! they outlive the process.
//!
//! The manifest alone decides what belongs to a database beyond the records in its live chains: which
//! column families there are, which memtable generations and chains, where recovery cut a chain,
//! and which ids have ever been given out.
//!
//! - [`edit`]: one [`VersionEdit`] is a list of [`Change`]s that happen together or not at all.
//! - [`state`]: a [`State`] is the sum of all edits; it refuses those that cannot be.
//! - [`manifest`]: the log of edits, its switch to a new file, and the crash argument.
//! - [`format`](mod@format): every byte of it.
#![forbid(unsafe_code)]

pub mod edit;
pub mod format;
pub mod manifest;
pub mod sites;
pub mod state;

pub use edit::{Change, NextIds, VersionEdit};
pub use manifest::Manifest;
pub use state::{Chain, Cut, Generation, State};
