//! The database.

use std::path::Path;

use thermocline_base::Result;
use thermocline_engine::{Engine, Family, Operation, Resolution, World};
use thermocline_txn::Transactions;

use crate::records::{ascending, keeps_entries};
use crate::{
    Batch, CfOptions, ColumnFamily, DbBuilder, FamilyMap, JobDone, Metrics, Options, PendingRead,
    Plan, PreparedState, Runtime, Snapshot, TableIndexes, Transaction, TransactionsReport,
    TxnOptions, Value, VerifyReport, WriteOptions,
};

/// An open database. Clones share it, and so do its families, batches, tables of records and transactions, prepared ones
/// too: the last of them that is dropped closes it, or [`Db::close`]. Snapshots, cursors, iterators and feeds do not keep it open.
///
/// All methods may be called from several threads at once. Reads of memtables take no lock; those that come to tables take short
/// ones, of the cache and of files. Writes are put in order one at a time, but stored, persisted and indexed in parallel.
#[derive(Debug, Clone)]
pub struct Db {
    pub(crate) engine: Engine,
    pub(crate) transactions: Transactions<Engine>,
}

impl Db {
    /// Opens the database in the folder `path`. Makes it if there is none and the options allow that. Every durable
    /// write of the last process is there; the writes that it left unfinished are cut off.
    ///
    /// With [`Options::read_only`] the open writes nothing at all. After a crash it recovers the store in DRAM only. Beside somebody
    /// who writes it reads the database as it is at that moment ([`DbBuilder::beside_writers`](crate::DbBuilder::beside_writers)).
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for options that break a rule, or if there is no database and none is to be made, or the folder
    /// has something else; [`crate::Error::Locked`] if it is open elsewhere; [`crate::Error::Corruption`] naming file or region and
    /// offset; [`crate::Error::Unsupported`] for a newer format, or a region of another kind than asked for; [`crate::Error::OutOfSpace`]
    /// if the disk has no room, or with records in DRAM `dram` has none for what the logs have; [`crate::Error::Busy`] if another database
    /// has the region, this process has 1,024 of them, or a writer changes it too fast to be copied; [`crate::Error::Io`] of the file system.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::builder(path).options(options).open()
    }

    fn of(engine: Engine) -> Db {
        Db {
            transactions: Transactions::new(engine.clone()),
            engine,
        }
    }

    /// Opens the database in the folder `path` as one of the stores of `runtime`. It shares their threads. Its DRAM
    /// counts against the runtime's budget, and against its own. [`Db::open`] makes a runtime for the database alone.
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

    /// Begins to open the database in the folder `path`. The builder takes options, a shared runtime, a listener,
    /// merge operators, compaction filters and TTLs.
    pub fn builder(path: impl AsRef<Path>) -> DbBuilder {
        DbBuilder::new(path.as_ref())
    }

    /// The folder of the database, as it was given to the opening.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = thermocline::Db::open(dir.path().join("orders"), Default::default())?;
    /// assert_eq!(db.path(), dir.path().join("orders"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path(&self) -> &Path {
        self.engine.given_dir()
    }

    /// The options in force: those of this opening, with what it has decided. [`Options::pm_path`] is where the region lies, and
    /// `None` if that is the database's folder; `level0.shape` is never `auto`. A 0 that stands for a derived value stays 0. The
    /// copy is the caller's: to change it changes nothing here.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let mut options = thermocline::Options::default();
    /// options.set("read.readahead", "7")?;
    /// let db = thermocline::Db::open(dir.path().join("orders"), options)?;
    /// assert_eq!(db.options().read.readahead, 7);
    /// assert!(db.options().level0.shape.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn options(&self) -> Options {
        self.engine.options().clone()
    }

    /// Makes all visible writes durable, [`crate::Durability::Buffered`] ones included.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after a failed persist, this one or an earlier one, if a visible write may not be durable.
    pub fn sync(&self) -> Result<()> {
        self.engine.sync()
    }

    /// The values of keys in several column families, in the order of the arguments. All values are of one moment of
    /// the store: a batch over these families shows in all of them or in none.
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
    /// As [`Db::get`], for the first key that fails; [`crate::Error::InvalidArgument`] for a
    /// family that was dropped or is another database's.
    pub fn multi_get_cf<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> Result<Vec<Option<Value>>> {
        self.snapshot().multi_get_cf(keys)
    }

    /// As [`Db::multi_get_cf`], as a future, whose answer has its errors; see [`Db::multi_get_async`].
    pub fn multi_get_cf_async<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> PendingRead<Vec<Option<Value>>> {
        self.snapshot().multi_get_cf_async(keys)
    }

    /// A snapshot of what is visible now. It can be read for as long as it is held.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.engine.snapshot(), Family::DEFAULT)
    }

    /// An empty batch of writes to this database.
    pub fn batch(&self) -> Batch {
        Batch::new(self.engine.clone())
    }

    /// Begins a transaction, as [`TxnOptions`] say. See [`Transaction`].
    ///
    /// # Errors
    /// [`crate::Error::OutOfSpace`] naming the limit: 65,536 transactions are open, or the open ones use all the DRAM
    /// that transactions may have, a quarter of [`Options::dram`].
    pub fn transaction(&self, options: TxnOptions) -> Result<Transaction> {
        let inner = self.transactions.begin(options)?;
        Ok(Transaction::new(inner))
    }

    /// The open transactions: for how long each is open, and which locks it holds.
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

    /// The prepared transactions, by name, those of earlier openings and, in a copy, of its original included: [`crate::Prepared`].
    ///
    /// # Errors
    /// [`crate::Error::Closed`]. For a database that was opened for reading only, also those of reading.
    pub fn prepared(&self) -> Result<Vec<PreparedState>> {
        self.transactions.prepared()
    }

    /// Commits the prepared transaction `name`, durably: see [`Prepared::commit`](crate::Prepared::commit).
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] if no transaction of this name is prepared (any more); otherwise as
    /// [`Prepared::commit`](crate::Prepared::commit).
    pub fn commit_prepared(&self, name: impl AsRef<[u8]>) -> Result<()> {
        self.resolve(name.as_ref(), Resolution::Commit)
    }

    /// Rolls the prepared transaction `name` back, durably. None of its writes is left.
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

    /// The column family `name`. If there is none, it is made durably, with `options`. The database remembers the
    /// options: for a family that exists, options that are not set here stay as they were.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a name that is empty or too long, for too many families, or for a fixed
    /// option that differs from what the family was made with; otherwise those of a write.
    pub fn column_family(&self, name: &str, options: CfOptions) -> Result<ColumnFamily> {
        let family = self.engine.family(name, &options)?;
        Ok(ColumnFamily::new(self.engine.clone(), family, name))
    }

    /// The column family `name`, if there is one.
    pub fn find_column_family(&self, name: &str) -> Option<ColumnFamily> {
        let family = self.engine.find_family(name)?;
        Some(ColumnFamily::new(self.engine.clone(), family, name))
    }

    /// Drops the column family `name`, durably, with its entries and its metadata. Snapshots, cursors and iterators made before go
    /// on. Handles of the family are refused from then on. The name is free: a family made with it later is a new one. Room on the SSD
    /// is back once no reader from before is left; persistent memory and DRAM are once the memtables with its records are flushed or dead.
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
    /// [`crate::Error::Conflict`] while a prepared transaction writes to the family or relies on keys of it;
    /// [`crate::Error::InvalidArgument`] if there is no family of this name, or it is the default one; otherwise those of a write.
    pub fn drop_column_family(&self, name: &str) -> Result<()> {
        self.engine.drop_family(name)
    }

    /// The names of all column families; the first is `default`.
    pub fn column_families(&self) -> Vec<String> {
        self.engine.families()
    }

    /// Moves everything written so far from memtables into tables. These lie on the SSD. If the shape of level 0 has
    /// tables in persistent memory, they lie there as long as there is room. The store flushes by itself when it
    /// needs the room. This call is for tests, and for users who want empty memtables.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a database that was opened for reading only; those of the file system,
    /// after which everything is as before; [`crate::Error::Closed`]; [`crate::Error::Poisoned`].
    pub fn flush(&self) -> Result<()> {
        self.engine.flush().map(drop)
    }

    /// Returns when no flush or compaction is due or running. Benchmarks call it to count that work, too. Data that
    /// fits into persistent memory stays there. While others write, the call may take long.
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

    /// Forgets the longest delays: [`Metrics::stalls`] have the longest of those that come from now on. Benchmarks call it.
    pub fn forget_longest_stalls(&self) {
        self.engine.forget_longest_stalls();
    }

    /// Bytes of the region that this process maps with huge pages of 2 MiB, as `stat` prints them: the system gives them, on a
    /// `tmpfs` that is mounted with `huge=always`, say, and no option asks for them. `None` where it does not report them, and where
    /// a copy is read, beside a writer. The call touches every page of the region, so do not make it every second.
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

    /// Decides now how reads of futures and of background jobs reach the device (option `read.async_io`), as the first of them
    /// would, so that [`Db::metrics`] says it, and what the system has refused. It starts the threads that poll, where some do. Once the
    /// database is closed it does nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = thermocline::Db::open(dir.path().join("reads"), Default::default())?;
    /// db.decide_io();
    /// let reads = db.metrics().runtime.expect("it is open").async_reads;
    /// assert!(reads.way.is_some() || reads.refused.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn decide_io(&self) {
        self.engine.decide_io();
    }

    /// How many tables in files have a binary and how many a learned index (option `ssd.index`), and for how many a
    /// learned one was wanted and did not fit, as `stat` prints it. The call reads the end of every table that is not
    /// open.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let db = thermocline::Db::open(dir.path().join("indexes"), Default::default())?;
    /// assert_eq!(db.table_indexes()?.learned, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Io`] and [`crate::Error::Corruption`] of reading a table, with file and offset;
    /// [`crate::Error::Closed`].
    pub fn table_indexes(&self) -> Result<TableIndexes> {
        self.engine.table_indexes()
    }

    /// The last 128 flushes and compactions, oldest first, as `stat --events` prints them: what each took and wrote, why, and how
    /// long it read, merged, wrote and synced. The manifest has them, so they survive closing and crashes. What failed is not among
    /// them; an [`EventListener`](crate::EventListener) hears of that, too. The call may wait for an edit of the manifest.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("jobs");
    /// let db = thermocline::Db::open(&path, Default::default())?;
    /// db.put("k", "v")?;
    /// db.flush()?;
    /// db.close()?;
    /// let db = thermocline::Db::open(&path, Default::default())?;
    /// let jobs = db.jobs_done();
    /// let flush = &jobs[jobs.len() - 1];
    /// assert_eq!((&*flush.work, flush.inputs, flush.entries_read), ("flush", 1, 1));
    /// assert!(flush.stages.merging(flush.took) <= flush.took);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn jobs_done(&self) -> Vec<JobDone> {
        let jobs = self.engine.jobs_done().into_iter();
        jobs.map(|(job, family)| JobDone::of((&job, family)))
            .collect()
    }

    /// The background work that comes next, and the numbers that decide it, as `explain` prints them.
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
        Plan::of(self.engine.plan())
    }

    /// Where the data lies: for each column family with tables or several partitions these, and how often partitions are read and
    /// written.
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
        self.engine.map().into_iter().map(FamilyMap::of).collect()
    }

    /// Closes the database for all handles. Nothing can be read or written through them any more. Existing snapshots,
    /// iterators and values go on, also after the database is opened again. If this process opens it again, they hold
    /// no more than readers of the new handle do: the versions that they see of overwritten keys. On return the
    /// folder may be removed, and a new database made there. Dropping the last handle closes the database as well, without a result.
    ///
    /// On return every callback has been called, and every event delivered. The call waits for a callback that
    /// blocks. By then everything is durable, and another opening need not wait. Called in a callback or listener, it
    /// waits for none. Whoever waits for the lock of a transaction is told [`crate::Error::Closed`].
    ///
    /// # Errors
    /// The error of a failed persist, now or earlier. The database is closed all the same. Acknowledged writes are
    /// there when it is opened again. [`crate::Error::InvalidArgument`] in a filter, a merge operator or an observer, which closes nothing.
    pub fn close(self) -> Result<()> {
        self.engine.check_close()?;
        // First: a callback that is waited for may itself wait for one of them.
        self.transactions.close();
        self.engine.close()
    }

    /// Checks every checksum and structural rule of the database in `path`, beside a writer of one moment. Writes nothing. [`Db::stored_options`] has options that fit.
    ///
    /// # Errors
    /// If the check cannot be made (no database, one that is destroyed meanwhile or changes too fast, I/O). Damage is no error, but in the report; beside damage, so is what cannot be read.
    pub fn verify(path: impl AsRef<Path>, options: Options) -> Result<VerifyReport> {
        thermocline_engine::verify(&World::real(), path.as_ref(), &options).map(VerifyReport::of)
    }

    /// The options that the database in `path` was last opened with; `None` if there is no database.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] of the manifest; [`crate::Error::Busy`] if a writer exchanges it faster than it can be read; those
    /// of the file system.
    pub fn stored_options(path: impl AsRef<Path>) -> Result<Option<Options>> {
        Engine::stored_options(&World::real(), path.as_ref())
    }
}

