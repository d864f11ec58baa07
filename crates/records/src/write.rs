//! Rows and their entries, written together.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};

use crate::field::{Field, Row, tuple};
use crate::format::stored::{State, StoredIndex};
use crate::layout::{Entry, Layout};
use crate::store::Writer;
use crate::table::Table;

/// A change in one index.
struct EntryChange<'l> {
    index: &'l StoredIndex,
    old: Option<Entry>,
    new: Option<Entry>,
}

/// A row with its key.
type Keyed<'a> = (&'a [u8], &'a [Field]);

impl<F> Table<F> {
    /// Adds a row. If it is refused, the transaction is as before.
    ///
    /// # Errors
    /// [`Error::Duplicate`] if there is a row with this primary key, or one with the same values in a unique index,
    /// which the error names. [`Error::InvalidArgument`] for values that do not fit their columns, naming these; or
    /// if the table has got columns that this handle does not know. Those of locking.
    pub fn insert<W: Writer<Family = F>>(&self, txn: &mut W, row: &[Field]) -> Result<()> {
        let layout = self.write_layout(txn)?;
        let row = layout.conform_row(row)?;
        let key = layout.row_key(&row)?;
        if txn.get_for_update(self.family(), &key)?.is_some() {
            return Err(Error::Duplicate(format!(
                "table '{}' has a row with primary key {} already; `put` replaces it, `update` changes it",
                self.name(),
                tuple(&layout.key_fields(&key)?)
            )));
        }
        self.change(txn, &layout, None, Some((&key, &row)))
    }

    /// Adds a row, or replaces the row with this primary key. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Table::insert`], except that an existing primary key is no error.
    pub fn put<W: Writer<Family = F>>(&self, txn: &mut W, row: &[Field]) -> Result<bool> {
        let layout = self.write_layout(txn)?;
        let row = layout.conform_row(row)?;
        let key = layout.row_key(&row)?;
        let old = self.old(txn, &layout, &key)?;
        let old = old.as_deref().map(|old| (&key[..], old));
        self.change(txn, &layout, old, Some((&key, &row)))?;
        Ok(old.is_some())
    }

    /// Changes the row with this primary key. Returns whether there is one. The primary key cannot be changed: delete
    /// the row and insert another one.
    ///
    /// # Errors
    /// As [`Table::insert`]; [`Error::InvalidArgument`] if the primary key was changed.
    pub fn update<W: Writer<Family = F>>(
        &self,
        txn: &mut W,
        key: &[Field],
        change: impl FnOnce(&mut Row),
    ) -> Result<bool> {
        let layout = self.write_layout(txn)?;
        let key = layout.key_of(key)?;
        let Some(old) = self.old(txn, &layout, &key)? else {
            return Ok(false);
        };
        let mut new = old.clone();
        change(&mut new);
        let new = layout.conform_row(&new)?;
        if layout.row_key(&new)? != key {
            return Err(Error::InvalidArgument(format!(
                "the update of the row with primary key {} of table '{}' changes that key; delete the row and insert \
                 another one",
                tuple(&layout.key_fields(&key)?),
                self.name()
            )));
        }
        self.change(txn, &layout, Some((&key, &old)), Some((&key, &new)))?;
        Ok(true)
    }

    /// Removes the row with this primary key. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn delete<W: Writer<Family = F>>(&self, txn: &mut W, key: &[Field]) -> Result<bool> {
        let layout = self.write_layout(txn)?;
        let key = layout.key_of(key)?;
        let Some(old) = self.old(txn, &layout, &key)? else {
            return Ok(false);
        };
        self.change(txn, &layout, Some((&key, &old)), None)?;
        Ok(true)
    }

    /// The row that a write replaces.
    fn old<W: Writer<Family = F>>(
        &self,
        txn: &mut W,
        layout: &Layout,
        key: &[u8],
    ) -> Result<Option<Row>> {
        let value = txn.get_for_update(self.family(), key)?;
        value.map(|value| layout.row(key, &value)).transpose()
    }

    /// Turns `old` into `new`, in the table and in each index. Nothing is written before everything is known to be
    /// allowed. If a put is refused after all, the earlier ones are taken back.
    fn change<W: Writer<Family = F>>(
        &self,
        txn: &mut W,
        layout: &Layout,
        old: Option<Keyed<'_>>,
        new: Option<Keyed<'_>>,
    ) -> Result<()> {
        let mut changes = Vec::new();
        for index in layout.maintained() {
            let entry = |(key, row): Keyed<'_>| layout.entry(index, row, key);
            let old = match old.map(entry).transpose() {
                // The row is older than the index, and too long for it: it never had an entry.
                Err(Error::InvalidArgument(_)) if index.state == State::Building => None,
                old => old?,
            };
            let new = new.map(entry).transpose()?;
            if old != new {
                changes.push(self.allowed(txn, layout, EntryChange { index, old, new })?);
            }
        }
        let before = txn.savepoint();
        let written = self.apply(txn, layout, (old, new), &changes);
        if written.is_err() {
            txn.rollback_to(before)?;
        }
        // A transaction may change millions of rows.
        txn.forget(before);
        written
    }

    /// Checks that a change of an entry may be made, and gives the part of it that is left to do.
    fn allowed<'l, W: Writer<Family = F>>(
        &self,
        txn: &mut W,
        layout: &Layout,
        mut change: EntryChange<'l>,
    ) -> Result<EntryChange<'l>> {
        let index = change.index;
        let asked = change.new.as_ref().filter(|new| !new.value.is_empty());
        if let Some(new) = asked.filter(|_| !active(Bug::UniqueUnasked)) {
            let there = txn.get_for_update(self.family(), &new.key)?;
            if let Some(other) = there.filter(|there| **there != new.value[..]) {
                return Err(duplicate(layout, index, &new.key, &other));
            }
        }
        // While the index is built, the entry of the old values may lead to another row that has the same values.
        if let (State::Building, Some(old)) = (index.state, &change.old)
            && !old.value.is_empty()
            && !active(Bug::BuildTakesOthers)
        {
            let there = txn.get_for_update(self.family(), &old.key)?;
            if there.is_none_or(|there| *there != old.value[..]) {
                change.old = None;
            }
        }
        Ok(change)
    }

    fn apply<W: Writer<Family = F>>(
        &self,
        txn: &mut W,
        layout: &Layout,
        (old, new): (Option<Keyed<'_>>, Option<Keyed<'_>>),
        changes: &[EntryChange<'_>],
    ) -> Result<()> {
        let family = self.family();
        for EntryChange { old, new, .. } in changes {
            if let Some(old) = old.as_ref().filter(|_| !active(Bug::RowForgetsEntry)) {
                txn.delete(family, &old.key)?;
            }
            if let Some(new) = new {
                txn.put(family, &new.key, &new.value)?;
            }
        }
        match (old, new) {
            (_, Some((key, row))) => txn.put(family, key, &layout.row_value(row)),
            (Some((key, _)), None) => txn.delete(family, key),
            (None, None) => Ok(()),
        }
    }
}

/// Another row has these values in a unique index: the one that `primary` leads to.
pub(crate) fn duplicate(layout: &Layout, index: &StoredIndex, key: &[u8], primary: &[u8]) -> Error {
    let other = layout.row_of(index, key, primary);
    let other = other.and_then(|row_key| layout.key_fields(&row_key));
    match other {
        Err(error) => error,
        Ok(other) => Error::Duplicate(format!(
            "index '{}' of table '{}' is unique, and the row with primary key {} has the same values",
            index.name,
            layout.table,
            tuple(&other)
        )),
    }
}
