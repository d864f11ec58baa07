//! The way from the stored schema to the declared one, step by step. Each step is one transaction, or the building of
//! one index. It leaves a state from which the next opening goes on.

use std::collections::HashSet;
use std::ops::Bound;

use thermocline_base::planted::{Bug, active};
use thermocline_base::shown::shown;
use thermocline_base::{Error, Result};

use crate::build::{Built, build};
use crate::format::stored::{State, Stored, StoredIndex};
use crate::format::{INDEX_FIRST, INDEX_LAST, SCHEMA_KEY};
use crate::layout::Layout;
use crate::schema::{IndexSchema, Schema};
use crate::store::{Reader, Store, Writer};
use crate::table::Table;

/// Steps that one opening takes while others change the same schema, before it gives up.
const STEPS_MAX: usize = 1000;

/// The next step.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Nothing is left to do: the table is as it was declared.
    Done,
    /// Store this schema.
    Store(Stored),
    /// Delete the entries of this index.
    Drop(StoredIndex),
    /// Add the existing rows to this index.
    Build(StoredIndex),
}

/// The schema under a name, with its bytes.
type Found = Option<(Stored, Vec<u8>)>;

fn find<S: Store>(store: &S, family: &S::Family, table: &str) -> Result<Found> {
    let bytes = store.snapshot().get(family, &SCHEMA_KEY)?;
    bytes
        .map(|bytes| Ok((Layout::read(table, &bytes)?.stored, bytes.to_vec())))
        .transpose()
}

/// Stores `new` if the schema is still `old`. Returns whether it was.
fn swap<S: Store>(store: &S, family: &S::Family, old: Option<&[u8]>, new: &Stored) -> Result<bool> {
    let mut txn = store.transaction(true)?;
    let there = txn.get_for_update(family, &SCHEMA_KEY)?;
    if there.as_deref() != old {
        return Ok(false);
    }
    txn.put(family, &SCHEMA_KEY, &new.encode())?;
    committed::<S>(txn)
}

/// Commits. Returns `false` if another transaction was faster.
fn committed<S: Store>(txn: S::Writer) -> Result<bool> {
    match S::commit(txn) {
        Err(Error::Conflict(_)) => Ok(false),
        done => done.map(|()| true),
    }
}

impl<F: Clone> Table<F> {
    /// Opens the table that `schema` declares, in the column family of its name. Makes it if there is none. Additions
    /// to the schema are made to the table: nullable columns behind the others, and indexes. For a new index the
    /// existing rows are read, some at a time. Others read and write the table meanwhile with handles that they have.
    /// Their writes keep the new index, which nobody reads before it is complete. If the work is cut short, the next
    /// opening goes on with it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the first declaration that makes no sense, or that differs from the store
    /// and cannot be added; or if the column family has entries that belong to no table; or naming a row whose values
    /// are too long for a new index: the index is not there then. [`Error::Duplicate`] naming two rows, if a new unique
    /// index meets rows with the same values: nor is it then. [`Error::Busy`] naming open transactions that have written
    /// to the table, if it has to be changed. [`Error::Corruption`] if the stored schema does not decode; those of the store.
    /// If all that is left to do is to take the entries of a dropped index away, neither open transactions keep anybody from
    /// opening the table, nor a database that is open for reading only or has no room: a later opening does it.
    pub fn open<S: Store<Family = F>>(store: &S, schema: Schema) -> Result<Table<F>> {
        schema.check()?;
        let name = schema.name.clone();
        let family = match store.find_family(&name)? {
            Some(family) => family,
            None => store.make_family(&name)?,
        };
        for _ in 0..STEPS_MAX {
            let found = find(store, &family, &name)?;
            if found.is_none() {
                check_empty(store, &family, &name)?;
            }
            let step = next(&schema, found.as_ref().map(|(stored, _)| stored))?;
            let bytes = found.as_ref().map(|(_, bytes)| &bytes[..]);
            match (step, found.as_ref()) {
                (Step::Store(new), _) => drop(swap(store, &family, bytes, &new)?),
                (Step::Drop(index), Some((stored, bytes))) => {
                    let dropped = finish_drop(store, &family, (stored, bytes), &index);
                    if dropped.as_ref().is_err_and(may_stay) && is_all_else(&schema, stored)? {
                        let layout = Layout::new(&name, stored.clone());
                        return Ok(Table::new(family, schema, layout));
                    }
                    dropped?;
                }
                (Step::Build(index), Some((stored, bytes))) => {
                    let layout = Layout::new(&name, stored.clone());
                    let table = Table::new(family.clone(), schema.clone(), layout);
                    let built = build(store, &table, &index)?;
                    finish_build(store, &family, (stored, bytes), (&index, built))?;
                }
                (Step::Done, Some((stored, _))) => {
                    let layout = Layout::new(&name, stored.clone());
                    return Ok(Table::new(family, schema, layout));
                }
                (_, None) => unreachable!("without a schema, one is stored"),
            }
        }
        Err(given_up(&name))
    }

