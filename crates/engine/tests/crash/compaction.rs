//! Workloads in which tables sink from level to level: merged, moved unread, and removed. A crash at any
//! instant finds what was there before the edit or after it (`engine::compact`), and the next life goes
//! on compacting (`check::write_on`).

use std::ops::Bound::Unbounded;
use std::time::Duration;

use thermocline_base::CfId;
use thermocline_base::Codec;
use thermocline_base::options::Options;
use thermocline_engine::CompactionReason;
use thermocline_env::simulated::SeededRandom;

use crate::life::Life;
use crate::oracle::Op;
use crate::workload::{below, key, run, small_memtables, value};

/// Levels of one or two tables of a few keys.
pub fn small_levels(options: &mut Options) {
    small_memtables(options);
    let compaction = &mut options.compaction;
    compaction.level0_tables = 2;
    compaction.base_bytes = 1 << 10;
    compaction.table_bytes = 512;
    compaction.block_bytes = 256;
    compaction.multiplier = 2;
    compaction.levels = 2;
    compaction.dynamic = false;
    // Jobs that are large enough are divided into up to four.
    compaction.io_depth = 16;
    compaction.compression = Codec::None;
    compaction.compression_last = Codec::Zstd;
}

/// What level 0 is compacted into at once lies in the last level.
pub fn one_level(options: &mut Options) {
    small_levels(options);
    options.compaction.dynamic = true;
    options.compaction.base_bytes = 4 << 10;
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

/// Down to the last level, beside a snapshot for which older versions stay; then all of it at once.
pub fn sinking(life: &mut Life, random: &SeededRandom) {
    let mut held = None;
    for round in 0..5 {
        write(life, random, round);
        if round == 1 {
            held = Some((life.engine().snapshot(), life.expected()));
        }
        if round == 3 {
            let (snapshot, model) = held.take().expect("one is held");
            for ((_, key), value) in &model.data {
                let found = snapshot.value(CfId::DEFAULT, key).unwrap();
                assert_eq!(found.as_deref(), Some(&**value));
            }
        }
        sink(life);
    }
    run(life, &Op::delete(0, b"m\0"));
    life.engine()
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    let levels = life.engine().metrics().compaction.levels;
    let jobs: u64 = levels[1..].iter().map(|level| level.jobs).sum();
    let moved: u64 = levels.iter().map(|level| level.tables_moved).sum();
    assert!(jobs > 2 && moved > 0 && levels[2].jobs > 0, "{levels:?}");
}

/// A filter removes one key after the other, by jobs that end above older versions of it, and in the last level; beside a
/// snapshot that sees an older version.
pub fn filters(life: &mut Life, random: &SeededRandom) {
    life.open_filtered();
    let mut removed = 0;
    let mut held = None;
    for round in 0..6 {
        let gone = [b'g', round % 2];
        for _ in 0..2 {
            write(life, random, round);
            run(life, &Op::put(0, &gone, value(random, 150)));
            sink(life);
        }
        if round == 1 {
            held = Some((life.engine().snapshot(), life.expected()));
        }
        // Newer than what the snapshot sees.
        run(life, &Op::put(0, &gone, value(random, 150)));
        let by_hand = round % 3 == 2;
        let was_removed = life.filter(&gone, |engine| match by_hand {
            true => engine
                .compact(CfId::DEFAULT, (Unbounded, Unbounded))
                .unwrap(),
            false => {
                engine.flush().unwrap();
                while engine.compact_once().unwrap() {}
            }
        });
        removed += usize::from(was_removed);
        assert!(was_removed || !by_hand);
        if round == 4 {
            let (snapshot, model) = held.take().expect("one is held");
            for ((_, key), value) in &model.data {
                let found = snapshot.value(CfId::DEFAULT, key).unwrap();
                assert_eq!(found.as_deref(), Some(&**value));
            }
        }
        sink(life);
    }
    assert!(removed > 2, "{removed}");
}

/// One key after the other expires in a family that has nothing else: as a table that goes unread, alone or above older versions
/// that have expired, too, and by compactions that take it along.
pub fn ttl(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Family("red".into()));
    let red = life.visible().id("red").expect("it was made");
    life.open_with_ttl("red", Duration::from_secs(1000));
    let mut expired = 0;
    for round in 0..6 {
        let key = [b'x', round];
        for _ in 0..=round % 2 {
            write(life, random, round);
            run(life, &Op::put(red, &key, value(random, 150)));
            sink(life);
            while life.engine().compact_once().unwrap() {}
            life.wait(Duration::from_secs(20));
        }
        // The time is noted with what is written next.
        write(life, random, round);
        sink(life);
        life.wait(Duration::from_secs(1000));
        let by_hand = round % 3 == 2;
        let has_gone = life.expire(red, &key, |engine| match by_hand {
            true => engine.compact(CfId(red), (Unbounded, Unbounded)).unwrap(),
            false => while engine.compact_once().unwrap() {},
        });
        expired += usize::from(has_gone);
        sink(life);
    }
    assert_eq!(expired, 6);
    let reasons = life.engine().metrics().compaction.reasons;
    let dropped = |(reason, jobs): &(CompactionReason, u64)| {
        *reason == CompactionReason::Expired && *jobs > 2
    };
    assert!(reasons.iter().any(dropped), "{reasons:?}");
}

/// Over lives that close, with a family that is dropped when its tables lie in several levels.
pub fn sinking_lives(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Family("red".into()));
    let red = life.visible().id("red").expect("it was made");
    for round in 0..5 {
        write(life, random, round);
        if round < 3 {
            run(life, &Op::put(red, &[round], value(random, 150)));
        }
        sink(life);
        if round == 1 {
            life.close().unwrap();
            life.open().unwrap();
        }
        if round == 3 {
            run(life, &Op::Drop("red".into()));
        }
    }
    life.close().unwrap();
    life.open().unwrap();
}
