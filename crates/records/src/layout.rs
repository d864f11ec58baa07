//! A stored schema made ready for use.

use std::borrow::Cow;

use thermocline_base::limits::KEY_LEN_MAX;
use thermocline_base::shown::shown;
use thermocline_base::{Error, Result};

use crate::field::{Decimal, Field, Row, Type, tuple};
use crate::format::key::{self, Cursor};
use crate::format::stored::{State, Stored, StoredIndex};
use crate::format::{Flaw, ROWS, row};
use crate::schema::Column;

/// A row's entry in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub key: Vec<u8>,
    /// If the entry's key names no row: the bytes of the row's key behind its space. Otherwise empty.
    pub value: Vec<u8>,
}

/// A table's schema of one generation.
#[derive(Debug)]
pub(crate) struct Layout {
    pub table: String,
    pub stored: Stored,
    /// The stored schema's bytes.
    pub bytes: Vec<u8>,
    /// For each column whether it belongs to the primary key.
    is_key: Vec<bool>,
}

impl Layout {
    pub fn new(table: &str, stored: Stored) -> Layout {
        let is_key = (0..stored.columns.len()).map(|column| stored.key.contains(&column));
        Layout {
            table: table.into(),
            is_key: is_key.collect(),
            bytes: stored.encode(),
            stored,
        }
    }

    /// The layout of a schema's stored bytes.
    pub fn read(table: &str, bytes: &[u8]) -> Result<Layout> {
        let stored = Stored::decode(bytes);
        let stored = stored.map_err(|flaw| flaw.error("schema", format!("table '{table}'")))?;
        Ok(Layout::new(table, stored))
    }

    fn columns<'a>(&'a self, numbers: &'a [usize]) -> impl Iterator<Item = &'a Column> {
        numbers.iter().map(|number| &self.stored.columns[*number])
    }

    /// The indexes that a write keeps.
    pub fn maintained(&self) -> impl Iterator<Item = &StoredIndex> {
        let indexes = self.stored.indexes.iter();
        indexes.filter(|index| index.state != State::Dropping)
    }

    /// The index of this name, if it can be read.
    pub fn ready(&self, name: &str) -> Result<&StoredIndex> {
        let index = self.maintained().find(|index| index.name == name);
        match index {
            Some(index) if index.state == State::Ready => Ok(index),
            Some(_) => Err(Error::Busy(format!(
                "index '{name}' of table '{}' is being built; read it when the table that declares it has been opened",
                self.table
            ))),
            None => Err(Error::InvalidArgument(format!(
                "table '{}' has no index '{name}' at the moment that is read",
                self.table
            ))),
        }
    }

