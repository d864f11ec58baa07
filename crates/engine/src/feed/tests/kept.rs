//! What is kept for feeds, beside the stores' other uses of memory.

use std::ops::Bound;

use thermocline_base::Steps;
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, Storage};
use thermocline_pm::SimPm;

use super::*;
use crate::{Runtime, RuntimeOptions, Setup, World};

/// Much more than there is DRAM for its indexes.
const KEPT: u64 = 12 << 20;
const DRAM: u64 = 1 << 20;
const BATCH: u64 = 500;
const KEYS: u64 = 200_000;

fn with_dram(dram: u64) -> Options {
    let mut options = options();
    options.pm = 16 << 20;
    options.dram = dram;
    options.memtable.bytes_max = 1 << 20;
    options.blob.inline_bytes_max = 100;
    options.feed.retain_bytes = KEPT;
    options
}

fn key(n: u64) -> [u8; 8] {
    // Neighbours share no prefix, so that indexes are large.
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn value(n: u64) -> Vec<u8> {
    // Some are long.
    vec![n.to_le_bytes()[0]; if n % 5000 == 7 { 500 } else { 8 }]
}

fn check(engine: &Engine) {
    let get = |n: u64| engine.get(CF, &key(n), <[u8]>::to_vec).unwrap();
    for n in (0..KEYS).step_by(997).chain([7, 5007]) {
        assert_eq!(get(n), Some(value(n)), "{n}");
    }
    assert_eq!(engine.get(CF, b"gone", <[u8]>::to_vec).unwrap(), None);
    assert_eq!(engine.get(CF, b"last", |v| v.len()).unwrap(), Some(1));
    // All of it, and from the blob files what they have.
    let mut n = 0;
    for group in since(engine, 0) {
        let group = group.unwrap();
        for change in group.changes() {
            if let ChangeOp::Put {
                key: found,
                value: is,
            } = change.unwrap().op
                && found.len() == 8
            {
                assert_eq!((found, &*is), (&key(n)[..], &value(n)[..]));
                n += 1;
            }
        }
    }
    assert_eq!(n, KEYS);
}

/// In a runtime that has no more.
fn open_in_little(machine: &Machine, options: Options) -> Result<Engine> {
    let runtime = Runtime::new(RuntimeOptions {
        dram: DRAM,
        workers: 1,
        ..RuntimeOptions::default()
    });
    let setup = Setup {
        runtime: Some(runtime.unwrap()),
        ..Setup::default()
    };
    Engine::open_with(machine.world(), Path::new("/db"), options, setup)
}

/// On this disk, whose clock stands still. It may have threads of its own.
fn open_on(fs: &SimFs, options: Options, background: bool) -> Engine {
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(SimPm::new(PM, fs.steps().clone())),
        shadow: None,
        background,
    };
    Engine::open(world, Path::new("/db"), options).unwrap()
}

/// Keeps much, and opens the store again with little DRAM.
fn reopened(machine: &Machine) -> Result<()> {
    let engine = open(machine, &with_dram(64 * DRAM));
    let write = |batch: WriteBatch| engine.write(batch.iter(), Durability::Immediate).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CF, b"gone", b"1").unwrap();
    batch.delete_range(CF, b"gone", Some(b"gonf")).unwrap();
    write(batch);
    for from in (0..KEYS).step_by(usize::try_from(BATCH).unwrap()) {
        let mut batch = WriteBatch::new();
        for n in from..from + BATCH {
            batch.put(CF, &key(n), &value(n)).unwrap();
        }
        write(batch);
    }
    engine.flush().unwrap();
    // In no table.
    let mut batch = WriteBatch::new();
    batch.put(CF, b"last", b"2").unwrap();
    write(batch);
    let kept = engine.metrics().feed;
    assert!(kept.kept_bytes > 4 * DRAM, "{kept:?}");
    check(&engine);
    engine.close()?;
    drop(engine);
    for killed in [false, true] {
        let machine = match killed {
            true => &machine.killed(),
            false => machine,
        };
        let engine = open_in_little(machine, with_dram(DRAM))?;
        let metrics = engine.metrics();
        let recovery = metrics.recovery;
        assert_eq!((recovery.records, recovery.kept_records), (1, KEYS + 2));
        assert!(metrics.feed.kept_bytes > 4 * DRAM);
        check(&engine);
        // Who only reads finds the same.
        drop(engine);
        let only_reads = Options {
            read_only: true,
            ..with_dram(DRAM)
        };
        check(&open_in_little(machine, only_reads)?);
    }
    Ok(())
}

