//! Blocks in memory: sorted entries behind restart points.
//!
//! A block is checked once, as a whole, when its bytes come from a file: every entry can be decoded,
//! the keys ascend strictly, restart points lie on entries that share nothing, and tags and values
//! are what the block's kind may hold. Cursors rely on it and cannot fail. The check costs about as
//! much as one pass over the block and is paid once per read from the device, not once per look.

pub(crate) mod build;
pub(crate) mod cursor;

use thermocline_base::blob_ref::BLOB_REF_LEN;
use thermocline_base::numbers::{len_of, u32_at};

use std::ops::Range;

use crate::format::coding::{Unreadable, damaged};
use crate::format::entry::{self, RawEntry};
use crate::format::trailer::payload_len_max;
use crate::format::{INDEX_BINARY, INDEX_HEAD, INDEX_LEARNED, RUN_LEN_MAX, TRAILER_LEN};
use crate::handle::{BlockHandle, BlockKind};
use crate::key::KeyRef;

/// A data or index block, checked and decompressed. Immutable; shared as `Arc<Block>`.
#[derive(Debug)]
pub struct Block {
    bytes: Vec<u8>,
    /// The entries within `bytes`.
    entries: Range<usize>,
    restarts: usize,
    kind: BlockKind,
    /// Of an index block: 0 if it points to data blocks.
    level: u8,
    /// Whose block it is.
    place: Place,
}

/// Names a block: the seed of its table's checksums, and where it lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub seed: u64,
    pub offset: u64,
}

