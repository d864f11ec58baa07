//! Writing a new manifest, naming it in `CURRENT`, and removing what is not live.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::planted::{self, Bug};
use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use super::replay;
use crate::format::{self, Header, Unreadable};
use crate::sites;
use crate::state::State;

/// So much is reserved behind the end of the log.
pub(super) const AHEAD: u64 = 32 << 10;

/// Writes `state` into a new manifest and makes it the live one, durably. The old one stays.
pub(super) fn to_new_file(
    storage: &dyn Storage,
    dir: &Path,
    db_id: [u8; 16],
    state: &State,
) -> Result<(Arc<dyn File>, Header)> {
    let prepared = prepare(storage, dir, db_id, state)?;
    go_live(storage, dir)?;
    Ok(prepared)
}

/// All steps before the rename: writes `state` into a new manifest, and a `CURRENT.tmp` that names it, durably.
pub(super) fn prepare(
    storage: &dyn Storage,
    dir: &Path,
    db_id: [u8; 16],
    state: &State,
) -> Result<(Arc<dyn File>, Header)> {
    let mut header = Header {
        file_no: free_no(storage, dir)?,
        db_id,
        durable_len: 0,
    };
    let path = dir.join(format::manifest_name(header.file_no));
    let file = storage.open(&path, OpenMode::CreateNew)?;
    header.durable_len = write_snapshot(&*file, &header, state)?;
    file.write_at(&header.encode(), 0)?;
    // Before it has a name, so that whoever finds it has this much room (see *A full disk*).
    match file.reserve_behind(header.durable_len, AHEAD) {
        Err(error) if error.is_no_room() => return Err(error),
        // What does not reserve may write all the same.
        _ => {}
    }
    file.sync(sites::NEW_FILE_DURABLE)?;
    prepare_name(storage, dir, &header)?;
    Ok((file, header))
}

/// Writes the records of a snapshot behind the header's place, and gives the length of the file. A
/// few records at a time: a snapshot may be large.
fn write_snapshot(file: &dyn File, header: &Header, state: &State) -> Result<u64> {
    let mut written = format::HEADER_LEN as u64;
    let mut records = Vec::new();
    for edit in state.snapshot() {
        let at = written + records.len() as u64;
        records.extend_from_slice(&header.encode_record(&format::encode_edit(&edit), at));
        if records.len() >= format::SNAPSHOT_EDIT_LEN {
            file.write_at(&records, written)?;
            written += records.len() as u64;
            records.clear();
        }
    }
    file.write_at(&records, written)?;
    Ok(written + records.len() as u64)
}

/// A number above every manifest's in the folder, so that no name is used twice at a time.
fn free_no(storage: &dyn Storage, dir: &Path) -> Result<u64> {
    let names = storage.list(dir)?;
    let last = names.iter().filter_map(|name| format::manifest_no(name));
    last.max().unwrap_or(0).checked_add(1).ok_or_else(|| {
        let name = format::manifest_name(u64::MAX);
        Error::InvalidArgument(format!(
            "{} has the last number there is; move it away",
            dir.join(name).display()
        ))
    })
}

/// Makes what `CURRENT` says durable where it lies, for one whose name was durable once: that takes no room.
pub(super) fn keep_name(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let file = storage.open(&dir.join(format::CURRENT), OpenMode::Read)?;
    file.sync(sites::CURRENT_DURABLE)?;
    storage.sync_dir(dir, sites::CURRENT_DURABLE)?;
    // Of a switch that was not to be. It does no harm.
    let temp = dir.join(format::CURRENT_TEMP);
    if storage.exists(&temp)? {
        let _ = storage.remove(&temp);
    }
    Ok(())
}

/// Makes `CURRENT` name the manifest of `header`, durably.
pub(super) fn name_live(storage: &dyn Storage, dir: &Path, header: &Header) -> Result<()> {
    prepare_name(storage, dir, header)?;
    go_live(storage, dir)
}

