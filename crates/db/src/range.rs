//! Ranges of keys to delete, or to read in a transaction: from bounds in the order of a family to ranges in the order of bytes.

use std::ops::Bound;

use thermocline_base::batch::check_key;
use thermocline_base::bounds::behind;
use thermocline_base::shown::shown;
use thermocline_base::{Error, Result, limits};

/// Where a range begins and where it ends, in the order of its family.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The first key, and the first key behind the range; without an end, all keys from the first on.
pub(crate) type ByteRange = (Vec<u8>, Option<Vec<u8>>);

/// The keys between the bounds, in a family whose keys descend if `reverse`; `None` if there can be none.
///
/// # Errors
/// [`Error::InvalidArgument`] if the range ends before it begins, or for a key past the limit.
pub(crate) fn byte_range((begin, end): &Bounds, reverse: bool) -> Result<Option<ByteRange>> {
    let keys = [key(begin), key(end)];
    keys.into_iter().flatten().try_for_each(check_key)?;
    check_order(begin, end, reverse)?;
    let (low, high) = if reverse { (end, begin) } else { (begin, end) };
    let start = match low {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.clone(),
        Bound::Excluded(key) => match behind(key) {
            Some(start) => start,
            None => return Ok(None),
        },
    };
    let end = match high {
        Bound::Unbounded => None,
        Bound::Excluded(key) => Some(key.clone()),
        Bound::Included(key) => behind(key),
    };
    let is_empty = end.as_ref().is_some_and(|end| *end <= start);
    Ok((!is_empty).then_some((start, end)))
}

/// As [`byte_range`], to be read: bounds may be longer than any key.
///
/// # Errors
/// [`Error::InvalidArgument`] if the range ends before it begins.
pub(crate) fn read_range(bounds: &Bounds, reverse: bool) -> Result<Option<ByteRange>> {
    let (begin, end) = bounds;
    if beginning(begin).is_none() && beginning(end).is_none() {
        return byte_range(bounds, reverse);
    }
    check_order(begin, end, reverse)?;
    let (low, high) = if reverse { (end, begin) } else { (begin, end) };
    let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
    // No key lies between the longest one that such a bound begins with and the bound.
    let low = owned(beginning(low)).map_or_else(|| low.clone(), Bound::Excluded);
    let high = owned(beginning(high)).map_or_else(|| high.clone(), Bound::Included);
    byte_range(&if reverse { (high, low) } else { (low, high) }, reverse)
}

/// The longest key that a bound begins with, if the bound is longer than any key.
fn beginning(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    let key = key(bound).filter(|key| key.len() > limits::KEY_LEN_MAX)?;
    key.get(..limits::KEY_LEN_MAX)
}

/// Refuses a range that ends before it begins, in a family whose keys descend if `reverse`. Such a range is a
/// mistake, but looks like a range without keys. A range that ends where it begins is empty, and no error.
///
/// # Errors
/// [`Error::InvalidArgument`] with both ends.
pub(crate) fn check_order(
    begin: &Bound<Vec<u8>>,
    end: &Bound<Vec<u8>>,
    reverse: bool,
) -> Result<()> {
    let (Some(first), Some(last)) = (key(begin), key(end)) else {
        return Ok(());
    };
    if (!reverse && first <= last) || (reverse && first >= last) {
        return Ok(());
    }
    let order = if reverse { "descending" } else { "ascending" };
    Err(Error::InvalidArgument(format!(
        "the range from '{}' to '{}' ends before it begins: the keys of this column family are in \
         {order} order",
        shown(first),
        shown(last)
    )))
}

