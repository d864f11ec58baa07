//! The kinds of entries in a write.

use thermocline_base::{BatchEntry, Kind};

/// Whether a write has only deletes.
pub(crate) fn only_deletes<'a>(mut entries: impl Iterator<Item = BatchEntry<'a>>) -> bool {
    entries.all(is_delete)
}

/// Whether a write has any delete.
pub(crate) fn deletes_any<'a>(mut entries: impl Iterator<Item = BatchEntry<'a>>) -> bool {
    entries.any(is_delete)
}

pub(super) fn is_delete(entry: BatchEntry<'_>) -> bool {
    matches!(entry.kind, Kind::Delete | Kind::RangeDelete)
}
