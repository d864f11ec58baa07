//! The handle of a table, and reads.

use std::ops::RangeBounds;
use std::sync::{Arc, PoisonError, RwLock};

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};

use crate::field::{Field, Row};
use crate::format::{ROWS, SCHEMA_KEY};
use crate::layout::Layout;
use crate::range::{bytes, prefix_bytes};
use crate::scan::{IndexKeys, IndexRows, Rows};
use crate::schema::Schema;
use crate::store::{Reader, Writer};

/// A table of a store, opened with [`Table::open`]. It is cheap to clone, and threads may share it.
///
/// Each read is given a snapshot or a transaction, each write a transaction. After the commit a row and its entries
/// in all indexes are there together; without it none is.
///
/// Nothing else should write to the table's column family. It may break the indexes; [`Table::verify`] finds that.
#[derive(Debug)]
pub struct Table<F> {
    shared: Arc<Shared<F>>,
}

#[derive(Debug)]
struct Shared<F> {
    family: F,
    schema: Schema,
    /// The layout of the newest generation that this handle has met.
    layout: RwLock<Arc<Layout>>,
}

impl<F> Clone for Table<F> {
    fn clone(&self) -> Self {
        Table {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<F> Table<F> {
    pub(crate) fn new(family: F, schema: Schema, layout: Layout) -> Table<F> {
        let layout = RwLock::new(Arc::new(layout));
        Table {
            shared: Arc::new(Shared {
                family,
                schema,
                layout,
            }),
        }
    }

    /// The table's name.
    pub fn name(&self) -> &str {
        &self.shared.schema.name
    }

    /// The schema with which the table was opened.
    pub fn schema(&self) -> &Schema {
        &self.shared.schema
    }

    /// The column family of the table.
    pub fn family(&self) -> &F {
        &self.shared.family
    }

    /// The newest layout that this handle has met. Rows and primary keys are the same in all.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        let layout = self.shared.layout.read();
        Arc::clone(&layout.unwrap_or_else(PoisonError::into_inner))
    }

    /// The layout of the schema that was just read.
    fn layout_of(&self, stored: Option<&[u8]>) -> Result<Arc<Layout>> {
        let known = self.layout();
        let bytes = match stored {
            Some(bytes) if bytes == known.bytes => return Ok(known),
            Some(bytes) => bytes,
            None => {
                return Err(Error::InvalidArgument(format!(
                    "table '{}' is not there at the moment that is read",
                    self.name()
                )));
            }
        };
        let mut layout = Layout::read(self.name(), bytes)?;
        let columns = &self.shared.schema.columns;
        if layout.stored.generation < known.stored.generation {
            // The schema is of an earlier moment. Columns that have come since are NULL in its rows.
            layout.stored.columns.clone_from(columns);
            return Ok(Arc::new(Layout::new(self.name(), layout.stored)));
        }
        if layout.stored.columns != *columns {
            return Err(Error::InvalidArgument(format!(
                "table '{}' has got columns that this handle of it does not know; open it again with its schema",
                self.name()
            )));
        }
        let layout = Arc::new(layout);
        let slot = self.shared.layout.write();
        *slot.unwrap_or_else(PoisonError::into_inner) = Arc::clone(&layout);
        Ok(layout)
    }

    /// The layout of the schema at a reader's moment.
    pub(crate) fn read_layout<R: Reader<Family = F>>(&self, reader: &R) -> Result<Arc<Layout>> {
        let stored = reader.get(self.family(), &SCHEMA_KEY)?;
        self.layout_of(stored.as_deref())
    }

    /// The layout by which a transaction writes. Its schema does not change before the commit.
    pub(crate) fn write_layout<W: Writer<Family = F>>(&self, txn: &mut W) -> Result<Arc<Layout>> {
        let stored = match active(Bug::SchemaUnshared) {
            true => txn.get(self.family(), &SCHEMA_KEY)?,
            false => txn.get_for_share(self.family(), &SCHEMA_KEY)?,
        };
        self.layout_of(stored.as_deref())
    }

    /// The row with this primary key.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a key that does not fit, and for a row with columns that this handle does not know: open
    /// the table again then. [`Error::Corruption`] naming table and key if the row does not decode; those of the store.
    pub fn get<R: Reader<Family = F>>(&self, reader: &R, key: &[Field]) -> Result<Option<Row>> {
        let layout = self.layout();
        let key = layout.key_of(key)?;
        let value = reader.get(self.family(), &key)?;
        let row = |value: R::Value| layout.row_of_any_schema(&key, &value);
        value.map(row).transpose()
    }

    /// As [`Table::get`], for a row that no other transaction changes before the commit; otherwise the commit is
    /// refused.
    ///
    /// # Errors
    /// As [`Table::get`]; those of locking.
    pub fn get_for_update<W: Writer<Family = F>>(
        &self,
        txn: &mut W,
        key: &[Field],
    ) -> Result<Option<Row>> {
        let layout = self.layout();
        let key = layout.key_of(key)?;
        let value = txn.get_for_update(self.family(), &key)?;
        let row = |value: W::Value| layout.row_of_any_schema(&key, &value);
        value.map(row).transpose()
    }

    /// The rows with these primary keys, in the order of the arguments.
    ///
    /// # Errors
    /// As [`Table::get`], for the first key that fails.
    pub fn multi_get<R: Reader<Family = F>, K: AsRef<[Field]>>(
        &self,
        reader: &R,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<Row>>> {
        let layout = self.layout();
        let keys = keys.into_iter().map(|key| layout.key_of(key.as_ref()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let values = reader.multi_get(self.family(), &keys)?;
        let rows = values.into_iter().zip(&keys);
        let row = |(value, key): (Option<R::Value>, &Vec<u8>)| {
            let row = value.map(|value| layout.row_of_any_schema(key, &value));
            row.transpose()
        };
        rows.map(row).collect()
    }

    /// The rows whose primary keys lie in `range`, in key order, from both ends. A bound with fewer values than the
    /// key has columns stands for all keys that begin with these values. The iterator ends after an error.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for values that do not fit, or a range that ends before it begins.
    pub fn range<'r, R: Reader<Family = F>>(
        &self,
        reader: &'r R,
        range: impl RangeBounds<Vec<Field>>,
    ) -> Result<Rows<'r, R>> {
        let layout = self.layout();
        let named = ("the primary key", layout.key_columns());
        let range = bytes(&layout, ROWS, named, &range)?;
        let scan = range.map(|range| reader.scan(self.family(), range));
        Ok(Rows::new(scan, layout))
    }

    /// As [`Table::range`], for the rows whose primary keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Table::range`].
    pub fn prefix<'r, R: Reader<Family = F>>(
        &self,
        reader: &'r R,
        prefix: &[Field],
    ) -> Result<Rows<'r, R>> {
        let layout = self.layout();
        let named = ("the primary key", layout.key_columns());
        let range = prefix_bytes(&layout, ROWS, named, prefix)?;
        let scan = Some(reader.scan(self.family(), range));
        Ok(Rows::new(scan, layout))
    }

    /// An index of the table.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the schema has none of this name.
    pub fn index(&self, name: &str) -> Result<Index<'_, F>> {
        let indexes = &self.shared.schema.indexes;
        match indexes.iter().find(|index| index.name == name) {
            Some(index) => Ok(Index {
                table: self,
                name: &index.name,
            }),
            None => {
                let names: Vec<_> = indexes.iter().map(|index| index.name.as_str()).collect();
                Err(Error::InvalidArgument(format!(
                    "the schema of table '{}' has no index '{name}'; it has: {}",
                    self.name(),
                    names.join(", ")
                )))
            }
        }
    }
}

