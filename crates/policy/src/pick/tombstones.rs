//! Tables in which much is deleted.
//!
//! # Why
//! A delete is small, so that it makes no level too large, and what it hides keeps its room and is stepped over by scans until the two meet.
//! Where deletes lie beside each other and have whole tables, those go unread ([`super::DeletedRanges`]). Where something lives among
//! them, only a merge tells.
//!
//! # When
//! A job writes anew what it meets below. If there are at least one delete to [`DELETES_ONE_IN`] entries there, each of them costs the writing of
//! so many entries at most; and what is hidden, and not merged, is less than one part in so many. Counts are those of whole tables, so
//! it is not known whether a delete hides something below. If it does not, it is gone all the same.
//!
//! # What must not
//! A delete that somebody could still tell from what it hides would stay, and so would that: a table waits until nobody reads at a moment
//! before its newest entry. A store looks again when the first of those who read has gone (`engine::compact::deleted`).
//!
//! # What is passed over
//! Most tables have few deletes. What lies below one is no less than what the smallest table has that it meets, if it meets
//! any. So of tables that follow each other none needs a look, if the most deletes that one of them has are too few for the
//! smallest table that all of them together meet.
//!
//! # Why it ends
//! Each job moves data down. What lies above nothing is left alone: it hides nothing, and goes when its table is merged the next time.

use thermocline_base::{KeyRange, SeqNo};

use super::jobs::{job, widened};
use super::levels::{Stretch, Table};
use super::score::Scores;
use super::slices::slices;
use super::state::{Job, PickOptions, Reason, State};
use crate::tuning::DELETES_ONE_IN;

/// The next job that brings deletes to what they hide, because there are so many of them; `None` if there are few, or running jobs take
/// the tables. `moments` are those at which somebody reads, ascending.
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_tombstones(moments: &[SeqNo], state: &State<'_>, options: &PickOptions) -> Option<Job> {
    let goes = |table: &Table<'_>| {
        let is_read = moments.first().is_some_and(|at| *at < table.largest_seqno);
        table.deletes > 0 && !is_read
    };
    let level0 = state.level0();
    let of_slice = |slice: Vec<usize>| {
        let going = slice.iter().map(|n| &level0[*n]).filter(|t| goes(t));
        let deletes = going.map(|table| table.deletes).sum();
        pays(deletes, || {
            below((0, &state.level(0).hull_of(&slice)?), state, options)
        })
        .then_some(())?;
        let to = Scores::new(state, options).base_level();
        job(state, options, (0, to), slice, Reason::Tombstones)
    };
    let of_level = |level: usize| {
        let tables = state.level(level);
        let may = |stretch: &Stretch| {
            let are_read = moments.first().is_some_and(|at| *at < stretch.newest_min);
            !are_read && may_pay(stretch, level, state, options)
        };
        let numbered = tables.places(may).map(|n| (n, tables.table(n)));
        let mut going = numbered.filter(|(_, table)| goes(table));
        going.find_map(|(n, table)| {
            let below = || below((level, &table.range), state, options);
            pays(table.deletes, below).then_some(())?;
            let to = (level, level + 1);
            let job = job(state, options, to, vec![n], Reason::Tombstones)?;
            Some(widened(state, options, job))
        })
    };
    let of_level0 = || slices(level0).into_iter().find_map(of_slice);
    let has_some = |level: &usize| state.level(*level).deletes() > 0;
    let mut levels = (1..options.last_level).filter(has_some);
    let job = level0.iter().any(goes).then(of_level0).flatten();
    job.or_else(|| levels.find_map(of_level))
}

/// Whether so many deletes are worth a merge with so many entries; not where there are none.
fn pays(deletes: u64, below: impl FnOnce() -> Option<u64>) -> bool {
    deletes > 0 && below().is_some_and(|n| n > 0 && deletes.saturating_mul(DELETES_ONE_IN) >= n)
}

/// Whether the deletes of one of these tables may be worth a merge.
fn may_pay(stretch: &Stretch, level: usize, state: &State<'_>, options: &PickOptions) -> bool {
    let tables = state.level(level);
    let (first, behind) = (stretch.places.start, stretch.places.end);
    if stretch.deletes_max == 0 || first == behind {
        return false;
    }
    let hull = tables.table(first).range;
    let hull = hull.hull(tables.table(behind - 1).range);
    let mut deeper = (level + 1..=options.last_level).map(|deeper| state.level(deeper));
    deeper.any(|tables| {
        let least = tables.entries_min(tables.overlapped(&hull));
        least.is_some_and(|n| stretch.deletes_max.saturating_mul(DELETES_ONE_IN) >= n)
    })
}

/// The entries of all tables of deeper levels that overlap `range`.
fn below(
    (level, range): (usize, &KeyRange<&[u8]>),
    state: &State<'_>,
    options: &PickOptions,
) -> Option<u64> {
    let deeper = (level + 1..=options.last_level).map(|deeper| state.level(deeper));
    let entries = deeper.map(|tables| {
        let met = tables.overlapped(range);
        met.map(|place| tables.table(place).entries).sum::<u64>()
    });
    Some(entries.fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use thermocline_base::FileId;

    use super::*;

    fn table(file: u64, (entries, deletes): (u64, u64), in_pm: bool) -> Table<'static> {
        Table {
            file: FileId(file),
            range: KeyRange::inclusive(b"a", b"m"),
            bytes: entries * 100,
            smallest_seqno: SeqNo(file * 10),
            largest_seqno: SeqNo(file * 10 + 9),
            entries,
            deletes,
            in_pm,
        }
    }

    fn picked(levels: &[Vec<Table<'_>>], moments: &[SeqNo]) -> Option<(usize, usize)> {
        let options = PickOptions {
            last_level: levels.len() - 1,
            ..PickOptions::default()
        };
        let state = State {
            levels: &levels.to_vec(),
            running: &[],
        };
        let job = pick_tombstones(moments, &state, &options)?;
        assert_eq!(job.reason, Reason::Tombstones);
        Some((job.from, job.to))
    }

    #[test]
    fn many_deletes_go_to_what_they_hide_and_few_stay() {
        for in_pm in [false, true] {
            let store = |deletes| {
                vec![
                    vec![table(3, (100, deletes), in_pm)],
                    vec![],
                    vec![table(1, (180, 0), false)],
                ]
            };
            assert_eq!(picked(&store(90), &[]), Some((0, 2)));
            assert_eq!(picked(&store(89), &[]), None);
            // Somebody reads what they hide; or not any more.
            assert_eq!(picked(&store(90), &[SeqNo(38), SeqNo(100)]), None);
            assert_eq!(picked(&store(90), &[SeqNo(39)]), Some((0, 2)));
        }
        // One level at a time, beside all that lies below.
        let deep = |last: u64| {
            vec![
                vec![],
                vec![table(3, (60, 60), false)],
                vec![table(2, (20, 0), false)],
                vec![table(1, (last, 0), false)],
            ]
        };
        assert_eq!(picked(&deep(100), &[]), Some((1, 2)));
        assert_eq!(picked(&deep(101), &[]), None);
        // Nothing lies below.
        assert_eq!(picked(&[vec![table(3, (9, 9), true)], vec![]], &[]), None);
    }
}
