//! The versions that somebody still uses, and so which files may go.
//!
//! A [`VersionSet`] holds the current [`Version`] and knows the older ones that readers, jobs and
//! checkpoints still hold. It does no I/O: it hands out ids for files, and says which files may be
//! unlinked. Its owner locks it together with the manifest, in this order:
//!
//! 1. [`VersionSet::pin_output`] gives an id, which is durably reserved; only then the file is
//!    made.
//! 2. The file is written and synced, and its name synced.
//! 3. [`VersionSet::check`], then the edit is appended to the manifest, durably, then
//!    [`VersionSet::install`], then [`VersionSet::unpin_output`].
//! 4. [`VersionSet::obsolete`] says what may be unlinked; [`VersionSet::unlinked`] that it is.
//!
//! # Invariants
//! 1. **An id has one file.** An id is handed out once: within a process because the counter only
//!    rises, over all processes because a process hands out only ids that it has reserved in the
//!    manifest itself. So a name never stands for other bytes than before.
//! 2. **What has gone does not come back.** An edit may name a file only if the current version
//!    names it or it is pinned. So once no version names a file, none ever will.
//! 3. **Held means kept.** A file is obsolete exactly if it was handed out or named since this set
//!    began, no living version names it, and it is not pinned. A version lives as long as anybody
//!    has an [`Arc`] of it; only the current one is handed out anew. With 2: what is obsolete stays
//!    so.
//! 4. **The manifest first.** A file is obsolete only after the edit that removes it was installed,
//!    which is after it was durable. And after a failed append ([`VersionSet::freeze`]) nothing is
//!    obsolete any more: whether the edit is durable is unknown, so both its inputs and its outputs
//!    may be what the next open finds named.
//!
//! # The crash argument
//! | a crash | leaves | the next open |
//! |---|---|---|
//! | after the reservation | ids that are skipped | goes on above them |
//! | while files are written | files, whole or not, that nobody names | unlinks them |
//! | after the edit is durable | its inputs, which nobody names any more | unlinks them |
//! | after some were unlinked | the rest, and names that come back, as no folder is synced for them | unlinks them |
//!
//! Tables in persistent memory are no files. The manifest names one until [`VersionSet::unread_pm_tables`]
//! says that no living version refers to it, and an edit has removed it; then its zones are free.
//!
//! No file that a durable manifest names is ever unlinked, at any of these points, because of 4. At
//! open, [`VersionSet::sweep`] is given the names in the folder. It first looks whether every named
//! file is there: if the manifest had lost its last edit (rot there looks like a torn append), the
//! files of that edit, which nobody names then, may be all that is left of the data, and are not to
//! be unlinked before somebody has looked. And it leaves alone what has an id that was never
//! reserved: that is not this database's.
//!
//! # Rejected
//! - *Counting references per file*: each version that is built or dropped would touch the counts
//!   of all its files. Asking the few living versions about the few files in question is cheaper
//!   and cannot go wrong over time.
//! - *Unlinking when the last version that names a file is dropped*: that is a reader's thread,
//!   under whatever locks it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use thermocline_base::{CfId, Error, FileId, Result};

use crate::edit::{Change, NextIds, VersionEdit};
use crate::state::State;
use crate::table::TableRef;
use crate::version::{FileKind, Version};
use crate::write_times::WriteTimes;

