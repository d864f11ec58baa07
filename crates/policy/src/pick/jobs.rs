//! Jobs: what their inputs need, those that a level's size asks for, and those that nothing's size does: a range to be compacted, a
//! table read in vain, room to be made.

use std::ops::{Range, RangeInclusive};

use thermocline_base::{FileId, KeyRange, SeqNo};

use super::levels::{Level, Table};
use super::score::Scores;
use super::slices::{depths, slices};
use super::state::{Cursor, Cursors, Held, Job, PickOptions, Reason, State};

pub(super) fn seqnos_of(tables: &[Table<'_>], places: &[usize]) -> RangeInclusive<SeqNo> {
    let oldest = places.iter().map(|n| tables[*n].smallest_seqno).min();
    let newest = places.iter().map(|n| tables[*n].largest_seqno).max();
    oldest.unwrap_or(SeqNo(0))..=newest.unwrap_or(SeqNo::MAX)
}

/// Adds to `places` of level 0 all older tables that the hull of all overlaps.
fn with_older<'a>(tables: Level<'a>, places: &mut Vec<usize>) -> Option<KeyRange<&'a [u8]>> {
    loop {
        let hull = tables.hull_of(places)?;
        let newest = *places.iter().min()?;
        let overlaps = |n: &usize| tables.table(*n).range.overlaps(&hull);
        let older = newest..tables.len();
        let more = older.filter(|n| overlaps(n) && places.binary_search(n).is_err());
        let more: Vec<usize> = more.collect();
        if more.is_empty() {
            return Some(hull);
        }
        places.extend(more);
        places.sort_unstable();
    }
}

/// The job from level `from` to `to` that has these inputs and all that they need; `None` if it
/// would meet a running one, has more bytes than a job may have, or stays within level 0 and does not lie above all else there.
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
        0 if to == 0 => upper.hull_of(&inputs)?,
        0 => with_older(upper, &mut inputs)?,
        _ => {
            let hull = upper.hull_of(&inputs)?;
            inputs = upper.overlapped(&hull).collect();
            hull
        }
    };
    debug_assert!((from + 1..to).all(|level| state.level(level).is_empty()));
    let overlapped: Vec<usize> = match from == to {
        true => Vec::new(),
        false => lower.overlapped(&hull).collect(),
    };
    let below = lower.hull_of(&overlapped);
    let all = below.map_or(hull, |range| hull.hull(range));
    let seqnos = match from {
        0 => seqnos_of(state.level0(), &inputs),
        _ => Held::ANY_AGE,
    };
    if (from, to) == (0, 0) {
        // Its tables may have what any of the inputs has.
        let numbered = state.level0().iter().enumerate();
        let mut others = numbered.filter(|(n, _)| inputs.binary_search(n).is_err());
        let is_under = |table: &Table<'_>| table.largest_seqno < *seqnos.start();
        if others.any(|(_, table)| table.range.overlaps(&hull) && !is_under(table)) {
            return None;
        }
    }
    let holds = Held {
        levels: from..=to,
        range: all.owned(),
        seqnos,
        stays: reason == Reason::Internal,
        rests: false,
    };
    if state.running.iter().any(|held| held.collides(&holds)) {
        return None;
    }
    let below = lower.bytes_at(overlapped.iter().copied());
    let bytes = upper.bytes_at(inputs.iter().copied()).saturating_add(below);
    let moves = from != to && overlapped.is_empty();
    let trivial = moves && is_trivial(state, options, (from, to, reason), &inputs);
    if !trivial && options.bytes_max.is_none_or(|most| bytes > most) {
        return None;
    }
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

/// Whether inputs that overlap nothing in level `to` need only be moved there.
fn is_trivial(
    state: &State<'_>,
    options: &PickOptions,
    (from, to, reason): (usize, usize, Reason),
    inputs: &[usize],
) -> bool {
    let upper = state.level(from);
    let apart = from > 0
        || inputs.iter().enumerate().all(|(n, a)| {
            let mut newer = inputs[..n].iter();
            newer.all(|b| !upper.table(*a).range.overlaps(&upper.table(*b).range))
        });
    let by_hand = reason == Reason::Manual;
    let drops = (to == options.last_level || by_hand)
        && inputs.iter().any(|n| upper.table(*n).deletes > 0)
        || by_hand
            && inputs
                .iter()
                .any(|n| is_filtered(options, &upper.table(*n)));
    let light = |n: &usize| is_light(state, options, to, &upper.table(*n).range);
    let in_file = |n: &usize| !upper.table(*n).in_pm;
    apart && !drops && inputs.iter().all(in_file) && inputs.iter().all(light)
}

