//! A group: blocks whose keys have one code.

use std::ops::Range;

use super::code::Code;

/// Blocks that follow each other, and how their keys become numbers.
#[derive(Debug)]
pub(super) struct Group {
    /// The first block.
    pub first: u32,
    /// How many blocks, at least one.
    pub blocks: u32,
    /// Above all keys of the blocks before, and not above any of these blocks' own, unless versions of one
    /// key lie on both sides: then that key and a zero. Empty in the first group.
    pub low: Box<[u8]>,
    pub code: Code,
    /// Its models, among those of the table: of all its blocks but the first, which needs no threshold.
    pub models: Range<usize>,
}

impl Group {
    /// The block behind its last one.
    pub fn end(&self) -> u32 {
        self.first + self.blocks
    }

    /// Bytes of memory that it takes.
    pub fn charge(&self) -> usize {
        size_of::<Group>() + self.low.len() + self.code.charge()
    }
}

/// Whether `low` is `key` and a zero: what comes next to it.
pub(super) fn is_next_to(low: &[u8], key: &[u8]) -> bool {
    low.split_last() == Some((&0, key))
}
