//! Transactions: reads and writes as one, beside others.

use std::ops::{Bound, RangeBounds};

use thermocline_base::Result;
use thermocline_engine::{Engine, Family, Latencies, Operation};

use crate::range::{Bounds, byte_range};
use crate::scan::{owned, prefix_bounds};
use crate::{ColumnFamily, Prepared, Savepoint, Value, WriteOptions};

/// Reads and writes that happen as one, and as if others had happened before or behind them, as far as its
/// [`Isolation`](crate::Isolation) says. Made by [`Db::transaction`](crate::Db::transaction). Nobody sees its writes before it is committed;
/// dropped, it is rolled back.
///
/// It reads at a *snapshot*, which its first read takes, and sees its own writes over that. What it writes, and what it
/// reads with [`Transaction::get_for_update`], does not change until it has committed:
///
/// - A *pessimistic* one locks such keys as it goes, and waits for others who have them. Of transactions that wait for
///   each other the youngest is rolled back at once.
/// - An *optimistic* one locks nothing. When it commits, it is refused if somebody else was faster.
///
/// Plain writes ([`Db::put`](crate::Db::put), batches) take no locks and wait for none. To a transaction each is another one that
/// commits at once: if it changes what must not change, [`Transaction::commit`] is refused.
///
/// ```
/// use thermocline::{Db, Options, TxnOptions};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Db::open(folder.path().join("db"), Options::default())?;
/// db.put("alice", "10")?;
/// let mut txn = db.transaction(TxnOptions::pessimistic())?;
/// let stock = txn.get_for_update("alice")?; // nobody else takes from it meanwhile
/// assert_eq!(stock.as_deref(), Some(&b"10"[..]));
/// txn.put("alice", "7")?;
/// txn.put("bob", "3")?;
/// assert_eq!(db.get("bob")?, None); // not yet
/// txn.commit()?;
/// assert_eq!(db.get("bob")?.as_deref(), Some(&b"3"[..]));
/// # Ok::<(), thermocline::Error>(())
/// ```
///
/// After [`Error::Conflict`](crate::Error::Conflict) begin anew, with a new transaction:
///
/// ```
/// # use thermocline::{Db, Error, Isolation, Options, TxnOptions};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Db::open(folder.path().join("db"), Options::default())?;
/// loop {
///     let options = TxnOptions::optimistic().isolation(Isolation::Serializable);
///     let mut txn = db.transaction(options)?;
///     let count = txn.prefix("seat:").count();
///     txn.put(format!("seat:{count}"), "Ada")?;
///     match txn.commit() {
///         Err(Error::Conflict(_)) => continue, // somebody took a seat meanwhile
///         done => break done?,
///     }
/// }
/// # Ok::<(), thermocline::Error>(())
/// ```
///
/// It keeps the database open. Of one that is never ended the store keeps what its snapshot sees, as for any
/// [`Snapshot`](crate::Snapshot); [`Db::transactions`](crate::Db::transactions) lists it, and [`TxnOptions::expiration`](crate::TxnOptions::expiration) frees its locks.
#[derive(Debug)]
pub struct Transaction {
    inner: thermocline_txn::Transaction<Engine>,
}

/// An iterator of a [`Transaction`], from both ends: its own writes over what its snapshot has. After an error it ends.
#[derive(Debug)]
pub struct TransactionScan<'t>(thermocline_txn::Scan<'t, Engine>);

impl Transaction {
    pub(crate) fn new(inner: thermocline_txn::Transaction<Engine>) -> Transaction {
        Transaction { inner }
    }

    fn latencies(&self) -> &Latencies {
        self.inner.store().latencies()
    }

    /// Its number in reports and errors. One that began later has a larger number.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Takes the snapshot now, which the first read would take. Returns the sequence number of its moment.
    ///
    /// Until it has read with anything but [`Transaction::get_for_update`], a pessimistic transaction may move its
    /// snapshot forward, when it gets a lock of what has changed meanwhile. From then on, or after this, it never does: it
    /// is refused the key.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Poisoned`]; [`crate::Error::Conflict`] if the transaction may not go on.
    pub fn take_snapshot(&mut self) -> Result<u64> {
        self.inner.take_snapshot()
    }

