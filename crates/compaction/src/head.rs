//! What is decided by: an entry without its value.

use std::cmp::Ordering;

use thermocline_base::{Kind, SeqNo};

/// An entry without its value: nothing here depends on values, so none is moved.
///
/// ```
/// use thermocline_base::{Kind, SeqNo};
/// use thermocline_compaction::Head;
/// let at = |user_key, seqno| Head { user_key, seqno: SeqNo(seqno), kind: Kind::Put };
/// assert!(at(b"a", 9).order(&at(b"a", 8)).is_lt());
/// assert!(at(b"a", 1).order(&at(b"b", 9)).is_lt());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// The version.
    pub seqno: SeqNo,
    /// What the entry says about the key.
    pub kind: Kind,
}

impl Head<'_> {
    /// The order of entries: user keys ascending, bytewise; of one key seqnos descending.
    pub fn order(&self, other: &Head<'_>) -> Ordering {
        let by_key = self.user_key.cmp(other.user_key);
        by_key.then_with(|| other.seqno.cmp(&self.seqno))
    }
}
