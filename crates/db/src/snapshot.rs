//! Snapshots: one moment of the store to read at.

use std::ops::{Bound, RangeBounds};

use thermocline_base::batch::check_key;
use thermocline_base::{Error, Result};
use thermocline_engine::{Family, Operation};

use crate::keys::{values_async_at, values_async_of, values_at, values_of};
use crate::range::Bounds;
use crate::scan::{owned, prefix_bounds};
use crate::{ColumnFamily, Cursor, PendingRead, Scan, Value};

/// One moment of the store. Reads answer as they would have then, whatever is written meanwhile, and a batch is there
/// whole or not at all. Made by [`crate::Db::snapshot`].
///
/// A snapshot costs next to nothing to make and to clone. While it is held, the store keeps the version that it sees
/// of each overwritten key, wherever that version is moved, and nothing else. So it may be held for as long as one
/// likes. When the last clone is dropped, and the last iterator made from it, these versions go as their keys are
/// written again. A snapshot does not keep the database open. Its reads go on after [`crate::Db::close`], also while
/// the database is open again.
///
/// It reads the default column family; [`Snapshot::column_family`] gives the same moment of another one.
///
/// ```
/// # use thermocline::{CfOptions, Db, Options};
/// # let folder = tempfile::tempdir().unwrap();
/// # let db = Db::open(folder.path().join("db"), Options::default())?;
/// let archive = db.column_family("archive", CfOptions::default())?;
/// db.put("order:42", "open")?;
/// let before = db.snapshot();
/// db.put("order:42", "paid")?;
/// archive.put("order:41", "paid")?;
///
/// assert_eq!(before.get("order:42")?.as_deref(), Some(b"open".as_slice()));
/// assert_eq!(db.get("order:42")?.as_deref(), Some(b"paid".as_slice()));
/// assert_eq!(before.column_family(&archive)?.iter().count(), 0);
/// # Ok::<(), thermocline::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Snapshot {
    moment: thermocline_engine::Snapshot,
    family: Family,
}

impl Snapshot {
    pub(crate) fn new(moment: thermocline_engine::Snapshot, family: Family) -> Snapshot {
        Snapshot { moment, family }
    }

    /// The same moment of the column family `cf`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `cf` is one of another database, or had been dropped at this
    /// moment. One that was dropped later is there.
    pub fn column_family(&self, cf: &ColumnFamily) -> Result<Snapshot> {
        self.check(cf)?;
        Ok(Snapshot {
            family: cf.family,
            ..self.clone()
        })
    }

    /// The sequence number of the snapshot: it has all changes up to this one, and none after it. From this number
    /// on, [`crate::Db::changes_since`] gives what a copy made from the snapshot lacks.
    pub fn seqno(&self) -> u64 {
        self.moment.seqno().0
    }

    fn check(&self, cf: &ColumnFamily) -> Result<()> {
        if !self.moment.is_of(&cf.engine) {
            return Err(Error::InvalidArgument(format!(
                "a snapshot reads only column families of its own database, and this handle of '{}' is of another opening or \
                 database",
                cf.name()
            )));
        }
        self.moment.check(cf.family.id)
    }

    /// The value that `key` had.
    ///
    /// # Errors
    /// As [`crate::Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        check_key(key)?;
        let times = self.moment.latencies();
        times.time(Operation::Get, || self.moment.value(self.family.id, key))
    }

    /// As [`Snapshot::get`], as a future; see [`crate::Db::get_async`].
    ///
    /// # Errors
    /// The future's answer has those of [`Snapshot::get`].
    pub fn get_async(&self, key: impl AsRef<[u8]>) -> PendingRead<Option<Value>> {
        let key = key.as_ref();
        match check_key(key) {
            Ok(()) => self.moment.value_async(self.family.id, key),
            Err(error) => PendingRead::done(Err(error)),
        }
    }

    /// The values that `keys` had, in their order. What lies on the device is read together.
    ///
    /// # Errors
    /// As [`crate::Db::get`], for the first key that fails; nothing is read if a key is past the limit.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Value>>> {
        values_at(&self.moment, self.family, keys)
    }

    /// As [`Snapshot::multi_get`], as a future; see [`crate::Db::multi_get_async`].
    ///
    /// # Errors
    /// The future's answer has those of [`Snapshot::multi_get`].
    pub fn multi_get_async<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> PendingRead<Vec<Option<Value>>> {
        values_async_at(&self.moment, self.family, keys)
    }

    /// The values that keys had in several column families, in their order; see
    /// [`crate::Db::multi_get_cf`].
    ///
    /// # Errors
    /// As [`crate::Db::get`] and [`Snapshot::column_family`], for the first key that fails.
    pub fn multi_get_cf<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> Result<Vec<Option<Value>>> {
        let keys: Vec<_> = keys.into_iter().collect();
        let named = keys.iter().map(|(cf, key)| {
            self.check(cf)?;
            Ok((cf.family, key.as_ref()))
        });
        values_of(&self.moment, named)
    }

    /// As [`Snapshot::multi_get_cf`], as a future; see [`crate::Db::multi_get_async`].
    ///
    /// # Errors
    /// The future's answer has those of [`Snapshot::multi_get_cf`].
    pub fn multi_get_cf_async<'a, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'a ColumnFamily, K)>,
    ) -> PendingRead<Vec<Option<Value>>> {
        let named = keys.into_iter().map(|(cf, key)| {
            self.check(cf)?;
            Ok((cf.family, key))
        });
        values_async_of(&self.moment, named)
    }

    /// The metadata that the column family had; see [`crate::Db::metadata`].
    ///
    /// # Errors
    /// As [`crate::Db::get`].
    pub fn metadata(&self) -> Result<Option<Value>> {
        self.moment.metadata(self.family.id, Value::copy)
    }

    /// All entries at this moment, in key order, from both ends.
    pub fn iter(&self) -> Scan {
        self.scan((Bound::Unbounded, Bound::Unbounded))
    }

    /// The entries at this moment whose keys lie in `range`, from the bound that comes first in the family's order to the
    /// other. If the range ends before it begins, the first item is an [`Error::InvalidArgument`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan {
        self.scan(owned(&range))
    }

    /// The entries at this moment whose keys begin with `prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Scan {
        self.scan(prefix_bounds(prefix.as_ref(), self.family.reverse))
    }

    /// A cursor over the entries at this moment, at no key yet: a seek comes first.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the column family had been dropped at this moment.
    pub fn cursor(&self) -> Result<Cursor> {
        Ok(Cursor(self.moment.cursor(self.family)?))
    }

    fn scan(&self, bounds: Bounds) -> Scan {
        Scan::new(self.moment.cursor(self.family), bounds)
    }
}

