//! Iterators over rows.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use thermocline_base::{Error, Result};

use crate::field::{Field, Row};
use crate::format::stored::StoredIndex;
use crate::layout::Layout;
use crate::store::Reader;

/// Rows that an iterator by an index reads at a time, at first and at most. It begins with few, since many callers
/// want only some, and doubles.
const BATCH_FIRST: usize = 4;
const BATCH_MAX: usize = 128;

/// Bytes of rows that it reads at a time, about: as many rows as have so many if they are as long as those before.
const BATCH_BYTES: usize = 256 << 10;

/// How many rows are read behind `count` of them that had so many bytes.
fn next_batch(count: usize, bytes: usize) -> usize {
    let fits = match bytes {
        0 => BATCH_MAX,
        _ => BATCH_BYTES.saturating_mul(count) / bytes,
    };
    (2 * count).min(BATCH_MAX).min(fits).max(1)
}

/// The error for an entry of an index that leads to a row that is not there.
pub(crate) fn no_row(layout: &Layout, index: &str, row_key: &[u8]) -> Error {
    let what = format!("entry of index '{index}'");
    Error::corruption(what, layout.place(row_key), 0, "a row", "none")
}

/// Rows in the order of their primary keys, from both ends; see [`Table::range`](crate::Table::range).
pub struct Rows<'r, R: Reader + 'r> {
    /// `None` once it has ended.
    scan: Option<R::Scan<'r>>,
    layout: Arc<Layout>,
}

impl<'r, R: Reader> Rows<'r, R> {
    pub(crate) fn new(scan: Option<R::Scan<'r>>, layout: Arc<Layout>) -> Rows<'r, R> {
        Rows { scan, layout }
    }

    fn step(&mut self, at_back: bool) -> Option<Result<Row>> {
        let scan = self.scan.as_mut()?;
        let entry = if at_back {
            scan.next_back()
        } else {
            scan.next()
        };
        let row = entry.map(|entry| {
            let (key, value) = entry?;
            self.layout.row_of_any_schema(&key, &value)
        });
        if !matches!(row, Some(Ok(_))) {
            self.scan = None;
        }
        row
    }
}

impl<R: Reader> fmt::Debug for Rows<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows of '{}'", self.layout.table)
    }
}

impl<R: Reader> Iterator for Rows<'_, R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.step(false)
    }
}

impl<R: Reader> DoubleEndedIterator for Rows<'_, R> {
    fn next_back(&mut self) -> Option<Result<Row>> {
        self.step(true)
    }
}

impl<R: Reader> std::iter::FusedIterator for Rows<'_, R> {}

/// Primary keys in the order of an index, from both ends; see [`Index::keys`](crate::Index::keys).
pub struct IndexKeys<'r, R: Reader + 'r> {
    /// `None` once it has ended.
    scan: Option<R::Scan<'r>>,
    layout: Arc<Layout>,
    index: StoredIndex,
}

impl<'r, R: Reader> IndexKeys<'r, R> {
    pub(crate) fn new(
        scan: Option<R::Scan<'r>>,
        layout: Arc<Layout>,
        index: StoredIndex,
    ) -> IndexKeys<'r, R> {
        IndexKeys {
            scan,
            layout,
            index,
        }
    }

    /// The rows to which these keys lead.
    pub(crate) fn rows(self, reader: &'r R, family: &R::Family) -> IndexRows<'r, R>
    where
        R::Family: Clone,
    {
        IndexRows {
            keys: self,
            reader,
            family: family.clone(),
            front: End::default(),
            back: End::default(),
        }
    }

    /// The key of the next entry's row.
    fn step(&mut self, at_back: bool) -> Option<Result<Vec<u8>>> {
        let scan = self.scan.as_mut()?;
        let entry = if at_back {
            scan.next_back()
        } else {
            scan.next()
        };
        let key = entry.map(|entry| {
            let (key, value) = entry?;
            self.layout.row_of(&self.index, &key, &value)
        });
        if !matches!(key, Some(Ok(_))) {
            self.scan = None;
        }
        key
    }

    fn fields(&mut self, at_back: bool) -> Option<Result<Vec<Field>>> {
        let key = self.step(at_back)?;
        let fields = key.and_then(|key| self.layout.key_fields(&key));
        if fields.is_err() {
            self.scan = None;
        }
        Some(fields)
    }
}

impl<R: Reader> fmt::Debug for IndexKeys<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, index) = (&self.layout.table, &self.index.name);
        write!(f, "IndexKeys of '{table}' by '{index}'")
    }
}

