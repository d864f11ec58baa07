//! Names of files, and what may lie in a database's folder.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thermocline_base::checksum::crc32c;
use thermocline_base::options::Options;
use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_copies::is_unfinished;
use thermocline_env::{File, LockGuard, OpenMode, Storage};
use thermocline_pm::SITE_CREATE;
use thermocline_version::format::{CURRENT, CURRENT_TEMP, manifest_no};
use thermocline_version::{Doomed, LOCK_NAME, Manifest};

/// The region's file, unless `pm_path` says otherwise.
pub const REGION_NAME: &str = "region.pm";

/// Bytes of a region's id, which are all that the note of a creation has whose region lies in the folder.
const REGION_ID_LEN: usize = 16;

/// Stands in the note between the id and the place of a region that lies elsewhere. Behind that are a zero, the folder that the
/// note was made in, and a checksum.
const ELSEWHERE: &[u8; 8] = b"THCLMAKE";

/// No note is longer: no two paths are.
const NOTE_LEN_MAX: u64 = 16 << 10;

/// Exists while a database is being made; holds the id of its region, and where that lies if not in the folder.
pub(crate) const CREATING_NAME: &str = "CREATING";

/// What the note of a creation says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Begun {
    /// The id of the region that was about to be made.
    pub id: [u8; REGION_ID_LEN],
    /// Where, if not in the folder. One that was noted by an earlier version has no place, nor has one that was noted elsewhere.
    pub place: Option<PathBuf>,
    /// Whether it was noted in another folder, of which this one is a copy, unless it was moved.
    pub is_copied: bool,
}

impl Begun {
    /// Whether it says of a region at `place` that it may go. Outside of a folder that was copied that may be the original's by now,
    /// though the caller names it.
    pub fn counts_at(&self, storage: &dyn Storage, place: &Path, dir: &Path) -> Result<bool> {
        let folder = place.parent().unwrap_or(dir);
        Ok(!self.is_copied || storage.is_within(folder, dir)?)
    }
}

/// Where the region with this id lies.
pub(crate) fn region_path(
    storage: &dyn Storage,
    dir: &Path,
    options: &Options,
    region_id: &[u8; 16],
) -> Result<PathBuf> {
    let Some(path) = &options.pm_path else {
        return Ok(dir.join(REGION_NAME));
    };
    if storage.exists(path)? && storage.is_dir(path)? {
        let id: String = region_id.iter().map(|b| format!("{b:02x}")).collect();
        return Ok(path.join(format!("thermocline-{id}.pm")));
    }
    Ok(path.clone())
}

