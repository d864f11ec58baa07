//! What is taken of a store, and what is brought to it: copies, tables from outside, changes as they are committed.
//!
//! | what | module |
//! |---|---|
//! | the store as it is now, as a database in another folder | [`checkpoint()`] |
//! | the store at several moments, in one folder of backups, and databases made of those | [`Backups`] |
//! | what checkpoints, backups and restored databases have in common | `copy` |
//! | a table of a range of keys, or one that anybody writes | [`export()`], [`IngestWriter`] |
//! | tables from outside, as the newest of the store | [`ingest()`] |
//! | what was committed since a seqno | [`ChangeFeed`] |
//!
//! # What it is given
//! A [`Store`]: it captures a moment and writes down what of that lies in no file, gives entries in order, and
//! installs new tables. A feed is given [`Chains`] instead: what lies in chains, and what of them is kept.
//! Each says what must hold of what it gives; the store has the argument that it does.
//!
//! # What it does not know
//! Locks, writers, memtables, levels, the manifest of the store that is open, when anything is flushed or
//! compacted. It knows formats: tables, blob files, the state of a database, and items of chains, which it only reads.
//!
//! # Invariants
//! 1. *A copy is a database of its own*, and shares no byte that either of both may still change (`copy`).
//! 2. *A copy that was not completed is no database*, a backup that was not is none, and only what can be proven to be
//!    ours is removed of either (`copy::note`).
//! 3. *What comes from outside is verified wholly* before the store is told of it (`ingest`).
//! 4. *A feed gives only what no crash takes back*, and leaves nothing out without saying so (`feed`).
//!
//! `FORMATS.md` lists the bytes: lists of backups (`backup::format`), notes (`copy::format`).
#![forbid(unsafe_code)]

mod backup;
mod checkpoint;
mod copy;
mod export;
mod feed;
mod ingest;
mod store;

pub use backup::{BackupInfo, Backups};
pub use checkpoint::checkpoint;
pub use copy::sites::ALL as SITES;
pub use copy::{forget_note, is_unfinished, noted_names};
pub use export::{Exported, IngestWriter, export};
pub use feed::{
    Chains, Change, ChangeFeed, ChangeGroup, ChangeOp, Changes, FamilyNames, LongValues, Marks,
    oldest_position,
};
pub use ingest::{Ingested, ingest};
pub use store::{Captured, Entries, Installed, NewTables, Store};
