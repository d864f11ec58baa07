//! What a store does for whoever copies it, or brings tables to it.

use std::path::{Path, PathBuf};

use thermocline_base::bounds::KeyBounds;
use thermocline_base::{CfId, Kind, RangeTombstone, Result, SeqNo};
use thermocline_env::Env;
use thermocline_sst::{Identity, Value};
use thermocline_version::{Change, State, Version};

use std::sync::Arc;

/// A store that is open.
pub trait Store {
    /// A moment of it.
    type Captured: Captured;

    /// What names a column family, with the order of its keys.
    type Family;

    /// A walk over a family.
    type Entries: Entries;

    /// Files and randomness of the store's world.
    fn env(&self) -> &Env;

    /// The folder with its files.
    fn dir(&self) -> &Path;

    /// The id that its files are sealed to, but for those of a database that it is a copy of.
    fn db_id(&self) -> [u8; 16];

    /// Whether the store is open, and not poisoned.
    ///
    /// # Errors
    /// [`Closed`](thermocline_base::Error::Closed); [`Poisoned`](thermocline_base::Error::Poisoned).
    fn check_open(&self) -> Result<()>;

    /// Whether it takes writes to this family.
    ///
    /// # Errors
    /// As [`Store::check_open`]; [`InvalidArgument`](thermocline_base::Error::InvalidArgument) for a store that only
    /// reads, and for a family that was dropped.
    fn check_accepts(&self, cf: CfId) -> Result<()>;

    /// Writes what lies in memtables into tables of the store.
    ///
    /// # Errors
    /// Those of writing. Nothing is lost then.
    fn flush(&self) -> Result<()>;

    /// Captures what is visible now, and makes it durable.
    ///
    /// # Errors
    /// As [`Store::check_open`]; a failed persist, which poisons the store.
    fn capture(&self) -> Result<Self::Captured>;

    /// Walks over what a family has now within these bounds, the one that comes first in the family's order first.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) for a family that was dropped.
    fn entries(&self, family: Self::Family, bounds: KeyBounds<'_>) -> Result<Self::Entries>;

    /// Installs what `write` writes as the newest tables of a family, all at one moment, above everything that was
    /// written before. `write` is given the seqno of all of it. It runs beside writers. Durable on return. Where
    /// `write` has written nothing, nothing happens.
    ///
    /// # Errors
    /// Those of `write`, of writing tables and of installing them: then nothing was installed. A failed persist
    /// poisons the store.
    fn install(
        &self,
        cf: CfId,
        write: &mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>,
    ) -> Result<Installed>;
}

/// A moment of a store, held: whoever writes, flushes or compacts meanwhile changes nothing that it reads.
///
/// It is the store at [`Captured::seqno`]. Each record up to that one which anybody may be answered with lies in a
/// file of [`Captured::files`], or is written by [`Captured::write_rest`], and none is in both.
pub trait Captured {
    /// The last seqno that it sees. All up to it is durable.
    fn seqno(&self) -> SeqNo;

    /// What the store's manifest said.
    fn state(&self) -> &State;

    /// The version whose files a copy takes over: one of that state, without tables outside of files. The files stay
    /// for as long as the moment is held.
    fn files(&self) -> &Arc<Version>;

    /// The store's options, as a copy remembers them: without where the region or the logs lie.
    fn options(&self) -> Vec<(String, String)>;

    /// Writes all else into tables of level 0, which `next` names, one after the other, and says what each is sealed
    /// to. Returns what an edit says of them. Their bytes are durable, their names are not.
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

/// Tables of a store that are being written. Keys ascend, and so do starts of range tombstones, beside them.
pub trait NewTables {
    /// Looks whether the store still takes them. To be called now and then.
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

/// What was installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installed {
    /// Tables.
    pub tables: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The seqno of all of it; of nothing, if there was nothing.
    pub seqno: SeqNo,
}
