//! A disk without a byte left, where the logs are what needs room.

use std::ops::RangeInclusive;

use thermocline_base::CfOptions;
use thermocline_base::step::Observer;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};

use super::*;
use crate::layout::{CREATING_NAME, note_creation};
use crate::sync::{Arc, Mutex, lock};
use crate::tests::version_of;

fn delete(engine: &Engine, n: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(CfId::DEFAULT, &n.to_be_bytes()).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

fn fill(fs: &SimFs) {
    fs.limit(fs.used());
}

fn is_refused(done: Result<()>) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
}

/// Deletes until there is no room for one more, and how many there were.
fn delete_all_that_fit(engine: &Engine) -> u64 {
    for n in 0..100_000 {
        if let Err(error) = delete(engine, n) {
            is_refused(Err(error));
            return n;
        }
    }
    panic!("the disk is full");
}

/// Makes families until what the manifest has left is used up.
fn use_up_manifest(engine: &Engine) {
    let family = |n: u32| engine.family(&format!("family {n}"), &CfOptions::default());
    let refused = (0..100_000).find_map(|n| family(n).err());
    is_refused(refused.map_or(Ok(()), Err));
}

/// A store that was killed behind five durable writes, which have the seqnos up to 5, and some buffered ones, with the
/// seqnos that those had. Its manifest may have no room left for edits.
fn killed_with_lost(used_up: bool) -> (SimFs, RangeInclusive<u64>) {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    assert_eq!(engine.metrics().visible, 5);
    if used_up {
        fill(&fs);
        use_up_manifest(&engine);
        fs.limit(u64::MAX);
    }
    for n in 6..=9u8 {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, &[n], &[n; 100]).unwrap();
        engine.write(batch.iter(), Durability::Buffered).unwrap();
    }
    assert_eq!(engine.metrics().visible, 9);
    (fs.image_killed(Steps::new()), 6..=9)
}

/// Whether each follower that has one of these seqnos is told that it has more than the store.
fn refuses_since(engine: &Engine, lost: &RangeInclusive<u64>) -> bool {
    lost.clone()
        .all(|seqno| engine.changes_since(seqno).is_err())
}

#[test]
fn a_write_that_has_no_room_in_the_log_is_refused_and_poisons_nothing() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    fill(&fs);
    assert!(delete_all_that_fit(&engine) > 20);
    // Again, and again nothing has happened.
    is_refused(delete(&engine, 0));
    assert!((1..=5).all(|n| has(&engine, n)));
    fs.limit(u64::MAX);
    put(&engine, 6);
    let image = fs.image_killed(Steps::new());
    let engine = open(&image, &options()).unwrap();
    assert!((1..=6).all(|n| has(&engine, n)));
}

/// It has a chain with a log of its own.
#[test]
fn a_staged_batch_that_has_no_room_for_its_log_is_refused_as_any_write_is() {
    let mut options = Options {
        dram: 16 << 20,
        ..options()
    };
    options.memtable.item_bytes_max = 4 << 10;
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options).unwrap();
    put(&engine, 1);
    let mut batch = WriteBatch::new();
    (2..=100).for_each(|n| batch.put(CfId::DEFAULT, &[n], &[n; 100]).unwrap());
    let write = || engine.write(batch.iter(), Durability::Immediate);
    fill(&fs);
    for _ in 0..3 {
        is_refused(write());
        assert!((1..=100).all(|n| has(&engine, n) == (n == 1)));
    }
    fs.limit(u64::MAX);
    write().unwrap();
    let image = fs.image_killed(Steps::new());
    let engine = open(&image, &options).unwrap();
    assert!((1..=100).all(|n| has(&engine, n)));
}

#[test]
fn a_store_is_opened_and_read_where_there_is_no_room_for_a_log() {
    let (mut fs, ..) = killed();
    for _ in 0..3 {
        fill(&fs);
        let engine = open(&fs, &options()).unwrap();
        assert!((1..=5).all(|n| has(&engine, n)));
        is_refused(delete(&engine, 1));
        fs = fs.image_killed(Steps::new());
    }
    fs.limit(u64::MAX);
    let engine = open(&fs, &options()).unwrap();
    put(&engine, 6);
    let image = fs.image_killed(Steps::new());
    engine.close().unwrap();
    for fs in [image, fs] {
        let engine = open(&fs, &options()).unwrap();
        assert!((1..=6).all(|n| has(&engine, n)));
    }
}

