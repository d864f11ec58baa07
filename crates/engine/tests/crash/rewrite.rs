//! Workloads in which memtables that are mostly dead are rewritten inside persistent memory
//! (`engine::flush::rewrite`), between others that go to the SSD. A crash at any instant, inside the recovery from
//! another one too, finds the memtables, or the tables, or both, and the next life flushes and compacts on.

use thermocline_base::CfId;
use thermocline_base::options::Options;
use thermocline_env::simulated::SeededRandom;

use crate::compaction::small_levels;
use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::workload::{below, run, value};

/// Memtables of a few records, and levels of a few memtables.
pub fn little_lives(options: &mut Options) {
    small_levels(options);
    options.memtable.bytes_max = 2 << 10;
    options.flush.rewrite_ratio = 2;
    // Room for some tables.
    options.flush.pm_percent = 25;
    options.partition.rate_sample = 1;
}

fn reads(life: &Life) {
    let model = life.visible();
    let found = life.dump(&[model.clone().into()]).unwrap();
    assert!(found == model, "{}", model.difference(&found));
}

/// A few keys again and again, with one that stays in each memtable.
fn overwrite(life: &Life, random: &SeededRandom, round: u8) {
    for n in 0..8u8 {
        let len = 200 + below(random, 200);
        match n % 4 {
            0 => run(life, &Op::put(0, &[b'c', round, n], value(random, 60))),
            1 if random.below(3) == 0 => run(life, &Op::delete(0, b"hot")),
            1 | 2 => run(life, &Op::put(0, b"hot", value(random, len))),
            _ => run(life, &Op::put(0, b"hotter", value(random, len))),
        }
    }
}

/// What was rewritten, beside a snapshot and a value that is pinned; what comes behind goes to the SSD; all of it is
/// found again in another life, and goes down.
pub fn rewritten(life: &mut Life, random: &SeededRandom) {
    let rewrites = |life: &Life| life.engine().metrics().rewrites;
    run(life, &Op::put(0, b"pinned", [5; 1500]));
    let pinned = life.engine().value(CfId::DEFAULT, b"pinned").unwrap();
    assert!(pinned.as_ref().is_some_and(|value| value.is_pinned()));
    overwrite(life, random, 0);
    let held = (life.engine().snapshot(), life.expected());
    run(life, &Op::delete(0, b"pinned"));
    overwrite(life, random, 1);
    life.engine().reclaim().unwrap();
    reads(life);
    let some = Step::Clear {
        cf: 0,
        from: vec![b'c', 0],
        to: Some(vec![b'c', 1]),
    };
    run(life, &Op::Steps(vec![some]));
    overwrite(life, random, 2);
    let (snapshot, model) = held;
    for ((_, key), value) in &model.data {
        let found = snapshot.value(CfId::DEFAULT, key).unwrap();
        assert_eq!(found.as_deref(), Some(&**value));
    }
    drop(snapshot);
    assert_eq!(*pinned.expect("it was there"), [5; 1500]);
    life.engine().flush().unwrap();
    reads(life);
    assert!(rewrites(life) > 0, "little lives");
    // What lives goes to the SSD, above what does not.
    let before = rewrites(life);
    for n in 0..3u8 {
        run(life, &Op::put(0, &[b'l', n], value(random, 300)));
    }
    life.engine().flush().unwrap();
    assert_eq!(rewrites(life), before, "all of it lives");
    life.close().unwrap();
    life.open().unwrap();
    overwrite(life, random, 1);
    overwrite(life, random, 3);
    life.engine().flush().unwrap();
    reads(life);
    assert!(rewrites(life) > 0, "in a second life");
    life.engine()
        .compact(
            CfId::DEFAULT,
            (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
        )
        .unwrap();
    life.engine().reclaim().unwrap();
    reads(life);
}
