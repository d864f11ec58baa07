//! The driver that waits: it fetches each block that a reader asks for, and goes on.
//!
//! Other drivers (`tables::search`) run the same machines, and fetch blocks in their own way.

use std::sync::Arc;

use thermocline_base::{Result, SeqNo};
use thermocline_env::File;

use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::cursor::{Cursor, Move};
use crate::get::{Get, Step, check_entered, check_supplied};
use crate::handle::{BlockHandle, BlockKind};
use crate::identity::Identity;
use crate::key::KeyRef;
use crate::opening::{Opened, Opening};
use crate::table::{Table, TablePart};
use crate::value::{Found, Value};

/// Where blocks come from: a file, or a cache in front of files. One source may serve many tables of a
/// store: it finds the file, and the place in the cache, by [`Table::properties`]' file id and the
/// handle's offset, which together name a block for ever *within that store*. What several stores share
/// needs to tell stores apart too, and not by the database's id, which a copied folder has as well (see
/// [`crate::BlockCache`]). Readers refuse a block of another database, file or offset, but cannot tell
/// the blocks of a copy. A cache counts [`Block::charge`] bytes.
pub trait BlockSource {
    /// The block of `table` at `handle`.
    ///
    /// # Errors
    /// Those of reading, and of [`Table::decode`].
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>>;
}

impl<S: BlockSource + ?Sized> BlockSource for &S {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        (**self).block(table, handle)
    }
}

impl<S: BlockSource + ?Sized> BlockSource for Arc<S> {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        (**self).block(table, handle)
    }
}

/// The file of one table, without a cache.
#[derive(Debug, Clone)]
pub struct FileSource(pub Arc<dyn File>);

impl BlockSource for FileSource {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        let mut stored = vec![0; len];
        self.0.read_exact_at(&mut stored, handle.offset)?;
        table.decode(handle, stored)
    }
}

/// Opens the table in `file`, which should be `identity`. Reads three times: length, footer, and what
/// lies before the footer.
///
/// # Errors
/// [`thermocline_base::Error::Corruption`] with file and offset if it is not that table, whole;
/// [`thermocline_base::Error::Unsupported`] if a newer version wrote it; those of reading.
pub fn open_table(file: &dyn File, identity: Identity) -> Result<Arc<Table>> {
    let name = file.path().display().to_string();
    let mut opening = Opening::new(identity, name, file.len()?)?;
    loop {
        let (offset, len) = opening.needs();
        // The piece lies within the file, so this is at most its length.
        let mut piece = vec![0; usize::try_from(len).expect("a part of a file in memory")];
        file.read_exact_at(&mut piece, offset)?;
        match opening.supply(&piece)? {
            Opened::Needs(more) => opening = more,
            Opened::Table(table) => return Ok(table),
        }
    }
}

/// As [`open_table`], for whoever goes through the table and looks no key up: the filter, which is most of what an open table
/// takes, is checked and not kept.
///
/// # Errors
/// As [`open_table`].
pub fn open_table_to_scan(file: &dyn File, identity: Identity) -> Result<Arc<Table>> {
    let mut table = open_table(file, identity)?;
    if let Some(own) = Arc::get_mut(&mut table) {
        own.filter = None;
    }
    Ok(table)
}

/// The newest that `part` says about `user_key` at or below `seqno`.
///
/// # Errors
/// Those of the source; [`thermocline_base::Error::Corruption`] if blocks contradict each other.
pub fn get(
    part: &TablePart,
    user_key: &[u8],
    seqno: SeqNo,
    source: &dyn BlockSource,
) -> Result<Option<Found>> {
    let mut get = Get::new(part, user_key, seqno);
    let mut step = get.start();
    loop {
        match step {
            Step::Need(handle) => step = get.supply(source.block(part.table(), handle)?)?,
            Step::Done(found) => return Ok(found),
        }
    }
}