impl<R: Reader> Iterator for IndexKeys<'_, R> {
    type Item = Result<Vec<Field>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fields(false)
    }
}

impl<R: Reader> DoubleEndedIterator for IndexKeys<'_, R> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.fields(true)
    }
}

impl<R: Reader> std::iter::FusedIterator for IndexKeys<'_, R> {}

/// Rows that were read ahead at one end, the next one first.
struct End {
    rows: VecDeque<Result<Row>>,
    /// Number of rows that are read next.
    batch: usize,
}

impl Default for End {
    fn default() -> End {
        End {
            rows: VecDeque::new(),
            batch: BATCH_FIRST,
        }
    }
}

/// Rows in the order of an index, from both ends; see [`Index::range`](crate::Index::range).
pub struct IndexRows<'r, R: Reader + 'r> {
    keys: IndexKeys<'r, R>,
    reader: &'r R,
    family: R::Family,
    front: End,
    back: End,
}

impl<R: Reader> IndexRows<'_, R> {
    /// Reads the next rows at one end, and says how many bytes they have. Nothing is read there after an error.
    fn read(&mut self, at_back: bool, count: usize) -> (VecDeque<Result<Row>>, usize) {
        let mut failed = None;
        let mut keys = Vec::with_capacity(count);
        while keys.len() < count {
            match self.keys.step(at_back) {
                Some(Ok(key)) => keys.push(key),
                Some(Err(error)) => {
                    failed = Some(Err(error));
                    break;
                }
                None => break,
            }
        }
        let layout = &self.keys.layout;
        let row = |(key, value): (&Vec<u8>, Option<R::Value>)| match value {
            Some(value) => layout.row(key, &value),
            None => Err(no_row(layout, &self.keys.index.name, key)),
        };
        match self.reader.multi_get(&self.family, &keys) {
            Ok(values) => {
                let bytes = values.iter().flatten().map(|value| value.len()).sum();
                let rows = keys.iter().zip(values).map(row);
                (rows.chain(failed).collect(), bytes)
            }
            Err(error) => (VecDeque::from([Err(error)]), 0),
        }
    }

    fn step(&mut self, at_back: bool) -> Option<Result<Row>> {
        let end = if at_back {
            &mut self.back
        } else {
            &mut self.front
        };
        if end.rows.is_empty() {
            let count = end.batch;
            let (rows, bytes) = self.read(at_back, count);
            let end = if at_back {
                &mut self.back
            } else {
                &mut self.front
            };
            // Where there were fewer, there are no more.
            end.batch = next_batch(count, bytes);
            end.rows = rows;
        }
        let (near, far) = match at_back {
            true => (&mut self.back, &mut self.front),
            false => (&mut self.front, &mut self.back),
        };
        // Only rows that the other end has read ahead, and not given, are left between the ends.
        let row = near.rows.pop_front().or_else(|| far.rows.pop_back());
        if matches!(row, Some(Err(_))) {
            self.keys.scan = None;
            self.front.rows.clear();
            self.back.rows.clear();
        }
        row
    }
}

impl<R: Reader> fmt::Debug for IndexRows<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, index) = (&self.keys.layout.table, &self.keys.index.name);
        write!(f, "IndexRows of '{table}' by '{index}'")
    }
}

impl<R: Reader> Iterator for IndexRows<'_, R> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.step(false)
    }
}

impl<R: Reader> DoubleEndedIterator for IndexRows<'_, R> {
    fn next_back(&mut self) -> Option<Result<Row>> {
        self.step(true)
    }
}

impl<R: Reader> std::iter::FusedIterator for IndexRows<'_, R> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// With short rows a batch is twice the one before; of long ones it has as many as fit, and one of whatever length.
    #[test]
    fn a_batch_has_so_many_rows_as_have_its_bytes() {
        let mut counts = vec![BATCH_FIRST];
        for _ in 0..6 {
            let count = counts[counts.len() - 1];
            counts.push(next_batch(count, 100 * count));
        }
        assert_eq!(counts, [4, 8, 16, 32, 64, 128, 128]);
        assert_eq!(next_batch(4, 4 * (64 << 10)), 4);
        assert_eq!(next_batch(4, 4 * (1 << 20)), 1);
        // It gets longer again where rows are shorter.
        assert_eq!(next_batch(1, 1 << 10), 2);
        assert_eq!(next_batch(8, 0), 16);
    }
}
