//! The description of a table in persistent memory. Its writer gives it to the manifest, which names the table, and
//! to the reader that opens it.

use crate::{CfId, FileId, KeyRange, SeqNo};

/// A finished table in persistent memory, which owns zones of the region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmTableMeta {
    /// The owner of its zones: an id of the same sequence as those of chains, never given out twice.
    pub owner: u64,
    /// Its zones (or runs of zones), each of which has one piece of it; one at least.
    pub zones: u32,
    /// Bytes of those zones: the persistent memory that the table takes.
    pub zone_bytes: u64,
    /// Bytes that were written there.
    pub bytes: u64,
    /// Entries: puts, deletes and merges.
    pub entries: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Smallest and largest seqno, of entries and range tombstones.
    pub seqnos: (SeqNo, SeqNo),
    /// The table's part of each column family, by family; one at least.
    pub families: Vec<PmFamily>,
    /// The blob files that it refers to, by file.
    pub blobs: Vec<PmBlob>,
}

impl PmTableMeta {
    /// The table's part of a family.
    pub fn family(&self, cf: CfId) -> Option<&PmFamily> {
        let at = self.families.binary_search_by_key(&cf, |family| family.cf);
        at.ok().and_then(|at| self.families.get(at))
    }
}

/// The part of a table in persistent memory that belongs to one column family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmFamily {
    /// The family.
    pub cf: CfId,
    /// Entries: puts, deletes and merges.
    pub entries: u64,
    /// Deletes among these entries.
    pub deletes: u64,
    /// Merges among these entries.
    pub merges: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Bytes of the user keys of all entries, before compression.
    pub key_bytes: u64,
    /// Bytes of all inline values.
    pub value_bytes: u64,
    /// Smallest and largest seqno.
    pub seqnos: (SeqNo, SeqNo),
    /// The range that holds all entries and range tombstones. Open if a range tombstone reaches furthest.
    pub range: KeyRange<Vec<u8>>,
}

/// The values in one blob file that a table in persistent memory refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PmBlob {
    /// The blob file.
    pub file: FileId,
    /// Values there.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}
