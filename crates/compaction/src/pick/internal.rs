//! Level 0 slice by slice, for whoever decides about it by cost (`cost`; PM-Blade §IV.B): jobs that merge
//! a slice inside persistent memory, and jobs that take chosen slices to the SSD.
//!
//! An *internal* job has level 0 for input and output. It takes a slice whole, or all of it that lies below some
//! key: so of the keys of its outputs nothing else lies in level 0 but what came meanwhile, which is newer. It
//! ends, too: what was a slice of several runs becomes tables that do not overlap.

use super::inputs::{self, depth, job, slices};
use super::{Cursors, Job, PickOptions, Reason, Scores, State};
use crate::KeyRange;

/// A smallest set of tables of level 0 that overlaps no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice<'a> {
    /// As places in level 0, ascending: the newest first.
    pub tables: Vec<usize>,
    /// Where its keys lie.
    pub range: KeyRange<'a>,
    /// Tables that a read may have to ask.
    pub runs: usize,
    /// Whether all of it lies in persistent memory.
    pub in_pm: bool,
    /// Whether no running job takes it.
    pub free: bool,
}

/// The slices of level 0, in key order.
pub fn level0_slices<'a>(state: &State<'a>) -> Vec<Slice<'a>> {
    let tables = state.level(0);
    let slice = |places: Vec<usize>| {
        let range = inputs::hull_of(tables, &places)?;
        Some(Slice {
            runs: depth(tables, &places),
            in_pm: places.iter().all(|n| tables[*n].in_pm),
            free: !state.is_held(&(0..=0), &range),
            tables: places,
            range,
        })
    };
    slices(tables).into_iter().filter_map(slice).collect()
}

/// The job that merges a slice inside persistent memory. `None` if there is nothing to merge, if a part of it
/// lies elsewhere, or if a running job takes it.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_compaction::KeyRange;
/// use thermocline_compaction::pick::{PickOptions, State, Table, level0_slices, pick_internal};
/// let table = |file, first, last| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(first, last),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(file),
///     largest_seqno: SeqNo(file),
///     has_tombstones: false,
///     in_pm: true,
/// };
/// let levels = [vec![table(3, b"a", b"f"), table(2, b"m", b"z"), table(1, b"b", b"c")]];
/// let state = State { levels: &levels, running: &[] };
/// let jobs = level0_slices(&state).into_iter();
/// let jobs: Vec<_> = jobs.map(|slice| pick_internal(&state, &PickOptions::default(), &slice)).collect();
/// let first = jobs[0].as_ref().unwrap();
/// assert_eq!((first.from, first.to, &first.inputs[..]), (0, 0, &[0, 2][..]));
/// assert!(jobs[1].is_none());
/// ```
///
/// # Panics
/// If it is not a slice of this state.
pub fn pick_internal(state: &State<'_>, options: &PickOptions, slice: &Slice<'_>) -> Option<Job> {
    let merges = slice.runs > 1 && slice.in_pm && slice.free;
    merges
        .then(|| {
            job(
                state,
                options,
                (0, 0),
                slice.tables.clone(),
                Reason::Internal,
            )
        })
        .flatten()
}

/// The job that takes slices of level 0 to the base level: the first one that is `wanted` behind where the
/// last job ended, and those beside it that are wanted, too, while the job is not too large.
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_slices(
    state: &State<'_>,
    options: &PickOptions,
    cursors: &Cursors,
    wanted: &dyn Fn(&[usize]) -> bool,
) -> Option<Job> {
    let base = Scores::new(state, options).base_level();
    inputs::of_level0(state, options, base, wanted, &cursors.of(0), Reason::Level0)
}
