//! Where a cursor is while it does not move: see `holds`.

use std::fmt;
use std::mem::take;
use std::ops::Bound;

use thermocline_base::Result;
use thermocline_base::planted::{Bug, active};
use thermocline_catalog::View;
use thermocline_memtable::Direction;
use thermocline_observe::latency::Latencies;

use super::walk::{Copied, Walk};
use crate::awaited::Elsewhere;
use crate::families::table::Family;
use crate::holds::registry::{Guest, Hold, HoldId, Left, Lent};
use crate::report::ReaderKind;
use crate::store::Moment;
use crate::sync::{Arc, Mutex, lock, try_lock};

/// A position in one column family, at one moment of the store.
#[derive(Debug)]
pub struct Cursor {
    moment: Moment,
    family: Family,
    seat: Arc<Seat>,
    hold: HoldId,
    valid: bool,
    copied: Copied,
}

/// Bytes of two cache lines: processors fetch lines in pairs.
const LINES: usize = 128;

/// The walk, on cache lines that it shares with nothing: its lock is taken and released in each step, mostly by one thread. It lies
/// between unused bytes, and not at a multiple of a line: an allocator that is asked for such a place takes much longer, and many
/// scans have a cursor of their own.
#[repr(C)]
struct Seat {
    _before: [u8; LINES],
    walk: Mutex<Walk>,
    _behind: [u8; LINES],
}

impl Seat {
    fn new(walk: Walk) -> Arc<Seat> {
        Arc::new(Seat {
            _before: [0; LINES],
            walk: Mutex::new(walk),
            _behind: [0; LINES],
        })
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seat").field(&self.walk).finish()
    }
}

impl Guest for Seat {
    fn leave(&self, is_past: &dyn Fn(&View) -> bool) -> Option<Left> {
        if active(Bug::IdleKeepsView) {
            return None;
        }
        let mut walk = try_lock(&self.walk)?;
        let view = walk.at.view.take_if(is_past)?;
        let (sources, runs) = (take(&mut walk.sources), take(&mut walk.runs));
        let tables = walk.tables.take();
        Some(Box::new((view, sources, runs, tables)))
    }

    fn lent(&self) -> Lent {
        match try_lock(&self.walk) {
            None => Lent::InUse,
            Some(walk) => walk.at.view.view.clone().map_or(Lent::No, Lent::Yes),
        }
    }
}

impl Cursor {
    pub(crate) fn new(moment: Moment, family: Family) -> Cursor {
        Cursor::entered(moment, family, false)
    }

    /// One of which users are not told.
    pub(crate) fn of_engine(moment: Moment, family: Family) -> Cursor {
        Cursor::entered(moment, family, true)
    }

    fn entered(moment: Moment, family: Family, of_engine: bool) -> Cursor {
        let walk = Walk::new(moment.clone(), family);
        let seat = Seat::new(walk);
        let hold = moment.inner().reads.holds.enter(Hold {
            guest: Some(seat.clone()),
            of_engine,
            ..moment.hold(ReaderKind::Cursor)
        });
        Cursor {
            moment,
            family,
            seat,
            hold,
            valid: false,
            copied: Copied::default(),
        }
    }

    /// Moves the cursor. It keeps its view and its place during the call.
    #[inline]
    fn moved(&mut self, go: impl FnOnce(&mut Walk, &mut Copied) -> Result<bool>) -> Result<bool> {
        let mut walk = lock(&self.seat.walk);
        let moved = go(&mut walk, &mut self.copied);
        self.valid = walk.valid;
        moved
    }

