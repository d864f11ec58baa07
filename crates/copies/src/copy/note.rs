//! The files that a piece of work makes in a folder, written down before they are made. After a crash the next piece
//! of work knows which files are ours, and removes no others. A name that a stranger gives a file, were it
//! `000007.sst`, proves nothing.
//!
//! 1. *A name is in the note, durably, before the file has it* ([`Note::record`]), and only if nothing had that name
//!    then. So the files that a note names were made by its work.
//! 2. *The note goes last*, durably, after the work is complete or all its files were removed. So no later file of
//!    the same name is taken for one of them.
//! 3. *A note proves itself* (`format`): a file of the same name with other content is a stranger's.
//!
//! Between the look at a name and its creation another process may still make a file of that name. Files are made so
//! that this fails (`OpenMode::CreateNew`, links). A file that could not be made because it exists is not ours
//! ([`Note::disown`]).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use thermocline_base::sync::{Arc, Mutex, lock};
use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use super::format::{HEADER_LEN, decode, encode_header, encode_name};
use super::sites;

/// Longer files are no notes of ours: this is some 200,000 names.
const LEN_MAX: u64 = 64 << 20;

/// The file that has the name of a note.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// A stranger's file.
    Foreign,
    /// A note of this kind, which names these files.
    Note(BTreeSet<String>),
}

impl Found {
    /// Whether the note names a file.
    pub fn names(&self, name: &str) -> bool {
        matches!(self, Found::Note(names) if names.contains(name))
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn at(storage: &dyn Storage, path: &Path) -> Result<Found> {
        if !storage.exists(path)? {
            return Ok(Found::Nothing);
        }
        let file = match storage.open(path, OpenMode::Read) {
            // For example a folder, a link, a FIFO.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::InvalidInput => {
                return Ok(Found::Foreign);
            }
            opened => opened?,
        };
        let len = file.len()?;
        if len > LEN_MAX {
            return Ok(Found::Foreign);
        }
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        let names = decode(&bytes).map(|names| Found::Note(names.into_iter().collect()));
        Ok(names.unwrap_or(Found::Foreign))
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Note {
    storage: Arc<dyn Storage>,
    file: Arc<dyn File>,
    noted: Mutex<Noted>,
}

#[derive(Debug)]
struct Noted {
    len: u64,
    names: BTreeSet<String>,
}

impl Note {
    /// Makes the note `path`, which does not exist, durably.
    pub fn begin(storage: &Arc<dyn Storage>, path: &Path) -> Result<Note> {
        let file = storage.open(path, OpenMode::CreateNew)?;
        let made = Note::make(&**storage, &*file);
        if let Err(error) = made {
            let _ = storage.remove(path);
            return Err(error);
        }
        Ok(Note {
            storage: storage.clone(),
            file,
            noted: Mutex::new(Noted {
                len: HEADER_LEN as u64,
                names: BTreeSet::new(),
            }),
        })
    }

    fn make(storage: &dyn Storage, file: &dyn File) -> Result<()> {
        file.write_at(&encode_header(), 0)?;
        file.sync(sites::COPY_NOTED)?;
        storage.sync_dir(folder_of(file.path()), sites::COPY_NOTED)
    }

    /// Writes down names of files that are about to be made (invariant 1).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if one exists; those of the file system.
    pub fn record(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let mut noted = lock(&self.noted);
        let mut records = Vec::new();
        let mut new = Vec::new();
        for name in names {
            let path = folder_of(self.file.path()).join(&name);
            if self.storage.exists(&path)? {
                let path = path.display();
                let text = format!("{path} was made by somebody meanwhile; move it away");
                return Err(Error::InvalidArgument(text));
            }
            records.extend(encode_name(&name, noted.len + records.len() as u64));
            new.push(name);
        }
        if new.is_empty() {
            return Ok(());
        }
        self.file.write_at(&records, noted.len)?;
        self.file.sync(sites::COPY_NOTED)?;
        noted.len += records.len() as u64;
        noted.names.extend(new);
        Ok(())
    }

    /// Forgets, until the process ends, a file that could not be made because one of that name exists.
    pub fn disown(&self, error: &Error) {
        if let Error::Io { path, source, .. } = error
            && source.kind() == ErrorKind::AlreadyExists
            && let Some(name) = path.file_name().and_then(|name| name.to_str())
        {
            lock(&self.noted).names.remove(name);
        }
    }

    /// The names that were written down.
    pub fn names(&self) -> BTreeSet<String> {
        lock(&self.noted).names.clone()
    }
}

/// Removes files of a folder. Some of them may not exist.
pub(crate) fn remove_all<'a>(
    storage: &dyn Storage,
    dir: &Path,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<()> {
    for name in names {
        let path = dir.join(name);
        if storage.exists(&path)? {
            storage.remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a note, durably, after the files that it names (invariant 2).
pub(crate) fn end(storage: &dyn Storage, note: &Path) -> Result<()> {
    storage.sync_dir(folder_of(note), sites::COPY_WITHDRAWN)?;
    storage.remove(note)?;
    storage.sync_dir(folder_of(note), sites::COPY_WITHDRAWN)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
