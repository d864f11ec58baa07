//! A store of tables whose keys are known: jobs are picked, run side by side and end in any order,
//! and after each step it is looked at whole.

use thermocline_base::{FileId, KeyRange, SeqNo};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use store::{OwnedTable, Running, Store};

mod along;
mod between;
mod deleted;
mod levels;
mod sizes;
mod store;

fn options(rng: &mut Rng) -> PickOptions {
    PickOptions {
        last_level: 1 + rng.below(5),
        level0_tables: 1 + rng.below(5),
        level0_bytes: 50 + rng.below(1000) as u64,
        level0_pm_tables: 1 + rng.below(8),
        level0_pm_bytes: 50 + rng.below(1000) as u64,
        base_bytes: 10 + rng.below(800) as u64,
        multiplier: 2 + rng.below(5) as u64,
        dynamic: rng.one_in(2),
        job_bytes_max: 10 + rng.below(2000) as u64,
        bytes_max: Some(u64::MAX),
        grandparent_bytes_max: rng.below(600) as u64,
        is_filtered: rng.one_in(4),
        expired: rng.one_in(2).then(|| Expired {
            up_to: SeqNo(rng.below(600) as u64),
            seen: rng.one_in(4).then(|| SeqNo(rng.below(400) as u64)),
        }),
    }
}

/// How often something must come up, if all is explored; a plain run has a third of the stories, and is to have a quarter of that.
fn often(whole: u64) -> u32 {
    u32::try_from(explored(whole / 4, whole)).unwrap_or(u32::MAX)
}

/// Runs what is picked, `side` jobs at once, until nothing is and none runs; returns how many.
fn settle(store: &mut Store, options: &PickOptions, side: usize, rng: &mut Rng) -> usize {
    let mut jobs = 0;
    loop {
        let job = match store.running.len() < side {
            true => store.with_state(|state| pick(state, options, &store.cursors)),
            false => None,
        };
        match job {
            Some(job) => {
                jobs += 1;
                assert!(jobs < 10_000, "it does not end");
                store.begin(job, options);
            }
            None if store.running.is_empty() => return jobs,
            None => store.end(rng.below(store.running.len()), rng),
        }
        store.check();
    }
}

/// A job of level 0 of any kind, or the one that is due.
fn any_job(store: &Store, options: &PickOptions, rng: &mut Rng) -> Option<Job> {
    let kind = rng.below(6);
    let wanted = rng.below(3);
    store.with_state(|state| match kind {
        0 => {
            let mut slices = level0_slices(state).into_iter();
            slices.find_map(|slice| pick_internal(state, options, &slice))
        }
        1 => {
            let wanted = |slice: &[usize]| slice.len() > wanted;
            let must = wanted(&[0, 0]);
            let spill = pick_spill(state, options, &store.cursors, &wanted, must);
            spill.or_else(|| pick_slices(state, options, &store.cursors, &wanted))
        }
        2 => {
            let deleted = store.deletes.ranges().pick(state, options);
            deleted.or_else(|| options.expired?.pick(state, options))
        }
        3 => pick_tombstones(&[], state, options),
        _ => pick(state, options, &store.cursors),
    })
}

