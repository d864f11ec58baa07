//! Jobs that somebody asks for: a range to be compacted, a table read in vain.

use thermocline_base::FileId;

use super::inputs::{self, job, overlapped};
use super::{Cursor, Job, PickOptions, Reason, Scores, State, Table};
use crate::KeyRange;

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

/// The job that takes a table out of the way of reads, which often asked it in vain (LevelDB's seek
/// compaction): one level down. `None` if it lies in the last level, if nothing of the next level
/// overlaps it, so that reads would gain nothing, or if it would meet a running job. Of level 0
/// what is older goes along.
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
    let to = match level {
        0 => Scores::new(state, options).base_level(),
        _ if level == options.last_level => return None,
        _ => level + 1,
    };
    let job = job(state, options, (level, to), vec![table], Reason::Reads)?;
    (level == 0 || !job.overlapped.is_empty()).then_some(job)
}