/// See the [module](self).
///
/// ```
/// use std::sync::Arc;
/// use thermocline_base::Result;
/// use thermocline_version::{Change, FileKind, State, VersionEdit, VersionSet};
///
/// /// In a database the manifest does this, durably.
/// fn append(set: &mut VersionSet, state: &mut State, edit: VersionEdit) -> Result<()> {
///     set.check(&edit)?;
///     state.apply(&edit)?;
///     set.install(&edit, state);
///     Ok(())
/// }
///
/// let mut state = State::default();
/// state.apply(&Change::Created { db_id: [1; 16], region_id: [2; 16] }.into())?;
/// let mut set = VersionSet::new(&state);
/// assert_eq!(set.pin_output(FileKind::Blob), None);
/// let reservation = set.reservation(&state, 100);
/// append(&mut set, &mut state, reservation)?;
///
/// let file = set.pin_output(FileKind::Blob).unwrap();
/// append(&mut set, &mut state, Change::BlobFileAdded { file, bytes: 5 }.into())?;
/// set.unpin_output(file);
/// let reader = Arc::clone(set.current());
/// append(&mut set, &mut state, Change::BlobFileRemoved { file }.into())?;
/// assert_eq!(set.obsolete(), []);
/// drop(reader);
/// assert_eq!(set.obsolete(), [(file, FileKind::Blob)]);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
#[derive(Debug)]
pub struct VersionSet {
    current: Arc<Version>,
    /// Earlier versions, oldest first; those that nobody holds go by and by.
    earlier: Vec<Weak<Version>>,
    /// Ids below are reserved by now.
    reserved: u64,
    /// The next id to hand out, if it is reserved.
    next_file: u64,
    /// Files that are being written, or whose edit is not installed yet.
    outputs: BTreeMap<FileId, FileKind>,
    /// Files that the current version does not name and that were not unlinked yet.
    unnamed: BTreeMap<FileId, FileKind>,
    holds: Arc<()>,
    times: Arc<WriteTimes>,
    frozen: bool,
}

/// Keeps all files of a version, for a checkpoint or backup, until it is dropped.
#[derive(Debug, Clone)]
pub struct Hold {
    version: Arc<Version>,
    _counted: Arc<()>,
}

impl Hold {
    /// The version.
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }
}

impl VersionSet {
    /// A set whose current version is that of `state`. No id that was reserved before is handed
    /// out: an earlier process may have used it.
    pub fn new(state: &State) -> VersionSet {
        VersionSet {
            current: Arc::clone(state.version()),
            earlier: Vec::new(),
            reserved: state.next_ids().file,
            // Not 0, so that 0 in the manifest says that there was never a file.
            next_file: state.next_ids().file.max(1),
            outputs: BTreeMap::new(),
            unnamed: BTreeMap::new(),
            holds: Arc::new(()),
            times: Arc::clone(state.write_times()),
            frozen: false,
        }
    }

    /// The current version. Whoever keeps it keeps its files.
    pub fn current(&self) -> &Arc<Version> {
        &self.current
    }

    /// When what was written was written, as of the last edit.
    pub fn write_times(&self) -> &Arc<WriteTimes> {
        &self.times
    }

    /// Holds the current version's files for a checkpoint or backup.
    pub fn hold(&self) -> Hold {
        Hold {
            version: Arc::clone(&self.current),
            _counted: Arc::clone(&self.holds),
        }
    }

    /// A version with the tables of these families alone, which keeps their files as an earlier
    /// version would: for those who read the families on when they are dropped.
    pub fn set_aside(&mut self, families: &[CfId]) -> Arc<Version> {
        let version = Arc::new(self.current.with_only(families));
        self.earlier.push(Arc::downgrade(&version));
        version
    }

