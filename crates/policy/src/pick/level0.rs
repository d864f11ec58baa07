//! Level 0 slice by slice, for decisions by cost (`cost`; PM-Blade §IV.B): jobs that merge a slice inside persistent
//! memory, and jobs that take chosen slices to the SSD.
//!
//! Jobs *within* level 0 have it for input and output. Of a slice they take the tables in persistent memory that no job
//! takes yet, if all of these are newer than the rest of the slice. So, for the keys of the outputs, level 0 has
//! nothing else but what came meanwhile, which is newer, and that rest, which is older. Both kinds end, too: an
//! *internal* job turns several runs into tables that do not overlap; a *spill* turns tables in persistent memory into
//! files.
//!
//! # Why level 0 spills
//! A job that takes a slice to the base level writes everything anew that the slice overlaps there. Where that is much
//! more than the slice, it is cheaper to write the slice into files of level 0, and to merge at once what the slice
//! gathers in several rounds. Let the slice have s bytes, and overlap o; let k runs in files be merged with what they
//! overlap. Then a byte of the slice is written `1 + o / s` times on the way to the base level, or `2 + o / (k s)`
//! times. The latter is less if `(k - 1) o > k s`.
//!
//! # What a range of a flush takes along
//! A range of memtables takes tables along when it is written, so that a range that is not wanted in persistent
//! memory leaves it as a whole (the law of age: `pick`, invariant 2).
//!
//! What is written comes from above level 0. So everything that it is merged with has to lie above everything that
//! stays beside it.
//! Two things can be done with a range:
//! - To level 0, in files: it takes along the tables that lie there in persistent memory, above everything else. So
//!   less lies in persistent memory, and one run in files takes the place of several: a spill
//!   ([`pick_spill`](super::pick_spill)), and a flush, in one.
//! - To the base level: it takes along all of level 0, and what the base level has there. That is done where little
//!   lies below: where spills do not pay by the reckoning above, and only up to a part of that amount, since flushes
//!   wait for this one.
//!
//! # Ranges that sink
//! Where flushes are large and come seldom, each meets all of the base level anyhow (FlatLSM §4.4). Writing it into
//! level 0 first would only write it once more. So its ranges go to the base level ([`pick_sinking`]), unless that has
//! much more than they bring.

use std::collections::BTreeSet;

use thermocline_base::{KeyRange, SeqNo};

use super::jobs::{self, job};
use super::levels::Table;
use super::score::Scores;
use super::slices::{depth, depth_of, slices};
use super::state::{Cursors, Held, Job, PickOptions, Reason, State};
use crate::tuning::{ALONG_MARGIN, SINKING_TIMES};

/// A smallest set of tables of level 0 that overlaps no other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice<'a> {
    /// As places in level 0, ascending: the newest first.
    pub tables: Vec<usize>,
    /// Of these, those in persistent memory that no running job takes.
    pub pm: Vec<usize>,
    /// Where its keys lie.
    pub range: KeyRange<&'a [u8]>,
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
    let tables = state.level0();
    let slice = |places: Vec<usize>| {
        let range = state.level(0).hull_of(&places)?;
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
        let writes = |held: &&&Held| !held.rests && held.range.overlaps(&range);
        let coming = within.iter().filter(writes);
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

/// The tables among these that lie deepest over each other, and how many of them a read may have to ask. Only these
/// tables count: two of them do not belong together just because both overlap a table that is not among these.
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

/// The job that merges a slice inside persistent memory. Its tables there may form several groups that lie beside each
/// other, above the same files. The job takes the group whose tables lie deepest over each other, so what is merged is
/// not taken again. `None` if there is nothing to merge, or if not everything else in the slice is older.
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
///     entries: 1,
///     deletes: 0,
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
    let (depth, inputs) = deepest(state.level0(), &slice.pm)?;
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
    jobs::sinks(state, options, wanted, &cursors.of(0))
}

