//! Where a block lies.

use std::fmt;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// Entries.
    Data = 1,
    /// Where data blocks, or index blocks of a lower level, lie.
    Index = 2,
    /// The filter over user keys.
    Filter = 3,
    /// Range tombstones.
    RangeTombstones = 4,
    /// Properties.
    Properties = 5,
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BlockKind::Data => "data",
            BlockKind::Index => "index",
            BlockKind::Filter => "filter",
            BlockKind::RangeTombstones => "range tombstones",
            BlockKind::Properties => "properties",
        })
    }
}

/// Where a block lies in its table: what a reader asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockHandle {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Bytes as stored, trailer included.
    pub len: u32,
    /// What the block holds.
    pub kind: BlockKind,
}

impl BlockHandle {
    /// Where the block ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}
