//! Evacuating memtables by ranges of keys: shape `tiered`, and `immutables` in its own way
//! ([`sink`](super::sink)). A range stays in persistent memory, or leaves it with what lies there below it
//! ([`along`](super::along)).
//!
//! A flush that takes much is cut into *ranges* of keys, in the order of families and of their keys. Each is
//! written and named by itself, by one edit that says, too, how far the memtables are evacuated by it. So a
//! range that finds no room in persistent memory goes into files, and no more than that; and what was written before a
//! crash, or before a disk was full, is not written again. Several threads write ahead what stays
//! ([`ahead`](super::ahead)); only the edits have an order.
//!
//! # Vocabulary
//! The *frozen* memtables are those that the flush has taken. The *front* is a key of a family: all records
//! of the frozen memtables that lie before it are in tables, as far as anybody needs them, and none of those
//! behind it are. It is in the manifest (`version::Evacuation`) from the first edit of several on, with the
//! bases of the frozen memtables, and in the view (`view::Front`).
//!
//! # Invariants
//! 1. *Ranges are named in their order*. So one key says which ranges are named. If they were named in any order, every
//!    reader, every source of a scan and recovery would have to step through a list of ranges. Nothing would be gained
//!    by that, since zones are free only when the last range is named.
//! 2. *Each record is reachable once.* A view has the front and the tables of one edit: both change in one view, under
//!    the writer's lock, behind the edit. A reader of that view asks frozen memtables for nothing before the front,
//!    neither for records nor for range tombstones. A reader of an older view finds none of the new tables in it. An
//!    open takes the front from the manifest, whose version has exactly the tables that belong to it.
//! 3. *Records and range tombstones go together.* The tables of a range have the part of each range tombstone that lies
//!    in the range, and also records that are newer than the tombstone. Before the front, a frozen memtable's tombstone
//!    would hide these records, since sources are layers (`cursor::hidden`); so it is not asked there. Behind the front
//!    it counts in full: nothing of it is forgotten before its range is named.
//! 4. *What is flushed is known* (`flush`, invariant 2). While the manifest has a front, F comes from the front, and
//!    not from tables: memtables with bases up to `above` were flushed, and `above` is one less than the base of the
//!    oldest frozen memtable. Memtables with larger bases, up to that of the newest frozen one with records, are frozen;
//!    those behind are newer, or have no records. (One without records has the base of the memtable behind it, so its base
//!    says nothing.) The edit of the last range takes the front away and says that all frozen memtables are flushed.
//! 5. *An evacuation comes to its end first.* While there is a front a flush takes only the frozen memtables, from
//!    the front on, and those that came since in the next turn. So of each key everything in tables is older than
//!    everything in memtables from which it is not evacuated, and no table that has evacuated records spans the
//!    front: younger records before it are in tables with larger seqnos than those of the frozen ones, in every table of
//!    level 0, and merges inside level 0 end there (`compact::internal`, 1). That holds for a
//!    flush of another shape behind a reopening, and for one under the writer's lock (`ingest`), which does both.
//! 6. *Frozen stays frozen.* Their indexes are merged with nothing while they are taken (`merge`, 2), nor while there
//!    is a front, taken or not: an index is before the front or behind it.
//!
//! # What meets a half-done evacuation
//! - *A frozen memtable that is dead* is dropped like others (`reclaim`), since all its records are superseded by what
//!   is durable, in whatever order: what of it lies before the front nobody reaches. If none is left the front says
//!   nothing, no view has it, and the next edit of a flush takes it away.
//! - *One that was flushed before, and that tables do not tell of*, counts as flushed from the first front on: its
//!   base is at most `above`.
//! - *Compactions* of tables that are named take them down; readers find those first in the view's version, as ever.
//!   Below a range are the tables of its moment, all of them older. What a range's tables forget, because nothing
//!   lies below, is before the front in the memtable that had it: that it comes back after a crash shows nobody.
//! - *A dropped family*: its records and tables go; the front may stand in it, as at any key.
//! - *A split or merge of partitions* cuts references, not memtables.
//! - *An ingestion* ends the evacuation before, under the lock of flushing and the writer's.
//! - *A refused edit*, a full disk or a full region leave the front where it was. What a range has written is gone,
//!   the flush fails as a whole, and the next one goes on from there.
//! - *Copies* take of the frozen memtables what lies behind the front, and end a table there (`capture`).
//! - *Change feeds* and blob files know memtables, and those stay until the last edit.
//! - *Readers that outlive the store* have its last view, which holds everything.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before the first edit | the memtables, and zones and files that nobody names |
//! | between two edits | the memtables, tables of what lies before the front, and the front |
//! | after the last one | memtables that are known as flushed (`flush`), and tables |
//!
//! In the second row an open indexes the frozen memtables, and its view has the front. Its next flush goes on.
//!
//! # Ranges
//! They become a table each, about, reckoned by the keys of the frozen indexes, of which some are read. Where level
//! 0 has slices (`policy::pick::level0_cuts`) a range ends at the next one's beginning: tables end there anyhow. With any
//! shape a range ends where its edit would be too long ([`edits`](super::edits)).

