//! Staged batches: whole or not at all, in their place in the order, and nothing left of those that
//! were refused. Crashes between any two steps are `tests/crash`'s.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};

use thermocline_base::options::Options;
use thermocline_base::{CfOptions, ErrorKind, WriteBatch};
use thermocline_commit::Durability;
use thermocline_policy::tuning::OWNERS_MAX;
use thermocline_testkit::Rng;

use super::*;
use crate::store::Engine;
use crate::sync::lock;
use crate::tests::Machine;
use crate::{Callback, Cursor, Family, Snapshot, World};

mod pieces;

const CF: CfId = CfId::DEFAULT;
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(pm: u64) -> Options {
    let mut options = Options {
        pm,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.memtable.bytes_max = 32 << 10;
    options.memtable.item_bytes_max = 4 << 10;
    options
}

fn open(machine: &Machine, pm: u64) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options(pm)).unwrap()
}

fn puts(cf: CfId, keys: std::ops::Range<u16>, value: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(cf, &key.to_be_bytes(), value).unwrap();
    }
    batch
}

fn write(engine: &Engine, batch: &WriteBatch) -> Result<()> {
    engine.write(batch.iter(), Durability::Immediate)
}

/// Whether it takes the way of this module.
fn is_staged(engine: &Engine, batch: &WriteBatch) -> bool {
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    engine.inner.stager.is_oversized(batch.len(), bytes)
}

fn rows(mut cursor: Cursor) -> Map {
    let mut all = Map::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        all.insert(cursor.key().to_vec(), cursor.value().to_vec());
        more = cursor.next().unwrap();
    }
    all
}

/// Everything in a family, by a scan, which gets must agree with.
fn contents(engine: &Engine, cf: CfId) -> Map {
    let family = Family {
        id: cf,
        ..Family::DEFAULT
    };
    let all = rows(engine.cursor(family).unwrap());
    for (key, value) in &all {
        let got = engine.get(cf, key, <[u8]>::to_vec).unwrap();
        assert_eq!(got.as_ref(), Some(value));
    }
    all
}

fn model(keys: std::ops::Range<u16>, value: &[u8]) -> Map {
    keys.map(|key| (key.to_be_bytes().to_vec(), value.to_vec()))
        .collect()
}

/// What a store owns and has promised.
fn holdings(engine: &Engine) -> (u64, u64, usize, u64) {
    let inner = &engine.inner;
    let zones = inner.common.space.usage().zones_attached;
    let staging = inner.memtables.staging.load(Ordering::Relaxed);
    let descriptors = inner.common.space.descriptors().free();
    (zones, staging, descriptors, inner.common.account.used())
}

fn assert_sound(machine: &Machine, pm: u64) {
    let report = crate::verify(&machine.world(), Path::new("/db"), &options(pm)).unwrap();
    assert_eq!(report.faults, []);
}

const MIB: u64 = 1 << 20;

