//! Offsets in a region.

use std::fmt;

/// Bytes in a cache line: the unit of write-back.
pub const LINE: u64 = 64;

/// A byte offset in a region. What is stored at rest in place of an address. Below 2^48.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PmOff(pub u64);

impl PmOff {
    /// The offset `n` bytes further.
    #[must_use]
    pub fn plus(self, n: u64) -> PmOff {
        PmOff(self.0 + n)
    }

    /// The first offset at or after this one that begins a line.
    #[must_use]
    pub fn line_up(self) -> PmOff {
        PmOff(self.0.next_multiple_of(LINE))
    }
}

impl fmt::Display for PmOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
