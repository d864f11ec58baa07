//! Transactions: isolated reads and writes that take effect as one.

mod ranges;

use std::ops::{Bound, RangeBounds};

use thermocline_base::Result;
use thermocline_engine::{Engine, Family, Latencies, Operation};

use crate::range::{Bounds, read_range};
use crate::scan::{owned, prefix_bounds};
use crate::{ColumnFamily, Prepared, Savepoint, Value, WriteOptions};

/// Reads and writes that take effect as one, isolated from other writers as its [`Isolation`](crate::Isolation) says.
/// Made by [`Db::transaction`](crate::Db::transaction). Other readers see its writes only after the commit. Dropping
/// it rolls it back.
///
/// It reads at a *snapshot*, which its first read takes, and sees its own writes above that. It relies on the keys
/// that it writes, and on those that it reads with [`Transaction::get_for_update`]: it commits only if nobody else
/// has changed them since the snapshot.
///
/// - A *pessimistic* transaction locks these keys as it goes, and waits for transactions that hold them. When
///   transactions wait for each other, the youngest is rolled back at once.
/// - An *optimistic* transaction locks nothing. Its commit is refused if another writer changed such a key first.
///
/// Plain writes ([`Db::put`](crate::Db::put), batches) take no locks and wait for none. A plain write counts as a
/// transaction that commits at once: if it changes a key that must not change, [`Transaction::commit`] is refused.
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
/// An open transaction keeps the database open. As for any [`Snapshot`](crate::Snapshot), the store keeps the
/// versions that it sees. [`Db::transactions`](crate::Db::transactions) lists transactions that were never ended, and
/// [`TxnOptions::expiration`](crate::TxnOptions::expiration) frees their locks.
#[derive(Debug)]
pub struct Transaction {
    pub(crate) inner: thermocline_txn::Transaction<Engine>,
}

/// An iterator of a [`Transaction`], from both ends: the transaction's own writes over its snapshot. It ends after an
/// error.
#[derive(Debug)]
pub struct TransactionScan<'t>(thermocline_txn::Scan<'t, Engine>);

impl Transaction {
    pub(crate) fn new(inner: thermocline_txn::Transaction<Engine>) -> Transaction {
        Transaction { inner }
    }

    fn latencies(&self) -> &Latencies {
        self.inner.store().latencies()
    }

    /// The transaction's number in reports and errors. A transaction that began later has a larger number.
    pub fn id(&self) -> u64 {
        self.inner.id()
    }

    /// Takes the snapshot now instead of at the first read. Returns the sequence number of the snapshot.
    ///
    /// A pessimistic transaction may move its snapshot forward when it locks a key that has changed meanwhile. It
    /// does so only before this call, and as long as it has locked all that it has read: until its first iterator, and
    /// at snapshot isolation until its first read other than [`Transaction::get_for_update`] and
    /// [`Transaction::get_for_share`]. Afterwards it is refused such a key.
    ///
    /// # Errors
    /// [`crate::Error::Closed`], [`crate::Error::Poisoned`]; [`crate::Error::Conflict`] if the transaction has
    /// expired or was rolled back to break a deadlock.
    pub fn take_snapshot(&mut self) -> Result<u64> {
        self.inner.take_snapshot()
    }

    /// The value of `key` in the default column family: what the transaction itself wrote, or the value at its
    /// snapshot.
    ///
    /// A serializable transaction remembers that it has read the key. If it is pessimistic, it also locks the key
    /// against writers.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get). [`crate::Error::Conflict`] if the transaction has expired, or was rolled back
    /// to break a deadlock. Where the key is locked, as [`Transaction::get_for_update`].
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

