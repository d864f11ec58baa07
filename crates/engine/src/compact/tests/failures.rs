//! Jobs that fail: they are told of and tried again, and hold nothing up that does not need them.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use thermocline_base::options::{Costs, Shape};
use thermocline_base::{Error, FileId};
use thermocline_env::Clock;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::simulated::SimClock;

use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::{AGAIN_MAX_NS, DELETES_PAUSE_NS};

use super::super::failures::Resting;
use super::*;

const CF: CfId = CfId::DEFAULT;
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn value(round: usize, n: usize) -> Vec<u8> {
    let byte = (7 * round + n).to_le_bytes()[0];
    vec![byte; 100 + (n + round) % 100]
}

/// What fails twice without lack of room is as good as corrupt: else the same table would be taken for ever, and no other one.
#[test]
fn what_fails_twice_is_passed_over_until_its_table_has_gone() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.blob.value_bytes_min = 100;
    options.blob.file_bytes = 4 << 10;
    options.compaction.level0_tables = 1;
    let engine = open(&machine, &options);
    let write = |round: usize, n: usize| {
        put(&engine, CF, format!("{n:04}").as_bytes(), &value(round, n));
    };
    (0..100).for_each(|n| write(1, n));
    flush(&engine);
    engine.compact(CF, ALL).unwrap();
    (0..100).filter(|n| n % 2 == 1).for_each(|n| write(2, n));
    flush(&engine);
    let compactions = &engine.inner.common.compactions;
    while compactions.collectable(&version_of(&engine)).is_empty() {
        assert!(engine.compact_once().unwrap());
    }
    let version = version_of(&engine);
    let tables: Vec<FileId> = version.tables().map(|(_, table)| table.file).collect();
    let all = compactions.collectable(&version).len();
    assert!(all > 0);
    let unreadable = Error::Io {
        op: "read",
        path: "/db/000001.blob".into(),
        offset: Some(64),
        source: std::io::Error::from_raw_os_error(5),
    };
    let full = Error::OutOfSpace("no room".into());
    for error in [&full, &full, &unreadable] {
        compactions.collection_ended(tables.clone(), Some(error));
        assert_eq!(compactions.collectable(&version).len(), all);
        assert!(!compactions.collects());
    }
    compactions.collection_ended(tables, Some(&unreadable));
    assert!(compactions.collectable(&version).is_empty());
    // Other tables, which say what they refer to.
    (0..100).filter(|n| n % 3 == 1).for_each(|n| write(3, n));
    flush(&engine);
    engine.compact(CF, ALL).unwrap();
    (0..100).filter(|n| n % 3 == 2).for_each(|n| write(4, n));
    flush(&engine);
    while compactions.collectable(&version_of(&engine)).is_empty() {
        assert!(engine.compact_once().unwrap());
    }
}

/// A job that fails is told of until one of its kind succeeds, and tried again, each time later.
#[test]
fn the_last_failure_is_told_until_such_a_job_succeeds() {
    let machine = Machine::new(PM);
    let clock = Arc::new(SimClock::new());
    let mut options = tiny();
    options.compaction.level0_tables = 1;
    let mut world = machine.world();
    world.env.clock = clock.clone();
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    (0..100).for_each(|n| put(&engine, CF, format!("{n:04}").as_bytes(), &value(1, n)));
    flush(&engine);
    while engine.compact_once().unwrap() {}
    let told = |engine: &Engine| {
        let of = engine.metrics().compaction;
        (of.failed, of.last_failure)
    };
    assert_eq!(told(&engine), (0, None));
    (0..100).for_each(|n| put(&engine, CF, format!("{n:04}").as_bytes(), &value(2, n)));
    flush(&engine);
    let version = version_of(&engine);
    let rot = || {
        for (_, table) in version.tables() {
            let name = format!("{:06}.sst", table.file.0);
            machine.rot_file(&Path::new("/db").join(name), 20);
        }
    };
    rot();
    let compactions = &engine.inner.common.compactions;
    let mut failures = 0;
    for _ in 0..3 {
        // Each puts tables to rest, so that this ends.
        let mut error = None;
        loop {
            match engine.compact_once() {
                Ok(true) => {}
                Ok(false) => break,
                Err(failed) => error = Some((failures += 1, failed).1),
            }
        }
        let (failed, last) = told(&engine);
        assert_eq!(failed, failures);
        assert!(last.unwrap().contains(&error.unwrap().to_string()));
        let rests = compactions.first_rest_ends_after(clock.now_ns()).unwrap();
        clock.advance_ns(rests.as_nanos().try_into().unwrap());
    }
    clock.advance_ns(AGAIN_MAX_NS);
    // They can be read again.
    rot();
    while engine.compact_once().unwrap() {}
    assert_eq!(told(&engine), (failures, None));
}

