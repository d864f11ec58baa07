//! Tables in whose range everything is deleted.
//!
//! # What may go
//! A table may be left out of its level unread if no reader finds anything of it at its moment, and nothing returns
//! that it hid. There are two kinds of ranges that say so.
//! 1. *A range tombstone*, which stands in a layer above the table, and covers its range. It hides what lies below the table, too. So
//!    the table may go whatever lies above and below it.
//! 2. *An empty range*, in which cursors have found every key deleted, one by one. What hides the values may be the table itself. So
//!    it goes only if nothing lies below it in its range: the deepest tables go first, and of level 0 a whole slice.
//!
//! # What must not
//! A table that a running job has among its inputs stays: the job's outputs are looked at when it has ended. So no two
//! jobs take the same table, and no job reads in vain. Jobs that hold other tables of the same keys do not mind:
//! nothing comes to where they work. What has gone from there hid nothing from them that is not hidden elsewhere.

use std::ops::Range;

use thermocline_base::{KeyRange, SeqNo};

use super::jobs::{is_above, seqnos_of};
use super::levels::{Level, Table};
use super::slices::slices;
use super::state::{Cursor, Held, Job, PickOptions, Reason, State};
use crate::tuning::EXPIRED_TABLES_MAX;

/// A range of keys in which everything older is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// The first key.
    pub start: Vec<u8>,
    /// The first key behind; `None` if there is none.
    pub end: Option<Vec<u8>>,
    /// In tables whose seqnos are all below this, everything in the range is deleted.
    pub older_than: SeqNo,
    /// A reader at this seqno or later finds nothing of that. The tombstones, or deletes, that hide it are durable and
    /// visible by then.
    pub unread_from: SeqNo,
}

impl Deleted {
    /// Whether it has all keys of a range.
    pub fn covers(&self, range: &KeyRange<&[u8]>) -> bool {
        let end = self.end.as_ref();
        *self.start <= *range.first && end.is_none_or(|end| range.ends_before(end))
    }

    /// Whether all that a table has is deleted.
    pub fn hides(&self, table: &Table<'_>) -> bool {
        table.largest_seqno < self.older_than && self.covers(&table.range)
    }
}

/// Ranges that do not overlap, in key order.
type Ranges<'a> = &'a [Deleted];

/// What of a family is deleted, and the readers of what was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeletedRanges<'a> {
    /// By range tombstones: ranges that do not overlap, in key order.
    pub covered: &'a [Deleted],
    /// Key by key: as those.
    pub empty: &'a [Deleted],
    /// The moments at which somebody reads, ascending. They were asked for when all these tombstones and deletes were
    /// visible.
    pub moments: &'a [SeqNo],
}

/// The range that has all of a table.
fn over<'r>(ranges: Ranges<'r>, table: &Table<'_>) -> Option<&'r Deleted> {
    let first = table.range.first;
    let behind = ranges.partition_point(|range| *range.start <= *first);
    let range = &ranges[behind.checked_sub(1)?];
    range.hides(table).then_some(range)
}

