//! Copies of a database, tables that are exported and ingested, and the end of a database; also how far a copy or a check has come.

use std::ops::RangeBounds;
use std::path::Path;

use thermocline_base::Result;
use thermocline_engine::{BackupInfo, Exported, Family, Ingested, Progress, World};

use crate::keys::Keys;
use crate::scan::owned;
use crate::{ColumnFamily, Db, Options, VerifyReport};

impl Db {
    /// Makes the folder `path` a database of its own, with everything that is visible now: all column families, their
    /// options and metadata. Tables are hard links if `path` lies on the same file system, so that costs little. The
    /// copy is durable on return. Writers go on meanwhile.
    ///
    /// Returns the last sequence number that the copy has: everything up to it is there, and nothing behind it. A follower
    /// that begins with the copy goes on from it ([`Db::changes_since`]).
    ///
    /// From then on the two databases are independent. The copy's persistent memory is made when the copy is first
    /// opened for writing, where the options of that opening say.
    ///
    /// ```
    /// # use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// db.put("order:42", "paid")?;
    /// db.checkpoint(folder.path().join("monday"))?;
    /// db.put("order:42", "sent")?;
    /// let monday = Db::open(folder.path().join("monday"), Options::default())?;
    /// assert_eq!(monday.get("order:42")?.as_deref(), Some(b"paid".as_slice()));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for the empty path, or if `path` exists and is not empty, or lies in the database's own
    /// folder, with which the copy would be lost; [`crate::Error::Locked`] if another process or thread makes a copy there, or
    /// still reads what lay there before; [`crate::Error::Corruption`] of a record; [`crate::Error::Busy`] beside a writer
    /// that has replaced a file which was not kept open ([`DbBuilder::beside_writers`](crate::DbBuilder::beside_writers)); [`crate::Error::Closed`];
    /// [`crate::Error::Poisoned`]; those of the file system. After an error there is no copy, and this database is unharmed.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<u64> {
        self.engine.checkpoint(path.as_ref())
    }

    /// As [`Db::checkpoint`]. `observer` is told how many bytes of the database's files the copy has, linked or copied ([`Progress`]).
    /// Before the first call what lies in no file is written, which does not count.
    ///
    /// # Errors
    /// As [`Db::checkpoint`].
    pub fn checkpoint_observed(
        &self,
        path: impl AsRef<Path>,
        mut observer: impl FnMut(Progress),
    ) -> Result<u64> {
        self.engine
            .checkpoint_observed(path.as_ref(), &mut observer)
    }

    /// As [`Db::verify`]. `observer` is told how many bytes are checked ([`Progress`]): of tables and blob files, as large as the
    /// manifest says, and of what the database has in persistent memory or in DRAM, whose space counts as a whole. A part with damage
    /// counts as a whole, too. Before the first call logs are read.
    ///
    /// ```
    /// # use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("orders.db");
    /// # let db = Db::open(&path, Options::default())?;
    /// # db.put("order:42", "paid")?;
    /// # db.close()?;
    /// let mut last = None;
    /// let report = Db::verify_observed(&path, Options::default(), |progress| {
    ///     assert!(progress.done <= progress.total);
    ///     last = Some(progress);
    /// })?;
    /// assert!(report.faults.is_empty());
    /// assert!(last.is_some_and(|last| last.done == last.total));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::verify`].
    pub fn verify_observed(
        path: impl AsRef<Path>,
        options: Options,
        mut observer: impl FnMut(Progress),
    ) -> Result<VerifyReport> {
        let (world, path) = (World::real(), path.as_ref());
        let report = thermocline_engine::verify_observed(&world, path, &options, &mut observer);
        report.map(VerifyReport::of)
    }

    /// Removes the database in the folder `path` for good: its tables, blob files, manifest and logs, also logs that lie elsewhere,
    /// and its region. Nobody may have it open. Other files in the folder stay, whatever their names, and so do folders in it, the
    /// folder itself, and the file `LOCK`, with which a new database can be made there. Checkpoints and restored backups are
    /// databases of their own, and stay whole. On return all of it is gone durably.
    ///
    /// A region that lies outside of the folder goes only if [`Options::pm_path`] names it, as for an open; else the call is
    /// refused with the place at which it is. A copy of the folder that was made by other means than [`Db::checkpoint`] has that
    /// region in common with its original: if the one was written to since, the other is refused, but while neither was, it
    /// belongs to both. Such a copy is removed as any folder is. Logs elsewhere say whose they are, and need not be named; if
    /// [`Options::wal_path`] names a folder they are looked for there, too. Of `options` nothing else counts. What has no file any
    /// more where it is looked for is passed over.
    ///
    /// If the call is cut short, be it by a crash, there is no database any more: opening it says that, and another call with
    /// the same options removes the rest. If it names a place without the region, and that is still where it was, it is refused.
    ///
    /// ```
    /// # use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("orders.db");
    /// let db = Db::open(&path, Options::default())?;
    /// db.put("order:42", "paid")?;
    /// assert!(Db::destroy(&path, Options::default()).is_err()); // it is open
    /// db.close()?;
    /// Db::destroy(&path, Options::default())?;
    /// let db = Db::open(&path, Options::default())?;
    /// assert!(db.get("order:42")?.is_none());
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if there is no database, if its region lies outside of the folder and is not named, or
    /// not where it is named, or if its logs may be those of another folder; [`crate::Error::Locked`] if it is open, or a
    /// snapshot, iterator or value of an earlier opening still reads it; [`crate::Error::Busy`] if another database has its region
    /// open; [`crate::Error::Corruption`] if the manifest cannot be read or there is no `CURRENT` that names it, the region does not
    /// say whose it is or is damaged, or another copy of the folder has gone on with region or logs. Nothing is removed then.
    /// Those of the file system, after which the call may be made again.
    pub fn destroy(path: impl AsRef<Path>, options: Options) -> Result<()> {
        thermocline_engine::destroy(path.as_ref(), &World::real(), &options)
    }

    /// Brings the entries of `tables`, which [`IngestWriter`] or [`Db::export`] has written, into the default column
    /// family. They come all at one moment, as if one batch wrote them now, and are durable on return. The files are
    /// read, and stay where they are.
    ///
    /// ```
    /// # use thermocline::{Db, IngestWriter, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let path = folder.path().join("prices.sst");
    /// let mut table = IngestWriter::create(&path)?;
    /// for (key, value) in [("apple", "3"), ("pear", "4")] {
    ///     table.put(key, value)?; // keys ascend
    /// }
    /// table.delete("plum")?;
    /// table.delete_range("pebble", "peg")?; // but for what the table has there: the pear stays
    /// table.finish()?;
    /// assert_eq!(db.ingest(&[path])?.entries, 3);
    /// assert_eq!(db.get("pear")?.as_deref(), Some(b"4".as_slice()));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Conflict`] while a prepared transaction writes to the family or relies on keys of it;
    /// [`crate::Error::InvalidArgument`] for an empty path, if two tables overlap in keys, naming both, and in a compaction filter, a merge
    /// operator or an observer of progress; [`crate::Error::Corruption`] naming the damaged table; [`crate::Error::Unsupported`] for a table with merge operands or with values in blob
    /// files; [`crate::Error::OutOfSpace`] if the tables do not fit beside what is kept of the disk for flushes and
    /// compactions; those of a write and of the file system. After an error nothing was ingested.
    pub fn ingest<P: AsRef<Path>>(&self, tables: &[P]) -> Result<Ingested> {
        self.engine.ingest(Family::DEFAULT.id, tables)
    }

    /// Checks tables as [`Db::ingest`] would, without a database: reads all of them.
    ///
    /// # Errors
    /// Those of [`Db::ingest`] that tables are the reason of: one that is damaged, or is none, or two that overlap.
    pub fn check_tables<P: AsRef<Path>>(tables: &[P]) -> Result<()> {
        thermocline_engine::check_tables(&World::real().env, tables)
    }

    /// Writes all entries of the default column family into one table, for [`Db::ingest`]. [`ColumnFamily::export`] writes
    /// those of a range; [`Db::find_column_family`] gives the default family, too, as `default`.
    ///
    /// # Errors
    /// As [`ColumnFamily::export`].
    pub fn export(&self, file: impl AsRef<Path>) -> Result<Exported> {
        let keys = Keys {
            engine: &self.engine,
            family: Family::DEFAULT,
        };
        keys.export(.., file.as_ref())
    }
}

