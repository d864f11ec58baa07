//! What is found by halving, and by what a level's tables come to, is what a look at each table finds.

use super::super::jobs::{job, of_level, widened};
use super::*;

/// Levels of which something is known without a look at each table.
#[derive(Debug)]
struct Stretched<'t> {
    levels: &'t dyn Tables,
    /// By level.
    stretches: Vec<Vec<Stretch>>,
}

impl<'t> Stretched<'t> {
    /// So many tables to a stretch.
    fn of(state: &State<'t>, len: usize) -> Stretched<'t> {
        let stretch = |level: usize, first: usize| {
            let all = state.level(level);
            let places = first..all.len().min(first + len);
            let tables = || places.clone().map(|n| all.table(n));
            Stretch {
                deletes_max: tables().map(|table| table.deletes).max().unwrap(),
                entries_min: tables().map(|table| table.entries).min().unwrap(),
                newest_min: tables().map(|table| table.largest_seqno).min().unwrap(),
                places: places.clone(),
            }
        };
        let of_level = |level: usize| {
            let places = if level == 0 {
                0
            } else {
                state.level(level).len()
            };
            let firsts = (0..places).step_by(len);
            firsts.map(|first| stretch(level, first)).collect()
        };
        let levels = state.levels;
        Stretched {
            levels,
            stretches: (0..levels.level_count()).map(of_level).collect(),
        }
    }
}

impl Tables for Stretched<'_> {
    fn level_count(&self) -> usize {
        self.levels.level_count()
    }

    fn level0(&self) -> &[Table<'_>] {
        self.levels.level0()
    }

    fn len_of(&self, level: usize) -> usize {
        self.levels.len_of(level)
    }

    fn table(&self, level: usize, place: usize) -> Table<'_> {
        self.levels.table(level, place)
    }

    fn stretches(&self, level: usize) -> &[Stretch] {
        self.stretches.get(level).map_or(&[][..], |all| &all[..])
    }
}

/// What is picked where tables are passed over is what is picked with a look at each. Returns how many jobs that were below
/// level 0.
fn pass_over(state: &State<'_>, options: &PickOptions, rng: &mut Rng) -> usize {
    let stretched = Stretched::of(state, 1 + rng.below(4));
    let passing = State {
        levels: &stretched,
        running: state.running,
    };
    let at = SeqNo(rng.below(600) as u64);
    let moments = [at];
    let moments = &moments[..rng.below(2)];
    let before = FileId(rng.below(300) as u64);
    let most = 1 + rng.below(2000) as u64;
    let expired = Expired {
        up_to: SeqNo(rng.below(600) as u64),
        seen: None,
    };
    let pick = |state: &State<'_>| {
        [
            pick_tombstones(moments, state, options),
            expired.pick(state, options),
            pick_room(state, options, before, most),
        ]
    };
    let picked = pick(&passing);
    assert_eq!(picked, pick(state));
    let deep = picked.iter().flatten().filter(|job| job.from > 0);
    deep.count()
}

/// Looks at all levels from 1 on. Returns how many of their tables are held.
fn look(state: &State<'_>, options: &PickOptions, cursors: &Cursors) -> usize {
    let mut held = 0;
    for level in 1..=options.last_level {
        let tables: Vec<Table<'_>> = state.level(level).iter().collect();
        let free = |table: &&Table<'_>| !state.is_held(level, table);
        let bytes: u64 = tables.iter().filter(free).map(|table| table.bytes).sum();
        assert_eq!(state.free_bytes(level), bytes);
        held += tables.len() - tables.iter().filter(free).count();
        for range in tables.iter().map(|table| &table.range) {
            let below = state.level(level + 1);
            let met = below.iter().enumerate();
            let met = met.filter(|(_, table)| table.range.overlaps(range));
            assert!(met.map(|(n, _)| n).eq(below.overlapped(range)));
        }
        if level == options.last_level {
            break;
        }
        let cursor = cursors.of(level);
        let next = tables.partition_point(|table| cursor.has_passed(table.range.first));
        let to = (level, level + 1);
        let job = |n: usize| job(state, options, to, vec![n], Reason::LevelSize);
        let first = (next..tables.len()).chain(0..next).find_map(job);
        let first = first.map(|first| widened(state, options, first));
        assert_eq!(of_level(state, options, level, &cursor), first);
    }
    held
}

/// Whether what is pending is said to be the same where level 0 may have so many bytes in persistent memory. Then it is.
fn is_same(state: &State<'_>, options: &PickOptions, level0_pm_bytes: u64) -> bool {
    let in_pm = state.level0().iter().filter(|table| table.in_pm);
    let own = in_pm.map(|table| table.bytes).sum();
    let after = PickOptions {
        level0_pm_bytes,
        ..*options
    };
    let is_same = pending_is_same(options, &after, own);
    if is_same {
        assert_eq!(pending_bytes(state, options), pending_bytes(state, &after));
    }
    is_same
}

#[test]
fn levels_are_as_a_look_at_each_table_finds_them() {
    let (mut held, mut same, mut passed) = (0, [0; 2], 0);
    for seed in seeds(0..200) {
        let _replay = Replay::new("-p thermocline-policy levels_are_as_a_look", seed);
        let mut rng = Rng::new(seed);
        let options = options(&mut rng);
        let mut store = Store::new(options.last_level);
        for _ in 0..100 {
            match rng.below(4) {
                0 => store.flush(&mut rng),
                1 if !store.running.is_empty() => {
                    store.end(rng.below(store.running.len()), &mut rng)
                }
                _ if store.running.len() < 4 => {
                    if let Some(job) = any_job(&store, &options, &mut rng) {
                        store.begin(job, &options);
                    }
                }
                _ => {}
            }
            held += store.with_state(|state| look(state, &options, &store.cursors));
            let most = 1 + rng.clone().below(1000) as u64;
            let is_same = store.with_state(|state| is_same(state, &options, most));
            same[usize::from(is_same)] += 1;
            let mut lot = rng.clone();
            passed += store.with_state(|state| pass_over(state, &options, &mut lot));
        }
    }
    let enough = held > 1000 && same[0] > 100 && same[1] > 100 && passed > 100;
    let told = format!("{held}, {same:?}, {passed}");
    assert!(enough || seeds(0..2).len() == 1, "{told}");
}
