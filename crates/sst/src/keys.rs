//! The keys of a table in memory, with the data block of each (TridentKV §3.3): so a lookup reads that block and asks
//! neither filter nor index, or it knows that there is nothing to read.
//!
//! The paper has a B+-tree over the tables of level 0. A table never changes, so here each has a sorted list of its own,
//! which is made while the table is written, or by reading it, and goes with the table.
//!
//! # Why an answer is never wrong
//! 1. *All keys.* Whoever makes a list is shown every entry of the table, in order: by the writer, as it adds it, or by a
//!    cursor over the whole table. Where there is no room for all keys there is no list at all. The bytes of a table never
//!    change, and no other file ever has its number, so what was right when the list was made stays right.
//! 2. *[`Where::Not`] is about all versions, and all of the table.* The list knows no seqnos: a key is in it if any
//!    version is in the table, a delete or an operand, too, and whether a reader sees it or not. So `Not` holds for every
//!    snapshot, and for every seqno that entries were given, by a flush or by an ingestion. A part of a table has no key
//!    that the table does not have. A table with range tombstones never says `Not`: those may cover any key.
//! 3. *[`Where::Block`] is the only block.* Entries ascend by key, so those of one key follow each other. If they reach
//!    into a second block, that one begins with the key of the entry before, and the key is noted as one that spans
//!    blocks: of it the list says [`Where::Ask`]. All versions of any other key lie in the block in which the
//!    first one does. What of them a reader sees, [`Get`](crate::Get) finds out in the block; the limits of a part and range tombstones are
//!    asked as ever.
//! 4. *One order.* Keys are compared bytewise, as entries are ordered in every table, those of families that descend
//!    included: a direction is the cursor's.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use thermocline_base::Result;
use thermocline_base::numbers::{len_of, len32};

use crate::cursor::{Cursor, Move};
use crate::get::Step;
use crate::handle::{BlockHandle, BlockKind};
use crate::sync::BlockSource;
use crate::table::{Table, TablePart};

/// Where in a table the versions of a key are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// Nowhere: nothing in the table, no range tombstone either, says anything of the key.
    Not,
    /// All of them in this data block.
    Block(BlockHandle),
    /// That is not known. Filter and index are to be asked.
    Ask,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq)]
pub struct TableKeys {
    /// All user keys, one behind the other: each once, ascending.
    bytes: Vec<u8>,
    /// Where each of them ends there.
    ends: Vec<u32>,
    /// The data blocks, each with the number of the first key that begins in it or behind it.
    blocks: Vec<(u32, BlockHandle)>,
    /// The numbers of the keys whose versions lie in more than one block, ascending.
    spans: Vec<u32>,
    has_tombstones: bool,
}

impl fmt::Debug for TableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableKeys")
            .field("keys", &self.ends.len())
            .field("blocks", &self.blocks.len())
            .field("has_tombstones", &self.has_tombstones)
            .finish_non_exhaustive()
    }
}

