//! Which flushes train a learned index while they write (TridentKV §3.2, algorithm 1; decision 176).
//!
//! Training takes the processor: half a microsecond to one for each data block. A flush shares it with writers, who wait for
//! the room that it makes when many of them write. Then its tables have a binary index. What is written into deeper
//! levels is always trained: such tables stay for long, and are read most.
//!
//! The writers are the threads that have written since the flush before: about those whose writes are flushed now. Writers share
//! no counter for that. A thread that has written once counts as much as one that always writes.

use thermocline_base::IndexKind;

/// Which index a flush gives to its tables of level 0, where `wanted` is the one that tables are to have. So many
/// `writers` have written since the flush before; it trains beside fewer than `train_writers`.
///
/// ```
/// use thermocline_base::IndexKind;
/// use thermocline_policy::training::index_of_flush;
/// assert_eq!(index_of_flush(IndexKind::Learned, 7, 8), IndexKind::Learned);
/// assert_eq!(index_of_flush(IndexKind::Learned, 8, 8), IndexKind::Binary);
/// assert_eq!(index_of_flush(IndexKind::Learned, 0, 0), IndexKind::Binary);
/// assert_eq!(index_of_flush(IndexKind::Binary, 1, 8), IndexKind::Binary);
/// ```
pub fn index_of_flush(wanted: IndexKind, writers: u64, train_writers: u64) -> IndexKind {
    match writers < train_writers {
        true => wanted,
        false => IndexKind::Binary,
    }
}
