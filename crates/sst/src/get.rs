//! Looking one key up: a state machine that asks for blocks.

use std::borrow::Borrow;
use std::sync::Arc;

use thermocline_base::{Kind, Result, SeqNo};

use crate::block::cursor::BlockCursor;
use crate::block::{Block, Place};
use crate::handle::{BlockHandle, BlockKind};
use crate::key::KeyRef;
use crate::root::RootCursor;
use crate::table::TablePart;
use crate::value::{Found, FoundValue};

/// What a reader needs or has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// The block that lies there; its bytes go through [`crate::Table::decode`].
    Need(BlockHandle),
    /// The answer.
    Done(T),
}

/// A lookup of one key. It reads at most one index block of level 0 and one data block, and nothing
/// where the filter knows that the key is not there. Through a learned index it reads further data blocks
/// where versions of the key, or of keys with the same code, begin in the first of several. It borrows the part of the
/// table, or owns it.
#[derive(Debug)]
pub struct Get<'a, P = &'a TablePart> {
    part: P,
    key: KeyRef<'a>,
    waits_for: Option<BlockHandle>,
    /// Where the index led to.
    root: Option<RootCursor>,
}

impl<'a, P: Borrow<TablePart>> Get<'a, P> {
    /// The newest that `part` says about `user_key` at or below `seqno`.
    pub fn new(part: P, user_key: &'a [u8], seqno: SeqNo) -> Get<'a, P> {
        // Nothing has the greatest seqno, and as a target it would be asked of range tombstones.
        let seqno = seqno.min(SeqNo(u64::MAX - 1));
        Get {
            part,
            key: KeyRef::new(user_key, seqno),
            waits_for: None,
            root: None,
        }
    }

    /// Begins.
    pub fn start(&mut self) -> Step<Option<Found>> {
        let part = self.part.borrow();
        let user_key = self.key.user_key;
        let may_contain = part.limits().hold(user_key) && part.table().may_contain(user_key);
        self.start_asked(may_contain)
    }

    /// Begins behind the filter, which was asked before: `may_contain` is what [`crate::Table::may_contain`] says of the key.
    pub fn start_asked(&mut self, may_contain: bool) -> Step<Option<Found>> {
        let part = self.part.borrow();
        if !may_contain || !part.limits().hold(self.key.user_key) {
            return Step::Done(self.with_tombstones(None));
        }
        let root = self.root.insert(part.table().root.cursor());
        match root.seek(self.key) {
            true => {
                let handle = root.handle();
                self.ask(handle)
            }
            // All entries lie below the key.
            false => Step::Done(self.with_tombstones(None)),
        }
    }

    /// Begins at a data block in which all versions of the key are, past filter and index
    /// ([`crate::TableKeys`]).
    pub fn start_in(&mut self, handle: BlockHandle) -> Step<Option<Found>> {
        // Without a place in the index, nothing is looked for behind the block.
        match self.part.borrow().limits().hold(self.key.user_key) {
            true => self.ask(handle),
            false => Step::Done(self.with_tombstones(None)),
        }
    }

    /// Goes on with the block that was asked for.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] if the blocks contradict each other, or it is another
    /// block.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn supply(&mut self, block: Arc<Block>) -> Result<Step<Option<Found>>> {
        let handle = self.waits_for.take().expect("a block was asked for");
        let part = self.part.borrow();
        check_supplied(part, handle, &block)?;
        match handle.kind {
            BlockKind::Index => {
                let mut leaf = BlockCursor::new(block);
                let there = leaf.seek(self.key);
                check_entered(part, handle, there)?;
                Ok(self.ask(leaf.handle()))
            }
            _ => {
                let mut cursor = BlockCursor::new(block);
                if !cursor.seek(self.key) {
                    return Ok(self.behind());
                }
                let there = cursor.key().user_key == self.key.user_key;
                let found = there.then(|| cursor.found());
                Ok(Step::Done(self.with_tombstones(found)))
            }
        }
    }

    /// The block ends below the key: the next one, if that can have it.
    fn behind(&mut self) -> Step<Option<Found>> {
        let next = self.root.as_mut().and_then(|root| {
            let there = root.goes_on(self.key.user_key) && root.next();
            there.then(|| root.handle())
        });
        match next {
            Some(handle) => self.ask(handle),
            None => Step::Done(self.with_tombstones(None)),
        }
    }

    fn ask(&mut self, handle: BlockHandle) -> Step<Option<Found>> {
        self.waits_for = Some(handle);
        Step::Need(handle)
    }

    /// What was found, or the range tombstone that is newer.
    fn with_tombstones(&self, found: Option<Found>) -> Option<Found> {
        let covering = self
            .part
            .borrow()
            .covering(self.key.user_key, self.key.seqno);
        let covered = covering.map(|t| t.seqno);
        let seqno = covered.filter(|s| found.as_ref().is_none_or(|f| f.seqno < *s));
        match seqno {
            Some(seqno) => Some(Found {
                seqno,
                kind: Kind::RangeDelete,
                value: FoundValue::None,
            }),
            None => found,
        }
    }
}

/// The block is the one that was asked for. Below the root there is one level of index blocks, not more.
pub(crate) fn check_supplied(part: &TablePart, handle: BlockHandle, block: &Block) -> Result<()> {
    let table = part.table();
    let wrong = |what: &str, at, expected: String, got: String| {
        let e = crate::format::coding::damaged(what, at, expected, got);
        Err(e.into_error(table.name(), handle.offset))
    };
    let asked = Place {
        seed: table.seed,
        offset: handle.offset,
    };
    let (have, kind) = (block.place(), block.kind());
    if have != asked || kind != handle.kind {
        let shown = |Place { seed, offset }, kind| format!("{kind} of {seed:016x} at {offset}");
        let what = "block that was asked for";
        return wrong(what, 0, shown(asked, handle.kind), shown(have, kind));
    }
    if kind == BlockKind::Index && (block.level() != 0 || block.is_empty()) {
        let got = block.level().to_string();
        return wrong("level of an index block", 1, "0, with entries".into(), got);
    }
    Ok(())
}

/// An index block below the root ends with the key that the root has above it, so whatever leads to it
/// finds an entry there. To say that the key is absent would let an older level answer.
pub(crate) fn check_entered(part: &TablePart, handle: BlockHandle, there: bool) -> Result<()> {
    if there {
        return Ok(());
    }
    let what = "last key of an index block";
    let e = crate::format::coding::damaged(what, 0, "the key above it", "less");
    Err(e.into_error(part.table().name(), handle.offset))
}

#[cfg(test)]
mod tests;
