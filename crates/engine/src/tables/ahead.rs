//! The blocks of a table for a cursor, which reads ahead where it goes through them in order.
//!
//! A device answers one request for 64 KiB in little more time than one for 4 KiB. So a cursor that asks
//! for blocks that follow each other gets them in pieces: the first is read alone, each piece after that
//! is four times as long as the one before, up to `read.ahead_bytes`. It works in both directions. A cursor that
//! goes elsewhere begins anew.
//!
//! # Invariants
//! 1. *Nothing is believed sooner.* The bytes of a block are cut out of the piece and checked as if they
//!    had been read alone. A piece that cannot be read is no error: its first block is read alone then.
//! 2. *No more memory than there is.* A piece is charged to the store's account; where there is no room
//!    for it, blocks are read alone.
//! 3. *The cache is asked first*: what lies in it is not read, unless within a piece. The blocks that the
//!    cursor stands in are at hand even if the cache has no room for them: to seek within them, or to turn
//!    at the border of two, reads nothing.

use thermocline_base::Result;
use thermocline_base::budget::Charge;
use thermocline_env::direct::DIRECT_UNIT;
use thermocline_memtable::Direction;
use thermocline_sst::{Block, BlockHandle, BlockKind, BlockSource, Table};

use super::files::TableFiles;
use super::open::OpenTable;
use crate::sync::{Arc, Mutex, lock};

/// How much longer each piece is than the one before.
const GROWTH: u64 = 4;

/// Most bytes between two data blocks that follow each other: zeros, or an index block.
const GAP_MAX: u64 = 32 << 10;

/// See the [module](self). It keeps its table open.
#[derive(Debug)]
pub(crate) struct TableBlocks {
    open: Arc<OpenTable>,
    files: Arc<TableFiles>,
    ahead: Mutex<Ahead>,
}

/// What was asked for, and what lies ready.
#[derive(Debug, Default)]
struct Ahead {
    /// The data block that was asked for last.
    last: Option<BlockHandle>,
    /// The way that it lay in from the one before.
    way: Option<Direction>,
    /// Length of the last piece.
    window: u64,
    /// Where in the file `bytes` lie.
    at: u64,
    bytes: Vec<u8>,
    charge: Option<Charge>,
    /// The blocks that were given last: data blocks, and the index block above.
    given: [Option<(BlockHandle, Arc<Block>)>; 3],
}

impl TableBlocks {
    pub fn new(open: Arc<OpenTable>, files: Arc<TableFiles>) -> TableBlocks {
        TableBlocks {
            open,
            files,
            ahead: Mutex::default(),
        }
    }

    /// The bytes of a block, as stored.
    fn read(&self, handle: BlockHandle, ahead: &mut Ahead) -> Result<Vec<u8>> {
        if let Some(stored) = ahead.ready(handle) {
            return Ok(stored);
        }
        let file = &**self.open.source.file();
        if self.read_piece(handle, ahead).is_some()
            && let Some(stored) = ahead.ready(handle)
        {
            return Ok(stored);
        }
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        let mut stored = vec![0; len];
        file.read_exact_at(&mut stored, handle.offset)?;
        Ok(stored)
    }

    /// Reads a piece that begins, or for the way back ends, with the block; `None` if that is not due, or
    /// fails.
    fn read_piece(&self, handle: BlockHandle, ahead: &mut Ahead) -> Option<()> {
        if handle.kind != BlockKind::Data {
            return None;
        }
        let way = ahead.way?;
        let most = self.files.ahead_bytes();
        let len = u64::from(handle.len);
        ahead.window = (ahead.window.max(len) * GROWTH).min(most);
        let unit = DIRECT_UNIT as u64;
        let end = handle.offset + len;
        let (from, to) = match way {
            Direction::Forward => (handle.offset, handle.offset + ahead.window),
            Direction::Reverse => (end.saturating_sub(ahead.window), end),
        };
        // Whole units: as many are read anyway. The end of the table's data is the end of the way.
        let from = from - from % unit;
        let to = to.next_multiple_of(unit).min(from + most);
        let to = to.min(self.open.table.data_end()).max(end);
        let want = to - from;
        if want <= len.next_multiple_of(unit) {
            return None;
        }
        if ahead.charge.as_ref().is_none_or(|c| c.bytes() < want) {
            ahead.forget();
            ahead.charge = Some(self.files.account().charge(want)?);
        }
        ahead.bytes.resize(usize::try_from(want).ok()?, 0);
        ahead.at = from;
        let file = &**self.open.source.file();
        let read = file.read_exact_at(&mut ahead.bytes, from);
        if read.is_err() {
            ahead.forget();
        }
        read.ok()
    }
}

impl BlockSource for TableBlocks {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let mut ahead = lock(&self.ahead);
        if let Some(block) = ahead.given(handle) {
            return Ok(block);
        }
        ahead.note(handle);
        let cache = self.open.source.cache();
        let read = || table.decode(handle, self.read(handle, &mut ahead)?);
        let (block, _) = cache.find_or_read(table, handle, read)?;
        ahead.give(handle, &block);
        Ok(block)
    }
}

impl Ahead {
    fn given(&self, handle: BlockHandle) -> Option<Arc<Block>> {
        let mut given = self.given.iter().flatten();
        let (_, block) = given.find(|(of, _)| *of == handle)?;
        Some(block.clone())
    }

    fn give(&mut self, handle: BlockHandle, block: &Arc<Block>) {
        let given = Some((handle, block.clone()));
        let [newer, older, above] = &mut self.given;
        match handle.kind {
            BlockKind::Data => *older = std::mem::replace(newer, given),
            _ => *above = given,
        }
    }

    /// Takes note of where the cursor goes.
    fn note(&mut self, handle: BlockHandle) {
        if handle.kind != BlockKind::Data {
            return;
        }
        let end = |handle: BlockHandle| handle.offset + u64::from(handle.len);
        let follows = |first: BlockHandle, second: BlockHandle| {
            (end(first)..=end(first) + GAP_MAX).contains(&second.offset)
        };
        let way = match self.last.replace(handle) {
            Some(last) if follows(last, handle) => Some(Direction::Forward),
            Some(last) if follows(handle, last) => Some(Direction::Reverse),
            _ => None,
        };
        if way != self.way || way.is_none() {
            self.way = way;
            self.window = 0;
        }
    }

    /// The bytes of a block, if they lie ready.
    fn ready(&self, handle: BlockHandle) -> Option<Vec<u8>> {
        let from = usize::try_from(handle.offset.checked_sub(self.at)?).ok()?;
        let len = usize::try_from(handle.len).ok()?;
        Some(self.bytes.get(from..from.checked_add(len)?)?.to_vec())
    }

    fn forget(&mut self) {
        self.bytes = Vec::new();
        self.charge = None;
    }
}
