//! Checkpoints: the present state of the store, in another folder. See [`copy`](crate::copy) for the argument.

use std::path::Path;

use thermocline_base::progress::{Course, Progress};
use thermocline_base::{FileId, Result, SeqNo};
use thermocline_tables::file_name;
use thermocline_version::{FileKind, State};

use crate::copy::{
    Target, behind, check_apart, copy_open_file, is_gone, link_or_copy, write_state,
};
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
    checkpoint_observed(store, dir, &mut |_| {})
}

/// As [`checkpoint()`]. `observer` is told how many bytes of the store's files the copy has, linked or copied. Records that are in no file
/// are written before the first call, and do not count.
///
/// # Errors
/// As [`checkpoint()`].
pub fn checkpoint_observed<S: Store>(
    store: &S,
    dir: &Path,
    observer: &mut dyn FnMut(Progress),
) -> Result<u64> {
    let dir = paths::absolute(dir, paths::CHECKPOINT)?;
    store.check_open()?;
    check_apart(&*store.env().storage, &dir, store.dir())?;
    let target = Target::begin(&store.env().storage, &dir)?;
    let mut course = Course::new(observer);
    match fill(store, &target, &mut course) {
        Ok((state, seqno)) => {
            target.complete(state)?;
            course.finish();
            Ok(seqno.0)
        }
        Err(error) => Err(target.withdraw(error)),
    }
}

/// Brings all files into the target, and gives the state that it will have, and the last seqno of that.
fn fill<S: Store>(store: &S, target: &Target, course: &mut Course<'_>) -> Result<(State, SeqNo)> {
    let captured = store.capture()?;
    let random = &*store.env().random;
    let state = write_state(&captured, random, (target.dir(), target.note()))?;
    let state = behind(state, captured.seqno())?;
    let storage = &*store.env().storage;
    let wanted = |(file, _): &(FileId, FileKind)| state.version().file(*file).is_some();
    let version = captured.files();
    let wanted = version.files().filter(wanted);
    let wanted: Vec<(FileId, String)> = wanted
        .map(|(file, kind)| (file, file_name(file, kind).to_string()))
        .collect();
    let names = wanted.iter().map(|(_, name)| name.clone());
    target.note().record(names)?;
    let bytes = wanted.iter().map(|(file, _)| version.file_bytes(*file));
    course.begin(bytes.fold(0, u64::saturating_add));
    let mut by_name = false;
    for (file, name) in wanted {
        course.part(version.file_bytes(file));
        let (from, to) = (store.dir().join(&name), target.dir().join(&name));
        let mut go_on = |copied| {
            course.advance(copied);
            store.check_open()
        };
        let linked = link_or_copy(storage, &from, &to, &mut go_on);
        match linked {
            Err(error) if is_gone(&error) => match captured.kept(file)? {
                Some(kept) => copy_open_file(storage, &*kept, &to, go_on).map(drop)?,
                None => return Err(error),
            },
            linked => {
                linked?;
                by_name = true;
            }
        }
    }
    // Once it is closed another database may be in its folder. What was linked before has the store's names for its own files.
    store.check_open()?;
    if by_name {
        captured.check_names()?;
    }
    Ok((state, captured.seqno()))
}