impl DeletedRanges<'_> {
    /// Whether somebody reads what a range has deleted of a table.
    fn is_read(&self, table: &Table<'_>, range: &Deleted) -> bool {
        let from = self
            .moments
            .partition_point(|at| *at < table.smallest_seqno);
        self.moments
            .get(from)
            .is_some_and(|at| *at < range.unread_from)
    }

    /// Whether a table may go that lies in one of these ranges.
    fn may_go(&self, ranges: Ranges<'_>, table: &Table<'_>) -> bool {
        over(ranges, table).is_some_and(|range| !self.is_read(table, range))
    }

    /// The next tables that may go, the deepest first; `None` if there are none, or running jobs take them.
    ///
    /// # Panics
    /// If a level is deeper than the last one.
    pub fn pick(&self, state: &State<'_>, options: &PickOptions) -> Option<Job> {
        let levels = || (0..=options.last_level).rev();
        let covered = || levels().find_map(|level| self.pick_covered(level, state));
        let empty = || {
            let mut of_levels = levels().filter(|level| *level > 0);
            let of_levels = of_levels.find_map(|level| self.pick_empty(level, state, options));
            of_levels.or_else(|| self.pick_empty_in_level0(state, options))
        };
        let covered = (!self.covered.is_empty()).then(covered).flatten();
        covered.or_else(|| (!self.empty.is_empty()).then(empty).flatten())
    }

    fn pick_covered(&self, level: usize, state: &State<'_>) -> Option<Job> {
        pick_in(self.covered, level, state, |table| {
            self.may_go(self.covered, table)
        })
    }

    fn pick_empty(&self, level: usize, state: &State<'_>, options: &PickOptions) -> Option<Job> {
        pick_in(self.empty, level, state, |table| {
            self.may_go(self.empty, table) && !is_above(state, options, level, &table.range)
        })
    }

    fn pick_empty_in_level0(&self, state: &State<'_>, options: &PickOptions) -> Option<Job> {
        let tables = state.level0();
        if !tables.iter().any(|table| self.may_go(self.empty, table)) {
            return None;
        }
        let goes = |slice: &Vec<usize>| {
            let mut all = slice.iter().map(|n| &tables[*n]);
            let hull = state.level(0).hull_of(slice);
            hull.is_some_and(|hull| !is_above(state, options, 0, &hull))
                && all.all(|t| self.may_go(self.empty, t) && !state.is_held(0, t))
        };
        let mut slices = slices(tables).into_iter().filter(goes);
        slices.find_map(|slice| job(0, slice, state))
    }
}

/// Where tables of a level from 1 on stand that lie in one of these ranges.
fn places_in(ranges: Ranges<'_>, tables: Level<'_>) -> Vec<Range<usize>> {
    let places = ranges.iter().map(|range| {
        let first = tables.position(0, |table| *table.range.first < *range.start);
        let end = tables.position(first, |table| range.covers(&table.range));
        first..end
    });
    places.collect()
}

/// Tables of a level in these ranges that go, if they are not held. In a level from 1 on they stand beside each other, so
/// that nothing else is held.
fn pick_in(
    ranges: Ranges<'_>,
    level: usize,
    state: &State<'_>,
    may_go: impl Fn(&Table<'_>) -> bool,
) -> Option<Job> {
    let tables = state.level(level);
    let goes = |n: &usize| {
        let table = tables.table(*n);
        may_go(&table) && !state.is_held(level, &table)
    };
    let places: Vec<Range<usize>> = match level {
        0 => std::iter::once(0..tables.len()).collect(),
        _ => places_in(ranges, tables),
    };
    let going = || places.iter().cloned().flatten().filter(goes);
    let first = going().next()?;
    let most = EXPIRED_TABLES_MAX;
    let together: Vec<usize> = match level {
        0 => going().take(most).collect(),
        _ => (first..tables.len()).take_while(goes).take(most).collect(),
    };
    // Between tables there may be keys that a job holds.
    let mut alone = going();
    job(level, together, state).or_else(|| alone.find_map(|n| job(level, vec![n], state)))
}

/// The job that takes these tables away.
fn job(level: usize, inputs: Vec<usize>, state: &State<'_>) -> Option<Job> {
    let tables = state.level(level);
    let hull = tables.hull_of(&inputs)?;
    let seqnos = match level {
        0 => seqnos_of(state.level0(), &inputs),
        _ => Held::ANY_AGE,
    };
    let holds = Held {
        levels: level..=level,
        range: hull.owned(),
        seqnos,
        stays: false,
        rests: false,
    };
    let is_free = !state.running.iter().any(|held| held.collides(&holds));
    is_free.then(|| Job {
        reason: Reason::Deleted,
        from: level,
        to: level,
        bytes: tables.bytes_at(inputs.iter().copied()),
        inputs,
        overlapped: Vec::new(),
        trivial: false,
        ends: Cursor {
            key: hull.last.to_vec(),
            open: hull.open,
        },
        holds,
    })
}
