//! Files that nobody names or reads any more.

use std::collections::BTreeSet;

use thermocline_base::Result;
use thermocline_catalog::files;
use thermocline_observe::poison::is_sync;
use thermocline_sst::sites;

use crate::store::Sweeper;

impl Sweeper {
    /// Makes it known that files are gone, to file systems that give room back only then. If it fails, for want
    /// of room, too, it may have covered the names of files that others are about to name.
    pub fn sync_removals(&self) -> Result<()> {
        let storage = &self.common.world.env.storage;
        match storage.sync_dir(&self.common.dir, sites::FILE_NAMED) {
            // A folder that could not be opened was not synced; that is for another time.
            Err(error) if is_sync(&error) => Err(self.common.poison.poison(error)),
            _ => Ok(()),
        }
    }

    /// Removes the files that nobody names or reads any more. What cannot be removed now the next open removes. The caller holds
    /// neither the writer's lock nor the gate of blob files.
    pub fn unlink_obsolete(&self) {
        // Closing waits for whoever removes a file. Whoever comes later finds the store closed: in its folder there may be another
        // one, whose files have the same names.
        let _gate = self.blobs.gate.enter();
        if self.common.check_writable().is_ok() {
            self.unlink_inside();
        }
    }

    /// Removes what nobody needs any more behind a compaction. If somebody reads files that it has made obsolete, a worker looks again
    /// when the store is idle: perhaps nobody writes, and no other job comes.
    pub fn sweep_behind_job(&self) {
        self.unlink_obsolete();
        self.release_pm_tables();
        self.discard_blobs();
        if self.common.catalog.has_unnamed() {
            self.common.written();
        }
    }

    /// As [`Sweeper::unlink_obsolete`], for who is inside the gate, or closes the store, and has waited for all who were.
    pub fn unlink_inside(&self) {
        if self.common.poison.check().is_err() {
            return;
        }
        self.reads.ask_readers_to_leave();
        let mut obsolete = self.common.catalog.obsolete();
        let held = self.common.elders.held();
        obsolete.retain(|(file, _)| !self.common.reclaim.is_file_held(*file, &held));
        let mut gone = BTreeSet::new();
        for found in obsolete {
            if files::unlink(&self.common.catalog.table_files, found) {
                self.common.catalog.unlinked(found.0);
                gone.insert(found.0);
            }
        }
        self.common.catalog.table_files.forget(&gone);
        // Some file systems give room back only with the folder's sync.
        if !gone.is_empty() {
            self.pressure.note_removed();
        }
        let gives_back = self.pressure.wants_removals();
        if gives_back && self.sync_removals().is_err() {
            return;
        }
        if gives_back || !gone.is_empty() {
            // There is more room on the disk than when the edit was made.
            self.pressure.press();
        }
    }
}

#[cfg(test)]
mod tests;