/// The key of a bound.
fn key(bound: &Bound<Vec<u8>>) -> Option<&[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::bounds::{is_behind, is_below};

    use super::*;
    use Bound::{Excluded, Included, Unbounded};

    /// Every pair of bounds over a few keys, those of the longest kind among them, in both orders.
    #[test]
    fn a_range_of_bytes_has_the_keys_between_the_bounds() {
        let longest = |last: u8| [vec![0xff; limits::KEY_LEN_MAX - 1], vec![last]].concat();
        let mut keys = vec![vec![], b"a".to_vec(), b"a\0".to_vec(), b"b".to_vec()];
        keys.extend([vec![0xff], longest(7), longest(8), longest(0xff)]);
        let bounds = keys
            .iter()
            .flat_map(|key| [Included(key.clone()), Excluded(key.clone())]);
        let bounds: Vec<_> = bounds.chain([Unbounded]).collect();
        for begin in &bounds {
            for end in &bounds {
                for reverse in [false, true] {
                    let range = byte_range(&(begin.clone(), end.clone()), reverse);
                    let before = |a: &Vec<u8>, b: &Vec<u8>| if reverse { a > b } else { a < b };
                    let within = |key: &Vec<u8>| {
                        let begun = match begin {
                            Included(first) => !before(key, first),
                            Excluded(first) => before(first, key),
                            Unbounded => true,
                        };
                        let ended = match end {
                            Included(last) => before(last, key),
                            Excluded(last) => !before(key, last),
                            Unbounded => false,
                        };
                        begun && !ended
                    };
                    let range = match range {
                        Ok(range) => range,
                        Err(error) => {
                            assert_eq!(error.kind(), thermocline_base::ErrorKind::InvalidArgument);
                            assert!(!keys.iter().any(within));
                            continue;
                        }
                    };
                    for key in &keys {
                        let found = range.as_ref().is_some_and(|(start, end)| {
                            start <= key && end.as_ref().is_none_or(|end| key < end)
                        });
                        assert_eq!(found, within(key));
                    }
                    let fits = |key: &Vec<u8>| key.len() <= limits::KEY_LEN_MAX;
                    assert!(range.is_none_or(|(start, end)| {
                        fits(&start) && end.as_ref().is_none_or(fits)
                    }));
                }
            }
        }
    }

    /// Between the longest keys, and around them, in both orders.
    #[test]
    fn bounds_of_what_is_read_may_be_longer_than_keys() {
        let longest = |last: u8| [vec![7; limits::KEY_LEN_MAX - 1], vec![last]].concat();
        let keys = [vec![], longest(6), longest(7), longest(8), vec![8]];
        let long = [0, 9].map(|last| [longest(7), vec![last]].concat());
        let bounds = keys
            .iter()
            .chain(&long)
            .flat_map(|key| [Included(key.clone()), Excluded(key.clone())]);
        let bounds: Vec<_> = bounds.chain([Unbounded]).collect();
        for begin in &bounds {
            for end in &bounds {
                for reverse in [false, true] {
                    let range = match read_range(&(begin.clone(), end.clone()), reverse) {
                        Ok(range) => range,
                        Err(_) => {
                            assert!(check_order(begin, end, reverse).is_err());
                            continue;
                        }
                    };
                    let (low, high) = if reverse { (end, begin) } else { (begin, end) };
                    let (low, high) = (bytes(low), bytes(high));
                    for key in &keys {
                        let found = range.as_ref().is_some_and(|(start, end)| {
                            start <= key && end.as_ref().is_none_or(|end| key < end)
                        });
                        assert_eq!(found, !is_below(key, low) && !is_behind(key, high));
                    }
                }
            }
        }
    }

    fn bytes(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
        bound.as_ref().map(Vec::as_slice)
    }

    #[test]
    fn a_range_that_ends_before_it_begins_is_refused_and_an_empty_one_is_not() {
        let of = |begin: &[u8], end: &[u8], reverse| {
            let bounds = (Included(begin.to_vec()), Excluded(end.to_vec()));
            byte_range(&bounds, reverse)
        };
        assert!(of(b"b", b"a", false).is_err() && of(b"a", b"b", true).is_err());
        assert_eq!(of(b"a", b"a", false).unwrap(), None);
        assert_eq!(of(b"a", b"a", true).unwrap(), None);
        let long = vec![0; limits::KEY_LEN_MAX + 1];
        assert!(of(b"", &long, false).is_err());
    }
}