#[test]
fn any_sequence_of_jobs_keeps_levels_and_age_and_ends() {
    let (mut trivial, mut side_by_side, mut jobs, mut skipping, mut internal) = (0, 0, 0, 0, 0);
    let (mut spills, mut above, mut drops, mut tombstones) = (0, 0, [0; 2], 0);
    for seed in seeds(0..explored(200, 600)) {
        let _replay = Replay::new("-p thermocline-policy any_sequence_of_jobs", seed);
        let mut rng = Rng::new(seed);
        let mut options = options(&mut rng);
        let mut store = Store::new(options.last_level);
        let side = 1 + rng.below(4);
        for _ in 0..120 {
            match rng.below(3) {
                0 => store.flush(&mut rng),
                1 if !store.running.is_empty() => {
                    let n = rng.below(store.running.len());
                    store.end(n, &mut rng);
                }
                _ if store.running.len() < side => {
                    let Some(job) = any_job(&store, &options, &mut rng) else {
                        continue;
                    };
                    jobs += 1;
                    internal += u32::from(job.is_internal());
                    spills += u32::from(job.reason == Reason::Spill);
                    drops[job.from.min(1)] += u32::from(job.is_drop());
                    let held = &job.holds;
                    let meets = |other: &Running| {
                        held.meets(&other.job.holds.levels, &other.job.holds.range)
                    };
                    above += u32::from(store.running.iter().any(meets));
                    trivial += u32::from(job.trivial);
                    skipping += u32::from(job.to > job.from + 1);
                    side_by_side += u32::from(!store.running.is_empty());
                    store.begin(job, &options);
                }
                // Shapes may change at any time.
                _ if rng.one_in(10) => {
                    let last_level = options.last_level;
                    options = PickOptions {
                        last_level,
                        ..super::tests::options(&mut rng)
                    };
                }
                _ => {}
            }
            store.check();
        }
        settle(&mut store, &options, side, &mut rng);
        tombstones += store.tombstones_gone;
        store.with_state(|state| {
            let scores = Scores::new(state, &options);
            assert!(
                (0..options.last_level).all(|level| scores.score(level) < 1.0),
                "{scores:?}"
            );
            assert_eq!(pending_bytes(state, &options), 0);
        });
    }
    println!(
        "{jobs} jobs, {trivial} trivial, {side_by_side} beside others, {skipping} skip levels"
    );
    let many = [trivial, side_by_side, skipping, internal, spills];
    let of_expired = drops.iter().all(|n| *n > often(100)) && tombstones > u64::from(often(20));
    println!("{drops:?} drops, {tombstones} of range tombstones");
    let enough = many.iter().all(|n| *n > often(200)) && above > often(20) && of_expired
        || seeds(0..2).len() == 1;
    assert!(enough, "{many:?} {above}");
}

#[test]
fn a_range_that_is_compacted_ends_in_one_level_without_needless_tombstones() {
    for seed in seeds(0..400) {
        let _replay = Replay::new("-p thermocline-policy a_range_that_is_compacted", seed);
        let mut rng = Rng::new(seed);
        let options = options(&mut rng);
        let mut store = Store::new(options.last_level);
        for _ in 0..rng.below(20) {
            store.flush(&mut rng);
            if rng.one_in(3) {
                settle(&mut store, &options, 2, &mut rng);
            }
        }
        let (a, b) = (
            rng.next_u64().to_le_bytes()[0],
            rng.next_u64().to_le_bytes()[0],
        );
        let (first, last) = ([a.min(b)], [a.max(b)]);
        let range: KeyRange<&[u8]> = KeyRange::inclusive(&first, &last);
        let before = store.next_file + 1;
        // Somebody else's job may run already.
        let other = store.with_state(|state| pick(state, &options, &store.cursors));
        if let Some(job) = other {
            store.begin(job, &options);
        }
        for step in 0.. {
            assert!(step < 1000, "it does not end");
            match store.with_state(|state| pick_range(state, &options, &range, FileId(before))) {
                Manual::Job(job) => store.begin(*job, &options),
                Manual::Wait => assert!(!store.running.is_empty(), "nothing to wait for"),
                Manual::Done if store.running.is_empty() => break,
                Manual::Done => {}
            }
            if !store.running.is_empty() && (store.running.len() > 2 || rng.one_in(2)) {
                store.end(rng.below(store.running.len()), &mut rng);
            }
            store.check();
        }
        let levels = store.levels.iter().enumerate();
        let within = levels.flat_map(|(n, tables)| tables.iter().map(move |t| (n, t)));
        let within: Vec<_> = within
            .filter(|(_, t)| t.meta().range.overlaps(&range))
            .collect();
        assert!(
            within.iter().all(|(n, _)| *n > 0 && *n == within[0].0),
            "{within:?}"
        );
        let below = |level: usize, table: &OwnedTable| {
            let below = store.levels.get(level + 1).into_iter().flatten();
            below
                .into_iter()
                .any(|t| t.meta().range.overlaps(&table.meta().range))
        };
        let expired = |t: &OwnedTable| options.expired.is_some_and(|e| e.has_some(&t.meta()));
        let gains = |t: &OwnedTable| t.has_tombstones || options.is_filtered || expired(t);
        let old = |(n, t): &&(usize, &OwnedTable)| gains(t) && t.file < before && !below(*n, t);
        assert_eq!(within.iter().find(old).map(|(_, t)| t), None.as_ref());
    }
}

