//! Column families.

use std::ops::RangeBounds;
use std::sync::Arc;

use thermocline_base::{CfId, CfOptions, Error, Result};
use thermocline_engine::{Engine, Family};

use crate::keys::Keys;
use crate::scan::{Scan, owned, prefix_bounds};
use crate::{Cursor, PendingRead, RangeSize, Value, WriteOptions};

/// A named, ordered map of its own within a database. One batch can change several families, as one.
///
/// Keys order bytewise: ascending, or descending in a family made with [`CfOptions::reverse`]. Iteration, [`Cursor`]
/// moves and bounds follow the order of the family. The first bound of [`ColumnFamily::range`] is the one that comes
/// first in that order.
///
/// ```
/// # use thermocline::{CfOptions, Db, Options};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Db::open(folder.path().join("db"), Options::default())?;
/// let log = db.column_family("log", CfOptions::default().reverse(true))?;
/// for day in ["2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02"] {
///     log.put(day, "")?;
/// }
/// // The newest two days, and the days from February 1st back to January 30th, which is not included.
/// let newest: Vec<_> = log.iter().take(2).collect::<Result<_, _>>()?;
/// assert_eq!(newest[0].0, b"2026-02-02");
/// let range: Vec<_> = log.range("2026-02-01".."2026-01-30").collect::<Result<_, _>>()?;
/// assert_eq!((&*range[0].0, &*range[1].0), (&b"2026-02-01"[..], &b"2026-01-31"[..]));
/// assert_eq!(range.len(), 2);
/// # Ok::<(), thermocline::Error>(())
/// ```
///
/// After [`Db::drop_column_family`](crate::Db::drop_column_family) all reads and writes fail with
/// [`Error::InvalidArgument`] naming the family, also after another family of its name is made.
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    pub(crate) engine: Engine,
    pub(crate) family: Family,
    name: Arc<str>,
}

impl ColumnFamily {
    pub(crate) fn new(engine: Engine, family: Family, name: &str) -> ColumnFamily {
        ColumnFamily {
            engine,
            family,
            name: name.into(),
        }
    }

    /// The family's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options that the family was made with. The division of its keys is set only if it was set then; otherwise
    /// the database's options decide it.
    pub fn options(&self) -> CfOptions {
        self.engine.family_options(self.family)
    }

