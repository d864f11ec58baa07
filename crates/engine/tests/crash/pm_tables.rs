//! Workloads in which memtables become tables in persistent memory, and those sink into files. A crash at
//! any instant, inside the recovery from another one too, finds what was there before the edit or after it
//! (`engine::pm_tables`, "What a crash leaves"), and the next life flushes and compacts on.

use std::ops::Bound::Unbounded;

use thermocline_base::CfId;
use thermocline_base::Codec;
use thermocline_base::options::{Options, Shape};
use thermocline_env::simulated::SeededRandom;

use crate::compaction::small_levels;
use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::workload::{below, key, run, value};

/// Level 0 of two or three zones.
pub fn in_pm(options: &mut Options) {
    small_levels(options);
    options.level0.shape = Some(Shape::PmTables);
    options.level0.pm_percent = 5;
    // Decisions depend on how often is read: no number is drawn.
    options.partition.rate_sample = 1;
}

/// The same behind indexes that are merged.
pub fn tiered(options: &mut Options) {
    in_pm(options);
    options.level0.shape = Some(Shape::Tiered);
    options.level0.merge_percent = 0;
    options.memtable.bytes_max = 1 << 10;
}

/// Level 0 of tables of some entries each, of which no zone holds two.
pub fn of_large_entries(options: &mut Options) {
    in_pm(options);
    options.level0.pm_percent = 40;
    options.memtable.bytes_max = 32 << 10;
    options.compaction.table_bytes = 64 << 10;
    options.compaction.base_bytes = 256 << 10;
}

/// As [`tiered`], with levels that are larger, so that most of the work is evacuating.
pub fn evacuated(options: &mut Options) {
    tiered(options);
    options.level0.pm_percent = 40;
    options.memtable.bytes_max = 2 << 10;
    options.compaction.base_bytes = 16 << 10;
    options.compaction.table_bytes = 350;
    options.level0.evacuation_threads = 2;
}

/// As [`evacuated`], with room in level 0 for one flush: with the next one ranges leave, and take along what is there.
pub fn leaving(options: &mut Options) {
    tiered(options);
    options.level0.pm_percent = 11;
    options.memtable.bytes_max = 8 << 10;
    options.compaction.table_bytes = 4 << 10;
    options.compaction.base_bytes = 64 << 10;
    options.compaction.level0_tables = 8;
    options.compaction.compression_last = Codec::None;
}

/// Flushes, compacts what is due, and reads back all of it.
fn sink(life: &Life) {
    life.engine().flush().unwrap();
    let model = life.visible();
    let found = life.dump(&[model.clone().into()]).unwrap();
    assert!(found == model, "it reads as before");
}

fn write(life: &Life, random: &SeededRandom, round: u8) {
    let len = 100 + below(random, 100);
    run(life, &Op::put(0, &[b'm', round], value(random, len)));
    match random.below(3) {
        0 => run(life, &Op::delete(0, key(random))),
        _ => run(life, &Op::put(0, key(random), value(random, len))),
    }
}

/// Into persistent memory and on into files, beside a snapshot and a value that is pinned there.
pub fn sinking(life: &mut Life, random: &SeededRandom) {
    let mut held = None;
    for round in 0..4 {
        write(life, random, round);
        if round == 0 {
            run(life, &Op::put(0, b"pinned", [5; 1500]));
        }
        if round == 1 {
            let pinned = life.engine().value(CfId::DEFAULT, b"pinned").unwrap();
            // With some seeds it has been compacted into a file by now.
            let levels = life.engine().metrics().levels;
            let sunk = levels.iter().skip(1).any(|level| level.tables > 0);
            let pinned = pinned.expect("it was written");
            assert!(pinned.is_pinned() || sunk);
            held = Some((life.engine().snapshot(), life.expected(), pinned));
            run(life, &Op::delete(0, b"pinned"));
        }
        if round == 3 {
            let (snapshot, model, pinned) = held.take().expect("one is held");
            for ((_, key), value) in &model.data {
                let found = snapshot.value(CfId::DEFAULT, key).unwrap();
                assert_eq!(found.as_deref(), Some(&**value));
            }
            pinned.verify().unwrap();
            assert_eq!(*pinned, [5; 1500]);
            drop((snapshot, pinned));
        }
        sink(life);
    }
    run(life, &Op::delete(0, b"m\0"));
    life.engine()
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    life.engine().reclaim().unwrap();
    sink(life);
}

