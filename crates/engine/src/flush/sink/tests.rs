//! What is in the base level after flushes into it, and what goes to level 0 all the same. (Histories with failures, copies and
//! reopenings are in `evacuate::tests`.)

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::{CfId, Error};
use thermocline_catalog::view::Position;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::{Env, Storage};
use thermocline_version::{Level, TableRef};

use super::{Names, Sink};
use crate::flush::Extent;
use crate::flush::tests::{Model, check_now, delete, put};
use crate::partitions::waiting::Waiter;
use crate::tests::{Machine, version_of};
use crate::{Engine, Family, World};

const PM: u64 = 16 << 20;
const KEYS: u16 = 600;

fn options(threads: u64) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.flush.rewrite_ratio = 0;
    options.level0.evacuation_threads = threads;
    options.compaction.table_bytes = 16 << 10;
    options.compaction.levels = 2;
    options.compaction.dynamic = false;
    options.set("level0.shape", "immutables").unwrap();
    options
}

fn open(world: World, options: Options) -> Engine {
    Engine::open(world, Path::new("/db"), options).unwrap()
}

fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

/// What cannot be compressed.
fn value(round: u8, n: u16) -> Vec<u8> {
    let mut state = u32::from(n) * 251 + u32::from(round) + 1;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(200).collect()
}

/// Writes all keys but each seventh, which it deletes.
fn write(engine: &Engine, round: u8, model: &mut Model) {
    for n in 0..KEYS {
        put(engine, CfId::DEFAULT, &key(n), &value(round, n));
        model.insert(key(n).to_vec(), value(round, n));
    }
    for n in (0..KEYS).step_by(7) {
        delete(engine, CfId::DEFAULT, &key(n));
        model.remove(&key(n)[..]);
    }
}

fn check(engine: &Engine, model: &Model) {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|n| key(n).to_vec()).collect();
    check_now(
        engine,
        &[Family::DEFAULT],
        std::slice::from_ref(model),
        &keys,
    );
}

/// By level, in their order there.
fn tables(engine: &Engine, level: u8) -> Vec<Arc<TableRef>> {
    let version = version_of(engine);
    let tables = version.tables_of(CfId::DEFAULT);
    let tables = tables.filter(|(at, _)| at.level == Level(level));
    tables.map(|(_, table)| table.clone()).collect()
}

#[test]
fn flushes_go_to_the_base_level_whether_ranges_are_written_at_once_or_not() {
    let story = |threads: u64| {
        let machine = Machine::new(PM);
        let engine = open(machine.world(), options(threads));
        let mut model = Model::new();
        for round in 0..3 {
            write(&engine, round, &mut model);
            engine.flush().unwrap();
            check(&engine, &model);
            assert!(tables(&engine, 0).is_empty() && tables(&engine, 2).is_empty());
        }
        let kept = |table: &Arc<TableRef>| {
            let seqnos = (table.smallest_seqno, table.largest_seqno);
            (table.range.clone(), seqnos, table.entries)
        };
        let kept: Vec<_> = tables(&engine, 1).iter().map(kept).collect();
        let level1 = tables(&engine, 1);
        let mut pairs = level1.iter().zip(&level1[1..]);
        assert!(pairs.all(|(before, behind)| before.range.ends_before(&behind.range.first)));
        let entries: u64 = kept.iter().map(|(.., entries)| *entries).sum();
        assert_eq!(
            entries,
            model.len() as u64,
            "nothing that was superseded is left"
        );
        (kept, engine.metrics().ranges_ahead)
    };
    let (one_by_one, ahead) = story(1);
    assert!(
        ahead == 0 && one_by_one.len() > 6,
        "{ahead}, {one_by_one:?}"
    );
    for threads in [2, 3, 64] {
        let (in_groups, ahead) = story(threads);
        assert!(ahead > 12, "{ahead}");
        assert_eq!(in_groups, one_by_one);
    }
}

/// How many ranges of a flush would end where tables of the base level begin, whatever level 0 has.
fn ends_between_tables(engine: &Engine) -> usize {
    engine.inner.memtables.seal_active().unwrap();
    let evacuator = &engine.inner.flusher.evacuator;
    let spans = Sink::ranges(evacuator, &evacuator.taken_now(u64::MAX));
    let spans = spans.unwrap().spans;
    let base = tables(engine, 1);
    let is_between = |at: &Position| base.iter().any(|table| *table.range.first == *at.key);
    let ends = spans.iter().filter_map(|span| span.to.as_ref());
    ends.filter(|at| is_between(at)).count()
}

