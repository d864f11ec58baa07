//! A workload in which partitions are made and removed, by hand and by size, while tables sink. A crash at any
//! instant finds all of an edit or nothing of it (`engine::partitions`), and the same data either way.

use std::ops::Bound::Unbounded;

use thermocline_base::CfId;
use thermocline_base::options::{Options, PartitionBy};
use thermocline_env::simulated::SeededRandom;

use crate::compaction::small_levels;
use crate::life::Life;
use crate::oracle::Op;
use crate::workload::{below, key, run, value};

/// Levels of small tables, split when they are more than a few.
pub fn small_partitions(options: &mut Options) {
    small_levels(options);
    options.partition.by = PartitionBy::Size;
    options.partition.bytes = 2 << 10;
}

fn reads_as_expected(life: &Life) {
    let model = life.visible();
    let found = life.dump(&[model.clone().into()]).unwrap();
    assert!(found == model, "{}", model.difference(&found));
}

fn write(life: &Life, random: &SeededRandom, round: u8) {
    let len = 100 + below(random, 100);
    for n in 0..4 {
        run(
            life,
            &Op::put(0, &[b'a' + 5 * n, round], value(random, len)),
        );
    }
    run(life, &Op::delete(0, key(random)));
}

/// Splits and merges beside a snapshot, over two lives, in one of which they are made by size.
pub fn partitions(life: &mut Life, random: &SeededRandom) {
    let engine = |life: &Life| life.engine().clone();
    let cf = CfId::DEFAULT;
    let mut held = None;
    for round in 0..5 {
        write(life, random, round);
        engine(life).flush().unwrap();
        match round {
            0 => {
                assert!(engine(life).split_partition(cf, b"f\0").unwrap());
                held = Some((engine(life).snapshot(), life.visible()));
            }
            1 => assert!(engine(life).split_partition(cf, b"k").unwrap()),
            2 => {
                assert!(engine(life).split_partition(cf, b"b").unwrap());
                assert!(engine(life).merge_partition(cf, b"b").unwrap());
                let (snapshot, model) = held.take().expect("one is held");
                for ((_, key), value) in &model.data {
                    let found = snapshot.value(cf, key).unwrap();
                    assert_eq!(found.as_deref(), Some(&**value));
                }
            }
            3 => {
                life.close().unwrap();
                life.open().unwrap();
            }
            _ => {}
        }
        reads_as_expected(life);
    }
    let before = engine(life).partitions(cf).len();
    assert!(before > 1, "{before}");
    for round in 0..4 {
        for n in 0..4 {
            run(life, &Op::delete(0, &[b'a' + 5 * n, round]));
        }
    }
    engine(life).compact(cf, (Unbounded, Unbounded)).unwrap();
    reads_as_expected(life);
}
