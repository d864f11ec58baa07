//! Ranges of user keys.

use std::sync::Arc;

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

/// What limits the keys of a table that a reader reads: all from `lower` on and before `upper`, where there are such.
/// Cheap to clone.
///
/// ```
/// use thermocline_base::KeyLimits;
/// let limits = KeyLimits::new(Some(b"b"), None);
/// assert!(limits.hold(b"b") && limits.is_below(b"a") && !limits.is_behind(b"z"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct KeyLimits {
    lower: Option<Arc<[u8]>>,
    upper: Option<Arc<[u8]>>,
}

impl KeyLimits {
    /// From `lower` on and before `upper`.
    pub fn new(lower: Option<&[u8]>, upper: Option<&[u8]>) -> KeyLimits {
        KeyLimits {
            lower: lower.map(Arc::from),
            upper: upper.map(Arc::from),
        }
    }

    /// The first key within, if there is a limit.
    #[inline]
    pub fn lower(&self) -> Option<&[u8]> {
        self.lower.as_deref()
    }

    /// The first key behind, if there is a limit.
    #[inline]
    pub fn upper(&self) -> Option<&[u8]> {
        self.upper.as_deref()
    }

    /// Whether `key` lies within.
    #[inline]
    pub fn hold(&self, key: &[u8]) -> bool {
        !self.is_below(key) && !self.is_behind(key)
    }

    /// Whether `key` lies before all that is within.
    #[inline]
    pub fn is_below(&self, key: &[u8]) -> bool {
        self.lower().is_some_and(|lower| key < lower)
    }

    /// Whether `key` lies behind all that is within.
    #[inline]
    pub fn is_behind(&self, key: &[u8]) -> bool {
        self.upper().is_some_and(|upper| key >= upper)
    }
}