/// The job that takes what slices of level 0 have in persistent memory into files of level 0: the first of the `wanted`
/// slices behind where the last job ended, and those beside it. `None` if there is no slice for which that is right.
/// Also `None`, unless it `must` be, if taking them to the base level costs less (see the module's text).
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
    let fit: BTreeSet<&[usize]> = slices
        .iter()
        .filter(fits)
        .map(|slice| &slice.tables[..])
        .collect();
    let wanted = |slice: &[usize]| wanted(slice) && fit.contains(slice);
    let cursor = cursors.of(0);
    let job = jobs::of_level0(state, &limited, 0, &wanted, &cursor, Reason::Spill)?;
    let base = state.level(Scores::new(state, options).base_level());
    let overlapped = base.bytes_at(base.overlapped(&job.holds.range.borrowed()));
    let runs = options.level0_tables as u128;
    let pays = u128::from(overlapped) * runs.saturating_sub(1) > u128::from(job.bytes) * runs;
    ((pays || must) && job.bytes < room).then_some(job)
}

/// How a range is written, and what with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Along {
    /// The level of the output: 0 or the base level.
    pub to: usize,
    /// Of level 0, as places there, ascending: the newest first. Of each what lies in the range.
    pub inputs: Vec<usize>,
    /// Of the base level, if that is where it goes, as places there: all of each.
    pub overlapped: Vec<usize>,
    /// Whether of these, too, only what lies in the range is taken: the next range takes the rest.
    pub is_cut: bool,
    /// What it holds meanwhile.
    pub holds: Held,
}

/// What a `range` of a flush takes along out of persistent memory. `bytes` of it lie in memtables that are newer than
/// all tables. It goes to the base level if little lies there, the job is not too large and no running job is in the
/// way; else it goes into files of level 0. `None` if level 0 then has nothing in persistent memory to take along, or
/// running jobs are in the way; or, unless it `must` be, where level 0 has as many runs in files there as it may have.
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
///     entries: 1,
///     deletes: 0,
///     in_pm: file > 2,
/// };
/// let level0 = vec![table(4, b"a", b"f", 10), table(3, b"m", b"z", 10), table(2, b"b", b"c", 10)];
/// let along = |below| {
///     let levels = [level0.clone(), vec![table(1, b"a", b"z", below)]];
///     let options = PickOptions { last_level: 1, ..PickOptions::default() };
///     let range = KeyRange::until(&b"a"[..], b"n");
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
    range: &KeyRange<&[u8]>,
    bytes: u64,
    must: bool,
) -> Option<Along> {
    let (tables, base) = (state.level0(), Scores::new(state, options).base_level());
    let of_range = (0..tables.len()).filter(|n| tables[*n].range.overlaps(range));
    let all: Vec<usize> = of_range.collect();
    let top = on_top(state, &all);
    let sum = |places: &[usize]| places.iter().map(|n| tables[*n].bytes).sum::<u64>();
    let lower = state.level(base);
    let below = lower.bytes_at(lower.overlapped(range));
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

/// Whether a range of a flush goes to the base level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sinking {
    /// It does, with this.
    Goes(Along),
    /// Running jobs are in the way.
    Meets,
    /// What it would be merged with is too much for what it brings, or for the disk.
    Costs,
}

