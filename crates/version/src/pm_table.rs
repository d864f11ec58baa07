//! Tables in persistent memory: what a version knows of one beside the references to it.

use thermocline_base::{FileId, PmTableMeta};

/// A table in persistent memory, which owns zones of the region. References name it by `file`, as they
/// name tables on SSD; several families, and several parts of each, may be referred to.
///
/// It exists from [`Change::PmTableAdded`](crate::Change::PmTableAdded) to
/// [`Change::PmTableRemoved`](crate::Change::PmTableRemoved), referred to or not: so the manifest names
/// the zones for as long as anybody may read them, were it somebody who outlives the process.
///
/// What of its blob files is in use is counted in references, none of which may say more than
/// `meta.blobs`; who reads a table wholly is told by that what he may meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmTableInfo {
    /// The number by which references name it, of the same sequence as the numbers of files.
    pub file: FileId,
    /// What it is.
    pub meta: PmTableMeta,
}
