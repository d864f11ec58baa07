//! Moving over the entries of a table, both ways: a state machine that asks for blocks.

use std::sync::Arc;

use thermocline_base::planted::{self, Bug};
use thermocline_base::{Error, Kind, Result, SeqNo};

use crate::block::Block;
use crate::block::cursor::BlockCursor;
use crate::format::coding::damaged;
use crate::get::{Step, check_entered, check_supplied};
use crate::handle::{BlockHandle, BlockKind};
use crate::key::{InternalKey, KeyRef};
use crate::root::RootCursor;
use crate::table::TablePart;
use crate::value::{Found, Value};

/// A move of a [`Cursor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move<'a> {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// To the first entry not below this key.
    Seek(KeyRef<'a>),
    /// To the last entry not above this key.
    SeekForPrev(KeyRef<'a>),
    /// To the next entry; from no entry, to none.
    Next,
    /// To the entry before; from no entry, to none.
    Prev,
}

/// Where in a block to go that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Enter {
    First,
    Last,
    /// The first entry not below the target.
    Seek,
    /// The last entry not above the target.
    SeekForPrev,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

/// A place in a part of a table: at an entry (put, delete or merge; range tombstones are the
/// [`TablePart`]'s), or at none.
///
/// [`Cursor::start`] begins a move; while it needs a block, [`Cursor::supply`] goes on with it. A move
/// to a place gives up one that is not done. After a step ([`Move::Next`], [`Move::Prev`]) that is not
/// done, because a block could not be read or was refused, the same step again goes on with it, so that
/// a scan that is tried again loses nothing; every other step from there is an error.
#[derive(Debug)]
pub struct Cursor {
    part: TablePart,
    root: RootCursor,
    /// In the index block of level 0, where the root has level 1.
    leaf: Option<BlockCursor>,
    data: Option<BlockCursor>,
    /// What is sought; or what a step from one block to the next has left behind.
    target: InternalKey,
    /// The block that was asked for, and what to do in it.
    waits_for: Option<(BlockHandle, Enter)>,
    /// Of the move that asked for it, if it was a step.
    way: Option<Way>,
    /// On which side of the target everything lies that the move still comes to, where the target's own block has nothing.
    beyond: Option<Way>,
    is_at_entry: bool,
}

impl Cursor {
    /// At no entry.
    pub fn new(part: TablePart) -> Cursor {
        Cursor {
            root: part.table().root.cursor(),
            part,
            leaf: None,
            data: None,
            target: InternalKey::default(),
            waits_for: None,
            way: None,
            beyond: None,
            is_at_entry: false,
        }
    }

    /// The part that it moves over.
    pub fn part(&self) -> &TablePart {
        &self.part
    }

    /// Whether it is at an entry.
    pub fn is_at_entry(&self) -> bool {
        self.is_at_entry
    }

    fn entry(&self) -> &BlockCursor {
        let data = self.data.as_ref().filter(|_| self.is_at_entry);
        data.expect("the cursor is at an entry")
    }

    /// The key of the entry.
    ///
    /// # Panics
    /// If it is at none.
    pub fn key(&self) -> KeyRef<'_> {
        self.entry().key()
    }

    /// What the entry says.
    ///
    /// # Panics
    /// If it is at none.
    pub fn value(&self) -> (Kind, Value<'_>) {
        self.entry().value()
    }

    /// What the entry says, with its value kept in memory.
    ///
    /// # Panics
    /// If it is at none.
    pub fn found(&self) -> Found {
        self.entry().found()
    }

    /// Shows the entries of its block that lie behind its own, or before it with `back`, in the order in which a cursor comes to them, for
    /// as long as `goes_on` says so. It moves nowhere.
    ///
    /// # Panics
    /// If it is at none.
    pub fn look_ahead(
        &self,
        back: bool,
        mut goes_on: impl FnMut(KeyRef<'_>, Kind, Value<'_>) -> bool,
    ) {
        let mut beside = self.entry().clone();
        while match back {
            false => beside.next(),
            true => beside.prev(),
        } {
            let (kind, value) = beside.value();
            let is_own = self.part.limits().hold(beside.key().user_key);
            if !is_own || !goes_on(beside.key(), kind, value) {
                return;
            }
        }
    }

    /// Begins a move. Done with `true`: it is at an entry.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a step after a move that is not done, if it is not the same step.
    /// It is at no entry then, and stays so until a move to a place.
    pub fn start(&mut self, to: Move<'_>) -> Result<Step<bool>> {
        let way = match to {
            Move::Next => Some(Way::Forward),
            Move::Prev => Some(Way::Back),
            _ => None,
        };
        if let (Some(way), Some((handle, enter))) = (way, self.waits_for) {
            return match self.way == Some(way) {
                true => Ok(self.ask(handle, enter)),
                false => Err(not_done(self.part.table().name())),
            };
        }
        let was_at_entry = std::mem::replace(&mut self.is_at_entry, false);
        self.waits_for = None;
        self.way = way;
        self.beyond = way;
        match to {
            Move::First => match self.part.limits().lower().map(<[u8]>::to_vec) {
                Some(lower) => Ok(self.seek(KeyRef::new(&lower, SeqNo::MAX))),
                None => Ok(self.enter_first_or_last(Enter::First)),
            },
            Move::Last => match self.part.limits().upper().map(<[u8]>::to_vec) {
                Some(upper) => Ok(self.seek_for_prev(KeyRef::new(&upper, SeqNo::MAX))),
                None => Ok(self.enter_first_or_last(Enter::Last)),
            },
            Move::Seek(key) if self.part.limits().is_below(key.user_key) => self.start(Move::First),
            Move::Seek(key) => Ok(self.seek(key)),
            Move::SeekForPrev(key) if self.part.limits().is_behind(key.user_key) => {
                self.start(Move::Last)
            }
            Move::SeekForPrev(key) => Ok(self.seek_for_prev(key)),
            Move::Next | Move::Prev if !was_at_entry => Ok(Step::Done(false)),
            Move::Next => Ok(self.step(Way::Forward)),
            Move::Prev => Ok(self.step(Way::Back)),
        }
    }

    fn enter_first_or_last(&mut self, enter: Enter) -> Step<bool> {
        let there = match enter {
            Enter::First => self.root.first(),
            _ => self.root.last(),
        };
        self.descend(there, enter)
    }

    fn set_target(&mut self, key: KeyRef<'_>) {
        self.target.user_key.clear();
        self.target.user_key.extend_from_slice(key.user_key);
        self.target.seqno = key.seqno;
    }

    fn seek(&mut self, key: KeyRef<'_>) -> Step<bool> {
        self.set_target(key);
        let there = self.root.seek(key);
        self.descend(there, Enter::Seek)
    }

    fn seek_for_prev(&mut self, key: KeyRef<'_>) -> Step<bool> {
        self.set_target(key);
        if self.root.seek(key) {
            return self.descend(true, Enter::SeekForPrev);
        }
        // The last block lies wholly below the target.
        self.beyond = Some(Way::Back);
        self.enter_first_or_last(Enter::Last)
    }

    /// Asks for the block that the root points to, if it points to one.
    fn descend(&mut self, there: bool, enter: Enter) -> Step<bool> {
        match there {
            true => self.ask(self.root.handle(), enter),
            false => Step::Done(false),
        }
    }

    fn ask(&mut self, handle: BlockHandle, enter: Enter) -> Step<bool> {
        self.waits_for = Some((handle, enter));
        Step::Need(handle)
    }

    /// Goes on with the block that was asked for.
    ///
    /// # Errors
    /// [`Error::Corruption`] if blocks contradict each other, or it is another block. The block is still asked for then.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn supply(&mut self, block: Arc<Block>) -> Result<Step<bool>> {
        let asked = self.waits_for.take();
        let answer = self.enter(asked.expect("a block was asked for"), block);
        if answer.is_err() {
            self.waits_for = asked;
        }
        answer
    }

    fn enter(
        &mut self,
        (handle, enter): (BlockHandle, Enter),
        block: Arc<Block>,
    ) -> Result<Step<bool>> {
        check_supplied(&self.part, handle, &block)?;
        if handle.kind == BlockKind::Index {
            return self.enter_leaf(block, handle, enter);
        }
        let target = self.target.as_ref();
        let data = enter_block(&mut self.data, block);
        let sought = matches!(enter, Enter::Seek | Enter::SeekForPrev);
        // Asked only where the answer counts: of a learned index, if the block ends below the target.
        if sought && self.root.goes_on(target.user_key) && !data.seek(target) {
            return Ok(self.enter_beside(Way::Forward, enter));
        }
        let there = match enter {
            Enter::First => data.first(),
            Enter::Last => data.last(),
            Enter::Seek => data.seek(target),
            Enter::SeekForPrev => data.seek_for_prev(target),
        };
        // Each block is in order. So is what moves come to, if each block lies where the one before says: without that, who goes
        // to and fro in blocks that contradict each other would never come to an end.
        let follows = match self.beyond.filter(|_| there) {
            Some(Way::Forward) => target < data.key(),
            Some(Way::Back) => data.key() < target,
            None => true,
        };
        if !follows {
            let what = "keys of a data block";
            let e = damaged(what, 0, "in the order of blocks", "others");
            return Err(e.into_error(self.part.table().name(), handle.offset));
        }
        Ok(match (there, enter) {
            (true, _) => self.settle(),
            // The target lies between this block's last entry and its separator.
            (false, Enter::Seek) => self.next_block(Way::Forward),
            // It lies between the separator before and this block's first entry.
            (false, _) => self.next_block(Way::Back),
        })
    }

    fn enter_leaf(
        &mut self,
        block: Arc<Block>,
        handle: BlockHandle,
        enter: Enter,
    ) -> Result<Step<bool>> {
        let target = self.target.as_ref();
        let leaf = enter_block(&mut self.leaf, block);
        let there = match enter {
            Enter::First => leaf.first(),
            Enter::Last => leaf.last(),
            Enter::Seek | Enter::SeekForPrev => leaf.seek(target),
        };
        check_entered(&self.part, handle, there)?;
        let data = leaf.handle();
        Ok(self.ask(data, enter))
    }

    /// To the entry beside the one that it was at.
    fn step(&mut self, way: Way) -> Step<bool> {
        let data = self.data.as_mut().expect("it was at an entry");
        let there = match way {
            Way::Forward => data.next(),
            Way::Back => data.prev(),
        };
        if there {
            return self.settle();
        }
        // The entry that it leaves: what the next block has lies on the other side of it.
        let left = data.key();
        self.target.user_key.clear();
        self.target.user_key.extend_from_slice(left.user_key);
        self.target.seqno = left.seqno;
        self.next_block(way)
    }

    /// To the first entry of the next block, or the last of the one before.
    fn next_block(&mut self, way: Way) -> Step<bool> {
        self.beyond = Some(way);
        let enter = match way {
            Way::Forward => Enter::First,
            Way::Back => Enter::Last,
        };
        self.enter_beside(way, enter)
    }

    fn enter_beside(&mut self, way: Way, enter: Enter) -> Step<bool> {
        let root = &mut self.root;
        if root.level() > 0
            && let Some(leaf) = &mut self.leaf
            && match way {
                Way::Forward => leaf.next(),
                Way::Back => leaf.prev(),
            }
        {
            let handle = leaf.handle();
            return self.ask(handle, enter);
        }
        let there = match way {
            Way::Forward => root.next(),
            Way::Back => root.prev(),
        };
        match there {
            true => self.ask(self.root.handle(), enter),
            false => Step::Done(false),
        }
    }

    /// At an entry of the table: is it one of the part?
    fn settle(&mut self) -> Step<bool> {
        let key = self
            .data
            .as_ref()
            .expect("it is at an entry")
            .key()
            .user_key;
        self.is_at_entry =
            self.part.limits().hold(key) || planted::active(Bug::PartLeaksBehindLimit);
        Step::Done(self.is_at_entry)
    }
}

fn not_done(name: &str) -> Error {
    Error::InvalidArgument(format!(
        "the cursor over {name} is within a move that failed or was given up: the same step again goes \
         on with it, a seek begins anew"
    ))
}

fn enter_block(cursor: &mut Option<BlockCursor>, block: Arc<Block>) -> &mut BlockCursor {
    match cursor {
        Some(cursor) => {
            cursor.reset(block);
            cursor
        }
        None => cursor.insert(BlockCursor::new(block)),
    }
}