fn prepare_name(storage: &dyn Storage, dir: &Path, header: &Header) -> Result<()> {
    let temp = dir.join(format::CURRENT_TEMP);
    if storage.exists(&temp)? {
        storage.remove(&temp)?;
    }
    let file = storage.open(&temp, OpenMode::CreateNew)?;
    file.write_at(&format::encode_current(header.file_no, &header.db_id), 0)?;
    file.sync(sites::TEMP_DURABLE)?;
    storage.sync_dir(dir, sites::NEW_NAMES_DURABLE)
}

/// The steps from the rename on.
pub(super) fn go_live(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let (temp, current) = (dir.join(format::CURRENT_TEMP), dir.join(format::CURRENT));
    if planted::active(Bug::ForgetDirFsync) {
        return storage.rename(&temp, &current);
    }
    storage.rename_and_sync(&temp, &current, dir, sites::SWITCH_DURABLE)
}

/// The numbers of manifests beside the live one; of files with a manifest's name only of those that may be the database's.
pub(super) fn others(storage: &dyn Storage, dir: &Path, live: &Header) -> Result<Vec<u64>> {
    let names = storage.list(dir)?;
    let numbers = names.iter().filter_map(|name| format::manifest_no(name));
    let mut others = Vec::new();
    for file_no in numbers.filter(|file_no| *file_no != live.file_no) {
        let path = dir.join(format::manifest_name(file_no));
        // What cannot be read may be one.
        if !storage.is_dir(&path)? && may_be_ours(storage, &path, &live.db_id).unwrap_or(true) {
            others.push(file_no);
        }
    }
    Ok(others)
}

/// Removes manifests beside the live one, whose name is durable. (A temporary file left by a crash has become
/// `CURRENT` or gone when this is called.)
///
/// A failure is passed over on purpose: the files do no harm, and the next switch or open tries
/// again.
pub(super) fn remove_obsolete(storage: &dyn Storage, dir: &Path, live: &Header) {
    remove(storage, dir, live, |_| true);
}

/// Removes what a switch has left that was not made. By those with smaller numbers the live one may be reached.
pub(super) fn remove_newer(storage: &dyn Storage, dir: &Path, live: &Header) {
    remove(storage, dir, live, |file_no| file_no > live.file_no);
}

fn remove(storage: &dyn Storage, dir: &Path, live: &Header, of: impl Fn(u64) -> bool) {
    let names = storage.list(dir).unwrap_or_default();
    let numbers = names.iter().filter_map(|name| format::manifest_no(name));
    for file_no in numbers.filter(|file_no| *file_no != live.file_no && of(*file_no)) {
        let path = dir.join(format::manifest_name(file_no));
        if may_be_ours(storage, &path, &live.db_id).unwrap_or(false) {
            let _ = storage.remove(&path);
        }
    }
}

/// Whether a file with a manifest's name is one of the database `db_id`, or what a crash has left of one. Each attempt to make a
/// database has an id of its own, so one that was cut short leaves a manifest with another id, which names no data: that counts as
/// ours, too. What names data of another database, or cannot be read as what it says it is, is a stranger's.
fn may_be_ours(storage: &dyn Storage, path: &Path, db_id: &[u8; 16]) -> Result<bool> {
    let mut start = [0; format::HEADER_LEN];
    let file = storage.open(path, OpenMode::Read)?;
    let len = file.read_at(&mut start, 0)?;
    match Header::decode(&start) {
        Ok(header) if header.db_id == *db_id => Ok(true),
        Ok(header) => match replay::replay(&*file, header.file_no, header.db_id) {
            Ok(replayed) => Ok(!replayed.state.holds_data()),
            Err(Error::Corruption { .. } | Error::Unsupported(_)) => Ok(false),
            Err(error) => Err(error),
        },
        Err(Unreadable::Newer(_)) => Ok(false),
        Err(Unreadable::Damaged { .. }) => Ok(format::may_be_manifest(
            &start[..len.min(format::MAGIC_LEN)],
        )),
    }
}