    /// The values of all these columns, or of the first ones, as they are stored: integers of the column's kind, no
    /// -0.
    fn conform<'f, 'c>(
        &self,
        columns: impl Iterator<Item = &'c Column>,
        fields: &'f [Field],
    ) -> Result<Cow<'f, [Field]>> {
        let mut fields = Cow::Borrowed(fields);
        for (i, column) in columns.enumerate().take(fields.len()) {
            if let Some(other) = self.fit(column, &fields[i])? {
                fields.to_mut()[i] = other;
            }
        }
        Ok(fields)
    }

    /// The stored form of `field`, if it differs from `field`.
    fn fit(&self, column: &Column, field: &Field) -> Result<Option<Field>> {
        let refused = |why: String| {
            Err(Error::InvalidArgument(format!(
                "column '{}' of table '{}' {why}",
                column.name, self.table
            )))
        };
        match (column.kind, field) {
            (_, Field::Null) if column.is_nullable => Ok(None),
            (_, Field::Null) => refused("takes no NULL".into()),
            (Type::I64, Field::I64(_))
            | (Type::U64, Field::U64(_))
            | (Type::Bool, Field::Bool(_))
            | (Type::Text, Field::Text(_))
            | (Type::Bytes, Field::Bytes(_)) => Ok(None),
            (Type::I64, Field::U64(n)) => match i64::try_from(*n) {
                Ok(n) => Ok(Some(Field::I64(n))),
                Err(_) => refused(format!("takes i64 up to {}, but got {n}", i64::MAX)),
            },
            (Type::U64, Field::I64(n)) => match u64::try_from(*n) {
                Ok(n) => Ok(Some(Field::U64(n))),
                Err(_) => refused(format!("takes u64, but got {n}")),
            },
            (Type::F64, Field::F64(n)) if n.is_nan() => {
                refused("takes numbers, but got NaN".into())
            }
            (Type::F64, Field::F64(n)) => {
                let is_negative_zero = *n == 0.0 && n.is_sign_negative();
                Ok(is_negative_zero.then_some(Field::F64(0.0)))
            }
            (Type::Decimal(scale), Field::Decimal(Decimal { scale: of, .. })) if scale == *of => {
                Ok(None)
            }
            (kind, _) => refused(format!("takes {kind}, but got {} {field}", field.kind())),
        }
    }

    /// A row as it is stored.
    pub fn conform_row<'f>(&self, row: &'f [Field]) -> Result<Cow<'f, [Field]>> {
        let columns = &self.stored.columns;
        if row.len() != columns.len() {
            return Err(Error::InvalidArgument(format!(
                "table '{}' has {} columns, but the row has {} values",
                self.table,
                columns.len(),
                row.len()
            )));
        }
        self.conform(columns.iter(), row)
    }

    /// The bytes of values of the first of these columns, behind `space`. `what` names the columns in errors.
    pub fn prefix(
        &self,
        space: u8,
        (what, columns): (&str, &[usize]),
        fields: &[Field],
    ) -> Result<Vec<u8>> {
        if fields.len() > columns.len() {
            return Err(Error::InvalidArgument(format!(
                "{what} of table '{}' has {} columns, but {} has {} values",
                self.table,
                columns.len(),
                tuple(fields),
                fields.len()
            )));
        }
        let fields = self.conform(self.columns(columns), fields)?;
        let mut out = vec![space];
        for (column, field) in self.columns(columns).zip(&*fields) {
            key::put(&mut out, column, field);
        }
        self.check_len(what, &out)?;
        Ok(out)
    }

    fn check_len(&self, what: &str, key: &[u8]) -> Result<()> {
        if key.len() > KEY_LEN_MAX {
            return Err(Error::InvalidArgument(format!(
                "{what} of table '{}' has {} bytes, more than the limit of {KEY_LEN_MAX} of keys; index shorter values",
                self.table,
                key.len()
            )));
        }
        Ok(())
    }

    /// The key of the row with this primary key.
    pub fn key_of(&self, fields: &[Field]) -> Result<Vec<u8>> {
        if fields.len() < self.stored.key.len() {
            return Err(Error::InvalidArgument(format!(
                "the primary key of table '{}' has {} columns, but {} has {} values; for all rows that begin so, scan \
                 the prefix",
                self.table,
                self.stored.key.len(),
                tuple(fields),
                fields.len()
            )));
        }
        self.prefix(ROWS, ("the primary key", &self.stored.key), fields)
    }

    fn put_columns(&self, out: &mut Vec<u8>, columns: &[usize], row: &[Field]) {
        for number in columns {
            key::put(out, &self.stored.columns[*number], &row[*number]);
        }
    }

    /// The key of a row in its stored form.
    pub fn row_key(&self, row: &[Field]) -> Result<Vec<u8>> {
        let mut out = vec![ROWS];
        self.put_columns(&mut out, &self.stored.key, row);
        self.check_len("the primary key", &out)?;
        Ok(out)
    }

    /// The value of a row in its stored form.
    pub fn row_value(&self, row: &[Field]) -> Vec<u8> {
        row::encode(row, &self.is_key)
    }

    /// The entry in the index of a row in its stored form.
    pub fn entry(&self, index: &StoredIndex, row: &[Field], row_key: &[u8]) -> Result<Entry> {
        let mut key = vec![index.space];
        self.put_columns(&mut key, &index.columns, row);
        let has_null = index.columns.iter().any(|column| row[*column].is_null());
        let names_row = !index.is_unique || has_null;
        let (_, primary) = row_key.split_at(1);
        if names_row {
            key.extend_from_slice(primary);
        }
        if key.len() > KEY_LEN_MAX {
            self.check_len(&format!("an entry of index '{}'", index.name), &key)?;
        }
        let value = if names_row { &[] } else { primary };
        Ok(Entry {
            key,
            value: value.to_vec(),
        })
    }

    /// The row with this key and value.
    pub fn row(&self, key: &[u8], value: &[u8]) -> Result<Row> {
        let mut row = vec![Field::Null; self.stored.columns.len()];
        for (number, field) in self.stored.key.iter().zip(self.key_fields(key)?) {
            row[*number] = field;
        }
        let columns = (&self.stored.columns[..], &self.is_key[..]);
        let read = row::decode(value, columns, &mut row);
        read.map_err(|flaw| flaw.error("row", self.place(key)))?;
        Ok(row)
    }

    /// As [`Layout::row`], for a reader that has not asked for the schema of its moment: columns may have come since.
    pub fn row_of_any_schema(&self, key: &[u8], value: &[u8]) -> Result<Row> {
        let known = self.stored.columns.len();
        match row::columns(value).filter(|count| *count > known) {
            None => self.row(key, value),
            Some(count) => Err(Error::InvalidArgument(format!(
                "{}: the row has {count} columns, and this handle of the table knows {known}: the table has got columns since \
                 it was opened; open it again with its schema",
                self.place(key)
            ))),
        }
    }

    /// The primary key in a row's key.
    pub fn key_fields(&self, key: &[u8]) -> Result<Vec<Field>> {
        let mut cursor = Cursor::new(key, 1);
        let fields = self.columns(&self.stored.key);
        let fields: Result<Vec<_>, _> = fields.map(|column| cursor.field(column)).collect();
        let fields = fields.and_then(|fields| cursor.end().map(|()| fields));
        fields.map_err(|flaw| {
            let place = format!("table '{}', key '{}'", self.table, shown(key));
            flaw.error("key of a row", place)
        })
    }

    /// The place of a row, for messages.
    pub fn place(&self, key: &[u8]) -> String {
        let key = match self.key_fields(key) {
            Ok(fields) => tuple(&fields),
            Err(_) => format!("'{}'", shown(key)),
        };
        format!("table '{}', key {key}", self.table)
    }

    /// The key of the row that an entry leads to.
    pub fn row_of(&self, index: &StoredIndex, key: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let broken = |flaw: Flaw| {
            let place = format!("table '{}', entry '{}'", self.table, shown(key));
            flaw.error(&format!("entry of index '{}'", index.name), place)
        };
        let mut cursor = Cursor::new(key, 1);
        let mut has_null = false;
        for column in self.columns(&index.columns) {
            has_null |= cursor.field(column).map_err(broken)?.is_null();
        }
        let primary = if index.is_unique && !has_null {
            cursor.end().map_err(broken)?;
            value
        } else {
            &key[cursor.at()..]
        };
        let row_key = [&[ROWS], primary].concat();
        if row_key.len() > KEY_LEN_MAX {
            // No such key can be asked for.
            let (at_most, got) = (format!("at most {KEY_LEN_MAX} bytes"), row_key.len());
            return Err(broken(Flaw::new(0, at_most, got)));
        }
        Ok(row_key)
    }

    /// The values of a row in an index, for messages.
    pub fn indexed(&self, index: &StoredIndex, row: &[Field]) -> String {
        let fields = index.columns.iter().map(|column| row[*column].clone());
        tuple(&fields.collect::<Vec<_>>())
    }

    /// The numbers of the columns of the primary key.
    pub fn key_columns(&self) -> &[usize] {
        &self.stored.key
    }
}
