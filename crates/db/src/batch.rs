//! Batches: several writes as one.

use std::ops::RangeBounds;

use thermocline_base::merge::check_operand;
use thermocline_base::{CfId, Error, Result, WriteBatch};
use thermocline_engine::{Engine, Family, Operation};

use crate::range::{Bounds, byte_range};
use crate::scan::{owned, prefix_bounds};

use crate::{ColumnFamily, Commit, Durability, WriteOptions};

/// Changes that become visible and durable together or not at all.
#[derive(Debug)]
pub struct Batch {
    engine: Engine,
    writes: WriteBatch,
    error: Option<Error>,
}

impl Batch {
    pub(crate) fn new(engine: Engine) -> Batch {
        Batch {
            engine,
            writes: WriteBatch::new(),
            error: None,
        }
    }

    /// Adds a put of `key` with `value` in the default column family. If it breaks a limit, [`Batch::commit`] reports
    /// that.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.writes.put(CfId::DEFAULT, key.as_ref(), value.as_ref());
        self.note(result)
    }

    /// Adds a delete of `key` in the default column family.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.writes.delete(CfId::DEFAULT, key.as_ref());
        self.note(result)
    }

    /// Adds a merge of `operand` into the value of `key` in the default column family; see
    /// [`Db::merge`](crate::Db::merge).
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.add_merge(CfId::DEFAULT, key.as_ref(), operand.as_ref());
        self.note(result)
    }

    /// Adds a merge of `operand` into the value of `key` in `cf`; see [`Db::merge`](crate::Db::merge).
    pub fn merge_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> &mut Batch {
        let result = cf
            .check_owner(&self.engine)
            .and_then(|id| self.add_merge(id, key.as_ref(), operand.as_ref()));
        self.note(result)
    }

    fn add_merge(&mut self, cf: CfId, key: &[u8], operand: &[u8]) -> Result<()> {
        check_operand(&*self.engine.merge_operator(cf)?, operand)?;
        self.writes.merge(cf, key, operand)
    }

    /// Adds a put of `key` with `value` in `cf`.
    pub fn put_cf(
        &mut self,
        cf: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Batch {
        let result = cf
            .check_owner(&self.engine)
            .and_then(|id| self.writes.put(id, key.as_ref(), value.as_ref()));
        self.note(result)
    }

    /// Adds a delete of `key` in `cf`.
    pub fn delete_cf(&mut self, cf: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut Batch {
        let result = cf
            .check_owner(&self.engine)
            .and_then(|id| self.writes.delete(id, key.as_ref()));
        self.note(result)
    }

    /// Adds a delete of all keys in `range` in the default column family; see
    /// [`Db::delete_range`](crate::Db::delete_range). It removes everything that was written before it, earlier in
    /// this batch, too. Keys that the batch puts there after it stay.
    ///
    /// ```
    /// # use thermocline::{Db, Durability, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// db.put("cart:7:apple", "2")?;
    /// let mut batch = db.batch();
    /// batch.delete_prefix("cart:7:").put("cart:7:pear", "1");
    /// batch.commit(Durability::Immediate)?;
    /// assert_eq!(db.iter().count(), 1);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, range: impl RangeBounds<K>) -> &mut Batch {
        self.add_range(Ok(Family::DEFAULT), &owned(&range))
    }

    /// Adds a delete of all keys in `range` in `cf`, with the bounds in its order; see [`Batch::delete_range`].
    pub fn delete_range_cf<K: AsRef<[u8]>>(
        &mut self,
        cf: &ColumnFamily,
        range: impl RangeBounds<K>,
    ) -> &mut Batch {
        let family = cf.check_owner(&self.engine).map(|_| cf.family);
        self.add_range(family, &owned(&range))
    }

    /// Adds a delete of all keys that begin with `prefix` in the default column family; see [`Batch::delete_range`].
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut Batch {
        self.add_range(Ok(Family::DEFAULT), &prefix_bounds(prefix.as_ref(), false))
    }

    /// Adds a delete of all keys that begin with `prefix` in `cf`; see [`Batch::delete_range`].
    pub fn delete_prefix_cf(&mut self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> &mut Batch {
        let family = cf.check_owner(&self.engine).map(|_| cf.family);
        let bounds = prefix_bounds(prefix.as_ref(), cf.family.reverse);
        self.add_range(family, &bounds)
    }

    /// Lets `add` add a change in `cf`.
    pub(crate) fn add_in(
        &mut self,
        cf: &ColumnFamily,
        add: impl FnOnce(CfId, &mut WriteBatch) -> Result<()>,
    ) -> &mut Batch {
        let id = cf.check_owner(&self.engine);
        let result = id.and_then(|id| add(id, &mut self.writes));
        self.note(result)
    }

    fn add_range(&mut self, family: Result<Family>, bounds: &Bounds) -> &mut Batch {
        let result = family.and_then(|family| match byte_range(bounds, family.reverse)? {
            Some((start, end)) => self.writes.delete_range(family.id, &start, end.as_deref()),
            None => Ok(()),
        });
        self.note(result)
    }

    /// Sets the metadata of the default column family to `blob`: to an offset or a Raft index, say, that belongs to
    /// the changes of this batch. It replaces what was set before. It is visible and durable together with the batch,
    /// which may hold nothing else. [`Db::metadata`](crate::Db::metadata) reads it.
    ///
    /// ```
    /// # use thermocline::{Db, Durability, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let mut batch = db.batch();
    /// batch.put("order:42", "paid").set_metadata("offset 17");
    /// batch.commit(Durability::Immediate)?;
    /// assert_eq!(db.metadata()?.as_deref(), Some(&b"offset 17"[..]));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn set_metadata(&mut self, blob: impl AsRef<[u8]>) -> &mut Batch {
        let result = self.writes.set_metadata(CfId::DEFAULT, blob.as_ref());
        self.note(result)
    }

    /// Sets the metadata of `cf` to `blob`; see [`Batch::set_metadata`].
    pub fn set_metadata_cf(&mut self, cf: &ColumnFamily, blob: impl AsRef<[u8]>) -> &mut Batch {
        let result = cf
            .check_owner(&self.engine)
            .and_then(|id| self.writes.set_metadata(id, blob.as_ref()));
        self.note(result)
    }

    /// Number of changes, metadata included. A delete of a range is one, and none if no key can lie there. What broke a
    /// limit is none.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of the changes, as [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX) counts them: those of keys and values,
    /// and 16 for each change. Of a deleted range its first key is counted and the first one behind it, of metadata the
    /// blob and 2 bytes, and of a long value all bytes, though they will lie in a blob file. In persistent memory a change
    /// takes up to 7 bytes more, and the batch a header.
    ///
    /// ```
    /// # use thermocline::{Db, Durability, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let mut batch = db.batch();
    /// batch.put("order:42", "paid").delete("order:41");
    /// assert_eq!((batch.len(), batch.bytes()), (2, 8 + 4 + 8 + 2 * 16));
    /// batch.commit(Durability::Immediate)?;
    /// assert_eq!((batch.len(), batch.bytes()), (0, 0));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn bytes(&self) -> usize {
        self.writes.counted_len()
    }

    /// Takes back the changes behind the first `len`. With the [`Batch::len`] of an earlier moment the batch is what it
    /// was then: that number is a savepoint. If the batch has no more changes than that, it stays as it is. A batch that
    /// has lost a change, since that broke a limit, is refused as before: only [`Batch::clear`] mends it.
    ///
    /// ```
    /// # use thermocline::{Db, Durability, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let mut batch = db.batch();
    /// batch.put("order:42", "paid");
    /// let savepoint = batch.len();
    /// batch.put("coupon:7", "used").delete_prefix("cart:42:");
    /// batch.truncate(savepoint); // the coupon was void
    /// batch.commit(Durability::Immediate)?;
    /// assert_eq!((db.get("order:42")?.is_some(), db.get("coupon:7")?), (true, None));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn truncate(&mut self, len: usize) {
        self.writes.truncate(len);
    }

    /// Removes all changes; keeps the memory.
    pub fn clear(&mut self) {
        self.writes.clear();
        self.error = None;
    }

    /// Applies all changes, or none. `options` are a [`Durability`] or [`WriteOptions`]. The batch is empty
    /// afterwards and can be filled again. A batch without changes makes earlier writes durable, if it is committed
    /// with [`Durability::Immediate`].
    ///
    /// A batch may have up to [`BATCH_BYTES_MAX`] bytes. One over `memtable.item_bytes_max`, 64 MiB, is written
    /// ahead, beside all other writers, and so is one that finds no room in one piece. It is durable on return,
    /// whatever durability was asked for. It fits into any free room in persistent memory, in however many pieces, and
    /// takes one of the 64 memtables that a database can have. [`Error::OutOfSpace`] says which of the two was
    /// missing, or that DRAM for its index was. Such a batch always waits for the manifest, so with `no_slowdown` it is
    /// [`Error::Busy`].
    ///
    /// [`Durability`]: crate::Durability
    /// [`BATCH_BYTES_MAX`]: crate::limits::BATCH_BYTES_MAX
    ///
    /// # Errors
    /// The first limit that a change broke; the batch is refused until it is cleared. [`Error::InvalidArgument`]
    /// naming a column family that was dropped; otherwise as [`Db::put`](crate::Db::put). The batch stays as it was.
    pub fn commit(&mut self, options: impl Into<WriteOptions>) -> Result<()> {
        self.check()?;
        let engine = &self.engine;
        engine.latencies().time(Operation::Batch, || {
            engine.write(self.writes.iter(), options)
        })?;
        self.clear();
        Ok(())
    }

    /// Applies all changes, or none, and returns when readers see them. The [`Commit`] is ready when they are
    /// durable. Many commits share one persist. One of 256 bytes or more (`commit.buffered_bytes`) is persisted before this
    /// returns, unless a persist is a sync. The batch is empty afterwards and can be filled again.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// let mut batch = db.batch();
    /// batch.put("a", "1");
    /// let first = batch.commit_async()?;
    /// batch.put("b", "2");
    /// let second = batch.commit_async()?;
    /// // `first.await?` on any runtime, or:
    /// first.wait()?;
    /// second.wait()?;
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Batch::commit`]: nothing was written then.
    pub fn commit_async(&mut self) -> Result<Commit> {
        self.commit_async_with(WriteOptions::default())
    }

    /// As [`Batch::commit_async`], with options. A [`Durability::Buffered`] commit is ready at once. A commit with
    /// `no_slowdown` is refused rather than kept waiting.
    ///
    /// [`Durability::Buffered`]: crate::Durability::Buffered
    ///
    /// # Errors
    /// As [`Batch::commit`]: nothing was written then.
    pub fn commit_async_with(&mut self, options: impl Into<WriteOptions>) -> Result<Commit> {
        let options = options.into();
        let (commit, tell) = Commit::new();
        match options.durability {
            Durability::Immediate => self.submit(options.no_slowdown, tell)?,
            Durability::Buffered => {
                self.commit(options)?;
                tell(Ok(()));
            }
        }
        Ok(commit)
    }

    /// As [`Batch::commit_async`], but `done` is called once, with the outcome, on a thread of the runtime that does
    /// nothing else. Callbacks run one after another, in the order of the commits. A callback should be quick. It may
    /// [`commit`](Batch::commit), but not wait for a [`Commit`]: that is told behind it, so [`Commit::wait`] is
    /// [`Error::Busy`] there. One that blocks holds up the store's later callbacks and events, and
    /// [`Db::close`](crate::Db::close). It holds up nothing else: writes become durable meanwhile.
    ///
    /// While 65,536 commits of the store wait for their callbacks, this call waits for one of them; so does
    /// [`Batch::commit_async`].
    ///
    /// # Errors
    /// As [`Batch::commit`], and then `done` is never called; [`crate::Error::Busy`] if the call is made in a
    /// callback or listener and would have to wait for a callback.
    pub fn commit_with_callback(
        &mut self,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.submit(false, done)
    }

    fn submit(
        &mut self,
        no_slowdown: bool,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.check()?;
        let engine = &self.engine;
        engine.write_with_callback(self.writes.iter(), no_slowdown, Box::new(done))?;
        self.clear();
        Ok(())
    }

    /// Fails if a change was lost.
    fn check(&mut self) -> Result<()> {
        if let Some(error) = self.error.take() {
            // The first call returns the error as it was. Later ones refuse the batch, since it lacks a change.
            self.error = Some(Error::InvalidArgument(format!(
                "this batch lost a change and can only be cleared: {error}"
            )));
            return Err(error);
        }
        Ok(())
    }

    fn note(&mut self, result: Result<()>) -> &mut Batch {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
        self
    }
}
