//! Families in a simulated world: what is refused after a drop, what goes on, what an open indexes.

use std::ops::Bound;
use std::path::Path;

use thermocline_base::options::PartitionBy;
use thermocline_base::planted::plant;
use thermocline_base::{ErrorKind, Steps, WriteBatch};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;

use super::*;
use crate::store::Engine;
use crate::sync::AtomicU64;
use crate::tests::{options, world};
use crate::{Cursor, Durability, World};

fn open(world: &World) -> Engine {
    Engine::open(world.clone(), Path::new("/db"), options()).unwrap()
}

fn make(engine: &Engine, name: &str) -> Family {
    engine.family(name, &CfOptions::default()).unwrap()
}

fn put(engine: &Engine, family: Family, key: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(family.id, key, b"value").unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

fn get(engine: &Engine, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
    engine.get(family.id, key, <[u8]>::to_vec)
}

fn keys(mut cursor: Cursor) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        keys.push(cursor.key().to_vec());
        more = cursor.next().unwrap();
    }
    keys
}

fn says_dropped<T: std::fmt::Debug>(result: Result<T>, name: &str) {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
    assert!(
        text.contains(&format!("'{name}'")) && text.contains("dropped"),
        "{text}"
    );
}

#[test]
fn after_a_drop_everything_about_the_family_is_refused_by_name() {
    let engine = open(&world());
    let (orders, other) = (make(&engine, "orders"), make(&engine, "other"));
    put(&engine, orders, b"a").unwrap();
    put(&engine, other, b"b").unwrap();
    engine.drop_family("orders").unwrap();
    assert_eq!(engine.families(), ["default", "other"]);
    let seqno = engine.visible();
    says_dropped(put(&engine, orders, b"a"), "orders");
    says_dropped(get(&engine, orders, b"a"), "orders");
    says_dropped(engine.cursor(orders), "orders");
    says_dropped(engine.metadata(orders.id, |_| ()), "orders");
    let now = engine.snapshot();
    says_dropped(now.get(orders.id, b"a", |_| ()), "orders");
    says_dropped(now.metadata(orders.id, |_| ()), "orders");
    // A batch is refused whole, wherever in it the family stands, metadata alone included.
    for place in 0..4 {
        let mut batch = WriteBatch::new();
        for n in 0..4u8 {
            match (n == place, place) {
                (false, _) => batch.put(other.id, &[n], b"").unwrap(),
                (true, 3) => batch.set_metadata(orders.id, b"blob").unwrap(),
                (true, _) => batch.delete(orders.id, &[n]).unwrap(),
            }
        }
        says_dropped(engine.write(batch.iter(), Durability::Immediate), "orders");
    }
    assert_eq!(engine.visible(), seqno, "nothing was written");
    assert_eq!(keys(engine.cursor(other).unwrap()), [b"b"]);
    put(&engine, other, b"c").unwrap();
    put(&engine, Family::DEFAULT, b"d").unwrap();
    // Nothing to drop.
    for name in ["orders", "never made", "", "default"] {
        let error = engine.drop_family(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&format!("'{name}'")), "{error}");
    }
}

#[test]
fn who_looked_before_a_drop_goes_on_seeing() {
    let engine = open(&world());
    let (one, two) = (make(&engine, "one"), make(&engine, "two"));
    let mut batch = WriteBatch::new();
    for key in [b"a", b"b", b"c"] {
        batch.put(one.id, key, b"1").unwrap();
        batch.put(two.id, key, b"2").unwrap();
    }
    batch.set_metadata(two.id, b"twice").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let before = engine.snapshot();
    let mut cursor = engine.cursor(one).unwrap();
    assert!(cursor.seek(b"b").unwrap());
    engine.drop_family("one").unwrap();
    let between = engine.snapshot();
    engine.drop_family("two").unwrap();
    let after = engine.snapshot().clone();
    assert!(cursor.next().unwrap() && cursor.key() == b"c");
    assert_eq!(keys(cursor.sibling()).len(), 3);
    for (at, sees) in [(&before, [true, true]), (&between, [false, true])] {
        let at = at.clone();
        assert_eq!(at.check(one.id).is_ok(), sees[0]);
        assert_eq!(at.check(two.id).is_ok(), sees[1]);
        assert_eq!(keys(at.cursor(two).unwrap()).len(), 3);
        let blob = at.metadata(two.id, <[u8]>::to_vec).unwrap();
        assert_eq!(blob.as_deref(), Some(&b"twice"[..]));
    }
    says_dropped(cursor.refresh(), "one");
    assert_eq!(keys(cursor.sibling()).len(), 3, "it stays where it was");
    says_dropped(between.cursor(one), "one");
    says_dropped(after.cursor(one), "one");
    says_dropped(after.cursor(two), "two");
}