/// One table of the base level reaches over all ranges of a flush.
#[test]
fn a_wide_table_is_written_once_and_not_once_for_each_range() {
    let machine = Machine::new(PM);
    let mut model = Model::new();
    let mut wide = options(1);
    wide.compaction.table_bytes = 1 << 20;
    let engine = open(machine.world(), wide);
    write(&engine, 0, &mut model);
    engine.flush().unwrap();
    let before = tables(&engine, 1);
    assert_eq!(before.len(), 1);
    engine.close().unwrap();
    drop(engine);
    let engine = open(machine.world(), options(2));
    for n in 0..KEYS {
        if n % 2 == 0 && n % 7 != 0 {
            put(&engine, CfId::DEFAULT, &key(n), &value(1, n));
            model.insert(key(n).to_vec(), value(1, n));
        }
    }
    let written = |engine: &Engine| engine.metrics().compaction.levels[1].bytes_written;
    let begin = written(&engine);
    engine.flush().unwrap();
    check(&engine, &model);
    let after = tables(&engine, 1);
    assert!(after.len() > 4, "{after:?}");
    assert!(after.iter().all(|table| table.file != before[0].file));
    let bytes = written(&engine) - begin;
    assert!(
        bytes < before[0].bytes * 5 / 4,
        "{bytes} of {}",
        before[0].bytes
    );
}

#[test]
fn a_range_that_meets_a_job_goes_to_level_0_and_no_other() {
    for threads in [1, 3] {
        let machine = Machine::new(PM);
        let engine = open(machine.world(), options(threads));
        let mut model = Model::new();
        write(&engine, 0, &mut model);
        engine.flush().unwrap();
        write(&engine, 1, &mut model);
        // A job has a table of the base level.
        let table = tables(&engine, 1)[4].clone();
        let inner = &engine.inner;
        let within = [&table.range.first[..], b"in"].concat();
        let picker = &inner.flusher.evacuator.picker;
        let held = picker.hold_for_split(CfId::DEFAULT, &within, Waiter::Hand(0));
        assert_eq!(held.as_ref().unwrap().1.len(), 1);
        engine.flush().unwrap();
        check(&engine, &model);
        let level0 = tables(&engine, 0);
        assert!(!level0.is_empty() && level0.len() < 4, "{level0:?}");
        assert!(level0.iter().any(|t| t.range.overlaps(&table.range)));
        assert!(tables(&engine, 1).iter().any(|t| t.file == table.file));
        drop(held);
        // It comes down with the next flush.
        write(&engine, 2, &mut model);
        assert!(ends_between_tables(&engine) > tables(&engine, 1).len() / 2);
        engine.flush().unwrap();
        check(&engine, &model);
        assert!(tables(&engine, 0).is_empty());
        let machine_again = machine.world();
        engine.close().unwrap();
        drop(engine);
        check(&open(machine_again, options(threads)), &model);
    }
}

/// What a flush takes is as much as it may have to write anew, and no more.
#[test]
fn a_due_flush_takes_the_oldest_memtables_and_more_where_more_lies_below() {
    let machine = Machine::new(PM);
    let mut own = options(2);
    own.flush.automatic = true;
    own.flush.generations = 4;
    own.memtable.bytes_max = 64 << 10;
    let engine = open(machine.world(), own);
    let mut model = Model::new();
    let mut left = Vec::new();
    let mut flushes = 0;
    // Each key once: memtables of which nothing lives would go without a flush.
    for n in 0..12 * KEYS {
        put(&engine, CfId::DEFAULT, &key(n), &value(0, n));
        model.insert(key(n).to_vec(), value(0, n));
        let metrics = engine.metrics();
        if metrics.flushes > flushes {
            left.push(engine.inner.common.sealed().memtables);
            flushes = metrics.flushes;
        }
    }
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    check_now(&engine, &[Family::DEFAULT], &[model], &keys);
    assert_eq!(left[0], 3, "nothing lies below: {left:?}");
    let more = &left[1..];
    assert!(more.len() > 4 && more.iter().all(|n| *n == 0), "{left:?}");
}

