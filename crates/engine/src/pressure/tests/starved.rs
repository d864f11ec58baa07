//! A disk that is not full, and has too little room for a long value, for what is ingested, or for a job.

use thermocline_base::{FileId, Kind, RangeTombstone, SeqNo};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_sst::{Compression, Identity, KeyRef, TableWriter, Value, WriteOptions};
use thermocline_version::{Level, Place};

use super::*;

fn put_long(engine: &Engine, bytes: u64) -> Result<()> {
    let value = vec![7; usize::try_from(bytes).unwrap()];
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"long", &value).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

/// What a snapshot kept lies with its tombstones in the last level, where nothing sinks any more. A store that writes such tables anew
/// only where the disk is full refuses the value for ever, though the room for it could be made.
#[test]
fn what_a_snapshot_kept_makes_room_for_a_long_value() {
    let (fs, engine) = on_disk_of(Shape::GlobalIndex, false);
    let keys = 4000;
    for key in 0..keys {
        put(&engine, key, 1).unwrap();
    }
    let held = engine.snapshot();
    delete_scattered(&engine, keys);
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    engine.compact(CfId::DEFAULT, all).unwrap();
    engine.drain().unwrap();
    let disk = engine.inner.pressure.disk().unwrap();
    // Half of the values are two million bytes.
    let bytes = disk.beyond_reserve() + (1 << 20);
    for _ in 0..3 {
        let error = put_long(&engine, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert!(!engine.inner.pressure.is_disk_full());
    }
    drop(held);
    // It is not looked at readers at each attempt.
    let clock = &engine.inner.common.world.env.clock;
    clock.sleep_ms(11_000);
    let tries = (0..10).find(|_| put_long(&engine, bytes).is_ok());
    assert!(tries.is_some(), "no room for a long value");
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
    engine.close().unwrap();
}

const TABLE: &str = "/new.sst";
const TABLE_KEYS: u32 = 3000;

/// A table with so many values of a thousand bytes, to be ingested; how long it is.
fn write_table(engine: &Engine, compression: Compression) -> u64 {
    let storage = &*engine.inner.common.world.env.storage;
    let identity = Identity::new([9; 16], FileId(3));
    let options = WriteOptions {
        compression,
        ..WriteOptions::default()
    };
    let table = TableWriter::create(storage, Path::new(TABLE), identity, CfId::DEFAULT, options);
    let mut table = table.unwrap();
    for key in 0..TABLE_KEYS {
        let key = key.to_be_bytes();
        let key = KeyRef::new(&key, SeqNo(1));
        table
            .add(key, Kind::Put, Value::Inline(&[7; 1000]))
            .unwrap();
    }
    table.finish().unwrap().bytes
}

/// Makes the disk so small that it takes no more than `bytes` bytes beside what is kept.
fn leave(fs: &SimFs, engine: &Engine, bytes: u64) {
    let mut total = DISK;
    while engine.inner.pressure.disk().unwrap().takes(bytes) {
        total -= 64 << 10;
        fs.limit(total);
    }
}

/// Nothing of the table is there, and no write has met a full disk.
fn is_refused(fs: &SimFs, engine: &Engine) {
    let error = engine.ingest(CfId::DEFAULT, &[TABLE]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    let says = ["ingesting takes", "the disk of /db has", "nothing was"];
    assert!(
        says.iter().all(|text| error.to_string().contains(text)),
        "{error}"
    );
    assert_eq!(fs.refusals(), 0);
    let found = engine.get(CfId::DEFAULT, &0u32.to_be_bytes(), |_| ());
    assert_eq!(found.unwrap(), None);
    let storage = &engine.inner.common.world.env.storage;
    let names = storage.list(Path::new("/db")).unwrap();
    assert!(
        !names.iter().any(|name| name.ends_with(".sst")),
        "{names:?}"
    );
}

/// All of the table fits, but not beside what is kept for flushes and compactions. A store that only meets a full disk takes it, and
/// the next flush finds no room.
#[test]
fn an_ingestion_leaves_what_is_kept_for_flushes() {
    let (fs, engine) = on_disk_of(Shape::GlobalIndex, false);
    let bytes = write_table(&engine, Compression::None);
    leave(&fs, &engine, bytes);
    assert!(engine.inner.pressure.disk().unwrap().free > bytes);
    is_refused(&fs, &engine);
    fs.limit(DISK);
    let ingested = engine.ingest(CfId::DEFAULT, &[TABLE]).unwrap();
    assert_eq!(ingested.entries, u64::from(TABLE_KEYS));
    engine.close().unwrap();
}

/// The table is short, and what the store writes of it is not. A store that asks only before it writes does not see that.
#[test]
fn what_an_ingestion_writes_may_be_longer_than_what_it_reads() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let mut options = options_of(Shape::GlobalIndex);
    options.compaction.compression_level0 = Codec::None;
    let engine = open_with(options, &fs, &sim, false);
    fs.limit(DISK);
    let bytes = write_table(&engine, Compression::Lz4);
    assert!(bytes < 1 << 20, "{bytes}");
    leave(&fs, &engine, 2 << 20);
    is_refused(&fs, &engine);
    fs.limit(DISK);
    let ingested = engine.ingest(CfId::DEFAULT, &[TABLE]).unwrap();
    assert!(ingested.bytes > 2 << 20, "{ingested:?}");
    engine.close().unwrap();
}

/// Their keys are all that there is. About 300 KiB are written before it is asked again, and more is kept for flushes: so the disk is not
/// met full in between.
#[test]
fn range_tombstones_of_an_ingestion_ask_for_room_too() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let mut options = options_of(Shape::GlobalIndex);
    options.compaction.compression_level0 = Codec::None;
    let engine = open_with(options, &fs, &sim, false);
    fs.limit(DISK);
    leave(&fs, &engine, 4 << 20);
    let disk = engine.inner.pressure.disk().unwrap();
    assert!(disk.reserve() > 400 << 10, "{disk:?}");
    assert!(disk.beyond_reserve() > 3 << 20, "{disk:?}");
    let key = |n: u32| [&n.to_be_bytes()[..], &[0; 1000]].concat();
    let mut came = 0;
    let ingester = &engine.inner.ingester;
    let installed = ingester.install_new(CfId::DEFAULT, 0, &mut |seqno, new| {
        (0..4000).try_for_each(|n| {
            came = n;
            new.begin_tombstone(RangeTombstone {
                start: key(n),
                end: key(n + 1),
                seqno,
            })
        })
    });
    let error = installed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    let says = error.to_string().contains("ingesting takes more");
    assert!(says && came > 1000, "{came}: {error}");
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
    fs.limit(DISK);
    engine.close().unwrap();
}

