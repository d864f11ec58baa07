//! What is open of a version for readers, and what of it versions that follow each other share.
//!
//! A version is shown under the writer's lock, and of tens of thousands of tables it changes a few. So nothing is
//! made anew that the version before has: handles, tables in persistent memory, keys and runs lie in sequences that two
//! versions share ([`chunked`](thermocline_base::chunked)). The versions say how they differ
//! ([`Version::tables_since`]), and that alone is put in or taken out. To make what belongs to a version, and to let go of it,
//! costs as much as differs, and a step for each chunk.
//!
//! Of a version that lacks most tables of the one before (it was set aside) less is there than has gone. Its sequences
//! are its own, and have of the version before what is open, and the runs of families that have not changed.
//!
//! # Why it is what a version alone would have
//! Each table that two versions do not refer to in the same way is met, and from the references of both follows what is to be done:
//!
//! | of a table | changes |
//! |---|---|
//! | in a file | its handle is there as long as something refers to it |
//! | in persistent memory | it is there as long as something refers to it: others are nobody's to read, and wait to be freed |
//! | its keys | they are there as long as a reference stands in level 0 ([`keys`](crate::keys)) |
//!
//! Runs follow from the tables of one family. While somebody has the version before, the tables of a family are the same memory
//! only if nothing of the family has changed; and the version before is kept here. Such a family has the runs that it
//! had, or will have them, whoever makes them: they are made once for all versions.
//!
//! Of a level below 0 a run is the level's own list, which costs nothing to make; level 0 is as long as it may be
//! before writers are held back.

use std::sync::{Arc, OnceLock};

use thermocline_base::chunked::Chunked;
use thermocline_base::{CfId, FileId};
use thermocline_level0::PmTable;
use thermocline_policy::tuning::HELD_TABLES_FEW;
use thermocline_version::{FamilyTables, Level, Place, TableDifference, TableRef, Version};

use crate::keys::{KeptKeys, Level0Keys};
use crate::open::Handle;
use crate::pm::PmTables;
use crate::runs::{Run, runs_of};

/// The runs of a family, newest first; made by whoever reads it first, so that nobody who comes later takes a lock.
type Runs = OnceLock<Box<[Run]>>;

/// See the [module](self).
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    version: Arc<Version>,
    /// Of the tables in files.
    handles: Chunked<(FileId, Arc<Handle>)>,
    /// Those that lie in persistent memory.
    pm: Chunked<(FileId, Arc<PmTable>)>,
    /// Of tables of level 0 in files, the keys, as far as they are kept.
    keys: Chunked<(FileId, Arc<KeptKeys>)>,
    /// Of each family that has tables.
    runs: Chunked<(CfId, Arc<Runs>)>,
}

impl Held {
    /// What is held of `version`; what `before` has open stays open. Tables in persistent memory, and keys of level 0, are among
    /// these.
    pub(crate) fn new(
        version: Arc<Version>,
        (pm, keys): (&PmTables, &Level0Keys),
        before: Option<&Held>,
    ) -> Held {
        let nothing = Held::default();
        let known = before.unwrap_or(&nothing);
        // More has gone than is there.
        let (now, then) = (named(&version), named(&known.version));
        let begun = match then > HELD_TABLES_FEW && 2 * now < then {
            true => &nothing,
            false => known,
        };
        let mut held = begun.clone();
        for table in version.tables_since(&begun.version) {
            held.move_handle(&table, known);
            held.move_keys(&table, keys);
        }
        for table in version.pm_tables_since(&begun.version) {
            held.move_pm(&table, (pm, known));
        }
        for cf in version.families_since(&begun.version) {
            match version.family(cf) {
                Some(tables) => held.runs.set(cf, known.runs_of_same(cf, tables)),
                None => held.runs.take(&cf),
            };
        }
        // They left level 0 before anybody saw them there.
        drop(keys.unseen(|file| held.handle(file).is_some()));
        held.version = version;
        held
    }

    fn move_handle(&mut self, table: &TableDifference<'_>, known: &Held) {
        let file = table.file;
        if table.after.is_empty() {
            self.handles.take(&file);
        } else if table.before.is_empty() {
            let handle = known.handles.find(&file).cloned();
            let handle = handle.unwrap_or_else(|| Handle::new(file));
            self.handles.set(file, handle);
        }
    }

    fn move_keys(&mut self, table: &TableDifference<'_>, keys: &Level0Keys) {
        match (
            stands_in_level0(table.before),
            stands_in_level0(table.after),
        ) {
            (false, true) => {
                if let Some(kept) = keys.find(table.file) {
                    self.keys.set(table.file, kept);
                }
            }
            (true, false) => {
                self.keys.take(&table.file);
            }
            _ => {}
        }
    }

    fn move_pm(&mut self, table: &TableDifference<'_>, (pm, known): (&PmTables, &Held)) {
        let file = table.file;
        if table.after.is_empty() {
            self.pm.take(&file);
        } else if table.before.is_empty() {
            // No lock is taken for what is held already.
            let open = known.pm(file).cloned();
            if let Some(open) = open.or_else(|| pm.get(file)) {
                self.pm.set(file, open);
            }
        }
    }

    /// The runs of a family if these are its tables here, too; or else such as nobody has made.
    fn runs_of_same(&self, cf: CfId, tables: &Arc<FamilyTables>) -> Arc<Runs> {
        let own = self.version.family(cf);
        let is_same = own.is_some_and(|own| Arc::ptr_eq(own, tables));
        let runs = self.runs.find(&cf).filter(|_| is_same);
        runs.cloned().unwrap_or_default()
    }

    /// The version.
    pub(crate) fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Whether there is no table.
    pub(crate) fn is_empty(&self) -> bool {
        self.handles.is_empty() && self.pm.is_empty()
    }

    /// The handle of a table, if it lies in a file.
    #[inline]
    pub(crate) fn handle(&self, file: FileId) -> Option<&Arc<Handle>> {
        self.handles.find(&file)
    }

    /// All of them, by number.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Arc<Handle>> {
        self.handles.iter().map(|(_, handle)| handle)
    }

    /// A table, if it lies in persistent memory.
    #[inline]
    pub(crate) fn pm(&self, file: FileId) -> Option<&Arc<PmTable>> {
        self.pm.find(&file)
    }

    /// The keys of a table of level 0, as far as they are kept.
    #[inline]
    pub(crate) fn keys(&self, file: FileId) -> Option<&Arc<KeptKeys>> {
        self.keys.find(&file)
    }

    /// The runs of a family, newest first.
    #[inline]
    pub(crate) fn runs(&self, cf: CfId) -> &[Run] {
        match self.runs.find(&cf) {
            Some(runs) => runs.get_or_init(|| self.make_runs(cf)),
            None => &[],
        }
    }

    #[cold]
    fn make_runs(&self, cf: CfId) -> Box<[Run]> {
        let family = self.version.family(cf);
        family
            .map_or_else(Vec::new, |family| runs_of(family))
            .into()
    }
}

/// How many tables, in files and in persistent memory, and blob files a version names.
fn named(version: &Version) -> usize {
    version.file_count() + version.pm_table_count()
}

fn stands_in_level0(references: &[(Place, Arc<TableRef>)]) -> bool {
    references.iter().any(|(at, _)| at.level == Level::ZERO)
}

#[cfg(test)]
mod tests;
