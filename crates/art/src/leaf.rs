//! What the tree stores: one word per key.

use thermocline_base::checksum::hash64;

/// The 16-bit fingerprint of a key: it lets a lookup reject nearly every wrong record without
/// touching persistent memory.
///
/// ```
/// use thermocline_art::fingerprint;
/// assert_eq!(fingerprint(b"key"), fingerprint(b"key"));
/// ```
pub fn fingerprint(key: &[u8]) -> u16 {
    (hash64(key) >> 48) as u16
}

/// An 8-byte payload that stands for one record of one key.
///
/// Bits 48 to 63 hold the [`fingerprint`] of the key. Bits 0 to 2 must be 0; the tree uses them
/// to tell its own words apart. Bit 47 says that the record is an *operand*: a read of the key goes on to the version
/// below ([`crate::Entry::with_version`]). Bits 3 to 46 are the owner's: normally a record's offset, which is
/// a multiple of 8 below 2^47.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Leaf(u64);

impl Leaf {
    /// The bits that the owner may not use.
    const RESERVED: u64 = 0b111;

    /// The bit of an operand.
    const OPERAND: u64 = 1 << 47;

    /// The leaf with this word.
    ///
    /// # Panics
    /// If one of the three lowest bits is set.
    #[inline]
    pub fn new(word: u64) -> Leaf {
        assert_eq!(word & Leaf::RESERVED, 0, "a leaf's low bits are the tree's");
        Leaf(word)
    }

    /// The leaf of the record of `key` at `offset`.
    ///
    /// # Panics
    /// If `offset` is no multiple of 8 or not below 2^47.
    ///
    /// ```
    /// use thermocline_art::{Leaf, fingerprint};
    /// let leaf = Leaf::of(b"key", 4096);
    /// assert_eq!((leaf.offset(), leaf.fingerprint()), (4096, fingerprint(b"key")));
    /// ```
    pub fn of(key: &[u8], offset: u64) -> Leaf {
        assert!(
            offset & !(Leaf::OPERAND - 1) == 0,
            "a record lies below 2^47"
        );
        Leaf::new(u64::from(fingerprint(key)) << 48 | offset)
    }

    /// The same leaf, of an operand.
    ///
    /// ```
    /// use thermocline_art::Leaf;
    /// let leaf = Leaf::of(b"key", 4096).as_operand();
    /// assert!(leaf.is_operand() && leaf.offset() == 4096);
    /// ```
    #[must_use]
    pub fn as_operand(self) -> Leaf {
        Leaf(self.0 | Leaf::OPERAND)
    }

    /// Whether its record is an operand.
    #[inline]
    pub fn is_operand(self) -> bool {
        self.0 & Leaf::OPERAND != 0
    }

    /// The whole word.
    #[inline]
    pub fn word(self) -> u64 {
        self.0
    }

    /// The owner's part, without the fingerprint.
    #[inline]
    pub fn offset(self) -> u64 {
        self.0 & (Leaf::OPERAND - 1)
    }

    /// The fingerprint of the key.
    #[inline]
    pub fn fingerprint(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "low bits")]
    fn a_tagged_word_is_no_leaf() {
        Leaf::new(4);
    }
}