/// Little that is spread over much would rewrite all of it.
#[test]
fn a_small_flush_over_a_large_base_level_goes_to_level_0() {
    let machine = Machine::new(PM);
    let engine = open(machine.world(), options(2));
    let mut model = Model::new();
    write(&engine, 0, &mut model);
    engine.flush().unwrap();
    let before = tables(&engine, 1).len();
    for n in [1, 300, 599] {
        put(&engine, CfId::DEFAULT, &key(n), b"new");
        model.insert(key(n).to_vec(), b"new".to_vec());
    }
    engine.flush().unwrap();
    check(&engine, &model);
    assert_eq!(
        (tables(&engine, 0).len(), tables(&engine, 1).len()),
        (1, before)
    );
}

/// Else that level would seem to write much for what comes to it.
#[test]
fn what_leaves_memtables_and_level_0_counts_as_brought_to_the_base_level() {
    let machine = Machine::new(PM);
    let engine = open(machine.world(), options(2));
    let write = |round: u8| {
        for n in 0..KEYS {
            put(&engine, CfId::DEFAULT, &key(n), &value(round, n));
        }
        engine.flush().unwrap();
    };
    let brought = || {
        let levels = engine.metrics().compaction.levels;
        (levels[0].bytes_in, levels[1].bytes_in)
    };
    let own = u64::from(KEYS) * (2 + 200);
    write(0);
    assert_eq!(brought(), (0, own));
    for n in [1, 300, 599] {
        put(&engine, CfId::DEFAULT, &key(n), b"new");
    }
    engine.flush().unwrap();
    let level0: u64 = tables(&engine, 0).iter().map(|table| table.bytes).sum();
    assert!(level0 > 0);
    assert_eq!(brought(), (0, own), "a flush into level 0 brings nothing");
    write(1);
    assert!(tables(&engine, 0).is_empty());
    let (above, brought) = brought();
    assert_eq!(above, 0);
    assert!(
        brought > 2 * own && brought <= 2 * own + level0,
        "{brought} of {own}, {level0}"
    );
}

/// Whichever write to the disk fails: what was written is gone, and the group goes to level 0.
#[test]
fn a_group_that_finds_no_room_goes_to_level_0() {
    let mut instead = 0;
    for others in 0..40 {
        let machine = Machine::new(PM);
        let disk = FaultStorage::over_sim(machine.fs.clone());
        let world = World {
            env: Env {
                storage: Arc::new(disk.clone()),
                ..machine.world().env
            },
            ..machine.world()
        };
        let engine = open(world, options(3));
        let mut model = Model::new();
        write(&engine, 0, &mut model);
        engine.flush().unwrap();
        write(&engine, 1, &mut model);
        disk.arm(Plan {
            op: Some(Op::Write),
            fault: Fault::NoSpace,
            at: disk.calls_for(Fault::NoSpace, Some(Op::Write)) + others,
            repeat: Repeat::Once,
        });
        let flushed = engine.flush();
        disk.disarm();
        check(&engine, &model);
        instead += u64::from(flushed.is_ok() && !tables(&engine, 0).is_empty());
        engine.flush().unwrap();
        let all = (Bound::Unbounded, Bound::Unbounded);
        engine.compact(CfId::DEFAULT, all).unwrap();
        check(&engine, &model);
        engine.reclaim().unwrap();
        let named = version_of(&engine).tables().count();
        let files = machine.fs.list(Path::new("/db")).unwrap();
        let is_table = |name: &String| name.ends_with(".sst");
        assert_eq!(
            files.iter().filter(|name| is_table(name)).count(),
            named,
            "{files:?}"
        );
    }
    assert!(instead > 5, "{instead}");
}

/// A flush that goes to level 0 says nothing of the base level.
#[test]
fn what_has_failed_below_level_0_is_told_until_a_flush_goes_there() {
    let machine = Machine::new(PM);
    let engine = open(machine.world(), options(1));
    let mut model = Model::new();
    // Without the compactions that are due.
    let flush = || {
        engine.inner.memtables.seal_active().unwrap();
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
    };
    let compactions = &engine.inner.common.compactions;
    let bad = Error::corruption("a block", "/db/000001.sst", 7, 1, 2);
    compactions.failures.along_failed(true, &bad);
    let is_told = || engine.metrics().compaction.last_failure.is_some();
    assert!(is_told());
    {
        let _by_hand = compactions.begin_by_hand();
        write(&engine, 0, &mut model);
        flush();
    }
    assert!(!tables(&engine, 0).is_empty() && tables(&engine, 1).is_empty());
    assert!(is_told());
    write(&engine, 1, &mut model);
    flush();
    assert!(tables(&engine, 0).is_empty() && !tables(&engine, 1).is_empty());
    assert!(!is_told());
    check(&engine, &model);
}

