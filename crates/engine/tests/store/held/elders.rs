//! Readers of an earlier opening of the store in this process: they read on, and the next openings hold
//! for them what they read, and no more.

use thermocline_env::Storage;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::spares::Spare;

use super::*;

/// Does `work` for each shape, some at a time: one after the other they take longer than all else in this program.
fn with_each_shape(work: impl Fn(&'static str) + Sync) {
    side_by_side(&SHAPES, |&shape| work(shape));
}

/// The store is opened and written again and again while somebody stands still who came before. What he sees stays, open
/// or closed.
#[test]
fn who_came_before_the_store_was_opened_again_holds_nobody_up() {
    with_each_shape(|shape| {
        let wrong: Vec<String> = pairs(shape, KINDS)
            .filter_map(|kind| who_came_before(shape, kind).err())
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// Fails where a reader of kind `kind` holds somebody up; panics where it reads something else.
fn who_came_before(shape: &'static str, kind: usize) -> Result<(), String> {
    let machine = Machine::new();
    let mut engine = machine.open(shape);
    let family = family_of(&engine, kind);
    let model = begin(&engine, family);
    let held = Held::new(&engine, family, kind);
    // One who reads in each life.
    let other = engine.snapshot();
    let mut lives = 0..3;
    let failed = lives.find_map(|_| {
        engine = machine.open_after(shape, &engine);
        machine.a_day_passes();
        let written = write_much(&engine, Family::DEFAULT);
        engine.reclaim().unwrap();
        let metrics = engine.metrics();
        assert!(metrics.readers >= 2, "{shape}, reader {kind}");
        Held::Snapshot(other.clone()).check(family, &model);
        let retired = metrics.memtables.iter().any(|m| m.retired);
        let text = retired.then(|| format!("{shape}, reader {kind}: memtables stay"));
        written.err().map(|error| error.to_string()).or(text)
    });
    if kind.is_multiple_of(2) {
        engine.close().unwrap();
    }
    held.check(family, &model);
    drop(other);
    assert_eq!(engine.metrics().readers, 0, "{shape}, reader {kind}");
    failed.map_or(Ok(()), Err)
}

/// A value in place, in a memtable or a table, holds what it lies in, and that alone; it is not overwritten.
fn a_value_is_there(shape: &str, in_table: bool) -> Result<()> {
    let machine = Machine::new();
    let mut engine = machine.open(shape);
    // Among others, so that their table is merged with later ones.
    for key in ["a", "pinned", "z"].map(str::as_bytes) {
        put(&engine, CfId::DEFAULT, key, &[5; 4000])?;
    }
    if in_table {
        engine.flush()?;
    }
    let value = engine.value(CfId::DEFAULT, b"pinned")?.unwrap();
    assert_eq!(
        value.is_pinned(),
        !in_table || ["tiered", "pm-tables"].contains(&shape)
    );
    begin(&engine, Family::DEFAULT);
    for _ in 0..2 {
        engine = machine.open_after(shape, &engine);
        write_much(&engine, Family::DEFAULT)?;
        assert!(*value == [5; 4000], "{shape}: somebody else's bytes");
        value.verify()?;
    }
    drop(value);
    let found = engine.get(CfId::DEFAULT, b"pinned", <[u8]>::to_vec)?;
    assert_eq!(found, Some(vec![5; 4000]));
    Ok(())
}

#[test]
fn a_value_of_an_earlier_opening_holds_what_it_lies_in_alone() {
    with_each_shape(|shape| {
        for in_table in pairs(shape, 2).map(|kind| kind == 1) {
            let there = a_value_is_there(shape, in_table);
            there.unwrap_or_else(|error| panic!("{shape}, in a table {in_table}: {error}"));
        }
    });
}

/// Fills the region with what no flush moves, and returns it.
fn fill(machine: &Machine) -> (Engine, Model) {
    let mut full = options("immutables");
    full.flush.automatic = false;
    let engine = Engine::open(machine.world.clone(), HERE.as_ref(), full).unwrap();
    let mut model = Model::new();
    for n in 0u32.. {
        let (key, value) = (n.to_be_bytes().to_vec(), vec![7; 3000]);
        match put(&engine, CfId::DEFAULT, &key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfSpace);
                break;
            }
        }
    }
    (engine, model)
}

/// Who is inside a call that began before holds all that was there, and is named; not any longer when it has ended.
#[test]
fn a_call_that_began_in_an_earlier_opening_is_named() {
    let machine = Machine::new();
    let (engine, model) = fill(&machine);
    let left = engine.snapshot();
    let seqno = left.seqno().0;
    let (key, value) = model.first_key_value().unwrap();
    let mut engine = Some(engine);
    let again = left.get(CfId::DEFAULT, key, |bytes| {
        drop(engine.take());
        machine.a_day_passes();
        let again = machine.open("immutables");
        let refused = write_much(&again, Family::DEFAULT).unwrap_err().to_string();
        let who = format!("earlier opening: a snapshot at seqno {seqno} for 86400");
        assert!(refused.contains(&who), "{refused}");
        assert_eq!(bytes, value);
        again
    });
    let again = again.unwrap().unwrap();
    write_much(&again, Family::DEFAULT).unwrap();
    for (key, value) in &model {
        let found = left.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_ref(), Some(value));
    }
}

/// Whoever holds the folder, and is not known, keeps all that was there.
#[test]
fn a_stranger_keeps_what_was_there() {
    let machine = Machine::new();
    let (engine, model) = fill(&machine);
    let left = engine.snapshot();
    let storage = machine.world.env.storage.clone();
    let stranger = storage.hold_folder(HERE.as_ref()).unwrap();
    drop(engine);
    let again = machine.open("immutables");
    let refused = write_much(&again, Family::DEFAULT).unwrap_err().to_string();
    assert!(refused.contains("a reader of another process"), "{refused}");
    drop(stranger);
    write_much(&again, Family::DEFAULT).unwrap();
    for (key, value) in &model {
        let found = left.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_ref(), Some(value));
    }
    // Who is still there holds the folder when the store is closed, and nobody else does.
    assert!(!storage.is_folder_held(HERE.as_ref()).unwrap());
    drop(again);
    assert!(storage.is_folder_held(HERE.as_ref()).unwrap());
    drop(left);
    assert!(!storage.is_folder_held(HERE.as_ref()).unwrap());
}

