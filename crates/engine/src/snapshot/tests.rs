//! Snapshots beside writers, sealed memtables and each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Steps, WriteBatch};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::cursor::Cursor;
use crate::store::Moment;
use crate::tests::{Machine, options};
use crate::{Durability, Engine, Family, Snapshot, World};

const FAMILIES: [CfId; 3] = [CfId(0), CfId(1), CfId(2)];

type Model = BTreeMap<(CfId, Vec<u8>), Vec<u8>>;

fn open(pm: u64, memtable_bytes: u64) -> Engine {
    let steps = Steps::new();
    let world = World {
        env: Env {
            storage: Arc::new(SimFs::new(steps.clone())),
            ..Env::real()
        },
        sim: Some(SimPm::new(pm, steps)),
        shadow: None,
        background: false,
    };
    let mut options = Options {
        pm,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = memtable_bytes;
    // Not for scans either.
    options.flush.automatic = false;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    for (name, id) in ["one", "two"].into_iter().zip(&FAMILIES[1..]) {
        assert_eq!(engine.family(name, &CfOptions::default()).unwrap().id, *id);
    }
    engine
}

fn put_all(engine: &Engine, keys: &[(CfId, Vec<u8>)], value: &[u8]) {
    let mut batch = WriteBatch::new();
    for (cf, key) in keys {
        batch.put(*cf, key, value).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

/// Everything that the snapshot sees: by cursors forwards, and each again by a get and backwards.
fn seen(at: &Snapshot) -> Model {
    let mut all = Model::new();
    for cf in FAMILIES {
        let family = Family {
            id: cf,
            reverse: false,
        };
        let mut cursor = at.cursor(family).unwrap();
        let mut back = Vec::new();
        let mut more = cursor.seek_to_last().unwrap();
        while more {
            back.push(cursor.key().to_vec());
            more = cursor.prev().unwrap();
        }
        more = cursor.seek_to_first().unwrap();
        while more {
            let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
            assert_eq!(back.pop().as_ref(), Some(&key));
            let got = at.get(cf, &key, <[u8]>::to_vec).unwrap();
            assert_eq!(got.as_ref(), Some(&value));
            all.insert((cf, key), value);
            more = cursor.next().unwrap();
        }
        assert_eq!(back, [[0u8; 0]; 0]);
    }
    all
}

#[test]
fn a_snapshot_sees_its_moment_over_families_and_sealed_memtables() {
    for seed in seeds(0..6) {
        let _replay = Replay::new("-p thermocline-engine a_snapshot_sees_its_moment", seed);
        let engine = open(4 << 20, 64 << 10);
        let mut rng = Rng::new(seed);
        let mut model = Model::new();
        let mut held: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..1500u32 {
            let mut batch = WriteBatch::new();
            for _ in 0..=rng.below(4) {
                let cf = *rng.pick(&FAMILIES);
                let key = format!("key {}", rng.below(60)).into_bytes();
                if rng.one_in(4) {
                    batch.delete(cf, &key).unwrap();
                    model.remove(&(cf, key));
                } else {
                    let value = [step.to_le_bytes(), [7; 4]].concat().repeat(8);
                    batch.put(cf, &key, &value).unwrap();
                    model.insert((cf, key), value);
                }
            }
            engine.write(batch.iter(), Durability::Immediate).unwrap();
            if rng.one_in(50) {
                held.push((engine.snapshot(), model.clone()));
            }
            if rng.one_in(100) && !held.is_empty() {
                let (at, then) = held.swap_remove(rng.below(held.len()));
                assert_eq!(seen(&at), then, "seed {seed} step {step}");
                for key in model.keys().filter(|key| !then.contains_key(key)) {
                    let got = at.get(key.0, &key.1, <[u8]>::to_vec).unwrap();
                    assert_eq!(got, None, "seed {seed} step {step}");
                }
            }
        }
        let memtables = engine.metrics().memtables.len();
        assert!(memtables > 2, "{memtables} memtables");
        assert!(!held.is_empty());
        for (at, then) in held {
            assert_eq!(seen(&at.clone()), then, "seed {seed}");
        }
        assert_eq!(seen(&engine.snapshot()), model, "seed {seed}");
        assert_eq!(engine.metrics().readers, 0);
    }
}

#[test]
fn a_snapshot_taken_beside_a_writer_has_every_batch_whole() {
    const KEYS: u8 = 12;
    let engine = open(16 << 20, 256 << 10);
    let keys: Vec<_> = (0..KEYS)
        .map(|k| (FAMILIES[usize::from(k) % 3], vec![k]))
        .collect();
    put_all(&engine, &keys, &0u32.to_le_bytes());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..6000u32 {
                put_all(&engine, &keys, &round.to_le_bytes());
            }
            done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                let mut old = engine.snapshot();
                while !done.load(Ordering::Acquire) {
                    let new = engine.snapshot();
                    for at in [&new, &old] {
                        let values: Vec<_> = seen(at).into_values().collect();
                        assert_eq!(values.len(), usize::from(KEYS));
                        assert!(values.iter().all(|v| *v == values[0]), "{values:?}");
                        let round = u32::from_le_bytes(values[0][..].try_into().unwrap());
                        if std::ptr::eq(at, &raw const new) {
                            assert!(round >= last, "{round} after {last}");
                            last = round;
                        }
                    }
                    old = new;
                }
            });
        }
    });
    assert_eq!(engine.metrics().readers, 0);
}

