//! Moves within bounds that change from move to move, against a map.

use std::ops::Bound;

use thermocline_base::bounds::is_empty;
use thermocline_base::{Codec, ErrorKind};
use thermocline_memtable::{Direction, Lookup};

use super::*;

pub(super) fn bound<'a>(rng: &mut Rng, all: &'a [Vec<u8>]) -> Bound<&'a [u8]> {
    let key = rng.pick(all).as_slice();
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

/// The first entry from a bound on that does not lie behind the other one, upwards or downwards.
pub(super) fn first<'m>(
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
    for seed in seeds(0..explored(2, 8)) {
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
            // These are older than most keys.
            if matches!(n, 3 | 10) {
                run.held.push((run.engine.snapshot(), run.models.clone()));
            }
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
    assert!(tables > 3 || std::env::var("THERMOCLINE_SEED").is_ok());
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
        let seen = crate::tests::count_within(&engine, from, until, way);
        assert_eq!((seen, engine.metrics().stepped_over - before), (10, 0));
    }
}

/// At a moment that is older than most keys, wherever they lie.
#[test]
fn a_bounded_move_at_an_older_moment_loses_nothing() {
    let all = keys();
    for seed in seeds(0..explored(16, 80)) {
        let _replay = Replay::new("-p thermocline-engine a_bounded_move_at_an_older", seed);
        let mut rng = Rng::new(seed);
        let machine = Machine::new(PM);
        let mut options = options();
        let shapes = ["global-index", "tiered", "pm-tables", "immutables", "ssd"];
        let shape = *rng.pick(&shapes[..]);
        options.set("level0.shape", shape).unwrap();
        options.read.readahead = *rng.pick(&[1, 3, 64]);
        options.compaction.table_bytes = *rng.pick(&[1 << 10, options.compaction.table_bytes]);
        options.compaction.compression_level0 = Codec::None;
        let engine = open_with(&machine, &options);
        let mut model = Model::new();
        for key in all.iter().filter(|_| rng.one_in(6)) {
            put(&engine, key, b"old");
            model.insert(key.clone(), b"old".to_vec());
        }
        let before = engine.snapshot();
        for _ in 0..150 {
            let (key, value) = (&all[rng.below(all.len())], vec![7u8; rng.below(200)]);
            put(&engine, key, &value);
            match rng.below(60) {
                0 => drop(engine.flush().unwrap()),
                1 => engine.inner.memtables.seal_active().unwrap(),
                2 => delete_range(&engine, key, None),
                _ => {}
            }
        }
        for _ in 0..10 {
            let cursor = before.cursor(Family::DEFAULT).unwrap();
            wander(&mut rng, cursor, &model);
        }
    }
}

/// Two old keys, and a moment that has nothing else, since all that lies between them is newer.
fn old_around_new(engine: &Engine) -> Snapshot {
    put(engine, b"a", b"old");
    put(engine, b"c", b"old");
    let before = engine.snapshot();
    for n in 0..1000 {
        put(engine, format!("b{n:04}").as_bytes(), &[7; 40]);
    }
    before
}

/// What is newer is rotten in the middle: a cursor meets that if it is asked for, and not sooner.
fn check_ends(before: &Snapshot) {
    for (key, near, way) in [
        (&b"a"[..], &b"b0100"[..], Direction::Forward),
        (&b"c"[..], &b"b0900"[..], Direction::Reverse),
    ] {
        let mut cursor = before.cursor(Family::DEFAULT).unwrap();
        for until in [key, near] {
            let until = Bound::Included(until);
            let end = Bound::Included(key);
            let found = cursor.seek_within(Bound::Unbounded, end, way);
            assert!(found.unwrap(), "{way:?}");
            assert_eq!((cursor.key(), cursor.value()), (key, &b"old"[..]));
            assert!(!cursor.step_within(until, way).unwrap(), "{way:?}");
            // Once more from there, with no bound.
            assert!(cursor.seek_within(end, until, way).unwrap(), "{way:?}");
            assert_eq!(cursor.key(), key);
            let error = cursor.step_within(Bound::Unbounded, way).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert!(!cursor.valid());
        }
    }
}

/// The records of newer keys behind a bound are not walked over: here they cannot be.
#[test]
fn newer_records_behind_a_bound_are_not_walked_over() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    let before = old_around_new(&engine);
    let seqno = engine.visible();
    let view = engine.inner.common.catalog.view();
    let mut places = view.memtables.iter().filter_map(|memtable| {
        match memtable.get(CF, b"b0500", seqno, true).unwrap() {
            Lookup::Record(record) => Some(record.at),
            _ => None,
        }
    });
    let at = places.next().expect("a memtable has it");
    machine.rot(at.plus(4));
    check_ends(&before);
}

/// Nor are the entries of tables.
#[test]
fn newer_entries_of_a_table_behind_a_bound_are_not_walked_over() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.compaction.block_bytes = 2 << 10;
    options.compaction.table_bytes = 1 << 20;
    options.compaction.compression_level0 = Codec::None;
    // Each block is read when it is needed.
    options.read.ahead_bytes = 0;
    let engine = open_with(&machine, &options);
    let before = old_around_new(&engine);
    engine.flush().unwrap();
    let table = machine.only_table();
    let len = machine.file_len(&table);
    let middle = len * 2 / 5..len * 3 / 5;
    middle
        .step_by(64)
        .for_each(|at| machine.rot_file(&table, at));
    engine.inner.common.catalog.table_files.cache().forget();
    check_ends(&before);
}

/// What lies behind an entry that a cursor shows is read when it is asked for: here it cannot be.
#[test]
fn what_lies_behind_a_shown_entry_is_not_read_before_it_is_asked_for() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    (0..3u8).for_each(|n| put(&engine, &[n], &[n; 40]));
    let view = engine.inner.common.catalog.view();
    let found = view.memtables[0].get(CF, &[1], engine.visible(), true);
    let Lookup::Record(record) = found.unwrap() else {
        panic!("it is there");
    };
    machine.rot(record.at.plus(4));
    for (from, way) in [([0], Direction::Forward), ([2], Direction::Reverse)] {
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let bound = Bound::Included(&from[..]);
        let found = cursor.seek_within(bound, Bound::Unbounded, way);
        assert!(found.unwrap(), "{way:?}");
        assert_eq!(
            (cursor.key(), cursor.value()),
            (&from[..], &[from[0]; 40][..])
        );
        let error = cursor.step_within(Bound::Unbounded, way).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(!cursor.valid());
    }
}
