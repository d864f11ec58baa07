//! The database.

use std::path::Path;

use thermocline_base::{Error, Result};
use thermocline_engine::{Engine, Family, Operation, Resolution, Runtime, World};
use thermocline_txn::Transactions;

use crate::{
    Batch, CfOptions, ColumnFamily, DbBuilder, FamilyMap, Metrics, Options, Plan, PreparedState,
    Snapshot, Transaction, TransactionsReport, TxnOptions, Value, VerifyReport, WriteOptions,
};

/// An open database. Clones share it; dropping the last one closes it.
///
/// All methods may be called from several threads at once. Reads take no lock; writes are put in
/// order one at a time, and stored, persisted and indexed side by side.
#[derive(Debug, Clone)]
pub struct Db {
    pub(crate) engine: Engine,
    pub(crate) transactions: Transactions<Engine>,
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
        Engine::open(world, path.as_ref(), options).map(Db::of)
    }

    fn of(engine: Engine) -> Db {
        Db {
            transactions: Transactions::new(engine.clone()),
            engine,
        }
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

    /// Makes everything durable that readers see, [`crate::Durability::Buffered`] writes included.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after a failed persist, this one or an earlier one.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
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

    /// What is visible now, to be read for as long as it is held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.engine.snapshot(), Family::DEFAULT)
    }

    /// An empty batch of writes to this database.
    pub fn batch(&self) -> Batch {
        Batch::new(self.engine.clone())
    }

    /// A transaction begins; [`TxnOptions`] say how. See [`Transaction`].
    ///
    /// # Errors
    /// [`crate::Error::OutOfSpace`] naming the limit, if 65,536 are open, or those that are have all the DRAM that
    /// transactions may have, a quarter of [`Options::dram`].
    pub fn transaction(&self, options: TxnOptions) -> Result<Transaction> {
        let inner = self.transactions.begin(options)?;
        Ok(Transaction::new(inner))
    }

    /// Which transactions are open, since when, and what they hold.
    ///
    /// ```
    /// # use thermocline::{Db, Options, TxnOptions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let mut txn = db.transaction(TxnOptions::pessimistic())?;
    /// txn.put("stock", "7")?;
    /// let report = db.transactions();
    /// assert_eq!((report.open, report.locked_keys), (1, 1));
    /// assert_eq!(report.transactions[0].keys[0].key, b"stock");
    /// txn.rollback();
    /// assert_eq!(db.transactions().open, 0);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn transactions(&self) -> TransactionsReport {
        self.transactions.report()
    }

    /// The transactions that are prepared, by name, those of earlier openings and of what the database is a copy of
    /// included. See [`Prepared`](crate::Prepared).
    ///
    /// # Errors
    /// [`Error::Closed`]. Of a database that was opened for reading only, those of reading.
    pub fn prepared(&self) -> Result<Vec<PreparedState>> {
        self.transactions.prepared()
    }

    /// Commits the prepared transaction `name`, durably: see [`Prepared::commit`](crate::Prepared::commit).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if none of this name is prepared, or not any more; otherwise as
    /// [`Prepared::commit`](crate::Prepared::commit).
    pub fn commit_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.resolve(name.as_ref(), Resolution::Commit)
    }

    /// Rolls the prepared transaction `name` back, durably: nothing of it is left.
    ///
    /// # Errors
    /// As [`Db::commit_prepared`].
    pub fn roll_back_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.resolve(name.as_ref(), Resolution::RollBack)
    }

    fn resolve(&self, name: &[u8], resolution: Resolution) -> Result<()> {
        let durably = WriteOptions::default();
        let times = self.engine.latencies();
        times.time(Operation::Batch, || {
            self.transactions.resolve(name, resolution, durably)
        })
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
        Ok(ColumnFamily::new(self.engine.clone(), family, name))
    }

    /// The column family `name`, if there is one.
    pub fn find_column_family(&self, name: &str) -> Option<ColumnFamily> {
        let family = self.engine.find_family(name)?;
        Some(ColumnFamily::new(self.engine.clone(), family, name))
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
    /// [`crate::Error::Conflict`] while a prepared transaction writes to it or relies on what is there;
    /// [`crate::Error::InvalidArgument`] if there is no family of this name, or it is the default
    /// one; those of a write.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.engine.drop_family(name)
    }

    /// The names of all column families; the first is `default`.
    pub fn column_families(&self) -> Vec<String> {
        self.engine.families()
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

    /// Bytes of the region that this process reaches through huge pages of 2 MiB (option `pm.huge_pages`): what `stat` prints.
    /// `None` where the system does not say. It touches every page of the region to find out, so it is not for every second.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = thermocline::Db::open(dir.path().join("pages"), Default::default())?;
    /// assert!(db.pm_huge_bytes() <= Some(db.metrics().region_bytes));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pm_huge_bytes(&self) -> Option<u64> {
        self.engine.pm_huge_bytes()
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
    /// Snapshots, iterators and values that were there go on, also when the database is opened again. If this
    /// process does that, they hold no more of it than readers of the new handle: of overwritten keys the versions that they
    /// see. On return the folder may be removed, and a new database made there. Dropping the last handle does the same, without an answer.
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
}

impl DbBuilder {
    /// Opens it.
    ///
    /// # Errors
    /// As [`Db::open`]; [`crate::Error::OutOfSpace`] if the runtime's DRAM has no room for its index.
    pub fn open(self) -> Result<Db> {
        self.open_engine().map(Db::of)
    }
}

/// Tables of records lie in column families.
impl thermocline_records::Store for Db {
    type Family = ColumnFamily;
    type Reader = Snapshot;
    type Writer = Transaction;

    fn find_family(&self, name: &str) -> Result<Option<ColumnFamily>> {
        self.find_column_family(name).map(ascending).transpose()
    }

    fn make_family(&self, name: &str) -> Result<ColumnFamily> {
        ascending(self.column_family(name, CfOptions::default())?)
    }

    fn snapshot(&self) -> Snapshot {
        Db::snapshot(self)
    }

    fn transaction(&self, locks: bool) -> Result<Transaction> {
        Db::transaction(
            self,
            match locks {
                true => TxnOptions::pessimistic(),
                false => TxnOptions::optimistic(),
            },
        )
    }

    fn commit(txn: Transaction) -> Result<()> {
        txn.commit()
    }
}

/// Tables need keys that ascend.
fn ascending(family: ColumnFamily) -> Result<ColumnFamily> {
    match family.family.reverse {
        false => Ok(family),
        true => Err(Error::InvalidArgument(format!(
            "column family '{}' has descending keys, and a table needs ascending ones; give the table another name",
            family.name()
        ))),
    }
}