use std::collections::BTreeSet;
use std::ops::Bound;

use thermocline_base::{CfId, Result, SeqNo};
use thermocline_catalog::view::{Front, Position};
use thermocline_memtable::{Direction, Memtable};
use thermocline_policy::{ranges, tuning};

use crate::compact::shape::Levels;
use crate::store::Evacuator;
use crate::sync::Arc;

/// Bytes of a range in memtables, in tables of the usual size.
const RANGE_TABLES: u64 = if cfg!(test) { 1 } else { tuning::RANGE_TABLES };

/// Where level 0 changes between what is cold and what is not, ascending.
pub(super) type Colds = Vec<(Position, bool)>;

/// They, as positions.
pub(super) fn positions(colds: &ranges::Colds) -> Colds {
    let position = |(cf, key, cold): &(CfId, Vec<u8>, bool)| {
        let at = Position {
            cf: *cf,
            key: key.as_slice().into(),
        };
        (at, *cold)
    };
    colds.iter().map(position).collect()
}

/// Memtables that a flush has taken, oldest first, and how far they are evacuated if that has begun. A merged
/// index stands for all memtables that it leads to.
pub(super) struct Taken {
    pub memtables: Vec<Arc<Memtable>>,
    pub front: Option<Arc<Front>>,
    /// Whether scans have asked for it.
    pub for_scans: bool,
}

/// Where ranges end, if that is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cuts {
    /// Where slices of level 0 are apart.
    OfLevel0,
    /// Where tables of the base level begin.
    BelowLevel0,
}

/// The ranges by which memtables are to be written.
pub(super) struct Divided {
    /// In their order.
    pub spans: Vec<Span>,
    /// Bytes that they have together in memtables, about: what lies before the front is written.
    pub bytes: u64,
}

/// What a flush writes at once: from a key on, up to another one or to the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub from: Position,
    pub to: Option<Position>,
}

impl Span {
    /// All keys of these, which follow each other.
    ///
    /// # Panics
    /// If there are none.
    pub fn over(group: &[Span]) -> Span {
        let ends = group.first().zip(group.last());
        let (first, last) = ends.expect("a group has a range at least");
        Span {
            from: first.from.clone(),
            to: last.to.clone(),
        }
    }

    /// Whether level 0 is cold where it lies: all of it is, or nothing.
    pub fn is_cold(&self, colds: &Colds) -> bool {
        // A slice begins behind the place where it is apart from the one before.
        let before = |at: &Position| self.to.as_ref().is_none_or(|to| at < to);
        let last = colds[..colds.partition_point(|(at, _)| before(at))].last();
        last.is_some_and(|(at, cold)| *cold && self.of(at.cf).is_some())
    }

