//! Sequence numbers, column-family ids and record kinds.

use std::fmt;

/// The position of a write in the one total order of a database. The first write has 1; 0 means
/// "before everything". A number that anyone has seen is never given out again (rule 5 of recovery).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct SeqNo(pub u64);

impl SeqNo {
    /// Before every write.
    pub const ZERO: SeqNo = SeqNo(0);
    /// After every write.
    pub const MAX: SeqNo = SeqNo(u64::MAX);

    /// The number `n` places later.
    #[must_use]
    pub fn plus(self, n: u64) -> SeqNo {
        SeqNo(self.0 + n)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a column family within its database. Never reused; 0 is the default family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct CfId(pub u16);

impl CfId {
    /// The family that every database has.
    pub const DEFAULT: CfId = CfId(0);
    /// The engine's own family, none of the user's. It holds the metadata of each family, under the family's id in
    /// two big-endian bytes, and prepared transactions, under longer keys.
    pub const METADATA: CfId = CfId(u16::MAX);

    /// The key of this family's metadata in [`CfId::METADATA`].
    pub fn metadata_key(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }

    /// The family whose metadata lies under `key` in [`CfId::METADATA`].
    pub fn of_metadata_key(key: &[u8]) -> Option<CfId> {
        Some(CfId(u16::from_be_bytes(key.try_into().ok()?)))
    }
}

/// What a record says about its key. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The key has this value.
    Put = 1,
    /// The key has no value: a tombstone.
    Delete = 2,
    /// An operand to be merged with the value that the key has below ([`crate::merge`]).
    Merge = 3,
    /// All keys from this key up to, and not with, the value have no value: a range tombstone. Where
    /// the value is empty, all keys from this key on. (No range ends before the empty key.)
    RangeDelete = 4,
    /// The key has a value in a blob file; the record's value is the reference. Only records in memtables have this
    /// kind: in a table it is a [`Kind::Put`] whose entry says the same by a flag.
    PutBlob = 9,
}

impl Kind {
    /// The kind with this number, if there is one.
    pub fn from_u8(n: u8) -> Option<Kind> {
        match n {
            1 => Some(Kind::Put),
            2 => Some(Kind::Delete),
            3 => Some(Kind::Merge),
            4 => Some(Kind::RangeDelete),
            9 => Some(Kind::PutBlob),
            _ => None,
        }
    }
}
