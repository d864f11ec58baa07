//! The blocks of a table for a cursor, which reads ahead where it goes through them in order.
//!
//! A device answers one request for 64 KiB in little more time than one for 4 KiB. So a cursor that asks
//! for blocks that follow each other gets them in pieces ([`Window`] says how long). It works in both directions. A cursor that goes
//! elsewhere begins anew.
//!
//! Who places several cursors at once reads their first pieces at once ([`TableBlocks::first_piece`]).
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
use thermocline_base::sync::{Mutex, lock};
use thermocline_env::File;
use thermocline_env::direct::DIRECT_UNIT;
use thermocline_exec::{BatchRead, RangeBuf};
use thermocline_memtable::Direction;
use thermocline_policy::tuning::BLOCK_GAP_BYTES;
use thermocline_sst::{Block, BlockHandle, BlockKind, BlockSource, Table};
use thermocline_version::Level;

use super::files::TableFiles;
use super::open::OpenTable;
use super::window::Window;
use std::sync::Arc;

/// See the [module](self). It keeps its table open.
#[derive(Debug)]
pub struct TableBlocks {
    open: Arc<OpenTable>,
    files: Arc<TableFiles>,
    level: Level,
    /// Whether the cursor is placed here, and does not come from the table before: a scan of many tables
    /// says once how far it went.
    placed: bool,
    ahead: Mutex<Ahead>,
}

/// What was asked for, and what lies ready.
#[derive(Debug)]
struct Ahead {
    /// The data block that was asked for last.
    last: Option<BlockHandle>,
    /// The way that the cursor goes, as far as is known.
    way: Option<Direction>,
    /// In bytes of data blocks on that way.
    window: Window,
    piece: Option<Piece>,
    charge: Option<Charge>,
    /// The blocks that were given last: data blocks, and the index block above.
    given: [Option<(BlockHandle, Arc<Block>)>; 3],
}

/// Bytes that lie ready.
#[derive(Debug)]
struct Piece {
    /// Where in the file they lie.
    at: u64,
    bytes: RangeBuf,
}

/// A piece that is to be read.
#[derive(Debug)]
pub struct FirstPiece {
    open: Arc<OpenTable>,
    at: u64,
    len: usize,
}

impl FirstPiece {
    /// The file that it lies in, open.
    pub fn file(&self) -> Result<Arc<dyn File>> {
        self.open.file.now()
    }

    /// The read that it needs, of its file.
    pub fn read<'a>(&self, file: &'a dyn File) -> BatchRead<'a> {
        BatchRead {
            file,
            offset: self.at,
            len: self.len,
        }
    }
}

impl TableBlocks {
    /// Of a table of `level`, for a cursor that will go this way: from a place in it where it is `placed`, or
    /// from the table before.
    pub fn new(
        open: Arc<OpenTable>,
        files: Arc<TableFiles>,
        level: Level,
        (way, placed): (Direction, bool),
    ) -> TableBlocks {
        let expected = files.habit().expected(level).min(files.ahead_bytes());
        let ahead = Ahead {
            last: None,
            way: Some(way),
            window: Window::new(expected),
            piece: None,
            charge: None,
            given: [None, None, None],
        };
        TableBlocks {
            open,
            files,
            level,
            placed,
            ahead: Mutex::new(ahead),
        }
    }

    /// The bytes of a block, as stored.
    fn read(&self, handle: BlockHandle, ahead: &mut Ahead) -> Result<Vec<u8>> {
        if let Some(stored) = ahead.ready(handle) {
            return Ok(stored);
        }
        let file = self.open.file.now()?;
        if let Some((at, len)) = self.next_piece(handle, ahead) {
            let read = BatchRead {
                file: &*file,
                offset: at,
                len,
            };
            let mut answers = self.files.reader().read(&[read]);
            let bytes = answers.pop().and_then(Result::ok);
            if let Some(stored) = ahead.take(at, bytes, handle) {
                return Ok(stored);
            }
        }
        let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
        let mut stored = vec![0; len];
        let _under_way = self.files.reader().one_under_way();
        file.read_exact_at(&mut stored, handle.offset)?;
        Ok(stored)
    }