    /// The value of `key` in the default column family: the one that the transaction has written, or the one at its
    /// snapshot.
    ///
    /// A serializable transaction remembers that it has read the key; a pessimistic one locks it against writers.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get). [`crate::Error::Conflict`] if the transaction may not go on: it has expired, or was rolled back to
    /// break a deadlock. Where the key is locked, as [`Transaction::get_for_update`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(Family::DEFAULT, key.as_ref())
    }

    /// As [`Transaction::get`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::get`]; [`crate::Error::InvalidArgument`] for a family of another database, or one that was
    /// dropped before the snapshot.
    pub fn get_cf(&self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.read(self.family(cf)?, key.as_ref())
    }

    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Value>> {
        let times = self.latencies();
        times.time(Operation::Get, || self.inner.get(family, key))
    }

    /// The values of `keys` in the default column family, in their order; each as [`Transaction::get`] gives it.
    ///
    /// # Errors
    /// As [`Transaction::get`], for the first key that meets one.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        let one = |key: K| self.inner.get(Family::DEFAULT, key.as_ref());
        let times = self.latencies();
        times.time(Operation::MultiGet, || keys.into_iter().map(one).collect())
    }

    /// As [`Transaction::multi_get`], in several column families.
    ///
    /// # Errors
    /// As [`Transaction::get_cf`], for the first key that meets one.
    pub fn multi_get_cf<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> Result<Vec<Option<Value>>> {
        let one = |(cf, key): (&ColumnFamily, K)| self.inner.get(self.family(cf)?, key.as_ref());
        let times = self.latencies();
        times.time(Operation::MultiGet, || keys.into_iter().map(one).collect())
    }

    /// As [`Transaction::get`], of a key that must not change until the commit, as if it were written: a pessimistic
    /// transaction locks it against all others that want it so, or write it; an optimistic one is refused its commit if
    /// somebody has written it.
    ///
    /// # Errors
    /// As [`Transaction::get`]. [`crate::Error::Busy`] where somebody else had the key for longer than
    /// [`TxnOptions::lock_timeout`](crate::TxnOptions::lock_timeout); it says who, since when, and what to do. [`crate::Error::Conflict`] where it was
    /// changed since the snapshot. The transaction is as before, and may go on. [`crate::Error::Conflict`] where it was
    /// rolled back to break a deadlock. [`crate::Error::OutOfSpace`] naming the limit where transactions have all the
    /// DRAM that they may have.
    pub fn get_for_update(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner.get_for_update(Family::DEFAULT, key.as_ref())
    }

    /// As [`Transaction::get_for_update`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`] and [`Transaction::get_cf`].
    pub fn get_for_update_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        let family = self.family(cf)?;
        self.inner.get_for_update(family, key.as_ref())
    }

    /// As [`Transaction::get_for_update`], beside others that want only this of the key: it does not change until the
    /// commit, and nobody is kept from reading it so. For what many transactions rely on and few change.
    ///
    /// ```
    /// # use thermocline::{Db, Options, TxnOptions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// db.put("price", "7")?;
    /// let mut one = db.transaction(TxnOptions::pessimistic())?;
    /// let mut two = db.transaction(TxnOptions::pessimistic())?;
    /// assert_eq!(one.get_for_share("price")?, two.get_for_share("price")?);
    /// one.put("order:1", "7")?;
    /// two.put("order:2", "7")?;
    /// one.commit()?;
    /// two.commit()?;
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn get_for_share(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.inner.get_for_share(Family::DEFAULT, key.as_ref())
    }

    /// As [`Transaction::get_for_share`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::get_for_share`] and [`Transaction::get_cf`].
    pub fn get_for_share_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Value>> {
        let family = self.family(cf)?;
        self.inner.get_for_share(family, key.as_ref())
    }

    /// Sets `key` to `value` in the default column family, when the transaction commits.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] past a limit, also that of all writes of a transaction,
    /// [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX); otherwise as [`Transaction::get_for_update`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner
            .put(Family::DEFAULT, key.as_ref(), value.as_ref())
    }

    /// As [`Transaction::put`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::InvalidArgument`] for a family of another database. One that was dropped
    /// is refused by the commit.
    pub fn put_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let family = self.family(cf)?;
        self.inner.put(family, key.as_ref(), value.as_ref())
    }

    /// Merges `operand` into the value of `key` in the default column family, when the transaction commits; see
    /// [`Db::merge`](crate::Db::merge). It reads nothing; to others it is a write of the key like [`Transaction::put`]. Reads of the
    /// transaction see what it makes of the value.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::InvalidArgument`] as [`Db::merge`](crate::Db::merge), or if the operator cannot merge it
    /// into what the transaction wrote before.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.inner
            .merge(Family::DEFAULT, key.as_ref(), operand.as_ref())
    }

    /// As [`Transaction::merge`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::merge`] and [`Transaction::put_cf`].
    pub fn merge_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let family = self.family(cf)?;
        self.inner.merge(family, key.as_ref(), operand.as_ref())
    }

    /// Removes `key` from the default column family, when the transaction commits.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.inner.delete(Family::DEFAULT, key.as_ref())
    }

    /// As [`Transaction::delete`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::put_cf`].
    pub fn delete_cf(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        let family = self.family(cf)?;
        self.inner.delete(family, key.as_ref())
    }

    /// Removes all keys in `range` from the default column family, when the transaction commits; see
    /// [`Db::delete_range`](crate::Db::delete_range). What it puts there later stays.
    ///
    /// A pessimistic transaction locks every key that is there, and the range against new ones, so this costs as much as
    /// reading the range. For an optimistic one it costs next to nothing.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::InvalidArgument`] if the range ends before it begins.
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, range: impl RangeBounds<K>) -> Result<()> {
        self.remove_range(Family::DEFAULT, &owned(&range))
    }

    /// As [`Transaction::delete_range`], in `cf`, the bounds in its order.
    ///
    /// # Errors
    /// As [`Transaction::delete_range`] and [`Transaction::put_cf`].
    pub fn delete_range_cf<K: AsRef<[u8]>>(
        &mut self,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        let family = self.family(cf)?;
        self.remove_range(family, &owned(&range))
    }

    fn remove_range(&mut self, family: Family, bounds: &Bounds) -> Result<()> {
        match byte_range(bounds, family.reverse)? {
            Some((start, end)) => self.inner.delete_range(family, &start, end.as_deref()),
            None => Ok(()),
        }
    }

    /// All entries of the default column family, in key order, from both ends: the transaction's own over those of its
    /// snapshot. While the iterator is there the transaction only reads.
    ///
    /// A serializable transaction remembers what of the range was read, keys that are not there included; a pessimistic
    /// one locks all of it against writers when the iterator is made. An error of that is the first item.
    pub fn iter(&self) -> TransactionScan<'_> {
        self.scan(Ok(Family::DEFAULT), &(Bound::Unbounded, Bound::Unbounded))
    }

    /// As [`Transaction::iter`], of the keys in `range`.
    ///
    /// ```
    /// # use thermocline::{Db, Options, TxnOptions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// db.put("a", "1")?;
    /// db.put("c", "1")?;
    /// let mut txn = db.transaction(TxnOptions::optimistic())?;
    /// txn.put("b", "2")?;
    /// txn.delete("c")?;
    /// let keys: Vec<_> = txn.range("a"..).map(|entry| entry.unwrap().0).collect();
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> TransactionScan<'_> {
        self.scan(Ok(Family::DEFAULT), &owned(&range))
    }

    /// As [`Transaction::iter`], of the keys that begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionScan<'_> {
        let bounds = prefix_bounds(prefix.as_ref(), false);
        self.scan(Ok(Family::DEFAULT), &bounds)
    }

    /// As [`Transaction::iter`], of `cf`, in its order.
    pub fn iter_cf(&self, cf: &ColumnFamily) -> TransactionScan<'_> {
        self.scan(self.family(cf), &(Bound::Unbounded, Bound::Unbounded))
    }

    /// As [`Transaction::range`], of `cf`, in its order.
    pub fn range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> TransactionScan<'_> {
        self.scan(self.family(cf), &owned(&range))
    }

    /// As [`Transaction::prefix`], of `cf`, in its order.
    pub fn prefix_cf(&self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> TransactionScan<'_> {
        let bounds = prefix_bounds(prefix.as_ref(), cf.family.reverse);
        self.scan(self.family(cf), &bounds)
    }

    fn scan(&self, family: Result<Family>, bounds: &Bounds) -> TransactionScan<'_> {
        let range = family.and_then(|family| Ok((family, byte_range(bounds, family.reverse)?)));
        TransactionScan(match range {
            Err(error) => thermocline_txn::Scan::failed(error),
            Ok((_, None)) => thermocline_txn::Scan::empty(),
            Ok((family, Some((start, end)))) => self.inner.scan(family, &start, end.as_deref()),
        })
    }

    /// A point to which the transaction's writes can be taken back.
    ///
    /// ```
    /// # use thermocline::{Db, Options, TxnOptions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let mut txn = db.transaction(TxnOptions::pessimistic())?;
    /// txn.put("order", "42")?;
    /// let before = txn.savepoint();
    /// txn.put("coupon", "10 %")?;
    /// txn.rollback_to(before)?;
    /// txn.commit()?;
    /// assert_eq!((db.get("order")?.is_some(), db.get("coupon")?), (true, None));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        self.inner.savepoint()
    }

    /// Takes back all writes since `savepoint`, which can be used again. Locks that were taken since are kept, and what
    /// was read since still counts.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a savepoint of another transaction, or one made after another that was
    /// rolled back to; [`crate::Error::Conflict`] if the transaction may not go on.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.rollback_to(savepoint)
    }

    /// Whether it has written nothing.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Applies all of its writes, in all column families, as one: visible together on return, and durable as
    /// [`TxnOptions::durability`](crate::TxnOptions::durability) says. One that has written nothing has nothing to commit, and is never refused.
    ///
    /// Whatever the answer is, the transaction has ended: after an error it is rolled back.
    ///
    /// # Errors
    /// [`crate::Error::Conflict`] naming a key that must not have changed and has, or saying that the transaction has
    /// expired or was rolled back to break a deadlock: begin anew. Those of [`Batch::commit`](crate::Batch::commit).
    /// Nothing was written then, but after [`crate::Error::Poisoned`] the outcome is unknown.
    pub fn commit(self) -> Result<()> {
        let durability = self.inner.durability();
        self.commit_with(durability)
    }

    /// As [`Transaction::commit`], with a [`Durability`](crate::Durability) or [`WriteOptions`] of its own.
    ///
    /// # Errors
    /// As [`Transaction::commit`]; [`crate::Error::Busy`] if the options ask not to wait.
    pub fn commit_with(mut self, options: impl Into<WriteOptions>) -> Result<()> {
        let begun = self.latencies().begin();
        let done = self.inner.finish(options.into());
        self.latencies().end(Operation::Batch, begun);
        done
    }

    /// Does the first half of a two-phase commit: it survives crashes from now on, durably, and can be committed or rolled
    /// back later, by its name, too. See [`Prepared`]. Names have 1 to
    /// [`PREPARED_NAME_LEN_MAX`](crate::limits::PREPARED_NAME_LEN_MAX) bytes, and are free again when the transaction is
    /// resolved. One that has written nothing can be prepared, too: what it relies on does not change then.
    ///
    /// An optimistic transaction takes locks now, and may wait for them. Whatever the answer is, this value has ended: after
    /// an error the transaction is rolled back.
    ///
    /// # Errors
    /// As [`Transaction::commit`]. [`crate::Error::Conflict`] if another prepared transaction writes what this one writes or
    /// relies on, or relies on what it writes; [`crate::Error::Busy`] if somebody else has a lock of it;
    /// [`crate::Error::InvalidArgument`] for a name that is taken, empty or too long, and for one whose writes, with the keys
    /// that it relies on, exceed a batch; [`crate::Error::OutOfSpace`] naming the limit where transactions have all the DRAM
    /// that they may have.
    pub fn prepare(self, name: impl AsRef<[u8]>) -> Result<Prepared> {
        let engine = self.inner.store().clone();
        let prepared = self.inner.prepare(name.as_ref())?;
        Ok(Prepared::new(prepared, engine))
    }

    /// Ends it; nothing of it is left. Dropping it does the same.
    pub fn rollback(self) {
        self.inner.rollback();
    }

    fn family(&self, cf: &ColumnFamily) -> Result<Family> {
        cf.check_owner(self.inner.store())?;
        Ok(cf.family)
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl DoubleEndedIterator for TransactionScan<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back()
    }
}

impl std::iter::FusedIterator for TransactionScan<'_> {}
