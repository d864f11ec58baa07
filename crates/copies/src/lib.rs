//! Copies of a store, tables that go in and out of it, and feeds of its committed changes.
//!
//! | task | module |
//! |---|---|
//! | the present state of the store, as a database in another folder | [`checkpoint()`] |
//! | states of the store at several moments, in one folder of backups, and databases made of them | [`Backups`] |
//! | the common part of checkpoints, backups and restored databases | `copy` |
//! | a table of a range of keys, or one written outside of any store | [`export()`], [`IngestWriter`] |
//! | tables from outside, as the newest of the store | [`ingest()`] |
//! | changes committed since a seqno | [`ChangeFeed`] |
//!
//! # What it is given
//! A [`Store`]: it captures a moment and writes the part of it that lies in no file, gives entries in order, and
//! installs new tables. A feed is given [`Chains`] instead: the records in chains, and those of them that are kept.
//! Both traits say what must hold; the store has the argument that it does. Calls that may take long are given an observer, which is
//! told how far they have come (`base::progress`).
//!
//! # What it does not know
//! Locks, writers, memtables, levels, the manifest of the open store, and when flushes or compactions happen. It
//! knows formats: tables, blob files, the state of a database, and items of chains, which it only reads.
//!
//! # Invariants
//! 1. *A copy is a database of its own*. It shares no byte with the original that either of them may still change
//!    (`copy`).
//! 2. *An incomplete copy is no database*, and an incomplete backup is no backup. Only files that are proven to be
//!    ours are removed of either (`copy::note`).
//! 3. *Tables from outside are verified wholly* before the store is told of them (`ingest`).
//! 4. *A feed gives only changes that no crash takes back*, and leaves nothing out without saying so (`feed`).
//!
//! `FORMATS.md` lists the bytes: lists of backups (`backup::format`), notes (`copy::format`).
#![forbid(unsafe_code)]

mod backup;
mod checkpoint;
mod copy;
mod export;
mod feed;
mod ingest;
mod paths;
mod store;
mod sum;

pub use backup::{BackupInfo, Backups};
pub use checkpoint::{checkpoint, checkpoint_observed};
pub use copy::sites::ALL as SITES;
pub use copy::{forget_note, is_unfinished, noted_names};
pub use export::{Exported, IngestWriter, export};
pub use feed::{
    Chains, Change, ChangeFeed, ChangeGroup, ChangeOp, Changes, FamilyNames, LongValues, Marks,
    oldest_position,
};
pub use ingest::{Ingested, check_tables, ingest, ingest_observed};
pub use store::{Captured, Entries, Installed, NewTables, Store};