/// Whether something of a table may go because the family's filter says so, or its TTL.
fn is_filtered(options: &PickOptions, table: &Table<'_>) -> bool {
    let expired = options.expired.as_ref();
    options.is_filtered || expired.is_some_and(|expired| expired.has_some(table))
}

/// Whether a table in level `to` would overlap few enough bytes of the next one.
fn is_light(state: &State<'_>, options: &PickOptions, to: usize, range: &KeyRange<&[u8]>) -> bool {
    let below = state.level(to + 1);
    below.bytes_at(below.overlapped(range)) <= options.grandparent_bytes_max
}

/// The job of level 0 that is due: of the slices that are too deep, or of any that has what level 0 has too
/// many bytes of.
fn due_of_level0(state: &State<'_>, options: &PickOptions, cursor: &Cursor) -> Option<Job> {
    let tables = state.level0();
    let is_deep = |slice: &[usize]| {
        let (files, pm) = depths(tables, slice);
        files >= options.level0_tables || pm >= options.level0_pm_tables
    };
    let of = |wanted: &dyn Fn(&[usize]) -> bool| sinks(state, options, wanted, cursor);
    let large = |in_pm: bool, most: u64| {
        let is_large = state.level0_bytes(in_pm) >= most;
        let has_some = |slice: &[usize]| slice.iter().any(|n| tables[*n].in_pm == in_pm);
        is_large.then(|| of(&has_some)).flatten()
    };
    of(&is_deep)
        .or_else(|| large(true, options.level0_pm_bytes))
        .or_else(|| large(false, options.level0_bytes))
}

