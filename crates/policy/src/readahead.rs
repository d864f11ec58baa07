//! How far cursors read ahead in memtables.
//!
//! A cursor that is placed again and again mostly goes on as far as before, and a new one as far as others. What it collects and does
//! not use was collected in vain; what it lacks it seeks once more.

use crate::tuning::{CHUNK_FIRST, CHUNK_GROWTH, CHUNK_MIN, CHUNK_SPARE_PARTS};

/// Entries that a cursor collects at first of a memtable of which cursors use so many on average; `None` if nothing is known of that. At
/// most `most`.
///
/// ```
/// use thermocline_policy::readahead::first_chunk;
/// assert_eq!(first_chunk(None, 1000), 16);
/// assert_eq!(first_chunk(Some(40), 1000), 50);
/// assert_eq!(first_chunk(Some(1), 1000), 4);
/// assert_eq!(first_chunk(Some(40), 30), 30);
/// ```
#[inline]
pub fn first_chunk(used: Option<usize>, most: usize) -> usize {
    let expected = |used: usize| (used + used / CHUNK_SPARE_PARTS).max(CHUNK_MIN);
    used.map_or(CHUNK_FIRST, expected).min(most)
}

/// Entries that it collects next, behind a chunk of so many.
#[inline]
pub fn next_chunk(len: usize, most: usize) -> usize {
    (len * CHUNK_GROWTH).min(most)
}