/// Where the manifest says something else than it did when the store was closed, nobody is taken for known, and what was
/// there stays: here an opening that has failed made an edit.
#[test]
fn an_edit_in_between_makes_strangers_of_them() {
    let machine = Machine::new();
    let engine = machine.open("ssd");
    let model = begin(&engine, Family::DEFAULT);
    let (left, mut cursor) = (engine.snapshot(), Held::new(&engine, Family::DEFAULT, 1));
    drop(engine);
    let storage = &machine.world.env.storage;
    let mut names = storage.list(HERE.as_ref()).unwrap().into_iter();
    let table = names.find(|name| name.ends_with(".sst")).unwrap();
    let (here, away) = (Path::new(HERE).join(&table), Path::new("/db/away"));
    storage.rename(&here, away).unwrap();
    let others = options("pm-tables");
    Engine::open(machine.world.clone(), HERE.as_ref(), others.clone()).unwrap_err();
    assert!(storage.is_folder_held(HERE.as_ref()).unwrap());
    storage.rename(away, &here).unwrap();
    let again = Engine::open(machine.world.clone(), HERE.as_ref(), others).unwrap();
    assert_eq!(again.metrics().readers, 0);
    write_much(&again, Family::DEFAULT).unwrap();
    assert!(again.metrics().memtables.iter().any(|m| m.retired));
    for _ in 0..2 {
        Held::Snapshot(left.clone()).check(Family::DEFAULT, &model);
        let other = Held::new_at(&left, Family::DEFAULT);
        std::mem::replace(&mut cursor, other).check(Family::DEFAULT, &model);
        again.close().unwrap();
    }
    drop((left, cursor));
    let again = machine.open("ssd");
    again.reclaim().unwrap();
    assert!(again.metrics().memtables.iter().all(|m| !m.retired));
}

