//! Column families.

use std::ops::RangeBounds;
use std::sync::Arc;

use thermocline_base::{CfId, CfOptions, Error, Result};
use thermocline_engine::Family;

use crate::scan::{owned, prefix_bounds};
use crate::{Cursor, Db, RangeSize, Scan, Snapshot, Value, WriteOptions};

/// A named, ordered map of its own within a database. Families share batches: one batch can change
/// several, as one.
///
/// Keys order bytewise, ascending or, in a family made with [`CfOptions::reverse`], descending.
/// Everything that has to do with order is in the family's: iteration, [`Cursor`] moves, and the
/// bounds of [`ColumnFamily::range`], the one that comes first in that order first.
///
/// ```
/// # use thermocline::{CfOptions, Db, Options};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Db::open(folder.path().join("db"), Options::default())?;
/// let log = db.column_family("log", CfOptions::default().reverse(true))?;
/// for day in ["2026-01-30", "2026-01-31", "2026-02-01", "2026-02-02"] {
///     log.put(day, "")?;
/// }
/// // The newest two, and what lies from February 1st back to, not including, January 30th.
/// let newest: Vec<_> = log.iter().take(2).collect::<Result<_, _>>()?;
/// assert_eq!(newest[0].0, b"2026-02-02");
/// let range: Vec<_> = log.range("2026-02-01".."2026-01-30").collect::<Result<_, _>>()?;
/// assert_eq!((&*range[0].0, &*range[1].0), (&b"2026-02-01"[..], &b"2026-01-31"[..]));
/// assert_eq!(range.len(), 2);
/// # Ok::<(), thermocline::Error>(())
/// ```
///
/// After [`Db::drop_column_family`] all of this is [`Error::InvalidArgument`] naming the family,
/// also once another one of its name is made.
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    pub(crate) db: Db,
    pub(crate) family: Family,
    name: Arc<str>,
}

impl ColumnFamily {
    pub(crate) fn new(db: Db, family: Family, name: &str) -> ColumnFamily {
        ColumnFamily {
            db,
            family,
            name: name.into(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was made with. How its keys are divided is set only if it was then; else the database's options say.
    pub fn options(&self) -> CfOptions {
        self.db.engine.family_options(self.family)
    }

    /// As [`Db::put`], in this family.
    ///
    /// # Errors
    /// As [`Db::put`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`Db::put_with`], in this family.
    ///
    /// # Errors
    /// As [`Db::put_with`].
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.db.put_in(self.family.id, key, value, options.into())
    }

    /// As [`Db::delete`], in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`Db::delete_with`], in this family.
    ///
    /// # Errors
    /// As [`Db::put_with`].
    pub fn delete_with(
        &self,
        key: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.db
            .delete_in(self.family.id, key.as_ref(), options.into())
    }

    /// As [`Db::delete_range`], in this family: from the bound that comes first in its order to the other.
    /// Where keys descend, `"z".."a"` removes `z` and all keys below it down to `a`, which stays.
    ///
    /// # Errors
    /// As [`Db::delete_range`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default())
    }

    /// As [`Db::delete_range_with`], in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete_range`]; [`Error::Busy`] if the options ask not to wait.
    pub fn delete_range_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        options: impl Into<WriteOptions>,
    ) -> Result<()> {
        self.db
            .delete_range_in(self.family, &owned(&range), options.into())
    }

    /// As [`Db::delete_prefix`], in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::delete_range`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let bounds = prefix_bounds(prefix.as_ref(), self.family.reverse);
        self.db
            .delete_range_in(self.family, &bounds, WriteOptions::default())
    }

    /// As [`Db::get`], in this family.
    ///
    /// # Errors
    /// As [`Db::get`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.get_in(self.family.id, key.as_ref())
    }

    /// As [`Db::compact`], in this family, whose order the bounds are in.
    ///
    /// # Errors
    /// As [`Db::compact`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn compact<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.db.compact_in(self.family, range)
    }

    /// As [`Db::compact_level0`], in this family.
    ///
    /// # Errors
    /// As [`Db::compact_level0`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn compact_level0(&self) -> Result<()> {
        self.db.engine.compact_level0(self.family.id)
    }

    /// As [`Db::multi_get`], in this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        Snapshot::new(self.db.engine.snapshot(), self.family).multi_get(keys)
    }

    /// As [`Db::metadata`], of this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::get`].
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.db.engine.metadata(self.family.id, Value::copy)
    }

    /// As [`Db::iter`], in this family.
    pub fn iter(&self) -> Scan {
        self.db.iter_in(self.family)
    }

    /// As [`Db::range`], in this family: from the bound that comes first in its order to the other.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.db.range_in(self.family, range)
    }

    /// As [`Db::prefix`], in this family.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.db.prefix_in(self.family, prefix)
    }

    /// As [`Db::approximate_size`], of this family: from the bound that comes first in its order to the
    /// other.
    ///
    /// # Errors
    /// As [`Db::approximate_size`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn approximate_size<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Result<RangeSize> {
        Ok(self.db.sizes_in(self.family, [range])?[0])
    }

    /// As [`Db::approximate_sizes`], of this family.
    ///
    /// # Errors
    /// As [`ColumnFamily::approximate_size`].
    pub fn approximate_sizes<K: AsRef<[u8]>, R: RangeBounds<K>>(
        &self,
        ranges: impl IntoIterator<Item = R>,
    ) -> Result<Vec<RangeSize>> {
        self.db.sizes_in(self.family, ranges)
    }

    /// As [`Db::cursor`], in this family.
    ///
    /// # Errors
    /// As [`Db::cursor`]; [`Error::InvalidArgument`] once the family was dropped.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.db.engine.cursor(self.family)?))
    }

    /// Its id, if it is one of `db`'s.
    pub(crate) fn check_owner(&self, db: &Db) -> Result<CfId> {
        if self.db.engine.is_same(&db.engine) {
            return Ok(self.family.id);
        }
        Err(Error::InvalidArgument(
            "a batch takes only column families of its own database".to_string(),
        ))
    }
}
