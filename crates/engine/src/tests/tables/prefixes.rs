//! Ranges of keys that begin alike, where tables have prefixes in their filters and where they have none.

use std::ops::Bound;

use thermocline_base::bounds::behind_prefix;
use thermocline_base::options::PartitionBy;
use thermocline_memtable::Direction;

use super::*;
use crate::tests::count_within;

const RUNS: u32 = 3;
const PREFIXES: u32 = 1000;

/// Tables of three flushes, each with one key of every second prefix.
fn loaded(by: PartitionBy) -> (Home, Engine) {
    let mut home = Home::new();
    home.options.partition.by = by;
    home.options.partition.prefix_len = 4;
    let engine = home.open();
    for run in 0..RUNS {
        let mut batch = WriteBatch::new();
        for n in 0..PREFIXES {
            let key = [key(2 * n), key(run)].concat();
            batch.put(CF, &key, &[7; 100]).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        engine.flush().unwrap();
    }
    // Opens all of them.
    let whole = (Bound::Unbounded, Bound::Unbounded);
    let all = count_within(&engine, whole.0, whole.1, Direction::Forward);
    assert_eq!(u32::try_from(all).unwrap(), RUNS * PREFIXES);
    (home, engine)
}

/// How many keys begin with this prefix, as a cursor finds them that goes this way.
fn of_prefix(engine: &Engine, prefix: u32, way: Direction) -> u32 {
    let begin = key(prefix);
    let end = behind_prefix(&begin).unwrap();
    let (low, high) = (Bound::Included(&begin[..]), Bound::Excluded(&end[..]));
    let (from, until) = match way {
        Direction::Forward => (low, high),
        Direction::Reverse => (high, low),
    };
    u32::try_from(count_within(engine, from, until, way)).unwrap()
}

/// Calls that read for scans of prefixes that nobody has, with nothing in the cache.
fn calls_for_absent((home, engine): &(Home, Engine), way: Direction) -> u64 {
    let calls = (0..PREFIXES - 1).map(|n| {
        files(engine).cache().forget();
        let (calls, seen) = home.reads_of(|| of_prefix(engine, 2 * n + 1, way));
        assert_eq!(seen, 0, "{n}");
        calls
    });
    calls.sum()
}

#[test]
fn scans_of_prefixes_that_are_not_there_read_nothing() {
    let (with, without) = (loaded(PartitionBy::Prefix), loaded(PartitionBy::None));
    for way in [Direction::Forward, Direction::Reverse] {
        let (few, many) = (
            calls_for_absent(&with, way),
            calls_for_absent(&without, way),
        );
        // A filter is wrong once in 256 times, and a range that lies between two tables of a run reads nothing anyway.
        let most = u64::from(RUNS * PREFIXES);
        assert!(few <= most / 50, "{few} calls, {way:?}");
        assert!(many >= most * 9 / 10, "{many} calls, {way:?}");
        for (_, engine) in [&with, &without] {
            for n in (0..PREFIXES).step_by(7) {
                assert_eq!(of_prefix(engine, 2 * n, way), RUNS, "{n} {way:?}");
            }
        }
    }
}

/// A range tombstone of a table that has no key with the prefix covers those of older tables.
#[test]
fn what_covers_a_prefix_is_not_passed_over() {
    let (_home, engine) = loaded(PartitionBy::Prefix);
    let mut batch = WriteBatch::new();
    batch.delete_range(CF, &key(100), Some(&key(201))).unwrap();
    batch
        .put(CF, &[key(1), key(9)].concat(), b"beside")
        .unwrap();
    batch
        .put(CF, &[key(301), key(9)].concat(), b"beside")
        .unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    for way in [Direction::Forward, Direction::Reverse] {
        for n in (0..PREFIXES / 5).map(|n| 2 * n) {
            let left = if (100..201).contains(&n) { 0 } else { RUNS };
            assert_eq!(of_prefix(&engine, n, way), left, "{n} {way:?}");
        }
        assert_eq!(of_prefix(&engine, 301, way), 1);
    }
}
