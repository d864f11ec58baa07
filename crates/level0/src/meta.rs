//! What an edit needs to name a table.

use thermocline_base::{CfId, FileId, SeqNo};

use crate::identity::TableIdentity;

/// A finished table: what an edit needs to name it, and what opening it is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PmTableMeta {
    /// Database and table.
    pub identity: TableIdentity,
    /// Its zones (or runs of zones), each of which has one piece of it.
    pub zones: u32,
    /// Bytes of those zones: what the table takes of persistent memory.
    pub zone_bytes: u64,
    /// Bytes that it has written there.
    pub bytes: u64,
    /// Entries: puts, deletes and merges.
    pub entries: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Smallest and largest seqno, of entries and range tombstones.
    pub seqnos: (SeqNo, SeqNo),
    /// What it has of each column family, by family; one at least.
    pub families: Vec<FamilyMeta>,
    /// The blob files that it refers to, by file.
    pub blobs: Vec<BlobUse>,
}

/// What a table has of one column family: what a reference to it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyMeta {
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
    /// No entry or range tombstone begins before this user key.
    pub smallest: Vec<u8>,
    /// No entry or range tombstone reaches behind this user key.
    pub largest: Vec<u8>,
    /// Whether `largest` is the end of a range tombstone, and so not in the table itself.
    pub open: bool,
}

impl FamilyMeta {
    pub(crate) fn empty(cf: CfId, smallest: &[u8]) -> FamilyMeta {
        FamilyMeta {
            cf,
            entries: 0,
            deletes: 0,
            merges: 0,
            range_tombstones: 0,
            key_bytes: 0,
            value_bytes: 0,
            seqnos: (SeqNo::MAX, SeqNo::ZERO),
            smallest: smallest.to_vec(),
            largest: Vec::new(),
            open: true,
        }
    }

    /// Takes something in that reaches from `smallest` to `largest`, or, if that is `open`, to before it.
    pub(crate) fn cover(&mut self, smallest: &[u8], largest: &[u8], open: bool, seqno: SeqNo) {
        if *smallest < *self.smallest {
            self.smallest = smallest.to_vec();
        }
        // Of two that end with the same key, the one that holds it reaches further.
        if (largest, !open) > (&self.largest[..], !self.open) {
            // Entries ascend, so this happens for each: reuse the memory.
            self.largest.clear();
            self.largest.extend_from_slice(largest);
            self.open = open;
        }
        self.seqnos = (self.seqnos.0.min(seqno), self.seqnos.1.max(seqno));
    }
}

/// What a table refers to in one blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlobUse {
    /// The blob file.
    pub file: FileId,
    /// Values there.
    pub values: u64,
    /// Their bytes.
    pub bytes: u64,
}
