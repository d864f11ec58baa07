//! Backups: states of a store at several moments, in one folder that may lie on another device.
//!
//! # What lies there
//! There is one *list* for each backup (`format`), which describes the store. Beside the lists lies every file that
//! some list names, once: tables are never changed, so backups share those that they have in common. A list is the
//! state of a copy (`copy`) with checksums of its files. Files are copied, never linked.
//!
//! # Which files are there already
//! Database and number of its writer identify a file. But a database whose folder was copied by other means goes on
//! with the same id. So a file of the store counts as one that some list has only if its length and the hash of
//! its last 64 KiB agree, too. There lie a table's footer and properties, which have the checksum of the checksums of all its
//! blocks. (A table of a version that did not write that is read as a whole, and counts only if the hash of all of it is that of the
//! list.) For a blob file it is the hash of the headers of its records, which have the checksums of its keys and values. Files that
//! lists of version 1 name are not shared: what these lists have of a file does not tell it from another ([`crate::sum`]).
//! To look costs a few reads for a table, and one for a long value, not all of it. New files are
//! verified wholly before they are copied; their bytes are summed meanwhile. A listed file whose length is wrong, or a table whose end is,
//! is copied again in its place.
//!
//! # Steps of a backup, under the folder's lock
//! | step | durable after it |
//! |---|---|
//! | remove what an interrupted backup left, and note that one is being made (`copy::note`) | the note |
//! | flush, where the store is open for writing, so that the next backup shares what is new in this one | |
//! | capture; stream what is in no table yet into tables of the backup's own | |
//! | write down temporary names; copy new files under them; sync each, rename it to its own, sync the folder | the files |
//! | write the list under a temporary name, sync it, rename it, sync the folder | the backup |
//! | remove the note | that nothing is to be removed |
//!
//! A crash before the list has its name leaves files that no list names. They go when the next backup is made or
//! deleted, if they can be proven to be ours. A file under a temporary name is ours only if the note names it. A file
//! under a name of its own is ours only if the name has the hash of its bytes; and it goes only if every list can
//! be read, since a damaged list may name it. A file with any other name is a stranger's: then the folder is no
//! folder of backups, and is left as it is.
//!
//! A *deletion* removes the list, durably, then the files that no other list names: those that the deleted one named
//! whatever became of their bytes, since the list says that they are ours. Nothing says which numbers there were, so that of the newest
//! is given again. A *restoration* makes a copy
//! (`copy::Target`) of the listed files, each summed while it is copied, as a database with a new id. So the same
//! backup restored twice gives two databases, and neither takes the other's files for its own.

mod create;
mod format;
mod restore;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use thermocline_base::progress::{Course, Progress};
use thermocline_base::report::Report;
use thermocline_base::{Error, Result};
use thermocline_env::frugal::Frugal;
use thermocline_env::{Env, LockGuard, OpenMode, Storage};
use thermocline_version::LOCK_NAME;

use crate::copy::note::{Found as Note, end, remove_all};
use crate::copy::sites;
use crate::paths;
use crate::sum::{Summing, sum_from, sum_with};
use format::{Listed, Stored, list_id, list_name};

/// Exists while a backup is being made, and names its temporary files.
const NOTE_NAME: &str = "BACKING-UP";

/// A backup, as `list` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupInfo {
    /// Its number in its folder: one more than the newest that is there when it is made, so a later one gets it again once
    /// this one was the newest and is deleted.
    pub id: u64,
    /// The database that was backed up.
    pub db_id: [u8; 16],
    /// The last seqno that it has; it has everything up to this one.
    pub seqno: u64,
    /// Tables and blob files that it consists of.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes that no earlier backup had, for one that was just made; otherwise 0.
    pub new_bytes: u64,
}

impl BackupInfo {
    fn of(listed: &Listed) -> BackupInfo {
        BackupInfo {
            id: listed.id,
            db_id: listed.db_id,
            seqno: listed.seqno.0,
            files: listed.files.len() as u64,
            bytes: listed.files.iter().map(|file| file.bytes).sum(),
            new_bytes: 0,
        }
    }
}

/// A folder of backups.
#[derive(Debug, Clone)]
pub struct Backups {
    env: Env,
    /// A path that stays right when the working folder changes.
    dir: PathBuf,
    /// The same as it was given, for errors.
    given: PathBuf,
}

impl Backups {
    /// The backups in `dir`, which the first backup makes. This call reads nothing. A relative path means the working folder
    /// of this moment. Each other call refuses the empty path.
    pub fn new(env: Env, dir: &Path) -> Backups {
        let given = dir.to_path_buf();
        // Where there is no working folder, or the path is empty, each call says so.
        let dir = std::path::absolute(dir).unwrap_or_else(|_| given.clone());
        // Stores of the process give descriptors back, if they have all of them.
        let env = Env {
            storage: Frugal::new(env.storage),
            ..env
        };
        Backups { env, dir, given }
    }

    fn storage(&self) -> &dyn Storage {
        &*self.env.storage
    }

