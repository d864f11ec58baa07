//! Which blob files go, and when.
//!
//! # The race with writers, flushes and compactions
//! A file goes if it is named and nothing refers to it. Nobody has a lock under which all that could be seen at once, so it
//! is looked for in an order in which nothing is missed:
//!
//! 1. *Candidates*: the files of the current version to which no table refers.
//! 2. *Held?* A write holds its file before the edit that names it. So one that is a candidate and not held now has
//!    been let go of: its write has failed, or is finished, and then its memtable had noted it before.
//!    Nobody will ever refer to it anew: a file is of one batch.
//! 3. *Noted by a memtable?* First those of the view, then those that are retired, under the writer's lock. What
//!    leaves the view is among the retired before it has gone, and who takes it from there to drop it holds
//!    that lock until the edit is durable. So it is seen in one or the other as long as the manifest names
//!    it, and a crash cannot find it without its file. If no memtable has noted it now, those that had were dropped, and the tables that have their records, if
//!    anybody needs those, were named before (`flush`, invariant 4).
//!    A write that ended with a poisoned store may be durable without being noted: it has poisoned before it
//!    let go of its file, so poison is looked for behind 2, and then nothing goes.
//!    Then once more: *held?* A change feed's group holds a file that a memtable has noted whose home the
//!    feed holds just then. So a hold that came after step 2 was taken while that memtable was in the view or
//!    retired; if it was neither, the hold is seen now.
//! 4. *Still nobody?* Under the manifest's lock it is looked once more whether a table refers to it, and the edit is
//!    appended. What could refer to it later: a flush of a memtable that has noted it, but there is none
//!    (one that is being flushed is in the view or retired, since the flush holds it); a compaction of tables
//!    that refer to it, but there are none, and one that has begun with such tables finds them gone, and
//!    throws its outputs away.
//!
//! A memtable that notes a file when a record is indexed is the active one, which is in the view until nothing is in
//! flight. A staged batch is in the view, with what it has noted, before its file is let go of.
//!
//! When an open looks there are no writers: what the records and tables refer to is all there is.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, FileId, Result};
use thermocline_memtable::Memtable;
use thermocline_version::{Change, Version, VersionEdit};

use crate::store::Sweeper;
use crate::sync::{Arc, Ordering};

/// The files of `version` to which no table refers.
fn candidates(version: &Version) -> Vec<FileId> {
    let files = version.blob_files();
    let unreferenced = files.filter(|(_, blob)| blob.references == 0);
    unreferenced.map(|(file, _)| file).collect()
}

fn removal(files: impl IntoIterator<Item = FileId>) -> VersionEdit {
    let removed = |file| Change::BlobFileRemoved { file };
    VersionEdit {
        changes: files.into_iter().map(removed).collect(),
    }
}

/// The edit that removes the files of `version` to which neither a table nor a memtable refers, when a store
/// is opened or copied; `None` if there are none.
pub(crate) fn unreferenced<'m>(
    version: &Version,
    memtables: impl Iterator<Item = &'m Arc<Memtable>> + Clone,
) -> Option<VersionEdit> {
    let mut files = candidates(version);
    let homes = || memtables.clone().flat_map(|m| m.homes());
    files.retain(|file| !homes().any(|home| home.blobs().has(*file)));
    (!files.is_empty()).then(|| removal(files))
}

/// Whether all files that memtables are known to refer to are named.
pub(crate) fn check_named<'m>(
    version: &Version,
    memtables: impl Iterator<Item = &'m Arc<Memtable>>,
) -> Result<()> {
    for home in memtables.flat_map(|m| m.homes()) {
        let unnamed = |file: &FileId| version.blob_file(*file).is_none();
        if let Some(file) = home.blobs().files().into_iter().find(unnamed) {
            let memtable = home.id();
            return Err(Error::corruption(
                "a record refers to a blob file that the manifest does not name",
                home.region().path().display().to_string(),
                0,
                "a blob file that exists",
                format!("blob file {file} in memtable {memtable}"),
            ));
        }
    }
    Ok(())
}

impl Sweeper {
    /// Removes the blob files that nothing refers to, as far as nobody reads them. The caller holds neither
    /// the writer's lock nor [`Blobs::gate`](super::Blobs). What cannot be removed now goes later.
    pub fn discard_blobs(&self) {
        if self.blobs.any.load(Ordering::Relaxed) {
            let _gate = self.blobs.gate.enter();
            // A failed edit poisons the store: whoever writes hears of it.
            if self.common.check_writable().is_ok() {
                let unnamed = self.unname_dead();
                // A full disk keeps the names; what was never named goes all the same.
                if matches!(unnamed, Ok(()) | Err(Error::OutOfSpace(_))) {
                    self.unlink_inside();
                }
            }
        }
    }

    fn unname_dead(&self) -> Result<()> {
        let version = self.common.catalog.version();
        let mut files = candidates(&version);
        drop(version);
        files.retain(|file| !self.blobs.is_held(*file) || active(Bug::BlobForgetsWrites));
        if !active(Bug::BlobForgetsMemtables) {
            self.retain_unnoted(&mut files);
        }
        files.retain(|file| !self.blobs.is_held(*file) || active(Bug::BlobForgetsWrites));
        if files.is_empty() {
            return Ok(());
        }
        {
            let mut manifest = self.common.catalog.edits();
            self.common.poison.check()?;
            let version = manifest.state().version();
            let is_dead = |file: &FileId| {
                let named = version.blob_file(*file);
                named.is_some_and(|blob| blob.references == 0)
            };
            files.retain(is_dead);
            if files.is_empty() {
                return Ok(());
            }
            manifest.append(&removal(files))?;
        }
        // The view holds a version that names them.
        self.memtables.show_tables();
        Ok(())
    }

    /// Step 3.
    fn retain_unnoted(&self, files: &mut Vec<FileId>) {
        let _held_up = self.memtables.hold_writer_up();
        {
            let view = self.common.catalog.view();
            let homes = || view.memtables.iter().flat_map(|m| m.homes());
            files.retain(|file| !homes().any(|home| home.blobs().has(*file)));
        }
        self.common.reclaim.retain_unnoted(files);
    }
}
