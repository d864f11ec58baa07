//! What a version names: files, and tables in persistent memory.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

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

/// All tables in persistent memory, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct PmTables {
    by_number: BTreeMap<FileId, Arc<PmEntry>>,
    /// Added up by whoever asks first.
    totals: OnceLock<PmTotals>,
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

impl PmTables {
    pub(super) fn totals(&self) -> PmTotals {
        *self.totals.get_or_init(|| {
            let mut all = PmTotals::default();
            for entry in self.by_number.values() {
                let bytes = entry.table.meta.zone_bytes;
                all.tables += 1;
                all.bytes += bytes;
                if entry.references.is_empty() {
                    all.retired += 1;
                    all.retired_bytes += bytes;
                }
            }
            all
        })
    }

    /// Them, to be changed: what they came to does not hold any more.
    pub(super) fn by_number_mut(&mut self) -> &mut BTreeMap<FileId, Arc<PmEntry>> {
        self.totals = OnceLock::new();
        &mut self.by_number
    }
}

impl Deref for PmTables {
    type Target = BTreeMap<FileId, Arc<PmEntry>>;

    fn deref(&self) -> &Self::Target {
        &self.by_number
    }
}

impl PartialEq for PmTables {
    fn eq(&self, other: &PmTables) -> bool {
        self.by_number == other.by_number
    }
}

impl Eq for PmTables {}