    /// What to read where the cursor will need `handle` first; `None` if that is at hand. Who asks reads it
    /// and gives it ([`TableBlocks::give_first`]).
    pub fn first_piece(&self, handle: BlockHandle) -> Option<FirstPiece> {
        let mut ahead = lock(&self.ahead);
        let cache = self.open.source.cache();
        if ahead.last.is_some() || cache.has(&self.open.table, handle) {
            return None;
        }
        let (at, len) = match self.next_piece(handle, &mut ahead) {
            Some(piece) => piece,
            None => {
                self.room(&mut ahead, u64::from(handle.len))?;
                (handle.offset, usize::try_from(handle.len).ok()?)
            }
        };
        Some(FirstPiece {
            open: self.open.clone(),
            at,
            len,
        })
    }

    /// The bytes of a piece. `None` if they could not be read.
    pub fn give_first(&self, piece: &FirstPiece, bytes: Option<RangeBuf>) {
        let mut ahead = lock(&self.ahead);
        match bytes {
            Some(bytes) => {
                ahead.piece = Some(Piece {
                    at: piece.at,
                    bytes,
                })
            }
            None => ahead.forget(),
        }
    }

    /// Where to read a piece that begins, or for the way back ends, with the block, and how much; `None`
    /// if that is not due, or there is no room.
    fn next_piece(&self, handle: BlockHandle, ahead: &mut Ahead) -> Option<(u64, usize)> {
        if handle.kind != BlockKind::Data {
            return None;
        }
        let way = ahead.way?;
        let len = u64::from(handle.len);
        let most = self.files.ahead_bytes();
        let window = ahead.window.next_piece(len, most);
        let end = handle.offset + len;
        let (from, to) = match way {
            Direction::Forward => (handle.offset, handle.offset + window),
            Direction::Reverse => (end.saturating_sub(window), end),
        };
        let unit = DIRECT_UNIT as u64;
        // Whole units: as many are read anyway. The end of the table's data is the end of the way.
        let from = from - from % unit;
        let to = to.next_multiple_of(unit).min(from + most);
        let to = to.min(self.open.table.data_end()).max(end);
        if to - from <= len.next_multiple_of(unit) {
            return None;
        }
        self.room(ahead, to - from)?;
        Some((from, usize::try_from(to - from).ok()?))
    }

    /// Charges for a piece.
    fn room(&self, ahead: &mut Ahead, bytes: u64) -> Option<()> {
        // In whole units, and it may lie across them. The one before goes first.
        ahead.piece = None;
        let bytes = bytes.next_multiple_of(DIRECT_UNIT as u64) + DIRECT_UNIT as u64;
        if ahead.charge.as_ref().is_none_or(|c| c.bytes() < bytes) {
            ahead.forget();
            ahead.charge = Some(self.files.account().charge(bytes)?);
        }
        Some(())
    }
}

impl Drop for TableBlocks {
    fn drop(&mut self) {
        let gone = lock(&self.ahead).window.gone();
        if gone > 0 && self.placed {
            let bytes = gone.min(self.files.ahead_bytes());
            self.files.habit().note(self.level, bytes);
        }
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
        let len = u64::from(handle.len);
        let Some(last) = self.last.replace(handle) else {
            self.window.go_on(len);
            return;
        };
        let end = |handle: BlockHandle| handle.offset + u64::from(handle.len);
        let follows = |first: BlockHandle, second: BlockHandle| {
            (end(first)..=end(first) + BLOCK_GAP_BYTES).contains(&second.offset)
        };
        let way = match () {
            () if follows(last, handle) => Some(Direction::Forward),
            () if follows(handle, last) => Some(Direction::Reverse),
            () => None,
        };
        if way.is_some() && way == self.way {
            self.window.go_on(len);
            return;
        }
        // It has turned, or gone elsewhere.
        self.way = way;
        let gone = if way.is_some() { 2 * len } else { len };
        self.window.begin_anew(gone);
    }

    /// The bytes of a block, if they lie ready.
    fn ready(&self, handle: BlockHandle) -> Option<Vec<u8>> {
        let piece = self.piece.as_ref()?;
        let from = usize::try_from(handle.offset.checked_sub(piece.at)?).ok()?;
        let len = usize::try_from(handle.len).ok()?;
        Some(piece.bytes.get(from..from.checked_add(len)?)?.to_vec())
    }

    /// Keeps a piece, and gives the bytes of a block in it.
    fn take(&mut self, at: u64, bytes: Option<RangeBuf>, handle: BlockHandle) -> Option<Vec<u8>> {
        self.piece = bytes.map(|bytes| Piece { at, bytes });
        let stored = self.ready(handle);
        if stored.is_none() {
            self.forget();
        }
        stored
    }

    fn forget(&mut self) {
        self.piece = None;
        self.charge = None;
    }
}
