//! Whether anybody still needs what a sealed memtable holds.
//!
//! A version of a key is *needed* while somebody may be answered with it. Let `s` be its seqno and `n`
//! that of the next newer version of the same key, in this memtable or a newer one. Whoever reads
//! at `n` or later gets the newer one, whoever reads before `s` an older one; so a version with a
//! settled `n` (visible, so that nobody will register below it, and durable, so that no crash takes
//! it back) is needed only by a registered reader in `s..n`. A newest version is needed always,
//! except for a tombstone in the oldest memtable: it hides nothing. What belongs to a column family
//! that was dropped is not needed at all.
//!
//! A range tombstone over the key is a version of it like others. It is needed as such while somebody may
//! be answered with it at any of its keys, unless it is in the oldest memtable. Whether there is anything
//! that it hides is not looked for.
//!
//! # Operands
//! An operand ([`Kind::Merge`]) hides nothing: who is answered with it needs what is below, too. So `n` is the seqno of the
//! next newer *base*, a version that is no operand: in this memtable or in the first newer one that has a base of the key.
//! Operands between `s` and `n` do not matter, wherever they are. An operand is needed like other versions, and one without a
//! newer base always: no operand in the oldest memtable is taken for nothing, as a tombstone is. A tombstone there
//! hides nothing for operands above it either, which find nothing below and have no value to be merged into.
//!
//! # Once not needed, never needed again
//! 1. Readers register at what is visible, which only rises: nobody comes into `s..n`.
//! 2. If the memtable of `n` goes, that is because `n` is not needed either: there is a base `m` that
//!    is newer still and settled, and no reader in `n..m`, hence none in `s..m`. (Or `n` is a tombstone in the oldest
//!    memtable: then `s` is in that one, too, and goes with it. A reader of an operand above would have stopped at `n`.)
//! 3. The oldest memtable stays the oldest, and a dropped family dropped.
//!
//! So a check may stop at the first key that is needed and go on there another time, and what two
//! checks at different times found may be put together.
//!
//! # In a merged index
//! A memtable of a merged index (`merge`) is checked by itself: of each key only its own versions, of which
//! the next newer one may lie in the same list. What the others have of the key says nothing about it.
//!
//! # What the index knows
//! Versions that nobody needed have been trimmed from the indexes, and range tombstones painted over, so that the next newer version
//! found may be newer than `n`. That errs on the safe side, and hardly ever at all: `n` was trimmed
//! because no reader was registered behind it, and none came since.

use std::ops::{Bound, ControlFlow};

use thermocline_art::{Direction, Entry, Leaf, Moments};
use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Kind, Result, SeqNo};

use crate::home::Records;
use crate::indexes::Index;
use crate::table::Memtable;
use crate::tombstones::Cover;

/// Where a check goes on: a family, and a bound in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    cf: CfId,
    from: Bound<Vec<u8>>,
}

impl Default for Position {
    /// Before the first key.
    fn default() -> Position {
        Position {
            cf: CfId(0),
            from: Bound::Unbounded,
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// Nothing that is needed, up to here.
    SoFar(Position),
    /// A key that is needed, here.
    Needed(Position),
    /// Nothing that is needed, up to the end.
    Nothing,
}

/// Who may read what.
#[derive(Clone, Copy)]
pub struct Readers<'a> {
    /// Everything up to this seqno is durable and visible. Loaded before `moments` were asked for.
    pub settled: SeqNo,
    /// The moments at which somebody may read.
    pub moments: &'a dyn Moments,
    /// Whether a key belongs to a family that exists.
    pub exists: &'a dyn Fn(CfId, &[u8]) -> bool,
}

impl Readers<'_> {
    /// Whether somebody may be answered with the version at `seqno` whose next newer one is at
    /// `next`.
    pub(crate) fn need(&self, seqno: SeqNo, next: SeqNo) -> bool {
        next > self.settled || self.moments.any_in(seqno, next)
    }
}

