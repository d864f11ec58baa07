//! Numbers of files that are about to be made. They are reserved in the manifest ahead, many at a time.

use std::io::ErrorKind;

use thermocline_base::sync::lock;
use thermocline_base::{Error, FileId, Result};
use thermocline_version::FileKind;

use crate::edits::Catalog;

/// Numbers that are reserved at a time.
const IDS_AHEAD: u64 = 64;

impl Catalog {
    /// The number of a file that is about to be made, pinned: nobody takes the file for obsolete. No file of ours
    /// ever had a number that was not given out before. So what has its name is somebody's: another number is taken.
    ///
    /// # Errors
    /// Those of the edit that reserves numbers, and of the look.
    pub fn pin_file(&self, kind: FileKind) -> Result<FileId> {
        loop {
            let pinned = lock(&self.versions).pin_output(kind);
            let Some(file) = pinned else {
                self.reserve_files()?;
                continue;
            };
            match self.is_taken(file, kind) {
                Ok(false) => return Ok(file),
                looked => {
                    lock(&self.versions).disown_output(file);
                    looked?;
                }
            }
        }
    }

    fn is_taken(&self, file: FileId, kind: FileKind) -> Result<bool> {
        let files = &self.table_files;
        files.storage.exists(&match kind {
            FileKind::Table => files.path(file),
            FileKind::Blob => files.blob_path(file),
        })
    }

    /// A file of a pinned number could not be made. If somebody has put one of that name there since the number was given out, that is
    /// not ours, and stays. Gives the error back.
    pub fn not_made(&self, file: FileId, error: Error) -> Error {
        if let Error::Io { source, .. } = &error
            && source.kind() == ErrorKind::AlreadyExists
        {
            lock(&self.versions).disown_output(file);
        }
        error
    }

    /// A table of a pinned number could not be made. It would have been begun under another name than its own ([`files`](crate::files)):
    /// where that is not there, what has its own is somebody's, and stays. Gives the error back.
    pub fn table_not_made(&self, file: FileId, error: Error) -> Error {
        let files = &self.table_files;
        if let Ok(false) = files.storage.exists(&files.unfinished_path(file)) {
            lock(&self.versions).disown_output(file);
        }
        error
    }

    /// Ends the pins of these files: the edit is installed, or there will be none and they are obsolete.
    pub fn unpin_files(&self, files: impl Iterator<Item = FileId>) {
        let mut versions = lock(&self.versions);
        files.for_each(|file| versions.unpin_output(file));
    }

    /// The number of a PM table that is about to be made.
    ///
    /// # Errors
    /// As [`Catalog::pin_file`].
    pub fn take_number(&self) -> Result<FileId> {
        loop {
            if let Some(file) = lock(&self.versions).take_number() {
                return Ok(file);
            }
            self.reserve_files()?;
        }
    }

    /// The next number that is given out: files with smaller ones were begun before.
    pub fn next_file(&self) -> FileId {
        lock(&self.versions).next_file()
    }

    /// Reserves more numbers.
    fn reserve_files(&self) -> Result<()> {
        self.poison.check()?;
        // Under one lock: the reservation says what no id of any kind is below.
        let mut edits = self.edits();
        let reservation = lock(&self.versions).reservation(edits.state(), IDS_AHEAD);
        edits.append(&reservation)
    }
}
