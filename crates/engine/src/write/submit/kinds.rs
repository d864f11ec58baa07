//! What a write is made of.

use thermocline_base::{BatchEntry, Kind};

/// Whether a write adds nothing.
pub(crate) fn only_deletes<'a>(mut entries: impl Iterator<Item = BatchEntry<'a>>) -> bool {
    entries.all(is_delete)
}

/// Whether a write takes something away.
pub(crate) fn deletes_any<'a>(mut entries: impl Iterator<Item = BatchEntry<'a>>) -> bool {
    entries.any(is_delete)
}

pub(super) fn is_delete(entry: BatchEntry<'_>) -> bool {
    matches!(entry.kind, Kind::Delete | Kind::RangeDelete)
}