/// Level 0 of some zones, in which a flush is one table; what is merged is more than one, and two of them are a part.
pub fn merged_there(options: &mut Options) {
    in_pm(options);
    options.level0.pm_percent = 20;
    options.compaction.table_bytes = 3 << 10;
    options.compaction.base_bytes = 12 << 10;
    options.compaction.level0_tables = 64;
}

/// What lies in persistent memory is merged there, whole and in parts, beside a snapshot and a value that is pinned,
/// over two lives.
pub fn merged(life: &mut Life, random: &SeededRandom) {
    let merge = |life: &Life| {
        life.engine().compact_level0(CfId::DEFAULT).unwrap();
        let model = life.visible();
        let found = life.dump(&[model.clone().into()]).unwrap();
        assert!(found == model, "{}", model.difference(&found));
    };
    run(life, &Op::put(0, b"pinned", [5; 1500]));
    let mut held = None;
    for round in 0..4 {
        for n in 0..3 {
            let len = 700 + below(random, 100);
            run(
                life,
                &Op::put(0, &[b'f' + 4 * n, round], value(random, len)),
            );
        }
        write(life, random, round);
        life.engine().flush().unwrap();
        match round {
            0 => {
                let pinned = life.engine().value(CfId::DEFAULT, b"pinned").unwrap();
                assert!(pinned.as_ref().is_some_and(|value| value.is_pinned()));
                held = Some((life.engine().snapshot(), life.visible(), pinned));
                run(life, &Op::delete(0, b"pinned"));
            }
            1 => merge(life),
            2 => {
                let (snapshot, model, pinned) = held.take().expect("one is held");
                for ((_, key), value) in &model.data {
                    let found = snapshot.value(CfId::DEFAULT, key).unwrap();
                    assert_eq!(found.as_deref(), Some(&**value));
                }
                assert_eq!(*pinned.expect("it was there"), [5; 1500]);
                life.close().unwrap();
                life.open().unwrap();
            }
            _ => {}
        }
    }
    let before = life.engine().metrics().compaction.internal.jobs;
    merge(life);
    let jobs = life.engine().metrics().compaction.internal.jobs - before;
    assert!(jobs > 1, "{jobs}: it is merged in parts");
    run(life, &Op::delete(0, b"f\0"));
    life.engine().flush().unwrap();
    merge(life);
    life.engine().reclaim().unwrap();
}

/// Level 0 of some zones over a base level that is much larger.
pub fn over_much(options: &mut Options) {
    in_pm(options);
    options.compaction.table_bytes = 3 << 10;
    options.compaction.base_bytes = 64 << 10;
    options.compaction.dynamic = true;
    options.compaction.level0_tables = 4;
    options.compaction.compression_last = Codec::None;
}

/// What lies in persistent memory goes into files of level 0, over older ones and those of the base level.
pub fn spilling(life: &mut Life, random: &SeededRandom) {
    for n in 0..10 {
        run(life, &Op::put(0, &[b'f' + n], value(random, 900)));
    }
    life.engine().flush().unwrap();
    life.engine()
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    let spills = |life: &Life| {
        let reasons = life.engine().metrics().compaction.reasons;
        let spill = reasons.iter().find(|(why, _)| why.name() == "spill");
        spill.map_or(0, |(_, jobs)| *jobs)
    };
    for round in 0..8 {
        // All lie over each other.
        for n in [0, 9] {
            run(life, &Op::put(0, &[b'f' + n, round], value(random, 250)));
        }
        if round > 1 {
            run(life, &Op::delete(0, &[b'f', round - 2]));
        }
        sink(life);
    }
    assert!(spills(life) > 1, "{}", spills(life));
    life.engine().reclaim().unwrap();
    life.close().unwrap();
    life.open().unwrap();
    sink(life);
}

