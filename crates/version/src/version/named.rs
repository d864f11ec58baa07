//! What a version names: files, and tables in persistent memory.

use std::collections::BTreeMap;
use std::sync::Arc;

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

pub(super) type PmTables = BTreeMap<FileId, Arc<PmEntry>>;
