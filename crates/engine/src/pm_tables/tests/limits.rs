//! What is counted, what gives way, and what is in nobody's way.

use thermocline_base::options::{Costs, SHAPES};
use thermocline_base::{Codec, Kind, SeqNo};
use thermocline_env::sim::SimFs;
use thermocline_jobs::Outputs;
use thermocline_jobs::sink::{PmSink, TableSink};
use thermocline_sst::{KeyRef, Value};

use super::*;
use crate::sync::Ordering;

fn open_with(machine: &Machine, set: impl FnOnce(&mut Options)) -> Engine {
    let mut own = options();
    set(&mut own);
    Engine::open(machine.world(), Path::new("/db"), own).unwrap()
}

/// What tables may take beyond their share: compaction may be behind by a flush, and then comes another one; and
/// a zone is a zone.
const MORE: u64 = 2 * (64 << 10) + (128 << 10);

/// A table in a file, newer than what is there.
fn ingest(machine: &Machine, engine: &Engine, cf: CfId, key: &[u8]) {
    let path = Path::new("/outside.sst");
    let env = machine.world().env;
    let mut table = crate::IngestWriter::create(&env, path).unwrap();
    table.put(key, b"ingested").unwrap();
    table.finish().unwrap();
    engine.ingest(cf, &[path]).unwrap();
    env.storage.remove(path).unwrap();
}

fn fill(engine: &Engine, cf: CfId, round: u8, bytes: usize) {
    for n in 0..50u8 {
        put(engine, cf, &[n], &vec![round ^ n; bytes / 50]);
    }
}

/// A family of which a few bytes lie in each table, below a file, does not keep those tables for ever.
#[test]
fn a_family_with_files_in_level_0_gives_way_too() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, |own| {
        own.level0.pm_percent = 10;
        own.memtable.bytes_max = 64 << 10;
        own.flush.automatic = false;
        own.compaction.table_bytes = 128 << 10;
    });
    let other = engine.family("other", &CfOptions::default()).unwrap();
    put(&engine, other.id, b"before", b"in a table");
    engine.flush().unwrap();
    ingest(&machine, &engine, other.id, b"before");
    for round in 0..40u8 {
        fill(&engine, CfId::DEFAULT, round, 40 << 10);
        put(&engine, other.id, &[round], &[round]);
        engine.flush().unwrap();
        engine.drain().unwrap();
        engine.inner.reclaimer.reclaim().unwrap();
        let used = engine.inner.common.pm_tables_use();
        let share = engine.inner.common.options.level0_pm_bytes().unwrap();
        assert!(used.bytes <= share, "{used:?} of {share} in round {round}");
    }
    for round in 0..40u8 {
        let found = engine.get(other.id, &[round], <[u8]>::to_vec).unwrap();
        assert_eq!(found, Some(vec![round]));
    }
    assert_eq!(get(&engine, &[7]), Some(vec![39 ^ 7; (40 << 10) / 50]));
}

#[test]
fn what_is_compacted_and_read_counts_and_is_told() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, |own| {
        own.level0.pm_percent = 8;
        own.memtable.bytes_max = 64 << 10;
    });
    let share = engine.inner.common.options.level0_pm_bytes().unwrap();
    let mut held = Vec::new();
    for round in 0..20u8 {
        fill(&engine, CfId::DEFAULT, round, 30 << 10);
        engine.flush().unwrap();
        // As a read that is under way.
        held.push(engine.inner.common.catalog.view_to_keep());
        compact_all(&engine);
        let used = engine.inner.common.pm_tables_use();
        assert!(used.bytes <= share + MORE, "{used:?} of {share}");
        assert_eq!(used.retired, used.tables, "all are read, and nothing else");
    }
    let used = engine.inner.common.pm_tables_use();
    assert!(
        used.bytes > share,
        "{used:?} of {share}: flushes are files now"
    );
    let (count, bytes) = engine.inner.admission.held_bytes();
    assert!(count as u64 >= used.tables && bytes >= used.bytes);
    held.clear();
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(in_pm(&engine), (0, 0));
    assert_eq!(engine.inner.admission.held_bytes(), (0, 0));
}

