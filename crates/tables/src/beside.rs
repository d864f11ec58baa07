//! Files of a store that is read beside a process that writes to it.
//!
//! That process removes files which its newest version does not name, and knows nobody who reads them. A file that is open stays
//! for whoever has it open. So all of them are opened at first and kept open, as long as there are descriptors: half of those
//! that the process may have, for all stores together that it reads in this way. Others need the rest, a writer in the same process
//! among them. Where others have more than that already, half of what can be opened stays open. Any other file is opened when it is read,
//! and closed where descriptors are short. If it has gone when it is to be read, the moment that is read has gone with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use thermocline_base::size::index;
use thermocline_base::{Error, FileId, Result};
use thermocline_env::Storage;
use thermocline_policy::tuning::OPEN_FILES_PARTS;
use thermocline_version::{FileKind, Version};

use crate::file::TableFile;

/// See the [module](self). Empty if nobody else writes to the store.
#[derive(Debug, Default)]
pub struct FilesBeside([OnceLock<Kept>; 2]);

#[derive(Debug)]
struct Kept {
    open: BTreeMap<FileId, Arc<TableFile>>,
    /// So many are counted with the spare files of this.
    counted: u64,
    /// Whether some were let go, as others needed the descriptors.
    is_short: bool,
    storage: Arc<dyn Storage>,
}

impl Kept {
    /// Keeps no more than so many: others need a descriptor, too.
    fn leave(&mut self, most: usize) {
        while self.open.len() > most {
            self.open.pop_last();
        }
        let left = self.open.len() as u64;
        self.storage
            .spares()
            .let_go(self.counted.saturating_sub(left));
        self.counted = left;
        self.is_short = true;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.open.clear();
        self.storage.spares().let_go(self.counted);
    }
}

impl FilesBeside {
    /// Opens the files of a version, all that there are descriptors for in a process that may have `files_max`, each by the storage and the
    /// path that `way` gives. At a second call those that the version before did not name; there is no third.
    ///
    /// # Errors
    /// [`Error::Busy`] if one has gone already.
    pub(crate) fn keep_open<'s>(
        &self,
        version: &Version,
        (storage, files_max): (&Arc<dyn Storage>, Option<u64>),
        way: impl Fn(FileId, FileKind) -> (&'s Arc<dyn Storage>, PathBuf),
    ) -> Result<()> {
        let all = version.files();
        let new: Vec<_> = all.filter(|(file, _)| self.kept(*file).is_none()).collect();
        let wanted = new.len() as u64;
        // What the first call has left is for others.
        let mut before = self.0.iter().filter_map(OnceLock::get);
        let most = match before.any(|kept| kept.is_short) {
            true => 0,
            false => files_max.map_or(u64::MAX, |files| files / OPEN_FILES_PARTS),
        };
        let mut kept = Kept {
            open: BTreeMap::new(),
            counted: storage.spares().keep(wanted, most),
            is_short: false,
            storage: storage.clone(),
        };
        for (file, kind) in new.into_iter().take(index(kept.counted)) {
            let (storage, path) = way(file, kind);
            match TableFile::keep_open_beside(storage, path) {
                Ok(opened) => drop(kept.open.insert(file, opened)),
                Err(error @ Error::Busy(_)) => return Err(error),
                // Most likely no descriptor is left. Anything else is told to whoever reads the file.
                Err(_) => {
                    let opened = kept.open.len() as u64;
                    kept.leave(index(opened / OPEN_FILES_PARTS));
                    break;
                }
            }
        }
        if let Some(free) = self.0.iter().find(|kept| kept.get().is_none()) {
            // Nobody else does so: the store is being opened.
            let _ = free.set(kept);
        }
        Ok(())
    }

    /// The file of that number, if it is kept open.
    pub fn kept(&self, file: FileId) -> Option<Arc<TableFile>> {
        let mut kept = self.0.iter().filter_map(OnceLock::get);
        kept.find_map(|kept| kept.open.get(&file)).cloned()
    }

