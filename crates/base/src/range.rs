//! Ranges of user keys.
//!
//! A table's keys have a first and a last one: [`KeyRange`]. A range that is asked for, or cut to, may be without
//! limits: [`KeyBounds`](crate::bounds::KeyBounds) for readers, [`KeyLimits`] for tables.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use crate::bounds::is_behind;

/// A range from one user key to another, which belongs to the range or is the first one behind it. It has keys of its
/// own, or borrowed ones: `KeyRange<&[u8]>`.
///
/// ```
/// use thermocline_base::KeyRange;
/// let range = KeyRange::inclusive("b", "d");
/// assert!(range.contains(b"d") && !range.contains(b"d\0"));
/// assert!(range.overlaps(&KeyRange::until("a", "c").owned()));
/// assert!(!range.overlaps(&KeyRange::until("a", "b")));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyRange<K = Box<[u8]>> {
    /// The first key that can lie within.
    pub first: K,
    /// The last key that can lie within or, if the range is open, the first one behind.
    pub last: K,
    /// Whether `last` lies outside.
    pub open: bool,
}

impl<K: AsRef<[u8]>> KeyRange<K> {
    /// From `first` to `last`, both of them within.
    pub fn inclusive(first: K, last: K) -> KeyRange<K> {
        let open = false;
        KeyRange { first, last, open }
    }

    /// From `first` to before `end`.
    pub fn until(first: K, end: K) -> KeyRange<K> {
        let (last, open) = (end, true);
        KeyRange { first, last, open }
    }

    /// The same range, borrowed.
    pub fn borrowed(&self) -> KeyRange<&[u8]> {
        KeyRange {
            first: self.first.as_ref(),
            last: self.last.as_ref(),
            open: self.open,
        }
    }

    /// The same range, with keys of its own.
    pub fn owned(&self) -> KeyRange {
        KeyRange {
            first: self.first.as_ref().into(),
            last: self.last.as_ref().into(),
            open: self.open,
        }
    }

    /// Whether no key lies within.
    pub fn is_empty(&self) -> bool {
        match self.first.as_ref().cmp(self.last.as_ref()) {
            Ordering::Less => false,
            Ordering::Equal => self.open,
            Ordering::Greater => true,
        }
    }

    /// Whether `key` lies within.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.first.as_ref() <= key && !self.ends_before(key)
    }

    /// Whether the whole range lies before `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.open {
            true => self.last.as_ref() <= key,
            false => self.last.as_ref() < key,
        }
    }

    /// The last key, and whether it lies within: ends are ordered as these are.
    pub fn end(&self) -> (&[u8], bool) {
        (self.last.as_ref(), !self.open)
    }

    /// Whether the whole range lies within `other`.
    pub fn is_within(&self, other: &KeyRange<impl AsRef<[u8]>>) -> bool {
        other.first.as_ref() <= self.first.as_ref() && self.end() <= other.end()
    }

    /// Whether a key may lie in both of two ranges that are not empty.
    pub fn overlaps(&self, other: &KeyRange<impl AsRef<[u8]>>) -> bool {
        !self.ends_before(other.first.as_ref()) && !other.ends_before(self.first.as_ref())
    }

    /// Whether a key from `from` to `to` may lie within.
    pub fn reaches_into(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        !self.ends_below(from) && !is_behind(self.first.as_ref(), to)
    }

    /// Whether the whole range lies below a range that begins with `from`.
    pub fn ends_below(&self, from: Bound<&[u8]>) -> bool {
        match from {
            Bound::Included(key) => self.ends_before(key),
            // The last key itself lies outside, whether it is part of the range or not.
            Bound::Excluded(key) => self.last.as_ref() <= key,
            Bound::Unbounded => false,
        }
    }
}