/// By a handle nobody becomes a reader of what was closed, once it was opened again.
#[test]
fn whoever_comes_by_a_handle_of_before_reads_nothing() {
    let machine = Machine::new();
    let engine = machine.open("tiered");
    let model = begin(&engine, Family::DEFAULT);
    let (handle, left) = (engine.clone(), engine.snapshot());
    put(&engine, CfId::DEFAULT, b"later", b"v").unwrap();
    let mut cursor = left.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    engine.close().unwrap();
    let again = machine.open("tiered");
    let late = handle.snapshot();
    let refused = late.get(CfId::DEFAULT, b"later", |_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
    assert_eq!(cursor.refresh().unwrap_err().kind(), ErrorKind::Closed);
    write_much(&again, Family::DEFAULT).unwrap();
    assert!(cursor.next().unwrap());
    Held::Snapshot(left).check(Family::DEFAULT, &model);
}

/// A family that was dropped, before the store was opened again or after, is read on.
#[test]
fn a_reader_of_an_earlier_opening_reads_a_family_that_is_dropped() {
    with_each_shape(|shape| {
        let all = [(0, true), (1, true), (1, false), (0, false)];
        for (kind, before) in pairs(shape, all.len()).map(|one| all[one]) {
            let machine = Machine::new();
            let mut engine = machine.open(shape);
            let family = engine.family("f", &CfOptions::default()).unwrap();
            begin(&engine, Family::DEFAULT);
            let model = begin(&engine, family);
            let held = Held::new(&engine, family, kind);
            put(&engine, family.id, &old_key(2), b"later").unwrap();
            let drop_family = |engine: &Engine| {
                engine.drop_family("f").unwrap();
                write_much(engine, Family::DEFAULT).unwrap();
            };
            if before {
                drop_family(&engine);
            }
            engine = machine.open_after(shape, &engine);
            write_much(&engine, Family::DEFAULT).unwrap();
            if !before {
                drop_family(&engine);
            }
            engine = machine.open_after(shape, &engine);
            write_much(&engine, Family::DEFAULT).unwrap();
            held.check(family, &model);
            // Nobody is left: nothing of it is.
            engine.reclaim().unwrap();
            engine.flush().unwrap();
            engine.reclaim().unwrap();
            let metrics = engine.metrics();
            assert_eq!(
                metrics.pm_tier.table_bytes_retired, 0,
                "{shape}, {kind}, {before}"
            );
            assert!(metrics.memtables.iter().all(|m| !m.retired), "{shape}");
            engine.close().unwrap();
            let report = thermocline_engine::verify(&machine.world, HERE.as_ref(), &options(shape));
            assert_eq!(report.unwrap().faults, []);
        }
    });
}

/// A family that could not be flushed before it was dropped is kept in its memtables, and they refer to long values.
#[test]
fn long_values_of_a_family_that_is_dropped_on_a_full_disk_are_read_on() {
    with_each_shape(|shape| {
        let machine = Machine::new();
        let engine = machine.open(shape);
        let family = engine.family("f", &CfOptions::default()).unwrap();
        let mut model = begin(&engine, family);
        let long = vec![9; (1 << 20) + 5];
        put(&engine, family.id, b"long", &long).unwrap();
        model.insert(b"long".to_vec(), long);
        let held = Held::new(&engine, family, 0);
        machine.fs.limit(machine.fs.used() + (4 << 10));
        engine.drop_family("f").unwrap();
        machine.fs.limit(u64::MAX);
        let engine = machine.open_after(shape, &engine);
        write_much(&engine, Family::DEFAULT).unwrap();
        engine.flush().unwrap();
        engine.reclaim().unwrap();
        held.check(family, &model);
        // Nobody is left.
        engine.reclaim().unwrap();
        engine.flush().unwrap();
        engine.reclaim().unwrap();
        assert_eq!(engine.metrics().blobs.files, 0, "{shape}");
    });
}

/// A replay that keeps the newest versions alone, and an open that frees the place of a value, are caught.
#[test]
fn elders_that_are_forgotten_are_caught() {
    let reads = || {
        let machine = Machine::new();
        let mut engine = machine.open("global-index");
        let model = begin(&engine, Family::DEFAULT);
        let held = Held::new(&engine, Family::DEFAULT, 0);
        for n in 0..100 {
            put(&engine, CfId::DEFAULT, &old_key(n), b"later").unwrap();
        }
        engine = machine.open_after("global-index", &engine);
        held.check(Family::DEFAULT, &model);
        drop(engine);
    };
    reads();
    {
        let _bug = plant(Bug::ReplayForgetsElders);
        std::panic::catch_unwind(reads).unwrap_err();
    }
    let _bug = plant(Bug::ElderValueForgotten);
    for in_table in [false, true] {
        let there = std::panic::catch_unwind(|| a_value_is_there("pm-tables", in_table));
        assert!(there.is_err() || there.is_ok_and(|there| there.is_err()));
    }
}

/// Readers that never stand still, while the store is closed, opened again and written, over and over: each sees its moment,
/// and no value that it keeps becomes another.
#[test]
fn readers_that_go_on_while_the_store_is_opened_again_see_their_moment() {
    with_each_shape(|shape| {
        // In a plain run every second one.
        if pairs(shape, 1).next().is_none() {
            return;
        }
        let machine = Machine::new();
        let (world, clock) = beside_readers(&machine);
        let open = || Engine::open(world.clone(), HERE.as_ref(), options(shape)).unwrap();
        let engine = open();
        let family = Family::DEFAULT;
        put(&engine, family.id, &old_key(700), &[5; 4000]).unwrap();
        let mut model = begin(&engine, family);
        model.insert(old_key(700), vec![5; 4000]);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (done, model, clock) = (&done, &model, &clock);
            for nth in 0..READERS {
                let at = engine.snapshot();
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    while !done.load(Ordering::Acquire) {
                        let _round = clock.begin_round(nth);
                        Held::new_at(&at, family).check(family, model);
                        let value = at.value(family.id, &old_key(700)).unwrap().unwrap();
                        kept.push(value);
                        kept.drain(..kept.len().saturating_sub(5));
                        Held::Snapshot(at.clone()).check(family, model);
                        assert!(kept.iter().all(|value| **value == [5; 4000]));
                    }
                });
            }
            let mut engine = engine;
            let written = (0..4).try_for_each(|_| {
                engine.close().unwrap();
                engine = open();
                write_much(&engine, family)
            });
            done.store(true, Ordering::Release);
            written.unwrap_or_else(|error| panic!("{shape}: {error}"));
            engine.close().unwrap();
        });
    });
}