#[test]
fn a_batch_hides_what_is_older_and_is_hidden_by_what_is_newer() {
    let mut machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    let red = engine.family("red", &CfOptions::default()).unwrap().id;
    write(&engine, &puts(CF, 0..10, b"before")).unwrap();
    let snapshot = engine.snapshot();
    let cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut batch = puts(CF, 5..100, &[7; 100]);
    // The last change of a key counts.
    batch.delete(CF, &50u16.to_be_bytes()).unwrap();
    batch.put(CF, &51u16.to_be_bytes(), b"again").unwrap();
    batch.delete(CF, &3u16.to_be_bytes()).unwrap();
    batch.set_metadata(red, b"offset 1").unwrap();
    for entry in puts(red, 0..20, b"red").iter() {
        batch.put(entry.cf, entry.key, entry.value).unwrap();
    }
    assert!(is_staged(&engine, &batch));
    write(&engine, &batch).unwrap();
    assert_eq!(engine.durable(), engine.visible());
    assert_eq!(engine.visible().0, 10 + batch.len() as u64);
    let mut expected = model(0..10, b"before");
    assert_eq!(rows(cursor), expected);
    let at = |snapshot: &Snapshot| rows(snapshot.cursor(Family::DEFAULT).unwrap());
    assert_eq!(at(&snapshot), expected);
    assert_eq!(snapshot.metadata(red, <[u8]>::to_vec).unwrap(), None);
    expected.extend(model(5..100, &[7; 100]));
    expected.insert(51u16.to_be_bytes().to_vec(), b"again".to_vec());
    expected.remove(&50u16.to_be_bytes()[..]);
    expected.remove(&3u16.to_be_bytes()[..]);
    let whole = engine.snapshot();
    let mut after = puts(CF, 60..62, b"after");
    after.delete(CF, &70u16.to_be_bytes()).unwrap();
    after.delete(red, &0u16.to_be_bytes()).unwrap();
    write(&engine, &after).unwrap();
    assert_eq!(at(&whole), expected);
    expected.extend(model(60..62, b"after"));
    expected.remove(&70u16.to_be_bytes()[..]);
    drop((snapshot, whole));
    drop(engine);
    for life in 0..3 {
        let engine = open(&machine, MIB);
        assert_eq!(contents(&engine, CF), expected, "life {life}");
        assert_eq!(contents(&engine, red), model(1..20, b"red"), "life {life}");
        let blob = engine.metadata(red, <[u8]>::to_vec).unwrap();
        assert_eq!(blob.as_deref(), Some(&b"offset 1"[..]));
        write(&engine, &puts(CF, 200 + life..201 + life, b"life")).unwrap();
        expected.extend(model(200 + life..201 + life, b"life"));
        // Of a killed process, and of one that closed.
        machine = match life {
            1 => machine.killed(),
            _ => machine,
        };
        drop(engine);
        assert_sound(&machine, MIB);
    }
}

/// What a batch was promised in DRAM is more than its index takes. Who was refused for want of it hears that it was given back.
#[test]
fn a_batch_that_is_committed_has_made_room() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    let inner = &engine.inner;
    let batch = puts(CF, 0..80, &[1; 90]);
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    let staging = inner.stager.reserve_stage(batch.iter(), bytes).unwrap();
    let (staging, staged) = inner.stager.store_stage(staging, batch.iter()).unwrap();
    let made = inner.common.room.made();
    let committed = inner
        .stager
        .commit_stage(staging, staged, batch.iter(), (None, None));
    committed.unwrap();
    assert!(inner.common.room.made() > made);
    assert_eq!(inner.memtables.staging.load(Ordering::Relaxed), 0);
}

