//! Jobs that no level's size asks for: a range to be compacted, a table read in vain, room to be made.

use thermocline_base::FileId;

use super::inputs::{self, job};
use super::score::Scores;
use super::slices::{overlapped, slices};
use super::state::{Cursor, Job, PickOptions, Reason, State, Table};
use thermocline_base::KeyRange;

/// What is to be done next for a range that somebody wants compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manual {
    /// This job, and then ask again.
    Job(Box<Job>),
    /// Running jobs hold what is left; when one has ended, ask again.
    Wait,
    /// Nothing is left: the range lies in one level from 1 on, or nowhere.
    Done,
}

/// The next job for `range`, downwards until one level has all of it.
///
/// If tables are left there which have tombstones, though nothing lies below them, they are
/// rewritten in place, provided that their files have numbers below `rewrite_before`. The caller
/// gives the next number as of when it begins, so that each table is rewritten once, whether its
/// tombstones could be dropped or not.
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_range(
    state: &State<'_>,
    options: &PickOptions,
    range: &KeyRange<'_>,
    rewrite_before: FileId,
) -> Manual {
    let base = Scores::new(state, options).base_level();
    let level0 = state.level(0);
    let is_within = |table: &Table<'_>| table.range.overlaps(range);
    if level0.iter().any(is_within) {
        let wanted = |slice: &[usize]| slice.iter().any(|n| is_within(&level0[*n]));
        let job = inputs::of_level0(
            state,
            options,
            base,
            &wanted,
            &Cursor::default(),
            Reason::Manual,
        );
        return job.map_or(Manual::Wait, |job| Manual::Job(Box::new(job)));
    }
    let within = |level: usize| overlapped(state.level(level), range);
    let mut levels = (1..=options.last_level).filter(|level| !within(*level).is_empty());
    let Some(level) = levels.next() else {
        return Manual::Done;
    };
    if levels.next().is_some() {
        let mut jobs = within(level)
            .filter_map(|n| job(state, options, (level, level + 1), vec![n], Reason::Manual));
        let job = jobs
            .next()
            .map(|job| Box::new(inputs::widened(state, options, job)));
        return job.map_or(Manual::Wait, Manual::Job);
    }
    rewrite(state, options, level, within(level), rewrite_before)
}

fn rewrite(
    state: &State<'_>,
    options: &PickOptions,
    level: usize,
    within: std::ops::Range<usize>,
    before: FileId,
) -> Manual {
    let tables = state.level(level);
    let mut is_left = false;
    for n in within {
        // A table may reach out of the range and have something below it there; that is another
        // range's matter.
        let below = overlapped(state.level(level + 1), &tables[n].range);
        if tables[n].has_tombstones && tables[n].file < before && below.is_empty() {
            is_left = true;
            if let Some(job) = job(state, options, (level, level), vec![n], Reason::Manual) {
                return Manual::Job(Box::new(job));
            }
        }
    }
    match is_left {
        true => Manual::Wait,
        false => Manual::Done,
    }
}

/// Whether a deeper level has something in `range`.
fn is_above(state: &State<'_>, options: &PickOptions, level: usize, range: &KeyRange<'_>) -> bool {
    let mut below = level + 1..=options.last_level;
    below.any(|deeper| !overlapped(state.level(deeper), range).is_empty())
}

/// The job that makes room where the disk has none left: it brings tombstones nearer to what they hide.
/// The upper levels come first, for what was deleted last lies there, and a slice of level 0 is taken
/// whole. Tables with tombstones that have nothing below them are rewritten last, provided that their
/// files have numbers below `rewrite_before`, as in [`pick_range`]. Jobs of more than `bytes_max` bytes
/// are passed over. `None` if no tombstone is left that could sink, or running jobs hold what is.
///
/// Each job but a rewrite moves data down, so that this ends.
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_room(
    state: &State<'_>,
    options: &PickOptions,
    rewrite_before: FileId,
    bytes_max: u64,
) -> Option<Job> {
    let reason = Reason::Room;
    let base = Scores::new(state, options).base_level();
    let level0 = state.level(0);
    let fits = |job: &Job| job.trivial || job.bytes <= bytes_max;
    let slices = slices(level0).into_iter();
    let mut slices = slices.filter(|slice| slice.iter().any(|n| level0[*n].has_tombstones));
    let of_level0 = slices.find_map(|slice| {
        let job = job(state, options, (0, base), slice, reason);
        job.filter(fits)
    });
    let of_levels = |sinks: bool| {
        let mut tables = (1..=options.last_level).flat_map(|level| {
            state
                .level(level)
                .iter()
                .enumerate()
                .map(move |t| (level, t))
        });
        tables.find_map(|(level, (n, table))| {
            let above = is_above(state, options, level, &table.range);
            let due = match sinks {
                true => above,
                false => !above && table.file < rewrite_before,
            };
            let to = if sinks { level + 1 } else { level };
            let job = || job(state, options, (level, to), vec![n], reason).filter(fits);
            (table.has_tombstones && due).then(job).flatten()
        })
    };
    of_level0
        .or_else(|| of_levels(true))
        .or_else(|| of_levels(false))
}

/// The job that takes a table out of the way of reads, which often asked it in vain (LevelDB's seek
/// compaction): one level down, or rewritten if it has tombstones and nothing lies below it. `None` if
/// reads would gain nothing, since nothing of the next level overlaps it, or if it would meet a running
/// job. Of level 0 what is older goes along.
///
/// # Panics
/// If a level is deeper than the last one, or has no such table.
pub fn pick_read(
    state: &State<'_>,
    options: &PickOptions,
    level: usize,
    table: usize,
) -> Option<Job> {
    assert!(
        table < state.level(level).len(),
        "level {level} has no table {table}"
    );
    let read = state.level(level)[table];
    let to = match level {
        0 => Scores::new(state, options).base_level(),
        _ if read.has_tombstones && !is_above(state, options, level, &read.range) => level,
        _ if level == options.last_level => return None,
        _ => level + 1,
    };
    let job = job(state, options, (level, to), vec![table], Reason::Reads)?;
    (level == 0 || to == level || !job.overlapped.is_empty()).then_some(job)
}
