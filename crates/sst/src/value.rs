//! Values: inline in a block, or in a blob file.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use thermocline_base::blob_ref::decode_blob_ref;
use thermocline_base::{BlobRef, Kind, SeqNo};

use crate::block::Block;
use crate::format::entry;

/// The value of an entry, as it is written and as a cursor shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// The bytes themselves.
    Inline(&'a [u8]),
    /// Where the bytes lie.
    Blob(BlobRef),
}

/// Bytes within a block, which stays in memory as long as they do.
#[derive(Clone)]
pub struct Pinned {
    block: Arc<Block>,
    range: Range<usize>,
}

impl Pinned {
    pub(crate) fn new(block: Arc<Block>, range: Range<usize>) -> Pinned {
        Pinned { block, range }
    }

    /// Bytes of memory that this keeps: the whole block's.
    pub fn charge(&self) -> usize {
        self.block.charge()
    }
}

impl Deref for Pinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.bytes()[self.range.clone()]
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned(b\"{}\")", self.escape_ascii())
    }
}

/// The value of an entry that was found.
#[derive(Debug, Clone)]
pub enum FoundValue {
    /// The bytes themselves.
    Inline(Pinned),
    /// Where the bytes lie.
    Blob(BlobRef),
    /// There is none: the entry is a tombstone of its key or of a range.
    None,
}

/// The newest that a table says about a key.
#[derive(Debug, Clone)]
pub struct Found {
    /// When it was written.
    pub seqno: SeqNo,
    /// What it says. [`Kind::RangeDelete`] if the newest is a range tombstone that covers the key; of
    /// [`Kind::Merge`] there may be older entries, which a cursor finds.
    pub kind: Kind,
    /// The value of a put or merge.
    pub value: FoundValue,
}

/// What tag and value bytes of a data entry, which have been checked, say.
pub(crate) fn of_entry(tag: u8, value: &[u8]) -> (Kind, Value<'_>) {
    let (kind, blob) = entry::decode_tag(tag).expect("a block's entries are checked");
    if blob {
        let blob = decode_blob_ref(value).expect("a block's entries are checked");
        (kind, Value::Blob(blob))
    } else {
        (kind, Value::Inline(value))
    }
}
