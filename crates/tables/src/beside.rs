//! Files of a store that is read beside a process that writes to it.
//!
//! That process removes files which its newest version does not name, and knows nobody who reads them. A file that is open stays
//! for whoever has it open. So all of them are opened at first and kept open, as long as there are descriptors: as many as a store
//! may have for its tables. Any other one is opened when it is read. If it has gone by then, the moment that is read has gone
//! with it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use thermocline_base::size::index;
use thermocline_base::{FileId, Result};
use thermocline_env::Storage;
use thermocline_policy::tuning::OPEN_FILES_PARTS;
use thermocline_version::{FileKind, Version};

use crate::file::TableFile;

/// See the [module](self). Empty if nobody else writes to the store.
#[derive(Debug, Default)]
pub(crate) struct FilesBeside(OnceLock<BTreeMap<FileId, Arc<TableFile>>>);

impl FilesBeside {
    /// Opens the files of a version, all that there are descriptors for, each by the storage and the path that `way` gives.
    ///
    /// # Errors
    /// [`Error::Busy`](thermocline_base::Error::Busy) if one has gone already; those of the file system.
    pub fn keep_open<'s>(
        &self,
        version: &Version,
        files_max: Option<u64>,
        way: impl Fn(FileId, FileKind) -> (&'s Arc<dyn Storage>, PathBuf),
    ) -> Result<()> {
        let most = files_max.map_or(usize::MAX, |files| index(files / OPEN_FILES_PARTS));
        let mut open = BTreeMap::new();
        for (file, kind) in version.files().take(most) {
            let (storage, path) = way(file, kind);
            open.insert(file, TableFile::open_beside(storage, path)?);
        }
        // It is done once, when the store is opened.
        let _ = self.0.set(open);
        Ok(())
    }

    /// The file of that number, if somebody else writes to the store.
    ///
    /// # Errors
    /// As [`FilesBeside::keep_open`].
    pub fn find(
        &self,
        file: FileId,
        (storage, path): (&Arc<dyn Storage>, impl FnOnce() -> PathBuf),
    ) -> Option<Result<Arc<TableFile>>> {
        let open = self.0.get()?;
        Some(match open.get(&file) {
            Some(open) => Ok(open.clone()),
            None => TableFile::open_beside(storage, path()),
        })
    }
}