#[test]
fn a_table_read_in_vain_is_compacted_if_that_helps() {
    let (mut picked, mut rewrites) = (0, 0);
    for seed in seeds(0..400) {
        let _replay = Replay::new("-p thermocline-policy a_table_read_in_vain", seed);
        let mut rng = Rng::new(seed);
        let options = options(&mut rng);
        let mut store = Store::new(options.last_level);
        for _ in 0..60 {
            let tables: Vec<_> = (0..store.levels.len())
                .flat_map(|level| (0..store.levels[level].len()).map(move |n| (level, n)))
                .collect();
            if tables.is_empty() || rng.one_in(3) {
                store.flush(&mut rng);
                continue;
            }
            let (level, n) = *rng.pick(&tables);
            let job = store.with_state(|state| pick_read(state, &options, level, n));
            if let Some(job) = job {
                assert!(job.inputs.contains(&n) && job.from == level);
                let rewritten = job.to == level && store.levels[level][n].has_tombstones;
                rewrites += u32::from(rewritten);
                assert!(level == 0 || !job.overlapped.is_empty() || rewritten);
                store.begin(job, &options);
                picked += 1;
            }
            if store.running.len() > 1 {
                store.end(rng.below(store.running.len()), &mut rng);
            }
            store.check();
        }
    }
    let enough = (picked > 1000 && rewrites > 50) || seeds(0..2).len() == 1;
    assert!(enough, "{picked}, {rewrites} rewritten");
}

#[test]
fn where_the_disk_is_full_every_tombstone_meets_what_it_hides() {
    let mut picked = [0, 0, 0];
    for seed in seeds(0..400) {
        let _replay = Replay::new("-p thermocline-policy where_the_disk_is_full", seed);
        let mut rng = Rng::new(seed);
        let options = options(&mut rng);
        let mut store = Store::new(options.last_level);
        for _ in 0..rng.below(20) {
            store.flush(&mut rng);
            if rng.one_in(3) {
                settle(&mut store, &options, 2, &mut rng);
            }
        }
        let before = FileId(store.next_file + 1);
        let cursors = store.cursors.clone();
        for step in 0.. {
            assert!(step < 1000, "it does not end");
            let most = match rng.one_in(3) {
                true => rng.below(500) as u64,
                false => u64::MAX,
            };
            match store.with_state(|state| pick_room(state, &options, before, most)) {
                Some(job) => {
                    assert!(job.trivial || job.bytes <= most);
                    let level = &store.levels[job.from];
                    assert!(job.inputs.iter().any(|n| level[*n].has_tombstones));
                    let kind = [job.from == 0, job.from > 0, job.from == job.to];
                    let kind = kind.iter().rposition(|is| *is).unwrap();
                    picked[kind] += 1;
                    store.begin(job, &options);
                }
                None if most < u64::MAX => {}
                None if store.running.is_empty() => break,
                None => {}
            }
            if !store.running.is_empty() && (store.running.len() > 2 || rng.one_in(2)) {
                store.end(rng.below(store.running.len()), &mut rng);
            }
            store.check();
        }
        assert_eq!(store.cursors, cursors, "the rounds go on where they were");
        for (level, tables) in store.levels.iter().enumerate() {
            for table in tables.iter().filter(|table| table.has_tombstones) {
                let deeper = store.levels[level + 1..].iter().flatten();
                let mut ranges = deeper.map(|t| t.meta().range);
                let hides = ranges.any(|range| range.overlaps(&table.meta().range));
                let left = level == 0 || hides || FileId(table.file) < before;
                assert!(!left, "{table:?} in level {level}");
            }
        }
    }
    println!("{picked:?} jobs from level 0, of levels, rewrites");
    let enough = picked.iter().all(|n| *n > 50) || seeds(0..2).len() == 1;
    assert!(enough, "{picked:?}");
}

