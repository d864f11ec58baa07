//! The traits that a store must have. The facade implements them for its database, snapshots and transactions.

use std::ops::{Bound, Deref};

use thermocline_base::Result;

/// Reads of one moment.
pub trait Reader {
    /// A column family.
    type Family;
    /// A value.
    type Value: Deref<Target = [u8]>;
    /// Entries of a range in the order of keys, from both ends.
    type Scan<'r>: DoubleEndedIterator<Item = Result<(Vec<u8>, Self::Value)>>
    where
        Self: 'r;

    /// The value of a key.
    ///
    /// # Errors
    /// Those of the store.
    fn get(&self, family: &Self::Family, key: &[u8]) -> Result<Option<Self::Value>>;

    /// The values of keys, in the order of the arguments.
    ///
    /// # Errors
    /// Those of the store, for the first key that fails.
    fn multi_get(
        &self,
        family: &Self::Family,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<Self::Value>>>;

    /// The entries between the bounds.
    fn scan(
        &self,
        family: &Self::Family,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Self::Scan<'_>;
}

/// A transaction.
pub trait Writer: Reader {
    /// A point to which its writes can be taken back.
    type Savepoint: Copy;

    /// As [`Reader::get`], for a key that no other transaction changes before the commit.
    ///
    /// # Errors
    /// Those of the store.
    fn get_for_update(&mut self, family: &Self::Family, key: &[u8]) -> Result<Option<Self::Value>>;

    /// As [`Writer::get_for_update`], but shared with others that only need the key not to change.
    ///
    /// # Errors
    /// Those of the store.
    fn get_for_share(&mut self, family: &Self::Family, key: &[u8]) -> Result<Option<Self::Value>>;

    /// Sets a key.
    ///
    /// # Errors
    /// Those of the store.
    fn put(&mut self, family: &Self::Family, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes a key.
    ///
    /// # Errors
    /// Those of the store.
    fn delete(&mut self, family: &Self::Family, key: &[u8]) -> Result<()>;

    /// Removes the keys between the bounds.
    ///
    /// # Errors
    /// Those of the store.
    fn delete_range(
        &mut self,
        family: &Self::Family,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Result<()>;

    /// Makes a point to which writes can be taken back.
    fn savepoint(&mut self) -> Self::Savepoint;

    /// Takes back all writes since this point.
    ///
    /// # Errors
    /// Those of the store.
    fn rollback_to(&mut self, savepoint: Self::Savepoint) -> Result<()>;

    /// Nothing is taken back to this point any more. It is the last one that was made and not forgotten.
    fn forget(&mut self, savepoint: Self::Savepoint);
}

/// A store that tables lie in.
pub trait Store {
    /// A column family.
    type Family;
    /// One moment of the store.
    type Reader: Reader<Family = Self::Family>;
    /// A transaction.
    type Writer: Writer<Family = Self::Family>;

    /// The column family of this name, if there is one.
    ///
    /// # Errors
    /// If tables cannot lie in it.
    fn find_family(&self, name: &str) -> Result<Option<Self::Family>>;

    /// As [`Store::find_family`]; makes the family if there is none.
    ///
    /// # Errors
    /// As [`Store::find_family`]; those of the store.
    fn make_family(&self, name: &str) -> Result<Self::Family>;

    /// The present moment.
    fn snapshot(&self) -> Self::Reader;

    /// A transaction. With `locks` it locks as it goes, otherwise it locks nothing. It is durable once it has
    /// committed.
    ///
    /// # Errors
    /// Those of the store.
    fn transaction(&self, locks: bool) -> Result<Self::Writer>;

    /// Commits a transaction.
    ///
    /// # Errors
    /// Those of the store.
    fn commit(writer: Self::Writer) -> Result<()>;
}
