//! Tables of records: typed columns, a primary key, secondary indexes that change in the same transaction as the rows.
//!
//! A [`Schema`] declares a table in code, and the store keeps it. [`Table::open`] adds what the schema adds, and
//! refuses any other difference from what is kept. Reads take a [`Snapshot`] or a [`Transaction`], writes a
//! transaction.
//!
//! ```
//! use thermocline::records::{Schema, Table, Type, fields};
//! use thermocline::{Db, Error, Options, TxnOptions};
//! # let folder = tempfile::tempdir().unwrap();
//! # let db = Db::open(folder.path().join("db"), Options::default())?;
//! let customers = Schema::new("customers")
//!     .column("id", Type::U64)
//!     .column("email", Type::Text)
//!     .nullable("city", Type::Text)
//!     .primary_key(["id"])
//!     .unique("by_email", ["email"])
//!     .index("by_city", ["city"]);
//! let customers = Table::open(&db, customers)?;
//!
//! let mut txn = db.transaction(TxnOptions::pessimistic())?;
//! customers.insert(&mut txn, &fields![1, "ada@example.org", "London"])?;
//! customers.insert(&mut txn, &fields![2, "emmy@example.org", "Erlangen"])?;
//! customers.insert(&mut txn, &fields![3, "kurt@example.org", None::<&str>])?;
//! let taken = customers.insert(&mut txn, &fields![4, "ada@example.org", "Paris"]);
//! assert!(matches!(taken, Err(Error::Duplicate(_)))); // by_email is unique
//! customers.update(&mut txn, &fields![3], |row| row[2] = "Erlangen".into())?;
//! txn.commit()?;
//!
//! let now = db.snapshot();
//! let ada = customers.index("by_email")?.get(&now, &fields!["ada@example.org"])?;
//! assert_eq!(ada, Some(fields![1u64, "ada@example.org", "London"]));
//! let mut ids = Vec::new();
//! for row in customers.index("by_city")?.prefix(&now, &fields!["Erlangen"])? {
//!     ids.push(row?[0].clone());
//! }
//! assert_eq!(ids, fields![2u64, 3u64]);
//! assert_eq!(customers.range(&now, fields![2]..)?.count(), 2);
//! # Ok::<(), thermocline::Error>(())
//! ```
//!
//! A column that is added later is nullable, and comes behind the others. An added index gets entries for the
//! existing rows:
//!
//! ```
//! # use thermocline::records::{Schema, Table, Type, fields};
//! # use thermocline::{Db, Options, TxnOptions};
//! # let folder = tempfile::tempdir().unwrap();
//! # let db = Db::open(folder.path().join("db"), Options::default())?;
//! let before = Schema::new("parts").column("id", Type::U64).primary_key(["id"]);
//! let parts = Table::open(&db, before.clone())?;
//! let mut txn = db.transaction(TxnOptions::pessimistic())?;
//! parts.insert(&mut txn, &fields![7])?;
//! txn.commit()?;
//!
//! let parts = before.nullable("price", Type::Decimal(2)).index("by_price", ["price"]);
//! let parts = Table::open(&db, parts)?;
//! let unpriced = parts.index("by_price")?.prefix(&db.snapshot(), &fields![None::<u64>])?.count();
//! assert_eq!(unpriced, 1);
//! # Ok::<(), thermocline::Error>(())
//! ```
//!
//! A table is a column family of its name. [`Db::drop_column_family`](crate::Db::drop_column_family) drops it. To
//! give that family options of its own, make it with [`Db::column_family`](crate::Db::column_family) before the table
//! is first opened. `FORMATS.md` describes keys, rows and the schema.

use std::ops::Bound;

use thermocline_base::{Error, Result};
use thermocline_engine::Engine;

use crate::{ColumnFamily, Savepoint, Scan, Snapshot, Transaction, TransactionScan, Value};

pub use thermocline_records::{
    COLUMNS_MAX, Column, DECIMAL_SCALE_MAX, Decimal, FAULTS_MAX, Field, INDEXES_MAX, IndexKeys,
    IndexRows, IndexSchema, NAME_LEN_MAX, Reader, Row, Rows, Schema, Store, TableReport, Type,
    Writer, fields,
};

/// A table of a [`Db`](crate::Db); see [`thermocline_records::Table`].
pub type Table = thermocline_records::Table<ColumnFamily>;

/// An index of a [`Table`]; see [`thermocline_records::Index`].
pub type Index<'t> = thermocline_records::Index<'t, ColumnFamily>;

impl Reader for Snapshot {
    type Family = ColumnFamily;
    type Value = Value;
    type Scan<'r> = Scan;

    fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.column_family(family)?.get(key)
    }

    fn multi_get(&self, family: &ColumnFamily, keys: &[Vec<u8>]) -> Result<Vec<Option<Value>>> {
        self.column_family(family)?.multi_get(keys)
    }

    fn scan(&self, family: &ColumnFamily, range: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Scan {
        match self.column_family(family) {
            Ok(of) => of.range(range),
            Err(error) => Scan::new(Err(error), range),
        }
    }
}

impl Reader for Transaction {
    type Family = ColumnFamily;
    type Value = Value;
    type Scan<'r> = TransactionScan<'r>;

    fn get(&self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.get_cf(family, key)
    }

    fn multi_get(&self, family: &ColumnFamily, keys: &[Vec<u8>]) -> Result<Vec<Option<Value>>> {
        self.multi_get_cf(keys.iter().map(|key| (family, key)))
    }

    fn scan(
        &self,
        family: &ColumnFamily,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> TransactionScan<'_> {
        self.range_cf(family, range)
    }
}

impl Writer for Transaction {
    type Savepoint = Savepoint;

    fn get_for_update(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.get_for_update_cf(family, key)
    }

    fn get_for_share(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<Option<Value>> {
        self.get_for_share_cf(family, key)
    }

    fn put(&mut self, family: &ColumnFamily, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_cf(family, key, value)
    }

    fn delete(&mut self, family: &ColumnFamily, key: &[u8]) -> Result<()> {
        self.delete_cf(family, key)
    }

    fn delete_range(
        &mut self,
        family: &ColumnFamily,
        range: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    ) -> Result<()> {
        self.delete_range_cf(family, range)
    }

    fn savepoint(&mut self) -> Savepoint {
        Transaction::savepoint(self)
    }

    fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        Transaction::rollback_to(self, savepoint)
    }

    fn forget(&mut self, savepoint: Savepoint) {
        self.inner.forget(savepoint);
    }
}

/// A table loses its schema, and indexes their rows, where single entries go by themselves.
pub(crate) fn keeps_entries(engine: &Engine, family: &str) -> Result<()> {
    match engine.loses_entries(family) {
        false => Ok(()),
        true => Err(Error::InvalidArgument(format!(
            "column family '{family}' was given a TTL or a compaction filter, and a table cannot lose single entries; open the \
             database without it, or give the table another name"
        ))),
    }
}

/// Tables need ascending keys.
pub(crate) fn ascending(family: ColumnFamily) -> Result<ColumnFamily> {
    match family.family.reverse {
        false => Ok(family),
        true => Err(Error::InvalidArgument(format!(
            "column family '{}' has descending keys, and a table needs ascending ones; give the table another name",
            family.name()
        ))),
    }
}