/// What a range of a flush takes along to the base level: everything that level 0 and the base level have of its keys.
/// About `bytes` of `range` lie in memtables, which are newer than all tables; the disk has `room` for so many.
///
/// ```
/// use thermocline_base::{FileId, KeyRange, SeqNo};
/// use thermocline_policy::pick::{PickOptions, Sinking, State, Table, pick_sinking};
/// let table = |file, first, last| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(first, last),
///     bytes: 100,
///     smallest_seqno: SeqNo(file),
///     largest_seqno: SeqNo(file),
///     entries: 1,
///     deletes: 0,
///     in_pm: false,
/// };
/// let below: Vec<Table> = vec![table(1, b"a", b"g"), table(2, b"h", b"p"), table(3, b"q", b"z")];
/// let levels = [vec![], below];
/// let options = PickOptions { last_level: 1, ..PickOptions::default() };
/// let sink = |from, to, bytes| {
///     let range = KeyRange::until(from, to);
///     pick_sinking(&State { levels: &levels, running: &[] }, &options, &range, bytes, 1000)
/// };
/// let Sinking::Goes(along) = sink(&b"c"[..], b"k", 100) else { panic!() };
/// assert_eq!((along.to, along.overlapped), (1, vec![0, 1]));
/// // Two tables of 100 bytes are too much for 10 bytes, and 1000 bytes for a disk with no more room.
/// assert_eq!(sink(b"c", b"k", 10), Sinking::Costs);
/// assert_eq!(sink(b"c", b"k", 1000), Sinking::Costs);
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_sinking(
    state: &State<'_>,
    options: &PickOptions,
    range: &KeyRange<&[u8]>,
    bytes: u64,
    room: u64,
) -> Sinking {
    let (tables, base) = (state.level0(), Scores::new(state, options).base_level());
    let all: Vec<usize> = (0..tables.len())
        .filter(|n| tables[*n].range.overlaps(range))
        .collect();
    let level0: u64 = all.iter().map(|n| tables[*n].bytes).sum();
    let lower = state.level(base);
    let below = lower.bytes_at(lower.overlapped(range));
    let brought = bytes.saturating_add(level0);
    let is_dear = below > brought.saturating_mul(SINKING_TIMES);
    if is_dear || brought.saturating_add(below) > room {
        return Sinking::Costs;
    }
    match to_base(state, range, base, &all) {
        Some(along) => Sinking::Goes(Along {
            is_cut: true,
            ..along
        }),
        None => Sinking::Meets,
    }
}

/// The places among these in level 0 whose tables lie in persistent memory, are taken by no running job, and are newer
/// than all others of these.
fn on_top(state: &State<'_>, places: &[usize]) -> Vec<usize> {
    let tables = state.level0();
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

fn to_files(state: &State<'_>, range: &KeyRange<&[u8]>, inputs: Vec<usize>) -> Option<Along> {
    let taken = || inputs.iter().map(|n| &state.level0()[*n]);
    let oldest = taken().map(|table| table.smallest_seqno).min()?;
    free(
        state,
        Along {
            to: 0,
            holds: Held {
                levels: 0..=0,
                range: range.owned(),
                // What is written with it is newer than all that there is.
                seqnos: oldest..=SeqNo::MAX,
                stays: false,
                rests: false,
            },
            inputs,
            overlapped: Vec::new(),
            is_cut: false,
        },
    )
}

/// `None` if a running job has one of these.
fn to_base(
    state: &State<'_>,
    range: &KeyRange<&[u8]>,
    base: usize,
    inputs: &[usize],
) -> Option<Along> {
    let is_held = |table: &Table<'_>| state.is_held(0, table);
    if inputs.iter().any(|n| is_held(&state.level0()[*n])) {
        return None;
    }
    let lower = state.level(base);
    let places: Vec<usize> = lower.overlapped(range).collect();
    let hull = lower.hull_of(&places);
    let hull = hull.map_or(*range, |below| below.hull(*range));
    free(
        state,
        Along {
            to: base,
            inputs: inputs.to_vec(),
            overlapped: places,
            is_cut: false,
            holds: Held {
                levels: 0..=base,
                range: hull.owned(),
                seqnos: Held::ANY_AGE,
                stays: false,
                rests: false,
            },
        },
    )
}

/// It, if it meets no running job.
fn free(state: &State<'_>, along: Along) -> Option<Along> {
    let meets = state.running.iter().any(|held| held.collides(&along.holds));
    (!meets).then_some(along)
}
