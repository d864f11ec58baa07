//! Ranges of user keys.

/// From a user key to another one, which belongs to the range or is the first behind it. Never
/// empty.
///
/// ```
/// use thermocline_base::KeyRange;
/// let range = KeyRange::inclusive(b"b", b"d");
/// assert!(range.overlaps(&KeyRange::inclusive(b"d", b"e")));
/// assert!(!range.overlaps(&KeyRange::until(b"a", b"b")));
/// assert_eq!(range.hull(&KeyRange::until(b"a", b"c")), KeyRange::inclusive(b"a", b"d"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange<'a> {
    /// The first key that can lie within.
    pub first: &'a [u8],
    /// The last key that can lie within or, if the range is open, the first one behind.
    pub last: &'a [u8],
    /// Whether `last` lies outside.
    pub open: bool,
}

impl<'a> KeyRange<'a> {
    /// From `first` to `last`, both of them within.
    pub fn inclusive(first: &'a [u8], last: &'a [u8]) -> KeyRange<'a> {
        let open = false;
        KeyRange { first, last, open }
    }

    /// From `first` to before `end`.
    pub fn until(first: &'a [u8], end: &'a [u8]) -> KeyRange<'a> {
        KeyRange {
            first,
            last: end,
            open: true,
        }
    }

    /// Whether all of it lies before `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.open {
            true => self.last <= key,
            false => self.last < key,
        }
    }

    /// Whether `key` lies within.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.first <= key && !self.ends_before(key)
    }

    /// Whether a key may lie in both.
    pub fn overlaps(&self, other: &KeyRange<'_>) -> bool {
        !self.ends_before(other.first) && !other.ends_before(self.first)
    }

    /// The least range that holds both.
    pub fn hull(&self, other: &KeyRange<'a>) -> KeyRange<'a> {
        let first = self.first.min(other.first);
        // Of two that end with the same key, the one that holds it reaches further.
        let further = match (self.last, !self.open) > (other.last, !other.open) {
            true => self,
            false => other,
        };
        KeyRange { first, ..*further }
    }
}
