//! Gaps: what was stepped through once is passed, in all layers and both ways; histories against a map, and
//! cursors beside writers.

use thermocline_base::planted::{Bug, plant};
use thermocline_memtable::Direction;

use super::*;

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// Of each of these keys a put, or a delete.
fn write_all(engine: &Engine, keys: impl Iterator<Item = u32>, puts: bool) {
    let keys: Vec<u32> = keys.collect();
    for some in keys.chunks(100) {
        write(engine, |batch| {
            for &n in some {
                match puts {
                    true => batch.put(CF, &key(n), b"value").unwrap(),
                    false => batch.delete(CF, &key(n)).unwrap(),
                };
            }
        });
    }
}

/// The first key of all, on this way.
fn first(engine: &Engine, way: Direction) -> Option<u32> {
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let found = match way {
        Direction::Forward => cursor.seek_to_first(),
        Direction::Reverse => cursor.seek_to_last(),
    };
    let here = || u32::from_be_bytes(cursor.key().try_into().unwrap());
    found.unwrap().then(here)
}

fn stepped(engine: &Engine) -> u64 {
    engine.metrics().stepped_over
}

fn roomy() -> (Machine, Options) {
    let mut options = options();
    options.pm = 16 << 20;
    (Machine::new(16 << 20), options)
}

/// On a queue each look at the head costs the same, however much was deleted before it.
#[test]
fn a_queue_does_not_step_through_all_that_was_deleted() {
    const LOOKS: u32 = 500;
    for way in [Direction::Forward, Direction::Reverse] {
        // The n-th of the queue, from its head on.
        let nth = |n: u32| match way {
            Direction::Forward => n,
            Direction::Reverse => u32::MAX - n,
        };
        let mut costs = Vec::new();
        for deleted in [500, 5000] {
            let (machine, options) = roomy();
            let engine = open_with(&machine, &options);
            write_all(&engine, (0..=deleted).map(nth), true);
            write_all(&engine, (0..deleted).map(nth), false);
            assert_eq!(first(&engine, way), Some(nth(deleted)));
            assert_eq!(stepped(&engine), u64::from(deleted), "once");
            for n in deleted..deleted + LOOKS {
                write_all(&engine, [nth(n + 1)].into_iter(), true);
                assert_eq!(first(&engine, way), Some(nth(n)));
                write_all(&engine, [nth(n)].into_iter(), false);
            }
            costs.push(stepped(&engine) - u64::from(deleted));
        }
        assert!(
            costs[0] == costs[1] && costs[1] <= 4 * u64::from(LOOKS),
            "{costs:?}"
        );
    }
}

/// Nor on one of which the puts go anywhere.
#[test]
fn a_queue_with_priorities_does_not_either() {
    const MOST: u16 = 4000;
    let (machine, options) = roomy();
    let engine = open_with(&machine, &options);
    let mut rng = Rng::new(3);
    let most = u32::from(MOST);
    write_all(&engine, 0..most, true);
    write_all(&engine, 0..most / 2, false);
    let mut there: std::collections::BTreeSet<u32> = (most / 2..most).collect();
    assert_eq!(first(&engine, Direction::Forward), there.first().copied());
    let before = stepped(&engine);
    for _ in 0..1000 {
        let n = u32::try_from(rng.below(MOST.into())).unwrap();
        write_all(&engine, [n].into_iter(), true);
        there.insert(n);
        for _ in 0..1 + rng.below(2) {
            let head = there.pop_first().unwrap();
            assert_eq!(first(&engine, Direction::Forward), Some(head));
            write_all(&engine, [head].into_iter(), false);
        }
    }
    let cost = stepped(&engine) - before;
    assert!(cost < 10_000, "{cost}");
}

#[test]
fn what_was_stepped_through_is_passed_wherever_it_lies() {
    const MOST: u32 = 900;
    for lies in 0..4 {
        let (machine, options) = roomy();
        let engine = open_with(&machine, &options);
        write_all(&engine, 0..=MOST, true);
        if lies > 0 {
            engine.inner.memtables.seal_active().unwrap();
        }
        write_all(&engine, 0..MOST, false);
        let mut engine = engine;
        match lies {
            // Both in the oldest table, or all in the index.
            2 => drop(engine.flush().unwrap()),
            3 => {
                engine.close().unwrap();
                engine = open_with(&machine, &options);
            }
            _ => engine.inner.memtables.seal_active().unwrap(),
        }
        assert_eq!(first(&engine, Direction::Forward), Some(MOST));
        let once = stepped(&engine);
        let way_back = engine.snapshot();
        for _ in 0..3 {
            assert_eq!(first(&engine, Direction::Forward), Some(MOST));
            let mut cursor = way_back.cursor(Family::DEFAULT).unwrap();
            assert!(cursor.seek(&key(MOST)).unwrap() && !cursor.prev().unwrap());
            assert!(cursor.seek(&key(17)).unwrap() && cursor.key() == key(MOST));
        }
        assert_eq!(stepped(&engine), once, "lies {lies}");
        // What is put there later is found, by whoever may see it.
        write_all(&engine, [20, 500].into_iter(), true);
        let all = |mut cursor: Cursor| {
            let mut all = Vec::new();
            let mut more = cursor.seek_to_first().unwrap();
            while more {
                all.push(u32::from_be_bytes(cursor.key().try_into().unwrap()));
                more = cursor.next().unwrap();
            }
            all
        };
        assert_eq!(
            all(engine.cursor(Family::DEFAULT).unwrap()),
            [20, 500, MOST]
        );
        assert_eq!(all(way_back.cursor(Family::DEFAULT).unwrap()), [MOST]);
        assert!(stepped(&engine) - once < 10, "the rest is passed");
    }
}