#[test]
fn what_is_kept_needs_no_dram_when_a_store_is_opened() {
    reopened(&Machine::new(16 << 20)).unwrap();
    let _bug = plant(Bug::IndexKeptAtOpen);
    let error = reopened(&Machine::new(16 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
}

/// Keeps the first group, of a short value and a long one, while all behind it is flushed and overwritten.
/// Returns what it says then, and how many memtables and blob files there are.
fn kept_group() -> (Option<Result<Vec<u8>>>, usize, u64) {
    let mut options = options();
    options.blob.inline_bytes_max = 100;
    let machine = Machine::new(PM);
    let engine = open(&machine, &options);
    let mut batch = WriteBatch::new();
    batch.put(CF, b"short", b"1").unwrap();
    batch.put(CF, b"long", &[2; 1000]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let mut feed = since(&engine, 0);
    let group = feed.next().unwrap().unwrap();
    drop(feed);
    let mut batch = WriteBatch::new();
    batch.delete(CF, b"long").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let mut key = 0;
    for _ in 0..4 {
        key = seal(&engine, key);
        engine.flush().unwrap();
    }
    engine
        .compact(CF, (Bound::Unbounded, Bound::Unbounded))
        .unwrap();
    engine.reclaim().unwrap();
    let memtables = engine.metrics().memtables.len();
    let files = engine.metrics().blobs.files;
    let again = group.clone();
    drop(group);
    engine.reclaim().unwrap();
    let mut changes = again.changes();
    let first = changes.next().unwrap().unwrap().op;
    assert_eq!(
        first,
        ChangeOp::Put {
            key: b"short",
            value: b"1"[..].into()
        }
    );
    let long = changes.next().map(|change| {
        change.map(|change| match change.op {
            ChangeOp::Put { value, .. } => value.into_owned(),
            other => panic!("{other:?}"),
        })
    });
    assert!(changes.next().is_none());
    drop(changes);
    drop(again);
    engine.reclaim().unwrap();
    assert_eq!(engine.metrics().blobs.files, 0, "nobody has it any more");
    assert!(machine.blob_files().is_empty());
    (long, memtables, files)
}

#[test]
fn a_group_that_is_kept_holds_its_blob_files_and_no_memtable() {
    let (long, memtables, files) = kept_group();
    assert_eq!(long.unwrap().unwrap(), [2; 1000]);
    assert_eq!((memtables, files), (1, 1));
    for bug in [Bug::GroupForgetsBlobs, Bug::BlobForgetsWrites] {
        let _bug = plant(bug);
        let (long, _, files) = kept_group();
        assert_eq!(files, 0);
        assert_eq!(long.unwrap().unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_group_without_long_values_holds_nothing_of_a_store_that_was_closed() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    put(&engine, 1);
    let group = since(&engine, 0).next().unwrap().unwrap();
    engine.close().unwrap();
    let alive = std::sync::Arc::downgrade(&engine.inner);
    drop(engine);
    assert!(alive.upgrade().is_none());
    // Nor is anybody kept from the folder.
    let engine = open(&machine, &options());
    assert_eq!(
        keys_and_values(&group),
        [(1u32.to_be_bytes().to_vec(), vec![7; 100])]
    );
    engine.close().unwrap();
}

/// Whoever closes a store does not wait for a feed that is inside a call. If the call held nothing, the next opening
/// would give zones to others that are being read there, and the feed would find damage where there is none.
#[test]
fn a_call_that_is_under_way_at_a_close_keeps_what_it_reads() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    put(&engine, 1);
    let held = engine.inner.feeds.hold().unwrap();
    engine.close().unwrap();
    let too_late = engine.inner.feeds.hold().unwrap_err();
    assert_eq!(too_late.kind(), ErrorKind::Closed, "{too_late}");
    let next = open(&machine, &options());
    let everything = || next.inner.common.elders.held().everything;
    assert!(everything());
    drop(held);
    assert!(!everything());
}

#[test]
fn a_staged_group_can_be_kept_too() {
    let mut options = options();
    options.memtable.item_bytes_max = 4 << 10;
    let engine = open(&Machine::new(PM), &options);
    engine
        .write(puts(1..301, 100).iter(), Durability::Buffered)
        .unwrap();
    put(&engine, 301);
    let group = since(&engine, 0).next().unwrap().unwrap();
    let mut key = 302;
    for _ in 0..3 {
        key = seal(&engine, key);
        engine.flush().unwrap();
    }
    engine.reclaim().unwrap();
    assert_eq!(engine.metrics().memtables.len(), 1);
    let keys: Vec<Vec<u8>> = keys_and_values(&group).into_iter().map(|kv| kv.0).collect();
    assert_eq!(
        keys,
        (1..301u32)
            .map(|k| k.to_be_bytes().to_vec())
            .collect::<Vec<_>>()
    );
}

#[test]
fn who_finds_no_room_hears_of_readers_of_what_is_kept() {
    let mut options = options();
    options.memtable.bytes_max = 64 << 10;
    // All of it is kept, whoever reads it.
    options.feed.retain_bytes = 8 * PM;
    options.read.pin_bytes_min = 100;
    options.read.pins_percent_max = 100;
    let engine = open(&Machine::new(PM), &options);
    let write = |key| engine.write(puts([key], 1000).iter(), Durability::Immediate);
    let mut held = Vec::new();
    let mut write_and_hold = |key: u32| {
        let written = write(key);
        if written.is_ok() && key.is_multiple_of(20) {
            held.push(engine.value(CF, &key.to_be_bytes()).unwrap());
        }
        written
    };
    let error = (0..8000).find_map(|key| write_and_hold(key).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert!(error.to_string().contains("are held by readers"), "{error}");
    drop(held);
    (0..8000).for_each(|key| write(key).unwrap());
}

/// One value is held of the oldest memtable that is kept. If that alone were to yield, it could not go, all behind it
/// would stay for a feed that nobody reads, and a write would be refused.
#[test]
fn who_finds_no_room_passes_over_what_a_reader_holds_of_what_is_kept() {
    let mut options = options();
    options.memtable.bytes_max = 64 << 10;
    options.feed.retain_bytes = 8 * PM;
    options.read.pin_bytes_min = 100;
    options.read.pins_percent_max = 100;
    let engine = open(&Machine::new(PM), &options);
    let write = |key| engine.write(puts([key], 1000).iter(), Durability::Immediate);
    write(0).unwrap();
    let held = engine.value(CF, &0u32.to_be_bytes()).unwrap();
    (1..4000).for_each(|key| {
        write(key).unwrap();
    });
    assert!(engine.metrics().feed.kept_memtables > 0);
    assert!(engine.metrics().feed.oldest > 1000);
    assert_eq!(held.unwrap().into_vec(), [7; 1000]);
}

/// The reader of what is kept has kept a writer from its room, and leaves before that asks who reads.
#[test]
fn who_finds_no_room_takes_what_a_reader_of_what_is_kept_has_left() {
    let mut options = options();
    options.feed.retain_bytes = 8 * PM;
    let engine = open_on(&SimFs::new(Steps::new()), options, true);
    seal(&engine, 1);
    engine.flush().unwrap();
    engine.reclaim().unwrap();
    let kept = || engine.metrics().feed.kept_memtables;
    let found_room = || {
        let made = engine.inner.common.room.made();
        engine.inner.admission.wait_for_readers(made).unwrap()
    };
    assert!(kept() > 0);
    while kept() > 0 {
        assert!(found_room());
    }
    assert!(!found_room(), "nothing is left");
}

/// What is kept of long values that are flushed, when feeds may keep `retained` bytes or as much as `percent` of `pm`.
fn kept_blobs(retained: u64, percent: u64) -> (FeedUse, u64) {
    let mut options = options();
    options.blob.inline_bytes_max = 100;
    options.feed.retain_bytes = retained;
    options.feed.pins_percent_max = percent;
    let engine = open(&Machine::new(PM), &options);
    let _feed = since(&engine, 0);
    for _ in 0..20 {
        // Always the same keys: no table has more than the last round.
        for key in 0..20 {
            let batch = puts([key], 10_000);
            engine.write(batch.iter(), Durability::Immediate).unwrap();
        }
        engine.flush().unwrap();
        engine
            .compact(CF, (Bound::Unbounded, Bound::Unbounded))
            .unwrap();
    }
    engine.reclaim().unwrap();
    let metrics = engine.metrics();
    (metrics.feed, metrics.blobs.bytes)
}

#[test]
fn long_values_count_in_what_is_kept() {
    const TABLES: u64 = 20 * 10_200;
    let (kept, files) = kept_blobs(500_000, 0);
    assert!(
        kept.kept_bytes + kept.kept_blob_bytes <= 500_000,
        "{kept:?}"
    );
    assert!(kept.kept_blob_bytes > 200_000, "{kept:?}");
    assert!(files <= 510_000 + TABLES, "{files}: {kept:?}");
    for percent in [0, 50] {
        let (cut_off, files) = kept_blobs(0, percent);
        assert_eq!((cut_off.open, cut_off.kept_blob_bytes), (0, 0));
        assert!(files <= TABLES, "{files}");
    }
    let _bug = plant(Bug::KeptBlobsUncounted);
    let (kept, files) = kept_blobs(500_000, 0);
    assert!(files > 10 * 200_000, "{files}: {kept:?}");
    assert_eq!(kept_blobs(0, 50).0.open, 1);
}

#[test]
fn who_finds_no_disk_for_a_long_value_takes_what_is_kept() {
    let fs = SimFs::new(Steps::new());
    fs.limit(8 << 20);
    let mut options = options();
    options.feed.retain_bytes = 1 << 40;
    options.blob.inline_bytes_max = 1000;
    let engine = open_on(&fs, options, false);
    let mut most = 0;
    for _ in 0..100 {
        let write = || engine.write(puts([1], 400_000).iter(), Durability::Immediate);
        if let Err(error) = write() {
            assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
            // What is kept for feeds has made room by then.
            let refused = error.to_string().contains("are kept for flushing");
            assert!(!refused, "{error}");
            // This disk has room again when its folder has been synced.
            let site = thermocline_sst::sites::FILE_NAMED;
            fs.sync_dir(Path::new("/db"), site).unwrap();
            write().unwrap();
        }
        engine.flush().unwrap();
        most = most.max(engine.metrics().feed.kept_blob_bytes);
    }
    assert!(most > 2 << 20, "{most}");
    // What can never fit takes nothing.
    let before = engine.metrics().feed;
    assert!(before.kept_blob_bytes > 1 << 20, "{before:?}");
    let write = |bytes| engine.write(puts([1], bytes).iter(), Durability::Immediate);
    let error = write(16 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(engine.metrics().feed, before);
    // Short ones do not wait for feeds either, once somebody else has taken the rest of the disk.
    let room = engine.inner.common.disk_room().unwrap();
    fs.limit(room.total - room.free + (100 << 10));
    for _ in 0..10 {
        if write(100).is_err() {
            let site = thermocline_sst::sites::FILE_NAMED;
            fs.sync_dir(Path::new("/db"), site).unwrap();
        }
    }
    write(100).unwrap();
    let after = engine.metrics().feed;
    assert!(after.kept_blob_bytes < before.kept_blob_bytes, "{after:?}");
}
