//! The root of a table's index, of either kind: the one place that knows them apart.
//!
//! A search in the binary index leads to the only block that can have a key. One in a learned index leads
//! to the first block that can, and [`RootCursor::goes_on`] says whether the next one can have it, too,
//! when that one ends below what is sought.

use std::sync::Arc;

use thermocline_base::planted::{self, Bug};

use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::format::INDEX_LEARNED;
use crate::format::coding::Unreadable;
use crate::handle::BlockHandle;
use crate::key::KeyRef;
use crate::learned::{self, Learned};

/// The root of an index, checked.
#[derive(Debug)]
pub(crate) enum Root {
    /// A block with entries: of data blocks, or of index blocks below it.
    Binary(Arc<Block>),
    /// All of an index.
    Learned(Arc<Learned>),
}

impl Root {
    /// Reads the payload of the root of a table whose data and lower index blocks end at `data_end`.
    pub fn decode(payload: Vec<u8>, data_end: u64) -> Result<Root, Unreadable> {
        match payload.first() {
            Some(&INDEX_LEARNED) => {
                let learned = learned::decode(&payload, data_end)?;
                Ok(Root::Learned(Arc::new(learned)))
            }
            _ => Ok(Root::Binary(Arc::new(Block::index(payload, data_end)?))),
        }
    }

    /// Whether it points to nothing: only that of an empty table does not.
    pub fn is_empty(&self) -> bool {
        match self {
            Root::Binary(block) => block.is_empty(),
            Root::Learned(_) => false,
        }
    }

    /// Bytes of memory that it takes.
    pub fn charge(&self) -> usize {
        match self {
            Root::Binary(block) => block.charge(),
            Root::Learned(learned) => learned.charge(),
        }
    }

    /// At no entry.
    pub fn cursor(&self) -> RootCursor {
        match self {
            Root::Binary(block) => RootCursor::Binary(BlockCursor::new(Arc::clone(block))),
            Root::Learned(learned) => RootCursor::Learned(LearnedCursor {
                learned: Arc::clone(learned),
                at: None,
            }),
        }
    }
}

/// A place in the root of an index: at an entry, or at none.
#[derive(Debug)]
pub(crate) enum RootCursor {
    Binary(BlockCursor),
    Learned(LearnedCursor),
}

/// At a data block, or at none.
#[derive(Debug)]
pub(crate) struct LearnedCursor {
    learned: Arc<Learned>,
    at: Option<u32>,
}

impl LearnedCursor {
    fn to(&mut self, at: Option<u32>) -> bool {
        self.at = at.filter(|n| *n < self.learned.blocks());
        self.at.is_some()
    }
}

impl RootCursor {
    /// To the first entry; false if there is none, here and below.
    pub fn first(&mut self) -> bool {
        match self {
            RootCursor::Binary(cursor) => cursor.first(),
            RootCursor::Learned(cursor) => cursor.to(Some(0)),
        }
    }

    /// To the last entry.
    pub fn last(&mut self) -> bool {
        match self {
            RootCursor::Binary(cursor) => cursor.last(),
            RootCursor::Learned(cursor) => cursor.to(cursor.learned.blocks().checked_sub(1)),
        }
    }

    /// To the next entry; from none, to none.
    pub fn next(&mut self) -> bool {
        match self {
            RootCursor::Binary(cursor) => cursor.next(),
            RootCursor::Learned(cursor) => cursor.to(cursor.at.and_then(|n| n.checked_add(1))),
        }
    }

    /// To the entry before; from none, to none.
    pub fn prev(&mut self) -> bool {
        match self {
            RootCursor::Binary(cursor) => cursor.prev(),
            RootCursor::Learned(cursor) => cursor.to(cursor.at.and_then(|n| n.checked_sub(1))),
        }
    }

    /// To the entry from which on `target` is to be looked for: all entries of the table that lie before its
    /// block are below `target`. False if all of the table are.
    pub fn seek(&mut self, target: KeyRef<'_>) -> bool {
        match self {
            RootCursor::Binary(cursor) => cursor.seek(target),
            RootCursor::Learned(cursor) => {
                let block = cursor.learned.block_of(target.user_key);
                cursor.to(Some(block))
            }
        }
    }

    /// Whether the next block may have entries of `user_key`, if the one that it is at ends below what is
    /// sought of it. If not, all entries of the next block are of greater keys.
    pub fn goes_on(&self, user_key: &[u8]) -> bool {
        match self {
            RootCursor::Binary(_) => false,
            RootCursor::Learned(LearnedCursor { learned, at }) => {
                let goes_on = at.is_some_and(|n| learned.goes_on(n + 1, user_key));
                goes_on && !planted::active(Bug::LearnedRunForgotten)
            }
        }
    }

    /// The block that the entry points to.
    ///
    /// # Panics
    /// If it is at none.
    pub fn handle(&self) -> BlockHandle {
        match self {
            RootCursor::Binary(cursor) => cursor.handle(),
            RootCursor::Learned(LearnedCursor { learned, at }) => {
                learned.handle(at.expect("the cursor is at an entry"))
            }
        }
    }

    /// 0 if it points to data blocks, 1 if to index blocks.
    pub fn level(&self) -> u8 {
        match self {
            RootCursor::Binary(cursor) => cursor.block().level(),
            RootCursor::Learned(_) => 0,
        }
    }
}