#[test]
fn a_store_is_closed_where_the_manifest_has_no_room() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    fill(&fs);
    use_up_manifest(&engine);
    engine.close().unwrap();
    for _ in 0..2 {
        let engine = open(&fs, &options()).unwrap();
        assert!((1..=5).all(|n| has(&engine, n)));
        is_refused(delete(&engine, 1));
        engine.close().unwrap();
    }
    fs.limit(u64::MAX);
    let engine = open(&fs, &options()).unwrap();
    put(&engine, 6);
    let image = fs.image_killed(Steps::new());
    let engine = open(&image, &options()).unwrap();
    assert!((1..=6).all(|n| has(&engine, n)));
}

/// What a kill has taken is known by chains without a cut alone. An opening that cuts them, and has no room to name the
/// next one, says where that begins.
#[test]
fn what_a_kill_took_has_seqnos_that_are_not_given_again_whoever_opens_without_room() {
    for (used_up, kills) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mut fs, lost) = killed_with_lost(used_up);
        for round in 0..2 {
            fill(&fs);
            let engine = open(&fs, &options()).unwrap();
            assert!((1..=9).all(|n| has(&engine, n) == (n <= 5)));
            is_refused(delete(&engine, 1));
            assert!(engine.changes_since(5).is_ok() && refuses_since(&engine, &lost));
            // Room for edits, and for no log: what was held back is said before the chain has a name.
            fs.limit(fs.used() + (3 << 10));
            let name = format!("late {round}");
            engine.family(&name, &CfOptions::default()).unwrap();
            is_refused(delete(&engine, 1));
            if kills {
                fs = fs.image_killed(Steps::new());
            } else {
                engine.close().unwrap();
            }
        }
        fs.limit(u64::MAX);
        let engine = open(&fs, &options()).unwrap();
        assert!(engine.changes_since(5).is_ok() && refuses_since(&engine, &lost));
        put(&engine, 6);
        let visible = engine.metrics().visible;
        assert!(
            visible > *lost.end(),
            "{visible}, {used_up}, killed: {kills}"
        );
        // As many as were lost.
        (7..=10).for_each(|n| put(&engine, n));
        assert!(refuses_since(&engine, &lost));
        let image = fs.image_killed(Steps::new());
        let engine = open(&image, &options()).unwrap();
        assert!((1..=10).all(|n| has(&engine, n)));
        assert!(refuses_since(&engine, &lost));
    }
}

/// What a process leaves that is killed at any point of a flush.
fn points_of_a_flush() -> Vec<SimFs> {
    let steps = Steps::new();
    let fs = SimFs::new(steps.clone());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    let taken: Arc<Mutex<Vec<SimFs>>> = Arc::default();
    let (sink, world) = (taken.clone(), fs.clone());
    let observer: Observer = Arc::new(move |_| {
        lock(&sink).push(world.image_killed(Steps::new()));
    });
    steps.observe(Some(observer));
    engine.flush().unwrap();
    steps.observe(None);
    drop(engine);
    std::mem::take(&mut *lock(&taken))
}

/// File systems that write nothing in place need room to note that a file has gone. What a killed process has left, logs that
/// nobody names, tables that are half written and the note of a creation, is in nobody's way.
#[test]
fn a_store_is_opened_and_written_to_where_there_is_no_room_to_remove_anything() {
    let (mut left, mut tables) = (0, 0);
    for (n, point) in points_of_a_flush().into_iter().enumerate() {
        note_creation(&point, Path::new(DB), &[7; 16], None).unwrap();
        let disk = FaultStorage::over_sim(point.clone());
        disk.arm(Plan {
            fault: Fault::NoSpace,
            op: Some(Op::Remove),
            at: 0,
            repeat: Repeat::Forever,
        });
        let mut world = world(&point);
        world.env.storage = Arc::new(disk.clone());
        let engine = Engine::open(world, Path::new(DB), options());
        let engine = engine.unwrap_or_else(|error| panic!("point {n}: {error}"));
        // Beside the note.
        left += u32::from(disk.fired() > 1);
        put(&engine, 6);
        assert!((1..=6).all(|n| has(&engine, n)), "point {n}");
        // With room again tables go with the next that are removed.
        disk.disarm();
        let unnamed_tables = || {
            let names = point.list(Path::new(DB)).unwrap();
            let there = names.iter().filter(|name| name.ends_with(".sst"));
            there.count() - version_of(&engine).file_count()
        };
        tables += unnamed_tables();
        engine.inner.sweeper.unlink_obsolete();
        assert_eq!(unnamed_tables(), 0, "point {n}");
        drop(engine);
        // The next open removes the rest.
        let engine = open(&point, &options()).unwrap();
        assert!((1..=6).all(|n| has(&engine, n)), "point {n}");
        let names = point.list(Path::new(DB)).unwrap();
        let is_left = |name: &String| name.ends_with(".part") || name == CREATING_NAME;
        assert!(!names.iter().any(is_left), "point {n}: {names:?}");
    }
    assert!(left > 0 && tables > 0, "nothing was left");
}

