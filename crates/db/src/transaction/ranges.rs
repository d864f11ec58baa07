//! Deletes of ranges in a transaction.

use std::ops::RangeBounds;

use thermocline_base::Result;
use thermocline_engine::Family;

use crate::range::{Bounds, byte_range};
use crate::scan::{owned, prefix_bounds};
use crate::{ColumnFamily, Transaction};

impl Transaction {
    /// Removes all keys in `range` from the default column family, when the transaction commits; see
    /// [`Db::delete_range`](crate::Db::delete_range). Keys that the transaction puts there later stay.
    ///
    /// A pessimistic transaction locks each key of the range, its first one in any case, and the range against new keys.
    /// So it costs as much as reading the range, and waits for who deleted parts of it. An optimistic one pays little.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::InvalidArgument`] if the range ends before it begins.
    pub fn delete_range<K: AsRef<[u8]>>(&mut self, range: impl RangeBounds<K>) -> Result<()> {
        self.remove_range(Family::DEFAULT, &owned(&range))
    }

    /// As [`Transaction::delete_range`], in `cf`, with the bounds in its order.
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

    /// Removes all keys that begin with `prefix` from the default column family, when the transaction commits; see
    /// [`Transaction::delete_range`].
    ///
    /// ```
    /// # use thermocline::{Db, Options, TxnOptions};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = Db::open(folder.path().join("db"), Options::default())?;
    /// for item in ["cart:7:apple", "cart:7:pear", "cart:8:plum"] {
    ///     db.put(item, "1")?;
    /// }
    /// let mut txn = db.transaction(TxnOptions::pessimistic())?;
    /// txn.delete_prefix("cart:7:")?;
    /// txn.put("order:42", "open")?;
    /// assert_eq!(txn.prefix("cart:").count(), 1);
    /// txn.commit()?;
    /// assert_eq!(db.prefix("cart:").count(), 1);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let bounds = prefix_bounds(prefix.as_ref(), false);
        self.remove_range(Family::DEFAULT, &bounds)
    }

    /// As [`Transaction::delete_prefix`], in `cf`.
    ///
    /// # Errors
    /// As [`Transaction::put_cf`].
    pub fn delete_prefix_cf(&mut self, cf: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Result<()> {
        let family = self.family(cf)?;
        let bounds = prefix_bounds(prefix.as_ref(), family.reverse);
        self.remove_range(family, &bounds)
    }

    fn remove_range(&mut self, family: Family, bounds: &Bounds) -> Result<()> {
        match byte_range(bounds, family.reverse)? {
            Some((start, end)) => self.inner.delete_range(family, &start, end.as_deref()),
            // Without keys. Whether it may go on is asked all the same.
            None => self.inner.delete_range(family, &[], Some(&[])),
        }
    }
}
