//! The bytes of tables (FORMATS.md, "Tables of records").
//!
//! All keys of a table's column family begin with one byte, the *space*:
//!
//! ```text
//! 0        the schema; nothing follows
//! 1        a row: the columns of the primary key
//! 2..=254  an entry of the index with this number: its columns, then, unless it is unique and none of them is NULL,
//!          those of the primary key
//! ```
//!
//! Keys order as their tuples do; `key` says how. A row's value has the columns that its key has not: `row`.
//! `stored` is the schema.

pub(crate) mod key;
pub(crate) mod row;
pub(crate) mod stored;

#[cfg(test)]
mod tests;

/// The key of the schema.
pub(crate) const SCHEMA_KEY: [u8; 1] = [0];

/// Rows.
pub(crate) const ROWS: u8 = 1;

/// The first number of an index, and the last.
pub(crate) const INDEX_FIRST: u8 = 2;
pub(crate) const INDEX_LAST: u8 = 254;

/// What is wrong with bytes, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub at: usize,
    pub expected: String,
    pub got: String,
}

impl Flaw {
    pub fn new(at: usize, expected: impl ToString, got: impl ToString) -> Flaw {
        Flaw {
            at,
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }

    /// The error that it is, of `what` in `place`.
    pub fn error(self, what: &str, place: String) -> thermocline_base::Error {
        let at = self.at as u64;
        thermocline_base::Error::corruption(what, place, at, self.expected, self.got)
    }
}