impl ColumnFamily {
    /// As [`Db::ingest`], into this family.
    ///
    /// # Errors
    /// As [`Db::ingest`]; [`crate::Error::InvalidArgument`] once the family was dropped.
    pub fn ingest<P: AsRef<Path>>(&self, tables: &[P]) -> Result<Ingested> {
        self.engine.ingest(self.family.id, tables)
    }

    /// As [`ColumnFamily::ingest`]. `observer` is told how many bytes of the tables are brought in ([`Progress`]). Before the first call
    /// all tables are checked, and after all bytes are done the tables that were made of them are installed. It may read and write.
    ///
    /// # Errors
    /// As [`ColumnFamily::ingest`].
    pub fn ingest_observed<P: AsRef<Path>>(
        &self,
        tables: &[P],
        mut observer: impl FnMut(Progress),
    ) -> Result<Ingested> {
        self.engine
            .ingest_observed(self.family.id, tables, &mut observer)
    }

    /// Writes the entries of this family whose keys lie in `range` into one table, for [`Db::ingest`]. The range goes
    /// from the bound that comes first in the family's order to the other. The file is durable on return. Metadata is
    /// not exported.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for the empty path, if the file exists, if the range ends before it begins, for a value
    /// over [`VALUE_INLINE_MAX`](crate::limits::VALUE_INLINE_MAX), 1 MiB, which a table cannot have, or if the entries are too
    /// much for one table; those of reading and of the file system. After an error there is no such file.
    pub fn export<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        file: impl AsRef<Path>,
    ) -> Result<Exported> {
        self.keys().export(owned(&range), file.as_ref())
    }
}