    /// The keys of a family in it: from the first on, and below the second if there is one. `None` if there are none.
    pub fn of(&self, cf: CfId) -> Option<(&[u8], Option<&[u8]>)> {
        let from = self.from.first_of(cf)?;
        match &self.to {
            Some(to) => match to.first_of(cf) {
                None => Some((from, None)),
                Some([]) => None,
                Some(key) => Some((from, Some(key))),
            },
            None => Some((from, None)),
        }
    }
}

impl Taken {
    /// Bytes of all of them, as wholes.
    fn bytes(&self) -> u64 {
        self.memtables.iter().map(|m| m.bytes()).sum()
    }

    /// Bytes of what is in no table, about, by marks of all.
    fn bytes_left(&self, marks: &[Position]) -> u64 {
        let begin = self.begin();
        let before = marks.partition_point(|mark| *mark < begin);
        ranges::left(self.bytes(), marks.len(), marks.len() - before)
    }

    /// Where those begin that are in no table.
    fn begin(&self) -> Position {
        let front = self.front.as_ref();
        front.map_or_else(Position::first, |front| front.at.clone())
    }

    /// The families that have something of these keys, ascending.
    pub fn families_in(&self, span: &Span) -> Vec<CfId> {
        let families = self.memtables.iter().flat_map(|m| m.families());
        let families: BTreeSet<CfId> = families.collect();
        let within = families.into_iter().filter(|cf| span.of(*cf).is_some());
        within.collect()
    }

    /// What is left of them.
    pub fn rest(&self) -> Span {
        Span {
            from: self.begin(),
            to: None,
        }
    }

    /// The largest base of those of them that have records, and of those that were evacuated with them and are gone; 0 if
    /// none has any.
    pub fn up_to(&self) -> SeqNo {
        if let Some(front) = &self.front {
            return front.up_to;
        }
        let homes = self.memtables.iter().flat_map(|m| m.homes());
        // The memtable behind one without records has the same base, and may be none of them.
        let written = homes.filter(|home| !home.is_empty());
        written.map(|home| home.base()).max().unwrap_or(SeqNo(0))
    }

    /// The front once it has come to `at`.
    pub fn front_at(&self, at: Position) -> Front {
        let above = match &self.front {
            Some(front) => front.above,
            None => {
                let oldest = self.memtables.iter().map(|m| m.base().0).min();
                SeqNo(oldest.unwrap_or(0).saturating_sub(1))
            }
        };
        let up_to = self.up_to();
        Front { above, up_to, at }
    }
}

impl Evacuator {
    /// The ranges by which `taken` is to be written. As far as that is known none has of a family both what is cold and what is
    /// not.
    pub(super) fn divided(&self, taken: &Taken, colds: &Colds, cuts: Cuts) -> Result<Divided> {
        let (all, range) = (taken.bytes(), self.range_bytes());
        let count = ranges::count(all, range);
        let mut spans = vec![taken.rest()];
        if count < 2 && colds.is_empty() && taken.front.is_none() {
            return Ok(Divided { spans, bytes: all });
        }
        let begin = taken.begin();
        let mut marks = self.marks(taken, count)?;
        let bytes = taken.bytes_left(&marks);
        // Ranges of what is left are as large as those of the whole.
        let count = ranges::count(bytes, range);
        marks.retain(|mark| *mark > begin);
        for at in self.range_ends(&marks, count, colds, cuts) {
            let last = spans.last_mut().expect("there is one at least");
            if last.from < at {
                last.to = Some(at.clone());
                spans.push(Span { from: at, to: None });
            }
        }
        Ok(Divided { spans, bytes })
    }

    /// Bytes of `taken` that are in no table, about.
    pub(super) fn left_bytes(&self, taken: &Taken) -> Result<u64> {
        let all = taken.bytes();
        if taken.front.is_none() {
            return Ok(all);
        }
        let marks = self.marks(taken, ranges::count(all, self.range_bytes()))?;
        Ok(taken.bytes_left(&marks))
    }

