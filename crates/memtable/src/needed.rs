//! Whether anybody still needs what a sealed generation holds.
//!
//! A version of a key is *needed* while somebody may be answered with it. Let `s` be its seqno and `n`
//! that of the next newer version of the same key, in this generation or a newer one. Whoever reads
//! at `n` or later gets the newer one, whoever reads before `s` an older one; so a version with a
//! settled `n` (visible, so that nobody will register below it, and durable, so that no crash takes
//! it back) is needed only by a registered reader in `s..n`. A newest version is needed always,
//! except for a tombstone in the oldest generation: it hides nothing. What belongs to a column family
//! that was dropped is not needed at all.
//!
//! # Once not needed, never needed again
//! 1. Readers register at what is visible, which only rises: nobody comes into `s..n`.
//! 2. If the generation of `n` goes, that is because `n` is not needed either: there is an `m` that
//!    is newer still and settled, and no reader in `n..m`, hence none in `s..m`.
//! 3. The oldest generation stays the oldest, and a dropped family dropped.
//!
//! So a check may stop at the first key that is needed and go on there another time, and what two
//! checks at different times found may be put together.
//!
//! # What the index knows
//! Versions that nobody needed have been trimmed from the indexes, so that the next newer version
//! found may be newer than `n`. That errs on the safe side, and hardly ever at all: `n` was trimmed
//! because no reader was registered behind it, and none came since.

use std::ops::{Bound, ControlFlow};

use thermocline_art::{Direction, Entry, Moments};
use thermocline_base::{CfId, Kind, Result, SeqNo};

use crate::table::Memtable;

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
    fn need(&self, seqno: SeqNo, next: SeqNo) -> bool {
        next > self.settled || self.moments.any_in(seqno, next)
    }
}

/// The generations around the one that is checked.
#[derive(Debug, Clone, Copy)]
pub struct Neighbours<'a> {
    /// The newer ones, oldest first.
    pub newer: &'a [&'a Memtable],
    /// Whether there is no older one.
    pub is_oldest: bool,
}

impl Memtable {
    /// Looks through up to `limit` keys of this sealed generation, from `from` on, for one of
    /// which a version is needed.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] of a record that had to be read: nobody knows then
    /// whether it is needed.
    pub fn check_needed(
        &self,
        from: &Position,
        limit: usize,
        readers: Readers<'_>,
        around: Neighbours<'_>,
    ) -> Result<Checked> {
        let mut left = limit;
        for (cf, tree) in self.trees_from(from.cf) {
            let bound = match &from.from {
                bound if cf == from.cf => bound.as_ref().map(Vec::as_slice),
                _ => Bound::Unbounded,
            };
            let mut stopped = None;
            let guard = tree.pin();
            tree.scan(&guard, bound, Direction::Forward, self.records(), |entry| {
                let here = |from| Some(Position { cf, from });
                let newest = self.leaf_record(entry.leaf())?;
                let key = newest.key.to_vec();
                let hides_nothing = around.is_oldest && newest.kind == Kind::Delete;
                let needed = (readers.exists)(cf, &key)
                    && (self.needs_past(entry, readers)
                        || !hides_nothing
                            && match next_newer(cf, &key, around.newer)? {
                                None => true,
                                Some(next) => readers.need(newest.seqno, next),
                            });
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
            })?;
            if let Some(stopped) = stopped {
                return Ok(stopped);
            }
        }
        Ok(Checked::Nothing)
    }

    /// Whether a version behind the newest of a list is needed.
    fn needs_past(&self, entry: Entry<'_>, readers: Readers<'_>) -> bool {
        let list = entry.list().unwrap_or_default();
        list.windows(2)
            .any(|pair| readers.need(pair[1].seqno, pair[0].seqno))
    }

    /// The seqno of the oldest version of a key in this generation.
    fn oldest_version(&self, cf: CfId, key: &[u8]) -> Result<Option<SeqNo>> {
        let Some(tree) = self.tree(cf) else {
            return Ok(None);
        };
        let guard = tree.pin();
        let Some(entry) = tree.get(&guard, key, self.records())? else {
            return Ok(None);
        };
        match entry.list().and_then(<[_]>::last) {
            Some(oldest) => Ok(Some(oldest.seqno)),
            None => Ok(Some(self.leaf_record(entry.leaf())?.seqno)),
        }
    }
}

/// The seqno of the oldest version of a key in the first of these generations, oldest first, that has
/// one.
fn next_newer(cf: CfId, key: &[u8], newer: &[&Memtable]) -> Result<Option<SeqNo>> {
    for memtable in newer {
        if let Some(seqno) = memtable.oldest_version(cf, key)? {
            return Ok(Some(seqno));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
