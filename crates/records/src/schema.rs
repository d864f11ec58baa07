//! A table's description, as code declares it.

use std::collections::HashSet;

use thermocline_base::limits::CF_NAME_LEN_MAX;
use thermocline_base::{Error, Result};

use crate::field::{DECIMAL_SCALE_MAX, Type};

/// Most columns of a table.
pub const COLUMNS_MAX: usize = 1000;

/// Most indexes of a table.
pub const INDEXES_MAX: usize = 64;

/// Longest name of a column or index, in bytes.
pub const NAME_LEN_MAX: usize = 255;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// The type of its values.
    pub kind: Type,
    /// Whether it may be NULL.
    pub is_nullable: bool,
}

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSchema {
    /// The index's name.
    pub name: String,
    /// The names of its columns. Entries are ordered by the first one first.
    pub columns: Vec<String>,
    /// Whether no two rows may have the same values in it. Values with a NULL are never the same.
    pub is_unique: bool,
}

/// The description of a table: columns, primary key, indexes. It is checked when the table is opened.
///
/// ```
/// # mod thermocline { pub mod records { pub use thermocline_records::*; } }
/// use thermocline::records::{Schema, Type};
/// let customers = Schema::new("customers")
///     .column("id", Type::U64)
///     .column("email", Type::Text)
///     .nullable("city", Type::Text)
///     .primary_key(["id"])
///     .unique("by_email", ["email"])
///     .index("by_city", ["city"]);
/// assert_eq!(customers.columns.len(), 3);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The name of the table and of its column family.
    pub name: String,
    /// The table's columns. Later versions of the schema may add nullable ones at the end, and change nothing else.
    pub columns: Vec<Column>,
    /// The names of the primary key's columns.
    pub primary_key: Vec<String>,
    /// The table's indexes. Later versions may add some.
    pub indexes: Vec<IndexSchema>,
}

fn names<const N: usize>(columns: [&str; N]) -> Vec<String> {
    columns.map(String::from).to_vec()
}

impl Schema {
    /// A table without columns.
    pub fn new(name: &str) -> Schema {
        Schema {
            name: name.into(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
        }
    }

    /// Adds a column that always has a value.
    #[must_use]
    pub fn column(self, name: &str, kind: Type) -> Schema {
        self.add(name, kind, false)
    }

    /// Adds a column that may be NULL.
    #[must_use]
    pub fn nullable(self, name: &str, kind: Type) -> Schema {
        self.add(name, kind, true)
    }

    fn add(mut self, name: &str, kind: Type, is_nullable: bool) -> Schema {
        let name = name.into();
        self.columns.push(Column {
            name,
            kind,
            is_nullable,
        });
        self
    }

    /// Sets the columns by which a row is found, in their order. They are never NULL.
    #[must_use]
    pub fn primary_key<const N: usize>(mut self, columns: [&str; N]) -> Schema {
        self.primary_key = names(columns);
        self
    }

    /// Adds an index in which several rows may have the same values.
    #[must_use]
    pub fn index<const N: usize>(self, name: &str, columns: [&str; N]) -> Schema {
        self.add_index(name, columns, false)
    }

    /// Adds an index in which no two rows may have the same values. Values with a NULL are never the same.
    #[must_use]
    pub fn unique<const N: usize>(self, name: &str, columns: [&str; N]) -> Schema {
        self.add_index(name, columns, true)
    }

    fn add_index<const N: usize>(
        mut self,
        name: &str,
        columns: [&str; N],
        is_unique: bool,
    ) -> Schema {
        self.indexes.push(IndexSchema {
            name: name.into(),
            columns: names(columns),
            is_unique,
        });
        self
    }

    /// The number of a column.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == column)
    }

    /// The numbers of these columns, none of them twice. `what` names the list in errors.
    pub(crate) fn positions(&self, what: &str, columns: &[String]) -> Result<Vec<usize>> {
        if columns.is_empty() {
            return Err(self.wrong(&format!("{what} has no columns; name at least one")));
        }
        let mut found = Vec::with_capacity(columns.len());
        for name in columns {
            let column = self.position(name).ok_or_else(|| {
                self.wrong(&format!("{what} names column '{name}', which there is not"))
            })?;
            if found.contains(&column) {
                return Err(self.wrong(&format!("{what} names column '{name}' twice")));
            }
            found.push(column);
        }
        Ok(found)
    }

    /// Checks that the declaration makes sense.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the part that does not.
    pub fn check(&self) -> Result<()> {
        check_name("the name of a table", &self.name, CF_NAME_LEN_MAX)?;
        let counts = [
            ("columns", self.columns.len(), COLUMNS_MAX),
            ("indexes", self.indexes.len(), INDEXES_MAX),
        ];
        for (what, count, limit) in counts {
            if count > limit {
                return Err(self.wrong(&format!("{count} {what}, more than the limit of {limit}")));
            }
        }
        let mut seen = HashSet::new();
        for column in &self.columns {
            check_name("the name of a column", &column.name, NAME_LEN_MAX)?;
            if !seen.insert(&column.name) {
                return Err(self.wrong(&format!("two columns are named '{}'", column.name)));
            }
            if matches!(column.kind, Type::Decimal(scale) if scale > DECIMAL_SCALE_MAX) {
                return Err(self.wrong(&format!(
                    "column '{}' is {}, but a decimal has at most {DECIMAL_SCALE_MAX} digits behind the point",
                    column.name, column.kind
                )));
            }
        }
        for column in self.positions("the primary key", &self.primary_key)? {
            if self.columns[column].is_nullable {
                return Err(self.wrong(&format!(
                    "column '{}' of the primary key is nullable; declare it with `column`",
                    self.columns[column].name
                )));
            }
        }
        let mut seen = HashSet::new();
        for index in &self.indexes {
            check_name("the name of an index", &index.name, NAME_LEN_MAX)?;
            if !seen.insert(&index.name) {
                return Err(self.wrong(&format!("two indexes are named '{}'", index.name)));
            }
            self.positions(&format!("index '{}'", index.name), &index.columns)?;
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> Error {
        Error::InvalidArgument(format!("the schema of table '{}': {what}", self.name))
    }
}

fn check_name(what: &str, name: &str, limit: usize) -> Result<()> {
    if name.is_empty() || name.len() > limit {
        return Err(Error::InvalidArgument(format!(
            "{what} has {} bytes, but takes 1 to {limit}",
            name.len()
        )));
    }
    Ok(())
}