impl DbBuilder {
    /// Opens the database.
    ///
    /// # Errors
    /// As [`Db::open`]; [`crate::Error::OutOfSpace`] if the runtime's DRAM has no room for the database's index.
    pub fn open(self) -> Result<Db> {
        self.open_in_world(World::real())
    }

    /// As [`DbBuilder::open`], with files, clock and persistent memory of the caller: for tests on simulated hardware.
    ///
    /// # Errors
    /// As [`DbBuilder::open`].
    #[doc(hidden)]
    pub fn open_in_world(self, world: World) -> Result<Db> {
        self.open_engine(world).map(Db::of)
    }
}

/// A table of records is a column family.
impl thermocline_records::Store for Db {
    type Family = ColumnFamily;
    type Reader = Snapshot;
    type Writer = Transaction;

    fn find_family(&self, name: &str) -> Result<Option<ColumnFamily>> {
        keeps_entries(&self.engine, name)?;
        self.find_column_family(name).map(ascending).transpose()
    }

    fn make_family(&self, name: &str) -> Result<ColumnFamily> {
        keeps_entries(&self.engine, name)?;
        ascending(self.column_family(name, CfOptions::default())?)
    }

    fn snapshot(&self) -> Snapshot {
        Db::snapshot(self)
    }

    fn transaction(&self, locks: bool) -> Result<Transaction> {
        let options = match locks {
            true => TxnOptions::pessimistic(),
            false => TxnOptions::optimistic(),
        };
        Db::transaction(self, options)
    }

    fn commit(txn: Transaction) -> Result<()> {
        txn.commit()
    }
}
