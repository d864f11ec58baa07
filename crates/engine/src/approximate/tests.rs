//! Sizes of ranges against counting what was written.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{CfOptions, ErrorKind, WriteBatch};
use thermocline_testkit::{Replay, Rng, seeds};

use super::rulers::STEP;
use super::*;
use crate::Durability;
use crate::store::Engine;
use crate::tests::Machine;

const VALUE: usize = 100;

fn open(machine: &Machine) -> Engine {
    let mut options = Options {
        pm: 16 << 20,
        ..Options::default()
    };
    // What is looked at lies in files.
    options.set("level0.shape", "global-index").unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 8 << 20;
    Engine::open(machine.world(), Path::new("/db"), options).unwrap()
}

fn put(engine: &Engine, cf: CfId, keys: impl Iterator<Item = u32>) {
    let mut batch = WriteBatch::new();
    for n in keys {
        batch.put(cf, &n.to_be_bytes(), &[7; VALUE]).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn size(engine: &Engine, cf: CfId, range: KeyBounds<'_>) -> RangeSize {
    engine.approximate_sizes(cf, &[range]).unwrap()[0]
}

/// The distance of two numbers.
fn off(a: u64, b: u64) -> u64 {
    a.abs_diff(b)
}

#[test]
fn a_memtable_is_measured_by_its_index() {
    let engine = open(&Machine::new(16 << 20));
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(size(&engine, CfId::DEFAULT, all), RangeSize::default());
    for seed in seeds(0..4) {
        let _replay = Replay::new("-p thermocline-engine --lib a_memtable_is_measured", seed);
        let machine = Machine::new(16 << 20);
        let engine = open(&machine);
        let mut rng = Rng::new(seed);
        let mut keys = BTreeSet::new();
        for round in 0..12 {
            let more: Vec<u32> = (0..500)
                .map(|_| u32::try_from(rng.below(20_000)).unwrap())
                .collect();
            put(&engine, CfId::DEFAULT, more.iter().copied());
            keys.extend(more);
            for _ in 0..40 {
                let (a, b) = (rng.below(21_000), rng.below(21_000));
                let (a, b) = (
                    u32::try_from(a.min(b)).unwrap(),
                    u32::try_from(a.max(b)).unwrap(),
                );
                let ends = (a.to_be_bytes(), b.to_be_bytes());
                let range = (Bound::Included(&ends.0[..]), Bound::Excluded(&ends.1[..]));
                let true_count = keys.range(a..b).count() as u64;
                let got = size(&engine, CfId::DEFAULT, range);
                // What came since the ruler was made is an eighth at most.
                let bound = keys.len() as u64 / 8 + 2;
                let error = off(got.entries, true_count);
                assert!(error <= bound, "round {round}: {got:?} of {true_count}");
                if true_count <= STEP as u64 {
                    assert_eq!(got.entries, true_count);
                }
                assert_eq!(got.table_bytes, 0);
            }
        }
        let whole = size(&engine, CfId::DEFAULT, all);
        let memtables = engine.metrics().memtables;
        assert_eq!(memtables.len(), 1);
        let least = whole.entries * VALUE as u64;
        assert!(
            whole.pm_bytes >= least && whole.pm_bytes <= memtables[0].bytes,
            "{whole:?}"
        );
    }
}

#[test]
fn tables_are_measured_to_a_block_at_each_end_and_families_apart() {
    let engine = open(&Machine::new(16 << 20));
    let other = engine.family("other", &CfOptions::default()).unwrap().id;
    // Two runs, of many tables each.
    put(&engine, CfId::DEFAULT, (0..4000).map(|n| n * 2));
    engine.flush().unwrap();
    put(&engine, CfId::DEFAULT, (0..4000).map(|n| n * 2 + 1));
    put(&engine, other, 0..100);
    engine.flush().unwrap();
    let bytes: u64 = engine
        .metrics()
        .levels
        .iter()
        .map(|level| level.bytes)
        .sum();
    let all = (Bound::Unbounded, Bound::Unbounded);
    let whole = size(&engine, CfId::DEFAULT, all);
    let rest = size(&engine, other, all);
    assert_eq!((whole.entries, rest.entries), (8000, 100));
    assert_eq!((whole.pm_bytes, whole.bytes() + rest.bytes()), (0, bytes));
    let mut rng = Rng::new(3);
    for _ in 0..500 {
        let (a, b) = (rng.below(8200), rng.below(8200));
        let (a, b) = (
            u32::try_from(a.min(b)).unwrap(),
            u32::try_from(a.max(b)).unwrap(),
        );
        let ends = (a.to_be_bytes(), b.to_be_bytes());
        let range = (Bound::Included(&ends.0[..]), Bound::Excluded(&ends.1[..]));
        let true_count = u64::from(b.min(8000) - a.min(8000));
        let got = size(&engine, CfId::DEFAULT, range);
        // Some 35 entries in a block; two ends in two runs. A table has bytes beside its blocks.
        assert!(
            off(got.entries, true_count) <= 4 * 45,
            "{a} to {b}: {got:?}"
        );
        let true_bytes = true_count * whole.table_bytes / 8000;
        assert!(
            off(got.table_bytes, true_bytes) <= 4 * 5500,
            "{a} to {b}: {got:?}, {true_bytes}"
        );
    }
    // A range within, of several, in the order in which they were asked for.
    let (a, b) = (1000u32.to_be_bytes(), 3000u32.to_be_bytes());
    let two = [
        (Bound::Unbounded, Bound::Excluded(&a[..])),
        (Bound::Excluded(&a[..]), Bound::Included(&b[..])),
        (Bound::Included(&b[..]), Bound::Included(&a[..])),
    ];
    let sizes = engine.approximate_sizes(CfId::DEFAULT, &two).unwrap();
    assert!(
        off(sizes[0].entries, 1000) < 180 && off(sizes[1].entries, 2000) < 180,
        "{sizes:?}"
    );
    assert_eq!(sizes[2], RangeSize::default());
    engine.drop_family("other").unwrap();
    let error = engine.approximate_sizes(other, &two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}
