//! What a range of generations takes along when it is written, so that a range that is not wanted in persistent
//! memory leaves it as a whole (design §1, the law of age, and §7, "a cold range may go straight to L1").
//!
//! What is written comes from above level 0, so all that it is merged with has to lie above all that stays beside it.
//! Two things can be done with a range:
//! - To level 0, in files: it takes along what lies there in persistent memory, above all else. So less lies in persistent
//!   memory, and one run in files is what several would have been: a spill ([`pick_spill`](super::pick_spill)), and a
//!   flush, in one.
//! - To the base level: it takes along all of level 0, and what the base level has there. That is done where
//!   little lies below, by the reckoning by which spills do not pay, and by a part of that: flushes wait for this one.

use thermocline_base::SeqNo;

use super::score::Scores;
use super::slices::{depth, hull_of, overlapped};
use super::state::{Held, PickOptions, State, Table};
use crate::tuning::ALONG_MARGIN;
use thermocline_base::KeyRange;

/// How a range is written, and what with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Along {
    /// The level of the output: 0 or the base level.
    pub to: usize,
    /// Of level 0, as places there, ascending: the newest first. Of each what lies in the range.
    pub inputs: Vec<usize>,
    /// Of the base level, if that is where it goes, as places there: all of each.
    pub overlapped: Vec<usize>,
    /// What it holds meanwhile.
    pub holds: Held,
}

/// What a `range`, of which `bytes` lie in generations that are newer than all tables, takes along out of persistent
/// memory. `None` if there is nothing of it, or if running jobs are in the way; or unless it `must` be, where level 0 has
/// as many runs in files there as it may have.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{PickOptions, State, Table, pick_along};
/// let table = |file, first, last, bytes| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(first, last),
///     bytes,
///     smallest_seqno: SeqNo(file),
///     largest_seqno: SeqNo(file),
///     has_tombstones: false,
///     in_pm: file > 2,
/// };
/// let level0 = vec![table(4, b"a", b"f", 10), table(3, b"m", b"z", 10), table(2, b"b", b"c", 10)];
/// let along = |below| {
///     let levels = [level0.clone(), vec![table(1, b"a", b"z", below)]];
///     let options = PickOptions { last_level: 1, ..PickOptions::default() };
///     let range = KeyRange::until(b"a", b"n");
///     pick_along(&State { levels: &levels, running: &[] }, &options, &range, 10, false).unwrap()
/// };
/// // Much lies below: it becomes files of level 0, over the one that is there.
/// assert_eq!((along(100).to, along(100).inputs), (0, vec![0, 1]));
/// // Little does: all of level 0 goes down with it.
/// assert_eq!((along(10).to, along(10).inputs, along(10).overlapped), (1, vec![0, 1, 2], vec![0]));
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_along(
    state: &State<'_>,
    options: &PickOptions,
    range: &KeyRange<'_>,
    bytes: u64,
    must: bool,
) -> Option<Along> {
    let (tables, base) = (state.level(0), Scores::new(state, options).base_level());
    let of_range = (0..tables.len()).filter(|n| tables[*n].range.overlaps(range));
    let all: Vec<usize> = of_range.collect();
    let top = on_top(state, &all);
    let sum = |places: &[usize]| places.iter().map(|n| tables[*n].bytes).sum::<u64>();
    let below = &state.level(base)[overlapped(state.level(base), range)];
    let below: u64 = below.iter().map(|table| table.bytes).sum();
    let runs = options.level0_tables as u128;
    let taken = u128::from(bytes.saturating_add(sum(&top)));
    let little =
        u128::from(ALONG_MARGIN) * u128::from(below) * runs.saturating_sub(1) <= taken * runs;
    let small = below.saturating_add(sum(&all)) <= options.job_bytes_max;
    if little
        && small
        && let Some(along) = to_base(state, range, base, &all)
    {
        return Some(along);
    }
    let files = all.iter().map(|n| tables[*n]).filter(|table| !table.in_pm);
    let files: Vec<Table<'_>> = files.collect();
    // Where that is most: the range may be over several slices.
    let fits = depth(&files) < options.level0_tables;
    (!top.is_empty() && (fits || must))
        .then(|| to_files(state, range, top))
        .flatten()
}

/// Of these places in level 0 those in persistent memory that no running job takes, and that are newer than all
/// others of these.
fn on_top(state: &State<'_>, places: &[usize]) -> Vec<usize> {
    let tables = state.level(0);
    let free = |n: &&usize| tables[**n].in_pm && !state.is_held(0, &tables[**n]);
    let mut top: Vec<usize> = places.iter().filter(free).copied().collect();
    loop {
        let others = places.iter().filter(|n| !top.contains(n));
        let newest = others.map(|n| tables[*n].largest_seqno).max();
        let before = top.len();
        top.retain(|n| newest.is_none_or(|newest| newest < tables[*n].smallest_seqno));
        if top.len() == before {
            return top;
        }
    }
}

fn to_files(state: &State<'_>, range: &KeyRange<'_>, inputs: Vec<usize>) -> Option<Along> {
    let taken = || inputs.iter().map(|n| &state.level(0)[*n]);
    let oldest = taken().map(|table| table.smallest_seqno).min()?;
    free(
        state,
        Along {
            to: 0,
            holds: Held {
                levels: 0..=0,
                first: range.first.to_vec(),
                last: range.last.to_vec(),
                open: range.open,
                // What is written with it is newer than all that there is.
                seqnos: oldest..=SeqNo::MAX,
                stays: false,
            },
            inputs,
            overlapped: Vec::new(),
        },
    )
}

/// If nothing of these is in a job.
fn to_base(
    state: &State<'_>,
    range: &KeyRange<'_>,
    base: usize,
    inputs: &[usize],
) -> Option<Along> {
    let is_held = |table: &Table<'_>| state.is_held(0, table);
    if inputs.iter().any(|n| is_held(&state.level(0)[*n])) {
        return None;
    }
    let lower = state.level(base);
    let places: Vec<usize> = overlapped(lower, range).collect();
    let hull = hull_of(lower, &places).map_or(*range, |below| below.hull(range));
    free(
        state,
        Along {
            to: base,
            inputs: inputs.to_vec(),
            overlapped: places,
            holds: Held {
                levels: 0..=base,
                first: hull.first.to_vec(),
                last: hull.last.to_vec(),
                open: hull.open,
                seqnos: Held::ANY_AGE,
                stays: false,
            },
        },
    )
}

/// It, if it meets no running job.
fn free(state: &State<'_>, along: Along) -> Option<Along> {
    let meets = state.running.iter().any(|held| held.collides(&along.holds));
    (!meets).then_some(along)
}
