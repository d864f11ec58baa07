//! Tables that have expired as a whole.
//!
//! # What may go
//! A table that nobody needs may be left out of its level unread, if nothing returns that it hid:
//! 1. *All of it has expired*, and nobody sees any of it ([`Expired::has_all`]).
//! 2. *Nothing lies below* in its range: no deeper level has something there, and of level 0 only whole slices go. What
//!    lies above is newer, and was never hidden by the table. So the table's deletes and range tombstones have nothing
//!    left to hide either.
//!
//! If what lies below has expired, it goes first, being deeper. If it has not, the table stays until a compaction
//! merges the two.

use super::jobs::{is_above, job};
use super::levels::Table;
use super::slices::slices;
use super::state::{Expired, Job, PickOptions, Reason, State};
use crate::tuning::EXPIRED_TABLES_MAX;

impl Expired {
    /// The next tables that may go as they are, the deepest first; `None` if there are none, or running jobs hold them.
    ///
    /// # Panics
    /// If a level is deeper than the last one.
    pub fn pick(&self, state: &State<'_>, options: &PickOptions) -> Option<Job> {
        let mut levels = (1..=options.last_level).rev();
        let of_levels = levels.find_map(|level| self.pick_in(level, state, options));
        of_levels.or_else(|| self.pick_in_level0(state, options))
    }

    /// Tables that stand beside each other in a level from 1 on.
    fn pick_in(&self, level: usize, state: &State<'_>, options: &PickOptions) -> Option<Job> {
        let tables = state.level(level);
        let goes = |n: &usize| {
            let table = tables.table(*n);
            let is_free = self.has_all(&table) && !state.is_held(level, &table);
            is_free && !is_above(state, options, level, &table.range)
        };
        let mut places = tables.places(|stretch| stretch.newest_min <= self.up_to);
        let mut next = 0;
        while let Some(first) = places.find(|n| *n >= next && goes(n)) {
            let most = tables.len().min(first + EXPIRED_TABLES_MAX);
            let all: Vec<usize> = (first..most).take_while(goes).collect();
            next = first + all.len();
            let job = job(state, options, (level, level), all, Reason::Expired);
            if job.is_some() {
                return job;
            }
        }
        None
    }

    fn pick_in_level0(&self, state: &State<'_>, options: &PickOptions) -> Option<Job> {
        let tables = state.level0();
        if !tables.iter().any(|table| self.has_all(table)) {
            return None;
        }
        let goes = |slice: &Vec<usize>| {
            let hull = state.level(0).hull_of(slice);
            let all = slice.iter().all(|n| self.has_all(&tables[*n]));
            all && hull.is_some_and(|hull| !is_above(state, options, 0, &hull))
        };
        let mut slices = slices(tables).into_iter().filter(goes);
        slices.find_map(|slice| job(state, options, (0, 0), slice, Reason::Expired))
    }

    /// Bytes of the tables that have expired as a whole, even if somebody reads them; and of the tables of which a
    /// part, or all, may have expired.
    pub fn bytes(&self, state: &State<'_>) -> (u64, u64) {
        let unseen = Expired {
            seen: None,
            ..*self
        };
        let bytes_of = |goes: &dyn Fn(&Table<'_>) -> bool| {
            let tables = state.levels_from(0).flat_map(|level| level.iter());
            let going = tables.filter(|table| goes(table));
            let bytes = going.map(|table| table.bytes);
            bytes.fold(0, u64::saturating_add)
        };
        let all = bytes_of(&|table| unseen.has_all(table));
        (all, bytes_of(&|table| unseen.has_some(table)))
    }
}