    /// The file of that number, if somebody else writes to the store.
    ///
    /// # Errors
    /// As [`FilesBeside::keep_open`]; those of the file system.
    pub(crate) fn find(
        &self,
        file: FileId,
        (storage, path): (&Arc<dyn Storage>, impl FnOnce() -> PathBuf),
    ) -> Option<Result<Arc<TableFile>>> {
        self.0.first()?.get()?;
        Some(match self.kept(file) {
            Some(open) => Ok(open),
            None => TableFile::open_beside(storage, path()),
        })
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::Steps;
    use thermocline_env::OpenMode;
    use thermocline_env::sim::SimFs;
    use thermocline_version::{Change, NextIds, State, VersionEdit};

    use super::*;

    /// One that names so many files.
    fn version(files: u64) -> Arc<Version> {
        let mut state = State::default();
        let created = Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        };
        let ids = NextIds {
            file: files + 1,
            ..state.next_ids()
        };
        let first = VersionEdit::from(created).with(Change::NextIds(ids));
        let add = |edit: VersionEdit, file| {
            let file = FileId(file);
            edit.with(Change::BlobFileAdded { file, bytes: 1 })
        };
        state.apply(&(1..=files).fold(first, add)).unwrap();
        state.version().clone()
    }

    #[test]
    fn all_stores_of_a_process_together_keep_half_of_its_descriptors() {
        let storage: Arc<dyn Storage> = Arc::new(SimFs::new(Steps::new()));
        let path = |file: FileId| PathBuf::from(format!("/{}", file.0));
        let version = version(4);
        let opened = || {
            let files = FilesBeside::default();
            let way = |file, _| (&storage, path(file));
            files
                .keep_open(&version, (&storage, Some(12)), way)
                .unwrap();
            files
        };
        let make = || {
            for (file, _) in version.files() {
                drop(storage.open(&path(file), OpenMode::CreateNew).unwrap());
            }
        };
        let remove = || {
            for (file, _) in version.files() {
                storage.remove(&path(file)).unwrap();
            }
        };
        let kept = |files: &FilesBeside| {
            let is_there = |file| files.find(file, (&storage, || path(file)));
            let all = version.files().map(|(file, _)| is_there(file).unwrap());
            all.filter(Result::is_ok).count()
        };
        make();
        let [first, second, third] = [opened(), opened(), opened()];
        remove();
        assert_eq!([&first, &second, &third].map(kept), [4, 2, 0]);
        // Who closes leaves them to others.
        drop(first);
        make();
        let fourth = opened();
        remove();
        assert_eq!(kept(&fourth), 4);
    }

    #[test]
    fn where_others_have_most_descriptors_fewer_are_kept() {
        let fs = SimFs::new(Steps::new());
        let storage: Arc<dyn Storage> = Arc::new(fs.clone());
        let path = |file: FileId| PathBuf::from(format!("/{}", file.0));
        let version = version(4);
        for (file, _) in version.files() {
            drop(storage.open(&path(file), OpenMode::CreateNew).unwrap());
        }
        fs.limit_descriptors(3);
        let beside = FilesBeside::default();
        let way = |file, _| (&storage, path(file));
        for _ in 0..2 {
            // The second time nothing more is opened.
            let kept = beside.keep_open(&version, (&storage, Some(12)), way);
            kept.unwrap();
        }
        let kept = version.files().map(|(file, _)| beside.kept(file).is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [true, false, false, false]);
        assert_eq!(storage.spares().keep(12, 6), 5);
    }

    #[test]
    fn what_is_not_kept_is_closed_where_descriptors_are_short() {
        let storage: Arc<dyn Storage> = Arc::new(SimFs::new(Steps::new()));
        let path = |file: FileId| PathBuf::from(format!("/{}", file.0));
        let version = version(4);
        for (file, _) in version.files() {
            drop(storage.open(&path(file), OpenMode::CreateNew).unwrap());
        }
        let beside = FilesBeside::default();
        let way = |file, _| (&storage, path(file));
        beside
            .keep_open(&version, (&storage, Some(4)), way)
            .unwrap();
        let read = |file| beside.find(file, (&storage, || path(file))).unwrap();
        let held: Vec<_> = version.files().map(|(file, _)| read(file)).collect();
        // As whoever finds no descriptor left does.
        storage.spares().close();
        for (file, _) in version.files() {
            storage.remove(&path(file)).unwrap();
        }
        let can_be_read = held.into_iter().map(|file| file.unwrap().now().is_ok());
        let can_be_read: Vec<bool> = can_be_read.collect();
        assert_eq!(can_be_read, [true, true, false, false]);
    }
}