/// Over lives that close, with a family that is dropped when a table has something of it.
pub fn sinking_lives(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Family("red".into()));
    let red = life.visible().id("red").expect("it was made");
    for round in 0..4 {
        write(life, random, round);
        if round < 3 {
            run(life, &Op::put(red, &[round], value(random, 150)));
        }
        sink(life);
        if round == 1 {
            life.close().unwrap();
            life.open().unwrap();
        }
        if round == 2 {
            run(life, &Op::Drop("red".into()));
        }
    }
    life.close().unwrap();
    life.open().unwrap();
}

/// Memtables of two families, with range tombstones over what several ranges of keys have, that are evacuated range
/// by range, twice, and once more in a life that has found some of it done, or not. Beside a snapshot.
pub fn evacuating(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Descending("red".into()));
    let red = life.visible().id("red").expect("it was made");
    for round in 0..2 {
        let held = (life.engine().snapshot(), life.expected());
        for n in 0..7u8 {
            let len = 200 + below(random, 200);
            run(life, &Op::put(0, &[b'c', n], value(random, len)));
            run(life, &Op::put(red, &[n % 3, n], value(random, 150)));
            if n == 3 {
                let to = (round == 0).then(|| vec![b'c', 6]);
                let some = Step::Clear {
                    cf: 0,
                    from: vec![b'c', 1],
                    to,
                };
                run(life, &Op::Steps(vec![some]));
            }
        }
        sink(life);
        let (snapshot, model) = held;
        for ((cf, key), value) in &model.data {
            let found = snapshot.value(CfId(*cf), key).unwrap();
            assert_eq!(found.as_deref(), Some(&**value));
        }
    }
    run(life, &Op::delete(0, b"c\0"));
    life.close().unwrap();
    life.open().unwrap();
    sink(life);
}

/// Flushes whose ranges leave persistent memory, with what lies there of them, in two families that they cut in several
/// places: over a base level that is large, and over none. Beside a snapshot, over two lives.
pub fn taking_along(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Descending("red".into()));
    let red = life.visible().id("red").expect("it was made");
    let mut ranges = 0;
    for round in 0..5u8 {
        let held = (life.engine().snapshot(), life.expected());
        for n in 0..5u8 {
            // Of one length: how often ranges leave depends on it.
            let len = 1750;
            run(life, &Op::put(0, &[b'c' + n, round], value(random, len)));
            if round % 2 == 0 {
                run(life, &Op::put(red, &[n, round], value(random, 150)));
            }
        }
        // Not before: what a merge would give back stays.
        if round >= 3 {
            run(life, &Op::delete(0, &[b'c', round - 1]));
            let some = Step::Clear {
                cf: 0,
                from: vec![b'd', 1],
                to: (round == 3).then(|| vec![b'e', 0]),
            };
            run(life, &Op::Steps(vec![some]));
        }
        sink(life);
        let (snapshot, model) = held;
        for ((cf, key), value) in &model.data {
            let found = snapshot.value(CfId(*cf), key).unwrap();
            assert_eq!(found.as_deref(), Some(&**value));
        }
        drop(snapshot);
        if round == 3 {
            ranges += life.engine().metrics().ranges_along;
            life.close().unwrap();
            life.open().unwrap();
        }
    }
    ranges += life.engine().metrics().ranges_along;
    assert!(ranges > 1, "{ranges}");
    sink(life);
}

/// Zones of chains and of tables are made wider by those behind them, over two lives, and are free behind a compaction.
pub fn wide(life: &mut Life, random: &SeededRandom) {
    for round in 0..3u8 {
        for n in 0..3u8 {
            let len = 9_000 + below(random, 2_000);
            run(life, &Op::put(0, &[b'w', n, round], value(random, len)));
        }
        if round == 1 {
            life.close().unwrap();
            life.open().unwrap();
        }
        sink(life);
    }
    life.engine()
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    life.engine().reclaim().unwrap();
    sink(life);
}
