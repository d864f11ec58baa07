//! Checkpoints: the present state of the store, in another folder. See [`copy`](crate::copy) for the argument.

use std::path::Path;

use thermocline_base::{FileId, Result, SeqNo};
use thermocline_tables::file_name;
use thermocline_version::{FileKind, State};

use crate::copy::{Target, check_apart, link_or_copy, write_state};
use crate::paths;
use crate::store::{Captured, Store};

/// Makes `dir` a database of its own with everything that is visible in `store` now. Its tables and blob files are
/// hard links if `dir` lies on the same file system, and copies if not. The copy is durable on return. Returns the last
/// seqno that it has.
///
/// # Errors
/// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) for the empty path, or if `dir` exists and is not empty, or
/// lies in the store's folder; [`Locked`](thermocline_base::Error::Locked) if another process or thread makes a copy there;
/// those of the store and of the file system. There is no database in `dir` then (or, if the file system refuses to remove
/// anything either, all of it).
pub fn checkpoint<S: Store>(store: &S, dir: &Path) -> Result<u64> {
    let dir = paths::absolute(dir, paths::CHECKPOINT)?;
    store.check_open()?;
    check_apart(&*store.env().storage, &dir, store.dir())?;
    let target = Target::begin(&store.env().storage, &dir)?;
    match fill(store, &target) {
        Ok((state, seqno)) => target.complete(state).map(|()| seqno.0),
        Err(error) => Err(target.withdraw(error)),
    }
}

/// Brings all files into the target, and gives the state that it will have, and the last seqno of that.
fn fill<S: Store>(store: &S, target: &Target) -> Result<(State, SeqNo)> {
    let captured = store.capture()?;
    let random = &*store.env().random;
    let state = write_state(&captured, random, (target.dir(), target.note()))?;
    let storage = &*store.env().storage;
    let wanted = |(file, _): &(FileId, FileKind)| state.version().file(*file).is_some();
    let wanted = captured.files().files().filter(wanted);
    let names: Vec<String> = wanted
        .map(|(file, kind)| file_name(file, kind).to_string())
        .collect();
    target.note().record(names.iter().cloned())?;
    for name in names {
        let (from, to) = (store.dir().join(&name), target.dir().join(&name));
        link_or_copy(storage, &from, &to, || store.check_open())?;
    }
    // Once it is closed another database may be in its folder. What was linked before has the store's names for its own files.
    store.check_open()?;
    Ok((state, captured.seqno()))
}