#[test]
fn runs_are_as_long_as_they_can_be() {
    let mut longest = 0;
    for seed in seeds(0..300) {
        let _replay = Replay::new("-p thermocline-policy runs_are_as_long", seed);
        let mut rng = Rng::new(seed);
        let keys: Vec<[u8; 1]> = (0..40).map(|n| [n]).collect();
        let table = |rng: &mut Rng| {
            let first = rng.below(39);
            let last = (first + 1 + rng.below(4)).min(39);
            let range: KeyRange<&[u8]> = match rng.one_in(2) {
                true => KeyRange::inclusive(&keys[first], &keys[last]),
                false => KeyRange::until(&keys[first], &keys[last]),
            };
            Table {
                file: FileId(1),
                range,
                bytes: 1,
                smallest_seqno: SeqNo(1),
                largest_seqno: SeqNo(1),
                entries: 1,
                deletes: 0,
                in_pm: false,
            }
        };
        let tables: Vec<Table<'_>> = (0..rng.below(30)).map(|_| table(&mut rng)).collect();
        let runs = runs(&tables);
        let covered: Vec<usize> = runs.iter().cloned().flatten().collect();
        assert!(covered.into_iter().eq(0..tables.len()));
        let meets = |n: usize, within: std::ops::Range<usize>| {
            tables[within]
                .iter()
                .any(|t| t.range.overlaps(&tables[n].range))
        };
        for run in &runs {
            longest = longest.max(run.len());
            assert!(run.clone().all(|n| !meets(n, run.start..n)), "{runs:?}");
            let next = run.end;
            assert!(next == tables.len() || meets(next, run.clone()), "{runs:?}");
        }
    }
    assert!(longest > 3 || seeds(0..2).len() == 1);
}

fn level(tables: &[(&'static [u8], &'static [u8], u64)]) -> Vec<Table<'static>> {
    let table = |&(first, last, bytes): &(&'static [u8], &'static [u8], u64)| Table {
        file: FileId(1),
        range: KeyRange::inclusive(first, last),
        bytes,
        smallest_seqno: SeqNo(1),
        largest_seqno: SeqNo(1),
        entries: 1,
        deletes: 0,
        in_pm: false,
    };
    tables.iter().map(table).collect()
}

const SMALL: PickOptions = PickOptions {
    last_level: 4,
    level0_tables: 4,
    level0_bytes: 1000,
    level0_pm_tables: 8,
    level0_pm_bytes: u64::MAX,
    base_bytes: 100,
    multiplier: 10,
    dynamic: true,
    job_bytes_max: 10_000,
    bytes_max: Some(u64::MAX),
    grandparent_bytes_max: 50,
    is_filtered: false,
    expired: None,
};

#[test]
fn the_last_level_decides_about_the_others() {
    let targets = |levels: &[Vec<Table<'_>>], options: &PickOptions| {
        let state = State {
            levels: &levels.to_vec(),
            running: &[],
        };
        let scores = Scores::new(&state, options);
        let targets: Vec<_> = (0..=4).map(|level| scores.target(level)).collect();
        (scores.base_level(), targets)
    };
    let last = |bytes| {
        [
            vec![],
            vec![],
            vec![],
            vec![],
            level(&[(b"a", b"b", bytes)]),
        ]
    };
    assert_eq!(targets(&[], &SMALL), (4, vec![None; 5]));
    assert_eq!(targets(&last(100), &SMALL), (4, vec![None; 5]));
    assert_eq!(targets(&last(999), &SMALL), (4, vec![None; 5]));
    let one = vec![None, None, None, Some(150), None];
    assert_eq!(targets(&last(1500), &SMALL), (3, one));
    let all = vec![None, Some(150), Some(1500), Some(15_000), None];
    assert_eq!(targets(&last(150_000), &SMALL), (1, all));
    let mut odd = last(500);
    odd[2] = level(&[(b"a", b"b", 3)]);
    assert_eq!(
        targets(&odd, &SMALL),
        (2, vec![None, None, Some(5), Some(50), None])
    );
    let fixed = PickOptions {
        dynamic: false,
        ..SMALL
    };
    let all = vec![None, Some(100), Some(1000), Some(10_000), None];
    assert_eq!(targets(&last(7), &fixed), (1, all));
}