/// As [`Run`], with much that is deleted key by key, and more looks.
fn history(seed: u64) -> u64 {
    let mut run = Run::new(seed);
    run.engine.close().unwrap();
    let shapes = ["global-index", "tiered", "pm-tables", "immutables", "ssd"];
    let shape = *run.rng.pick(&shapes[..]);
    run.options.set("level0.shape", shape).unwrap();
    run.engine = open_with(&run.machine, &run.options);
    let mut cursors: Vec<(Cursor, Model)> = Vec::new();
    for n in 0..200 {
        if run.rng.one_in(3) {
            let all = keys();
            let from = run.rng.below(all.len());
            let to = all.len().min(from + 1 + run.rng.below(40));
            let of = run.rng.below(2);
            let mut batch = WriteBatch::new();
            for key in &all[from..to] {
                batch.delete(run.families[of].id, key).unwrap();
                run.models[of].remove(key);
            }
            run.engine
                .write(batch.iter(), Durability::Immediate)
                .unwrap();
        }
        // A look at all, there or back, which is how gaps are found.
        for of in 0..2 {
            let mut cursor = run.engine.cursor(run.families[of]).unwrap();
            let forward = run.rng.one_in(2);
            let mut more = match forward {
                true => cursor.seek_to_first().unwrap(),
                false => cursor.seek_to_last().unwrap(),
            };
            let mut seen = Vec::new();
            while more {
                seen.push(cursor.key().to_vec());
                more = match forward {
                    true => cursor.next().unwrap(),
                    false => cursor.prev().unwrap(),
                };
            }
            if forward == cursor.is_reverse() {
                seen.reverse();
            }
            assert!(seen.iter().eq(run.models[of].keys()), "{seen:?}");
            if run.rng.one_in(8) {
                cursors.push((cursor, run.models[of].clone()));
            }
        }
        if cursors.len() > 3 {
            let (cursor, model) = cursors.remove(run.rng.below(4));
            check_cursor(cursor, &model);
        }
        let before = run.engine.clone();
        run.step(n);
        if !before.is_same(&run.engine) {
            // It was closed, or killed.
            cursors.clear();
        }
    }
    run.check();
    stepped(&run.engine)
}

#[test]
fn histories_with_gaps_are_as_without() {
    for seed in seeds(0..explored(3, 10)) {
        let _replay = Replay::new("-p thermocline-engine histories_with_gaps", seed);
        history(seed);
    }
}

#[test]
fn planted_gaps_that_no_put_cuts_are_noticed() {
    let noticed = (0..20).any(|seed| {
        let _planted = plant(Bug::GapForgetsPut);
        std::panic::catch_unwind(|| history(seed)).is_err()
    });
    assert!(noticed);
}