    /// Goes to the first key at or after `key`. Returns whether there is one.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] naming region and offset; the cursor is then at no
    /// key. This holds for all moves.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_within(Bound::Included(key), Bound::Unbounded, Direction::Forward)
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_within(Bound::Included(key), Bound::Unbounded, Direction::Reverse)
    }

    /// Goes to the first key behind `key`, or before it for the reverse direction.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_past(&mut self, key: &[u8], direction: Direction) -> Result<bool> {
        self.seek_within(Bound::Excluded(key), Bound::Unbounded, direction)
    }

    /// Goes to the first key from `from` on in this direction of the family's order, unless that lies behind `until`: then it
    /// is at no key. Of what lies behind `until` no value is read, no deleted key is stepped over, and no key that is too new is
    /// passed.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_within(
        &mut self,
        from: Bound<&[u8]>,
        until: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<bool> {
        self.moved(|walk, copied| walk.seek(copied, from, until, direction))
    }

    /// Goes to the next key in this direction, unless that lies behind `until`, as [`Cursor::seek_within`] does. Each step may have
    /// another bound.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn step_within(&mut self, until: Bound<&[u8]>, direction: Direction) -> Result<bool> {
        self.moved(|walk, copied| walk.step(copied, walk.way(direction), until))
    }

    /// Goes to the first key of all.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.seek_within(Bound::Unbounded, Bound::Unbounded, Direction::Forward)
    }

    /// Goes to the last key of all.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.seek_within(Bound::Unbounded, Bound::Unbounded, Direction::Reverse)
    }

    /// Goes to the next key. Returns `false`, and is at no key, if there is none or if it was at no key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends its key and value"
    )]
    pub fn next(&mut self) -> Result<bool> {
        self.step_within(Bound::Unbounded, Direction::Forward)
    }

    /// Goes to the previous key. Returns `false`, and is at no key, if there is none or if it was at no key.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn prev(&mut self) -> Result<bool> {
        self.step_within(Bound::Unbounded, Direction::Reverse)
    }

    /// Steps over deleted keys from `key` on, at most so many, and notes what it has passed (`explore`). Returns how many they were.
    pub(crate) fn explore(&mut self, key: &[u8], direction: Direction, most: u64) -> Result<u64> {
        if most == 0 {
            return Ok(0);
        }
        self.moved(|walk, copied| walk.explore(copied, key, direction, most))?;
        Ok(lock(&self.seat.walk).passed.stepped())
    }

    /// From now on it reads no values, and folds no operands: [`Cursor::value`] is empty. An entry is there all the same if its
    /// value could not be read, or its operands not be merged.
    #[must_use = "it is the cursor"]
    pub fn keys_only(mut self) -> Cursor {
        lock(&self.seat.walk).keys_only = true;
        self.copied.value.clear();
        self
    }

    /// Another one, which reads values if this one does.
    fn in_my_way(&self, other: Cursor) -> Cursor {
        let keys_only = lock(&self.seat.walk).keys_only;
        match keys_only {
            true => other.keys_only(),
            false => other,
        }
    }

    /// Whether it is at a key.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key it is at; empty if at none.
    pub fn key(&self) -> &[u8] {
        if self.valid { &self.copied.key } else { &[] }
    }

    /// The value of that key.
    pub fn value(&self) -> &[u8] {
        if self.valid { &self.copied.value } else { &[] }
    }

    /// Takes the value of that key, for who keeps it: it is not copied once more. It is empty here from then on, until the cursor moves.
    pub fn take_value(&mut self) -> Vec<u8> {
        match self.valid {
            true => take(&mut self.copied.value),
            false => Vec::new(),
        }
    }

    /// Moves to what is visible now, at no key.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] if the family has been dropped,
    /// [`thermocline_base::Error::Closed`] if the store was closed; the cursor stays where it is then.
    pub fn refresh(&mut self) -> Result<()> {
        let now = Moment::now(self.moment.inner());
        now.check(self.family.id)?;
        // A closed store has no view for a new moment.
        now.view(self.family.id)?;
        *self = self.in_my_way(Cursor::new(now, self.family));
        Ok(())
    }

    /// Where the times of operations go.
    #[inline]
    pub fn latencies(&self) -> &Latencies {
        &self.moment.inner().common.latencies
    }

    /// Threads on which it may move while nobody waits.
    pub fn elsewhere(&self) -> Elsewhere {
        Elsewhere::new(&self.moment.inner().common.catalog.table_files)
    }

    /// Another cursor over the same family at the same moment, not yet at any key.
    pub fn sibling(&self) -> Cursor {
        self.in_my_way(Cursor::new(self.moment.clone(), self.family))
    }

    /// Whether the keys of its family descend.
    pub fn is_reverse(&self) -> bool {
        self.family.reverse
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.moment.inner().reads.holds.remove(self.hold);
    }
}