    /// Bytes of a range in memtables, about.
    fn range_bytes(&self) -> u64 {
        self.common.options.table_bytes().max(1) * RANGE_TABLES
    }

    /// Keys of `taken` with about as many keys between each two of them, ascending, to find where `count` ranges end.
    fn marks(&self, taken: &Taken, count: u64) -> Result<Vec<Position>> {
        let keys: u64 = taken.memtables.iter().map(|m| m.keys()).sum();
        let step = ranges::step(keys, count);
        let mut marks = Vec::new();
        let go_on = || self.common.check_open();
        for memtable in &taken.memtables {
            for cf in memtable.families() {
                add_marks(memtable, cf, step, &mut marks, &go_on)?;
            }
        }
        marks.sort_unstable();
        Ok(marks)
    }

    /// Where `count` ranges of about as many of these marks end, but for the last one, ascending; and those between what is cold
    /// and what is not.
    fn range_ends(
        &self,
        marks: &[Position],
        count: u64,
        colds: &Colds,
        cuts: Cuts,
    ) -> Vec<Position> {
        let places = ranges::ends(marks.len(), count);
        let mut ends: Vec<Position> = places.map(|n| marks[n].clone()).collect();
        let cuts = self.cuts(ends.iter().chain(colds.iter().map(|(at, _)| at)), cuts);
        go_to_slices(&mut ends, &cuts);
        for (at, _) in colds {
            // Where the slice is apart from the one before; if there is none it begins before everything.
            let cut = cuts[..cuts.partition_point(|cut| cut <= at)].last();
            ends.extend(cut.filter(|cut| cut.cf == at.cf).cloned());
        }
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Where ranges may end, in the families of these positions, ascending.
    fn cuts<'p>(&self, of: impl Iterator<Item = &'p Position>, cuts: Cuts) -> Vec<Position> {
        let version = self.common.catalog.version();
        let families: BTreeSet<CfId> = of.map(|at| at.cf).collect();
        let cuts = families.into_iter().flat_map(|cf| {
            let levels = Levels::of(&version, cf, None);
            let shape = &self.common.compactions.shape;
            let own = match cuts {
                Cuts::OfLevel0 => shape.level0_cuts(&levels),
                Cuts::BelowLevel0 => shape.base_begins(&levels),
            };
            own.into_iter().map(move |key| Position {
                cf,
                key: key.into(),
            })
        });
        let mut cuts: Vec<Position> = cuts.collect();
        cuts.sort_unstable();
        cuts
    }
}

/// Moves each of these, which ascend, to the next of `cuts`, if that is before the next of them.
fn go_to_slices(ends: &mut [Position], cuts: &[Position]) {
    for i in 0..ends.len() {
        let cut = cuts.get(cuts.partition_point(|cut| *cut < ends[i]));
        let next = ends.get(i + 1);
        if let Some(cut) = cut
            && cut.cf == ends[i].cf
            && next.is_none_or(|next| cut < next)
        {
            ends[i] = cut.clone();
        }
    }
}

/// Adds every `step`-th key of a family in a memtable. Before each it asks whether to `go_on`.
fn add_marks(
    memtable: &Memtable,
    cf: CfId,
    step: u64,
    marks: &mut Vec<Position>,
    go_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let step = usize::try_from(step).unwrap_or(1);
    let mut chunk = Vec::new();
    let mut from: Bound<Box<[u8]>> = Bound::Unbounded;
    loop {
        go_on()?;
        chunk.clear();
        let from_key = from.as_ref().map(|key| &**key);
        let forwards = Direction::Forward;
        let more = memtable.scan(cf, from_key, forwards, SeqNo::MAX, step, &mut chunk)?;
        let Some(last) = chunk.last().filter(|_| more) else {
            return Ok(());
        };
        // Verified, as it decides what is written where.
        let key: Box<[u8]> = memtable.record(last.at, true)?.key.into();
        marks.push(Position {
            cf,
            key: key.clone(),
        });
        from = Bound::Excluded(key);
    }
}

#[cfg(test)]
mod tests;
