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

/// The first `len` bytes of all keys that a range has room for; `None` if those may begin differently, or be shorter.
///
/// ```
/// use std::ops::Bound::{Excluded, Included, Unbounded};
/// use thermocline_base::bounds::shared_prefix;
/// assert_eq!(shared_prefix((Included(b"abc"), Excluded(b"abx")), 2), Some(&b"ab"[..]));
/// assert_eq!(shared_prefix((Included(b"ab"), Excluded(b"ac")), 2), Some(&b"ab"[..]));
/// assert_eq!(shared_prefix((Included(b"ab"), Included(b"ac")), 2), None);
/// assert_eq!(shared_prefix((Included(b"ab"), Unbounded), 2), None);
/// assert_eq!(shared_prefix((Included(b"a"), Included(b"ab")), 2), None);
/// ```
pub fn shared_prefix<'k>((from, to): KeyBounds<'k>, len: usize) -> Option<&'k [u8]> {
    let (Bound::Included(first) | Bound::Excluded(first)) = from else {
        return None;
    };
    let prefix = first.get(..len)?;
    // What is not below the prefix, and below all that lies behind it, begins with it.
    let is_shared = match to {
        Bound::Included(last) => last.starts_with(prefix),
        Bound::Excluded(end) => end.starts_with(prefix) || is_behind_prefix(end, prefix),
        Bound::Unbounded => false,
    };
    is_shared.then_some(prefix)
}

/// Whether `key` is [`behind_prefix`] of this one; no memory is asked for.
fn is_behind_prefix(key: &[u8], prefix: &[u8]) -> bool {
    let kept = prefix.iter().rposition(|byte| *byte < u8::MAX);
    let Some((at, (last, before))) = kept.zip(key.split_last()) else {
        return false;
    };
    *before == prefix[..at] && last.checked_sub(1) == Some(prefix[at])
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

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys of up to three letters.
    fn keys() -> Vec<Vec<u8>> {
        let mut all = vec![vec![]];
        let mut from = 0;
        for _ in 0..3 {
            let longer = all[from..].iter().flat_map(|key: &Vec<u8>| {
                [0, 1, 0xff].map(|letter| [&key[..], &[letter]].concat())
            });
            let longer: Vec<Vec<u8>> = longer.collect();
            from = all.len();
            all.extend(longer);
        }
        all
    }

    #[test]
    fn the_first_key_behind_a_prefix_is_known() {
        for prefix in keys() {
            for key in keys() {
                let is_it = behind_prefix(&prefix).as_deref() == Some(&key[..]);
                assert_eq!(is_behind_prefix(&key, &prefix), is_it, "{key:?} {prefix:?}");
            }
        }
    }

    #[test]
    fn a_shared_prefix_is_that_of_every_key_in_the_range() {
        let all = keys();
        let bounds = |key| [Bound::Included(key), Bound::Excluded(key)];
        let bounds: Vec<Bound<&[u8]>> = all.iter().flat_map(|key| bounds(&key[..])).collect();
        let mut shared = 0;
        for from in &bounds {
            for to in &bounds {
                for len in 1..=2 {
                    let Some(prefix) = shared_prefix((*from, *to), len) else {
                        continue;
                    };
                    shared += 1;
                    let mut within = all
                        .iter()
                        .filter(|key| !is_below(key, *from) && !is_behind(key, *to));
                    assert!(
                        within.all(|key| key.starts_with(prefix)),
                        "{from:?} {to:?} {len}"
                    );
                }
            }
        }
        assert!(shared > 100, "{shared}");
    }
}