    /// The values of `keys` in the default column family, in the order of the arguments; each as [`Transaction::get`]
    /// gives it. What lies on the SSD is read together.
    ///
    /// # Errors
    /// As [`Transaction::get`], for the first key that fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let named = keys.iter().map(|key| Ok((Family::DEFAULT, key.as_ref())));
        let times = self.latencies();
        times.time(Operation::MultiGet, || self.inner.multi_get(named))
    }

    /// As [`Transaction::multi_get`], in several column families.
    ///
    /// # Errors
    /// As [`Transaction::get_cf`], for the first key that fails.
    pub fn multi_get_cf<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<(&ColumnFamily, K)> = keys.into_iter().collect();
        let named = keys
            .iter()
            .map(|(cf, key)| Ok((self.family(cf)?, key.as_ref())));
        let times = self.latencies();
        times.time(Operation::MultiGet, || self.inner.multi_get(named))
    }

    /// As [`Transaction::get`], for a key that must not change until the commit, as if the transaction wrote it. A
    /// pessimistic transaction locks the key against all transactions that write or lock it. An optimistic
    /// transaction is refused its commit if another writer has changed the key.
    ///
    /// # Errors
    /// As [`Transaction::get`]. [`crate::Error::Busy`] if another transaction held the key's lock for longer than
    /// [`TxnOptions::lock_timeout`](crate::TxnOptions::lock_timeout); the error says which one, since when, and what
    /// to do. [`crate::Error::Conflict`] if the key was changed since the snapshot. After these two the transaction
    /// is as before, and may go on. [`crate::Error::Conflict`] if the transaction was rolled back to break a
    /// deadlock. [`crate::Error::OutOfSpace`] naming the limit if transactions use all the DRAM that they may have.
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

    /// As [`Transaction::get_for_update`], but shared. The key does not change until the commit, and other
    /// transactions may read it for share as well. It is for keys that many transactions rely on and few change.
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
    /// [`crate::Error::InvalidArgument`] past a limit, or if all writes of the transaction exceed
    /// [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX); otherwise as [`Transaction::get_for_update`].
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner
            .put(Family::DEFAULT, key.as_ref(), value.as_ref())
    }

    /// As [`Transaction::put`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::InvalidArgument`] for a family of another database. The commit
    /// refuses a family that was dropped.
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
    /// [`Db::merge`](crate::Db::merge). The call reads nothing. For other transactions it is a write of the key, like
    /// [`Transaction::put`]. The transaction's own reads see the merged value.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::InvalidArgument`] as [`Db::merge`](crate::Db::merge), or if the
    /// operator cannot merge the operand into what the transaction wrote before. The operands that it merges into one
    /// key come to one of at most [`MERGE_OPERAND_LEN_MAX`](crate::limits::MERGE_OPERAND_LEN_MAX) bytes.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.inner.merge(Family::DEFAULT, key, operand)
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

    /// All entries of the default column family, in key order, from both ends: the transaction's own writes over its
    /// snapshot. The transaction can only read while the iterator lives.
    ///
    /// A serializable transaction remembers how much of the range was read, absent keys included. If it is
    /// pessimistic, it locks the whole range against writers of keys when the iterator is made. If that fails, the error is
    /// the first item.
    pub fn iter(&self) -> TransactionScan<'_> {
        self.scan(Ok(Family::DEFAULT), &(Bound::Unbounded, Bound::Unbounded))
    }

    /// As [`Transaction::iter`], for the keys in `range`.
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

    /// As [`Transaction::iter`], for the keys that begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionScan<'_> {
        let bounds = prefix_bounds(prefix.as_ref(), false);
        self.scan(Ok(Family::DEFAULT), &bounds)
    }

    /// As [`Transaction::iter`], in `cf` and in its order.
    pub fn iter_cf(&self, cf: &ColumnFamily) -> TransactionScan<'_> {
        self.scan(self.family(cf), &(Bound::Unbounded, Bound::Unbounded))
    }

    /// As [`Transaction::range`], in `cf` and in its order.
    pub fn range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> TransactionScan<'_> {
        self.scan(self.family(cf), &owned(&range))
    }

    /// As [`Transaction::prefix`], in `cf` and in its order.
    pub fn prefix_cf(&self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> TransactionScan<'_> {
        let bounds = prefix_bounds(prefix.as_ref(), cf.family.reverse);
        self.scan(self.family(cf), &bounds)
    }

    fn scan(&self, family: Result<Family>, bounds: &Bounds) -> TransactionScan<'_> {
        let range = family.and_then(|family| Ok((family, read_range(bounds, family.reverse)?)));
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

    /// Takes back all writes since `savepoint`, which can be used again. Locks taken since then are kept, and reads
    /// since then still count.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] for a savepoint of another transaction, or one that was made after a
    /// savepoint that was rolled back to; [`crate::Error::Conflict`] if the transaction has expired or was rolled
    /// back to break a deadlock.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.rollback_to(savepoint)
    }

    /// Whether the transaction has written nothing.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Applies all writes of the transaction, in all families, as one. They are visible together on return, and durable
    /// as [`TxnOptions::durability`](crate::TxnOptions::durability) says. One without writes is refused only if it has
    /// expired, or was rolled back to break a deadlock.
    ///
    /// It has ended whatever the result is: after an error it is rolled back. What uses it afterwards does not compile.
    ///
    /// ```compile_fail,E0382
    /// fn twice(txn: thermocline::Transaction) { drop(txn.commit()); drop(txn.commit()); }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Conflict`] naming a key that must not have changed and has, or saying that the transaction has
    /// expired or was rolled back to break a deadlock: begin anew. Otherwise those of
    /// [`Batch::commit`](crate::Batch::commit). After an error nothing was written, except that after
    /// [`crate::Error::Poisoned`] the outcome is unknown.
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

    /// Does the first half of a two-phase commit. From now on the transaction survives crashes. It can be committed
    /// or rolled back later, also by its name. See [`Prepared`]. A name has 1 to
    /// [`PREPARED_NAME_LEN_MAX`](crate::limits::PREPARED_NAME_LEN_MAX) bytes, and is free again when the transaction
    /// is resolved. A transaction without writes can be prepared, too; the keys that it relies on do not change then.
    ///
    /// An optimistic transaction takes its locks now, and may wait for them. This value has ended whatever the result
    /// is: after an error the transaction is rolled back.
    ///
    /// # Errors
    /// As [`Transaction::commit`]. [`crate::Error::Conflict`] if another prepared transaction writes what this one
    /// writes or relies on, or relies on what this one writes; [`crate::Error::Busy`] if another transaction holds
    /// one of its locks; [`crate::Error::InvalidArgument`] for a name that is taken, empty or too long, or if the
    /// writes, with the keys that the transaction relies on, exceed a batch; [`crate::Error::OutOfSpace`] naming the
    /// limit if transactions use all the DRAM that they may have.
    pub fn prepare(self, name: impl AsRef<[u8]>) -> Result<Prepared> {
        let engine = self.inner.store().clone();
        let prepared = self.inner.prepare(name.as_ref())?;
        Ok(Prepared::new(prepared, engine))
    }

    /// Ends the transaction without writing anything. Dropping it does the same.
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