/// Where in its file, in bytes, the data block begins that would have the first entry of `key` in the
/// table of `part`, whatever the part's limits are, or the one before; where its data ends, if it is known that all
/// entries lie before. For who asks how much lies between two keys. Reads at most one index block.
///
/// # Errors
/// As [`get`].
pub fn offset_of(part: &TablePart, key: &[u8], source: &dyn BlockSource) -> Result<u64> {
    let table = part.table();
    let target = KeyRef::new(key, SeqNo::MAX);
    let mut root = table.root.cursor();
    if !root.seek(target) {
        return Ok(table.data_end);
    }
    let handle = root.handle();
    if handle.kind == BlockKind::Data {
        return Ok(handle.offset);
    }
    let block = source.block(table, handle)?;
    check_supplied(part, handle, &block)?;
    let mut leaf = BlockCursor::new(block);
    let there = leaf.seek(target);
    check_entered(part, handle, there)?;
    Ok(leaf.handle().offset)
}

/// A [`Cursor`] that fetches its blocks. Each move says whether it ended at an entry.
#[derive(Debug)]
pub struct SyncCursor<S> {
    cursor: Cursor,
    source: S,
}

impl<S: BlockSource> SyncCursor<S> {
    /// Over `part`, at no entry.
    pub fn new(part: TablePart, source: S) -> SyncCursor<S> {
        SyncCursor {
            cursor: Cursor::new(part),
            source,
        }
    }

    /// Makes a move.
    ///
    /// # Errors
    /// As [`get`]; it is at no entry then, and not at the end: the same step again goes on where it
    /// failed, another one is [`thermocline_base::Error::InvalidArgument`] until a move to a place
    /// succeeds (see [`Cursor`]).
    pub fn go(&mut self, to: Move<'_>) -> Result<bool> {
        let mut step = self.cursor.start(to)?;
        loop {
            match step {
                Step::Need(handle) => {
                    let block = self.source.block(self.cursor.part().table(), handle)?;
                    step = self.cursor.supply(block)?;
                }
                Step::Done(there) => return Ok(there),
            }
        }
    }

    /// The data block that a move to a place will need first, if it needs one; it is not read, index
    /// blocks are. The move is still to be made, and until then it is at no entry.
    ///
    /// # Errors
    /// As [`SyncCursor::go`].
    pub fn foresee(&mut self, to: Move<'_>) -> Result<Option<BlockHandle>> {
        let mut step = self.cursor.start(to)?;
        loop {
            match step {
                Step::Need(handle) if handle.kind == BlockKind::Data => return Ok(Some(handle)),
                Step::Need(handle) => {
                    let block = self.source.block(self.cursor.part().table(), handle)?;
                    step = self.cursor.supply(block)?;
                }
                Step::Done(_) => return Ok(None),
            }
        }
    }

    /// Where its blocks come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// To the first entry. For errors see [`SyncCursor::go`], here and below.
    pub fn first(&mut self) -> Result<bool> {
        self.go(Move::First)
    }

    /// To the last entry.
    pub fn last(&mut self) -> Result<bool> {
        self.go(Move::Last)
    }

    /// To the first entry not below `key`.
    pub fn seek(&mut self, key: KeyRef<'_>) -> Result<bool> {
        self.go(Move::Seek(key))
    }

    /// To the last entry not above `key`.
    pub fn seek_for_prev(&mut self, key: KeyRef<'_>) -> Result<bool> {
        self.go(Move::SeekForPrev(key))
    }

    /// To the next entry.
    #[expect(clippy::should_implement_trait, reason = "it lends, and may fail")]
    pub fn next(&mut self) -> Result<bool> {
        self.go(Move::Next)
    }

    /// To the entry before.
    pub fn prev(&mut self) -> Result<bool> {
        self.go(Move::Prev)
    }

    /// Whether it is at an entry.
    pub fn is_at_entry(&self) -> bool {
        self.cursor.is_at_entry()
    }

    /// The key of the entry.
    ///
    /// # Panics
    /// If it is at none, here and below.
    pub fn key(&self) -> KeyRef<'_> {
        self.cursor.key()
    }

    /// What the entry says.
    pub fn value(&self) -> (thermocline_base::Kind, Value<'_>) {
        self.cursor.value()
    }

    /// What the entry says, with its value kept in memory.
    pub fn found(&self) -> Found {
        self.cursor.found()
    }

    /// Shows the entries beside its own: see [`Cursor::look_ahead`].
    pub fn look_ahead(
        &self,
        back: bool,
        goes_on: impl FnMut(KeyRef<'_>, thermocline_base::Kind, Value<'_>) -> bool,
    ) {
        self.cursor.look_ahead(back, goes_on);
    }
}
