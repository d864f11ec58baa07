//! Choosing and writing a table's index, while its data blocks are written.
//!
//! A binary index is written as it grows. For a learned one the ends of blocks are kept, and the choice is
//! made when the last block is written: the learned index if one can be made that is smaller, else the
//! binary one, whose lower blocks then lie behind all data blocks.

use std::convert::Infallible;

use thermocline_base::IndexKind;

use crate::format::TRAILER_LEN;
use crate::handle::{BlockHandle, BlockKind};
use crate::index::{IndexBuilder, separator};
use crate::key::KeyRef;
use crate::learned::{self, Boundaries};
use crate::properties::IndexUse;

/// Most memory that the ends of blocks take. A table with more of them has a binary index.
const PENDING_BYTES_MAX: usize = 8 << 20;

/// Less than an entry of a binary index takes: three lengths, a tag, a seqno and a handle.
const ENTRY_LEN_MIN: usize = 7;

/// The index of a table that is written.
#[derive(Debug)]
pub(crate) struct Indexing {
    builder: IndexBuilder,
    block_bytes: usize,
    /// What a learned index would be made of; none if there is to be a binary one.
    pending: Option<Boundaries>,
    wanted: IndexKind,
    /// The first user key of the data block that is filled.
    first: Vec<u8>,
}

impl Indexing {
    pub fn new(kind: IndexKind, block_bytes: usize) -> Indexing {
        Indexing {
            builder: IndexBuilder::new(block_bytes),
            block_bytes,
            pending: (kind == IndexKind::Learned).then(Boundaries::default),
            wanted: kind,
            first: Vec::new(),
        }
    }

    /// About how many bytes it would have, beside those that are written, if it were finished now.
    pub fn len(&self) -> usize {
        // A learned index has up to some three bytes for each block.
        self.builder.len() + self.pending.as_ref().map_or(0, |bounds| 3 * bounds.len())
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.builder.len() + self.pending.as_ref().map_or(0, Boundaries::memory)
    }

    /// Bytes of the root so far.
    pub fn root_len(&self) -> usize {
        self.builder.root_len()
    }

    /// Tells of the first entry of a data block.
    pub fn begin_block(&mut self, user_key: &[u8]) {
        if self.pending.is_some() {
            self.first.clear();
            self.first.extend_from_slice(user_key);
        }
    }

    /// Adds the data block that ends with `last`; `next` is the user key of the entry behind it. `write`
    /// writes a lower index block.
    pub fn end_block<E>(
        &mut self,
        last: KeyRef<'_>,
        next: Option<&[u8]>,
        handle: BlockHandle,
        write: impl FnMut(&[u8]) -> Result<BlockHandle, E>,
    ) -> Result<(), E> {
        let Some(bounds) = &mut self.pending else {
            return add(&mut self.builder, last, next, handle, write);
        };
        bounds.push(&self.first, last, handle);
        if bounds.memory() <= PENDING_BYTES_MAX {
            return Ok(());
        }
        let bounds = self.pending.take().expect("it was there");
        add_all(&mut self.builder, &bounds, next, write)
    }

    /// Completes it, of a table whose data blocks end at `data_end`: the payload of the root, and which kind it
    /// is.
    pub fn finish<E>(
        mut self,
        data_end: u64,
        mut write: impl FnMut(&[u8]) -> Result<BlockHandle, E>,
    ) -> Result<(Vec<u8>, IndexUse), E> {
        if let Some(bounds) = &self.pending {
            let is_smaller = |len: usize| {
                let least = ENTRY_LEN_MIN * bounds.len();
                len < least || len < self.binary_len(bounds, data_end)
            };
            if let Some(payload) = learned::build(bounds, data_end, is_smaller) {
                return Ok((payload, IndexUse::Learned));
            }
            add_all(&mut self.builder, bounds, None, &mut write)?;
        }
        if self.builder.has_last_leaf() {
            self.builder.write_leaf(&mut write)?;
        }
        let root = self.builder.finish(<[u8]>::to_vec);
        let used = match self.wanted {
            IndexKind::Binary => IndexUse::Binary,
            IndexKind::Learned => IndexUse::FellBack,
        };
        Ok((root, used))
    }

    /// Bytes that a binary index over these blocks would take, all levels, without compression.
    fn binary_len(&self, bounds: &Boundaries, data_end: u64) -> usize {
        let mut builder = IndexBuilder::new(self.block_bytes);
        let mut len = 0;
        let mut count = |payload: &[u8]| {
            len += payload.len() + TRAILER_LEN;
            Ok::<_, Infallible>(BlockHandle {
                offset: data_end,
                len: 0,
                kind: BlockKind::Index,
            })
        };
        let Ok(()) = add_all(&mut builder, bounds, None, &mut count);
        if builder.has_last_leaf() {
            let Ok(()) = builder.write_leaf(&mut count);
        }
        len + builder.finish(<[u8]>::len)
    }
}

fn add<E>(
    builder: &mut IndexBuilder,
    last: KeyRef<'_>,
    next: Option<&[u8]>,
    handle: BlockHandle,
    write: impl FnMut(&[u8]) -> Result<BlockHandle, E>,
) -> Result<(), E> {
    let separator = separator(last, next);
    if builder.is_leaf_full(separator.user_key.len()) {
        builder.write_leaf(write)?;
    }
    builder.add(separator, handle);
    Ok(())
}

/// Adds all blocks to a binary index; `next` is the user key of the entry behind them.
fn add_all<E>(
    builder: &mut IndexBuilder,
    bounds: &Boundaries,
    next: Option<&[u8]>,
    mut write: impl FnMut(&[u8]) -> Result<BlockHandle, E>,
) -> Result<(), E> {
    for n in 0..bounds.len() {
        let next = match n + 1 < bounds.len() {
            true => Some(bounds.first(n + 1)),
            false => next,
        };
        add(builder, bounds.last(n), next, bounds.handle(n), &mut write)?;
    }
    Ok(())
}