/// Writes a table outside of any database, for [`Db::ingest`].
#[derive(Debug)]
pub struct IngestWriter(thermocline_engine::IngestWriter);

impl IngestWriter {
    /// Begins the table `path`, which must not exist. The table is written under a temporary name beside it. A relative path
    /// means the working folder of this moment.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for the empty path, or if the file, or the temporary one, exists; those of the file
    /// system.
    pub fn create(path: impl AsRef<Path>) -> Result<IngestWriter> {
        let writer = thermocline_engine::IngestWriter::create(&World::real().env, path.as_ref())?;
        Ok(IngestWriter(writer))
    }

    /// Adds a key with its value. Keys must ascend strictly, bytewise, even if the family's keys descend.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a key that does not ascend, a key that is too long, a value over
    /// [`VALUE_INLINE_MAX`](crate::limits::VALUE_INLINE_MAX), 1 MiB, or a table that becomes too large: the entry is not
    /// added, and others may follow. Those of the file system, after which nothing can be added.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.0.put(key.as_ref(), value.as_ref())
    }

    /// Adds a delete of `key`, which ingesting the table carries out.
    ///
    /// # Errors
    /// As [`IngestWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.0.delete(key.as_ref())
    }

    /// Adds a delete of the keys from `start` to before `end`, which ingesting the table carries out. Keys of the
    /// table itself stay. Ranges must ascend strictly by start, may overlap, and are ordered apart from the keys.
    ///
    /// # Errors
    /// As [`IngestWriter::put`]; [`crate::Error::InvalidArgument`] for a range without keys.
    pub fn delete_range(&mut self, start: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.0.delete_range(start.as_ref(), end.as_ref())
    }

    /// Completes the table. Its file is durable on return. Without this call there is no file.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if another file of that name was made meanwhile, which stays as it is; those of the
    /// file system. There is no table then.
    pub fn finish(self) -> Result<Exported> {
        self.0.finish()
    }
}

/// Several backups in one folder, which may lie on another device. A table that several backups have in common is
/// stored once.
///
/// ```
/// # use thermocline::{Backups, Db, Options};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Db::open(folder.path().join("db"), Options::default())?;
/// let backups = Backups::new(folder.path().join("backups"));
/// db.put("order:42", "paid")?;
/// let first = backups.create(&db)?;
/// db.put("order:42", "sent")?;
/// backups.create(&db)?; // copies what is new
/// assert!(backups.verify()?.faults.is_empty());
/// backups.restore(Some(first.id), folder.path().join("restored"))?;
/// let restored = Db::open(folder.path().join("restored"), Options::default())?;
/// assert_eq!(restored.get("order:42")?.as_deref(), Some(b"paid".as_slice()));
/// backups.delete(first.id)?;
/// assert_eq!(backups.list()?.len(), 1);
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Backups(thermocline_engine::Backups);

impl Backups {
    /// The backups in the folder `path`, which the first backup makes. This call reads nothing. A relative path means the
    /// working folder of this moment. If the path is empty, each other call says so with [`crate::Error::InvalidArgument`].
    pub fn new(path: impl AsRef<Path>) -> Backups {
        Backups(thermocline_engine::Backups::new(
            World::real().env,
            path.as_ref(),
        ))
    }