    /// What a job needs of a version that lives: it keeps these tables, in files or in persistent memory, and the blob files that they
    /// refer to, and no others. What levels have is as in `of`. So what other jobs take away meanwhile can be unlinked, or removed by
    /// an edit.
    pub fn keep_only<'t>(
        &mut self,
        of: &Version,
        tables: impl Iterator<Item = &'t TableRef>,
    ) -> Arc<Version> {
        let version = Arc::new(of.naming_only(tables));
        self.earlier.push(Arc::downgrade(&version));
        version
    }

    /// The number of holds.
    pub fn holds(&self) -> usize {
        Arc::strong_count(&self.holds) - 1
    }

    /// The number of versions that live, the current one included.
    pub fn living(&self) -> usize {
        1 + self.earlier.iter().filter(|v| v.strong_count() > 0).count()
    }

    /// An id for a new file, which is pinned: no sweep takes the file until
    /// [`VersionSet::unpin_output`]. `None` if no id is reserved: append and install a
    /// [`VersionSet::reservation`] then.
    pub fn pin_output(&mut self, kind: FileKind) -> Option<FileId> {
        if self.next_file >= self.reserved {
            return None;
        }
        let file = FileId(self.next_file);
        self.next_file += 1;
        self.outputs.insert(file, kind);
        Some(file)
    }

    /// The number of the file that is made next: files that are there have smaller ones.
    pub fn next_file(&self) -> FileId {
        FileId(self.next_file)
    }

    /// The edit that reserves `count` more ids for files. `state` is that of the manifest.
    pub fn reservation(&self, state: &State, count: u64) -> VersionEdit {
        let ids = state.next_ids();
        let file = ids.file.max(self.next_file).saturating_add(count);
        Change::NextIds(NextIds { file, ..ids }).into()
    }

    /// Ends a pin: the edit that names the file is installed, or there will be none, and the file
    /// is obsolete unless a version names it.
    pub fn unpin_output(&mut self, file: FileId) {
        if let Some(kind) = self.outputs.remove(&file)
            && self.current.file(file).is_none()
        {
            self.unnamed.insert(file, kind);
        }
    }

    /// Ends a pin of a file that was not made: what has its name is somebody's, and stays.
    pub fn disown_output(&mut self, file: FileId) {
        self.outputs.remove(&file);
    }

    /// A number for a table in persistent memory, which is no file: nothing is pinned. `None` if none is
    /// reserved, as of [`VersionSet::pin_output`].
    pub fn take_number(&mut self) -> Option<FileId> {
        let file = FileId(self.next_file);
        (file.0 < self.reserved).then(|| {
            self.next_file += 1;
            file
        })
    }

    /// The tables in persistent memory to which neither the current version nor an earlier one that lives
    /// refers: an edit may remove them, as far as nobody holds the tables themselves.
    pub fn unread_pm_tables(&mut self) -> Vec<FileId> {
        self.earlier.retain(|version| version.strong_count() > 0);
        let unreferenced = self.current.pm_tables().filter(|(_, r)| r.is_empty());
        let mut files: Vec<FileId> = unreferenced.map(|(table, _)| table.file).collect();
        if self.frozen || files.is_empty() {
            return Vec::new();
        }
        for version in self.earlier.iter().filter_map(Weak::upgrade) {
            files.retain(|file| version.references(*file).is_empty());
        }
        files
    }

    /// Whether an edit may be installed: each file that it names is named already, or is a pinned
    /// output. To be asked before the edit is appended to the manifest.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the file.
    pub fn check(&self, edit: &VersionEdit) -> Result<()> {
        let named = edit.changes.iter().filter_map(|change| match change {
            Change::PmTableAdded { table } => Some(table.file),
            _ => None,
        });
        let named: BTreeSet<FileId> = named.collect();
        let in_pm = |file: FileId| self.current.pm_table(file).is_some() || named.contains(&file);
        for change in &edit.changes {
            let (file, kind) = match change {
                Change::TableAdded { table, .. } if in_pm(table.file) => continue,
                Change::TableAdded { table, .. } => (table.file, FileKind::Table),
                Change::BlobFileAdded { file, .. } => (*file, FileKind::Blob),
                _ => continue,
            };
            let pinned = self.outputs.get(&file) == Some(&kind);
            if !pinned && self.current.file(file) != Some(kind) {
                return Err(Error::InvalidArgument(format!(
                    "an edit may name a file that the current version names or a pinned output; \
                     file {file} is neither"
                )));
            }
        }
        Ok(())
    }

    /// Makes the version of `after` the current one: `edit` is durable in the manifest, `after` is
    /// its state. For every edit, in the order in which they were appended.
    pub fn install(&mut self, edit: &VersionEdit, after: &State) -> Arc<Version> {
        debug_assert!(self.check(edit).is_ok(), "{:?}", self.check(edit));
        self.reserved = after.next_ids().file;
        self.times = Arc::clone(after.write_times());
        let next = after.version();
        if Arc::ptr_eq(next, &self.current) {
            return Arc::clone(next);
        }
        let before = std::mem::replace(&mut self.current, Arc::clone(next));
        let in_pm = |file: FileId| before.pm_table(file).is_some();
        for change in &edit.changes {
            match change {
                Change::TableRemoved { file, .. } if in_pm(*file) => {}
                Change::TableRemoved { file, .. } => self.left(*file, FileKind::Table),
                Change::BlobFileRemoved { file } => self.left(*file, FileKind::Blob),
                Change::ColumnFamilyDropped { id } => {
                    let of_family = before.tables_of(CfId(*id));
                    for (_, table) in of_family.filter(|(_, table)| !in_pm(table.file)) {
                        self.left(table.file, FileKind::Table);
                    }
                }
                _ => {}
            }
        }
        self.earlier.retain(|version| version.strong_count() > 0);
        self.earlier.push(Arc::downgrade(&before));
        Arc::clone(&self.current)
    }

    /// A file that an edit has taken from a place.
    fn left(&mut self, file: FileId, kind: FileKind) {
        // A pinned one is looked at when the pin ends.
        if self.current.file(file).is_none() && !self.outputs.contains_key(&file) {
            self.unnamed.insert(file, kind);
        }
    }

    /// The files that may be unlinked: no living version names them, and they are not pinned. They
    /// are named again until [`VersionSet::unlinked`].
    pub fn obsolete(&mut self) -> Vec<(FileId, FileKind)> {
        self.earlier.retain(|version| version.strong_count() > 0);
        if self.frozen || self.unnamed.is_empty() {
            return Vec::new();
        }
        let unnamed = self.unnamed.iter().map(|(file, kind)| (*file, *kind));
        unnamed.filter(|(file, _)| !self.is_held(*file)).collect()
    }

    /// Whether a file waits that the current version does not name: somebody reads it, or it could not be removed.
    pub fn has_unnamed(&self) -> bool {
        !self.frozen && !self.unnamed.is_empty()
    }

    /// An obsolete file does not exist any more.
    pub fn unlinked(&mut self, file: FileId) {
        self.unnamed.remove(&file);
    }

    /// From now on nothing is obsolete: an append has failed, and which edits are durable is
    /// unknown until the database is opened again.
    pub fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Of the tables and blob files in the folder those that may be unlinked, when a database is
    /// opened.
    ///
    /// # Errors
    /// [`Error::Corruption`] if a named file is not there; nothing is to be unlinked then.
    pub fn sweep(&self, found: &[(FileId, FileKind)]) -> Result<Vec<(FileId, FileKind)>> {
        let mut there = found.to_vec();
        there.sort_unstable();
        for (file, kind) in self.current.files() {
            if there.binary_search(&(file, kind)).is_err() {
                let (name, expected) = match kind {
                    FileKind::Table => (format!("{:06}.sst", file.0), format!("table {file}")),
                    FileKind::Blob => (format!("{:06}.blob", file.0), format!("blob file {file}")),
                };
                let what = "a file that the manifest names is missing";
                return Err(Error::corruption(what, name, 0, expected, "no such file"));
            }
        }
        let named = |file| self.current.file(file).is_some() || self.is_held(file);
        let goes = |file: FileId| {
            !self.frozen
                && file.0 < self.reserved
                && !named(file)
                && !self.outputs.contains_key(&file)
        };
        Ok(there.into_iter().filter(|(file, _)| goes(*file)).collect())
    }

    /// These files, which a sweep found, are unlinked later, like others that are obsolete.
    pub fn left_by_sweep(&mut self, files: &[(FileId, FileKind)]) {
        self.unnamed.extend(files.iter().copied());
    }

    /// Whether an earlier version that lives names the file.
    fn is_held(&self, file: FileId) -> bool {
        let mut earlier = self.earlier.iter().filter_map(Weak::upgrade);
        earlier.any(|version| version.file(file).is_some())
    }
}

#[cfg(test)]
mod tests;
