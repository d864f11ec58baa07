//! What there is of a file that a job reads.

use std::ops::Deref;

use thermocline_exec::{Coming, RangeBuf};
use thermocline_policy::steps;

/// Bytes that were read, where they came to lie.
pub(super) enum Bytes {
    Own(Vec<u8>),
    Read(RangeBuf),
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::Own(Vec::new())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Read(bytes) => bytes,
        }
    }
}

/// What there is of a file.
#[derive(Default)]
pub(super) struct Piece {
    /// Where it begins: with what is left of the pieces before.
    pub begin: u64,
    pub left: Vec<u8>,
    /// Behind that.
    pub bytes: Bytes,
    /// Those behind them, on their way, and how many.
    pub coming: Option<(Coming, usize)>,
    /// Up to where they were asked for.
    pub used: u64,
    /// How much that was, the last time.
    pub last: u64,
    /// Nothing is wanted from there on.
    pub end: u64,
    /// What lies behind could not be read ahead. It is read when it is needed.
    pub refused: bool,
}

impl Piece {
    pub fn get(&mut self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let from = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        let to = from.checked_add(len).filter(|to| *to <= self.len())?;
        (self.used, self.last) = (offset + len as u64, len as u64);
        let left = self.left.len();
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&self.left[from.min(left)..to.min(left)]);
        bytes.extend_from_slice(&self.bytes[from.saturating_sub(left)..to.saturating_sub(left)]);
        Some(bytes)
    }

    pub fn len(&self) -> usize {
        self.left.len() + self.bytes.len()
    }

    pub fn behind(&self) -> u64 {
        self.begin + self.len() as u64
    }

    pub fn is_short(&self) -> bool {
        !self.refused
            && self.behind() < self.end
            && steps::is_short(self.behind() - self.used, self.last)
    }

    /// Whether `offset` lies in what there is, or is on its way. Index blocks lie between data, which nobody reads on for.
    pub fn has(&self, offset: u64) -> bool {
        let coming = self.coming.as_ref().map_or(0, |(_, len)| *len as u64);
        (self.begin..=self.behind() + coming).contains(&offset)
    }

    /// Puts what has come behind what there is. Nothing before `offset`, which [`Piece::has`] has said yes to, is wanted any more.
    pub fn join(&mut self, offset: u64, next: RangeBuf) {
        let behind = self.behind();
        self.left = self.left_from(offset);
        self.begin = behind - self.left.len() as u64;
        self.bytes = Bytes::Read(next);
        self.refused = false;
    }

    /// What there is from `offset` on, which is not before it begins: mostly a part of a block.
    pub fn left_from(&self, offset: u64) -> Vec<u8> {
        let from = usize::try_from(offset - self.begin).expect("within two pieces");
        let from = from.min(self.len());
        let left = self.left.len();
        let mut bytes = self.left[from.min(left)..].to_vec();
        bytes.extend_from_slice(&self.bytes[from.saturating_sub(left)..]);
        bytes
    }
}
