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
//!
//! # No lock
//! Every block that is not in the cache is read through here, by all threads at once. So whether the file is open is looked up
//! in a pointer that is swapped, and nobody waits for anybody: whoever closes it leaves it open for reads that are under way,
//! and of two who open it the second takes what the first has kept.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use thermocline_base::{Error, Result, Site};
use thermocline_env::spares::Spare;
use thermocline_env::{File, OpenMode, Storage};

/// See the [module](self).
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    /// What is wrong if it is not there; `None` if nothing is: somebody else may have removed it.
    is_missing: Option<&'static str>,
    storage: Arc<dyn Storage>,
    /// Null while it is closed.
    open: ArcSwapOption<Opened>,
}

/// The file while it is open. A pointer that is swapped has no room for what a `dyn File` is.
#[derive(Debug)]
struct Opened(Arc<dyn File>);

impl TableFile {
    /// The file of a table, open.
    pub fn open(storage: &Arc<dyn Storage>, path: PathBuf) -> Result<Arc<TableFile>> {
        TableFile::new(storage, path, Some("a table is missing")).map(spare)
    }

    /// A blob file, open.
    pub fn open_blobs(storage: &Arc<dyn Storage>, path: PathBuf) -> Result<Arc<TableFile>> {
        TableFile::new(storage, path, Some("a blob file is missing")).map(spare)
    }

    /// Either, open, of a store to which somebody else writes. It stays open: its name may be gone tomorrow.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is gone; those of the file system.
    pub fn keep_open_beside(storage: &Arc<dyn Storage>, path: PathBuf) -> Result<Arc<TableFile>> {
        TableFile::new(storage, path, None)
    }

    /// The same where there was no descriptor to keep it open with. Whoever needs one more takes this one's, too: then it may be gone when
    /// it is read again.
    ///
    /// # Errors
    /// As [`TableFile::keep_open_beside`].
    pub fn open_beside(storage: &Arc<dyn Storage>, path: PathBuf) -> Result<Arc<TableFile>> {
        TableFile::new(storage, path, None).map(spare)
    }

    fn new(
        storage: &Arc<dyn Storage>,
        path: PathBuf,
        is_missing: Option<&'static str>,
    ) -> Result<Arc<TableFile>> {
        let file = Arc::new(TableFile {
            path,
            is_missing,
            storage: storage.clone(),
            open: ArcSwapOption::empty(),
        });
        file.now()?;
        Ok(file)
    }

    /// The file as it is open now. It stays open for as long as this is held, so only for a read.
    pub fn now(&self) -> Result<Arc<dyn File>> {
        if let Some(open) = &*self.open.load() {
            return Ok(open.0.clone());
        }
        self.open_again()
    }

    /// The same for a call, which writes to no count that threads share.
    #[inline]
    fn with<T>(&self, call: impl FnOnce(&dyn File) -> Result<T>) -> Result<T> {
        if let Some(open) = &*self.open.load() {
            return call(&*open.0);
        }
        call(&*self.open_again()?)
    }

    #[cold]
    fn open_again(&self) -> Result<Arc<dyn File>> {
        // Where descriptors are short this closes others, and they this one.
        let opened = self.storage.open(&self.path, OpenMode::Read);
        let opened = opened.map_err(|error| match self.is_missing {
            Some(what) => missing(error, what, &self.path),
            None => gone(error, &self.path),
        })?;
        let own = Arc::new(Opened(opened));
        let closed = None::<Arc<Opened>>;
        let before = self.open.compare_and_swap(&closed, Some(own.clone()));
        // If somebody was faster, this one's own file is closed here.
        Ok(match &*before {
            Some(first) => first.0.clone(),
            None => own.0.clone(),
        })
    }
}

impl Spare for TableFile {
    fn close(&self) {
        // Where descriptors are short all are asked, and most are closed already.
        if self.open.load().is_some() {
            self.open.store(None);
        }
    }
}

impl File for TableFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.with(|file| file.read_at(buf, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.with(|file| file.write_at(bytes, offset))
    }

    fn len(&self) -> Result<u64> {
        self.with(|file| file.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.with(|file| file.set_len(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.with(|file| file.allocate(offset, len))
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.with(|file| file.sync(site))
    }

    /// None that lasts.
    fn raw_fd(&self) -> Option<i32> {
        None
    }
}

/// It can be closed from now on, where descriptors are short.
fn spare(file: Arc<TableFile>) -> Arc<TableFile> {
    let spare: Arc<dyn Spare> = file.clone();
    file.storage.spares().add(Arc::downgrade(&spare));
    file
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

/// A file that somebody else has removed is none of the store's any more.
fn gone(error: Error, path: &Path) -> Error {
    match error {
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Error::Busy(format!(
                "the process that writes to the database has replaced {} since it was opened here; open it again to read \
             it as it is now, or take a checkpoint and read that",
                path.display()
            ))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::Steps;
    use thermocline_env::sim::SimFs;

    use super::*;

    #[test]
    fn a_file_that_is_closed_while_others_read_it_is_opened_again_and_none_stays_open_unseen() {
        let fs = SimFs::new(Steps::new());
        let storage: Arc<dyn Storage> = Arc::new(fs.clone());
        let path = Path::new("/table");
        let written = storage.open(path, OpenMode::CreateNew).unwrap();
        written.write_at(b"bytes", 0).unwrap();
        drop(written);
        let file = TableFile::open(&storage, path.to_path_buf()).unwrap();
        let read = |closes: bool| {
            for _ in 0..1000 {
                let mut found = [0; 5];
                file.read_exact_at(&mut found, 0).unwrap();
                assert_eq!(&found, b"bytes");
                assert_eq!(file.now().unwrap().len().unwrap(), 5);
                if closes {
                    file.close();
                }
            }
        };
        let read = &read;
        std::thread::scope(|scope| {
            for n in 0..4 {
                scope.spawn(move || read(n == 0));
            }
        });
        file.close();
        fs.take_most_open();
        file.now().unwrap();
        assert_eq!(fs.take_most_open(), 1);
    }
}
