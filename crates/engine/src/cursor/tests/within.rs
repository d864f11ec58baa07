//! Moves within bounds that change from move to move, against a map.

use std::ops::Bound;

use thermocline_base::Codec;
use thermocline_base::bounds::is_empty;
use thermocline_memtable::Direction;

use super::*;

fn bound<'a>(rng: &mut Rng, all: &'a [Vec<u8>]) -> Bound<&'a [u8]> {
    let key = rng.pick(all).as_slice();
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// The first entry from a bound on that does not lie behind the other one, upwards or downwards.
fn first<'m>(
    model: &'m Model,
    (from, until): (Bound<&[u8]>, Bound<&[u8]>),
    ascending: bool,
) -> Option<(&'m Vec<u8>, &'m Vec<u8>)> {
    let range = match ascending {
        true => (from, until),
        false => (until, from),
    };
    if is_empty(range) {
        return None;
    }
    let mut within = model.range::<[u8], _>(range);
    match ascending {
        true => within.next(),
        false => within.next_back(),
    }
}

/// Seeks, steps on, turns round, and goes on behind what was its end before.
fn wander(rng: &mut Rng, mut cursor: Cursor, model: &Model) {
    let all = keys();
    let mut at: Option<Vec<u8>> = None;
    let mut way = Direction::Forward;
    for _ in 0..80 {
        if rng.one_in(4) {
            way = *rng.pick(&[Direction::Forward, Direction::Reverse]);
        }
        let until = bound(rng, &all);
        let (from, found) = match &at {
            Some(key) if !rng.one_in(8) => {
                let found = cursor.step_within(until, way);
                (Bound::Excluded(key.as_slice()), found.unwrap())
            }
            _ => {
                let from = bound(rng, &all);
                (from, cursor.seek_within(from, until, way).unwrap())
            }
        };
        let ascending = (way == Direction::Forward) != cursor.is_reverse();
        let wanted = first(model, (from, until), ascending);
        assert_eq!(found, wanted.is_some(), "{from:?} {until:?} {way:?}");
        assert_eq!(cursor.valid(), found);
        let (key, value) = wanted.map_or((&[][..], &[][..]), |(k, v)| (&k[..], &v[..]));
        assert_eq!((cursor.key(), cursor.value()), (key, value));
        at = wanted.map(|(key, _)| key.clone());
    }
}

/// In memtables and in many small tables, over deleted keys and ranges, in both orders.
#[test]
fn a_bounded_move_finds_what_lies_within_and_nothing_else() {
    let mut tables = 0;
    for seed in seeds(0..explored(4, 20)) {
        let _replay = Replay::new("-p thermocline-engine a_bounded_move_finds", seed);
        let mut run = Run::new(seed);
        let compaction = &mut run.options.compaction;
        compaction.table_bytes = 1 << 10;
        compaction.compression_level0 = Codec::None;
        compaction.compression = Codec::None;
        compaction.compression_last = Codec::None;
        run.engine.close().unwrap();
        run.engine = open_with(&run.machine, &run.options);
        for n in 0..200 {
            run.step(n);
            if !n.is_multiple_of(5) {
                continue;
            }
            for (family, model) in run.families.iter().zip(&run.models) {
                let cursor = run.engine.cursor(*family).unwrap();
                wander(&mut run.rng, cursor, model);
            }
            for (snapshot, models) in &run.held {
                for (family, model) in run.families.iter().zip(models) {
                    let cursor = snapshot.cursor(*family).unwrap();
                    wander(&mut run.rng, cursor, model);
                }
            }
            tables = tables.max(crate::tests::version_of(&run.engine).tables().count());
        }
    }
    assert!(tables > 4 || std::env::var("THERMOCLINE_SEED").is_ok());
}

/// A cursor steps over no deleted key behind its bound.
#[test]
fn deleted_keys_behind_a_bound_are_not_stepped_over() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    let key = |n: u32| n.to_be_bytes().to_vec();
    (0..1000).for_each(|n| put(&engine, &key(n), b"value"));
    for n in (0..500).chain(510..1000) {
        write(&engine, |batch| batch.delete(CF, &key(n)).unwrap());
    }
    let (low, high) = (key(500), key(509));
    let (low, high) = (Bound::Included(&low[..]), Bound::Included(&high[..]));
    for (from, until, way) in [
        (low, high, Direction::Forward),
        (high, low, Direction::Reverse),
    ] {
        let before = engine.metrics().stepped_over;
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let mut seen = 0;
        let mut more = cursor.seek_within(from, until, way).unwrap();
        while more {
            seen += 1;
            more = cursor.step_within(until, way).unwrap();
        }
        assert_eq!((seen, engine.metrics().stepped_over - before), (10, 0));
    }
}