    /// All backups, oldest first.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the folder is no folder of backups; [`Error::Locked`]; [`Error::Corruption`] of a
    /// list; those of the file system.
    pub fn list(&self) -> Result<Vec<BackupInfo>> {
        let _lock = self.lock_shared()?;
        let ids = self.found()?.lists.into_iter();
        ids.map(|id| Ok(BackupInfo::of(&self.read(id)?))).collect()
    }

    /// The numbers of all backups, oldest first, those of damaged ones among them. It reads no list.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the folder is no folder of backups; [`Error::Locked`]; those of the file system.
    pub fn ids(&self) -> Result<Vec<u64>> {
        let _lock = self.lock_shared()?;
        Ok(self.found()?.lists)
    }

    /// Removes a backup, even a damaged one, and the files that no other backup needs.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such backup; [`Error::Locked`]; those of the file
    /// system.
    pub fn delete(&self, id: u64) -> Result<()> {
        self.refuse_others()?;
        let _lock = self.lock()?;
        self.must_have(id)?;
        // A list that cannot be read proves nothing.
        let own = self.read(id).map_or(Vec::new(), |listed| listed.files);
        let own: BTreeSet<String> = own.iter().map(Stored::name).collect();
        let list = self.dir.join(list_name(id));
        self.storage().remove(&list)?;
        self.storage().sync_dir(&self.dir, sites::COPY_WITHDRAWN)?;
        self.sweep_found(self.found()?, &own).map(drop)
    }

    /// Reads everything, and reports every list and file that is not as it was written. What the report counts as records are files that
    /// lists name, and as bytes those that they have by the lists.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the folder is no folder of backups; [`Error::Locked`]; those of the file system.
    /// Damage is a fault in the report, and beside damage so is what cannot be read.
    pub fn verify(&self) -> Result<Report> {
        self.verify_observed(&mut |_| {})
    }

    /// As [`Backups::verify`]. `observer` is told how many bytes are checked, of those that files have by the lists. A file with damage
    /// counts as a whole.
    ///
    /// # Errors
    /// As [`Backups::verify`].
    pub fn verify_observed(&self, observer: &mut dyn FnMut(Progress)) -> Result<Report> {
        let _lock = self.lock_shared()?;
        let mut report = Report::default();
        let (mut seen, mut unread) = (BTreeSet::new(), Vec::new());
        for id in self.found()?.lists {
            match self.read(id) {
                Ok(listed) => seen.extend(listed.files),
                Err(error) => unread.extend(report.note(error).err()),
            }
        }
        let mut course = Course::new(observer);
        course.begin(bytes_of(&seen));
        for file in seen {
            course.part(file.bytes);
            report.records += 1;
            // The lengths in lists may be anything.
            report.bytes = report.bytes.saturating_add(file.bytes);
            if let Err(error) = self.check_file(&file, &mut course) {
                unread.extend(report.note(error).err());
            }
        }
        report.note_unread(&self.dir, unread)?;
        course.finish();
        Ok(report)
    }

    fn check_file(&self, file: &Stored, course: &mut Course<'_>) -> Result<()> {
        let path = self.dir.join(file.name());
        check_there(self.storage(), file, &path)?;
        let opened = self.storage().open(&path, OpenMode::Read)?;
        let sums = sum_with(&*opened, 0, &mut |bytes| course.advance(bytes))?;
        check_sum(file, &path, opened.len()?, &sums)
    }

    fn must_exist(&self) -> Result<()> {
        paths::check(&self.given, paths::BACKUPS)?;
        if self.storage().is_dir(&self.dir)? {
            return Ok(());
        }
        let dir = self.given.display();
        Err(Error::InvalidArgument(
            match self.storage().exists(&self.dir)? {
                true => format!("{dir} is a file, not a folder; backups lie in a folder"),
                false => format!("there is no folder {dir}"),
            },
        ))
    }

    fn lock(&self) -> Result<Box<dyn LockGuard>> {
        self.storage().lock(&self.dir.join(LOCK_NAME))
    }

    /// Locks against processes and threads that change the folder. Writes nothing.
    fn lock_shared(&self) -> Result<Option<Box<dyn LockGuard>>> {
        self.must_exist()?;
        self.storage().lock_shared(&self.dir.join(LOCK_NAME))
    }

    /// Refuses a folder with anything but backups before a lock file is made there: it may be a stranger's.
    fn refuse_others(&self) -> Result<()> {
        self.must_exist()?;
        let found = self.found_beside_strangers()?;
        if !found.noted || found.stranger.is_none() {
            return self.without_strangers(found).map(drop);
        }
        // It may be of a backup that is being made, and have come between two looks. Then the folder is locked.
        let _lock = self.lock_shared()?;
        self.found().map(drop)
    }

    /// The names in the folder.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is anything but backups.
    fn found(&self) -> Result<Found> {
        self.without_strangers(self.found_beside_strangers()?)
    }

