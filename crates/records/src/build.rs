//! Building the entries of an index for rows that are older than the index.

use std::ops::Bound;

use thermocline_base::{Error, Result};

use crate::format::ROWS;
use crate::format::stored::StoredIndex;
use crate::store::{Reader, Store, Writer};
use crate::table::Table;
use crate::write::duplicate;

/// Rows that one transaction of a pass reads for update, at most. Other writers of these rows wait for it.
const CHUNK_ROWS: usize = 256;

/// How often a chunk is tried again after other transactions were faster.
const TRIES_MAX: usize = 100;

/// The end of a pass.
pub(crate) enum Built {
    /// Every row has its entry.
    Complete,
    /// Another opening has completed or dropped the index.
    Overtaken,
    /// A row cannot have its entry, and the error says why.
    Refused(Error),
}

/// The end of a chunk.
enum Added {
    /// Each row has its entry.
    All,
    /// The index is not being built any more.
    Overtaken,
    /// As [`Built::Refused`].
    Refused(Error),
}

/// One pass over all rows.
pub(crate) fn build<S: Store>(
    store: &S,
    table: &Table<S::Family>,
    index: &StoredIndex,
) -> Result<Built> {
    let (mut from, mut rows) = (Bound::Included(vec![ROWS]), CHUNK_ROWS);
    'chunks: loop {
        let keys = chunk(store, table, (from.clone(), rows))?;
        let Some(last) = keys.last().cloned() else {
            return Ok(Built::Complete);
        };
        let mut tries = 1;
        loop {
            match add(store, table, index, &keys) {
                Ok(Added::All) => break,
                Ok(Added::Overtaken) => return Ok(Built::Overtaken),
                Ok(Added::Refused(why)) => return Ok(Built::Refused(why)),
                Err(Error::Conflict(_) | Error::Busy(_)) if tries < TRIES_MAX => tries += 1,
                // Fewer rows take less of what transactions have of DRAM. Were it an error, the index would never be complete.
                Err(Error::OutOfSpace(_)) if rows > 1 => {
                    rows /= 2;
                    continue 'chunks;
                }
                Err(error) => return Err(error),
            }
        }
        from = Bound::Excluded(last);
    }
}

/// The keys of the next rows, so many at most.
fn chunk<S: Store>(
    store: &S,
    table: &Table<S::Family>,
    (from, most): (Bound<Vec<u8>>, usize),
) -> Result<Vec<Vec<u8>>> {
    let reader = store.snapshot();
    let range = (from, Bound::Excluded(vec![ROWS + 1]));
    let rows = reader.scan(table.family(), range).take(most);
    rows.map(|entry| entry.map(|(key, _)| key)).collect()
}

/// Gives these rows their entries.
fn add<S: Store>(
    store: &S,
    table: &Table<S::Family>,
    index: &StoredIndex,
    keys: &[Vec<u8>],
) -> Result<Added> {
    let family = table.family();
    let mut txn = store.transaction(true)?;
    let layout = table.write_layout(&mut txn)?;
    // Another one may have its name and its number by now, and other columns.
    if !layout.maintained().any(|of| of == index) {
        return Ok(Added::Overtaken);
    }
    for key in keys {
        let Some(value) = txn.get_for_update(family, key)? else {
            // Deleted since.
            continue;
        };
        let row = layout.row(key, &value)?;
        let entry = match layout.entry(index, &row, key) {
            // Its values are too long. Were that a mere error, the index would be there and never be complete.
            Err(Error::InvalidArgument(why)) => {
                let why = format!("{}: {why}", layout.place(key));
                return Ok(Added::Refused(Error::InvalidArgument(why)));
            }
            entry => entry?,
        };
        if entry.value.is_empty() {
            txn.put(family, &entry.key, &[])?;
            continue;
        }
        match txn.get_for_update(family, &entry.key)? {
            Some(there) if *there == entry.value[..] => {}
            Some(other) => {
                let primary = layout.place(key);
                let why = duplicate(&layout, index, &entry.key, &other);
                let why = format!("{primary}: {why}");
                return Ok(Added::Refused(Error::Duplicate(why)));
            }
            None => txn.put(family, &entry.key, &entry.value)?,
        }
    }
    S::commit(txn).map(|()| Added::All)
}
