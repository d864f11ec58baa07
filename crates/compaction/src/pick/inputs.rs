//! The inputs of a job: what must be taken along, and what may be.

use std::ops::RangeInclusive;

use super::{Held, Job, PickOptions, Reason, State, Table};
use crate::KeyRange;

/// The places in a level from 1 on of the tables that overlap `range`.
pub(super) fn overlapped(tables: &[Table<'_>], range: &KeyRange<'_>) -> std::ops::Range<usize> {
    let first = tables.partition_point(|table| table.range.ends_before(range.first));
    let len = tables[first..].partition_point(|table| !range.ends_before(table.range.first));
    first..first + len
}

fn bytes_of(tables: &[Table<'_>], places: &[usize]) -> u64 {
    places.iter().map(|n| tables[*n].bytes).sum()
}

fn hull_of<'a>(tables: &[Table<'a>], places: &[usize]) -> Option<KeyRange<'a>> {
    let ranges = places.iter().map(|n| tables[*n].range);
    ranges.reduce(|a, b| a.hull(&b))
}

/// Adds to `places` of level 0 all older tables that the hull of all overlaps.
fn with_older<'a>(tables: &[Table<'a>], places: &mut Vec<usize>) -> Option<KeyRange<'a>> {
    loop {
        let hull = hull_of(tables, places)?;
        let newest = *places.iter().min()?;
        let older = newest..tables.len();
        let more =
            older.filter(|n| tables[*n].range.overlaps(&hull) && places.binary_search(n).is_err());
        let more: Vec<usize> = more.collect();
        if more.is_empty() {
            return Some(hull);
        }
        places.extend(more);
        places.sort_unstable();
    }
}

/// The job from level `from` to `to` that has these inputs and all that they need; `None` if it
/// would meet a running one.
pub(super) fn job(
    state: &State<'_>,
    options: &PickOptions,
    (from, to): (usize, usize),
    mut inputs: Vec<usize>,
    reason: Reason,
) -> Option<Job> {
    let (upper, lower) = (state.level(from), state.level(to));
    let hull = match from {
        0 => with_older(upper, &mut inputs)?,
        _ => {
            let hull = hull_of(upper, &inputs)?;
            inputs = overlapped(upper, &hull).collect();
            hull
        }
    };
    debug_assert!((from + 1..to).all(|level| state.level(level).is_empty()));
    let overlapped: Vec<usize> = match from == to {
        true => Vec::new(),
        false => overlapped(lower, &hull).collect(),
    };
    let all = hull_of(lower, &overlapped).map_or(hull, |range| hull.hull(&range));
    let levels: RangeInclusive<usize> = from..=to;
    if state.is_held(&levels, &all) {
        return None;
    }
    let bytes = bytes_of(upper, &inputs) + bytes_of(lower, &overlapped);
    let apart = from > 0
        || inputs.iter().enumerate().all(|(n, a)| {
            inputs[..n]
                .iter()
                .all(|b| !upper[*a].range.overlaps(&upper[*b].range))
        });
    let drops = (to == options.last_level || reason == Reason::Manual)
        && inputs.iter().any(|n| upper[*n].has_tombstones);
    let trivial = from != to
        && overlapped.is_empty()
        && apart
        && !drops
        && inputs
            .iter()
            .all(|n| is_light(state, options, to, &upper[*n].range));
    Some(Job {
        reason,
        from,
        to,
        inputs,
        overlapped,
        bytes,
        trivial,
        ends: hull.last.to_vec(),
        holds: Held {
            levels,
            first: all.first.to_vec(),
            last: all.last.to_vec(),
            open: all.open,
        },
    })
}

/// Whether a table in level `to` would overlap few enough bytes of the next one.
fn is_light(state: &State<'_>, options: &PickOptions, to: usize, range: &KeyRange<'_>) -> bool {
    let below = state.level(to + 1);
    let bytes: u64 = below[overlapped(below, range)]
        .iter()
        .map(|table| table.bytes)
        .sum();
    bytes <= options.grandparent_bytes_max
}

/// The job of these tables of level 0: from the oldest on, as many as can be.
pub(super) fn of_level0(
    state: &State<'_>,
    options: &PickOptions,
    base: usize,
    newest_first: impl DoubleEndedIterator<Item = usize>,
    reason: Reason,
) -> Option<Job> {
    let mut best: Option<Job> = None;
    for n in newest_first.rev() {
        let mut inputs = best
            .as_ref()
            .map_or_else(Vec::new, |job| job.inputs.clone());
        if inputs.binary_search(&n).is_ok() {
            continue;
        }
        inputs.insert(0, n);
        match job(state, options, (0, base), inputs, reason) {
            Some(more) if best.is_none() || more.bytes <= options.job_bytes_max => {
                best = Some(more)
            }
            // What is newer may be apart from running jobs, or small.
            _ => {}
        }
    }
    best
}

/// The job of a level from 1 on: the first table behind the cursor that can be taken, and what
/// costs nothing more.
pub(super) fn of_level(
    state: &State<'_>,
    options: &PickOptions,
    level: usize,
    cursor: &[u8],
) -> Option<Job> {
    let tables = state.level(level);
    let next = tables.partition_point(|table| table.range.first <= cursor);
    let round = (next..tables.len()).chain(0..next);
    let mut jobs = round.filter_map(|n| {
        job(
            state,
            options,
            (level, level + 1),
            vec![n],
            Reason::LevelSize,
        )
    });
    let first = jobs.next()?;
    Some(widened(state, options, first))
}

/// With those tables of its level that overlap no more of the next one than it does already: they
/// would otherwise be merged with the same tables once more.
pub(super) fn widened(state: &State<'_>, options: &PickOptions, first: Job) -> Job {
    let within = overlapped(state.level(first.from), &first.holds.range());
    let wide = job(
        state,
        options,
        (first.from, first.to),
        within.collect(),
        first.reason,
    );
    let same = |wide: &Job| {
        wide.overlapped == first.overlapped && wide.bytes <= options.job_bytes_max.max(first.bytes)
    };
    wide.filter(same).unwrap_or(first)
}
