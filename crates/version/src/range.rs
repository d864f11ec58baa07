//! Ranges of user keys.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Bound;

/// From a user key to another one, which belongs to the range or is the first behind it.
///
/// ```
/// use thermocline_version::KeyRange;
/// let range = KeyRange::inclusive("b", "d");
/// assert!(range.contains(b"d") && !range.contains(b"d\0"));
/// assert!(range.overlaps(&KeyRange::until("a", "c")));
/// assert!(!range.overlaps(&KeyRange::until("a", "b")));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
    open: bool,
}

impl KeyRange {
    /// From `smallest` to `largest`, both of them within.
    pub fn inclusive(smallest: impl AsRef<[u8]>, largest: impl AsRef<[u8]>) -> KeyRange {
        KeyRange::new(smallest.as_ref(), largest.as_ref(), false)
    }

    /// From `smallest` to before `end`.
    pub fn until(smallest: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> KeyRange {
        KeyRange::new(smallest.as_ref(), end.as_ref(), true)
    }

    pub(crate) fn new(smallest: &[u8], largest: &[u8], open: bool) -> KeyRange {
        KeyRange {
            smallest: smallest.into(),
            largest: largest.into(),
            open,
        }
    }

    /// The first key that can lie within.
    pub fn smallest(&self) -> &[u8] {
        &self.smallest
    }

    /// The last key that can lie within, or, if [`KeyRange::is_open`], the first one behind.
    pub fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// Whether [`KeyRange::largest`] lies outside.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether no key lies within.
    pub fn is_empty(&self) -> bool {
        match self.smallest.cmp(&self.largest) {
            Ordering::Less => false,
            Ordering::Equal => self.open,
            Ordering::Greater => true,
        }
    }

    /// Whether `key` lies within.
    pub fn contains(&self, key: &[u8]) -> bool {
        *self.smallest <= *key && !self.ends_before(key)
    }

    /// Whether all of it lies before `key`.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match self.open {
            true => *self.largest <= *key,
            false => *self.largest < *key,
        }
    }

    /// Whether all of it lies within `other`.
    pub(crate) fn is_within(&self, other: &KeyRange) -> bool {
        other.smallest <= self.smallest && self.end() <= other.end()
    }

    /// The largest key, and whether it lies within: ends are ordered as these are.
    pub(crate) fn end(&self) -> (&[u8], bool) {
        (&self.largest, !self.open)
    }

    /// Whether a key may lie in both of two ranges that are not empty.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.ends_before(&other.smallest) && !other.ends_before(&self.smallest)
    }

    /// Whether a key from `from` to `to` may lie within.
    pub(crate) fn reaches_into(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
        !self.ends_below(from) && !self.begins_behind(to)
    }

    /// Whether all of it lies below what begins with `from`.
    pub(crate) fn ends_below(&self, from: Bound<&[u8]>) -> bool {
        match from {
            Bound::Included(key) => self.ends_before(key),
            // The last key itself lies outside, whether it is part of the range or not.
            Bound::Excluded(key) => *self.largest <= *key,
            Bound::Unbounded => false,
        }
    }

    /// Whether all of it lies behind what ends with `to`.
    pub(crate) fn begins_behind(&self, to: Bound<&[u8]>) -> bool {
        match to {
            Bound::Included(key) => *self.smallest > *key,
            Bound::Excluded(key) => *self.smallest >= *key,
            Bound::Unbounded => false,
        }
    }

    /// What of it lies from `lower` on and before `upper`.
    pub fn cut(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> KeyRange {
        let smallest = lower.map_or(self.smallest(), |lower| lower.max(&self.smallest));
        match upper.filter(|upper| !self.ends_before(upper)) {
            Some(upper) => KeyRange::until(smallest, upper),
            None => KeyRange::new(smallest, &self.largest, self.open),
        }
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.open { "before " } else { "" };
        write!(
            f,
            "{} to {end}{}",
            Shown(&self.smallest),
            Shown(&self.largest)
        )
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key as a message shows it: not too much of it.
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
                ranges.push(KeyRange::inclusive(smallest, largest));
                ranges.push(KeyRange::until(smallest, largest));
            }
        }
        let within = |range: &KeyRange, key: &[u8]| {
            range.smallest() <= key
                && (key < range.largest() || key == range.largest() && !range.is_open())
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
                assert!(!after || range.largest() > *key, "{range} after {key:?}");
            }
            for other in ranges.iter().filter(|other| !other.is_empty()) {
                let common = held.iter().any(|key| within(other, key));
                assert!(range.overlaps(other) || !common, "{range} and {other}");
                assert_eq!(range.overlaps(other), other.overlaps(range));
                let cut = range.cut(Some(other.smallest()), Some(other.largest()));
                for key in &keys {
                    let expected = within(range, key) && other.contains(key);
                    let last = *key == other.largest();
                    assert_eq!(within(&cut, key), expected && !last, "{range} in {other}");
                }
            }
        }
    }
}
