//! Workloads in which values are long: they lie in blob files, and records refer to them. A crash at any instant
//! finds every acknowledged value, no reference without its file, and no file without a reference once the
//! store is open (`check`).

use std::ops::Bound::Unbounded;

use thermocline_base::CfId;
use thermocline_base::options::{Options, Shape};
use thermocline_engine::Durability;
use thermocline_env::simulated::SeededRandom;

use crate::groups::rare_write_back;
use crate::life::Life;
use crate::oracle::{Change, Op};
use crate::workload::{below, key, run, small_memtables, value};

pub fn long_values(options: &mut Options) {
    small_memtables(options);
    options.blob.inline_bytes_max = 64;
    options.blob.generation_bytes = 2 << 10;
    options.compaction.table_bytes = 512;
    options.compaction.level0_tables = 2;
    options.compaction.levels = 2;
}

/// Long values, some of them in batches that are staged.
pub fn staged_values(options: &mut Options) {
    rare_write_back(options);
    options.blob.inline_bytes_max = 64;
    options.memtable.item_bytes_max = 4 << 10;
}

/// Short and long values, and deletes, of some families.
fn mixed(random: &SeededRandom, families: u16) -> Op {
    let change = |n: usize| Change {
        cf: u16::try_from(below(random, usize::from(families))).unwrap(),
        key: key(random).to_vec(),
        value: (random.below(5) != 0).then(|| {
            let len = if n.is_multiple_of(2) { 150 } else { 30 };
            value(random, len + below(random, 30)).into()
        }),
    };
    Op::Write((0..2 + below(random, 3)).map(change).collect())
}

/// Values that are written, overwritten, flushed, and compacted until their files go, beside a snapshot.
pub fn blobs(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::put(0, b"kept", value(random, 100)));
    let held = (life.engine().snapshot(), life.visible());
    for round in 0..4 {
        run(life, &mixed(random, 1));
        match round {
            1 => drop(life.engine().reclaim().unwrap()),
            2 => drop(life.engine().flush().unwrap()),
            _ => {}
        }
    }
    let (snapshot, model) = held;
    for ((_, key), want) in &model.data {
        let found = snapshot.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_deref(), Some(&**want));
    }
    drop(snapshot);
    let before = life.engine().metrics().blobs.files;
    run(life, &Op::put(0, b"kept", value(random, 10)));
    life.engine().flush().unwrap();
    life.engine()
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
    life.engine().reclaim().unwrap();
    let after = life.engine().metrics().blobs.files;
    assert!(after < before, "{before} files, then {after}");
    run(life, &Op::put(0, b"kept", value(random, 90)));
}

/// Values that flushes write apart from tables.
pub fn values_apart(options: &mut Options) {
    small_memtables(options);
    options.level0.shape = Some(Shape::GlobalIndex);
    options.blob.value_bytes_min = 64;
    options.blob.file_bytes = 1 << 10;
    options.blob.space_percent_max = 101;
    options.compaction.table_bytes = 512;
    options.compaction.level0_tables = 1;
    options.compaction.levels = 2;
}

/// Values that are written apart, and whose files are collected, over two lives.
pub fn apart(life: &mut Life, random: &SeededRandom) {
    let all = |life: &mut Life, some: fn(u8) -> bool| {
        for n in (0..12u8).filter(|n| some(*n)) {
            run(life, &Op::put(0, &[b'a', n], value(random, 80)));
        }
        life.engine().flush().unwrap();
        while life.engine().compact_once().unwrap() {}
    };
    all(life, |_| true);
    let held = (life.engine().snapshot(), life.visible());
    all(life, |n| n % 3 == 0);
    let (snapshot, model) = held;
    for ((_, key), want) in &model.data {
        let found = snapshot.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_deref(), Some(&**want));
    }
    drop(snapshot);
    life.close().unwrap();
    life.open().unwrap();
    run(life, &mixed(random, 1));
    all(life, |n| n % 3 == 1);
    let compaction = life.engine().metrics().compaction;
    let collected = compaction
        .reasons
        .iter()
        .find(|(r, _)| r.name() == "garbage");
    assert!(
        collected.is_some_and(|(_, jobs)| *jobs > 0),
        "{collected:?}"
    );
}

/// Over lives that close, with a family that is dropped.
pub fn blob_lives(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Family("red".into()));
    for round in 0..3 {
        run(life, &mixed(random, if round < 2 { 2 } else { 1 }));
        run(life, &Op::put(0, &[round], value(random, 100)));
        if round == 1 {
            life.engine().flush().unwrap();
            run(life, &Op::Drop("red".into()));
        }
        life.close().unwrap();
        life.open().unwrap();
        assert!(life.engine().metrics().blobs.files > 0);
    }
}

/// Buffered, in flight beside others, and staged.
pub fn blobs_flying(life: &mut Life, random: &SeededRandom) {
    for n in 0..3u8 {
        let (buffered, immediate) = (Durability::Buffered, Durability::Immediate);
        assert!(life.run_as(&mixed(random, 2), buffered).unwrap());
        let first = life.begin(&Op::put(0, b"first", value(random, 100)), immediate);
        let second = life.begin(&Op::put(0, b"second", value(random, 80)), buffered);
        life.carry(second, buffered);
        life.carry(first, immediate);
        if n == 1 {
            // Larger than an item, though long values are left out.
            let change = |n: u8| Change {
                cf: 0,
                key: vec![b's', n % 50],
                value: Some(value(random, if n.is_multiple_of(20) { 100 } else { 60 }).into()),
            };
            run(life, &Op::Write((0..60).map(change).collect()));
            assert!(life.engine().metrics().memtables.len() > 1, "staged");
        }
    }
}