#[test]
fn batches_that_are_staged_side_by_side_take_the_order_of_their_commits() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    let inner = &engine.inner;
    write(&engine, &puts(CF, 0..2, b"old")).unwrap();
    let (first, second) = (puts(CF, 0..80, &[1; 90]), puts(CF, 40..120, &[2; 90]));
    let stage = |batch: &WriteBatch| thermocline_memtable::item_bytes(batch.iter());
    let one = inner
        .stager
        .reserve_stage(first.iter(), stage(&first))
        .unwrap();
    let two = inner
        .stager
        .reserve_stage(second.iter(), stage(&second))
        .unwrap();
    let (two, staged_two) = inner.stager.store_stage(two, second.iter()).unwrap();
    // Between them, ordinary ones.
    write(&engine, &puts(CF, 1..3, b"between")).unwrap();
    let (one, staged_one) = inner.stager.store_stage(one, first.iter()).unwrap();
    assert_eq!(contents(&engine, CF).len(), 3, "nothing of them shows");
    let killed = machine.killed();
    let last = inner
        .stager
        .commit_stage(two, staged_two, second.iter(), (None, None));
    let last = last.unwrap();
    write(&engine, &puts(CF, 100..101, b"later")).unwrap();
    let newest = inner
        .stager
        .commit_stage(one, staged_one, first.iter(), (None, None));
    assert_eq!(newest.unwrap().0, last.0 + 1 + first.len() as u64);
    assert_eq!(inner.memtables.staging.load(Ordering::Relaxed), 0);
    let mut expected = model(40..120, &[2; 90]);
    expected.extend(model(100..101, b"later"));
    expected.extend(model(0..80, &[1; 90]));
    assert_eq!(contents(&engine, CF), expected);
    let after = machine.killed();
    drop(engine);
    for machine in [&machine, &after] {
        assert_eq!(contents(&open(machine, MIB), CF), expected);
        assert_sound(machine, MIB);
    }
    // Killed before either commit: nothing of them, and their zones are free.
    let engine = open(&killed, MIB);
    assert_eq!(contents(&engine, CF).len(), 3);
    assert!(engine.inner.common.space.usage().zones_attached <= 2);
    write(&engine, &second).unwrap();
    assert_eq!(contents(&engine, CF).len(), 83);
    drop(engine);
    assert_sound(&killed, MIB);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    let red = engine.family("red", &CfOptions::default()).unwrap().id;
    write(&engine, &puts(CF, 0..10, b"before")).unwrap();
    let before = holdings(&engine);
    let expected = model(0..10, b"before");
    let refused = |batch: &WriteBatch, kind: ErrorKind, says: &str| {
        assert!(is_staged(&engine, batch));
        let error = write(&engine, batch).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert_eq!(holdings(&engine), before, "{error}");
        assert_eq!(contents(&engine, CF), expected);
    };
    // More than there can be: refused before anything is written.
    let lines = engine.metrics().pm.lines_written_back;
    let large = puts(CF, 0..1000, &[1; 1100]);
    refused(&large, ErrorKind::OutOfSpace, "region");
    assert_eq!(engine.metrics().pm.lines_written_back, lines);
    // The rest of every zone is lost, so that it fits by its bytes and ends in the middle.
    let sparse = puts(CF, 0..105, &[1; 9000]);
    refused(&sparse, ErrorKind::OutOfSpace, "region");
    assert!(engine.metrics().pm.lines_written_back > lines + 1000);
    let mut dropped = puts(CF, 0..100, &[1; 100]);
    dropped.put(red, b"k", b"v").unwrap();
    let bytes = thermocline_memtable::item_bytes(dropped.iter());
    let inner = &engine.inner;
    let staging = inner.stager.reserve_stage(dropped.iter(), bytes).unwrap();
    let (staging, staged) = inner.stager.store_stage(staging, dropped.iter()).unwrap();
    engine.drop_family("red").unwrap();
    // The family went while the batch was stored.
    let error = inner
        .stager
        .commit_stage(staging, staged, dropped.iter(), (None, None));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(holdings(&engine), before);
    refused(&dropped, ErrorKind::InvalidArgument, "'red' was dropped");
    let busy = WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    };
    let batch = puts(CF, 0..100, &[1; 100]);
    let error = engine.write(batch.iter(), busy).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.to_string().contains("item_bytes_max"), "{error}");
    assert_eq!(holdings(&engine), before);
    // What fits is taken, and all of the room is still there.
    write(&engine, &batch).unwrap();
    assert_eq!(contents(&engine, CF).len(), 100);
    assert_eq!(engine.inner.common.account.overdrawn(), 0);
    drop(engine);
    assert_sound(&machine, MIB);
}

/// They use up chains, of which the region knows the newest. Numbers of tables are counted from there.
#[test]
fn batches_that_come_to_nothing_leave_numbers_for_tables() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    write(&engine, &puts(CF, 0..1, b"before")).unwrap();
    let inner = &engine.inner;
    let pm = &inner.common.catalog.table_files.pm;
    let use_up = |chains: u64| {
        while pm.next_owner().is_some() {}
        let mut manifest = inner.common.catalog.edits();
        let ids = manifest.state().next_ids();
        let behind = NextIds {
            chain: ids.chain + chains,
            ..ids
        };
        manifest.append(&Change::NextIds(behind).into()).unwrap();
    };
    let batch = puts(CF, 100..130, &[1; 1100]);
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    for _ in 0..3 {
        use_up(OWNERS_MAX - 100);
        drop(inner.stager.reserve_stage(batch.iter(), bytes).unwrap());
        inner.sweeper.pm_owner().unwrap();
    }
    let killed = machine.killed();
    use_up(OWNERS_MAX);
    let refused = inner.sweeper.pm_owner().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
    drop(engine);
    for machine in [machine, killed] {
        assert_eq!(contents(&open(&machine, MIB), CF), model(0..1, b"before"));
    }
}