/// Whatever comes and goes, ids lead to names and names to ids, and the order is that in which families were made.
#[test]
fn ids_and_names_lead_to_each_other() {
    let world = world();
    let engine = open(&world);
    let mut there = vec![("default".to_string(), CfId::DEFAULT)];
    for n in 0..30 {
        // Not in the order of names.
        let name = format!("family {}", n * 7 % 30);
        let id = make(&engine, &name).id;
        there.push((name, id));
        if n % 3 == 2 {
            let (gone, id) = there.remove(there.len() / 2);
            engine.drop_family(&gone).unwrap();
            assert_eq!(engine.inner.common.families.name_of(id), None);
            assert_eq!(engine.find_family(&gone), None);
        }
    }
    let check = |engine: &Engine| {
        let (names, ids): (Vec<String>, Vec<CfId>) = there.iter().cloned().unzip();
        assert_eq!(engine.families(), names);
        for (name, id) in names.into_iter().zip(ids) {
            assert_eq!(engine.find_family(&name).unwrap().id, id);
            assert_eq!(engine.inner.common.families.name_of(id), Some(name));
        }
    };
    check(&engine);
    drop(engine);
    check(&open(&world));
}

#[test]
fn a_name_that_returns_is_another_family_with_nothing_in_it() {
    let world = world();
    for round in 0..6u8 {
        let engine = open(&world);
        if round > 0 {
            let left = engine.find_family("log").unwrap();
            assert_eq!(left.reverse, round % 2 == 0);
            assert_eq!(keys(engine.cursor(left).unwrap()), [[round - 1]]);
            engine.drop_family("log").unwrap();
            assert!(engine.find_family("log").is_none());
        }
        let order = CfOptions::default().reverse(round % 2 == 1);
        let log = engine.family("log", &order).unwrap();
        assert_eq!(log.id, CfId(u16::from(round) + 1));
        assert_eq!(keys(engine.cursor(log).unwrap()).len(), 0);
        assert_eq!(engine.metadata(log.id, |_| ()).unwrap(), None);
        let mut batch = WriteBatch::new();
        batch.put(log.id, &[round], b"").unwrap();
        batch.set_metadata(log.id, &[round]).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        // Sometimes closed, sometimes lost.
        if round % 3 == 0 {
            engine.close().unwrap();
        }
    }
}

