//! What a search has found.

use thermocline_memtable::{Memtable, RecordRef};
use thermocline_sst::Pinned;

use crate::sync::Arc;

/// Where a value was found.
pub(crate) enum Hit<'a> {
    /// In a memtable.
    Record(&'a Arc<Memtable>, &'a RecordRef<'a>),
    /// In a block of a table.
    Block(&'a Pinned),
    /// In a table in persistent memory.
    Pm(thermocline_level0::Pinned),
    /// In memory of its own: read from a blob file, or made of operands.
    Made(Vec<u8>),
}

impl Hit<'_> {
    /// The value.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Hit::Record(_, record) => record.value,
            Hit::Block(value) => value,
            Hit::Pm(value) => value,
            Hit::Made(value) => value,
        }
    }
}
