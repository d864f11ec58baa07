//! A model: a line from blocks to codes, and for each block how far the line is corrected.
//!
//! A *threshold* belongs to a block: keys with codes below it lie before the block. The thresholds of a
//! model's blocks are `line(i) + (correction(i) << shift)`. Where the line alone is right, corrections
//! have no bits.

use super::bits::{BITS_MAX, Bits};
use super::line::{Line, RISE_MAX};
use super::search::last_not_behind;

/// Most blocks of a model.
pub(super) const BLOCKS_MAX: u32 = 1 << 16;

/// The thresholds of some blocks that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    /// The first block, counted in the table.
    pub first: u32,
    /// How many blocks, at least one.
    pub blocks: u32,
    pub line: Line,
    pub shift: u8,
    /// Bits of a correction.
    pub width: u8,
    /// Where the corrections begin, in bits.
    pub at: u64,
}

impl Model {
    /// The model, if its line and corrections stay within the numbers.
    pub fn checked(self) -> Option<Model> {
        let bits = u32::from(self.shift) + u32::from(self.width);
        let fits = (1..=BLOCKS_MAX).contains(&self.blocks)
            && u32::from(self.width) <= BITS_MAX
            && 1u64.checked_shl(bits).is_some_and(|most| most <= RISE_MAX);
        self.line
            .checked(self.blocks.saturating_sub(1))
            .filter(|_| fits)?;
        Some(self)
    }

    /// Bits of all its corrections.
    pub fn bits(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.width)
    }

    /// The threshold of its block `i`.
    #[inline]
    pub fn threshold(&self, i: u32, corrections: &Bits) -> i64 {
        let at = self.at + u64::from(i) * u64::from(self.width);
        let correction = corrections.get(at, u32::from(self.width));
        self.line.at(i) + (correction << self.shift).cast_signed()
    }

    /// The last of its blocks whose threshold is not above `code`; that of the first is not.
    pub fn find(&self, code: i64, corrections: &Bits) -> u32 {
        let guess = self.line.place_of(code, self.blocks - 1);
        let is_behind = |i| self.threshold(i, corrections) > code;
        last_not_behind(guess, self.blocks, is_behind)
    }
}