#[test]
fn closing_meanwhile_refuses_the_batch() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    write(&engine, &puts(CF, 0..10, b"before")).unwrap();
    let batch = puts(CF, 0..100, &[1; 100]);
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    let inner = &engine.inner;
    let one = inner.stager.reserve_stage(batch.iter(), bytes).unwrap();
    let two = inner.stager.reserve_stage(batch.iter(), bytes).unwrap();
    let (two, staged) = inner.stager.store_stage(two, batch.iter()).unwrap();
    engine.close().unwrap();
    let stored = inner.stager.store_stage(one, batch.iter());
    assert_eq!(stored.err().unwrap().kind(), ErrorKind::Closed);
    let error = inner
        .stager
        .commit_stage(two, staged, batch.iter(), (None, None));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Closed);
    drop(engine);
    assert_eq!(contents(&open(&machine, MIB), CF), model(0..10, b"before"));
    assert_sound(&machine, MIB);
}

#[test]
fn its_index_is_in_the_budget_before_it_is_written() {
    let machine = Machine::new(8 * MIB);
    let mut options = options(8 * MIB);
    options.dram = 1 << 20;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let mut kept = 0;
    let error = loop {
        let batch = puts(CF, kept..kept + 1000, b"v");
        let before = holdings(&engine);
        match write(&engine, &batch) {
            Ok(()) => kept += 1000,
            Err(error) => {
                let after = holdings(&engine);
                assert_eq!((before.0, before.1, before.2), (after.0, after.1, after.2));
                break error;
            }
        }
        let account = &engine.inner.common.account;
        assert!(account.used() <= account.held() && account.overdrawn() == 0);
    };
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(error.to_string().contains("dram"), "{error}");
    assert!(kept >= 3000, "{kept}");
    assert_eq!(contents(&engine, CF).len(), usize::from(kept));
}

/// What is promised to a batch stays promised while others promise anew, and no more is used.
#[test]
fn promises_of_others_leave_that_of_a_batch_alone() {
    let machine = Machine::new(8 * MIB);
    let engine = open(&machine, 8 * MIB);
    let inner = &engine.inner;
    let batches = [0, 1].map(|n: u16| puts(CF, n * 30_000..n * 30_000 + 30_000, b"v"));
    let staging = batches.each_ref().map(|batch| {
        let bytes = thermocline_memtable::item_bytes(batch.iter());
        inner.stager.reserve_stage(batch.iter(), bytes).unwrap()
    });
    for (staging, batch) in staging.into_iter().zip(&batches) {
        // In more families than a promise made ahead is for, so that each write promises.
        for n in 0..8 {
            let options = CfOptions::default();
            let cf = engine.family(&format!("{n}"), &options).unwrap().id;
            write(&engine, &puts(cf, 0..1, b"small")).unwrap();
        }
        engine.cover_idle().unwrap();
        let (staging, staged) = inner.stager.store_stage(staging, batch.iter()).unwrap();
        let account = &inner.common.account;
        assert!(account.used() <= account.held(), "{account:?}");
        assert_eq!(account.overdrawn(), 0);
        let committed = inner
            .stager
            .commit_stage(staging, staged, batch.iter(), (None, None));
        committed.unwrap();
        write(&engine, &puts(CF, 0..1, b"v")).unwrap();
        assert_eq!(account.overdrawn(), 0);
    }
    assert_eq!(inner.memtables.staging.load(Ordering::Relaxed), 0);
    assert_eq!(contents(&engine, CF).len(), 60_000);
}

