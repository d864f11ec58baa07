//! How numbers, owners and zones of PM tables come and go. See the [module above](super), invariants 2 and 4.

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, FileId, Result};
use thermocline_halloc::Witness;
use thermocline_jobs::outputs::MadeInPm;
use thermocline_policy::tuning::{OWNERS_AHEAD, OWNERS_MAX};
use thermocline_version::{Change, NextIds, VersionEdit};

use crate::store::Sweeper;

impl Sweeper {
    /// The owner of a new table's zones. The caller holds no lock but `flushing`, or the gate of compactions.
    ///
    /// # Errors
    /// A failed write to the manifest, which poisons the store; [`Error::OutOfSpace`]; [`Error::Closed`].
    pub fn pm_owner(&self) -> Result<u64> {
        loop {
            if let Some(owner) = self.common.catalog.table_files.pm.next_owner() {
                return Ok(owner);
            }
            // Ids are given out in the order in which the manifest learns of them (`next_memtable`).
            let _naming = self.memtables.name_out_of_turn()?;
            // Somebody else may have reserved some.
            if let Some(owner) = self.common.catalog.table_files.pm.next_owner() {
                return Ok(owner);
            }
            let mut manifest = self.common.catalog.edits();
            let ids = manifest.state().next_ids();
            // By the newest chain's number the region tells whether the manifest has lost edits: of 16 bits. That is one which the
            // manifest does not name, too: of a batch that was staged and came to nothing.
            let memtables = manifest.state().memtables().values();
            let chains = memtables.flat_map(|memtable| &memtable.chains);
            let named = chains.map(|chain| chain.id).max().unwrap_or(0);
            let known = self.common.space.witness().ok().flatten();
            let newest = known.map_or(named, |known| {
                let distance = known.distance(Witness::of(ids.chain, 0));
                ids.chain.saturating_add_signed(distance.into())
            });
            if ids.chain > newest + OWNERS_MAX {
                return Err(Error::OutOfSpace(format!(
                    "{OWNERS_MAX} numbers of tables in persistent memory were given out since the last \
                     memtable began"
                )));
            }
            let behind = ids.chain + OWNERS_AHEAD;
            let reserved = NextIds {
                chain: behind,
                ..ids
            };
            manifest.append(&Change::NextIds(reserved).into())?;
            self.common
                .catalog
                .table_files
                .pm
                .give_owners(ids.chain..behind);
        }
    }

    /// Frees the tables that nothing refers to and nobody reads. The caller holds neither the writer's lock
    /// nor those behind it, nor the gate of blob files. What cannot be freed now is later.
    pub fn release_pm_tables(&self) {
        if self.unread_pm_tables().is_empty() {
            return;
        }
        // Closing waits for whoever removes a table, as for who removes a blob file, and whoever comes later
        // finds the store closed.
        let _gate = self.blobs.gate.enter();
        if self.common.check_writable().is_err() {
            return;
        }
        let files = self.unread_pm_tables();
        // A failed edit poisons the store: whoever writes hears of it.
        let _ = self.remove_pm_tables(files);
    }

    /// The tables that may be removed: no living version refers to them, and nobody holds them.
    fn unread_pm_tables(&self) -> Vec<FileId> {
        if active(Bug::PmTableForgetsReaders) {
            let version = self.common.catalog.version();
            let unreferenced = version.pm_tables().filter(|(_, r)| r.is_empty());
            return unreferenced.map(|(table, _)| table.file).collect();
        }
        let mut files = self.common.catalog.unread_pm_tables();
        files.retain(|file| !self.common.catalog.table_files.pm.is_held(*file));
        let held = self.common.elders.held();
        files.retain(|file| !self.common.reclaim.is_file_held(*file, &held));
        files
    }

    fn remove_pm_tables(&self, mut files: Vec<FileId>) -> Result<()> {
        {
            let mut manifest = self.common.catalog.edits();
            self.common.poison.check()?;
            // Somebody else may have done it.
            files.retain(|file| manifest.state().version().pm_table(*file).is_some());
            if files.is_empty() {
                return Ok(());
            }
            let removed = files.iter().map(|&file| Change::PmTableRemoved { file });
            let changes = removed.collect();
            manifest.append(&VersionEdit { changes })?;
        }
        files.into_iter().for_each(|file| self.free_zones_of(file));
        self.common.room.note();
        self.pressure.press();
        Ok(())
    }

    /// Frees what was made and is not named, unless whether it is named is unknown.
    pub fn release_made(&self, made: &[MadeInPm]) {
        for made in made {
            let file = made.info.file;
            let named = self.common.catalog.version().pm_table(file).is_some();
            if !named && self.common.poison.check().is_ok() {
                self.free_zones_of(file);
            }
        }
    }

    /// Gives the zones of a table back, unless somebody else has (invariant 4).
    fn free_zones_of(&self, file: FileId) {
        if let Some(zones) = self.common.catalog.table_files.pm.take(file) {
            self.common.space.release(&zones);
        }
    }
}
