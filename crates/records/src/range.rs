//! Ranges of tuples as ranges of bytes.
//!
//! A bound may have fewer values than there are columns. It stands for all tuples that begin with these values:
//! included, all of them are within; excluded, none.

use std::ops::{Bound, RangeBounds};

use thermocline_base::{Error, Result};

use crate::field::{Field, tuple};
use crate::layout::Layout;

/// Bounds of bytes.
pub(crate) type Bytes = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The first bytes behind all that begin with `prefix`. The prefix begins with a space, and so not with 0xff.
fn behind(mut prefix: Vec<u8>) -> Vec<u8> {
    while prefix.last() == Some(&0xff) {
        prefix.pop();
    }
    if let Some(last) = prefix.last_mut() {
        *last += 1;
    }
    prefix
}

/// The bytes of the tuples in `range`; `None` if there can be no tuples.
///
/// # Errors
/// [`Error::InvalidArgument`] for values that do not fit their columns, or if the range ends before it begins.
pub(crate) fn bytes(
    layout: &Layout,
    space: u8,
    (what, columns): (&str, &[usize]),
    range: &impl RangeBounds<Vec<Field>>,
) -> Result<Option<Bytes>> {
    let prefix = |fields: &Vec<Field>| layout.prefix(space, (what, columns), fields);
    let (first, last) = (range.start_bound(), range.end_bound());
    let start = match first {
        Bound::Unbounded => vec![space],
        Bound::Included(fields) => prefix(fields)?,
        Bound::Excluded(fields) => behind(prefix(fields)?),
    };
    let end = match last {
        Bound::Unbounded => behind(vec![space]),
        Bound::Included(fields) => behind(prefix(fields)?),
        Bound::Excluded(fields) => prefix(fields)?,
    };
    if start < end {
        return Ok(Some((Bound::Included(start), Bound::Excluded(end))));
    }
    match (first, last) {
        (
            Bound::Included(begin) | Bound::Excluded(begin),
            Bound::Included(end) | Bound::Excluded(end),
        ) if prefix(begin)? > prefix(end)? => Err(Error::InvalidArgument(format!(
            "the range from {} to {} of {what} of table '{}' ends before it begins",
            tuple(begin),
            tuple(end),
            layout.table
        ))),
        _ => Ok(None),
    }
}

/// The bytes of the tuples that begin with `fields`.
pub(crate) fn prefix_bytes(
    layout: &Layout,
    space: u8,
    named: (&str, &[usize]),
    fields: &[Field],
) -> Result<Bytes> {
    let start = layout.prefix(space, named, fields)?;
    let end = behind(start.clone());
    Ok((Bound::Included(start), Bound::Excluded(end)))
}