/// Refuses a place for a new region that is written as a folder, and is none.
pub(crate) fn check_new_region(path: &Path) -> Result<()> {
    match path.as_os_str().as_bytes().ends_with(b"/") {
        true => Err(Error::InvalidArgument(format!(
            "there is no folder {} to make a region in; make it, or choose another pm-path",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// The options with an absolute `pm_path` and `wal_path`, as they will be remembered.
///
/// # Errors
/// [`Error::InvalidArgument`] for one that is not UTF-8, if it is to be remembered: a manifest has text, so the next
/// opening would miss region or logs.
pub(crate) fn absolute(mut options: Options) -> Result<Options> {
    let is_remembered = !options.read_only;
    let places = [
        ("pm_path", &mut options.pm_path),
        ("wal_path", &mut options.wal_path),
    ];
    for (name, place) in places {
        let Some(path) = place else { continue };
        *path = std::path::absolute(&*path)
            .map_err(|source| Error::io("find the absolute path of", &*path, source))?;
        if is_remembered && path.to_str().is_none() {
            return Err(Error::InvalidArgument(format!(
                "{name} is {}, which is not UTF-8, so the database could not remember it; choose another name",
                path.display()
            )));
        }
    }
    Ok(options)
}

/// A path of an existing folder that leads there whatever the working folder of the process becomes. It is `dir` itself where
/// the absolute path does not lead there, as below a folder that may not be searched.
pub(crate) fn lasting(storage: &dyn Storage, dir: &Path) -> PathBuf {
    if dir.is_absolute() {
        return dir.to_path_buf();
    }
    let absolute = std::path::absolute(dir).ok();
    let leads_there = |path: &PathBuf| matches!(storage.is_same(dir, path), Ok(true));
    let absolute = absolute.filter(leads_there);
    absolute.unwrap_or_else(|| dir.to_path_buf())
}

/// Where the region of an existing database is: where `pm_path` says, or else in the database's
/// folder, or else at the remembered place.
pub(crate) fn find_region(
    storage: &dyn Storage,
    dir: &Path,
    options: &Options,
    remembered: Option<&Path>,
    region_id: &[u8; 16],
) -> Result<PathBuf> {
    let own = dir.join(REGION_NAME);
    let places: Vec<PathBuf> = match options.pm_path {
        Some(_) => vec![region_path(storage, dir, options, region_id)?],
        None => [own]
            .into_iter()
            .chain(remembered.map(Path::to_path_buf))
            .collect(),
    };
    for place in &places {
        if storage.exists(place)? {
            return Ok(place.clone());
        }
    }
    let named: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
    let told = match (&options.pm_path, remembered) {
        (Some(_), Some(place)) if places[0] != place => {
            format!(" (it was last at {})", place.display())
        }
        _ => String::new(),
    };
    Err(Error::InvalidArgument(format!(
        "the persistent memory region of database {} is missing: there is no {}{told}; give its \
         place as pm-path (the database cannot be opened without it)",
        dir.display(),
        named.join(" and no ")
    )))
}

/// What keeps a database as it is while it is only read.
pub(crate) enum ReadLock {
    /// This keeps writers away, if there is something to lock.
    Held(Option<Box<dyn LockGuard>>),
    /// Nothing: somebody writes to it.
    Beside,
}

/// Keeps writers away from a database that is only read, unless there is one. A copy of a database may lack the lock file, and none is made. Then
/// the lock of its region keeps them away, if it has one; and the folder is held, so that a writer who comes meanwhile leaves
/// what he finds there.
pub(crate) fn lock_to_read(storage: &dyn Storage, dir: &Path) -> Result<ReadLock> {
    let path = dir.join(LOCK_NAME);
    let lock = || match storage.lock_shared(&path) {
        Err(Error::Locked { .. }) => Ok(ReadLock::Beside),
        lock => lock.map(ReadLock::Held),
    };
    match lock()? {
        ReadLock::Held(None) => {}
        taken => return Ok(taken),
    }
    // Where it cannot be held, only checksums tell.
    let folder = storage.hold_folder(dir).unwrap_or(None);
    // Again: who has made the file meanwhile may have asked before whether somebody holds the folder.
    Ok(match lock()? {
        ReadLock::Held(None) => ReadLock::Held(folder),
        taken => taken,
    })
}

/// Refuses the empty path: no folder has it.
pub(crate) fn check_path(dir: &Path) -> Result<()> {
    match dir.as_os_str().is_empty() {
        true => Err(Error::InvalidArgument(
            "a database is a folder; an empty path was given".into(),
        )),
        false => Ok(()),
    }
}

/// The error of whoever finds no database in `dir`.
pub(crate) fn no_database(storage: &dyn Storage, dir: &Path) -> Error {
    if let Err(error @ Error::InvalidArgument(_)) = refuse_half_destroyed(storage, dir) {
        return error;
    }
    match orphaned(storage, dir) {
        Ok(Some(error)) => error,
        _ => Error::InvalidArgument(format!("there is no database in {}", dir.display())),
    }
}

/// The error of a folder without a `CURRENT` that has a manifest which names data. A copy that is not complete is none: its
/// `CURRENT` comes last.
fn orphaned(storage: &dyn Storage, dir: &Path) -> Result<Option<Error>> {
    if is_unfinished(storage, dir)? {
        return Ok(None);
    }
    let orphan = Manifest::orphan(storage, dir)?;
    // Somebody may have completed it meanwhile, have begun a copy, or have begun to destroy what he has made.
    let is_theirs = Manifest::exists(storage, dir)?
        || is_unfinished(storage, dir)?
        || Doomed::was_begun(storage, dir)?;
    if is_theirs {
        return Ok(None);
    }
    Ok(orphan.map(|orphan| {
        Error::corruption(
            "there is no CURRENT that names this manifest, which names data",
            orphan.display().to_string(),
            0,
            dir.join(CURRENT).display(),
            "no such file",
        )
    }))
}

/// Whether the database in `dir` is the one with this id. Another one may have files of the same names.
pub(crate) fn is_there(storage: &dyn Storage, dir: &Path, db_id: Option<[u8; 16]>) -> Result<bool> {
    match Manifest::id(storage, dir) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        id => Ok(Some(id?) == db_id),
    }
}

/// Refuses a folder in which a database is being destroyed, or that was cut short: what is left there is none any more.
pub(crate) fn refuse_half_destroyed(storage: &dyn Storage, dir: &Path) -> Result<()> {
    match Doomed::was_begun(storage, dir)? {
        true => Err(Error::InvalidArgument(format!(
            "the database in {} is being destroyed, or that was cut short: it cannot be opened any more; destroy it \
             again to remove the rest, or choose another folder",
            dir.display()
        ))),
        false => Ok(()),
    }
}

/// Refuses a folder that is somebody else's: not empty, and without a database. `options` are those of the database that is
/// to be made there.
pub(crate) fn check_folder(storage: &dyn Storage, dir: &Path, options: &Options) -> Result<()> {
    if !storage.is_dir(dir)? {
        return Err(Error::InvalidArgument(format!(
            "{} is a file, not a folder; a database is a folder",
            dir.display()
        )));
    }
    refuse_half_destroyed(storage, dir)?;
    if is_unfinished(storage, dir)? {
        return Err(Error::InvalidArgument(format!(
            "{0} is a copy of a database (a checkpoint, or restored) that was not completed; make it \
             again, or remove {0}",
            dir.display()
        )));
    }
    let orphaned = orphaned(storage, dir);
    // Its tables would be taken for a stranger's.
    if let Ok(Some(error)) = orphaned {
        return Err(error);
    }
    let made = made_within(storage, dir, options)?;
    let is_known = |name: &String| is_ours(name) || made.contains(name);
    if let Some(stranger) = storage.list(dir)?.into_iter().find(|name| !is_known(name)) {
        return Err(Error::InvalidArgument(format!(
            "{} is not a Thermocline database and not empty (it has '{stranger}'); choose an empty \
             or new folder",
            dir.display()
        )));
    }
    orphaned.map(drop)
}

/// What an interrupted creation can leave behind.
fn is_ours(name: &str) -> bool {
    [LOCK_NAME, REGION_NAME, CREATING_NAME, CURRENT_TEMP].contains(&name)
        || manifest_no(name).is_some()
        || is_probe(name)
}

/// The names in the folder under which one can leave its region, or the folder of its logs, where the options have those in
/// there. Whose a region is that is found so is looked at before it goes.
fn made_within(storage: &dyn Storage, dir: &Path, options: &Options) -> Result<Vec<String>> {
    let absolute = absolute_path(dir)?;
    let given = [&options.pm_path, &options.wal_path];
    let mut places: Vec<PathBuf> = given.into_iter().flatten().cloned().collect();
    // In a folder for regions it has its id in its name. A note that cannot be read is not one of ours.
    if let Ok(Some(begun)) = noted_creation(storage, dir) {
        places.push(region_path(storage, dir, options, &begun.id)?);
        places.extend(begun.place);
    }
    let within = places.iter().filter_map(|place| {
        let first = place.strip_prefix(&absolute).ok()?.components().next()?;
        first.as_os_str().to_str().map(str::to_string)
    });
    Ok(within.collect())
}

fn absolute_path(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir).map_err(|source| Error::io("find the absolute path of", dir, source))
}

/// Whether it is the name of a file that is made, and removed at once, to see that logs can be made in a folder
/// (`wal::check_place`).
pub(crate) fn is_probe(name: &str) -> bool {
    let id = name
        .strip_prefix("thermocline-")
        .and_then(|rest| rest.strip_suffix("-PROBE"));
    let is_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(is_hex))
}

/// Notes, durably, that this region is about to be made: only such a region may be replaced if the
/// creation is interrupted. Anything else at its place is somebody's. It lies `elsewhere`, or in the folder.
pub(crate) fn note_creation(
    storage: &dyn Storage,
    dir: &Path,
    region_id: &[u8; REGION_ID_LEN],
    elsewhere: Option<&Path>,
) -> Result<()> {
    forget_creation(storage, dir)?;
    let mut note = region_id.to_vec();
    if let Some(place) = elsewhere {
        note.extend_from_slice(ELSEWHERE);
        note.extend_from_slice(place.as_os_str().as_bytes());
        note.push(0);
        note.extend_from_slice(absolute_path(dir)?.as_os_str().as_bytes());
        let crc = crc32c(0, &note);
        note.extend_from_slice(&crc.to_le_bytes());
    }
    let file = storage.open(&dir.join(CREATING_NAME), OpenMode::CreateNew)?;
    file.write_at(&note, 0)?;
    file.sync(SITE_CREATE)?;
    storage.sync_dir(dir, SITE_CREATE)
}

/// The region that an earlier process was about to make.
pub(crate) fn noted_creation(storage: &dyn Storage, dir: &Path) -> Result<Option<Begun>> {
    let path = dir.join(CREATING_NAME);
    if !storage.exists(&path)? {
        return Ok(None);
    }
    let file = storage.open(&path, OpenMode::Read)?;
    let len = file.len()?;
    if len > NOTE_LEN_MAX {
        return Ok(None);
    }
    let mut note = vec![0; index(len)];
    file.read_exact_at(&mut note, 0)?;
    // A torn note was never followed by a region. Anything else is somebody's.
    let Some((id, elsewhere)) = decode_note(&note) else {
        return Ok(None);
    };
    // A copy of the folder has the note, too. Its original may have made a database with the region since.
    let is_here = |folder: &Path| matches!(storage.is_same(folder, dir), Ok(true));
    let noted = elsewhere.is_some();
    let elsewhere = elsewhere.filter(|[_, folder]| is_here(folder));
    let place = elsewhere.map(|[place, _]| place);
    let is_copied = noted && place.is_none();
    Ok(Some(Begun {
        id,
        place,
        is_copied,
    }))
}

/// The id that a note has, and, if the region lies elsewhere, where, and in which folder that was noted.
fn decode_note(note: &[u8]) -> Option<([u8; REGION_ID_LEN], Option<[PathBuf; 2]>)> {
    let (id, rest) = note.split_first_chunk::<REGION_ID_LEN>()?;
    if rest.is_empty() {
        return Some((*id, None));
    }
    let (sealed, crc) = note.split_last_chunk::<4>()?;
    if crc32c(0, sealed) != u32::from_le_bytes(*crc) {
        return None;
    }
    let paths = sealed.get(REGION_ID_LEN..)?.strip_prefix(ELSEWHERE)?;
    let mut paths = paths.splitn(2, |byte| *byte == 0);
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let (place, folder) = (path(paths.next()?), path(paths.next()?));
    Some((*id, Some([place, folder])))
}

/// Removes the note. Something else of its name stays: it is somebody's.
pub(crate) fn forget_creation(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let note = dir.join(CREATING_NAME);
    if !storage.exists(&note)? {
        return Ok(());
    }
    let is_ours = match storage.open(&note, OpenMode::Read) {
        Ok(file) => may_be_note(&*file)?,
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::InvalidInput => return Ok(()),
        Err(error) => return Err(error),
    };
    if is_ours {
        storage.remove(&note)?;
    }
    Ok(())
}

/// Whether a file is a note, or what a crash has left of one: it is shorter, or its first bytes are lost.
fn may_be_note(file: &dyn File) -> Result<bool> {
    let mut start = [0; REGION_ID_LEN + ELSEWHERE.len()];
    let read = file.read_at(&mut start, 0)?;
    let start = &start[..read];
    let is_begun = match start.get(REGION_ID_LEN..) {
        Some(rest) => ELSEWHERE.starts_with(rest) || start.iter().all(|b| *b == 0),
        None => true,
    };
    Ok(is_begun && file.len()? <= NOTE_LEN_MAX)
}

#[cfg(test)]
mod tests;
