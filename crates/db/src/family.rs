//! Column families.

use std::ops::{Bound, RangeBounds};

use thermocline_base::{CfId, Error, Result};

use crate::scan::{owned, prefix_bounds};
use crate::{Cursor, Db, Scan, Snapshot, Value, WriteOptions};

/// A named, ordered map of its own within a database. Families share batches: one batch can change
/// several, as one.
#[derive(Debug, Clone)]
pub struct ColumnFamily {
    pub(crate) db: Db,
    pub(crate) id: CfId,
}

impl ColumnFamily {
    /// As [`Db::put`], in this family.
    ///
    /// # Errors
    /// As [`Db::put`].
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
        self.db.put_in(self.id, key, value, options.into())
    }

    /// As [`Db::delete`], in this family.
    ///
    /// # Errors
    /// As [`Db::delete`].
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
        self.db.delete_in(self.id, key.as_ref(), options.into())
    }

    /// As [`Db::get`], in this family.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.db.get_in(self.id, key.as_ref())
    }

    /// As [`Db::multi_get`], in this family.
    ///
    /// # Errors
    /// As [`Db::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        Snapshot::new(self.db.engine.snapshot(), self.id).multi_get(keys)
    }

    /// As [`Db::iter`], in this family.
    pub fn iter(&self) -> Scan {
        self.db.scan_in(self.id, Bound::Unbounded, Bound::Unbounded)
    }

    /// As [`Db::range`], in this family.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        let (low, high) = owned(&range);
        self.db.scan_in(self.id, low, high)
    }

    /// As [`Db::prefix`], in this family.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        let (low, high) = prefix_bounds(prefix.as_ref());
        self.db.scan_in(self.id, low, high)
    }

    /// As [`Db::cursor`], in this family.
    ///
    /// # Errors
    /// As [`Db::cursor`].
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.db.engine.cursor(self.id)))
    }

    /// Its id, if it is one of `db`'s.
    pub(crate) fn check_owner(&self, db: &Db) -> Result<CfId> {
        if self.db.engine.is_same(&db.engine) {
            return Ok(self.id);
        }
        Err(Error::InvalidArgument(
            "a batch takes only column families of its own database".to_string(),
        ))
    }
}
