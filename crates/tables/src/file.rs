//! The file of a table, or of values, whose descriptor can be taken away from whoever does not read at that moment.
//!
//! A reader may stay in the same tables for days, and with many runs one reader is in many tables. Descriptors are
//! fewer. So a table, and a cursor in it, has a [`TableFile`]: it opens the file when it is read, keeps it open as long
//! as nobody in the process needs the descriptor more (`env::frugal`), and opens it again. What has to be open
//! at the same time is thus one file for each thread that reads, however many readers are held.
//!
//! # Why the file is the same one
//! A file lies under its name as long as a version that is held names it (`version::version_set`). Who reads on though
//! the store was closed may find none, or another one: the checksums of blocks are of the file that they were
//! written to.

use std::io;
use std::path::{Path, PathBuf};

use thermocline_base::{Error, Result, Site};
use thermocline_env::spares::Spare;
use thermocline_env::{File, OpenMode, Storage};

use std::sync::Arc;
use thermocline_base::sync::{Mutex, lock};

/// See the [module](self).
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    /// What is wrong if it is not there.
    is_missing: &'static str,
    storage: Arc<dyn Storage>,
    open: Mutex<Option<Arc<dyn File>>>,
}

impl TableFile {
    /// The file of a table, open.
    pub fn open(storage: &Arc<dyn Storage>, path: PathBuf) -> Result<Arc<TableFile>> {
        TableFile::new(storage, path, "a table is missing")
    }

    /// A blob file, open.
    pub fn open_blobs(storage: &Arc<dyn Storage>, path: PathBuf) -> Result<Arc<TableFile>> {
        TableFile::new(storage, path, "a blob file is missing")
    }

    fn new(
        storage: &Arc<dyn Storage>,
        path: PathBuf,
        is_missing: &'static str,
    ) -> Result<Arc<TableFile>> {
        let file = Arc::new(TableFile {
            path,
            is_missing,
            storage: storage.clone(),
            open: Mutex::default(),
        });
        file.now()?;
        let spare: Arc<dyn Spare> = file.clone();
        storage.spares().add(Arc::downgrade(&spare));
        Ok(file)
    }

    /// The file as it is open now. It stays open for as long as this is held, so only for a read.
    pub fn now(&self) -> Result<Arc<dyn File>> {
        if let Some(file) = &*lock(&self.open) {
            return Ok(file.clone());
        }
        // Not under the lock: where descriptors are short this closes others, and they this one.
        let opened = self.storage.open(&self.path, OpenMode::Read);
        let opened = opened.map_err(|error| missing(error, self.is_missing, &self.path))?;
        Ok(lock(&self.open).get_or_insert(opened).clone())
    }
}

impl Spare for TableFile {
    fn close(&self) {
        let file = lock(&self.open).take();
        drop(file);
    }
}

impl File for TableFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.now()?.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.now()?.write_at(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.now()?.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.now()?.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.now()?.allocate(offset, len)
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.now()?.sync(site)
    }

    /// None that lasts.
    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

/// A named file that is not there is damage.
pub(crate) fn missing(error: Error, what: &str, path: &Path) -> Error {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Error::corruption(what, path.display().to_string(), 0, "the file", "none")
        }
        other => other,
    }
}
