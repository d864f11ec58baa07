//! A table that is open, and parts of it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use thermocline_base::bounds::{KeyBounds, shared_prefix};
use thermocline_base::{KeyLimits, RangeTombstone, RangeTombstones, Result, SeqNo};

use crate::block::{Block, Place};
use crate::filter::Filter;
use crate::format::coding::damaged;
use crate::format::trailer;
use crate::handle::{BlockHandle, BlockKind};
use crate::properties::Properties;
use crate::root::Root;

/// A table that is open: everything but its data and lower index blocks is in memory. Immutable;
/// shared as `Arc<Table>`. It does no I/O and knows no file: see [`crate::Opening`] for how it is
/// made, and [`crate::BlockSource`] for where blocks come from.
pub struct Table {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    pub(crate) data_end: u64,
    pub(crate) root: Root,
    pub(crate) filter: Option<Filter>,
    pub(crate) tombstones: RangeTombstones,
    pub(crate) properties: Properties,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// The name by which errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says about itself.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where in the file its data and lower index blocks end.
    pub fn data_end(&self) -> u64 {
        self.data_end
    }

    /// Bytes of memory that it takes while it is open, without blocks that were read since.
    pub fn charge(&self) -> usize {
        let filter = self.filter.as_ref().map_or(0, Filter::charge);
        let root = self.root.charge();
        let tombstones = self.tombstones.key_bytes() + self.tombstones.charge();
        let known = root + filter + tombstones + self.properties.charge();
        size_of::<Table>() + self.name.len() + known
    }

    /// The block that a reader asked for, from the bytes of the file at `handle`: checked,
    /// decompressed, ready to be cached. Bytes that are lent are copied only if they were not compressed.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] if they are not what was written there,
    /// [`thermocline_base::Error::Unsupported`] if a newer version wrote them.
    pub fn decode<'a>(
        &self,
        handle: BlockHandle,
        stored: impl Into<Cow<'a, [u8]>>,
    ) -> Result<Arc<Block>> {
        let stored: Cow<'_, [u8]> = stored.into();
        let decoded = || {
            if stored.len() as u64 != u64::from(handle.len) {
                return Err(damaged("length of a block", 0, handle.len, stored.len()));
            }
            let payload = trailer::open(stored, handle.kind, self.seed, handle.offset)?;
            match handle.kind {
                BlockKind::Data => Block::data(payload),
                BlockKind::Index => Block::index(payload, self.data_end),
                other => Err(damaged(
                    "kind of a block that a reader asks for",
                    0,
                    "data",
                    other,
                )),
            }
        };
        let place = Place {
            seed: self.seed,
            offset: handle.offset,
        };
        decoded()
            .map(|block| Arc::new(block.placed(place)))
            .map_err(|e| e.into_error(&self.name, handle.offset))
    }

    /// Whether it may have entries of `key`. Without reading anything: if it has none, it may still
    /// say yes, about once in 256 times; if it has any, it says yes.
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.filter.as_ref().is_none_or(|f| f.may_contain(key))
    }

    /// What all keys of a range begin with, if the filter says that no entry's key does. Without reading anything. `None` says
    /// nothing: the table may have no prefixes in its filter, or the range reaches over what begins alike; or it may have such
    /// entries. If it has none, it still says nothing about once in 256 times. Range tombstones are not in the filter.
    pub fn denied_prefix<'k>(&self, range: KeyBounds<'k>) -> Option<&'k [u8]> {
        let (filter, len) = (self.filter.as_ref()?, self.properties.prefix_len?);
        let prefix = shared_prefix(range, usize::from(len.get()))?;
        (!filter.may_contain_prefix(prefix)).then_some(prefix)
    }

    /// Its range tombstones, by start, then newest first. They may overlap.
    pub fn range_tombstones(&self) -> impl ExactSizeIterator<Item = RangeTombstone<&[u8]>> {
        self.tombstones.iter()
    }
}

/// A table, or the part of it whose user keys lie within limits: what a reader reads. Entries outside
/// of the limits are as if they were not there; range tombstones end there. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TablePart {
    table: Arc<Table>,
    limits: KeyLimits,
}

impl TablePart {
    /// All of it.
    pub fn whole(table: Arc<Table>) -> TablePart {
        TablePart::limited(table, None, None)
    }

    /// The keys from `lower` up to, and not with, `upper`.
    pub fn limited(table: Arc<Table>, lower: Option<&[u8]>, upper: Option<&[u8]>) -> TablePart {
        let limits = KeyLimits::new(lower, upper);
        TablePart { table, limits }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The limits of its user keys.
    pub fn limits(&self) -> &KeyLimits {
        &self.limits
    }

    /// The newest range tombstone at or below `at` that covers `key`, as the limits cut it.
    pub fn covering(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        self.table.tombstones.covering(&self.limits, key, at)
    }

    /// What the range tombstones at or below `at` cover right before `key`: see [`RangeTombstones::reaching`].
    pub fn reaching(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        self.table.tombstones.reaching(&self.limits, key, at)
    }

    /// Its range tombstones, as [`RangeTombstones::within`] has them. They may overlap.
    pub fn range_tombstones(&self) -> impl Iterator<Item = RangeTombstone<&[u8]>> {
        self.table.tombstones.within(&self.limits)
    }
}