/// What fails on its way to level 0 says nothing of the base level, and is not told.
#[test]
fn a_flush_that_fails_is_told_where_it_was_to_go_to_the_base_level() {
    let machine = Machine::new(PM);
    let disk = FaultStorage::over_sim(machine.fs.clone());
    let world = World {
        env: Env {
            storage: Arc::new(disk.clone()),
            ..machine.world().env
        },
        ..machine.world()
    };
    let engine = open(world, options(1));
    let mut model = Model::new();
    // The first table cannot be made, and its range is written once more. How many failures were told until then.
    let flush = || {
        engine.inner.memtables.seal_active().unwrap();
        let (fault, op, fired) = (Fault::Eio, Some(Op::Create), disk.fired());
        disk.arm(Plan {
            fault,
            op,
            at: disk.calls_for(fault, op),
            repeat: Repeat::Once,
        });
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        disk.disarm();
        assert_eq!(disk.fired(), fired + 1);
        engine.metrics().compaction.failed
    };
    {
        let _by_hand = engine.inner.common.compactions.begin_by_hand();
        write(&engine, 0, &mut model);
        assert_eq!(flush(), 0);
    }
    assert!(!tables(&engine, 0).is_empty() && tables(&engine, 1).is_empty());
    assert_eq!(engine.metrics().compaction.last_failure, None);
    write(&engine, 1, &mut model);
    assert_eq!(flush(), 1);
    assert!(!tables(&engine, 1).is_empty());
    check(&engine, &model);
}

/// Before, a group took along whatever its ranges meet, and one edit named all of it: with long keys the manifest refused it,
/// and the flush failed for ever.
#[test]
fn a_group_ends_before_one_edit_would_be_too_long() {
    // With edits that have so many bytes of what is taken along: the groups that take something along, and the tables that are
    // then in level 0, and those in the base level that were there before.
    let story = |along: u64| {
        let machine = Machine::new(PM);
        let engine = open(machine.world(), options(64));
        let mut model = Model::new();
        write(&engine, 0, &mut model);
        engine.flush().unwrap();
        let before: Vec<_> = tables(&engine, 1).iter().map(|table| table.file).collect();
        assert!(before.len() > 6, "{before:?}");
        let groups = engine.metrics().ranges_along;
        write(&engine, 1, &mut model);
        let inner = &engine.inner;
        inner.memtables.seal_active().unwrap();
        let flusher = &inner.flusher;
        let taken = flusher.evacuator.take(u64::MAX);
        let mut made = flusher.begin_flush(&taken.memtables, "a test".into());
        let names = Names {
            memtables: u64::MAX,
            along,
        };
        Sink::flush_naming(&flusher.evacuator, &taken, names, &mut made).unwrap();
        inner.common.reclaim.take_up_to(0);
        drop(taken);
        check(&engine, &model);
        let (level0, level1) = (tables(&engine, 0), tables(&engine, 1));
        let left = level1.iter().filter(|table| before.contains(&table.file));
        let found = (
            engine.metrics().ranges_along - groups,
            level0.len(),
            left.count() == before.len(),
        );
        engine.close().unwrap();
        drop(engine);
        check(&open(machine.world(), options(64)), &model);
        found
    };
    let (whole, level0, _) = story(u64::MAX);
    assert_eq!(level0, 0);
    // Four tables, or five.
    let (groups, level0, _) = story(1600);
    assert!(groups > whole && level0 == 0, "{whole}, {groups}, {level0}");
    // None: level 0 is the way out.
    let (groups, level0, is_left) = story(0);
    assert!(groups == 0 && level0 > 0 && is_left, "{groups}, {level0}");
}

/// In a store with threads, beside a writer.
#[test]
fn threads_sink_groups_beside_a_writer() {
    let machine = Machine::new(PM);
    let mut own = options(4);
    own.flush.automatic = true;
    own.memtable.bytes_max = 256 << 10;
    own.flush.generations = 3;
    let world = World {
        background: true,
        ..machine.world()
    };
    let engine = open(world, own.clone());
    let mut model = Model::new();
    for round in 0..21 {
        write(&engine, round, &mut model);
        // If its own threads got no turn, nothing would lie below the last flush.
        if round % 7 == 6 {
            engine.flush().unwrap();
        }
    }
    let metrics = engine.metrics();
    assert!(
        metrics.ranges_ahead > 8 && metrics.ranges_along > 2,
        "{metrics:?}"
    );
    check(&engine, &model);
    engine.close().unwrap();
    drop(engine);
    check(&open(machine.world(), own), &model);
}