#[cfg(test)]
mod tests {
    use crate::{CfOptions, Db, Durability, Error, Options, Result};

    fn open(folder: &tempfile::TempDir, name: &str) -> Db {
        let options = Options {
            pm: 16 << 20,
            ..Options::default()
        };
        Db::open(folder.path().join(name), options).unwrap()
    }

    fn keys(scan: crate::Scan) -> Vec<Vec<u8>> {
        scan.map(|entry| entry.unwrap().0).collect()
    }

    #[test]
    fn every_read_is_of_the_moment_and_the_family() {
        let folder = tempfile::tempdir().unwrap();
        let db = open(&folder, "db");
        let other = db.column_family("other", CfOptions::default()).unwrap();
        let mut batch = db.batch();
        batch.put("a", "1").put("b", "1").put_cf(&other, "c", "1");
        batch.commit(Durability::Immediate).unwrap();
        let then = db.snapshot();
        let then_other = then.column_family(&other).unwrap();
        let young = db.column_family("young", CfOptions::default()).unwrap();
        db.put("a", "2").unwrap();
        db.delete("b").unwrap();
        db.put("ba", "2").unwrap();
        young.put("a", "2").unwrap();
        other.delete("c").unwrap();

        assert_eq!(then.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(then.get("ba").unwrap(), None);
        assert_eq!(keys(then.iter()), [b"a", b"b"]);
        assert_eq!(keys(then.range("b".."c")), [b"b"]);
        assert_eq!(keys(then.prefix("b")), [b"b"]);
        assert_eq!(keys(then_other.iter()), [b"c"]);
        assert_eq!(keys(then.column_family(&young).unwrap().iter()).len(), 0);
        let mut cursor = then.cursor().unwrap();
        assert!(cursor.seek_to_last().unwrap() && cursor.key() == b"b");
        let values = then.multi_get(["b", "ba", "a"]).unwrap();
        let values: Vec<_> = values.iter().map(Option::as_deref).collect();
        assert_eq!(values, [Some(&b"1"[..]), None, Some(&b"1"[..])]);

        let now = db.multi_get(["b", "ba", "a"]).unwrap();
        let now: Vec<_> = now.iter().map(Option::as_deref).collect();
        assert_eq!(now, [None, Some(&b"2"[..]), Some(&b"2"[..])]);
        assert_eq!(other.multi_get([b"c"]).unwrap(), [None]);
        assert!(db.multi_get([vec![0; 65_536]]).is_err());
    }

    #[test]
    fn holds_are_counted_and_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let db = open(&folder, "db");
        db.put("a", "1").unwrap();
        let one = db.snapshot();
        let (two, scan) = (one.clone(), one.iter());
        assert_eq!(db.metrics().readers, 3);
        drop(one);
        drop(scan);
        assert_eq!(db.metrics().readers, 1);
        db.put("a", "2").unwrap();
        let stranger = open(&folder, "stranger");
        let theirs = stranger.find_column_family("default").unwrap();
        let error = two.column_family(&theirs).unwrap_err().to_string();
        assert!(error.contains("own database"), "{error}");
        assert_eq!(stranger.metrics().readers, 0);
        let watch = db.clone();
        db.close().unwrap();
        assert_eq!(two.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        drop(two);
        assert_eq!(watch.metrics().readers, 0);
    }

    /// It makes no difference to a handle that somebody else reads on, at the same moment, before the database is opened again
    /// and after that.
    #[test]
    fn a_handle_of_a_closed_database_reads_nothing_beside_one_who_reads_on() {
        let folder = tempfile::tempdir().unwrap();
        let db = open(&folder, "db");
        db.put("a", "1").unwrap();
        let (left, handle) = (db.snapshot(), db.clone());
        let mut cursor = left.cursor().unwrap();
        assert!(cursor.seek_to_first().unwrap());
        db.close().unwrap();
        let mut check = || {
            let answers: [Result<()>; 6] = [
                handle.get("a").map(drop),
                handle.multi_get(["a"]).map(drop),
                handle.snapshot().get("a").map(drop),
                handle.iter().next().unwrap().map(drop),
                handle.cursor().unwrap().seek_to_first().map(|_| ()),
                cursor.refresh(),
            ];
            for (n, answer) in answers.into_iter().enumerate() {
                assert!(matches!(answer, Err(Error::Closed)), "{n}: {answer:?}");
            }
            assert_eq!(left.get("a").unwrap().as_deref(), Some(&b"1"[..]));
            assert!(cursor.valid() && cursor.key() == b"a");
        };
        check();
        let again = open(&folder, "db");
        check();
        again.close().unwrap();
    }
}
