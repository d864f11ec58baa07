//! What a version names: files, and tables in persistent memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_base::chunked::Chunked;
use thermocline_base::{CfId, FileId, SeqNo};

use crate::pm_table::PmTableInfo;
use crate::table::{Place, TableRef};

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A table.
    Table,
    /// A blob file.
    Blob,
}

/// A blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlobFile {
    /// Bytes of it.
    pub bytes: u64,
    /// Bytes of values in it, if they are known.
    pub value_bytes: Option<u64>,
    /// Table references that refer to it, were it to no bytes by their estimate.
    pub references: u64,
    /// Bytes of values in it that tables refer to. What else there is may be garbage, or referred
    /// to by records in persistent memory.
    pub referenced_bytes: u64,
}

/// A file that a version names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileEntry {
    pub(super) id: FileId,
    pub(super) named: Named,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    Table(TableFile),
    Blob(BlobFile),
}

/// A table's file, and where the references to it stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableFile {
    pub(super) cf: CfId,
    pub(super) bytes: u64,
    pub(super) seqnos: (SeqNo, SeqNo),
    /// By key; mostly one.
    pub(super) references: Vec<(Place, Arc<TableRef>)>,
}

/// A table in persistent memory, and where the references to it stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PmEntry {
    pub(super) table: Arc<PmTableInfo>,
    /// By key.
    pub(super) references: Vec<(Place, Arc<TableRef>)>,
}

/// All tables in persistent memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PmTables {
    /// By number.
    by_number: Chunked<(FileId, Arc<PmEntry>)>,
    /// By the owner of the zones.
    by_owner: Chunked<(u64, FileId)>,
    /// What they come to.
    totals: PmTotals,
}

/// What tables in persistent memory come to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PmTotals {
    /// How many there are.
    pub tables: u64,
    /// Bytes of their zones.
    pub bytes: u64,
    /// Tables among those to which nothing refers.
    pub retired: u64,
    /// Bytes of their zones.
    pub retired_bytes: u64,
}

/// A table to which two versions do not refer in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableDifference<'a> {
    /// The table's number.
    pub file: FileId,
    /// The references of the earlier version, and where they stand.
    pub before: &'a [(Place, Arc<TableRef>)],
    /// Those of the later one.
    pub after: &'a [(Place, Arc<TableRef>)],
}

impl<'a> TableDifference<'a> {
    /// `None` of what nothing refers to in either version: a blob file, or a table in persistent memory that waits to be freed.
    pub(super) fn new(
        file: FileId,
        before: &'a [(Place, Arc<TableRef>)],
        after: &'a [(Place, Arc<TableRef>)],
    ) -> Option<TableDifference<'a>> {
        let difference = TableDifference {
            file,
            before,
            after,
        };
        (!before.is_empty() || !after.is_empty()).then_some(difference)
    }
}

impl PmTables {
    pub(super) fn totals(&self) -> PmTotals {
        self.totals
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// By number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PmEntry> {
        self.by_number.iter().map(|(_, entry)| &**entry)
    }

    pub(super) fn get(&self, file: FileId) -> Option<&PmEntry> {
        self.by_number.find(&file).map(|entry| &**entry)
    }

    pub(super) fn owns(&self, owner: u64) -> bool {
        self.by_owner.find(&owner).is_some()
    }

    /// Those to which these and `before` do not have the same references.
    pub(super) fn since<'a>(
        &'a self,
        before: &'a PmTables,
    ) -> impl Iterator<Item = TableDifference<'a>> {
        type Entry = (FileId, Arc<PmEntry>);
        let key_of = |(file, _): &Entry| *file;
        // Of a chunk that is not shared most entries are.
        let is_same = |old: &Entry, new: &Entry| {
            Arc::ptr_eq(&old.1, &new.1) || old.1.references == new.1.references
        };
        let before = &before.by_number;
        let all = self.by_number.differences(before, key_of, is_same);
        all.filter_map(|one| {
            let (file, _) = one.after.or(one.before)?;
            let [before, after] = [one.before, one.after].map(references_of);
            TableDifference::new(*file, before, after)
        })
    }

    /// Adds a table to which nothing refers; its number and its owner are free. `false`, and nothing has changed, if the bytes of all
    /// zones could not be counted.
    pub(super) fn add(&mut self, table: &Arc<PmTableInfo>) -> bool {
        let (file, bytes) = (table.file, table.meta.zone_bytes);
        let Some(all) = self.totals.bytes.checked_add(bytes) else {
            return false;
        };
        let entry = PmEntry {
            table: Arc::clone(table),
            references: Vec::new(),
        };
        self.by_number.set(file, Arc::new(entry));
        self.by_owner.set(table.meta.owner, file);
        self.totals.tables += 1;
        self.totals.bytes = all;
        self.totals.retire(bytes);
        true
    }

    /// Those of these numbers, with the references to them.
    pub(super) fn only(&self, files: &BTreeSet<FileId>) -> PmTables {
        let mut only = PmTables::default();
        for file in files {
            let Some(entry) = self.by_number.find(file) else {
                continue;
            };
            let bytes = entry.table.meta.zone_bytes;
            only.by_number.set(*file, Arc::clone(entry));
            only.by_owner.set(entry.table.meta.owner, *file);
            only.totals.tables += 1;
            only.totals.bytes += bytes;
            if entry.references.is_empty() {
                only.totals.retire(bytes);
            }
        }
        only
    }

    /// Removes a table to which nothing refers.
    pub(super) fn remove(&mut self, file: FileId) {
        let Some(entry) = self.by_number.take(&file) else {
            return;
        };
        debug_assert!(entry.references.is_empty());
        let bytes = entry.table.meta.zone_bytes;
        self.by_owner.take(&entry.table.meta.owner);
        self.totals.tables -= 1;
        self.totals.bytes -= bytes;
        self.totals.unretire(bytes);
    }

    #[cfg(test)]
    pub(super) fn shared_chunks(&self, other: &PmTables) -> (usize, usize) {
        self.by_number.shared_chunks(&other.by_number)
    }

    /// Changes the references to a table, if it is there: says whether it is.
    pub(super) fn change_references(
        &mut self,
        file: FileId,
        change: impl FnOnce(&mut Vec<(Place, Arc<TableRef>)>),
    ) -> bool {
        let Some(entry) = self.by_number.find_mut(&file) else {
            return false;
        };
        let entry = Arc::make_mut(entry);
        let was_retired = entry.references.is_empty();
        change(&mut entry.references);
        let bytes = entry.table.meta.zone_bytes;
        match (was_retired, entry.references.is_empty()) {
            (true, false) => self.totals.unretire(bytes),
            (false, true) => self.totals.retire(bytes),
            _ => {}
        }
        true
    }
}

fn references_of(entry: Option<&(FileId, Arc<PmEntry>)>) -> &[(Place, Arc<TableRef>)] {
    entry.map_or(&[], |(_, entry)| &entry.references)
}

impl PmTotals {
    /// Nothing refers any more to a table with so many bytes.
    fn retire(&mut self, bytes: u64) {
        self.retired += 1;
        self.retired_bytes += bytes;
    }

    /// Something does, or it has gone.
    fn unretire(&mut self, bytes: u64) {
        self.retired -= 1;
        self.retired_bytes -= bytes;
    }
}