/// An index of a table, for reading. All reads need the index at their moment: they fail with [`Error::Busy`] while
/// it is built, and with [`Error::InvalidArgument`] before.
#[derive(Debug)]
pub struct Index<'t, F> {
    table: &'t Table<F>,
    name: &'t str,
}

impl<F> Index<'_, F> {
    /// The row with these values in a unique index: one for each of its columns, none of them NULL.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the index is not unique, or the values do not fit; as [`Table::get`].
    pub fn get<R: Reader<Family = F>>(&self, reader: &R, values: &[Field]) -> Result<Option<Row>> {
        let layout = self.table.read_layout(reader)?;
        let index = layout.ready(self.name)?;
        let is_whole = values.len() == index.columns.len() && !values.iter().any(Field::is_null);
        if !index.is_unique || !is_whole {
            return Err(Error::InvalidArgument(format!(
                "index '{}' of table '{}' gives one row only if it is unique, for values of all its {} columns of which \
                 none is NULL; otherwise scan the prefix",
                self.name,
                self.table.name(),
                index.columns.len()
            )));
        }
        let named = (self.name, &index.columns[..]);
        let key = layout.prefix(index.space, named, values)?;
        let family = self.table.family();
        let Some(primary) = reader.get(family, &key)? else {
            return Ok(None);
        };
        let row_key = layout.row_of(index, &key, &primary)?;
        match reader.get(family, &row_key)? {
            Some(value) => layout.row(&row_key, &value).map(Some),
            None => Err(crate::scan::no_row(&layout, self.name, &row_key)),
        }
    }

    /// The rows whose indexed values lie in `range`, from both ends. They are ordered by these values, then by the
    /// primary key. Bounds are as those of [`Table::range`]. Rows are read some at a time.
    ///
    /// # Errors
    /// As [`Table::range`].
    pub fn range<'r, R: Reader<Family = F>>(
        &self,
        reader: &'r R,
        range: impl RangeBounds<Vec<Field>>,
    ) -> Result<IndexRows<'r, R>>
    where
        F: Clone,
    {
        Ok(self.keys(reader, range)?.rows(reader, self.table.family()))
    }

    /// As [`Index::range`], for the rows whose indexed values begin with `prefix`.
    ///
    /// # Errors
    /// As [`Table::range`].
    pub fn prefix<'r, R: Reader<Family = F>>(
        &self,
        reader: &'r R,
        prefix: &[Field],
    ) -> Result<IndexRows<'r, R>>
    where
        F: Clone,
    {
        let keys = self.prefix_keys(reader, prefix)?;
        Ok(keys.rows(reader, self.table.family()))
    }

    /// As [`Index::range`]; gives only the primary keys, and reads no row.
    ///
    /// # Errors
    /// As [`Table::range`].
    pub fn keys<'r, R: Reader<Family = F>>(
        &self,
        reader: &'r R,
        range: impl RangeBounds<Vec<Field>>,
    ) -> Result<IndexKeys<'r, R>> {
        let layout = self.table.read_layout(reader)?;
        let index = layout.ready(self.name)?.clone();
        let range = bytes(&layout, index.space, (self.name, &index.columns), &range)?;
        let scan = range.map(|range| reader.scan(self.table.family(), range));
        Ok(IndexKeys::new(scan, layout, index))
    }

    /// As [`Index::keys`], for the rows whose indexed values begin with `prefix`.
    ///
    /// # Errors
    /// As [`Table::range`].
    pub fn prefix_keys<'r, R: Reader<Family = F>>(
        &self,
        reader: &'r R,
        prefix: &[Field],
    ) -> Result<IndexKeys<'r, R>> {
        let layout = self.table.read_layout(reader)?;
        let index = layout.ready(self.name)?.clone();
        let range = prefix_bytes(&layout, index.space, (self.name, &index.columns), prefix)?;
        let scan = Some(reader.scan(self.table.family(), range));
        Ok(IndexKeys::new(scan, layout, index))
    }
}