    /// Drops an index of the table `name`: its entries go, and handles of the table go on without it. Returns whether
    /// there was one. Declare the table without it from then on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no table of this name; otherwise as [`Table::open`].
    pub fn drop_index<S: Store<Family = F>>(store: &S, name: &str, index: &str) -> Result<bool> {
        let missing = || Error::InvalidArgument(format!("there is no table '{name}'"));
        let family = store.find_family(name)?.ok_or_else(missing)?;
        let mut was_there = false;
        for _ in 0..STEPS_MAX {
            let (stored, bytes) = find(store, &family, name)?.ok_or_else(missing)?;
            let Some(of) = stored.indexes.iter().find(|of| of.name == index) else {
                return Ok(was_there);
            };
            was_there = true;
            match of.state {
                State::Dropping => finish_drop(store, &family, (&stored, &bytes), of)?,
                _ => {
                    let new = with_state(&stored, of, State::Dropping);
                    swap(store, &family, Some(&bytes), &new)?;
                }
            }
        }
        Err(given_up(name))
    }
}

fn given_up(name: &str) -> Error {
    Error::Busy(format!(
        "others changed the schema of table '{name}' {STEPS_MAX} times meanwhile; try again"
    ))
}

/// A column family without a schema must have nothing else.
fn check_empty<S: Store>(store: &S, family: &S::Family, name: &str) -> Result<()> {
    let reader = store.snapshot();
    let first = reader
        .scan(family, (Bound::Unbounded, Bound::Unbounded))
        .next();
    let Some((key, _)) = first.transpose()? else {
        return Ok(());
    };
    if key == SCHEMA_KEY {
        // The table has been made meanwhile.
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "column family '{name}' has entries, '{}' for one, but is no table; give the table another name",
        shown(&key)
    )))
}

/// The schema with the state of one index changed.
fn with_state(stored: &Stored, index: &StoredIndex, state: State) -> Stored {
    let mut new = stored.clone();
    new.generation += 1;
    let of = new.indexes.iter_mut().filter(|of| of.space == index.space);
    of.for_each(|of| of.state = state);
    new
}

/// Deletes the entries of an index that is not read or written any more, and takes the index out of the schema.
fn finish_drop<S: Store>(
    store: &S,
    family: &S::Family,
    (stored, bytes): (&Stored, &[u8]),
    index: &StoredIndex,
) -> Result<()> {
    let mut new = stored.clone();
    new.generation += 1;
    new.indexes.retain(|of| of.space != index.space);
    // Who has written rows since the step before, and is open or prepared, has the schema for share. It is waited for, and
    // named if that takes too long, as in the other steps: else this one would refuse its commit, or be refused for it.
    let mut waits = store.transaction(true)?;
    waits.get_for_update(family, &SCHEMA_KEY)?;
    // A transaction that locks would lock every entry.
    let mut txn = store.transaction(false)?;
    if txn.get_for_update(family, &SCHEMA_KEY)?.as_deref() != Some(bytes) {
        return Ok(());
    }
    let (first, end) = (vec![index.space], vec![index.space + 1]);
    txn.delete_range(family, (Bound::Included(first), Bound::Excluded(end)))?;
    txn.put(family, &SCHEMA_KEY, &new.encode())?;
    let done = committed::<S>(txn);
    drop(waits);
    done.map(drop)
}

/// Whether the entries of a dropped index may stay for now, since taking them away has failed so: somebody writes rows for
/// long, or the store takes no writes, or has no room. Nobody reads the index, and a later opening takes its entries away.
fn may_stay(error: &Error) -> bool {
    matches!(error, Error::Busy(_) | Error::InvalidArgument(_)) || error.is_no_room()
}

/// Ends a pass over the rows.
fn finish_build<S: Store>(
    store: &S,
    family: &S::Family,
    (stored, bytes): (&Stored, &[u8]),
    (index, built): (&StoredIndex, Built),
) -> Result<()> {
    match built {
        Built::Complete => {
            let new = with_state(stored, index, State::Ready);
            swap(store, family, Some(bytes), &new).map(drop)
        }
        Built::Overtaken => Ok(()),
        Built::Refused(why) => {
            // A transaction that changed the schema meanwhile comes to the same result, and so does the next opening.
            let new = with_state(stored, index, State::Dropping);
            let swapped = swap(store, family, Some(bytes), &new)?;
            if swapped {
                let bytes = new.encode();
                let dropped = finish_drop(store, family, (&new, &bytes), index);
                // As in an opening.
                if !dropped.as_ref().is_err_and(may_stay) {
                    dropped?;
                }
            }
            Err(not_added(&index.name, why))
        }
    }
}

/// The error for an index in which a row cannot have its entry.
fn not_added(index: &str, why: Error) -> Error {
    match why {
        Error::Duplicate(why) => Error::Duplicate(format!(
            "index '{index}' cannot be added: {why}; change one of the rows, or declare it with `index`"
        )),
        Error::InvalidArgument(why) => {
            Error::InvalidArgument(format!("index '{index}' cannot be added: {why}"))
        }
        other => other,
    }
}

