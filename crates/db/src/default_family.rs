//! The keys of the default column family.

use std::ops::RangeBounds;

use thermocline_base::{CfId, Result};
use thermocline_engine::Family;

use crate::keys::Keys;
use crate::scan::{Scan, owned, prefix_bounds};
use crate::{Cursor, Db, RangeSize, Value, WriteOptions};

impl Db {
    /// Sets `key` to `value` in the default column family, durably.
    ///
    /// # Errors
    /// [`crate::Error::InvalidArgument`] past a limit, [`crate::Error::OutOfSpace`] when the
    /// region or the DRAM budget is used up (nothing was written then);
    /// [`crate::Error::Conflict`] while a prepared transaction writes the key or relies on it ([`Prepared`](crate::Prepared));
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
        self.keys()
            .put(key.as_ref(), value.as_ref(), options.into())
    }

    /// Merges `operand` into the value of `key` in the default column family, durably, and reads nothing: whoever reads the
    /// key later finds the value that the family's operator makes of all operands, each of which counts once.
    ///
    /// A family has an operator if [`CfOptions::merge_operator`](crate::CfOptions::merge_operator) names one, and keeps it. Two are built in,
    /// [`Counter`](crate::merge::Counter) and [`Append`](crate::merge::Append); another is given with
    /// [`DbBuilder::merge_operator`](crate::DbBuilder::merge_operator). A merge never removes a key. Operands are folded when reads ask for
    /// the value, and by flushes and compactions; a key that gets very many between two flushes is slow to read meanwhile.
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
        self.keys().delete_range(&owned(&range), options.into())
    }

    /// Removes all keys that begin with `prefix` from the default column family; see
    /// [`Db::delete_range`].
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let bounds = prefix_bounds(prefix.as_ref(), false);
        self.keys().delete_range(&bounds, WriteOptions::default())
    }

    /// The value of `key` in the default column family.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if the record's checksum does not match;
    /// [`crate::Error::InvalidArgument`] for a key past the limit, or one whose operands the family's merge operator
    /// cannot merge.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.keys().get(key.as_ref())
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
        self.keys().multi_get(keys)
    }

    /// The metadata of the default column family: what [`Batch::set_metadata`](crate::Batch::set_metadata) set last. `None` if
    /// nothing ever did.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.engine.metadata(CfId::DEFAULT, Value::copy)
    }

    /// All entries of the default column family, in key order, from both ends.
    pub fn iter(&self) -> Scan {
        self.keys().iter()
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
        self.keys().range(range)
    }

    /// The entries of the default column family whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.keys().prefix(prefix)
    }

    /// A cursor over the default column family, before any key.
    ///
    /// # Errors
    /// None yet; a cursor over files may have some.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.engine.cursor(Family::DEFAULT)?))
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
        Ok(self.keys().sizes([range])?[0])
    }

    /// As [`Db::approximate_size`], of several ranges at one moment.
    ///
    /// # Errors
    /// As [`Db::approximate_size`].
    pub fn approximate_sizes<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        self.keys().sizes(ranges)
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
        self.keys().compact(range)
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

    fn keys(&self) -> Keys<'_> {
        Keys {
            engine: &self.engine,
            family: Family::DEFAULT,
        }
    }
}