/// One file among many tables in persistent memory does not hold writers back as if all were files.
#[test]
fn back_pressure_counts_files_and_tables_in_persistent_memory_apart() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, |own| {
        own.level0.pm_percent = 80;
        own.level0.internal = Costs::Off;
        own.flush.automatic = false;
    });
    for round in 0..30u8 {
        put(&engine, CfId::DEFAULT, b"a", &[round]);
        put(&engine, CfId::DEFAULT, b"z", &[round]);
        engine.flush().unwrap();
    }
    let behind = || {
        let behind = engine.inner.common.compactions.behind();
        (behind.level0_runs, behind.pending_bytes)
    };
    assert_eq!(behind(), (0, 0));
    ingest(&machine, &engine, CfId::DEFAULT, b"m");
    assert_eq!(in_pm(&engine).1, 30);
    assert_eq!(behind(), (1, 0));
    let family = &engine.plan().families[0];
    assert_eq!((family.levels[0].runs, family.level0_pm.runs), (1, 30));
    // Each is as near to a compaction as it is by itself.
    for level in [family.levels[0], family.level0_pm] {
        let by_runs = level.runs as f64 / level.runs_due.unwrap() as f64;
        assert_eq!(level.score, by_runs, "{level:?}");
    }
    assert_eq!(family.next, None);
}

/// Whoever closes waits for an edit that removes tables, and none comes after that.
#[test]
fn nothing_is_removed_while_somebody_closes() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"key", &[1; 2000]);
    engine.flush().unwrap();
    let value = engine.value(CfId::DEFAULT, b"key").unwrap().unwrap();
    compact_all(&engine);
    assert_eq!(in_pm(&engine), (1, 0));
    let inner = engine.inner.clone();
    std::thread::scope(|scope| {
        let gate = inner.sweeper.blobs.gate.shut();
        drop(value);
        let releasing = scope.spawn(|| inner.sweeper.release_pm_tables());
        // Without the gate it would be done by now, more often than not.
        for _ in 0..10_000 {
            std::thread::yield_now();
        }
        inner.common.closed.store(true, Ordering::Release);
        drop(gate);
        releasing.join().unwrap();
    });
    assert_eq!(in_pm(&engine), (1, 0));
    inner.common.closed.store(false, Ordering::Release);
    inner.sweeper.release_pm_tables();
    assert_eq!(in_pm(&engine), (0, 0));
    assert_eq!(get(&engine, b"key"), Some(vec![1; 2000]));
}

/// What no table takes is told, and neither poisons the store nor keeps zones.
#[test]
fn what_fits_no_table_leaves_nothing_behind() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"key", b"value");
    let inner = &engine.inner;
    let before = engine.metrics().space;
    let add = |sink: &mut PmSink<'_>, key: &[u8], len: usize| {
        let (key, value) = (KeyRef::new(key, SeqNo(1)), vec![7; len]);
        let value = Value::Inline(&value);
        sink.add(
            CfId::DEFAULT,
            key,
            Kind::Put,
            value,
            &mut Outputs::default(),
        )
    };
    let next_owner = || inner.sweeper.pm_owner();
    let home = inner.making.pm_home(&next_owner);
    let mut sink = PmSink::new(home, 64 << 10);
    add(&mut sink, b"b", 10).unwrap();
    let error = add(&mut sink, b"a", 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    drop(sink);
    let mut sink = PmSink::new(home, 64 << 10);
    let error = (0..100u8)
        .find_map(|n| add(&mut sink, &[n], 2000).err())
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    drop(sink);
    let after = engine.metrics().space;
    assert_eq!(after.zones_attached, before.zones_attached);
    assert_eq!(after.attached_bytes, before.attached_bytes);
    put(&engine, CfId::DEFAULT, b"key", b"again");
}