fn level0_of(engine: &Engine) -> usize {
    let version = engine.inner.common.catalog.version();
    let place = Place::new(CfId::DEFAULT, Level::ZERO);
    version.level(place).map_or(0, |tables| tables.len())
}

/// Level 0 has something that is due, below which there are tables.
fn load_again(engine: &Engine, runtime: &Runtime) {
    load(engine, runtime, 100);
    assert_eq!(level0_of(engine), 0);
    (0..100).for_each(|key| put(engine, key, 2).unwrap());
    engine.flush().unwrap();
}

/// A quota ends where the disk has room, so that nobody is asked to make any. Then nobody comes by, either, if nobody writes.
#[test]
fn a_job_that_finds_no_room_on_a_disk_that_is_not_full_is_tried_again() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let disk = FaultStorage::over_sim(fs.clone());
    let env = Env {
        storage: Arc::new(disk.clone()),
        ..Env::simulated(fs, 7)
    };
    let mut options = options_of(Shape::GlobalIndex);
    options.compaction.level0_tables = 1;
    let (engine, runtime) = scripted_in(env, sim, options, None);
    let level0 = || level0_of(&engine);
    load_again(&engine, &runtime);
    disk.arm(Plan {
        fault: Fault::Quota,
        op: Some(Op::Create),
        at: 0,
        repeat: Repeat::Forever,
    });
    pass(&engine, &runtime, 0);
    assert!(level0() > 0 && disk.fired() > 0);
    assert!(!engine.inner.pressure.is_relieving());
    disk.disarm();
    pass(&engine, &runtime, 0);
    assert!(level0() > 0, "it rests");
    pass(&engine, &runtime, 11_000);
    assert_eq!(level0(), 0);
    engine.close().unwrap();
    while runtime.step().is_some() {}
}

/// Somebody else has filled the disk, and makes room there: nobody tells the store.
#[test]
fn what_was_left_alone_on_a_full_disk_is_done_when_there_is_room() {
    let mut options = options_of(Shape::GlobalIndex);
    options.compaction.level0_tables = 1;
    let (fs, engine, runtime) = scripted(options, None);
    let level0 = || level0_of(&engine);
    load_again(&engine, &runtime);
    fs.limit(fs.used());
    engine.inner.pressure.press();
    assert!(engine.inner.pressure.is_disk_full());
    pass(&engine, &runtime, 0);
    assert!(level0() > 0);
    pass(&engine, &runtime, 11_000);
    assert!(level0() > 0 && engine.inner.pressure.is_disk_full());
    fs.limit(DISK);
    (0..3).for_each(|_| pass(&engine, &runtime, 11_000));
    assert_eq!(level0(), 0);
    engine.close().unwrap();
    while runtime.step().is_some() {}
}

/// While it wrote the disk was full, and when it has ended there is room again: the same job would be picked at once, and fill it again.
#[test]
fn a_job_that_has_filled_the_disk_itself_rests() {
    let (fs, engine, runtime) = with_a_job_that_fills_the_disk();
    assert!(engine.inner.pressure.is_disk_full());
    fs.limit(1 << 40);
    engine.inner.pressure.press();
    assert!(!engine.inner.pressure.is_relieving());
    let common = &engine.inner.common;
    let rest = common.compactions.first_rest_ends_after(common.now_ns());
    assert!(rest.is_some());
    pass(&engine, &runtime, 11_000);
    engine.close().unwrap();
    while runtime.step().is_some() {}
}
