//! What a table says about itself.

use std::num::NonZeroU8;

use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

use crate::identity::Identity;
use crate::key::InternalKey;
use thermocline_base::Codec;

/// Why a table was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum Creation {
    /// From a memtable or level 0.
    #[default]
    Flush = 1,
    /// From other tables.
    Compaction = 2,
    /// Outside of the database, to be ingested.
    Ingest = 3,
    /// For a checkpoint.
    Checkpoint = 4,
}

impl Creation {
    pub(crate) fn from_u8(n: u8) -> Option<Creation> {
        [
            Creation::Flush,
            Creation::Compaction,
            Creation::Ingest,
            Creation::Checkpoint,
        ]
        .into_iter()
        .find(|c| *c as u8 == n)
    }
}

/// Which index a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum IndexUse {
    /// A binary one, as was wanted.
    #[default]
    Binary = 1,
    /// A learned one.
    Learned = 2,
    /// A binary one, since a learned one was wanted and did not fit.
    FellBack = 3,
}

impl IndexUse {
    pub(crate) fn from_u8(n: u8) -> Option<IndexUse> {
        [IndexUse::Binary, IndexUse::Learned, IndexUse::FellBack]
            .into_iter()
            .find(|index| *index as u8 == n)
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

/// What a table says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// Database and file.
    pub identity: Identity,
    /// The column family that all its keys belong to.
    pub cf: CfId,
    /// Entries: puts, deletes and merges.
    pub entries: u64,
    /// Of those, deletes.
    pub deletes: u64,
    /// Of those, merges.
    pub merges: u64,
    /// Range tombstones.
    pub range_tombstones: u64,
    /// Distinct user keys of the entries.
    pub user_keys: u64,
    /// Bytes of the user keys of all entries, before compression.
    pub key_bytes: u64,
    /// Bytes of all inline values, before compression.
    pub value_bytes: u64,
    /// Data blocks.
    pub data_blocks: u64,
    /// Their bytes as stored.
    pub data_bytes: u64,
    /// Smallest and largest seqno, of entries and range tombstones; none in an empty table.
    pub seqnos: Option<(SeqNo, SeqNo)>,
    /// No entry or range tombstone begins before; none in an empty table.
    pub smallest: Option<InternalKey>,
    /// No entry or range tombstone reaches behind; none in an empty table. Where a range tombstone
    /// reaches furthest, this is its end with [`SeqNo::MAX`], which stands before every version of
    /// that key: the end itself is not in the table.
    pub largest: Option<InternalKey>,
    /// The blob files that it refers to, by file.
    pub blobs: Vec<BlobUse>,
    /// Why it was made.
    pub creation: Creation,
    /// How its blocks are compressed.
    pub codec: Codec,
    /// The size that data blocks were to have, in bytes.
    pub block_bytes: u32,
    /// Entries from one restart point to the next.
    pub restart_interval: u16,
    /// Which index it has.
    pub index: IndexUse,
    /// How many bytes the prefixes have that its filter, if there is one, has beside keys: those of all keys that are as long. `None` if
    /// it has keys alone.
    pub prefix_len: Option<NonZeroU8>,
    /// The checksum of the checksums of all other blocks, in their order: so tables that differ in any entry differ here.
    /// `None` of a table that was written before there was this.
    pub blocks_crc: Option<u32>,
}

impl Properties {
    /// Those of an empty table.
    pub(crate) fn empty(identity: Identity, cf: CfId) -> Properties {
        Properties {
            identity,
            cf,
            entries: 0,
            deletes: 0,
            merges: 0,
            range_tombstones: 0,
            user_keys: 0,
            key_bytes: 0,
            value_bytes: 0,
            data_blocks: 0,
            data_bytes: 0,
            seqnos: None,
            smallest: None,
            largest: None,
            blobs: Vec::new(),
            creation: Creation::Flush,
            codec: Codec::None,
            block_bytes: 0,
            restart_interval: 0,
            index: IndexUse::Binary,
            prefix_len: None,
            blocks_crc: None,
        }
    }

    /// Bytes of memory that they take beside themselves.
    pub(crate) fn charge(&self) -> usize {
        let bounds = [&self.smallest, &self.largest].into_iter().flatten();
        let keys: usize = bounds.map(|key| key.user_key.capacity()).sum();
        keys + self.blobs.capacity() * size_of::<BlobUse>()
    }

    /// Where the user keys of entries and range tombstones lie; `None` of an empty table.
    pub fn range(&self) -> Option<KeyRange<&[u8]>> {
        let (smallest, largest) = (self.smallest.as_ref()?, self.largest.as_ref()?);
        Some(KeyRange {
            first: &smallest.user_key,
            last: &largest.user_key,
            // A range tombstone reaches furthest.
            open: largest.seqno == SeqNo::MAX,
        })
    }

    /// Takes an entry or range tombstone from `smallest` to `largest` in.
    pub(crate) fn cover(&mut self, smallest: crate::KeyRef<'_>, largest: crate::KeyRef<'_>) {
        if self.smallest.as_ref().is_none_or(|s| smallest < s.as_ref()) {
            self.smallest = Some(smallest.to_owned());
        }
        match &mut self.largest {
            Some(have) if largest <= have.as_ref() => {}
            // Entries ascend, so this happens for each: reuse the memory.
            Some(have) => {
                have.user_key.clear();
                have.user_key.extend_from_slice(largest.user_key);
                have.seqno = largest.seqno;
            }
            None => self.largest = Some(largest.to_owned()),
        }
        let seqno = smallest.seqno;
        self.seqnos = Some(match self.seqnos {
            None => (seqno, seqno),
            Some((low, high)) => (low.min(seqno), high.max(seqno)),
        });
    }
}