/// The next step from the stored schema to the declared one.
fn next(schema: &Schema, stored: Option<&Stored>) -> Result<Step> {
    let Some(stored) = stored else {
        return fresh(schema).map(Step::Store);
    };
    check_columns(schema, stored)?;
    let index = |index: &&StoredIndex| index.state == State::Dropping;
    let kept = stored.indexes.iter().filter(|i| !index(i));
    kept.into_iter()
        .try_for_each(|index| check_index(schema, stored, index))?;
    if let Some(dropping) = stored.indexes.iter().find(index) {
        return Ok(Step::Drop(dropping.clone()));
    }
    let mut new = stored.clone();
    new.columns.clone_from(&schema.columns);
    for index in &schema.indexes {
        if !stored.indexes.iter().any(|of| of.name == index.name) {
            let state = match active(Bug::ReadyBeforeBuilt) {
                true => State::Ready,
                false => State::Building,
            };
            add_index(&mut new, schema, (index, state))?;
        }
    }
    if new != *stored {
        new.generation += 1;
        return Ok(Step::Store(new));
    }
    let building = stored.indexes.iter().find(|of| of.state == State::Building);
    Ok(building.map_or(Step::Done, |index| Step::Build(index.clone())))
}

/// Whether the stored schema is the declared one but for indexes that are to be dropped.
fn is_all_else(schema: &Schema, stored: &Stored) -> Result<bool> {
    let mut kept = stored.clone();
    kept.indexes.retain(|of| of.state != State::Dropping);
    Ok(next(schema, Some(&kept))? == Step::Done)
}

/// The schema of a table that has no rows.
fn fresh(schema: &Schema) -> Result<Stored> {
    let mut stored = Stored {
        generation: 1,
        columns: schema.columns.clone(),
        key: schema.positions("the primary key", &schema.primary_key)?,
        indexes: Vec::new(),
    };
    for index in &schema.indexes {
        add_index(&mut stored, schema, (index, State::Ready))?;
    }
    Ok(stored)
}

/// Gives an index the lowest number that no other index has.
fn add_index(
    stored: &mut Stored,
    schema: &Schema,
    (index, state): (&IndexSchema, State),
) -> Result<()> {
    let taken: HashSet<u8> = stored.indexes.iter().map(|of| of.space).collect();
    let space = (INDEX_FIRST..=INDEX_LAST).find(|space| !taken.contains(space));
    let space = space.expect("a table has fewer indexes than there are numbers");
    stored.indexes.push(StoredIndex {
        name: index.name.clone(),
        space,
        is_unique: index.is_unique,
        state,
        columns: schema.positions(&format!("index '{}'", index.name), &index.columns)?,
    });
    Ok(())
}

fn mismatch(schema: &Schema, what: &str) -> Error {
    Error::InvalidArgument(format!(
        "the schema of table '{}' differs from the one in the store: {what}; only nullable columns at the end and \
         indexes can be added",
        schema.name
    ))
}

fn check_columns(schema: &Schema, stored: &Stored) -> Result<()> {
    let shown = |column: &crate::schema::Column| {
        let null = if column.is_nullable { ", nullable" } else { "" };
        format!("'{}' ({}{null})", column.name, column.kind)
    };
    for (i, there) in stored.columns.iter().enumerate() {
        match schema.columns.get(i) {
            None => {
                let what = format!("column {} is missing", shown(there));
                return Err(mismatch(schema, &what));
            }
            Some(declared) if declared != there => {
                let (declared, there) = (shown(declared), shown(there));
                let what = format!("column {} is {declared}, but {there} there", i + 1);
                return Err(mismatch(schema, &what));
            }
            Some(_) => {}
        }
    }
    let added = &schema.columns[stored.columns.len()..];
    if let Some(column) = added.iter().find(|column| !column.is_nullable) {
        let what = format!("the new column {} is not nullable", shown(column));
        return Err(mismatch(schema, &what));
    }
    let names: Vec<&String> = stored
        .key
        .iter()
        .map(|k| &stored.columns[*k].name)
        .collect();
    if !names.iter().copied().eq(&schema.primary_key) {
        let what = format!("the primary key there is {names:?}");
        return Err(mismatch(schema, &what));
    }
    Ok(())
}

fn check_index(schema: &Schema, stored: &Stored, there: &StoredIndex) -> Result<()> {
    let name = &there.name;
    let Some(declared) = schema.indexes.iter().find(|index| index.name == *name) else {
        let what = format!("index '{name}' is missing (`Table::drop_index` drops it)");
        return Err(mismatch(schema, &what));
    };
    let columns = there.columns.iter().map(|c| &stored.columns[*c].name);
    if !columns.clone().eq(&declared.columns) {
        let what = format!(
            "index '{name}' has the columns {:?} there",
            columns.collect::<Vec<_>>()
        );
        return Err(mismatch(schema, &what));
    }
    if declared.is_unique != there.is_unique {
        let is = if there.is_unique {
            "unique"
        } else {
            "not unique"
        };
        return Err(mismatch(schema, &format!("index '{name}' is {is} there")));
    }
    Ok(())
}
