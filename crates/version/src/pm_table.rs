//! Tables in persistent memory: what a version knows of one beside the references to it.

use thermocline_base::{CfId, FileId, SeqNo};

use crate::range::KeyRange;

/// A table in persistent memory, which owns zones of the region. References name it by `file`, as they
/// name tables on SSD; several families, and several parts of each, may be referred to.
///
/// It exists from [`Change::PmTableAdded`](crate::Change::PmTableAdded) to
/// [`Change::PmTableRemoved`](crate::Change::PmTableRemoved), referred to or not: so the manifest names
/// the zones for as long as anybody may read them, were it somebody who outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmTableInfo {
    /// The number by which references name it, of the same sequence as the numbers of files.
    pub file: FileId,
    /// Who owns its zones: an id of the same sequence as those of chains.
    pub owner: u64,
    /// Its zones, or runs of zones; one at least.
    pub zones: u32,
    /// Bytes of those zones: what it takes of persistent memory.
    pub zone_bytes: u64,
    /// Bytes that were written there.
    pub bytes: u64,
    /// Entries, without range tombstones.
    pub entries: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Smallest and largest seqno.
    pub seqnos: (SeqNo, SeqNo),
    /// What it has of each family, by family; one at least.
    pub families: Vec<PmFamily>,
    /// The blob files that it refers to, by file.
    pub blobs: Vec<PmBlob>,
}

/// What a table in persistent memory has of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmFamily {
    /// The family.
    pub cf: CfId,
    /// Entries, without range tombstones.
    pub entries: u64,
    /// Of those, deletes.
    pub deletes: u64,
    /// Of those, merges.
    pub merges: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Bytes of the user keys of all entries.
    pub key_bytes: u64,
    /// Bytes of all inline values.
    pub value_bytes: u64,
    /// Smallest and largest seqno.
    pub seqnos: (SeqNo, SeqNo),
    /// No key of it lies outside.
    pub range: KeyRange,
}

/// What a table in persistent memory refers to in one blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PmBlob {
    /// The blob file.
    pub file: FileId,
    /// Values there.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl PmTableInfo {
    /// What it has of a family.
    pub fn family(&self, cf: CfId) -> Option<&PmFamily> {
        let at = self.families.binary_search_by_key(&cf, |family| family.cf);
        at.ok().and_then(|at| self.families.get(at))
    }
}
