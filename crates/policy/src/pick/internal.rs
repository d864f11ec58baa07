//! Level 0 slice by slice, for whoever decides about it by cost (`cost`; PM-Blade §IV.B): jobs that merge
//! a slice inside persistent memory, and jobs that take chosen slices to the SSD.
//!
//! Jobs *within* level 0 have it for input and output. They take of a slice what lies in persistent memory and no job
//! takes yet, if all of that is newer than what else the slice has. So of the keys of its outputs nothing else lies in
//! level 0 but what came meanwhile, which is newer, and that, which is older. Both kinds end, too: by an *internal* one what
//! was several runs becomes tables that do not overlap; by a *spill* what was in persistent memory becomes files.
//!
//! # Why level 0 spills
//! A job that takes a slice to the base level writes all anew that the slice overlaps there. Where that is much more than
//! the slice, it is cheaper to write the slice into files of level 0, and to have what the slice gathers in several
//! rounds merged at once. Let the slice have s bytes, and overlap o; let k runs in files be merged with what
//! they overlap. Then a byte of the slice is written `1 + o / s` times on the way to the base level, or `2 + o / (k s)`
//! times. The latter is less if `(k - 1) o > k s`.

use super::inputs::{self, job};
use super::score::Scores;
use super::slices::{depth_of, hull_of, overlapped, slices};
use super::state::{Cursors, Held, Job, PickOptions, Reason, State, Table};
use thermocline_base::KeyRange;

/// A smallest set of tables of level 0 that overlaps no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice<'a> {
    /// As places in level 0, ascending: the newest first.
    pub tables: Vec<usize>,
    /// Of these, those in persistent memory that no running job takes.
    pub pm: Vec<usize>,
    /// Where its keys lie.
    pub range: KeyRange<'a>,
    /// Tables among those that a read may have to ask.
    pub runs: usize,
    /// Tables in files that a read may have to ask, but for those that a job takes down, and with what running jobs may
    /// still write there.
    pub files: usize,
    /// Whether there are any in persistent memory, and all are newer than all others.
    pub on_top: bool,
    /// Whether no running job takes anything of it.
    pub free: bool,
}

/// The slices of level 0, in key order.
pub fn level0_slices<'a>(state: &State<'a>) -> Vec<Slice<'a>> {
    let tables = state.level(0);
    let slice = |places: Vec<usize>| {
        let range = hull_of(tables, &places)?;
        let is_held = |n: &usize| state.is_held(0, &tables[*n]);
        let (pm, others): (Vec<usize>, Vec<usize>) = places
            .iter()
            .partition(|n| tables[**n].in_pm && !is_held(n));
        let newest = others.iter().map(|n| tables[*n].largest_seqno).max();
        let oldest = pm.iter().map(|n| tables[*n].smallest_seqno).min();
        let (within, down): (Vec<&Held>, Vec<&Held>) = state
            .running
            .iter()
            .partition(|held| held.is_within_level0());
        let sinks = |n: &usize| down.iter().any(|held| held.may_take(&tables[*n]));
        let files = others.iter().filter(|n| !tables[**n].in_pm && !sinks(n));
        let files: Vec<usize> = files.copied().collect();
        let coming = within.iter().filter(|held| held.range().overlaps(&range));
        Some(Slice {
            runs: deepest(tables, &pm).map_or(pm.len().min(1), |(depth, _)| depth),
            files: depth_of(tables, &files) + coming.count(),
            on_top: oldest.is_some() && newest < oldest,
            free: !others.iter().any(is_held),
            pm,
            tables: places,
            range,
        })
    };
    slices(tables).into_iter().filter_map(slice).collect()
}

/// Of these tables those that lie deepest over each other, and how many of them a read may have to ask. Only these tables
/// count: two of them do not belong together because both overlap one that is not among them.
fn deepest(tables: &[Table<'_>], places: &[usize]) -> Option<(usize, Vec<usize>)> {
    let some: Vec<Table<'_>> = places.iter().map(|n| tables[*n]).collect();
    let apart = slices(&some).into_iter().map(|slice| {
        let slice: Vec<usize> = slice.into_iter().map(|n| places[n]).collect();
        (depth_of(tables, &slice), slice)
    });
    apart.reduce(|best, next| match next.0 > best.0 {
        true => next,
        false => best,
    })
}

/// The job that merges a slice inside persistent memory: of what may lie beside each other above files the tables that
/// lie deepest over each other, so that what is merged is not taken again. `None` if there is nothing to merge, or if
/// not all else that the slice has is older.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{PickOptions, State, Table, level0_slices, pick_internal};
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
    if !slice.on_top {
        return None;
    }
    let (depth, inputs) = deepest(state.level(0), &slice.pm)?;
    let merges = depth > 1;
    merges
        .then(|| job(state, options, (0, 0), inputs, Reason::Internal))
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

/// The job that takes what slices of level 0 have in persistent memory into files of level 0: of the slices that are
/// `wanted` the first one behind where the last job ended, and those beside it. `None` if there is none where that is
/// right, or, unless it `must` be, if to take it to the base level costs less (see the module's text).
pub fn pick_spill(
    state: &State<'_>,
    options: &PickOptions,
    cursors: &Cursors,
    wanted: &dyn Fn(&[usize]) -> bool,
    must: bool,
) -> Option<Job> {
    let slices = level0_slices(state);
    let files = state.level0_bytes(false);
    let room = options.level0_bytes.saturating_sub(files);
    let limited = PickOptions {
        job_bytes_max: options.job_bytes_max.min(room),
        ..*options
    };
    let fits = |slice: &&Slice<'_>| slice.on_top && slice.files + 1 < options.level0_tables;
    let fit: Vec<&[usize]> = slices
        .iter()
        .filter(fits)
        .map(|slice| &slice.tables[..])
        .collect();
    let wanted = |slice: &[usize]| wanted(slice) && fit.contains(&slice);
    let cursor = cursors.of(0);
    let job = inputs::of_level0(state, &limited, 0, &wanted, &cursor, Reason::Spill)?;
    let base = state.level(Scores::new(state, options).base_level());
    let below = &base[overlapped(base, &job.holds.range())];
    let overlapped: u64 = below.iter().map(|table| table.bytes).sum();
    let runs = options.level0_tables as u128;
    let pays = u128::from(overlapped) * runs.saturating_sub(1) > u128::from(job.bytes) * runs;
    ((pays || must) && job.bytes < room).then_some(job)
}