/// A flush that is larger than what it may take writes files.
#[test]
fn a_flush_that_is_too_large_writes_files() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, |own| {
        own.level0.pm_percent = 1;
        own.memtable.bytes_max = 16 << 10;
        own.flush.automatic = false;
    });
    fill(&engine, CfId::DEFAULT, 1, 500 << 10);
    assert!(engine.flush().unwrap() > 1);
    assert_eq!(in_pm(&engine), (0, 0));
    assert!(files(&machine) > 0);
    fill(&engine, CfId::DEFAULT, 2, 5 << 10);
    engine.flush().unwrap();
    assert!(in_pm(&engine).0 > 0);
    assert_eq!(get(&engine, &[7]), Some(vec![2 ^ 7; 102]));
}

/// Nothing refers to it, so nobody misses it.
#[test]
fn damage_where_nothing_refers_to_is_reported_and_in_nobodys_way() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"key", &[1; 2000]);
    engine.flush().unwrap();
    let value = engine.value(CfId::DEFAULT, b"key").unwrap().unwrap();
    let zone = {
        let version = engine
            .inner
            .common
            .catalog
            .edits()
            .state()
            .version()
            .clone();
        let number = version.pm_tables().next().unwrap().0.file;
        let table = engine
            .inner
            .common
            .catalog
            .table_files
            .pm
            .get(number)
            .unwrap();
        let part = PmPart::whole(table, CfId::DEFAULT);
        match part.get(b"key", SeqNo(100), true).unwrap().unwrap().value {
            // The piece's header lies before its values.
            FoundValue::Inline(found) => thermocline_pm::PmOff(found.at().0 - 100),
            other => panic!("{other:?}"),
        }
    };
    compact_all(&engine);
    assert_eq!(in_pm(&engine), (1, 0));
    let killed = machine.killed();
    drop((value, engine));
    killed.rot(zone);
    let faults = verified(&killed).faults;
    assert!(
        faults.len() == 1 && faults[0].what.contains("PM table"),
        "{faults:?}"
    );
    let engine = open(&killed);
    assert_eq!(in_pm(&engine), (0, 0));
    assert_eq!(get(&engine, b"key"), Some(vec![1; 2000]));
    let space = engine.metrics().space;
    assert!(space.zones_attached <= 2, "{space:?}");
    engine.close().unwrap();
    drop(engine);
    assert_eq!(verified(&killed).faults, vec![]);
}

#[test]
fn long_values_stay_in_their_files_as_long_as_a_table_refers_to_them() {
    let machine = Machine::new(PM);
    let open = || open_with(&machine, |own| own.blob.inline_bytes_max = 500);
    let mut engine = open();
    let mut model = Model::new();
    for n in 0..6u8 {
        let value = vec![n; 400 + 100 * usize::from(n)];
        put(&engine, CfId::DEFAULT, &[n], &value);
        model.insert(vec![n], value);
    }
    let mut batch = WriteBatch::new();
    batch.delete_range(CfId::DEFAULT, &[2], Some(&[4])).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    model.retain(|key, _| key[0] < 2 || key[0] >= 4);
    engine.flush().unwrap();
    assert_eq!((files(&machine), in_pm(&engine).1), (0, 1));
    assert_eq!(machine.blob_files().len(), 2);
    for _ in 0..2 {
        check_cursor(engine.cursor(ALL).unwrap(), &model);
        for n in 0..6u8 {
            assert_eq!(get(&engine, &[n]).as_ref(), model.get(&vec![n]));
        }
        engine.close().unwrap();
        drop(engine);
        assert_eq!(verified(&machine).faults, vec![]);
        engine = open();
    }
    compact_all(&engine);
    assert_eq!(in_pm(&engine), (0, 0));
    check_cursor(engine.cursor(ALL).unwrap(), &model);
    for n in 0..6u8 {
        delete(&engine, CfId::DEFAULT, &[n]);
    }
    engine.flush().unwrap();
    compact_all(&engine);
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(machine.blob_files(), Vec::<String>::new());
    assert_eq!((files(&machine), in_pm(&engine)), (0, (0, 0)));
}

