//! What is said of a table in persistent memory: by whoever has written it, to the manifest that names it, and to
//! whoever opens it.

use crate::{CfId, FileId, KeyRange, SeqNo};

/// A finished table in persistent memory, which owns zones of the region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmTableMeta {
    /// Who owns its zones: an id of the same sequence as those of chains, never given out twice.
    pub owner: u64,
    /// Its zones (or runs of zones), each of which has one piece of it; one at least.
    pub zones: u32,
    /// Bytes of those zones: what the table takes of persistent memory.
    pub zone_bytes: u64,
    /// Bytes that were written there.
    pub bytes: u64,
    /// Entries: puts, deletes and merges.
    pub entries: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Smallest and largest seqno, of entries and range tombstones.
    pub seqnos: (SeqNo, SeqNo),
    /// What it has of each column family, by family; one at least.
    pub families: Vec<PmFamily>,
    /// The blob files that it refers to, by file.
    pub blobs: Vec<PmBlob>,
}

impl PmTableMeta {
    /// What it has of a family.
    pub fn family(&self, cf: CfId) -> Option<&PmFamily> {
        let at = self.families.binary_search_by_key(&cf, |family| family.cf);
        at.ok().and_then(|at| self.families.get(at))
    }
}

/// What a table in persistent memory has of one column family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmFamily {
    /// The family.
    pub cf: CfId,
    /// Entries: puts, deletes and merges.
    pub entries: u64,
    /// Of those, deletes.
    pub deletes: u64,
    /// Of those, merges.
    pub merges: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Bytes of the user keys of all entries, before compression.
    pub key_bytes: u64,
    /// Bytes of all inline values.
    pub value_bytes: u64,
    /// Smallest and largest seqno.
    pub seqnos: (SeqNo, SeqNo),
    /// No entry or range tombstone reaches out of it. Open if a range tombstone reaches furthest.
    pub range: KeyRange<Vec<u8>>,
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
