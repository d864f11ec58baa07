//! The part of a store that copies and ingestion need.

use std::path::{Path, PathBuf};

use thermocline_base::bounds::KeyBounds;
use thermocline_base::{CfId, FileId, Kind, RangeTombstone, Result, SeqNo};
use thermocline_env::{Env, File};
use thermocline_sst::{Identity, Value};
use thermocline_version::{Change, State, Version};

use std::sync::Arc;

/// A store that is open.
pub trait Store {
    /// A held moment of the store.
    type Captured: Captured;

    /// A column family, with the order of its keys.
    type Family;

    /// A walk over a family.
    type Entries: Entries;

    /// Files and randomness of the store's world.
    fn env(&self) -> &Env;

    /// The folder with its files.
    fn dir(&self) -> &Path;

    /// The id to which its files are sealed, except files of a database that the store is a copy of.
    fn db_id(&self) -> [u8; 16];

    /// Whether the store is open, and not poisoned.
    ///
    /// # Errors
    /// [`Closed`](thermocline_base::Error::Closed); [`Poisoned`](thermocline_base::Error::Poisoned).
    fn check_open(&self) -> Result<()>;

    /// Whether the store takes writes to this family.
    ///
    /// # Errors
    /// As [`Store::check_open`]; [`InvalidArgument`](thermocline_base::Error::InvalidArgument) for a store that only
    /// reads, and for a family that was dropped.
    fn check_accepts(&self, cf: CfId) -> Result<()>;

    /// Writes the memtables into tables of the store.
    ///
    /// # Errors
    /// Those of writing. Nothing is lost then.
    fn flush(&self) -> Result<()>;

    /// Captures the visible state, and makes it durable.
    ///
    /// # Errors
    /// As [`Store::check_open`]; a failed persist, which poisons the store.
    fn capture(&self) -> Result<Self::Captured>;

    /// Walks over the present entries of a family within these bounds; the first bound is the one that comes first in
    /// its order.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) for a family that was dropped.
    fn entries(&self, family: Self::Family, bounds: KeyBounds<'_>) -> Result<Self::Entries>;

    /// Installs the tables that `write` writes as the newest of a family, all at one moment, above everything written
    /// before. `write` is given the seqno of all entries, and runs beside writers. It writes about `bytes` bytes, for which
    /// room is asked before. Durable on return. If `write` has written nothing, nothing happens.
    ///
    /// # Errors
    /// [`OutOfSpace`](thermocline_base::Error::OutOfSpace) if the rest of the disk is kept for the store's own work; those of
    /// `write`, of writing tables and of installing them; nothing was installed then. A failed persist poisons the store.
    fn install(
        &self,
        cf: CfId,
        bytes: u64,
        write: &mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>,
    ) -> Result<Installed>;
}

/// A held moment of a store. Writes, flushes and compactions meanwhile do not change what it reads.
///
/// It is the store at [`Captured::seqno`]. Each record up to that seqno that a reader may be answered with lies in a
/// file of [`Captured::files`], or is written by [`Captured::write_rest`], and none is in both.
pub trait Captured {
    /// The last seqno of the moment. All writes up to it are durable.
    fn seqno(&self) -> SeqNo;

    /// The state in the store's manifest.
    fn state(&self) -> &State;

    /// The version whose files a copy takes over. It is one of that state, without tables outside of files. The files
    /// stay while the moment is held.
    fn files(&self) -> &Arc<Version>;

    /// A file of [`Captured::files`] whose name has gone all the same, since somebody else writes to the store, as it is
    /// kept open. `None` if nobody does.
    ///
    /// # Errors
    /// [`Busy`](thermocline_base::Error::Busy) if it is not kept open.
    fn kept(&self, _file: FileId) -> Result<Option<Arc<dyn File>>> {
        Ok(None)
    }

    /// Checks that what has had the names of [`Captured::files`] up to now was the store's. Whoever holds the folder's lock need not
    /// ask; beside somebody else who writes, another database may be there by now.
    ///
    /// # Errors
    /// [`Busy`](thermocline_base::Error::Busy) if that may be so; those of the file system.
    fn check_names(&self) -> Result<()> {
        Ok(())
    }

    /// The store's options, as a copy remembers them: without the places of the region and the logs.
    fn options(&self) -> Vec<(String, String)>;

    /// Writes all other records into tables of level 0, one after the other. `next` gives the name of each, and the
    /// identity to which it is sealed. Returns the changes that name the tables in an edit. Their bytes are durable,
    /// their names are not.
    ///
    /// # Errors
    /// Those of `next`, of reading and of writing; as [`Store::check_open`].
    fn write_rest(&self, next: &dyn Fn() -> Result<(PathBuf, Identity)>) -> Result<Vec<Change>>;
}

/// Entries of a family, in bytewise order.
pub trait Entries {
    /// The next key with its value; `None` behind the last one.
    ///
    /// # Errors
    /// Those of reading.
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>>;
}

/// Tables of a store that are being written. Keys ascend, and so do starts of range tombstones, independently of the
/// keys.
pub trait NewTables {
    /// Checks that the store still takes the tables. To be called now and then.
    ///
    /// # Errors
    /// As [`Store::check_accepts`].
    fn go_on(&mut self) -> Result<()>;

    /// Adds a range tombstone, before the keys from its start on.
    ///
    /// # Errors
    /// Those of writing.
    fn begin_tombstone(&mut self, tombstone: RangeTombstone) -> Result<()>;

    /// Adds an entry.
    ///
    /// # Errors
    /// Those of writing.
    fn add(&mut self, key: &[u8], kind: Kind, value: Value<'_>) -> Result<()>;
}

/// The result of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installed {
    /// Tables that were installed.
    pub tables: u64,
    /// Bytes of these tables.
    pub bytes: u64,
    /// The seqno of all entries; it belongs to nothing if nothing was installed.
    pub seqno: SeqNo,
}