#[test]
fn a_million_snapshots_leave_no_trace() {
    let engine = open(8 << 20, 8 << 20);
    let key = [(FAMILIES[0], b"hot".to_vec())];
    put_all(&engine, &key, b"0");
    let before = engine.metrics().index_bytes;
    let mut kept = std::collections::VecDeque::new();
    for i in 0..1_000_000u32 {
        kept.push_back(engine.snapshot());
        if i % 50 == 0 {
            put_all(&engine, &key, &i.to_le_bytes());
        }
        if kept.len() > 20 {
            kept.pop_front();
        }
    }
    let held = engine.metrics();
    assert_eq!(held.readers, 20);
    drop(kept);
    put_all(&engine, &key, b"last");
    let after = engine.metrics();
    assert_eq!(after.readers, 0);
    // Lists of at most a few versions, whatever came and went; never one for each snapshot.
    let grown = after.index_bytes.saturating_sub(before);
    assert!(grown <= 256 << 10, "the index grew by {grown} bytes");
    assert!(held.index_bytes.saturating_sub(before) <= 256 << 10);
}

#[test]
fn a_cursor_of_the_engine_itself_is_no_reader_of_users() {
    let engine = open(8 << 20, 8 << 20);
    let moment = || Moment::now(&engine.inner);
    let own = Cursor::of_engine(moment(), Family::DEFAULT);
    let users = Cursor::new(moment(), Family::DEFAULT);
    let read = engine.metrics();
    assert_eq!((read.readers, read.readers_told.len()), (1, 1));
    // Whoever lets something go has to know of it.
    assert_eq!(engine.inner.reads.holds.count(), 2);
    drop((own, users));
    assert_eq!(engine.inner.reads.holds.count(), 0);
}

#[test]
fn many_snapshots_of_one_moment_are_one_reader_for_a_writer() {
    let engine = open(8 << 20, 8 << 20);
    let key = [(FAMILIES[0], b"hot".to_vec())];
    let mut held = Vec::new();
    for moment in 0..4u8 {
        put_all(&engine, &key, &[moment]);
        held.extend((0..2500).map(|_| (engine.snapshot(), moment)));
    }
    assert_eq!(engine.metrics().readers, 10_000);
    // Those in slots are not told apart; the others are.
    assert!(engine.inner.common.commits.readers.moments() <= 20);
    for i in 0..2000u32 {
        put_all(&engine, &key, &i.to_le_bytes());
    }
    for (at, moment) in held {
        let value = at.get(FAMILIES[0], b"hot", <[u8]>::to_vec).unwrap();
        assert_eq!(value, Some(vec![moment]));
    }
    assert_eq!(
        (
            engine.metrics().readers,
            engine.inner.common.commits.readers.moments()
        ),
        (0, 0)
    );
}

/// Whoever leaves takes his own seqno out of what the closed stores have left, once he is the last there, and nobody else's.
#[test]
fn readers_of_closed_stores_leave_one_by_one() {
    const MOMENTS: u32 = 300;
    let machine = Machine::new(1 << 20);
    let opened = || Engine::open(machine.world(), Path::new("/db"), options()).unwrap();
    let key = [(CfId::DEFAULT, b"k".to_vec())];
    let mut engine = opened();
    let mut held = Vec::new();
    for n in 0..MOMENTS {
        put_all(&engine, &key, &n.to_be_bytes());
        for _ in 0..1 + n % 2 {
            held.push((n, engine.snapshot()));
        }
    }
    // They follow to another opening, and from there to one more.
    for _ in 0..2 {
        engine.close().unwrap();
        engine = opened();
    }
    let registered = || engine.inner.common.commits.readers.by_seqno().len();
    assert_eq!(registered(), 300);
    let mut rng = Rng::new(4);
    while !held.is_empty() {
        let (n, snapshot) = held.swap_remove(rng.below(held.len()));
        let got = snapshot.get(CfId::DEFAULT, b"k", <[u8]>::to_vec);
        assert_eq!(got.unwrap(), Some(n.to_be_bytes().to_vec()));
        drop(snapshot);
        let moments: BTreeSet<u32> = held.iter().map(|(n, _)| *n).collect();
        assert_eq!(registered(), moments.len());
    }
}