/// Opens the store where there is no room to remove anything.
fn open_removing_nothing(fs: &SimFs, wal_path: Option<&str>) -> Engine {
    let disk = FaultStorage::over_sim(fs.clone());
    disk.arm(Plan {
        fault: Fault::NoSpace,
        op: Some(Op::Remove),
        at: 0,
        repeat: Repeat::Forever,
    });
    let mut world = world(fs);
    world.env.storage = Arc::new(disk);
    let options = Options {
        wal_path: wal_path.map(PathBuf::from),
        ..options()
    };
    Engine::open(world, Path::new(DB), options).unwrap()
}

/// It has what was begun of it still, and its id is given to the next one: so nothing is wrong with the store.
#[test]
fn a_log_that_can_neither_be_made_nor_removed_is_refused_and_poisons_nothing() {
    let fs = SimFs::new(Steps::new());
    let disk = FaultStorage::over_sim(fs.clone());
    let mut world = world(&fs);
    world.env.storage = Arc::new(disk.clone());
    let engine = Engine::open(world, Path::new(DB), options()).unwrap();
    put(&engine, 1);
    let memtables = &engine.inner.memtables;
    let wal = memtables.wal.as_ref().unwrap();
    let path = wal.dir().path(&wal.db_id, 77);
    fill(&fs);
    disk.arm(Plan {
        fault: Fault::NoSpace,
        op: Some(Op::Remove),
        at: 0,
        repeat: Repeat::Forever,
    });
    for nonce in [7, 8] {
        is_refused(memtables.begin_log(77, nonce).map(drop));
        assert!(fs.exists(&path).unwrap());
    }
    assert_eq!(disk.fired(), 2);
    fs.limit(u64::MAX);
    assert!(memtables.begin_log(77, 9).unwrap().is_some());
    put(&engine, 2);
    assert!((1..=2).all(|n| has(&engine, n)));
}

/// What stays in the folder where logs were has the ids of those that are made in the new one. It counts for nothing, wherever the next
/// open looks for logs, and wherever it brings them.
#[test]
fn a_log_that_was_left_where_they_were_is_not_taken_for_the_one_of_its_id() {
    let mut left = 0;
    for (n, point) in points_of_a_flush().into_iter().enumerate() {
        let before = point.list(Path::new(DB)).unwrap();
        left += u32::from(before.iter().any(|name| name == "000002.log"));
        let engine = open_removing_nothing(&point, Some("/logs"));
        put(&engine, 6);
        engine.flush().unwrap();
        put(&engine, 7);
        drop(engine);
        for wal_path in [Some("/logs"), None, Some("/others")] {
            let fs = point.image_killed(Steps::new());
            let engine = open_removing_nothing(&fs, wal_path);
            put(&engine, 8);
            drop(engine);
            let engine = open(&fs, &options()).unwrap();
            assert!((1..=8).all(|k| has(&engine, k)), "point {n}, {wal_path:?}");
        }
    }
    assert!(left > 0, "nothing was left");
}

/// It would be nobody's until the next open, with all the room that it has. And a log that was left under the name of the next one
/// needs no other.
#[test]
fn a_log_that_is_kept_is_kept_on_where_there_is_no_room_to_rename_or_remove_it() {
    let fs = SimFs::new(Steps::new());
    let disk = FaultStorage::over_sim(fs.clone());
    let mut world = world(&fs);
    world.env.storage = Arc::new(disk.clone());
    let engine = Engine::open(world, Path::new(DB), options()).unwrap();
    put(&engine, 1);
    let wal = engine.inner.memtables.wal.as_ref().unwrap();
    let path = wal.dir().path(&wal.db_id, 77);
    drop(wal.begin(77, 7).unwrap());
    wal.retire(&[77]);
    let is_kept = || lock(&wal.spares).as_slice() == std::slice::from_ref(&path);
    assert!(is_kept());
    let no_room_for = |op| {
        disk.arm(Plan {
            fault: Fault::NoSpace,
            op: Some(op),
            at: 0,
            repeat: Repeat::Forever,
        });
    };
    no_room_for(Op::Rename);
    // A new one, and one that is there.
    for nonce in [8, 9] {
        drop(wal.begin(78, nonce).unwrap());
        assert!(is_kept());
    }
    no_room_for(Op::Remove);
    wal.remove_spares();
    assert!(is_kept());
    assert_eq!(disk.fired(), 3);
    disk.disarm();
    wal.remove_spares();
    assert!(!is_kept() && !fs.exists(&path).unwrap());
}