impl KeyRange {
    /// The part of the range from `lower` on and before `upper`.
    pub fn cut(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> KeyRange {
        let first = lower.map_or(&*self.first, |lower| lower.max(&self.first));
        match upper.filter(|upper| !self.ends_before(upper)) {
            Some(upper) => KeyRange::until(first, upper).owned(),
            None => KeyRange {
                first: first.into(),
                ..self.clone()
            },
        }
    }
}

impl<'a> KeyRange<&'a [u8]> {
    /// The smallest range that holds both.
    ///
    /// ```
    /// use thermocline_base::KeyRange;
    /// let range: KeyRange<&[u8]> = KeyRange::inclusive(b"b", b"d");
    /// assert_eq!(range.hull(KeyRange::until(b"a", b"c")).to_string(), "\"a\" to \"d\"");
    /// ```
    pub fn hull(self, other: KeyRange<&'a [u8]>) -> KeyRange<&'a [u8]> {
        let first = self.first.min(other.first);
        // If two ranges end with the same key, the one that holds it reaches further.
        let further = match self.end() > other.end() {
            true => self,
            false => other,
        };
        KeyRange { first, ..further }
    }
}

impl<K: AsRef<[u8]>> fmt::Display for KeyRange<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (Shown(self.first.as_ref()), Shown(self.last.as_ref()));
        let end = if self.open { "before " } else { "" };
        write!(f, "{first} to {end}{last}")
    }
}

impl<K: AsRef<[u8]>> fmt::Debug for KeyRange<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key as a message shows it: its beginning.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 32;
        let start = &self.0[..self.0.len().min(SHOWN_MAX)];
        write!(f, "\"{}\"", start.escape_ascii())?;
        match self.0.len() - start.len() {
            0 => Ok(()),
            rest => write!(f, "… ({rest} more bytes)"),
        }
    }
}

/// The limits within which a reader reads the keys of a table: from `lower` on and before `upper`, if these are
/// given. Cheap to clone.
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

    /// Whether `key` lies before all keys within.
    #[inline]
    pub fn is_below(&self, key: &[u8]) -> bool {
        self.lower().is_some_and(|lower| key < lower)
    }

    /// Whether `key` lies behind all keys within.
    #[inline]
    pub fn is_behind(&self, key: &[u8]) -> bool {
        self.upper().is_some_and(|upper| key >= upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Bound::{Excluded, Included, Unbounded};

    /// Every range over three letters and what lies between them, against the list of keys in it.
    #[test]
    fn ranges_are_the_keys_that_they_contain() {
        let keys: Vec<&[u8]> = vec![b"", b"a", b"a\0", b"b", b"bb", b"c"];
        let mut ranges = Vec::new();
        for smallest in &keys {
            for largest in &keys {
                ranges.push(KeyRange::inclusive(smallest, largest).owned());
                ranges.push(KeyRange::until(smallest, largest).owned());
            }
        }
        let within = |range: &KeyRange, key: &[u8]| {
            *range.first <= *key && (*key < *range.last || *key == *range.last && !range.open)
        };
        for range in &ranges {
            let held: Vec<_> = keys.iter().filter(|key| within(range, key)).collect();
            assert_eq!(range.is_empty(), held.is_empty(), "{range}");
            if held.is_empty() {
                continue;
            }
            for key in &keys {
                assert_eq!(range.contains(key), held.contains(&key), "{range}");
                assert_eq!(
                    range.ends_before(key),
                    held.iter().all(|k| *k < key),
                    "{range}"
                );
                let from = range.reaches_into(Included(key), Unbounded);
                assert_eq!(from, held.iter().any(|k| *k >= key), "{range} from {key:?}");
                let to = range.reaches_into(Unbounded, Included(key));
                assert_eq!(to, held.iter().any(|k| *k <= key), "{range} to {key:?}");
                let before = range.reaches_into(Unbounded, Excluded(key));
                assert_eq!(
                    before,
                    held.iter().any(|k| *k < key),
                    "{range} before {key:?}"
                );
                // Between two keys there may be others: no claim where only the end is open.
                let after = range.reaches_into(Excluded(key), Unbounded);
                assert!(
                    after || held.iter().all(|k| *k <= key),
                    "{range} after {key:?}"
                );
                assert!(!after || *range.last > **key, "{range} after {key:?}");
            }
            for other in ranges.iter().filter(|other| !other.is_empty()) {
                let common = held.iter().any(|key| within(other, key));
                assert!(range.overlaps(other) || !common, "{range} and {other}");
                assert_eq!(range.overlaps(other), other.overlaps(range));
                let cut = range.cut(Some(&other.first), Some(&other.last));
                for key in &keys {
                    let expected = within(range, key) && other.contains(key);
                    let last = **key == *other.last;
                    assert_eq!(within(&cut, key), expected && !last, "{range} in {other}");
                }
            }
        }
    }
}