/// The job that takes slices of level 0 to the base level; or to the level above it, which begins to be used so, where the
/// base level is so large beside what leaves level 0 that one between pays ([`Scores::pays_between`]).
pub(super) fn sinks(
    state: &State<'_>,
    options: &PickOptions,
    wanted: &dyn Fn(&[usize]) -> bool,
    cursor: &Cursor,
) -> Option<Job> {
    let scores = Scores::new(state, options);
    let base = scores.base_level();
    let to = |level| of_level0(state, options, level, wanted, cursor, Reason::Level0);
    let job = to(base)?;
    let below = state.level(base).bytes_at(job.overlapped.iter().copied());
    match scores.pays_between(options, job.bytes - below, below) {
        true => to(base - 1),
        false => Some(job),
    }
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
    let tables = state.level0();
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
    let next = tables.position(0, |table| cursor.has_passed(table.range.first));
    // A job of a table that overlaps what another one holds there, or in the next level, would meet it, whatever else it takes.
    let held = state.held_places(level, &(level..=level + 1));
    let starts = [0].into_iter().chain(held.iter().map(|held| held.end));
    let ends = held.iter().map(|held| held.start).chain([tables.len()]);
    let free: Vec<Range<usize>> = starts.zip(ends).map(|(start, end)| start..end).collect();
    let behind = free.iter().map(|free| free.start.max(next)..free.end);
    let before = free.iter().map(|free| free.start..free.end.min(next));
    let round = behind.chain(before).flatten();
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
    let upper = state.level(first.from);
    let within = upper.overlapped(&first.holds.range.borrowed());
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

/// The next job, if there is one: that of the level with the highest score which can have one.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{Cursors, PickOptions, State, Table, pick};
/// let table = |file| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(b"a", b"m"),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(file * 10),
///     largest_seqno: SeqNo(file * 10 + 9),
///     entries: 1,
///     deletes: 0,
///     in_pm: false,
/// };
/// let levels = [vec![table(4), table(3), table(2), table(1)]];
/// let state = State { levels: &levels, running: &[] };
/// let job = pick(&state, &PickOptions::default(), &Cursors::default()).unwrap();
/// assert_eq!((job.from, job.to, job.inputs), (0, 6, vec![0, 1, 2, 3]));
/// // While it runs there is nothing else to do.
/// let state = State { levels: &levels, running: &[job.holds] };
/// assert!(pick(&state, &PickOptions::default(), &Cursors::default()).is_none());
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick(state: &State<'_>, options: &PickOptions, cursors: &Cursors) -> Option<Job> {
    let scores = Scores::new(state, options);
    let mut due: Vec<_> = (0..options.last_level)
        .map(|n| (scores.score(n), n))
        .collect();
    due.retain(|(score, _)| *score >= 1.0);
    // Of equal ones the upper level first: what comes from it may be more for the lower.
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut jobs = due.into_iter().map(|(_, level)| match level {
        0 => due_of_level0(state, options, &cursors.of(0)),
        _ => of_level(state, options, level, &cursors.of(level)),
    });
    jobs.find_map(|job| job)
}

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
/// If tables are left there which have tombstones or something expired, or any where the family has a compaction filter, though nothing lies below
/// them, they are rewritten in place, provided that their files have numbers below `rewrite_before`. The caller
/// gives the next number as of when it begins, so that each table is rewritten once, whether its
/// tombstones could be dropped or not.
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_range(
    state: &State<'_>,
    options: &PickOptions,
    range: &KeyRange<&[u8]>,
    rewrite_before: FileId,
) -> Manual {
    let base = Scores::new(state, options).base_level();
    let level0 = state.level0();
    let is_within = |table: &Table<'_>| table.range.overlaps(range);
    if level0.iter().any(is_within) {
        let wanted = |slice: &[usize]| slice.iter().any(|n| is_within(&level0[*n]));
        let job = of_level0(
            state,
            options,
            base,
            &wanted,
            &Cursor::default(),
            Reason::Manual,
        );
        return job.map_or(Manual::Wait, |job| Manual::Job(Box::new(job)));
    }
    let within = |level: usize| state.level(level).overlapped(range);
    let mut levels = (1..=options.last_level).filter(|level| !within(*level).is_empty());
    let Some(level) = levels.next() else {
        return Manual::Done;
    };
    if levels.next().is_some() {
        let mut jobs = within(level)
            .filter_map(|n| job(state, options, (level, level + 1), vec![n], Reason::Manual));
        let job = jobs
            .next()
            .map(|job| Box::new(widened(state, options, job)));
        return job.map_or(Manual::Wait, Manual::Job);
    }
    rewrite(state, options, level, within(level), rewrite_before)
}

fn rewrite(
    state: &State<'_>,
    options: &PickOptions,
    level: usize,
    within: Range<usize>,
    before: FileId,
) -> Manual {
    let tables = state.level(level);
    let mut is_left = false;
    for n in within {
        // A table may reach out of the range and have something below it there; that is another
        // range's matter.
        let table = tables.table(n);
        let below = state.level(level + 1).overlapped(&table.range);
        let gains = table.deletes > 0 || is_filtered(options, &table);
        if gains && table.file < before && below.is_empty() {
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
pub(super) fn is_above(
    state: &State<'_>,
    options: &PickOptions,
    level: usize,
    range: &KeyRange<&[u8]>,
) -> bool {
    let mut below = level + 1..=options.last_level;
    below.any(|deeper| !state.level(deeper).overlapped(range).is_empty())
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
    let level0 = state.level0();
    let fits = |job: &Job| job.trivial || job.bytes <= bytes_max;
    let slices = slices(level0).into_iter();
    let mut slices = slices.filter(|slice| slice.iter().any(|n| level0[*n].deletes > 0));
    let of_level0 = slices.find_map(|slice| {
        let job = job(state, options, (0, base), slice, reason);
        job.filter(fits)
    });
    let of_levels = |sinks: bool| {
        let levels = (1..=options.last_level).filter(|level| state.level(*level).deletes() > 0);
        let mut tables = levels.flat_map(|level| {
            let tables = state.level(level);
            let places = tables.places(|stretch| stretch.deletes_max > 0);
            let numbered = places.map(move |n| (n, tables.table(n)));
            let with_deletes = numbered.filter(|(_, table)| table.deletes > 0);
            with_deletes.map(move |t| (level, t))
        });
        tables.find_map(|(level, (n, table))| {
            let above = is_above(state, options, level, &table.range);
            let due = match sinks {
                true => above,
                false => !above && table.file < rewrite_before,
            };
            let to = if sinks { level + 1 } else { level };
            let job = || job(state, options, (level, to), vec![n], reason).filter(fits);
            due.then(job).flatten()
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
    let read = state.level(level).table(table);
    let to = match level {
        0 => Scores::new(state, options).base_level(),
        _ if read.deletes > 0 && !is_above(state, options, level, &read.range) => level,
        _ if level == options.last_level => return None,
        _ => level + 1,
    };
    let job = job(state, options, (level, to), vec![table], Reason::Reads)?;
    (level == 0 || to == level || !job.overlapped.is_empty()).then_some(job)
}