/// Deletes make room where the disk is full, though part of level 0 does not lie on it.
#[test]
fn deletes_make_room_on_a_full_disk() {
    let steps = thermocline_base::Steps::new();
    let fs = SimFs::new(steps.clone());
    let world = crate::World {
        env: thermocline_env::Env::simulated(fs.clone(), 7),
        sim: Some(thermocline_pm::SimPm::new(1 << 20, steps)),
        shadow: None,
        background: false,
    };
    let mut own = Options {
        pm: 1 << 20,
        ..options()
    };
    own.memtable.bytes_max = 64 << 10;
    own.level0.pm_percent = 30;
    own.compaction.table_bytes = 32 << 10;
    own.compaction.base_bytes = 256 << 10;
    own.compaction.compression = Codec::None;
    own.compaction.compression_last = Codec::None;
    let engine = Engine::open(world, Path::new("/db"), own).unwrap();
    fs.limit(12 << 20);
    let mut rng = Rng::new(5);
    let mut fill = |from: u32| {
        let full = (from..).find_map(|key| {
            let value: Vec<u8> = (0..125)
                .flat_map(|_| rng.next_u64().to_le_bytes())
                .collect();
            let mut batch = WriteBatch::new();
            batch
                .put(CfId::DEFAULT, &key.to_be_bytes(), &value)
                .unwrap();
            let written = engine.write(batch.iter(), Durability::Immediate);
            written.err().map(|error| (key, error))
        });
        let (key, error) = full.unwrap();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        key
    };
    let keys = fill(0);
    for key in (0..keys).step_by(2) {
        delete(&engine, CfId::DEFAULT, &key.to_be_bytes());
    }
    let mut all = keys;
    for _ in 0..20 {
        engine.inner.common.world.env.clock.sleep_ms(1000);
        all = fill(all);
        engine.drain().unwrap();
    }
    assert!(all > keys + keys / 4, "{keys}, then {all}");
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
}

/// What lies there comes down where the shape says so, and a later one brings it back.
#[test]
fn another_shape_leaves_nothing_there() {
    let machine = Machine::new(PM);
    let mut model = Model::new();
    for (round, shape) in SHAPES.iter().chain(SHAPES.iter().rev()).enumerate() {
        let engine = open_with(&machine, |own| own.set("level0.shape", shape).unwrap());
        check_cursor(engine.cursor(ALL).unwrap(), &model);
        for n in 0..100u8 {
            let value = vec![n; 100 + round];
            put(&engine, CfId::DEFAULT, &[n / 2, n], &value);
            model.insert(vec![n / 2, n], value);
        }
        engine.flush().unwrap();
        engine.drain().unwrap();
        check_cursor(engine.cursor(ALL).unwrap(), &model);
        let stays = ["pm-tables", "tiered"].contains(shape);
        assert_eq!(in_pm(&engine).0 > 0, stays, "{shape}");
        engine.close().unwrap();
    }
}

/// A change feed reads memtables that have been flushed there.
#[test]
fn a_change_feed_goes_on_over_flushes() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut seen = Vec::new();
    let mut feed = engine.changes_since(0).unwrap();
    let read = |feed: &mut crate::ChangeFeed, seen: &mut Vec<u8>| {
        for group in feed {
            for change in group.unwrap().changes() {
                match change.unwrap().op {
                    crate::ChangeOp::Put { key, .. } => seen.push(key[0]),
                    other => panic!("{other:?}"),
                }
            }
        }
    };
    for round in 0..10u8 {
        put(&engine, CfId::DEFAULT, &[round], &[round; 300]);
        if round % 3 == 0 {
            engine.flush().unwrap();
        }
        if round % 4 != 0 {
            read(&mut feed, &mut seen);
        }
    }
    read(&mut feed, &mut seen);
    assert_eq!(seen, (0..10u8).collect::<Vec<_>>());
    assert!(in_pm(&engine).0 > 3);
}