/// Each time that a table fails it rests for longer than before, and no table is looked for that rests no more.
#[test]
fn what_fails_again_rests_for_longer() {
    let bad = Error::corruption("a block", "/db/000001.sst", 7, 1, 2);
    let second = DELETES_PAUSE_NS;
    let at = |resting: &Resting, now_ns| {
        let whenever = [true, false].map(|relieving| resting.at(now_ns, relieving));
        let [all, others] = whenever;
        assert_eq!(all, others);
        all
    };
    let mut resting = Resting::default();
    assert!(!resting.note([FileId(1)], &Error::Closed, 5));
    assert_eq!(
        (at(&resting, 5).len(), resting.first_ends_after(5)),
        (0, None)
    );
    assert!(resting.note([FileId(1), FileId(2)], &bad, 5));
    let (both, later) = (BTreeSet::from([FileId(1), FileId(2)]), 5 + second);
    assert_eq!(
        (at(&resting, 5), at(&resting, later - 1)),
        (both.clone(), both)
    );
    assert_eq!(
        (at(&resting, later).len(), resting.first_ends_after(later)),
        (0, None)
    );
    // Of two that are tried again one is sound.
    assert!(resting.note([FileId(2)], &bad, later));
    let alone = BTreeSet::from([FileId(2)]);
    assert_eq!(at(&resting, later + 2 * second - 1), alone);
    assert_eq!(
        resting.first_ends_after(later),
        Some(Duration::from_nanos(2 * second))
    );
    assert!(at(&resting, later + 2 * second).is_empty());
}

/// Who makes room there decides what is tried.
#[test]
fn what_has_found_no_room_rests_where_none_is_wanted() {
    let mut resting = Resting::default();
    let full = Error::OutOfSpace("no room".into());
    let bad = Error::corruption("a block", "/db/000001.sst", 7, 1, 2);
    assert!(resting.note([FileId(1)], &full, 5) && resting.note([FileId(2)], &bad, 5));
    let (both, other) = (
        BTreeSet::from([FileId(1), FileId(2)]),
        BTreeSet::from([FileId(2)]),
    );
    assert_eq!(
        (resting.at(5, false), resting.at(5, true)),
        (both.clone(), other.clone())
    );
    // Another job may have made some.
    resting.room_came();
    assert_eq!(resting.at(5, false), other);
    assert!(resting.note([FileId(1)], &full, 5));
    let later = 5 + 2 * DELETES_PAUSE_NS;
    assert_eq!(resting.at(5, false), both);
    assert_eq!(resting.at(later - 1, false), BTreeSet::from([FileId(1)]));
    assert!(resting.at(later, false).is_empty());
}

/// As where a quota ends. The same job would be picked again for ever, and nobody would come by to have it tried again.
#[test]
fn what_finds_no_room_on_a_disk_that_is_not_full_rests_and_is_tried_again() {
    let machine = Machine::new(PM);
    let clock = Arc::new(SimClock::new());
    let mut world = world_of(&machine, &clock);
    let disk = FaultStorage::new(world.env.storage.clone());
    world.env.storage = Arc::new(disk.clone());
    let mut options = tiny();
    options.compaction.level0_tables = 1;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let write = |round| {
        (0..100).for_each(|n| put(&engine, CF, format!("{n:04}").as_bytes(), &value(round, n)));
        flush(&engine);
    };
    write(1);
    while engine.compact_once().unwrap() {}
    write(2);
    disk.arm(Plan {
        fault: Fault::Quota,
        op: Some(Op::Create),
        at: 0,
        repeat: Repeat::Forever,
    });
    let (mut jobs, mut failed) = (0, 0);
    loop {
        match engine.compact_once() {
            Ok(false) => break,
            // Tables move to another level without a new file.
            Ok(true) => {}
            Err(error) => {
                assert!(error.is_no_room(), "{error}");
                failed += 1;
            }
        }
        jobs += 1;
        assert!(jobs < 100, "it is picked for ever");
    }
    assert!(failed > 0);
    let left = levels(&engine);
    assert!(!engine.inner.pressure.is_relieving());
    let rest = engine
        .inner
        .common
        .compactions
        .first_rest_ends_after(clock.now_ns());
    assert!(rest.is_some());
    disk.disarm();
    clock.advance_ns(AGAIN_MAX_NS);
    assert!(engine.compact_once().unwrap());
    while engine.compact_once().unwrap() {}
    assert_ne!(levels(&engine), left);
}

/// It has made no room: what has found none would be tried again behind each of them.
#[test]
fn a_merge_in_persistent_memory_that_gives_up_ends_no_rest() {
    let machine = Machine::new(PM);
    let mut world = machine.world();
    let disk = FaultStorage::new(world.env.storage.clone());
    world.env.storage = Arc::new(disk.clone());
    let mut options = tiny();
    options.compaction.table_bytes = 16 << 10;
    options.level0.shape = Some(Shape::PmTables);
    options.level0.internal = Costs::Off;
    options.flush.automatic = false;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    for round in 1..3u8 {
        (0..100).for_each(|key| put(&engine, CF, &[key], &[round; 8]));
        engine.flush().unwrap();
    }
    let version = version_of(&engine);
    let tables: Vec<FileId> = version.tables().map(|(_, table)| table.file).collect();
    let compactions = &engine.inner.common.compactions;
    let full = Error::OutOfSpace("no room".into());
    assert!(compactions.job_ended(Reason::Level0, &tables, (Some(&full), false), 5));
    let rest = compactions.first_rest_ends_after(5);
    assert!(rest.is_some());
    // There is no room for its edit.
    disk.arm(Plan {
        fault: Fault::Quota,
        op: Some(Op::Write),
        at: 0,
        repeat: Repeat::Forever,
    });
    let error = engine.inner.compactor.merge_one_slice(CF).unwrap_err();
    assert!(error.is_no_room(), "{error}");
    assert_eq!(engine.metrics().compaction.internal_given_up, 1);
    assert_eq!(compactions.first_rest_ends_after(5), rest);
    disk.disarm();
    engine.compact_level0(CF).unwrap();
    engine.close().unwrap();
}
