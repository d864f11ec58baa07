//! Ranges that are written in groups: what is in the tables, and what a failure leaves.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::CfId;
use thermocline_base::options::Options;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_testkit::explore::{one_in, times};
use thermocline_version::TableRef;

use crate::flush::tests::{Model, check_now, delete, get, put};
use crate::tests::Machine;
use crate::tests::version_of;
use crate::{Engine, Family, World};

const PM: u64 = 16 << 20;

fn options(threads: u64) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.level0.merge_percent = 0;
    options.level0.evacuation_threads = threads;
    options.compaction.table_bytes = 16 << 10;
    // Long ones are to be too much for persistent memory, and for the disk, with their tables.
    options.blob.value_bytes_min = 0;
    options.set("level0.shape", "tiered").unwrap();
    options
}

fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

/// The tables of level 0, and which of them lie in persistent memory.
fn tables(engine: &Engine) -> Vec<(Arc<TableRef>, bool)> {
    let version = version_of(engine);
    let tables = version.tables_of(CfId::DEFAULT);
    let tables = tables.map(|(_, table)| {
        let in_pm = version.pm_table(table.file).is_some();
        (table.clone(), in_pm)
    });
    tables.collect()
}

#[test]
fn groups_write_what_ranges_write_one_by_one() {
    let story = |threads: u64| {
        let machine = Machine::new(PM);
        let engine = Engine::open(machine.world(), Path::new("/db"), options(threads)).unwrap();
        for round in 0..3u8 {
            for n in 0..600u16 {
                put(&engine, CfId::DEFAULT, &key(n), &[round; 200]);
            }
            for n in (0..600u16).step_by(7) {
                delete(&engine, CfId::DEFAULT, &key(n));
            }
            engine.flush().unwrap();
        }
        let kept = |(table, in_pm): &(Arc<TableRef>, bool)| {
            let seqnos = (table.smallest_seqno, table.largest_seqno);
            (table.range.clone(), seqnos, table.entries, *in_pm)
        };
        let kept: Vec<_> = tables(&engine).iter().map(kept).collect();
        for n in 0..600u16 {
            let found = get(&engine, &key(n));
            assert_eq!(found, (n % 7 > 0).then(|| vec![2; 200]), "{n}");
        }
        (kept, engine.metrics().ranges_ahead)
    };
    let (one_by_one, ahead) = story(1);
    assert!(
        ahead == 0 && one_by_one.len() > 12,
        "{ahead}, {one_by_one:?}"
    );
    for threads in [2, 3, 64] {
        let (in_groups, ahead) = story(threads);
        assert!(ahead > 12, "{ahead}");
        assert_eq!(in_groups, one_by_one);
    }
}

/// A range among others is too large for its part of what is promised, and for all of it, and so goes into files.
/// Whichever write to the disk fails, of those or of an edit.
#[test]
fn what_lies_before_a_range_that_failed_is_named_and_nothing_behind_it() {
    let (mut edits, mut ranges) = (0, 0);
    let step = usize::try_from(3 * one_in(2)).unwrap();
    for others in (0..108).step_by(step) {
        let machine = Machine::new(PM);
        let disk = FaultStorage::over_sim(machine.fs.clone());
        let mut world = machine.world();
        world.env.storage = Arc::new(disk.clone());
        let engine = Engine::open(world, Path::new("/db"), options(64)).unwrap();
        let mut model = Model::new();
        let large = 300..340;
        for n in 0..600u16 {
            let len = if large.contains(&n) { 60 << 10 } else { 200 };
            let value = noise(n, len);
            put(&engine, CfId::DEFAULT, &key(n), &value);
            model.insert(key(n).to_vec(), value);
        }
        disk.arm(Plan {
            op: Some(Op::Write),
            fault: Fault::NoSpace,
            at: disk.calls_for(Fault::NoSpace, Some(Op::Write)) + others,
            repeat: Repeat::Once,
        });
        let flushed = engine.flush();
        disk.disarm();
        let front = engine.inner.common.catalog.view().front().cloned();
        if let (Err(error), Some(front)) = (&flushed, front) {
            let is_edit = error.to_string().contains("MANIFEST");
            *(if is_edit { &mut edits } else { &mut ranges }) += 1;
            let is_near = *front.at.key > key(200)[..] && *front.at.key < key(340)[..];
            assert!(is_edit || is_near, "{front:?}");
            let before = tables(&engine);
            for (table, _) in &before {
                assert!(table.range.ends_before(&front.at.key), "{table}");
            }
            // What was written behind it is gone.
            let in_pm = before.iter().filter(|(_, in_pm)| *in_pm).count();
            assert_eq!(engine.metrics().pm_tier.tables, in_pm as u64);
        }
        let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        let check = || check_now(&engine, &[Family::DEFAULT], &[model.clone()], &keys);
        check();
        engine.flush().unwrap();
        assert!(engine.inner.common.catalog.view().front().is_none());
        check();
    }
    let least = times().map_or(1, |_| 4);
    assert!(edits >= least && ranges >= least, "{edits}, {ranges}");
}

/// What cannot be compressed, and is never the same.
fn noise(n: u16, len: usize) -> Vec<u8> {
    let mut state = u32::from(n) + 1;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A range among others is too large for its part of what is promised, but not for what the others leave.
#[test]
fn a_range_that_is_larger_than_others_finds_room_when_its_turn_comes() {
    let machine = Machine::new(PM);
    let engine = Engine::open(machine.world(), Path::new("/db"), options(64)).unwrap();
    for n in 0..600u16 {
        let len = if (300..340).contains(&n) {
            8 << 10
        } else {
            200
        };
        put(&engine, CfId::DEFAULT, &key(n), &noise(n, len));
    }
    engine.flush().unwrap();
    assert!(engine.metrics().ranges_ahead > 8);
    let tables = tables(&engine);
    assert!(
        tables.len() > 8 && tables.iter().all(|(_, in_pm)| *in_pm),
        "{tables:?}"
    );
}

/// In a store with threads, beside a writer.
#[test]
fn threads_write_groups_beside_a_writer() {
    let machine = Machine::new(PM);
    let mut options = options(4);
    options.flush.automatic = true;
    options.memtable.bytes_max = 256 << 10;
    let world = World {
        background: true,
        ..machine.world()
    };
    let engine = Engine::open(world, Path::new("/db"), options.clone()).unwrap();
    let mut model = Model::new();
    for round in 0..20u8 {
        for n in 0..600u16 {
            let n = n.wrapping_mul(7) % 600;
            put(&engine, CfId::DEFAULT, &key(n), &[round; 300]);
            model.insert(key(n).to_vec(), vec![round; 300]);
        }
    }
    engine.flush().unwrap();
    assert!(engine.metrics().ranges_ahead > 8, "{:?}", engine.metrics());
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    check_now(&engine, &[Family::DEFAULT], &[model.clone()], &keys);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    check_now(&engine, &[Family::DEFAULT], &[model], &keys);
}