/// Each writer looks for what it has just put or deleted, while others note gaps over it.
#[test]
fn cursors_beside_writers_miss_nothing() {
    const WRITERS: u32 = 3;
    let (machine, mut options) = roomy();
    options.memtable.bytes_max = 64 << 10;
    let engine = open_with(&machine, &options);
    let left = AtomicU64::new(u64::from(WRITERS));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (engine, left) = (&engine, &left);
            scope.spawn(move || {
                let _replay = Replay::new("-p thermocline-engine cursors_beside_writers", 0);
                let mut rng = Rng::new(u64::from(writer));
                for _ in 0..1500 {
                    let n = u32::try_from(rng.below(100)).unwrap() * WRITERS + writer;
                    write_all(engine, [n].into_iter(), true);
                    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
                    let back = rng.one_in(2);
                    let found = match back {
                        false => cursor.seek(&key(n.saturating_sub(9))).unwrap(),
                        true => cursor.seek_for_prev(&key(n + 9)).unwrap(),
                    };
                    assert!(found);
                    while cursor.key() != key(n) {
                        assert!(!cursor.key().is_empty() && (cursor.key() < &key(n)[..]) != back);
                        match back {
                            false => cursor.next().unwrap(),
                            true => cursor.prev().unwrap(),
                        };
                    }
                    let from = n.saturating_sub(30 * WRITERS);
                    let own = (from..=n).filter(|n| n % WRITERS == writer);
                    write_all(engine, own, false);
                    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
                    assert!(!cursor.seek(&key(n)).unwrap() || cursor.key() != key(n));
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        scope.spawn(|| {
            while left.load(Ordering::SeqCst) > 0 {
                // There and back at one moment.
                let snapshot = engine.snapshot();
                let mut cursor = snapshot.cursor(Family::DEFAULT).unwrap();
                let mut seen = Vec::new();
                let mut more = cursor.seek_to_first().unwrap();
                while more {
                    seen.push(cursor.key().to_vec());
                    more = cursor.next().unwrap();
                }
                let mut more = cursor.seek_to_last().unwrap();
                while more {
                    assert_eq!(seen.pop().as_deref(), Some(cursor.key()));
                    more = cursor.prev().unwrap();
                }
                assert!(seen.is_empty());
            }
        });
    });
}

/// Steps that a worker takes from a key, in pieces of so many, until it comes to a key with a value.
fn steps_from(engine: &Engine, from: u32, way: Direction, most: u64) -> u64 {
    let mut all = 0;
    loop {
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let stepped = cursor.explore(&key(from), way, most).unwrap();
        assert!(stepped <= most);
        all += stepped;
        if stepped < most {
            return all;
        }
    }
}

/// What a worker has stepped over, piece by piece and from the middle, no reader steps over.
#[test]
fn what_was_explored_is_passed() {
    let (machine, options) = roomy();
    let engine = open_with(&machine, &options);
    write_all(&engine, 0..3001, true);
    write_all(&engine, (0..3000).rev(), false);
    let ahead = steps_from(&engine, 1000, Direction::Forward, 100);
    let back = steps_from(&engine, 1000, Direction::Reverse, 100);
    // Where a gap ends the next piece begins with the key there.
    assert!(
        (2000..2100).contains(&ahead) && (900..1100).contains(&back),
        "{ahead} {back}"
    );
    let before = stepped(&engine);
    assert_eq!(first(&engine, Direction::Forward), Some(3000));
    assert!(
        stepped(&engine) - before < 4,
        "{}",
        stepped(&engine) - before
    );
}

/// What a range tombstone hides in its own memtable is stepped over once.
#[test]
fn what_a_range_hides_in_its_own_memtable_is_passed() {
    let (machine, options) = roomy();
    let engine = open_with(&machine, &options);
    write_all(&engine, 0..1001, true);
    write(&engine, |batch| {
        batch.delete_range(CF, &key(0), Some(&key(1000))).unwrap();
    });
    assert_eq!(first(&engine, Direction::Forward), Some(1000));
    assert_eq!(stepped(&engine), 1000);
    assert_eq!(first(&engine, Direction::Forward), Some(1000));
    assert!(stepped(&engine) < 1004);
    // And what is put there again is found.
    write_all(&engine, [500].into_iter(), true);
    assert_eq!(first(&engine, Direction::Forward), Some(500));
}

/// Who reads a family that was dropped steps over what had been deleted there: no memtable is left that could keep a gap.
#[test]
fn readers_of_a_dropped_family_step_over_what_was_deleted() {
    for by_range in [false, true] {
        let (machine, options) = roomy();
        let engine = open_with(&machine, &options);
        let family = engine.family("two", &CfOptions::default()).unwrap();
        let cf = family.id;
        write(&engine, |batch| {
            for n in 0..100 {
                batch.put(cf, &key(n), b"value").unwrap();
            }
        });
        let before = engine.snapshot();
        write(&engine, |batch| {
            if by_range {
                batch.delete_range(cf, &key(0), Some(&key(99))).unwrap();
            }
            for n in (0..99).filter(|_| !by_range) {
                batch.delete(cf, &key(n)).unwrap();
            }
        });
        engine.flush().unwrap();
        let behind = engine.snapshot();
        engine.drop_family("two").unwrap();
        let found = |snapshot: &crate::Snapshot, way| {
            let mut cursor = snapshot.cursor(family).unwrap();
            let found = match way {
                Direction::Forward => cursor.seek_to_first(),
                Direction::Reverse => cursor.seek(&key(100)),
            };
            found.unwrap().then(|| cursor.key().to_vec())
        };
        assert_eq!(found(&before, Direction::Forward), Some(key(0)));
        assert_eq!(found(&behind, Direction::Forward), Some(key(99)));
        assert_eq!(found(&behind, Direction::Reverse), None);
        let mut cursor = behind.cursor(family).unwrap();
        assert!(cursor.seek_to_last().unwrap());
        assert!(!cursor.prev().unwrap());
    }
}
