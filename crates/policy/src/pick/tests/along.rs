//! Ranges of flushes that take tables along beside any jobs.

use thermocline_base::KeyRange;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use super::store::{Running, Store};
use super::*;

/// A job of any kind, due or not.
fn job_of_any_kind(store: &Store, options: &PickOptions, rng: &mut Rng) -> Option<Job> {
    let of_range = |rng: &mut Rng| {
        let (a, b) = (rng.below(256), rng.below(256));
        let [first, last] = [a.min(b), a.max(b)].map(|key| [u8::try_from(key).unwrap()]);
        let range: KeyRange<&[u8]> = KeyRange::inclusive(&first, &last);
        let before = FileId(store.next_file + 1);
        match store.with_state(|state| pick_range(state, options, &range, before)) {
            Manual::Job(job) => Some(*job),
            Manual::Wait | Manual::Done => None,
        }
    };
    match rng.below(8) {
        0 => of_range(rng),
        1 => {
            let before = FileId(store.next_file + 1);
            store.with_state(|state| pick_room(state, options, before, u64::MAX))
        }
        2 => {
            let level = rng.below(store.levels.len());
            let tables = store.levels[level].len();
            let n = (tables > 0).then(|| rng.below(tables))?;
            store.with_state(|state| pick_read(state, options, level, n))
        }
        _ => any_job(store, options, rng),
    }
}

/// How often what came up.
#[derive(Debug, Default)]
struct Seen {
    alone: u32,
    to_level0: u32,
    to_base: u32,
    /// Inputs of ranges that reached out of them.
    cut: u32,
    /// Ranges to either that began beside running jobs, and those to level 0 above what one held.
    beside: [u32; 2],
    above: u32,
    /// Jobs that began beside ranges to either, and those that held what a range to level 0 was above.
    jobs: [u32; 2],
    below: u32,
}

impl Seen {
    fn note_range(&mut self, store: &Store) {
        let Some(flushing) = &store.flushing else {
            self.alone += 1;
            return;
        };
        let base = usize::from(flushing.picked.to > 0);
        self.to_level0 += u32::from(base == 0);
        self.to_base += u32::from(base > 0);
        self.cut += u32::try_from(flushing.cut).unwrap();
        self.beside[base] += u32::from(!store.running.is_empty());
        let meets = |running: &Running| meets(&flushing.picked.holds, &running.job);
        self.above += u32::from(store.running.iter().any(meets));
    }

    fn note_job(&mut self, store: &Store, job: &Job) {
        if let Some(flushing) = &store.flushing {
            self.jobs[usize::from(flushing.picked.to > 0)] += 1;
            self.below += u32::from(meets(&flushing.picked.holds, job));
        }
    }
}

/// Whether a job holds keys there.
fn meets(held: &Held, job: &Job) -> bool {
    held.meets(&job.holds.levels, &job.holds.range)
}

/// Begins or ends something, or changes the shape.
fn step(store: &mut Store, options: &mut PickOptions, side: usize, seen: &mut Seen, rng: &mut Rng) {
    match rng.below(7) {
        0 if store.flushing.is_none() => store.flush(rng),
        1 if store.flushing.is_none() => {
            store.begin_range(options, rng);
            seen.note_range(store);
        }
        2 if store.flushing.is_some() => store.end_range(rng),
        3 if !store.running.is_empty() => store.end(rng.below(store.running.len()), rng),
        4 => match store.splits.len() {
            0 => store.begin_split(rng),
            1 if rng.one_in(2) => store.begin_split(rng),
            splits => store.end_split(rng.below(splits)),
        },
        _ if store.running.len() < side => {
            if let Some(job) = job_of_any_kind(store, options, rng) {
                seen.note_job(store, &job);
                store.begin(job, options);
            }
        }
        _ if rng.one_in(10) => {
            *options = PickOptions {
                last_level: options.last_level,
                ..super::options(rng)
            };
        }
        _ => {}
    }
}

