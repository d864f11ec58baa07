//! The inputs of a job: what must be taken along, and what may be.

use std::ops::RangeInclusive;

use thermocline_base::SeqNo;

use super::slices::{depths, hull_of, overlapped, slices};
use super::state::{Cursor, Held, Job, PickOptions, Reason, State, Table};
use thermocline_base::KeyRange;

fn bytes_of(tables: &[Table<'_>], places: &[usize]) -> u64 {
    places.iter().map(|n| tables[*n].bytes).sum()
}

fn seqnos_of(tables: &[Table<'_>], places: &[usize]) -> RangeInclusive<SeqNo> {
    let oldest = places.iter().map(|n| tables[*n].smallest_seqno).min();
    let newest = places.iter().map(|n| tables[*n].largest_seqno).max();
    oldest.unwrap_or(SeqNo(0))..=newest.unwrap_or(SeqNo::MAX)
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
/// would meet a running one, or if it stays within level 0 and does not lie above all else there.
pub(super) fn job(
    state: &State<'_>,
    options: &PickOptions,
    (from, to): (usize, usize),
    mut inputs: Vec<usize>,
    reason: Reason,
) -> Option<Job> {
    let (upper, lower) = (state.level(from), state.level(to));
    let hull = match from {
        // What is older stays below them.
        0 if to == 0 => hull_of(upper, &inputs)?,
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
    let seqnos = match from {
        0 => seqnos_of(upper, &inputs),
        _ => Held::ANY_AGE,
    };
    if (from, to) == (0, 0) {
        // Its tables may have what any of the inputs has.
        let mut others = (0..upper.len()).filter(|n| inputs.binary_search(n).is_err());
        let is_under = |table: &Table<'_>| table.largest_seqno < *seqnos.start();
        if others.any(|n| upper[n].range.overlaps(&hull) && !is_under(&upper[n])) {
            return None;
        }
    }
    let holds = Held {
        levels: from..=to,
        first: all.first.to_vec(),
        last: all.last.to_vec(),
        open: all.open,
        seqnos,
        stays: reason == Reason::Internal,
    };
    if state.running.iter().any(|held| held.collides(&holds)) {
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
        && inputs.iter().all(|n| !upper[*n].in_pm)
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
        ends: Cursor {
            key: hull.last.to_vec(),
            open: hull.open,
        },
        holds,
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

/// The job of level 0 that is due: of the slices that are too deep, or of any that has what level 0 has too
/// many bytes of.
pub(super) fn due_of_level0(
    state: &State<'_>,
    options: &PickOptions,
    base: usize,
    cursor: &Cursor,
) -> Option<Job> {
    let tables = state.level(0);
    let is_deep = |slice: &[usize]| {
        let (files, pm) = depths(tables, slice);
        files >= options.level0_tables || pm >= options.level0_pm_tables
    };
    let of = |wanted: &dyn Fn(&[usize]) -> bool| {
        of_level0(state, options, base, wanted, cursor, Reason::Level0)
    };
    let large = |in_pm: bool, most: u64| {
        let is_large = state.level0_bytes(in_pm) >= most;
        let has_some = |slice: &[usize]| slice.iter().any(|n| tables[*n].in_pm == in_pm);
        is_large.then(|| of(&has_some)).flatten()
    };
    of(&is_deep)
        .or_else(|| large(true, options.level0_pm_bytes))
        .or_else(|| large(false, options.level0_bytes))
}

/// The job of level 0: of the slices that are `wanted` the first behind the cursor that can be taken, and
/// those behind it while the job is not too large. A slice is taken whole, so that what lies below it is
/// merged with all that is new there at once, not with one run after the other. If the job stays in level 0,
/// only what lies in persistent memory is taken.
pub(super) fn of_level0(
    state: &State<'_>,
    options: &PickOptions,
    to: usize,
    wanted: &dyn Fn(&[usize]) -> bool,
    cursor: &Cursor,
    reason: Reason,
) -> Option<Job> {
    let tables = state.level(0);
    let slices = slices(tables);
    let taken = |slice: &[usize]| -> Vec<usize> {
        let free = |n: &&usize| tables[**n].in_pm && !state.is_held(0, &tables[**n]);
        let places = slice.iter().filter(|n| to > 0 || free(n));
        places.copied().collect()
    };
    let is_before = |slice: &Vec<usize>| {
        slice
            .iter()
            .any(|n| cursor.has_passed(tables[*n].range.first))
    };
    let next = slices.partition_point(is_before);
    let round = (next..slices.len()).chain(0..next);
    let is_wanted = |n: &usize| wanted(&slices[*n]);
    let of = |inputs| job(state, options, (0, to), inputs, reason);
    let mut firsts = round.filter(is_wanted);
    let (first, mut best) = firsts.find_map(|n| Some((n, of(taken(&slices[n]))?)))?;
    for n in (first + 1..slices.len()).take_while(is_wanted) {
        let mut inputs = [best.inputs.clone(), taken(&slices[n])].concat();
        inputs.sort_unstable();
        match of(inputs) {
            Some(more) if more.bytes <= options.job_bytes_max => best = more,
            _ => break,
        }
    }
    Some(best)
}

/// The job of a level from 1 on: the first table behind the cursor that can be taken, and what
/// costs nothing more.
pub(super) fn of_level(
    state: &State<'_>,
    options: &PickOptions,
    level: usize,
    cursor: &Cursor,
) -> Option<Job> {
    let tables = state.level(level);
    let next = tables.partition_point(|table| cursor.has_passed(table.range.first));
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