/// Looks, when somebody lacks a descriptor, whether a store could be locked.
#[derive(Debug)]
struct Looks {
    fs: SimFs,
    was_free: AtomicBool,
}

impl Spare for Looks {
    fn close(&self) {
        let lock = self.fs.lock(&Path::new(HERE).join("LOCK"));
        self.was_free.fetch_or(lock.is_ok(), Ordering::SeqCst);
    }
}

/// Whoever is not opened after all holds the folder for those who came before, and then gives up the lock: another process
/// might open the store in between, and would find nobody.
#[test]
fn the_folder_is_held_again_before_a_store_that_fails_to_open_gives_up_its_lock() {
    let machine = Machine::new();
    // One fails where folders are listed, the other one where they are held.
    let holds = FaultStorage::over_sim(machine.fs.clone());
    let lists = FaultStorage::new(Arc::new(holds.clone()));
    let mut world = machine.world.clone();
    world.env.storage = Arc::new(lists.clone());
    let open = || Engine::open(world.clone(), Path::new(HERE), options("tiered"));
    let engine = open().unwrap();
    put(&engine, CfId::DEFAULT, b"a", b"1").unwrap();
    let snapshot = engine.snapshot();
    engine.close().unwrap();
    let before = lists.calls_of(Op::List);
    open().unwrap().close().unwrap();
    let calls = lists.calls_of(Op::List) - before;
    let plan = |(fault, op, at)| Plan {
        fault,
        op: Some(op),
        at,
        repeat: Repeat::Once,
    };
    // How often a lock was asked for; 0 if the store was opened all the same.
    let fails_at = |call: u64| {
        let before = (lists.calls_of(Op::List), holds.calls_of(Op::Lock));
        lists.arm(plan((Fault::Eio, Op::List, before.0 + call)));
        match open() {
            Ok(opened) => {
                opened.close().unwrap();
                0
            }
            Err(_) => holds.calls_of(Op::Lock) - before.1,
        }
    };
    let mut looked = 0;
    for call in 0..calls {
        let locks = fails_at(call);
        // The lock, two looks at who holds the folder, and somebody for whom it is held again.
        if locks < 4 {
            continue;
        }
        let looks = Arc::new(Looks {
            fs: machine.fs.clone(),
            was_free: AtomicBool::new(false),
        });
        let spare: Arc<dyn Spare> = looks.clone();
        machine.fs.spares().add(Arc::downgrade(&spare));
        let last = holds.calls_of(Op::Lock) + locks - 1;
        holds.arm(plan((Fault::NoDescriptor, Op::Lock, last)));
        assert_eq!(fails_at(call), locks + 1, "it is tried again");
        assert!(!looks.was_free.load(Ordering::SeqCst), "{call}");
        looked += 1;
    }
    assert!(looked > 0);
    drop(snapshot);
}