    /// Backs up everything that is visible in `db` now. Tables that an earlier backup in the folder has are not
    /// copied again. The backup is durable on return. Writers go on meanwhile.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the folder has anything but backups, or lies in that of the database, with which
    /// the backups would be lost; [`crate::Error::Locked`] if another
    /// process or handle works in it; [`crate::Error::Corruption`] naming the damaged table of the database; [`crate::Error::Busy`] as
    /// for [`Db::checkpoint`];
    /// [`crate::Error::Closed`]; [`crate::Error::Poisoned`]; those of the file system. After an error there is no new backup.
    pub fn create(&self, db: &Db) -> Result<BackupInfo> {
        self.0.create(&db.engine)
    }

    /// As [`Backups::create`]. `observer` is told how many bytes are backed up, of those that no backup in the folder has: in all
    /// [`BackupInfo::new_bytes`] ([`Progress`]). Before the first call the database is flushed, unless it is open for reading only,
    /// and it is found out which files those are.
    ///
    /// ```
    /// # use thermocline::{Backups, Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// # db.put("order:42", "paid")?;
    /// let backups = Backups::new(folder.path().join("backups"));
    /// let mut done = 0;
    /// let made = backups.create_observed(&db, |progress| done = progress.done)?;
    /// assert_eq!(done, made.new_bytes);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Backups::create`].
    pub fn create_observed(
        &self,
        db: &Db,
        mut observer: impl FnMut(Progress),
    ) -> Result<BackupInfo> {
        self.0.create_observed(&db.engine, &mut observer)
    }

    /// All backups, oldest first.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if there is no such folder, or it has anything but backups;
    /// [`crate::Error::Locked`] if another process or handle changes it; [`crate::Error::Corruption`] naming a damaged list:
    /// [`Backups::ids`] gives the numbers all the same.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        self.0.list()
    }

    /// The numbers of all backups, oldest first. Damaged ones are among them, and can be deleted.
    ///
    /// ```
    /// # use thermocline::{Backups, Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let backups = Backups::new(folder.path().join("backups"));
    /// let made = [backups.create(&db)?.id, backups.create(&db)?.id];
    /// assert_eq!(backups.ids()?, made);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Backups::list`], but for damage.
    pub fn ids(&self) -> Result<Vec<u64>> {
        self.0.ids()
    }

    /// Removes backup `id`, even if it is damaged, and the tables that no other backup needs. If it is the newest, the next backup
    /// gets its number again: who notes backups by their numbers notes [`BackupInfo::seqno`], too.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if there is no such backup or folder, or the folder has anything but backups;
    /// [`crate::Error::Locked`] if another process or handle works in it; those of the file system.
    pub fn delete(&self, id: u64) -> Result<()> {
        self.0.delete(id)
    }

    /// Reads everything in the folder and reports every file that is not as it was written.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the folder is no folder of backups; [`crate::Error::Locked`] if another process or
    /// handle changes it; those of the file system. Damage is no error: it is in the report. A file that cannot be read keeps no
    /// other from being checked. It is the error if there is no damage; else it is in the report, too.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.0.verify().map(VerifyReport::of)
    }

    /// As [`Backups::verify`]. `observer` is told how many bytes are checked, of those that files have by their lists ([`Progress`]).
    /// A file with damage counts as a whole.
    ///
    /// # Errors
    /// As [`Backups::verify`].
    pub fn verify_observed(&self, mut observer: impl FnMut(Progress)) -> Result<VerifyReport> {
        let report = self.0.verify_observed(&mut observer);
        report.map(VerifyReport::of)
    }

    /// Makes the folder `path` a database with the content of backup `id`, or of the newest backup. Every byte is
    /// checked as it is copied. Each restored database is a new one, also if the same backup is restored several
    /// times.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if there is no such backup or folder, the folder has anything but backups, or `path` is
    /// the empty path, or lies in that folder, or exists and is not empty; [`crate::Error::Locked`] if another process or handle
    /// works in either of the two, or still reads what lay in `path` before; [`crate::Error::Corruption`] naming the file that is
    /// damaged, missing or another one; those of the file system. After an error there is no database in `path`.
    pub fn restore(&self, id: Option<u64>, path: impl AsRef<Path>) -> Result<BackupInfo> {
        self.0.restore(id, path.as_ref())
    }

    /// As [`Backups::restore`]. `observer` is told how many bytes are copied, in all [`BackupInfo::bytes`] ([`Progress`]).
    ///
    /// # Errors
    /// As [`Backups::restore`].
    pub fn restore_observed(
        &self,
        id: Option<u64>,
        path: impl AsRef<Path>,
        mut observer: impl FnMut(Progress),
    ) -> Result<BackupInfo> {
        self.0.restore_observed(id, path.as_ref(), &mut observer)
    }
}
