//! Ranges of keys for readers, and how a key lies to such a range.

use std::ops::Bound;

use crate::limits;

/// From a key to another one.
pub type KeyBounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Whether no key lies in a range.
pub fn is_empty(range: KeyBounds<'_>) -> bool {
    match range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

/// Whether a key lies before all of a range.
pub fn is_below(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Included(from) => key < from,
        Bound::Excluded(from) => key <= from,
        Bound::Unbounded => false,
    }
}

/// Whether a key lies behind all of a range.
pub fn is_behind(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
        Bound::Unbounded => false,
    }
}

/// The first key behind `key`; `None` behind the greatest possible key.
pub fn behind(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    if key.len() < limits::KEY_LEN_MAX {
        next.push(0);
        return Some(next);
    }
    // Nothing begins with it.
    behind_prefix(key)
}

/// The first key behind all that begin with `prefix`: it differs in a byte as late as can be. `None` if there is none.
///
/// ```
/// use thermocline_base::bounds::behind_prefix;
/// assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
/// assert_eq!(behind_prefix(b"a\xff"), Some(b"b".to_vec()));
/// assert_eq!(behind_prefix(b"\xff"), None);
/// ```
pub fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut next = prefix.to_vec();
    while let Some(last) = next.pop() {
        if let Some(more) = last.checked_add(1) {
            next.push(more);
            return Some(next);
        }
    }
    None
}