#[test]
fn as_many_as_there_are_descriptors_and_more_when_those_are_dead() {
    let machine = Machine::new(4 * MIB);
    let engine = open(&machine, 4 * MIB);
    let mut kept = 0;
    let error = loop {
        match write(&engine, &puts(CF, kept..kept + 10, &[1; 500])) {
            Ok(()) => kept += 10,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(error.to_string().contains("memtables"), "{error}");
    // Each is one memtable, and the one that takes writes.
    assert_eq!(kept, 630);
    let before = holdings(&engine);
    assert!(write(&engine, &puts(CF, 0..10, &[2; 500])).is_err());
    assert_eq!(holdings(&engine), before);
    assert_eq!(contents(&engine, CF), model(0..kept, &[1; 500]));
    // Ordinary ones go on, and make the oldest two dead.
    for key in 0..20 {
        write(&engine, &puts(CF, key..key + 1, b"new")).unwrap();
    }
    write(&engine, &puts(CF, 700..710, &[3; 500])).unwrap();
    assert!(engine.metrics().memtables_dropped >= 2);
    let mut expected = model(0..kept, &[1; 500]);
    expected.extend(model(0..20, b"new"));
    expected.extend(model(700..710, &[3; 500]));
    assert_eq!(contents(&engine, CF), expected);
    let killed = machine.killed();
    drop(engine);
    for machine in [machine, killed] {
        assert_eq!(contents(&open(&machine, 4 * MIB), CF), expected);
        assert_sound(&machine, 4 * MIB);
    }
}

#[test]
fn a_dead_batch_gives_its_zones_back() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, MIB);
    // A hundred times the room that there is.
    for n in 0..200u8 {
        write(&engine, &puts(CF, 0..600, &[n; 700])).unwrap();
        engine.reclaim().unwrap();
        assert_eq!(contents(&engine, CF), model(0..600, &[n; 700]));
    }
    assert!(engine.metrics().memtables.len() <= 3);
}

#[test]
fn buffered_writes_before_it_are_durable_with_it_and_callbacks_come_in_order() {
    let machine = Machine::new(MIB);
    let mut options = options(MIB);
    options.commit.buffered_bytes = 1 << 20;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let told = Arc::new(crate::sync::Mutex::new(Vec::new()));
    let tell = |n: u8| -> Callback {
        let told = told.clone();
        Box::new(move |result| {
            result.unwrap();
            lock(&told).push(n);
        })
    };
    let small = puts(CF, 0..2, b"small");
    let large = puts(CF, 0..100, &[1; 100]);
    engine.write(small.iter(), Durability::Buffered).unwrap();
    engine
        .write_with_callback(small.iter(), false, tell(1))
        .unwrap();
    assert!(engine.durable() < engine.visible());
    engine
        .write_with_callback(large.iter(), false, tell(2))
        .unwrap();
    assert_eq!(engine.durable(), engine.visible());
    assert_eq!(*lock(&told), [1, 2], "nobody else comes by");
    engine.write(large.iter(), Durability::Buffered).unwrap();
    assert_eq!(engine.durable(), engine.visible());
    engine
        .write_with_callback(small.iter(), false, tell(3))
        .unwrap();
    engine.sync().unwrap();
    assert_eq!(*lock(&told), [1, 2, 3]);
    let error = engine.write_with_callback(large.iter(), true, tell(4));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Busy);
    engine
        .write_with_callback(small.iter(), false, tell(5))
        .unwrap();
    engine.close().unwrap();
    assert_eq!(*lock(&told), [1, 2, 3, 5], "closing tells");
}