impl TableKeys {
    /// Those of `table`, whose blocks are all read. `None` if they take more than `most` bytes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(
        source: &dyn BlockSource,
        table: &Arc<Table>,
        most: u64,
    ) -> Result<Option<TableKeys>> {
        let mut keys = KeysBuilder::new(most);
        let mut cursor = Cursor::new(TablePart::whole(table.clone()));
        let mut step = cursor.start(Move::First)?;
        // The data block whose entries come now.
        let mut at: Option<BlockHandle> = None;
        loop {
            step = match step {
                Step::Need(handle) => {
                    if handle.kind == BlockKind::Data
                        && let Some(before) = at.replace(handle)
                    {
                        keys.end_block(before);
                    }
                    cursor.supply(source.block(table, handle)?)?
                }
                Step::Done(true) => {
                    if !keys.add(cursor.key().user_key) {
                        return Ok(None);
                    }
                    cursor.start(Move::Next)?
                }
                Step::Done(false) => break,
            };
        }
        if let Some(last) = at {
            keys.end_block(last);
        }
        let has_tombstones = table.range_tombstones().len() > 0;
        Ok(Some(keys.finish(has_tombstones)))
    }

    /// Bytes of memory that they take.
    pub fn charge(&self) -> u64 {
        let numbers = self.ends.capacity() + self.spans.capacity();
        let blocks = self.blocks.capacity() * size_of::<(u32, BlockHandle)>();
        let bytes = self.bytes.capacity() + numbers * size_of::<u32>() + blocks;
        (size_of::<TableKeys>() + bytes) as u64
    }

    /// Where the versions of `user_key` are.
    pub fn find(&self, user_key: &[u8]) -> Where {
        let (mut low, mut high) = (0_usize, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.key(middle).cmp(user_key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return self.block_of(len32(middle)),
            }
        }
        match self.has_tombstones {
            true => Where::Ask,
            false => Where::Not,
        }
    }

    /// A key, by its number.
    fn key(&self, n: usize) -> &[u8] {
        let begin = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[len_of(begin)..len_of(self.ends[n])]
    }

    fn block_of(&self, n: u32) -> Where {
        if self.spans.binary_search(&n).is_ok() {
            return Where::Ask;
        }
        // Of blocks with the same number all but the last have no key that begins in them.
        let behind = self.blocks.partition_point(|(first, _)| *first <= n);
        let at = behind.checked_sub(1).map(|at| self.blocks[at].1);
        at.map_or(Where::Ask, Where::Block)
    }
}

/// Makes the list of keys of a table, entry by entry and block by block.
#[derive(Debug)]
pub(crate) struct KeysBuilder {
    keys: TableKeys,
    /// Most bytes that they may take.
    most: u64,
    /// The number of the first key that begins in the block at hand or behind it.
    first: u32,
    /// Whether the block at hand has no entry yet.
    is_block_new: bool,
}

impl KeysBuilder {
    /// Of no keys yet, for at most so many bytes.
    pub fn new(most: u64) -> KeysBuilder {
        KeysBuilder {
            keys: TableKeys {
                bytes: Vec::new(),
                ends: Vec::new(),
                blocks: Vec::new(),
                spans: Vec::new(),
                has_tombstones: false,
            },
            most,
            first: 0,
            is_block_new: true,
        }
    }

    /// The next entry of the block at hand is of this key. False if there is no room for it: nothing can follow then.
    pub fn add(&mut self, user_key: &[u8]) -> bool {
        let is_block_new = std::mem::replace(&mut self.is_block_new, false);
        let keys = &mut self.keys;
        let last = keys.ends.len().checked_sub(1);
        if let Some(last) = last.filter(|last| keys.key(*last) == user_key) {
            let last = len32(last);
            if is_block_new && keys.spans.last() != Some(&last) {
                keys.spans.push(last);
            }
            return true;
        }
        let Ok(end) = u32::try_from(keys.bytes.len() + user_key.len()) else {
            return false;
        };
        keys.bytes.extend_from_slice(user_key);
        keys.ends.push(end);
        keys.charge() <= self.most
    }

    /// The block at hand has ended, and lies there.
    pub fn end_block(&mut self, handle: BlockHandle) {
        self.keys.blocks.push((self.first, handle));
        self.first = len32(self.keys.ends.len());
        self.is_block_new = true;
    }

    /// Bytes of memory that they take now.
    pub fn memory(&self) -> usize {
        usize::try_from(self.keys.charge()).unwrap_or(usize::MAX)
    }

    /// All keys of the table.
    pub fn finish(self, has_tombstones: bool) -> TableKeys {
        let mut keys = self.keys;
        keys.bytes.shrink_to_fit();
        keys.ends.shrink_to_fit();
        keys.blocks.shrink_to_fit();
        keys.spans.shrink_to_fit();
        keys.has_tombstones = has_tombstones;
        keys
    }
}
