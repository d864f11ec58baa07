//! Tables that belong to no database, for ingestion (`ingest`): tables that a user writes, or of a range of a store.
//!
//! Such a table is sealed to an id that is drawn for it alone, as file 0, which no database has. It says that it is
//! of family 0 and to be ingested (`sst::Creation::Ingest`). All its entries have seqno 1. It is written under a
//! temporary name, and gets its own name only when all of it is durable, and only if nothing has that name by then.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thermocline_base::bounds::KeyBounds;
use thermocline_base::sync::Arc;
use thermocline_base::{CfId, Error, FileId, Kind, Result, SeqNo};
use thermocline_env::frugal::Frugal;
use thermocline_env::{Env, Storage};
use thermocline_sst::{Creation, Identity, KeyRef, TableWriter, Value, WriteOptions, sites};

use crate::paths;
use crate::store::{Entries, Store};

/// The seqno of all entries. Ingestion gives them another one.
const SEQNO: SeqNo = SeqNo(1);

/// The result of writing a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// Keys that the table puts or deletes.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes a table for ingestion, without a database.
///
/// ```
/// use std::path::Path;
/// use thermocline_copies::IngestWriter;
/// use thermocline_env::Env;
///
/// # fn main() -> thermocline_base::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// let mut table = IngestWriter::create(&Env::real(), &folder.path().join("new.sst"))?;
/// table.put(b"a", b"1")?;
/// table.delete(b"b")?;
/// assert!(table.put(b"b", b"2").is_err(), "keys ascend");
/// table.delete_range(b"c", b"n")?;
/// assert_eq!(table.finish()?.entries, 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct IngestWriter {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    temporary: PathBuf,
    writer: Option<TableWriter>,
}

impl IngestWriter {
    /// Begins the table `path`, which must not exist. A relative path means the working folder of this moment.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for the empty path, or if the file, or the temporary one beside it, exists; those of the file
    /// system.
    pub fn create(env: &Env, path: &Path) -> Result<IngestWriter> {
        let path = paths::absolute(path, paths::TABLE)?;
        // Stores of the process give descriptors back, if they have all of them.
        let storage: Arc<dyn Storage> = Frugal::new(env.storage.clone());
        check_free(&*storage, &path)?;
        let mut temporary = path.clone().into_os_string();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        if storage.exists(&temporary)? {
            return Err(Error::InvalidArgument(format!(
                "{} exists: somebody writes the same table, or was interrupted; remove it if nobody does",
                temporary.display()
            )));
        }
        let mut db_id = [0; 16];
        env.random.fill(&mut db_id)?;
        let identity = Identity::new(db_id, FileId(0));
        let options = WriteOptions {
            creation: Creation::Ingest,
            ..WriteOptions::default()
        };
        let cf = CfId::DEFAULT;
        let writer = TableWriter::create(&*storage, &temporary, identity, cf, options)?;
        Ok(IngestWriter {
            storage,
            path,
            temporary,
            writer: Some(writer),
        })
    }

    /// Adds a key with its value. Keys must ascend strictly, bytewise.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key that does not ascend, a key or value that is too long, or if the table
    /// would become too large for its format: the entry is not added, and others may follow. Errors of the file
    /// system, after which nothing can be added.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(key, Kind::Put, value)
    }

    /// Adds a delete of `key`, which ingesting the table carries out.
    ///
    /// # Errors
    /// As [`IngestWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(key, Kind::Delete, b"")
    }

    /// Adds a delete of the keys from `start` to before `end`, which ingesting the table carries out. It removes all
    /// that is older than the table, and nothing of the table itself. Ranges must ascend strictly by start, may
    /// overlap, and are ordered apart from the keys.
    ///
    /// # Errors
    /// As [`IngestWriter::put`]; [`Error::InvalidArgument`] for a range without keys.
    pub fn delete_range(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        self.add(start, Kind::RangeDelete, end)
    }

    fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) -> Result<()> {
        let writer = self.writer.as_mut().expect("it is taken by `finish` alone");
        writer.add(KeyRef::new(key, SEQNO), kind, Value::Inline(value))
    }

    /// Completes the table. Its file is durable on return.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if another file of that name was made meanwhile; those of the file system. There is
    /// no table then.
    pub fn finish(mut self) -> Result<Exported> {
        let writer = self.writer.take().expect("it is taken here alone");
        let meta = writer.finish()?;
        // Whether the name is free is not asked before: another process may take it in between.
        let named = self.storage.rename_new(&self.temporary, &self.path);
        named.map_err(|error| match &error {
            Error::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists => {
                taken(&self.path)
            }
            _ => error,
        })?;
        let folder = self.path.parent().unwrap_or(&self.path);
        if let Err(error) = self.storage.sync_dir(folder, sites::FILE_NAMED) {
            // The caller gets an error, so the file should not be there.
            let _ = self.storage.remove(&self.path);
            return Err(error);
        }
        Ok(Exported {
            entries: meta.properties.entries,
            bytes: meta.bytes,
        })
    }
}

impl Drop for IngestWriter {
    fn drop(&mut self) {
        if matches!(self.storage.exists(&self.temporary), Ok(true)) {
            // A file that cannot be removed is no table.
            let _ = self.storage.remove(&self.temporary);
        }
    }
}

fn check_free(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.exists(path)? {
        true => Err(taken(path)),
        false => Ok(()),
    }
}

fn taken(path: &Path) -> Error {
    let path = path.display();
    Error::InvalidArgument(format!("{path} exists; choose a name that is free"))
}

/// Writes the present entries of `family` within these bounds into one table `path`, for ingestion. The first bound
/// is the one that comes first in the family's order.
///
/// # Errors
/// [`Error::InvalidArgument`] if `path` is empty or exists, for a family that was dropped, if the entries are too much for
/// one table, or if there is a value over 1 MiB, which a table cannot hold itself; those of the store and of the file
/// system. There is no table then.
pub fn export<S: Store>(
    store: &S,
    family: S::Family,
    bounds: KeyBounds<'_>,
    path: &Path,
) -> Result<Exported> {
    store.check_open()?;
    let mut entries = store.entries(family, bounds)?;
    let mut table = IngestWriter::create(store.env(), path)?;
    while let Some((key, value)) = entries.next()? {
        store.check_open()?;
        table.put(key, value)?;
    }
    table.finish()
}