/// Its tables go with a family that is dropped, and those with metadata have that of all families.
#[test]
fn metadata_of_a_family_that_an_earlier_opening_dropped_goes_when_tables_are_merged() {
    let world = world();
    let write = |engine: &Engine, of: &[Family], blob: &[u8]| {
        let mut batch = WriteBatch::new();
        for family in of {
            batch.set_metadata(family.id, blob).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        engine.flush().unwrap();
    };
    let left = |engine: &Engine| -> u64 {
        let version = engine.inner.common.catalog.version();
        let tables = version.tables_of(CfId::METADATA);
        tables.map(|(_, table)| table.entries).sum()
    };
    let engine = open(&world);
    let gone = make(&engine, "gone");
    write(&engine, &[Family::DEFAULT, gone], b"1");
    assert_eq!(left(&engine), 2);
    engine.drop_family("gone").unwrap();
    drop(engine);
    let engine = open(&world);
    // So that the tables are merged, and not moved.
    write(&engine, &[Family::DEFAULT], b"2");
    let all = (Bound::Unbounded, Bound::Unbounded);
    engine.compact(CfId::METADATA, all).unwrap();
    assert_eq!(left(&engine), 1);
    let found = engine.metadata(CfId::DEFAULT, <[u8]>::to_vec);
    assert_eq!(found.unwrap().unwrap(), b"2");
}

/// An open spends index memory on families that exist only.
#[test]
fn the_index_of_a_dropped_family_is_not_rebuilt() {
    let story = || {
        let world = world();
        let engine = open(&world);
        let gone = make(&engine, "gone");
        for n in 0..2000u16 {
            put(&engine, gone, &n.to_be_bytes()).unwrap();
        }
        let mut batch = WriteBatch::new();
        batch.set_metadata(gone.id, b"blob").unwrap();
        batch.put(CfId::DEFAULT, b"stays", b"").unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        let before = engine.metrics().index_bytes;
        engine.drop_family("gone").unwrap();
        drop(engine);
        let engine = open(&world);
        assert!(get(&engine, Family::DEFAULT, b"stays").unwrap().is_some());
        (before, engine.metrics())
    };
    let (before, after) = story();
    assert!(after.index_bytes < before / 4, "{before}, {after:?}");
    assert_eq!(after.recovery.records, 1);
    let _bug = plant(Bug::ReplayForgetsDrops);
    let (before, after) = story();
    assert!(after.index_bytes > before / 4, "the bug does harm");
}

#[test]
fn options_are_remembered_and_may_be_left_out() {
    let world = world();
    let (up, down) = (
        CfOptions::default().reverse(false),
        CfOptions::default().reverse(true),
    );
    for _ in 0..3 {
        let engine = open(&world);
        let log = engine.family("log", &down).unwrap();
        assert!(log.reverse);
        assert_eq!(log.options(), down);
        assert_eq!(make(&engine, "log"), log);
        assert_eq!(engine.find_family("log"), Some(log));
        assert!(!engine.family("plain", &up).unwrap().reverse);
        assert!(!make(&engine, "plain").reverse);
        for (name, other) in [("log", up), ("plain", down), ("default", down)] {
            let error = engine.family(name, &other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let text = error.to_string();
            assert!(
                text.contains(name) && text.contains("reverse=true"),
                "{text}"
            );
        }
    }
}

/// All of them stay: that it descends, its merge operator, and how it is divided.
#[test]
fn the_options_of_a_dropped_family_are_told_as_before() {
    let engine = open(&world());
    let made = CfOptions::default()
        .reverse(true)
        .merge_operator("thermocline.append:2c")
        .partition_by(PartitionBy::Prefix)
        .partition_prefix_len(3);
    let divided = engine.family("divided", &made).unwrap();
    let before = engine.family_options(divided);
    assert_eq!(before, made);
    engine.drop_family("divided").unwrap();
    assert_eq!(engine.family_options(divided), before);
    // One of its name that is made afterwards has its own.
    let other = make(&engine, "divided");
    assert_eq!(engine.family_options(other), other.options());
    assert_eq!(engine.family_options(divided), before);
}

#[test]
fn a_descending_family_is_an_ascending_one_read_from_its_end() {
    let engine = open(&world());
    let down = engine
        .family("down", &CfOptions::default().reverse(true))
        .unwrap();
    let up = make(&engine, "up");
    let all: [&[u8]; 6] = [b"", b"a", b"aa", b"ab", b"b", b"\xff"];
    for key in all {
        put(&engine, down, key).unwrap();
        put(&engine, up, key).unwrap();
    }
    let mut expected = keys(engine.cursor(up).unwrap());
    expected.reverse();
    assert_eq!(keys(engine.cursor(down).unwrap()), expected);
    let mut cursor = engine.cursor(down).unwrap();
    assert!(cursor.is_reverse());
    assert!(cursor.seek_to_last().unwrap() && cursor.key() == b"");
    assert!(!cursor.next().unwrap());
    // At or after `ac`, in descending order, is `ab`; at or before it is `b`.
    assert!(cursor.seek(b"ac").unwrap() && cursor.key() == b"ab");
    assert!(cursor.prev().unwrap() && cursor.key() == b"b");
    assert!(cursor.next().unwrap() && cursor.key() == b"ab");
    assert!(cursor.seek_for_prev(b"ac").unwrap() && cursor.key() == b"b");
    assert!(cursor.seek(b"a").unwrap() && cursor.key() == b"a");
    let past = crate::Direction::Forward;
    assert!(cursor.seek_past(b"a", past).unwrap() && cursor.key() == b"");
    assert!(!cursor.seek_past(b"", past).unwrap());
}

/// Metadata whose family the manifest does not know is damage, like any record of such a family.
#[test]
fn records_of_families_that_were_never_made_are_corruption() {
    for metadata in [false, true] {
        let world = world();
        let engine = open(&world);
        let mut batch = WriteBatch::new();
        if metadata {
            batch.set_metadata(CfId(3), b"whose?").unwrap();
        } else {
            batch.put(CfId(3), b"whose?", b"").unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        drop(engine);
        let error = Engine::open(world, Path::new("/db"), options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let text = error.to_string();
        assert!(text.contains("family 3"), "{text}");
    }
}

/// Once a drop has returned, nothing more is granted to the family and nothing is in flight: beside
/// writers to that family alone, the store stands still from then on.
#[test]
fn nothing_is_written_to_a_family_behind_its_drop() {
    let engine = open(&world());
    for round in 0..40 {
        let name = format!("family {round}");
        let family = make(&engine, &name);
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                let (engine, name, written) = (&engine, &name, &written);
                scope.spawn(move || {
                    loop {
                        match put(engine, family, &[thread]) {
                            Ok(()) => written.fetch_add(1, Ordering::SeqCst),
                            // Enough was written for this test.
                            Err(Error::OutOfSpace(_)) => written.fetch_add(1, Ordering::SeqCst),
                            Err(error) => return says_dropped::<()>(Err(error), name),
                        };
                    }
                });
            }
            while written.load(Ordering::SeqCst) < 6 {
                std::thread::yield_now();
            }
            engine.drop_family(&name).unwrap();
            let still = engine.visible();
            for _ in 0..50 {
                std::thread::yield_now();
                assert_eq!(engine.visible(), still, "round {round}");
            }
        });
    }
    assert_eq!(engine.families(), ["default"]);
}

/// Somebody reads the family, and nothing can be flushed: it is tried once, beside the writers, and what was to be flushed is kept.
#[test]
fn a_drop_beside_a_flush_that_fails_does_not_flush_again() {
    let fs = SimFs::new(Steps::new());
    let disk = FaultStorage::over_sim(fs);
    let mut world = world();
    world.env.storage = Arc::new(disk.clone());
    let begun = Arc::new(AtomicU64::new(0));
    let heard = begun.clone();
    let listener = move |event: &Event| {
        if matches!(event, Event::FlushBegun { .. }) {
            heard.fetch_add(1, Ordering::Relaxed);
        }
    };
    let setup = crate::Setup {
        listener: Some(Arc::new(listener)),
        ..Default::default()
    };
    let mut options = options();
    options.flush.automatic = true;
    options.set("level0.shape", "global-index").unwrap();
    options.flush.rewrite_ratio = 0;
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    let orders = make(&engine, "orders");
    put(&engine, orders, b"a").unwrap();
    let snapshot = engine.snapshot();
    disk.arm(Plan {
        fault: Fault::Eio,
        op: Some(Op::Create),
        at: disk.calls_for(Fault::Eio, Some(Op::Create)),
        repeat: Repeat::Forever,
    });
    engine.drop_family("orders").unwrap();
    assert_eq!(begun.load(Ordering::Relaxed), 1);
    disk.disarm();
    let found = snapshot.get(orders.id, b"a", <[u8]>::to_vec).unwrap();
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
}

/// Nothing else happens in the store: nobody writes, and no time passes.
#[test]
fn what_is_set_aside_of_a_family_goes_with_the_last_who_reads_it() {
    let clock = Arc::new(SimClock::new());
    let runtime = crate::Runtime::scripted(clock.clone());
    let setup = crate::Setup {
        runtime: Some(runtime.clone()),
        ..Default::default()
    };
    let mut world = world();
    world.background = true;
    world.env.clock = clock;
    let engine = Engine::open_with(world, Path::new("/db"), options(), setup).unwrap();
    let work = || while runtime.step().is_some() {};
    let relics = &engine.inner.reads.relics;
    let one = make(&engine, "one");
    put(&engine, one, b"a").unwrap();
    let (first, second) = (engine.snapshot(), engine.snapshot());
    engine.drop_family("one").unwrap();
    work();
    drop(first);
    work();
    // Who comes later needs nothing of it, and has nobody look.
    drop(engine.snapshot());
    assert!(runtime.step().is_none());
    assert!(!relics.is_empty(), "the second still reads");
    assert_eq!(keys(second.cursor(one).unwrap()), [b"a"]);
    work();
    drop(second);
    work();
    assert!(relics.is_empty());
    engine.close().unwrap();
    work();
}
