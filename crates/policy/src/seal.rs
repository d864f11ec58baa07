//! When a memtable is sealed, and the next one is named ahead.
//!
//! The predicates are asked under the writer's lock for each group that is granted, so they only compare numbers that this lock
//! protects.

use std::fmt;

use crate::tuning::{INDEX_PARTS, PREPARE_PARTS};

/// The memtable that takes writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Active {
    /// Bytes of its items.
    pub bytes: u64,
    /// Bytes of values in blob files that it refers to.
    pub blob_bytes: u64,
    /// Seqnos that it spans.
    pub span: u64,
    /// Whether its index takes so much DRAM that it should be sealed: [`is_heavy`].
    pub heavy: bool,
    /// Whether nothing was written to it.
    pub is_empty: bool,
}

/// What a memtable may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its items.
    pub bytes: u64,
    /// Bytes of values in blob files that it refers to.
    pub blob_bytes: u64,
    /// Seqnos that it spans, at most: [`SPAN_MAX`](crate::tuning::SPAN_MAX).
    pub span: u64,
}

/// Why a memtable is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// It has, with what is to be written, more bytes than it may.
    Bytes {
        /// With what is to be written.
        bytes: u64,
        /// What it may have.
        limit: u64,
    },
    /// It refers to as much in blob files as it may.
    Blobs {
        /// Bytes that it refers to.
        bytes: u64,
        /// What it may.
        limit: u64,
    },
    /// DRAM is short, and its index takes much of it.
    Index,
    /// It spans as many seqnos as it may.
    Span {
        /// Seqnos.
        span: u64,
    },
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Bytes { bytes, limit } => {
                write!(f, "seal: {bytes} bytes would be more than {limit}")
            }
            Because::Blobs { bytes, limit } => {
                write!(f, "seal: refers to {bytes} bytes in blob files, of {limit}")
            }
            Because::Index => write!(f, "seal: DRAM is short, and the index takes much of it"),
            Because::Span { span } => write!(f, "seal: spans {span} sequence numbers"),
        }
    }
}

/// Whether the memtable has, with `more` bytes, as much as one should have.
#[inline]
pub fn is_full(active: &Active, limits: &Limits, more: u64) -> bool {
    active.bytes + more > limits.bytes || active.blob_bytes >= limits.blob_bytes
}

/// Whether it spans so many seqnos that nothing may be written to it any more.
#[inline]
pub fn is_wide(active: &Active, limits: &Limits) -> bool {
    active.span >= limits.span
}

/// Whether it is to be sealed before `more` bytes are written, for what it has. `has_room` says whether there is a zone for
/// the next one: in a full region what is left of the zone at hand serves deletes, and a new memtable could not use it.
///
/// ```
/// use thermocline_policy::seal::{Active, Limits, is_due};
/// let limits = Limits { bytes: 100, blob_bytes: 1000, span: 50 };
/// let active = Active { bytes: 90, ..Active::default() };
/// assert!(!is_due(&active, &limits, 10, || true));
/// assert!(is_due(&active, &limits, 11, || true));
/// assert!(!is_due(&active, &limits, 11, || false));
/// ```
#[inline]
pub fn is_due(
    active: &Active,
    limits: &Limits,
    more: u64,
    has_room: impl FnOnce() -> bool,
) -> bool {
    (is_full(active, limits, more) || active.heavy) && !active.is_empty && has_room()
}

/// Why a memtable is sealed for which [`is_due`] or [`is_wide`] holds.
pub fn because(active: &Active, limits: &Limits, more: u64) -> Option<Because> {
    let bytes = active.bytes + more;
    match active {
        _ if is_wide(active, limits) => Some(Because::Span { span: active.span }),
        Active { is_empty: true, .. } => None,
        _ if bytes > limits.bytes => Some(Because::Bytes {
            bytes,
            limit: limits.bytes,
        }),
        _ if active.blob_bytes >= limits.blob_bytes => Some(Because::Blobs {
            bytes: active.blob_bytes,
            limit: limits.blob_bytes,
        }),
        Active { heavy: true, .. } => Some(Because::Index),
        _ => None,
    }
}

/// Whether an index of so many bytes should be sealed where DRAM is short. All indexes may have `dram_limit` together.
pub fn is_heavy(index_bytes: u64, dram_limit: u64) -> bool {
    index_bytes > dram_limit / INDEX_PARTS
}

/// Whether a memtable of so many bytes is so full that the next one should be named, so that no sync falls on the put path.
#[inline]
pub fn is_filling(bytes: u64, limits: &Limits) -> bool {
    bytes > limits.bytes / PREPARE_PARTS
}

/// Whether the next memtable should be named behind one of so many bytes: since that is filling, or a write `awaits` it.
/// A memtable may be full of something else than bytes, or the item may be large, before it is half full.
#[inline]
pub fn wants_next(bytes: u64, limits: &Limits, awaits: bool) -> bool {
    awaits || is_filling(bytes, limits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn active() -> impl Strategy<Value = Active> {
        let numbers = (0u64..300, 0u64..300, 0u64..300);
        (numbers, any::<bool>(), any::<bool>()).prop_map(
            |((bytes, blob_bytes, span), heavy, is_empty)| Active {
                bytes,
                blob_bytes,
                span,
                heavy,
                is_empty,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_sealed_has_a_reason_and_more_never_means_not(active in active(), more in 0u64..300) {
            let limits = Limits { bytes: 200, blob_bytes: 200, span: 200 };
            let due = is_due(&active, &limits, more, || true) || is_wide(&active, &limits);
            prop_assert_eq!(due, because(&active, &limits, more).is_some());
            if is_due(&active, &limits, more, || true) {
                prop_assert!(is_due(&active, &limits, more + 1, || true));
                prop_assert!(!is_due(&active, &limits, more, || false));
            }
            if is_full(&active, &limits, 0) && active.blob_bytes < limits.blob_bytes {
                prop_assert!(is_filling(active.bytes, &limits));
            }
        }
    }
}