impl Block {
    /// The same, as the block of this place.
    pub(crate) fn placed(self, place: Place) -> Block {
        Block { place, ..self }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// What it holds.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// Bytes of memory that it takes: what a cache counts.
    pub fn charge(&self) -> usize {
        self.bytes.capacity() + size_of::<Block>()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// Whether it has no entries; only the index of an empty table has none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries only, at offsets as the restart points count them.
    fn body(&self) -> &[u8] {
        &self.bytes[self.entries.clone()]
    }

    fn restart(&self, n: usize) -> usize {
        len_of(u32_at(&self.bytes, self.entries.end + 4 * n))
    }

    /// Checks the payload of a data block.
    pub(crate) fn data(bytes: Vec<u8>) -> Result<Block, Unreadable> {
        let block = Block::parse(bytes, BlockKind::Data, 0, 0)?;
        if block.is_empty() {
            return Err(damaged("data block", 0, "entries", "none"));
        }
        block.check_entries(check_data)?;
        Ok(block)
    }

    /// Checks the payload of an index block of a table whose blocks end at `data_end`.
    pub(crate) fn index(bytes: Vec<u8>, data_end: u64) -> Result<Block, Unreadable> {
        let Some(&[kind, level, a, b]) = bytes.first_chunk::<INDEX_HEAD>() else {
            return Err(damaged(
                "length of an index block",
                0,
                INDEX_HEAD,
                bytes.len(),
            ));
        };
        if kind == INDEX_LEARNED {
            return Err(damaged("kind of an index block", 0, INDEX_BINARY, kind));
        }
        if kind != INDEX_BINARY {
            return Err(Unreadable::Newer(format!(
                "an index block has kind {kind}; this program knows only kind {INDEX_BINARY}"
            )));
        }
        if level > 1 || a != 0 || b != 0 {
            let got = format!("{level}, {a}, {b}");
            return Err(damaged(
                "level of an index block",
                1,
                "0 or 1, and zeros",
                got,
            ));
        }
        let block = Block::parse(bytes, BlockKind::Index, INDEX_HEAD, level)?;
        let mut before = 0;
        block.check_entries(|body, raw| {
            let handle = handle_of(body, raw, level)?;
            let fits = handle.offset >= before && handle.end() <= data_end;
            before = handle.end();
            // Stored, a block is never longer than without compression. Whoever reads it takes memory
            // for as much as the handle says.
            let lens = TRAILER_LEN..=payload_len_max(handle.kind) + TRAILER_LEN;
            let can_be = lens.contains(&len_of(handle.len));
            (fits && can_be && raw.tag == entry::TAG_INDEX).then_some(())
        })?;
        Ok(block)
    }

    /// Finds entries and restart points.
    fn parse(bytes: Vec<u8>, kind: BlockKind, head: usize, level: u8) -> Result<Block, Unreadable> {
        let what = "restart points of a block";
        let Some(count_at) = bytes.len().checked_sub(4).filter(|at| *at >= head) else {
            return Err(damaged(what, 0, head + 4, bytes.len()));
        };
        let restarts = len_of(u32_at(&bytes, count_at));
        let room = (count_at - head) / 4;
        if restarts > room {
            return Err(damaged(what, count_at, format!("at most {room}"), restarts));
        }
        let entries = head..count_at - 4 * restarts;
        if entries.is_empty() != (restarts == 0) {
            return Err(damaged(what, count_at, "as many as entries need", restarts));
        }
        Ok(Block {
            bytes,
            entries,
            restarts,
            kind,
            level,
            place: Place::default(),
        })
    }

    fn check_entries(
        &self,
        mut check: impl FnMut(&[u8], &RawEntry) -> Option<()>,
    ) -> Result<(), Unreadable> {
        let body = self.body();
        let (mut key, mut before) = (Vec::new(), None);
        let (mut at, mut restart, mut run) = (0, 0, 0);
        while at < body.len() {
            let wrong = |what| damaged(what, self.entries.start + at, "one", "none");
            let Some(raw) = entry::decode(body, at) else {
                return Err(wrong("entry of a block"));
            };
            if restart < self.restarts && self.restart(restart) == at {
                restart += 1;
                run = 0;
                if raw.shared != 0 {
                    return Err(wrong("whole key at a restart point"));
                }
            }
            if restart == 0 {
                return Err(wrong("restart point at the first entry"));
            }
            run += 1;
            if run > RUN_LEN_MAX {
                return Err(wrong("restart point behind so many entries"));
            }
            if !ascends(&key, before, &body[raw.rest.clone()], &raw) {
                return Err(wrong("key behind the one before"));
            }
            if check(body, &raw).is_none() {
                return Err(wrong("tag and value of an entry"));
            }
            key.truncate(raw.shared);
            key.extend_from_slice(&body[raw.rest.clone()]);
            before = Some(raw.seqno);
            at = raw.end();
        }
        if restart != self.restarts {
            let what = "restart points that lie on entries, ascending";
            return Err(damaged(what, self.entries.end, self.restarts, restart));
        }
        Ok(())
    }
}

/// Whether the entry `raw`, whose key ends with `rest`, comes behind (`key`, `before`).
#[inline]
fn ascends(key: &[u8], before: Option<u64>, rest: &[u8], raw: &RawEntry) -> bool {
    // No entry has the greatest seqno: as a target it stands before all versions.
    if raw.shared > key.len() || raw.seqno == u64::MAX {
        return false;
    }
    match (before, rest.cmp(&key[raw.shared..])) {
        (None, _) | (_, std::cmp::Ordering::Greater) => true,
        (Some(before), std::cmp::Ordering::Equal) => raw.seqno < before,
        (_, std::cmp::Ordering::Less) => false,
    }
}

fn check_data(_: &[u8], raw: &RawEntry) -> Option<()> {
    let (kind, blob) = entry::decode_tag(raw.tag)?;
    let right = match kind {
        _ if blob => raw.value.len() == BLOB_REF_LEN,
        thermocline_base::Kind::Delete => raw.value.is_empty(),
        _ => true,
    };
    right.then_some(())
}

/// Where the block lies that an entry of an index block of this level points to.
fn handle_of(body: &[u8], raw: &RawEntry, level: u8) -> Option<BlockHandle> {
    let (offset, len) = entry::decode_handle(&body[raw.value.clone()])?;
    let kind = match level {
        0 => BlockKind::Data,
        _ => BlockKind::Index,
    };
    Some(BlockHandle { offset, len, kind })
}

/// The key at a restart point.
fn restart_key<'a>(body: &'a [u8], raw: &RawEntry) -> KeyRef<'a> {
    KeyRef::new(&body[raw.rest.clone()], thermocline_base::SeqNo(raw.seqno))
}

#[cfg(test)]
mod tests;
