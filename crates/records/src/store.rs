//! What is needed of a store: the facade implements it, for its database, snapshots and transactions.

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

    /// The values of keys, in their order.
    ///
    /// # Errors
    /// Those of the store, for the first key that meets one.
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
    type Savepoint;

    /// As [`Reader::get`], of a key that nobody else changes before the commit.
    ///
    /// # Errors
    /// Those of the store.
    fn get_for_update(&mut self, family: &Self::Family, key: &[u8]) -> Result<Option<Self::Value>>;

    /// As [`Writer::get_for_update`], beside others that only want it not to change.
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

    /// This point.
    fn savepoint(&mut self) -> Self::Savepoint;

    /// Takes back what was written since.
    ///
    /// # Errors
    /// Those of the store.
    fn rollback_to(&mut self, savepoint: Self::Savepoint) -> Result<()>;
}

/// Where tables are.
pub trait Store {
    /// A column family.
    type Family;
    /// One moment of it.
    type Reader: Reader<Family = Self::Family>;
    /// A transaction.
    type Writer: Writer<Family = Self::Family>;

    /// The column family of this name, if there is one that tables can lie in.
    ///
    /// # Errors
    /// If there is one that they cannot lie in.
    fn find_family(&self, name: &str) -> Result<Option<Self::Family>>;

    /// The same, made if there is none.
    ///
    /// # Errors
    /// As [`Store::find_family`]; those of the store.
    fn make_family(&self, name: &str) -> Result<Self::Family>;

    /// The present moment.
    fn snapshot(&self) -> Self::Reader;

    /// A transaction that locks as it goes, and is durable once it has committed; or one that locks nothing.
    ///
    /// # Errors
    /// Those of the store.
    fn transaction(&self, locks: bool) -> Result<Self::Writer>;

    /// Makes its writes happen.
    ///
    /// # Errors
    /// Those of the store.
    fn commit(writer: Self::Writer) -> Result<()>;
}