    fn without_strangers(&self, found: Found) -> Result<Found> {
        match found.stranger {
            None => Ok(found),
            Some(name) => {
                let dir = self.given.display();
                Err(Error::InvalidArgument(format!(
                    "{dir} is not a folder of backups: it has '{name}'; choose an empty or new folder, \
                     or move that away"
                )))
            }
        }
    }

    /// The names in the folder that belong to backups.
    fn found_beside_strangers(&self) -> Result<Found> {
        let mut found = Found::default();
        let note = Note::at(self.storage(), &self.dir.join(NOTE_NAME))?;
        for name in self.storage().list(&self.dir)? {
            match list_id(&name) {
                Some(id) => found.lists.push(id),
                None if Stored::is_name(&name) => found.files.push(name),
                None if note.names(&name) => found.temporary.push(name),
                None if name == LOCK_NAME => {}
                None if name == NOTE_NAME && note != Note::Foreign => found.noted = true,
                None => found.stranger = Some(name),
            }
        }
        found.lists.sort_unstable();
        Ok(found)
    }

    fn must_have(&self, id: u64) -> Result<()> {
        let lists = self.found()?.lists;
        if lists.contains(&id) {
            return Ok(());
        }
        let dir = self.given.display();
        let there: Vec<String> = lists.iter().map(ToString::to_string).collect();
        Err(Error::InvalidArgument(match there.is_empty() {
            true => format!("there is no backup {id} in {dir}, nor any other"),
            false => format!(
                "there is no backup {id} in {dir}; it has {}",
                there.join(", ")
            ),
        }))
    }

    fn read(&self, id: u64) -> Result<Listed> {
        let path = self.dir.join(list_name(id));
        let file = self.storage().open(&path, OpenMode::Read)?;
        Listed::read(&*file, id)
    }

    /// Removes our files that no list names. Gives the files of all lists that can be read. If there are others, only temporary files
    /// go.
    fn sweep(&self) -> Result<BTreeSet<Stored>> {
        self.sweep_found(self.found()?, &BTreeSet::new())
    }

    /// The same, of what was found; the files `own` are ours whatever their bytes are.
    fn sweep_found(&self, found: Found, own: &BTreeSet<String>) -> Result<BTreeSet<Stored>> {
        remove_all(self.storage(), &self.dir, &found.temporary)?;
        if found.noted {
            end(self.storage(), &self.dir.join(NOTE_NAME))?;
        }
        let (mut listed, mut is_all_read) = (BTreeSet::new(), true);
        // One after the other: each has the state of a store, and most files are in many.
        for &id in &found.lists {
            match self.read(id) {
                Ok(list) => listed.extend(list.files),
                Err(_) => is_all_read = false,
            }
        }
        if is_all_read {
            let named: BTreeSet<String> = listed.iter().map(Stored::name).collect();
            let mut synced = false;
            for name in found.files.iter().filter(|name| !named.contains(*name)) {
                let path = self.dir.join(name);
                let is_ours = match Stored::sum_in(name) {
                    _ if own.contains(name) => true,
                    Some(sum) => sum_from(self.storage(), &path, 0)?.like(sum) == sum,
                    None => false,
                };
                if is_ours {
                    // A list that a killed process has removed must not come back behind its files.
                    if !std::mem::replace(&mut synced, true) {
                        self.storage().sync_dir(&self.dir, sites::COPY_WITHDRAWN)?;
                    }
                    self.storage().remove(&path)?;
                }
            }
        }
        Ok(listed)
    }
}

/// Names in a folder of backups.
#[derive(Default)]
struct Found {
    lists: Vec<u64>,
    files: Vec<String>,
    /// Files that the note names.
    temporary: Vec<String>,
    /// Whether there is a note.
    noted: bool,
    /// Another name, if there is any.
    stranger: Option<String>,
}

/// Bytes that files have by lists, in which the lengths may be anything.
fn bytes_of<'a>(files: impl IntoIterator<Item = &'a Stored>) -> u64 {
    let each = files.into_iter().map(|file| file.bytes);
    each.fold(0, u64::saturating_add)
}

fn check_there(storage: &dyn Storage, file: &Stored, path: &Path) -> Result<()> {
    if storage.exists(path)? {
        return Ok(());
    }
    let place = path.display().to_string();
    let expected = format!("{} bytes", file.bytes);
    Err(Error::corruption(
        "a file of a backup is missing",
        place,
        0,
        expected,
        "no such file",
    ))
}

/// Checks that a file at `path`, of this length and checksum, is the one that was backed up.
fn check_sum(file: &Stored, path: &Path, bytes: u64, sums: &Summing) -> Result<()> {
    let place = path.display().to_string();
    if bytes != file.bytes {
        let what = "length of a file of a backup";
        return Err(Error::corruption(what, place, 0, file.bytes, bytes));
    }
    let (expected, got) = (file.sum, sums.like(file.sum));
    if got != expected {
        let what = "checksum of a file of a backup";
        return Err(Error::corruption(what, place, 0, expected, got));
    }
    Ok(())
}
