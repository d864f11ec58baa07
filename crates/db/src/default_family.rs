//! Reads and writes of the default column family.

use std::ops::RangeBounds;

use thermocline_base::{CfId, Result};
use thermocline_engine::Family;

use crate::keys::Keys;
use crate::scan::{Scan, owned, prefix_bounds};
use crate::{Cursor, Db, PendingRead, RangeSize, Value, WriteOptions};

impl Db {
    /// Sets `key` to `value` in the default column family, durably.
    ///
    /// It may have to wait. While something fills up it is held back, 10 ms at most. If there is no room left, it flushes
    /// memtables itself. If that frees nothing, since others have the room, it waits for them: a quarter of a second for readers,
    /// half a second for other stores of the runtime, ten seconds for compactions that work with the DRAM. It also waits
    /// while the region grows, or the manifest names the next memtable. [`Metrics::stalls`](crate::Metrics::stalls) says how long, and
    /// why. [`Db::put_with`] and [`WriteOptions::no_slowdown`] avoid that: such a write fails with [`crate::Error::Busy`]
    /// rather than wait for any of these. A value over `blob.inline_bytes_max`, 1 MiB, waits for a blob file on the SSD.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] past a limit, or for a database that was opened for reading only;
    /// [`crate::Error::OutOfSpace`] when the region or the DRAM budget is used up, or the rest of the disk is kept for flushing and
    /// compaction (nothing was written then); [`crate::Error::Io`] if the blob file of a long value cannot be written;
    /// [`crate::Error::Conflict`] while a prepared transaction writes the key or relies on it
    /// ([`Prepared`](crate::Prepared)); [`crate::Error::Closed`]; [`crate::Error::Poisoned`] after a failed persist.
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
        self.keys()
            .put(key.as_ref(), value.as_ref(), options.into())
    }

    /// Merges `operand` into the value of `key` in the default column family, durably, and reads nothing. Later reads
    /// of the key find the value that the family's operator makes of all operands; each operand counts once.
    ///
    /// A family has an operator if [`CfOptions::merge_operator`](crate::CfOptions::merge_operator) names one, and
    /// keeps it. Two are built in, [`Counter`](crate::merge::Counter) and [`Append`](crate::merge::Append); others
    /// are given with [`DbBuilder::merge_operator`](crate::DbBuilder::merge_operator). A merge never removes a key.
    /// Reads fold the operands into a value when they ask for it; flushes and compactions fold them for good. A key
    /// with very many operands between two flushes is slow to read meanwhile.
    ///
    /// ```
    /// use thermocline::merge::{Append, Counter, MergeOperator};
    /// use thermocline::{CfOptions, Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let db = Db::open(folder.path().join("db"), Options::default())?;
    /// let clicks = db.column_family("clicks", CfOptions::default().merge_operator(Counter::NAME))?;
    /// for _ in 0..3 {
    ///     clicks.merge("home", 1u64.to_le_bytes())?;
    /// }
    /// assert_eq!(clicks.get("home")?.as_deref(), Some(&3u64.to_le_bytes()[..]));
    ///
    /// // The default family can have one, too.
    /// let list = Append::new(",");
    /// db.column_family("default", CfOptions::default().merge_operator(list.name()))?;
    /// db.put("tags", "new")?;
    /// db.merge("tags", "blue")?;
    /// assert_eq!(db.get("tags")?.as_deref(), Some(&b"new,blue"[..]));
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::put`]. [`crate::Error::InvalidArgument`] if the family has no operator, if the operator does not take the
    /// operand, or past [`MERGE_OPERAND_LEN_MAX`](crate::limits::MERGE_OPERAND_LEN_MAX).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// As [`Db::merge`], with a [`crate::Durability`] or [`WriteOptions`].
    ///
    /// # Errors
    /// As [`Db::merge`]; [`crate::Error::Busy`] if the options ask not to wait.
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.keys()
            .merge(key.as_ref(), operand.as_ref(), options.into())
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
        self.keys().delete(key.as_ref(), options.into())
    }

    /// Removes all keys in `range` from the default column family, durably and at once: the write is one record,
    /// however many keys there are. Snapshots, cursors and iterators made before still see the keys. A range may have
    /// any bounds, or none: `db.delete_range::<&str>(..)` removes everything.
    ///
    /// As in RocksDB, an empty range is no error and removes nothing. A range that ends before it begins is refused.
    /// The memory of removed entries comes back later, as with [`Db::delete`].
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
    /// As [`Db::put`]; [`crate::Error::InvalidArgument`] if the range ends before it begins, or for a bound that is longer than
    /// a key. Bounds of what is read may have any length.
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
        self.keys().delete_range(&owned(&range), options.into())
    }

    /// Removes all keys that begin with `prefix` from the default column family; see
    /// [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, WriteOptions::default())
    }

    /// As [`Db::delete_prefix`], with a [`crate::Durability`] or [`WriteOptions`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// use thermocline::Durability;
    /// for item in ["cart:7:apple", "cart:8:plum"] {
    ///     db.put(item, "1")?;
    /// }
    /// db.delete_prefix_with("cart:7:", Durability::Buffered)?; // visible now, durable within a second
    /// assert_eq!(db.prefix("cart:").count(), 1);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::delete_prefix`]; [`crate::Error::Busy`] if the options ask not to wait.
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let bounds = prefix_bounds(prefix.as_ref(), false);
        self.keys().delete_range(&bounds, options.into())
    }

    /// Removes all keys of the partition that begins with `start` from the default column family, durably and at once, as
    /// [`Db::delete_range`] does. Where keys are divided by prefix, `start` is the prefix; where by size or at given keys, it is the
    /// partition's first key. Tables that have nothing but keys of the partition go with it unread: their room is back as soon
    /// as no snapshot, cursor or iterator sees them. The partition itself stays, without keys. Where keys
    /// are divided by size, partitions are split and joined all the time, an empty one with its neighbours first: a partition that
    /// was looked up a moment ago may have other keys by now, and where little was written there is one alone, which has all keys. Call
    /// [`Db::delete_range`] there, which names both ends.
    ///
    /// ```
    /// use thermocline::{Db, Options};
    /// # let folder = tempfile::tempdir().unwrap();
    /// let mut options = Options::default();
    /// options.set("partition.by", "prefix")?;
    /// options.set("partition.prefix_len", "8")?;
    /// let db = Db::open(folder.path().join("db"), options)?;
    /// db.put("2024-01-a", "1")?;
    /// db.put("2024-02-a", "2")?;
    /// db.drop_partition("2024-01-")?;
    /// assert_eq!(db.get("2024-01-a")?, None);
    /// assert!(db.get("2024-02-a")?.is_some());
    /// assert!(db.drop_partition("2024").is_err());
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::delete_range`]; [`crate::Error::InvalidArgument`] if no partition begins with `start`, or the keys are not divided.
    pub fn drop_partition(&self, start: impl AsRef<[u8]>) -> Result<()> {
        self.keys().drop_partition(start.as_ref())
    }

    /// The value of `key` in the default column family.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a checksum does not match; [`crate::Error::InvalidArgument`] for a key past the
    /// limit, or one whose operands the family's merge operator cannot merge; [`crate::Error::Closed`];
    /// [`crate::Error::Io`] if a file cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.keys().get(key.as_ref())
    }

    /// As [`Db::get`], as a future of any executor: a task that awaits it waits, and no thread does.
    ///
    /// The read begins at once. What lies in memory, persistent memory or the cache has been answered when this returns.
    /// What has to be read from the SSD is on its way, so several futures that are made before the first is awaited read
    /// at the same time. A future that is dropped gives its read up; one that is kept holds the files that it reads, and
    /// they take space until it goes. It does not keep the database open. How reads reach the device is set by
    /// `read.async_io`.
    ///
    /// ```
    /// # use std::{pin::pin, sync::Arc, task::{Context, Poll, Wake, Waker}, thread::{self, Thread}};
    /// # struct Unpark(Thread);
    /// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
    /// # fn block_on<T>(future: impl Future<Output = T>) -> T {
    /// #     let waker = Waker::from(Arc::new(Unpark(thread::current())));
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    /// #             Poll::Ready(answer) => return answer,
    /// #             Poll::Pending => thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = thermocline::Db::open(folder.path().join("db"), thermocline::Options::default())?;
    /// db.put("order:42", "paid")?;
    /// let (order, other) = (db.get_async("order:42"), db.get_async("order:43"));
    /// block_on(async {
    ///     assert_eq!(order.await?.as_deref(), Some(b"paid".as_slice()));
    ///     assert_eq!(other.await?, None);
    ///     Ok::<(), thermocline::Error>(())
    /// })?;
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future's answer has those of [`Db::get`].
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> PendingRead<Option<Value>> {
        self.keys().get_async(key.as_ref())
    }

    /// The values of `keys` in the default column family, in the order of the arguments and all at one moment of the
    /// store. What lies on the SSD is read together: that takes less time than one read after another.
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
    /// As [`Db::get`], for the first key that fails.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.keys().multi_get(keys)
    }

    /// As [`Db::multi_get`], as a future, which begins as that of [`Db::get_async`] does.
    ///
    /// # Errors
    /// The future's answer has those of [`Db::multi_get`].
    pub fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> PendingRead<Vec<Option<Value>>> {
        self.keys().multi_get_async(keys)
    }

    /// The metadata of the default column family, as [`Batch::set_metadata`](crate::Batch::set_metadata) set it last.
    /// `None` if it was never set.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.engine.metadata(CfId::DEFAULT, Value::copy)
    }

    /// All entries of the default column family, in key order, from both ends; [`Scan::into_async`] makes a stream of it.
    pub fn iter(&self) -> Scan {
        self.keys().iter()
    }

    /// The entries of the default column family whose keys lie in `range`. If the range ends before it begins, the
    /// first item is an [`crate::Error::InvalidArgument`].
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
        self.keys().range(range)
    }

    /// The entries of the default column family whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.keys().prefix(prefix)
    }

    /// A cursor over the default column family, at no key yet: a seek comes first.
    ///
    /// # Errors
    /// None: the default column family cannot be dropped. Reading with the cursor can fail.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.engine.cursor(Family::DEFAULT)?))
    }

    /// About how many bytes the keys in `range` of the default column family take, and how many entries they have,
    /// without reading them. For tables the answer is off by a block at each end. In persistent memory it is off by
    /// what was written since it was measured last, an eighth at most. Older versions and deletes count until they
    /// are compacted. The first call after many writes walks over the index.
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
    /// [`crate::Error::InvalidArgument`] if the range ends before it begins; [`crate::Error::Corruption`] of an
    /// index; [`crate::Error::Closed`]; those of the file system.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        Ok(self.keys().sizes([range])?[0])
    }

    /// As [`Db::approximate_size`], for several ranges at one moment.
    ///
    /// # Errors
    /// As [`Db::approximate_size`].
    pub fn approximate_sizes<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        self.keys().sizes(ranges)
    }

    /// Compacts the keys in `range` of the default column family down to one level. Versions that nobody can read any
    /// more are left out: overwritten ones, and all that was deleted. Writes go on meanwhile.
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
    /// As [`Db::flush`]; [`crate::Error::InvalidArgument`] if the range ends before it begins, or for a bound that is longer
    /// than a key; [`crate::Error::Corruption`] of a table, naming file and offset.
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.keys().compact(range)
    }

    /// Merges the tables in persistent memory of level 0 of the default column family, until a read has to ask one of
    /// them at most. The merge stays inside persistent memory: it is an internal compaction (PM-Blade §IV-B).
    /// Versions that nobody can read any more are left out. Memtables take no part; [`Db::flush`] makes tables of
    /// them. Slices of keys that also have files in level 0 take no part, either. Writes go on meanwhile.
    ///
    /// With `level0.shape` `pm-tables` and `tiered` the store does this by itself when it pays (`level0.internal`).
    /// With other shapes there is nothing to merge.
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
    /// [`crate::Error::OutOfSpace`] if persistent memory, or the share of level 0 (`level0.pm_percent`), has no room
    /// for the output; what was merged before stays merged. Otherwise as [`Db::compact`].
    pub fn compact_level0(&self) -> Result<()> {
        self.engine.compact_level0(Family::DEFAULT.id)
    }

    fn keys(&self) -> Keys<'_> {
        Keys {
            engine: &self.engine,
            family: Family::DEFAULT,
        }
    }
}
