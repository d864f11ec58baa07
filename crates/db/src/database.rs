//! The database.

use std::ops::{Bound, RangeBounds};
use std::path::Path;

use thermocline_base::batch::{check_key, check_value};
use thermocline_base::{BatchEntry, CfId, Kind, Result};
use thermocline_engine::{Engine, Family, KeyBounds, Operation, Runtime, World};

use crate::range::{Bounds, byte_range, check_order};
use crate::scan::{owned, prefix_bounds};
use crate::{
    Batch, CfOptions, ColumnFamily, Cursor, DbBuilder, FamilyMap, Metrics, Options, Plan,
    RangeSize, Scan, Snapshot, Value, VerifyReport, WriteOptions,
};

/// An open database. Clones share it; dropping the last one closes it.
///
/// All methods may be called from several threads at once. Reads take no lock; writes are put in
/// order one at a time, and stored, persisted and indexed side by side.
#[derive(Debug, Clone)]
pub struct Db {
    pub(crate) engine: Engine,
}

impl Db {
    /// Opens the database in the folder `path`, and makes it if there is none and the options
    /// allow. What the last process left unfinished is cut off; what was acknowledged is there.
    ///
    /// With [`Options::read_only`] nothing at all is written: after a crash the store is recovered
    /// in DRAM only.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for options that break a rule or a folder that is no
    /// database, [`crate::Error::Locked`] if it is open elsewhere, [`crate::Error::Corruption`]
    /// naming file or region and offset, [`crate::Error::Unsupported`] for a newer format.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_in_world(World::real(), path, options)
    }

    /// As [`Db::open`], in a world of the caller's: for tests of the store, on simulated hardware.
    ///
    /// # Errors
    /// As [`Db::open`].
    #[doc(hidden)]
    pub fn open_in_world(world: World, path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Ok(Db {
            engine: Engine::open(world, path.as_ref(), options)?,
        })
    }

    /// Opens the database in the folder `path` as one of the stores of `runtime`: it shares their
    /// threads, and their budget of DRAM beside its own. [`Db::open`] gives it a runtime of its own.
    ///
    /// ```
    /// use thermocline::{Db, Options, Runtime, RuntimeOptions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let runtime = Runtime::new(RuntimeOptions::default())?;
    /// let names = ["north", "south"];
    /// let stores: Result<Vec<Db>, _> = names
    ///     .iter()
    ///     .map(|name| Db::open_in(&runtime, folder.path().join(name), Options::default()))
    ///     .collect();
    /// for db in stores? {
    ///     db.put("k", "v")?;
    ///     assert_eq!(runtime.metrics().workers_limit, 1);
    ///     db.close()?;
    /// }
    /// assert_eq!(runtime.metrics().stores, 0);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::open`]; [`crate::Error::OutOfSpace`] if the runtime's DRAM has no room for the index.
    pub fn open_in(runtime: &Runtime, path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::builder(path).options(options).runtime(runtime).open()
    }

    /// Opens the database in the folder `path` step by step: with options, a runtime that it shares
    /// with others, a listener.
    pub fn builder(path: impl AsRef<Path>) -> DbBuilder {
        DbBuilder::new(path.as_ref())
    }

    /// Sets `key` to `value` in the default column family, durably.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] past a limit, [`crate::Error::OutOfSpace`] when the
    /// region or the DRAM budget is used up (nothing was written then);
    /// [`crate::Error::Poisoned`] after a failed persist.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`Db::put`], with a [`crate::Durability`] or [`WriteOptions`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// use thermocline::Durability;
    /// db.put_with("clicks", "17", Durability::Buffered)?; // visible now, durable within a second
    /// db.sync()?; // durable now
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]; [`crate::Error::Busy`] if the options ask not to wait.
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.put_in(CfId::DEFAULT, key.as_ref(), value.as_ref(), options.into())
    }

    /// Removes `key` from the default column family, durably. An absent key is no error.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`Db::delete`], with a [`crate::Durability`] or [`WriteOptions`].
    ///
    /// # Errors
    /// As [`Db::put_with`].
    pub fn delete_with(
        &self,
        key: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.delete_in(CfId::DEFAULT, key.as_ref(), options.into())
    }

    /// Removes all keys in `range` from the default column family, durably, and at once: the write is one
    /// record, however many keys there are. Snapshots, cursors and iterators from before go on seeing them.
    /// Other bounds than [`std::ops::Range`] do as well, and none: `db.delete_range::<&str>(..)` removes
    /// everything.
    ///
    /// As in RocksDB, a range that is empty is no error and removes nothing, and one that ends before it
    /// begins is refused. The memory of what was removed comes back as with [`Db::delete`], later.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// for day in ["2025-12-31", "2026-01-01", "2026-01-31", "2026-02-01"] {
    ///     db.put(day, "")?;
    /// }
    /// db.delete_range("2026-01-01".."2026-02-01")?;
    /// let left: Vec<_> = db.iter().collect::<Result<_, _>>()?;
    /// assert_eq!((&*left[0].0, &*left[1].0), (&b"2025-12-31"[..], &b"2026-02-01"[..]));
    /// assert_eq!(left.len(), 2);
    /// assert!(db.delete_range("b".."a").is_err());
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]; [`crate::Error::InvalidArgument`] if the range ends before it begins.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// As [`Db::delete_range`], with a [`crate::Durability`] or [`WriteOptions`].
    ///
    /// # Errors
    /// As [`Db::delete_range`]; [`crate::Error::Busy`] if the options ask not to wait.
    pub fn delete_range_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.delete_range_in(Family::DEFAULT, &owned(&range), options.into())
    }

    /// Removes all keys that begin with `prefix` from the default column family; see
    /// [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let bounds = prefix_bounds(prefix.as_ref(), false);
        self.delete_range_in(Family::DEFAULT, &bounds, WriteOptions::default())
    }

    /// Makes everything durable that readers see, [`crate::Durability::Buffered`] writes included.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after a failed persist, this one or an earlier one.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// The value of `key` in the default column family.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if the record's checksum does not match;
    /// [`crate::Error::InvalidArgument`] for a key past the limit.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.get_in(CfId::DEFAULT, key.as_ref())
    }

    /// The values of `keys` in the default column family, in their order and all at one moment of
    /// the store.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// db.put("a", "1")?;
    /// let values = db.multi_get(["a", "b"])?;
    /// assert_eq!(values[0].as_deref(), Some(b"1".as_slice()));
    /// assert_eq!(values[1], None);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`], for the first key that meets one.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.snapshot().multi_get(keys)
    }

    /// The values of keys in several column families, in their order and all at one moment of the
    /// store: a batch over these families shows in all of them or in none.
    ///
    /// ```
    /// # use thermocline::{CfOptions, Db, Durability, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let users = db.column_family("users", CfOptions::default())?;
    /// let orders = db.column_family("orders", CfOptions::default())?;
    /// let mut batch = db.batch();
    /// batch.put_cf(&users, "7", "Ada").put_cf(&orders, "42", "paid");
    /// batch.commit(Durability::Immediate)?;
    /// let values = db.multi_get_cf([(&users, "7"), (&orders, "42"), (&orders, "43")])?;
    /// assert_eq!(values[1].as_deref(), Some(b"paid".as_slice()));
    /// assert_eq!(values[2], None);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::get`], for the first key that meets one; [`crate::Error::InvalidArgument`] for a
    /// family that was dropped or is another database's.
    pub fn multi_get_cf<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> Result<Vec<Option<Value>>> {
        self.snapshot().multi_get_cf(keys)
    }

    /// The metadata of the default column family: what [`Batch::set_metadata`] set last. `None` if
    /// nothing ever did.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.engine.metadata(CfId::DEFAULT, Value::copy)
    }

    /// What is visible now, to be read for as long as it is held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.engine.snapshot(), Family::DEFAULT)
    }

    /// An empty batch of writes to this database.
    pub fn batch(&self) -> Batch {
        Batch::new(self.clone())
    }

    /// All entries of the default column family, in key order, from both ends.
    pub fn iter(&self) -> Scan {
        self.iter_in(Family::DEFAULT)
    }

    /// The entries of the default column family whose keys lie in `range`. Where that ends before it begins,
    /// the first item is an [`crate::Error::InvalidArgument`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// for day in ["2026-01-01", "2026-01-02", "2026-02-01"] {
    ///     db.put(day, "")?;
    /// }
    /// let january = db.range("2026-01-01".."2026-02-01");
    /// assert_eq!(january.rev().next().unwrap()?.0, b"2026-01-02");
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.range_in(Family::DEFAULT, range)
    }

    /// The entries of the default column family whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.prefix_in(Family::DEFAULT, prefix)
    }

    /// A cursor over the default column family, before any key.
    ///
    /// # Errors
    /// None yet; a cursor over files may have some.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.engine.cursor(Family::DEFAULT)?))
    }

    /// The column family `name`, made durably with these options if there is none. The database
    /// remembers them: for a family that is there, options that are not set are as it was made.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a name that is empty or too long, too many families,
    /// or an option that is fixed and set differently from what the family was made with; those of
    /// a write.
    pub fn column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        let family = self.engine.family(name, &options)?;
        Ok(ColumnFamily::new(self.clone(), family, name))
    }

    /// The column family `name`, if there is one.
    pub fn find_column_family(&self, name: &str) -> Option<ColumnFamily> {
        let family = self.engine.find_family(name)?;
        Some(ColumnFamily::new(self.clone(), family, name))
    }

    /// Drops the column family `name`, durably, with its entries and its metadata. Snapshots,
    /// cursors and iterators from before go on; handles of it are refused from then on. The name is
    /// free: a family that is made with it is a new one. Its persistent memory and the DRAM of its
    /// index are not given back at once: the DRAM when the database is opened again.
    ///
    /// ```
    /// # use thermocline::{CfOptions, Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let drafts = db.column_family("drafts", CfOptions::default())?;
    /// drafts.put("1", "Dear")?;
    /// db.drop_column_family("drafts")?;
    /// assert!(drafts.get("1").is_err());
    /// let again = db.column_family("drafts", CfOptions::default())?;
    /// assert_eq!(again.get("1")?, None);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if there is no family of this name, or it is the default
    /// one; those of a write.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.engine.drop_family(name)
    }

    /// The names of all column families; the first is `default`.
    pub fn column_families(&self) -> Vec<String> {
        self.engine.families()
    }

    /// About how much the keys in `range` of the default column family take, and how many entries they
    /// have, without reading them. Of tables it is off by a block at each end; in persistent memory by
    /// what was written since it was measured last, an eighth at most. Older versions and deletes count until
    /// they are compacted. The first question after many writes walks over the index.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// for n in 0..100u8 {
    ///     db.put([n], [n; 50])?;
    /// }
    /// let size = db.approximate_size([20]..[30])?;
    /// assert_eq!(size.entries, 10);
    /// assert!(size.bytes() > 10 * 50);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if the range ends before it begins; [`crate::Error::Corruption`] of
    /// an index; those of the file system.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        Ok(self.sizes_in(Family::DEFAULT, [range])?[0])
    }

    /// As [`Db::approximate_size`], of several ranges at one moment.
    ///
    /// # Errors
    /// As [`Db::approximate_size`].
    pub fn approximate_sizes<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        self.sizes_in(Family::DEFAULT, ranges)
    }

    /// Moves everything that was written so far out of memtables, into tables on SSD; with shapes of level 0 that lie
    /// in persistent memory into tables there, as long as there is room. The store does so by itself when it needs the
    /// room; this is for tests, and for who wants memtables empty.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a database that is open for reading only, those of the file
    /// system, after which everything is as before; [`crate::Error::Poisoned`].
    pub fn flush(&self) -> Result<()> {
        self.engine.flush().map(drop)
    }

    /// Compacts the keys in `range` of the default column family down to one level, without what nobody
    /// can read any more: overwritten versions, and all that was deleted. Writes go on meanwhile.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// db.put("a", "1")?;
    /// db.delete("a")?;
    /// db.compact::<&str>(..)?; // nothing is left of it
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::flush`]; [`crate::Error::InvalidArgument`] if the range ends before it begins;
    /// [`crate::Error::Corruption`] of a table, naming file and offset.
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.compact_in(Family::DEFAULT, range)
    }

    /// Merges what level 0 of the default column family has in persistent memory, inside persistent memory, until a
    /// read has to ask one table of it at most: an internal compaction (PM-Blade §IV-B). What nobody can read any more
    /// is left out, and the rest stays in persistent memory. What memtables have is not part of it ([`Db::flush`]
    /// makes tables of that), nor are slices of keys of which some lies in files of level 0. Writes go on meanwhile.
    ///
    /// With `level0.shape` `pm-tables` and `tiered` the store does so by itself when that pays (`level0.internal`);
    /// with others there is nothing to merge.
    ///
    /// ```
    /// # use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let mut options = Options::default();
    /// options.set("level0.shape", "pm-tables")?;
    /// let db = Db::open(folder.path().join("db"), options)?;
    /// for value in ["open", "paid"] {
    ///     db.put("order:42", value)?;
    ///     db.flush()?; // a table of its own
    /// }
    /// db.compact_level0()?;
    /// assert_eq!(db.metrics().levels[0].runs, 1);
    /// assert_eq!(db.get("order:42")?.as_deref(), Some(&b"paid"[..]));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfSpace`] where persistent memory, or the share of level 0 (`level0.pm_percent`), has no room
    /// for what is merged: what was merged before stays so; otherwise as [`Db::compact`].
    pub fn compact_level0(&self) -> Result<()> {
        self.engine.compact_level0(Family::DEFAULT.id)
    }

    /// Returns when no flush and no compaction is due or runs: for benchmarks, which count that work
    /// too. Data that fits persistent memory stays there. While others write, it may take long.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn drain(&self) -> Result<()> {
        self.engine.drain()
    }

    /// The store's accounting: what `stat` prints.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.engine)
    }

    /// What background work comes next, and the numbers on which that is decided: what `explain` prints.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = thermocline::Db::open(dir.path().join("plan"), Default::default())?;
    /// db.put("k", "v")?;
    /// assert!(!db.plan().flush.due);
    /// db.flush()?;
    /// let plan = db.plan();
    /// let level0 = plan.families[0].levels[0];
    /// assert_eq!((level0.runs, level0.runs_due), (1, Some(4)));
    /// assert!(plan.families[0].next.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(&self) -> Plan {
        self.engine.plan()
    }

    /// Where the data lies: of each column family its partitions, how often they are read and written, and its
    /// tables.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = thermocline::Db::open(dir.path().join("map"), Default::default())?;
    /// db.put("a", "1")?;
    /// db.flush()?;
    /// let tables: Vec<_> = db.map().into_iter().flat_map(|family| family.tables).collect();
    /// assert_eq!(tables.len(), 1);
    /// assert_eq!(tables[0].first, b"a");
    /// # db.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map(&self) -> Vec<FamilyMap> {
        self.engine.map()
    }

    /// Closes the database for all handles: by those nothing is read or written any more.
    /// Snapshots, iterators and values that were there go on. On return its folder may be removed,
    /// and a new database made there. Dropping the last handle does the same, without an answer.
    ///
    /// On return every callback has been called, and every event told: it waits for one that blocks, when all is
    /// durable and another opening need not wait. In a callback or listener it waits for none.
    ///
    /// # Errors
    /// A failed persist, now or earlier. The database is closed all the same; what was acknowledged is
    /// there when it is opened again.
    pub fn close(self) -> Result<()> {
        self.engine.close()
    }

    /// Checks every checksum and structural rule of the database in `path`. Writes nothing.
    ///
    /// # Errors
    /// If the check cannot be made (no database, locked, I/O); damage is in the report.
    pub fn verify(path: impl AsRef<Path>, options: Options) -> Result<VerifyReport> {
        thermocline_engine::verify(&World::real(), path.as_ref(), &options).map(VerifyReport::from)
    }

    /// The options that the database in `path` was last opened with; `None` if there is none.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] of the manifest; those of the file system.
    pub fn stored_options(path: impl AsRef<Path>) -> Result<Option<Options>> {
        Engine::stored_options(&World::real(), path.as_ref())
    }

    pub(crate) fn put_in(
        &self,
        cf: CfId,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        let entry = BatchEntry {
            kind: Kind::Put,
            cf,
            key,
            value,
        };
        let times = self.engine.latencies();
        times.time(Operation::Put, || {
            self.engine.write(std::iter::once(entry), options)
        })
    }

    pub(crate) fn delete_in(&self, cf: CfId, key: &[u8], options: WriteOptions) -> Result<()> {
        check_key(key)?;
        let entry = BatchEntry {
            kind: Kind::Delete,
            cf,
            key,
            value: &[],
        };
        let times = self.engine.latencies();
        times.time(Operation::Delete, || {
            self.engine.write(std::iter::once(entry), options)
        })
    }

    pub(crate) fn delete_range_in(
        &self,
        family: Family,
        bounds: &Bounds,
        options: WriteOptions,
    ) -> Result<()> {
        let range = byte_range(bounds, family.reverse)?;
        let entry = range.as_ref().map(|(start, end)| BatchEntry {
            kind: Kind::RangeDelete,
            cf: family.id,
            key: start,
            value: end.as_deref().unwrap_or_default(),
        });
        let times = self.engine.latencies();
        // A range without keys is a write of nothing, which may have to be durable like others.
        times.time(Operation::Delete, || {
            self.engine.write(entry.into_iter(), options)
        })
    }

    pub(crate) fn get_in(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        check_key(key)?;
        let times = self.engine.latencies();
        times.time(Operation::Get, || self.engine.value(cf, key))
    }

    pub(crate) fn sizes_in<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        family: Family,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        let ranges: Vec<_> = ranges.into_iter().map(|range| owned(&range)).collect();
        for (first, last) in &ranges {
            check_order(first, last, family.reverse)?;
        }
        fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
            bound.as_ref().map(Vec::as_slice)
        }
        let ranges: Vec<KeyBounds<'_>> = ranges
            .iter()
            .map(|(first, last)| match family.reverse {
                // In the order of the family the greater key comes first.
                true => (bytes(last), bytes(first)),
                false => (bytes(first), bytes(last)),
            })
            .collect();
        self.engine.approximate_sizes(family.id, &ranges)
    }

    pub(crate) fn compact_in<K: AsRef<[u8]>>(
        &self,
        family: Family,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        let (start, end) = owned(&range);
        for key in [&start, &end] {
            if let Bound::Included(key) | Bound::Excluded(key) = key {
                check_key(key)?;
            }
        }
        check_order(&start, &end, family.reverse)?;
        // Tables ascend, whatever the family's order.
        let (start, end) = match family.reverse {
            true => (end, start),
            false => (start, end),
        };
        let range = (
            start.as_ref().map(Vec::as_slice),
            end.as_ref().map(Vec::as_slice),
        );
        self.engine.compact(family.id, range)
    }

    pub(crate) fn iter_in(&self, family: Family) -> Scan {
        let all = (Bound::Unbounded, Bound::Unbounded);
        Scan::new(self.engine.cursor(family), all)
    }

    pub(crate) fn range_in<K: AsRef<[u8]>>(
        &self,
        family: Family,
        range: impl RangeBounds<K>,
    ) -> Scan {
        Scan::new(self.engine.cursor(family), owned(&range))
    }

    pub(crate) fn prefix_in(&self, family: Family, prefix: impl AsRef<[u8]>) -> Scan {
        let bounds = prefix_bounds(prefix.as_ref(), family.reverse);
        Scan::new(self.engine.cursor(family), bounds)
    }
}