/// Two stage, two write small ones, two read: every batch sets all keys of its writer, so that a
/// snapshot finds one value in all of them.
#[test]
fn readers_see_batches_whole_beside_other_writers() {
    const KEYS: u16 = 60;
    const ROUNDS: u32 = 60;
    let home = tempfile::tempdir().unwrap();
    let options = options(64 * MIB);
    let engine = Engine::open(World::real(), &home.path().join("db"), options.clone()).unwrap();
    let all = |writer: u16, n: u32| {
        let value: Vec<u8> = n.to_le_bytes().repeat(20);
        puts(CF, writer * 1000..writer * 1000 + KEYS, &value)
    };
    for writer in 0..4 {
        write(&engine, &all(writer, 0)).unwrap();
    }
    assert!(is_staged(&engine, &all(0, 0)));
    let running = AtomicU64::new(4);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..4u16 {
            let (engine, running) = (&engine, &running);
            scope.spawn(move || {
                for n in 1..=ROUNDS {
                    // Odd writers write what is no larger than an item, and some of it buffered.
                    let mut batch = all(writer, n);
                    if writer % 2 == 1 {
                        let value = n.to_le_bytes();
                        batch = puts(CF, writer * 1000..writer * 1000 + KEYS, &value);
                        assert!(!is_staged(engine, &batch));
                    }
                    let durability = match n % 3 {
                        0 => Durability::Buffered,
                        _ => Durability::Immediate,
                    };
                    engine.write(batch.iter(), durability).unwrap();
                    let key = (writer * 1000 + KEYS / 2).to_be_bytes();
                    let got = engine.get(CF, &key, |value| value[..4].to_vec());
                    assert_eq!(got.unwrap().unwrap(), n.to_le_bytes());
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for reader in 0..2u64 {
            let (engine, running, done) = (&engine, &running, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(reader);
                let mut newest = [0; 4];
                while running.load(Ordering::SeqCst) > 0 {
                    let snapshot = engine.snapshot();
                    for (writer, newest) in newest.iter_mut().enumerate() {
                        let first = u16::try_from(writer * 1000).unwrap();
                        let read = |key: u16| {
                            let key = (first + key).to_be_bytes();
                            let got = snapshot.get(CF, &key, |v| v[..4].try_into().unwrap());
                            u32::from_le_bytes(got.unwrap().unwrap())
                        };
                        let n = read(0);
                        assert!(n >= *newest, "time goes forward");
                        *newest = n;
                        for _ in 0..20 {
                            let key = u16::try_from(rng.below(usize::from(KEYS))).unwrap();
                            assert_eq!(read(key), n, "a batch in part");
                        }
                    }
                    if rng.one_in(10) {
                        let _ = engine.reclaim();
                    }
                }
                done.store(true, Ordering::SeqCst);
            });
        }
    });
    assert!(done.load(Ordering::SeqCst));
    let expected = contents(&engine, CF);
    assert_eq!(expected.len(), 4 * usize::from(KEYS));
    assert_eq!(engine.inner.common.account.overdrawn(), 0);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(World::real(), &home.path().join("db"), options).unwrap();
    assert_eq!(contents(&engine, CF), expected);
}

/// Whoever stages may still be storing: until that is over nobody else gets the region.
#[test]
fn the_region_is_not_given_up_while_somebody_stages() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let again = || Engine::open(World::real(), &dir, options(16 * MIB));
    let engine = again().unwrap();
    write(&engine, &puts(CF, 0..1, b"v")).unwrap();
    std::thread::scope(|scope| {
        let stages = engine.inner.common.turns.stages.enter();
        let closing = scope.spawn(|| engine.close());
        while !engine.inner.common.closed.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        for _ in 0..1000 {
            let error = again().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Locked, "{error}");
        }
        drop(stages);
        closing.join().unwrap().unwrap();
    });
    assert_eq!(contents(&again().unwrap(), CF).len(), 1);
}

/// Closing comes at any time; what was acknowledged before is there, and every batch whole.
#[test]
fn closing_waits_for_whoever_stages() {
    for round in 0..10u8 {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("db");
        let engine = Engine::open(World::real(), &dir, options(16 * MIB)).unwrap();
        let acknowledged = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for writer in 0..2u16 {
                let (engine, acknowledged) = (&engine, &acknowledged);
                scope.spawn(move || {
                    for n in 1..=50u8 {
                        let batch = puts(CF, writer * 100..writer * 100 + 50, &[n; 300]);
                        match write(engine, &batch) {
                            Ok(()) => acknowledged.fetch_add(1, Ordering::SeqCst),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                break;
                            }
                        };
                    }
                });
            }
            let sound = || engine.inner.common.poison.check().is_ok();
            while acknowledged.load(Ordering::SeqCst) < u64::from(round) && sound() {
                std::thread::yield_now();
            }
            engine.close().unwrap();
        });
        drop(engine);
        let engine = Engine::open(World::real(), &dir, options(16 * MIB)).unwrap();
        let found = contents(&engine, CF);
        let mut batches = 0;
        for writer in 0..2u16 {
            let of = |key: u16| found.get(&key.to_be_bytes()[..]).map(|value| value[0]);
            let n = of(writer * 100);
            batches += u64::from(n.unwrap_or(0));
            assert!((writer * 100..writer * 100 + 50).all(|key| of(key) == n));
        }
        assert_eq!(batches, acknowledged.into_inner());
    }
}