#[test]
fn jobs_go_round_and_move_unread_what_is_alone_and_light() {
    let options = PickOptions {
        dynamic: false,
        ..SMALL
    };
    let levels = [
        vec![],
        level(&[(b"a", b"b", 60), (b"d", b"e", 60), (b"g", b"h", 60)]),
        level(&[(b"e", b"f", 10)]),
        level(&[(b"a", b"c", 40), (b"g", b"k", 60)]),
    ];
    let mut cursors = Cursors::default();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let state = State {
            levels: &levels,
            running: &[],
        };
        let job = pick(&state, &options, &cursors).unwrap();
        cursors.note(&job);
        seen.push((job.inputs.clone(), job.overlapped.len(), job.trivial));
    }
    let round = [(vec![0], 0, true), (vec![1], 1, false), (vec![2], 0, false)];
    assert_eq!(seen[..3], round);
    assert_eq!(seen[3], round[0]);
}

/// What a range tombstone was cut into: each table ends before the key at which the next one begins.
#[test]
fn jobs_go_round_tables_that_touch_at_open_ends() {
    let options = PickOptions {
        dynamic: false,
        ..SMALL
    };
    let keys: [&[u8]; 5] = [b"a", b"d", b"g", b"j", b"m"];
    let table = |pair: &[&'static [u8]]| Table {
        range: KeyRange::until(pair[0], pair[1]),
        ..level(&[(pair[0], pair[1], 60)])[0]
    };
    let levels = [vec![], keys.windows(2).map(table).collect()];
    let mut cursors = Cursors::default();
    let mut seen = Vec::new();
    for _ in 0..5 {
        let state = State {
            levels: &levels,
            running: &[],
        };
        let job = pick(&state, &options, &cursors).unwrap();
        cursors.note(&job);
        seen.extend(job.inputs);
    }
    assert_eq!(seen, [0, 1, 2, 3, 0]);
}

/// Neither kind of table makes the other one's number or size too large, and what is picked goes by age.
#[test]
fn what_lies_in_persistent_memory_is_counted_apart() {
    let table = |file: u64, in_pm: bool, (first, last): (&'static [u8], &'static [u8])| Table {
        file: FileId(file),
        smallest_seqno: SeqNo(10 * file),
        largest_seqno: SeqNo(10 * file + 9),
        in_pm,
        ..level(&[(first, last, 100)])[0]
    };
    let wide: (&[u8], &[u8]) = (b"a", b"m");
    let picked = |level0: Vec<Table<'static>>, options: &PickOptions| {
        let levels = [level0];
        let state = State {
            levels: &levels,
            running: &[],
        };
        let job = pick(&state, options, &Cursors::default());
        job.map(|job| (job.inputs, job.trivial))
    };
    // Newest first: seven in persistent memory, three files among them.
    let mut level0: Vec<_> = (0..10)
        .rev()
        .map(|n| table(n + 1, n % 3 != 1, wide))
        .collect();
    assert_eq!(picked(level0.clone(), &SMALL), None);
    level0.insert(0, table(11, false, wide));
    assert_eq!(
        picked(level0.clone(), &SMALL),
        Some(((0..11).collect(), false))
    );
    level0[0] = table(11, true, wide);
    assert_eq!(
        picked(level0.clone(), &SMALL),
        Some(((0..11).collect(), false))
    );
    // By size: only slices that have some of it. A table in persistent memory is written anew, a file moves.
    let apart = vec![
        table(3, true, (b"x", b"z")),
        table(2, false, (b"p", b"r")),
        table(1, false, (b"a", b"c")),
    ];
    let of_pm = PickOptions {
        level0_pm_bytes: 100,
        ..SMALL
    };
    assert_eq!(picked(apart.clone(), &of_pm), Some((vec![0], false)));
    let of_files = PickOptions {
        level0_bytes: 200,
        ..SMALL
    };
    assert_eq!(picked(apart.clone(), &of_files), Some((vec![1, 2], true)));
    assert_eq!(picked(apart, &SMALL), None);
}