#[test]
fn ranges_that_take_along_keep_levels_and_age_beside_any_jobs() {
    let mut seen = Seen::default();
    for seed in seeds(0..explored(170, 500)) {
        let _replay = Replay::new("-p thermocline-policy ranges_that_take_along", seed);
        let mut rng = Rng::new(seed);
        let mut options = options(&mut rng);
        let mut store = Store::new(options.last_level);
        let side = 1 + rng.below(4);
        store.narrow = rng.one_in(2);
        for _ in 0..150 {
            step(&mut store, &mut options, side, &mut seen, &mut rng);
            store.check();
        }
        if store.flushing.is_some() {
            store.end_range(&mut rng);
            store.check();
        }
        (0..store.splits.len()).for_each(|_| store.end_split(0));
        store.check();
        settle(&mut store, &options, side, &mut rng);
    }
    println!("{seen:?}");
    let many = [seen.alone, seen.to_level0, seen.to_base, seen.cut];
    let beside = [seen.beside, seen.jobs].concat();
    let enough = many.iter().all(|n| *n > often(400))
        && beside.iter().all(|n| *n > often(100))
        && (seen.above > often(20) && seen.below > often(20));
    assert!(enough || seeds(0..2).len() == 1, "{seen:?}");
}

/// What a range writes is newer than all, however old what it takes along is: so it may not go below a spill whose
/// tables lie on both sides of it.
#[test]
fn no_range_goes_below_what_a_spill_joins_over_it() {
    let table = |seqno: u64, first, last| Table {
        file: FileId(seqno),
        smallest_seqno: SeqNo(seqno),
        largest_seqno: SeqNo(seqno),
        in_pm: true,
        ..super::level(&[(first, last, 100)])[0]
    };
    let below = super::level(&[(b"a", b"z", 1 << 20)]);
    let levels = [
        vec![
            table(3, b"u", b"w"),
            table(2, b"b", b"c"),
            table(1, b"m", b"n"),
        ],
        below,
    ];
    let options = PickOptions {
        last_level: 1,
        ..SMALL
    };
    let picked = |running: &[Held]| {
        let state = State {
            levels: &levels,
            running,
        };
        let range: KeyRange<&[u8]> = KeyRange::until(b"f", b"p");
        pick_along(&state, &options, &range, 10, false)
    };
    let spill = |(smallest, largest): (u64, u64)| Held {
        levels: 0..=0,
        range: KeyRange::inclusive("b", "w").owned(),
        seqnos: SeqNo(smallest)..=SeqNo(largest),
        stays: false,
        rests: false,
    };
    let free = picked(&[]).unwrap();
    assert_eq!((free.to, &free.inputs[..]), (0, &[2][..]));
    // The spill takes the two that are newer; or nothing that is as new as what the range takes.
    assert_eq!(picked(&[spill((2, 3))]), None);
    assert_eq!(picked(&[spill((0, 0))]), Some(free.clone()));
    // Nor is one begun meanwhile.
    assert!(free.holds.collides(&spill((2, 3))));
}

/// What stays because of another that stays has all to be older than what goes, too.
#[test]
fn what_stays_may_keep_more_from_being_taken_along() {
    let table = |(smallest, largest), range: (&'static [u8], &'static [u8]), in_pm| Table {
        file: FileId(largest),
        smallest_seqno: SeqNo(smallest),
        largest_seqno: SeqNo(largest),
        in_pm,
        ..super::level(&[(range.0, range.1, 100)])[0]
    };
    let taken = |file: u64| {
        let level0 = vec![
            table((40, 60), (b"p", b"r"), true),
            table((10, 50), (b"k", b"m"), true),
            table((file, file), (b"b", b"c"), false),
        ];
        let levels = [level0, super::level(&[(b"a", b"z", 1 << 20)])];
        let state = State {
            levels: &levels,
            running: &[],
        };
        let options = PickOptions {
            last_level: 1,
            ..SMALL
        };
        let range: KeyRange<&[u8]> = KeyRange::until(b"a", b"z");
        let along = pick_along(&state, &options, &range, 10, false);
        along.map(|along| (along.to, along.inputs))
    };
    assert_eq!(taken(9), Some((0, vec![0, 1])));
    assert_eq!(taken(12), None);
}
