//! What is found by halving, and by what a level's tables come to, is what a look at each table finds.

use super::super::jobs::{job, of_level, widened};
use super::*;

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
    let (mut held, mut same) = (0, [0; 2]);
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
        }
    }
    let enough = held > 1000 && same[0] > 100 && same[1] > 100;
    assert!(enough || seeds(0..2).len() == 1, "{held}, {same:?}");
}