/// The memtables around the one that is checked.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours<'a> {
    /// The newer ones, oldest first.
    pub newer: &'a [&'a Memtable],
    /// Whether there is no older one.
    pub is_oldest: bool,
}

/// A check whether a sealed memtable is needed: it looks for a key of which somebody may read a version.
#[derive(Clone, Copy)]
pub struct NeededCheck<'a> {
    memtable: &'a Memtable,
    /// The memtable whose versions are looked at, where the index leads to several.
    only: Option<u64>,
    readers: Readers<'a>,
    around: Neighbours<'a>,
}

impl<'a> NeededCheck<'a> {
    /// Of this sealed memtable.
    pub fn new(
        memtable: &'a Memtable,
        readers: Readers<'a>,
        around: Neighbours<'a>,
    ) -> NeededCheck<'a> {
        NeededCheck {
            memtable,
            only: None,
            readers,
            around,
        }
    }

    /// Of the versions of memtable `id` alone, where the index is a merged one. It is the oldest if no
    /// older memtable is named, whether in this index or not.
    #[must_use]
    pub fn only(mut self, id: u64) -> NeededCheck<'a> {
        self.only = self.memtable.is_merged().then_some(id);
        self
    }

    /// Whether a leaf is one of the memtable that is looked at.
    fn is_of_it(&self, leaf: Leaf) -> Result<bool> {
        let Some(only) = self.only else {
            return Ok(true);
        };
        Ok(self.memtable.home_of(Records::at(leaf))?.id() == only)
    }

    /// Looks through up to `limit` keys, from `from` on.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] of a record that had to be read: nobody knows then
    /// whether it is needed.
    pub fn keys(&self, from: &Position, limit: usize) -> Result<Checked> {
        let NeededCheck {
            memtable,
            readers,
            around,
            ..
        } = *self;
        let mut left = limit;
        for (cf, index) in memtable.indexes_from(from.cf) {
            let bound = match &from.from {
                bound if cf == from.cf => bound.as_ref().map(Vec::as_slice),
                _ => Bound::Unbounded,
            };
            if bound == Bound::Unbounded && self.needs_tombstone(cf) {
                return Ok(Checked::Needed(Position {
                    cf,
                    from: Bound::Unbounded,
                }));
            }
            let mut stopped = None;
            let tree = &index.tree;
            let guard = tree.pin();
            tree.scan(
                &guard,
                bound,
                Direction::Forward,
                memtable.records(),
                |entry| {
                    let here = |from| Some(Position { cf, from });
                    let own_newest = self.is_of_it(entry.leaf())?;
                    if !own_newest && entry.list().is_none() && left > 1 {
                        left -= 1;
                        return Ok(ControlFlow::Continue(()));
                    }
                    let newest = memtable.leaf_record(entry.leaf())?;
                    let key = newest.key.to_vec();
                    let hides_nothing = around.is_oldest && newest.kind == Kind::Delete;
                    let needed = (readers.exists)(cf, &key)
                        && match index.has_operands() {
                            true => self.needs_any((cf, &key), index, entry, hides_nothing)?,
                            false => {
                                self.needs_past(entry)?
                                    || own_newest
                                        && !hides_nothing
                                        && self.needs(cf, &key, newest.seqno)?
                            }
                        };
                    left = left.saturating_sub(1);
                    if needed {
                        stopped = here(Bound::Included(key)).map(Checked::Needed);
                    } else if left == 0 {
                        stopped = here(Bound::Excluded(key)).map(Checked::SoFar);
                    }
                    Ok(match stopped {
                        None => ControlFlow::Continue(()),
                        Some(_) => ControlFlow::Break(()),
                    })
                },
            )?;
            if let Some(stopped) = stopped {
                return Ok(stopped);
            }
        }
        Ok(Checked::Nothing)
    }

    /// Whether a range tombstone of family `cf` is needed.
    fn needs_tombstone(&self, cf: CfId) -> bool {
        let (readers, around) = (self.readers, self.around);
        let covers = self.memtable.covers(cf);
        if covers.is_empty()
            || around.is_oldest
            || active(Bug::TombstonesNeverNeeded)
            || !(readers.exists)(cf, &[])
        {
            return false;
        }
        let newer: Vec<Vec<Cover>> = around.newer.iter().map(|m| m.covers(cf)).collect();
        let mut fragments = covers.iter().flat_map(|cover| cover.fragments());
        fragments.any(|fragment| {
            let Some(seqno) = fragment.over else {
                return false;
            };
            // Over each of its keys there must be a newer one.
            let mut key = fragment.start;
            loop {
                let later = std::iter::once(&covers).chain(&newer);
                let Some((next, end)) = next_over(later, key, seqno) else {
                    return true;
                };
                if readers.need(seqno, next) {
                    return true;
                }
                match (end, fragment.end) {
                    (None, _) => return false,
                    (Some(end), Some(last)) if end >= last => return false,
                    (Some(end), _) => key = end,
                }
            }
        })
    }

    /// Whether the newest version here is needed, which is at `seqno`.
    fn needs(&self, cf: CfId, key: &[u8], seqno: SeqNo) -> Result<bool> {
        let next = self.next_newer(cf, key, seqno)?;
        Ok(next.is_none_or(|next| self.readers.need(seqno, next)))
    }

    /// Whether any version of a key is needed, in an index that has operands, which is no merged one. The newest is not,
    /// if it `hides_nothing`.
    fn needs_any(
        &self,
        (cf, key): (CfId, &[u8]),
        index: &Index,
        entry: Entry<'_>,
        hides_nothing: bool,
    ) -> Result<bool> {
        if entry.list().is_none() {
            let only = self.memtable.leaf_record(entry.leaf())?;
            return Ok(!hides_nothing && self.needs(cf, key, only.seqno)?);
        }
        let mut above = None;
        for (place, version) in entry.versions().enumerate() {
            let seqno = index.real(version);
            let needed = match above {
                _ if place == 0 && hides_nothing => false,
                Some(base) => self.readers.need(seqno, base),
                None => self.needs(cf, key, seqno)?,
            };
            if needed {
                return Ok(true);
            }
            if !version.leaf.is_operand() {
                above = Some(seqno);
            }
        }
        Ok(false)
    }

    /// Whether a version behind the newest of a list is needed.
    fn needs_past(&self, entry: Entry<'_>) -> Result<bool> {
        for pair in entry.list().unwrap_or_default().windows(2) {
            if self.readers.need(pair[1].seqno, pair[0].seqno) && self.is_of_it(pair[1].leaf)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next base over a key behind `seqno`, above which there is none here but a range tombstone: that, or
    /// the oldest base or range tombstone in the first of the newer memtables, oldest first, that has one.
    fn next_newer(&self, cf: CfId, key: &[u8], seqno: SeqNo) -> Result<Option<SeqNo>> {
        if let Some(next) = self.memtable.oldest_over(cf, key, seqno) {
            return Ok(Some(next));
        }
        for memtable in self.around.newer {
            let version = memtable.oldest_base(cf, key)?;
            let over = memtable.oldest_over(cf, key, seqno);
            if let Some(next) = version.into_iter().chain(over).min() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }
}

/// The first range tombstone over `key` that is newer than `seqno`, in the covers of several memtables,
/// oldest first; and up to where it is that.
fn next_over<'a>(
    memtables: impl IntoIterator<Item = &'a Vec<Cover>>,
    key: &[u8],
    seqno: SeqNo,
) -> Option<(SeqNo, Option<&'a [u8]>)> {
    let covers = memtables.into_iter().flatten();
    let mut over = covers.map(|cover| cover.fragment(key));
    over.find_map(|fragment| Some((fragment.over.filter(|next| *next > seqno)?, fragment.end)))
}

#[cfg(test)]
mod tests;
