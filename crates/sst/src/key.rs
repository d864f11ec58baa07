//! Internal keys: how the versions of user keys order.

use std::cmp::Ordering;

use thermocline_base::SeqNo;

/// A user key and a seqno, borrowed. They order by user key, bytewise ascending, then by seqno
/// *descending*: of one key the newest version comes first, and the first one not below
/// `(key, seqno)` is the newest that a reader at `seqno` may see.
///
/// ```
/// use thermocline_base::SeqNo;
/// use thermocline_sst::KeyRef;
/// let at = |key, seqno| KeyRef::new(key, SeqNo(seqno));
/// assert!(at(b"a", 9) < at(b"a", 8) && at(b"a", 1) < at(b"b", 9));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRef<'a> {
    /// The user key.
    pub user_key: &'a [u8],
    /// The version.
    pub seqno: SeqNo,
}

impl<'a> KeyRef<'a> {
    /// Version `seqno` of `user_key`.
    pub fn new(user_key: &'a [u8], seqno: SeqNo) -> KeyRef<'a> {
        KeyRef { user_key, seqno }
    }

    /// A copy.
    pub fn to_owned(self) -> InternalKey {
        InternalKey {
            user_key: self.user_key.to_vec(),
            seqno: self.seqno,
        }
    }
}

impl Ord for KeyRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_key = self.user_key.cmp(other.user_key);
        by_key.then_with(|| other.seqno.cmp(&self.seqno))
    }
}

impl PartialOrd for KeyRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A user key and a seqno. They order as [`KeyRef`]s do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InternalKey {
    /// The user key.
    pub user_key: Vec<u8>,
    /// The version.
    pub seqno: SeqNo,
}

impl InternalKey {
    /// The key, borrowed.
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef::new(&self.user_key, self.seqno)
    }
}

impl Ord for InternalKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for InternalKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The beginning of a key, for messages.
pub(crate) fn shown(key: &[u8]) -> String {
    const MOST: usize = 40;
    match key.get(..MOST) {
        None => format!("the key '{}'", key.escape_ascii()),
        Some(head) => format!("the key '{}'… of {} bytes", head.escape_ascii(), key.len()),
    }
}
