//! What range tombstones cover goes, whatever else runs.

use thermocline_testkit::explore::explored;

use super::*;

/// Flushes, jobs, range deletes and readers in any order. Then everything is deleted, the readers end, and every table goes unread.
#[test]
fn what_ranges_delete_goes_and_only_that() {
    let (mut drops, mut of_level0, mut last) = ([0; 2], [0; 2], 0);
    for seed in seeds(0..explored(200, 600)) {
        let _replay = Replay::new("-p thermocline-policy what_ranges_delete_goes", seed);
        let mut rng = Rng::new(seed);
        let mut options = options(&mut rng);
        options.expired = None;
        let mut store = Store::new(options.last_level);
        store.deletes.by_key = rng.one_in(2);
        let kind = usize::from(store.deletes.by_key);
        for _ in 0..120 {
            match rng.below(8) {
                0..=2 => store.flush(&mut rng),
                3 => store.delete_range(&mut rng),
                4 => store.read_or_leave(&mut rng),
                5 if !store.running.is_empty() => {
                    store.end(rng.below(store.running.len()), &mut rng)
                }
                _ if store.running.len() < 3 => {
                    let Some(job) = any_job(&store, &options, &mut rng) else {
                        continue;
                    };
                    drops[kind] += u32::from(job.is_drop());
                    of_level0[kind] += u32::from(job.is_drop() && job.from == 0);
                    store.begin(job, &options);
                }
                _ => {}
            }
            store.check();
        }
        while !store.running.is_empty() {
            store.end(0, &mut rng);
        }
        store.delete_all();
        while let Some(job) = store.with_state(|state| store.deletes.ranges().pick(state, &options))
        {
            last += 1;
            store.begin(job, &options);
            store.end(0, &mut rng);
            store.check();
        }
        assert!(store.levels.iter().all(Vec::is_empty), "{:?}", store.levels);
    }
    println!("{drops:?} drops, {of_level0:?} of level 0; {last} at the end");
    let many = |counts: [u32; 2], least: u64| counts.iter().all(|n| *n > often(least));
    let enough = many(drops, 300) && many(of_level0, 48) && last > often(400);
    assert!(enough || seeds(0..2).len() == 1);
}