    /// As [`Db::put`](crate::Db::put), in this family.
    ///
    /// # Errors
    /// As [`Db::put`](crate::Db::put); [`Error::InvalidArgument`] once the family was dropped.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`Db::put_with`](crate::Db::put_with), in this family.
    ///
    /// # Errors
    /// As [`Db::put_with`](crate::Db::put_with).
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.keys().put(key, value, options.into())
    }

    /// As [`Db::merge`](crate::Db::merge), in this family.
    ///
    /// # Errors
    /// As [`Db::merge`](crate::Db::merge); [`Error::InvalidArgument`] once the family was dropped.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default())
    }

    /// As [`Db::merge_with`](crate::Db::merge_with), in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::merge`]; [`Error::Busy`] if the options ask not to wait.
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.keys().merge(key, operand, options.into())
    }

    /// As [`Db::delete`](crate::Db::delete), in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`Db::delete_with`](crate::Db::delete_with), in this family.
    ///
    /// # Errors
    /// As [`Db::put_with`](crate::Db::put_with).
    pub fn delete_with(
        &self,
        key: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.keys().delete(key.as_ref(), options.into())
    }

    /// As [`Db::delete_range`](crate::Db::delete_range), in this family. The range goes from the bound that comes
    /// first in the family's order to the other. Where keys descend, `"z".."a"` removes `z` and all keys below it
    /// down to `a`, which stays.
    ///
    /// # Errors
    /// As [`Db::delete_range`](crate::Db::delete_range); [`Error::InvalidArgument`] once the family was dropped.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// As [`Db::delete_range_with`](crate::Db::delete_range_with), in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete_range`]; [`Error::Busy`] if the options ask not to wait.
    pub fn delete_range_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.keys().delete_range(&owned(&range), options.into())
    }

    /// As [`Db::delete_prefix`](crate::Db::delete_prefix), in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, WriteOptions::default())
    }

    /// As [`Db::delete_prefix_with`](crate::Db::delete_prefix_with), in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete_prefix`]; [`Error::Busy`] if the options ask not to wait.
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let bounds = prefix_bounds(prefix.as_ref(), self.family.reverse);
        self.keys().delete_range(&bounds, options.into())
    }

    /// As [`Db::drop_partition`](crate::Db::drop_partition), in this family. `start` is the partition's least key, whatever the
    /// family's order.
    ///
    /// # Errors
    /// As [`Db::drop_partition`](crate::Db::drop_partition); [`Error::InvalidArgument`] once the family was dropped.
    pub fn drop_partition(&self, start: impl AsRef<[u8]>) -> Result<()> {
        self.keys().drop_partition(start.as_ref())
    }

    /// As [`Db::get`](crate::Db::get), in this family.
    ///
    /// # Errors
    /// As [`Db::get`](crate::Db::get); [`Error::InvalidArgument`] once the family was dropped.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.keys().get(key.as_ref())
    }

    /// As [`Db::get_async`](crate::Db::get_async), in this family.
    ///
    /// # Errors
    /// The future's answer has those of [`ColumnFamily::get`].
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> PendingRead<Option<Value>> {
        self.keys().get_async(key.as_ref())
    }

    /// As [`Db::compact`](crate::Db::compact), in this family, with the bounds in its order.
    ///
    /// # Errors
    /// As [`Db::compact`](crate::Db::compact); [`Error::InvalidArgument`] once the family was dropped.
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.keys().compact(range)
    }

    /// As [`Db::compact_level0`](crate::Db::compact_level0), in this family.
    ///
    /// # Errors
    /// As [`Db::compact_level0`](crate::Db::compact_level0); [`Error::InvalidArgument`] once the family was dropped.
    pub fn compact_level0(&self) -> Result<()> {
        self.engine.compact_level0(self.family.id)
    }

    /// As [`Db::multi_get`](crate::Db::multi_get), in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        self.keys().multi_get(keys)
    }

    /// As [`Db::multi_get_async`](crate::Db::multi_get_async), in this family.
    ///
    /// # Errors
    /// The future's answer has those of [`ColumnFamily::get`].
    pub fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> PendingRead<Vec<Option<Value>>> {
        self.keys().multi_get_async(keys)
    }

    /// As [`Db::metadata`](crate::Db::metadata), of this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::get`].
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.engine.metadata(self.family.id, Value::copy)
    }

    /// As [`Db::iter`](crate::Db::iter), in this family.
    pub fn iter(&self) -> Scan {
        self.keys().iter()
    }

    /// As [`Db::range`](crate::Db::range), in this family, from the bound that comes first in its order to the other.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.keys().range(range)
    }

    /// As [`Db::prefix`](crate::Db::prefix), in this family.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.keys().prefix(prefix)
    }

    /// As [`Db::approximate_size`](crate::Db::approximate_size), for a range of this family, from the bound that
    /// comes first in its order to the other.
    ///
    /// # Errors
    /// As [`Db::approximate_size`](crate::Db::approximate_size); [`Error::InvalidArgument`] once the family was dropped.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        Ok(self.keys().sizes([range])?[0])
    }

    /// As [`Db::approximate_sizes`](crate::Db::approximate_sizes), for ranges of this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::approximate_size`].
    pub fn approximate_sizes<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        self.keys().sizes(ranges)
    }

    /// As [`Db::cursor`](crate::Db::cursor), in this family.
    ///
    /// # Errors
    /// As [`Db::cursor`](crate::Db::cursor); [`Error::InvalidArgument`] once the family was dropped.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.engine.cursor(self.family)?))
    }

    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys {
            engine: &self.engine,
            family: self.family,
        }
    }

    /// The family's id, if the family belongs to this store.
    pub(crate) fn check_owner(&self, engine: &Engine) -> Result<CfId> {
        if self.engine.is_same(engine) {
            return Ok(self.family.id);
        }
        Err(Error::InvalidArgument(format!(
            "a batch or transaction takes only column families of its own database, and this handle of '{}' is of another \
             opening or database",
            self.name
        )))
    }
}
