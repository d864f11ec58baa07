//! Stores with logs: what is refused, what is damage, and where logs lie.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thermocline_base::options::{MemtableOptions, Options, Preset};
use thermocline_base::{CfId, ErrorKind, Result, Steps, WriteBatch};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_testkit::{Replay, Rng, seeds};
use thermocline_wal::LogReader;

use crate::world::{Setup, World};
use crate::{Backups, Durability, Engine, IngestWriter, Runtime, RuntimeOptions, verify};

mod begun;
mod copied;
mod full;
mod ingest;
mod moved;
mod pieces;
mod taken;

const DB: &str = "/db";

fn world(fs: &SimFs) -> World {
    World {
        env: Env::simulated(fs.clone(), 7),
        sim: None,
        shadow: None,
        background: false,
    }
}

fn options() -> Options {
    Options {
        preset: Preset::Leveled,
        dram: 4 << 20,
        ..Options::default()
    }
}

fn open(fs: &SimFs, options: &Options) -> Result<Engine> {
    Engine::open(world(fs), Path::new(DB), options.clone())
}

fn put(engine: &Engine, n: u8) {
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, &[n], &[n; 100]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn has(engine: &Engine, n: u8) -> bool {
    let found = engine.get(CfId::DEFAULT, &[n], |value| value == [n; 100]);
    found.unwrap().inspect(|same| assert!(same)).is_some()
}

/// A store that was killed after five writes, with where their frames begin.
fn killed() -> (SimFs, PathBuf, Vec<u64>) {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    let image = fs.image_killed(Steps::new());
    let path = Path::new(DB).join("000001.log");
    let mut reader = LogReader::open(&image, &path).unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        frames.push(frame.at);
    }
    assert_eq!(frames.len(), 5);
    (image, path, frames)
}

fn flip(fs: &SimFs, path: &Path, at: u64) {
    let mut bytes = fs.contents(path).unwrap();
    bytes[usize::try_from(at).unwrap()] ^= 1;
    fs.install(path, &bytes);
}

#[test]
fn a_bad_frame_that_later_ones_vouch_for_is_corruption_and_the_last_is_cut() {
    for bad in 0..5usize {
        let (fs, path, frames) = killed();
        flip(&fs, &path, frames[bad] + 70);
        let opened = open(&fs, &options());
        if bad == 4 {
            let engine = opened.unwrap();
            assert_eq!((1..=5).filter(|&n| has(&engine, n)).count(), 4);
            put(&engine, 5);
            drop(engine);
            assert!(has(&open(&fs, &options()).unwrap(), 5));
            continue;
        }
        let error = opened.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("000001.log"), "{error}");
        let report = verify(&world(&fs), Path::new(DB), &options()).unwrap();
        assert_eq!(report.faults.len(), 1, "{report:?}");
        let fault = &report.faults[0];
        assert_eq!(fault.place, path.display().to_string());
        let before = if bad == 0 { 4096 } else { frames[bad] };
        assert_eq!(fault.offset, before, "frame {bad}");
    }
}

#[test]
fn a_log_that_is_missing_or_another_is_corruption() {
    let (fs, path, _) = killed();
    let other = {
        let fs = SimFs::new(Steps::new());
        let world = World {
            env: Env::simulated(fs.clone(), 8),
            ..world(&fs)
        };
        let engine = Engine::open(world, Path::new(DB), options()).unwrap();
        put(&engine, 9);
        fs.contents(&path).unwrap()
    };
    let own = fs.contents(&path).unwrap();
    fs.install(&path, &other);
    let error = open(&fs, &options()).unwrap_err();
    assert!(error.to_string().contains("another log"), "{error}");
    fs.remove(&path).unwrap();
    let error = open(&fs, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("000001.log"), "{error}");
    fs.install(&path, &own);
    assert!(has(&open(&fs, &options()).unwrap(), 5));
}

#[test]
fn a_manifest_that_lost_the_edit_that_names_a_log_is_noticed() {
    let fs = SimFs::new(Steps::new());
    drop(open(&fs, &options()).unwrap());
    let manifest = |fs: &SimFs| {
        let names = fs.list(Path::new(DB)).unwrap();
        let name = names.into_iter().find(|name| name.starts_with("MANIFEST"));
        Path::new(DB).join(name.unwrap())
    };
    let before = fs.contents(&manifest(&fs)).unwrap();
    let engine = open(&fs, &options()).unwrap();
    put(&engine, 1);
    let image = fs.image_killed(Steps::new());
    image.install(&manifest(&image), &before);
    let error = open(&image, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("cut short"), "{error}");
}

#[test]
fn where_records_lie_is_decided_once() {
    let (fs, ..) = killed();
    let error = open(&fs, &Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'leveled'"), "{error}");
    let stored = Engine::stored_options(&world(&fs), Path::new(DB)).unwrap();
    assert!(has(&open(&fs, &stored.unwrap()).unwrap(), 5));
}

#[test]
fn logs_lie_where_they_are_told_and_are_found_where_they_were() {
    let fs = SimFs::new(Steps::new());
    let logs = |dir: &str| {
        fs.list(Path::new(dir)).map_or(0, |names| {
            names.iter().filter(|name| name.ends_with(".log")).count()
        })
    };
    let with = |dir: Option<&str>| Options {
        wal_path: dir.map(PathBuf::from),
        ..options()
    };
    for (round, dir) in [
        (1, Some("/pmem/a")),
        (2, None),
        (3, Some("/pmem/b")),
        (4, Some(DB)),
    ] {
        let engine = open(&fs, &with(dir)).unwrap();
        assert!((1..round).all(|n| has(&engine, n)), "round {round}");
        put(&engine, round);
        engine.close().unwrap();
        // `None` goes on where they were last.
        assert!(logs(dir.unwrap_or("/pmem/a")) > 0, "round {round}");
        if round == 2 {
            assert_eq!(logs(DB), 0);
        }
        if round != 1 {
            engine_flushes(&fs, &with(dir));
        }
    }
}

/// Flushed, nothing is left of logs but that of the chain that is written to.
fn engine_flushes(fs: &SimFs, options: &Options) {
    let engine = open(fs, options).unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
}

/// What a store of puts, deletes and range deletes, staged ones among them, holds after a kill.
#[test]
fn range_deletes_come_back_from_logs() {
    let options = Options {
        memtable: MemtableOptions {
            item_bytes_max: 4 << 10,
            ..MemtableOptions::default()
        },
        ..options()
    };
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options).unwrap();
    let delete_range = |engine: &Engine, from: u8, to: Option<u8>| {
        let mut batch = WriteBatch::new();
        let to = to.map(|to| [to]);
        let to = to.as_ref().map(<[u8; 1]>::as_slice);
        batch.delete_range(CfId::DEFAULT, &[from], to).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    };
    (1..=60).for_each(|n| put(&engine, n));
    delete_range(&engine, 10, Some(20));
    put(&engine, 15);
    // A batch that is staged, with a log of its own, deletes what is before it in the batch, too.
    let mut batch = WriteBatch::new();
    (61..=100).for_each(|n| batch.put(CfId::DEFAULT, &[n], &[n; 100]).unwrap());
    batch
        .delete_range(CfId::DEFAULT, &[55], Some(&[65]))
        .unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    delete_range(&engine, 90, None);
    put(&engine, 95);
    let expected = |n: u8| match n {
        15 | 95 => true,
        10..20 | 55..65 | 90.. => false,
        _ => n <= 100,
    };
    let there = |engine: &Engine| (1..=110).all(|n| has(engine, n) == expected(n));
    assert!(there(&engine));
    let image = fs.image_killed(Steps::new());
    let engine = open(&image, &options).unwrap();
    assert!(there(&engine), "after a kill");
    engine.flush().unwrap();
    assert!(there(&engine), "flushed");
    assert!(there(
        &open(&image.image_killed(Steps::new()), &options).unwrap()
    ));
}

/// Both keep records in DRAM and in a log; which of the two a store has is a matter of its last opening.
#[test]
fn stores_of_presets_leveled_and_trident_open_each_other() {
    let fs = SimFs::new(Steps::new());
    let stored = || {
        let stored = Engine::stored_options(&world(&fs), Path::new(DB)).unwrap();
        stored.unwrap().preset
    };
    let presets = [Preset::Trident, Preset::Leveled, Preset::Trident];
    for (n, preset) in (1..).zip(presets) {
        let given = Options {
            dram: 4 << 20,
            ..Options::preset(preset)
        };
        let engine = open(&fs, &given).unwrap();
        assert!((1..n).all(|n| has(&engine, n)));
        put(&engine, n);
        engine.flush().unwrap();
        engine.close().unwrap();
        assert_eq!(stored(), preset);
        // Whoever only looks need not know.
        let report = verify(&world(&fs), Path::new(DB), &Options::default()).unwrap();
        assert_eq!(report.faults, []);
    }
}

#[test]
fn a_copy_has_its_records_in_dram_and_in_logs_of_its_own() {
    let fs = SimFs::new(Steps::new());
    let given = Options {
        wal_path: Some("/pmem".into()),
        ..options()
    };
    let engine = open(&fs, &given).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    engine.flush().unwrap();
    (6..=9).for_each(|n| put(&engine, n));
    let mut batch = WriteBatch::new();
    batch.delete_range(CfId::DEFAULT, &[3], Some(&[5])).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    // Other random numbers than the engine's.
    let backups = Backups::new(Env::simulated(fs.clone(), 8), Path::new("/backups"));
    backups.create(&engine).unwrap();
    engine.checkpoint(Path::new("/copy")).unwrap();
    backups.restore(None, Path::new("/restored")).unwrap();
    put(&engine, 10);
    let expected = |n: u8, last: u8| n <= last && !(3..5).contains(&n);
    let there = |engine: &Engine, last| (1..=12).all(|n| has(engine, n) == expected(n, last));
    for dir in ["/copy", "/restored"] {
        let dir = Path::new(dir);
        let stored = Engine::stored_options(&world(&fs), dir).unwrap().unwrap();
        assert_eq!((stored.preset, &stored.wal_path), (Preset::Leveled, &None));
        // With persistent memory it is refused, before anything is made.
        let other = Engine::open(world(&fs), dir, Options::default());
        assert_eq!(other.unwrap_err().kind(), ErrorKind::InvalidArgument);
        let before = fs.digest();
        let read_only = Options {
            read_only: true,
            ..stored.clone()
        };
        assert!(there(&Engine::open(world(&fs), dir, read_only).unwrap(), 9));
        let report = verify(&world(&fs), dir, &stored).unwrap();
        assert_eq!(report.faults, []);
        assert_eq!(fs.digest(), before);
        let copy = Engine::open(world(&fs), dir, stored.clone()).unwrap();
        (10..=12).for_each(|n| put(&copy, n));
        assert_eq!(logs(&fs, dir), 1);
        let killed = fs.image_killed(Steps::new());
        let copy = Engine::open(world(&killed), dir, stored).unwrap();
        assert!(there(&copy, 12));
    }
    assert!(there(&engine, 10));
}

/// What is ingested opens a chain of its own, behind a gap of seqnos.
#[test]
fn what_follows_an_ingestion_is_logged() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    let table = Path::new("/new.sst");
    let mut writer = IngestWriter::create(&world(&fs).env, table).unwrap();
    (4..=8).for_each(|n: u8| writer.put(&[n], &[n; 100]).unwrap());
    writer.delete(&[9]).unwrap();
    writer.finish().unwrap();
    engine.ingest(CfId::DEFAULT, &[table]).unwrap();
    let there = |fs: &SimFs, last| {
        let engine = open(fs, &options()).unwrap();
        assert!((1..=20).all(|n| has(&engine, n) == (n <= last)), "{last}");
        engine
    };
    there(&fs.image_killed(Steps::new()), 8);
    (9..=12).for_each(|n| put(&engine, n));
    let killed = fs.image_killed(Steps::new());
    let again = there(&killed, 12);
    put(&again, 13);
    again.flush().unwrap();
    put(&again, 14);
    there(&killed.image_killed(Steps::new()), 14);
}

fn logs(fs: &SimFs, dir: &Path) -> usize {
    let names = fs.list(dir).unwrap();
    names.iter().filter(|name| name.ends_with(".log")).count()
}

/// Data many times what memtables may have goes through them, and leaves neither logs nor memory behind.
#[test]
fn memtables_become_tables_as_they_are_sealed() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    let mut written = 0;
    for round in 0..2000u32 {
        let mut batch = WriteBatch::new();
        batch
            .put(CfId::DEFAULT, &round.to_be_bytes(), &[7; 2000])
            .unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        let metrics = engine.metrics();
        let log = metrics.log.unwrap();
        assert!(log.bytes_written > written && log.on_ssd);
        written = log.bytes_written;
        assert!(metrics.memtables.len() <= 3, "{:?}", metrics.memtables);
        assert!(logs(&fs, Path::new(DB)) <= 5);
        let limit = options().region_bytes_max();
        assert_eq!(metrics.space.limit_bytes, limit);
        assert!(metrics.space.region_bytes <= limit);
        assert!(metrics.dram.charged >= metrics.space.region_bytes);
        assert_eq!((metrics.dram.over, metrics.dram.overdrawn), (0, 0));
    }
    let ssd = engine.metrics().ssd;
    assert_eq!(ssd.logs_written, written);
    assert!(written > 2000 * 2000 && ssd.written() > 2 * 2000 * 2000);
    assert_eq!(engine.metrics().pm.bytes_stored, 0);
    engine.close().unwrap();
    let engine = open(&fs, &options()).unwrap();
    for round in 0..2000u32 {
        let found = engine.get(CfId::DEFAULT, &round.to_be_bytes(), |v| v == [7; 2000]);
        assert_eq!(found.unwrap(), Some(true), "{round}");
    }
}

/// Memtables that are as full as they get when the process is killed fit again, though their items come
/// to lie in zones of other sizes.
#[test]
fn what_was_full_can_be_opened_again() {
    for seed in seeds(0..20) {
        let _replay = Replay::new("-p thermocline-engine --lib wal", seed);
        let mut rng = Rng::new(seed);
        let mut options = options();
        options.dram = *rng.pick(&[1 << 20, 4 << 20, 30 << 20]);
        options.flush.automatic = false;
        options.memtable.bytes_max = 1 << (14 + rng.below(8));
        options.memtable.item_bytes_max = 64 << 10;
        let fs = SimFs::new(Steps::new());
        let engine = open(&fs, &options).unwrap();
        let mut kept = BTreeMap::new();
        let largest = 1 << (8 + rng.below(10));
        for n in 0..u32::MAX {
            let mut batch = WriteBatch::new();
            let (key, value) = (n.to_be_bytes(), vec![1; rng.below(largest)]);
            batch.put(CfId::DEFAULT, &key, &value).unwrap();
            match engine.write(batch.iter(), Durability::Buffered) {
                Ok(()) => drop(kept.insert(key, value.len())),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                    break;
                }
            }
            // Holes, which are filled by items of other sizes.
            if rng.one_in(200) {
                engine.flush().unwrap();
                if rng.one_in(2) {
                    break;
                }
            }
        }
        engine.sync().unwrap();
        let mut fs = fs;
        for _ in 0..3 {
            fs = fs.image_killed(Steps::new());
            let engine = open(&fs, &options).unwrap();
            for (key, len) in &kept {
                let found = engine.get(CfId::DEFAULT, key, <[u8]>::len);
                assert_eq!(found.unwrap(), Some(*len));
            }
        }
    }
}

#[test]
fn memory_for_records_is_of_the_budget_that_stores_share() {
    let runtime = Runtime::new(RuntimeOptions {
        dram: 3 << 20,
        ..RuntimeOptions::default()
    });
    let runtime = runtime.unwrap();
    let fs = SimFs::new(Steps::new());
    let stores: Vec<Engine> = (0..3)
        .map(|n| {
            let setup = Setup {
                runtime: Some(runtime.clone()),
                ..Setup::default()
            };
            let dir = PathBuf::from(format!("/db{n}"));
            Engine::open_with(world(&fs), &dir, options(), setup).unwrap()
        })
        .collect();
    for round in 0..1000u32 {
        for store in &stores {
            let mut batch = WriteBatch::new();
            batch
                .put(CfId::DEFAULT, &round.to_be_bytes(), &[7; 3000])
                .unwrap();
            store.write(batch.iter(), Durability::Immediate).unwrap();
        }
        let metrics = runtime.metrics();
        let regions: u64 = stores.iter().map(|s| s.metrics().space.region_bytes).sum();
        assert!(metrics.dram_charged_bytes >= regions, "{metrics:?}");
        let all = metrics.dram_used_bytes + metrics.dram_charged_bytes;
        assert!(all <= 3 << 20, "{metrics:?}");
    }
}

#[test]
fn reading_only_writes_nothing() {
    let (fs, ..) = killed();
    let before = fs.digest();
    let read_only = Options {
        read_only: true,
        ..options()
    };
    let engine = open(&fs, &read_only).unwrap();
    assert!((1..=5).all(|n| has(&engine, n)));
    drop(engine);
    let report = verify(&world(&fs), Path::new(DB), &options()).unwrap();
    assert_eq!((report.faults.len(), report.records), (0, 5));
    assert_eq!(fs.digest(), before);
    let lock = fs.open(&Path::new(DB).join("000001.log"), OpenMode::Read);
    assert!(lock.is_ok());
}

/// As a copy is that came without one, on a file system that has no locks of folders.
#[test]
fn a_store_without_a_lock_file_is_read_where_folders_cannot_be_held() {
    let (fs, ..) = killed();
    let lock = Path::new(DB).join("LOCK");
    fs.remove(&lock).unwrap();
    fs.refuse_holds(true);
    let read_only = Options {
        read_only: true,
        ..options()
    };
    let engine = open(&fs, &read_only).unwrap();
    assert!((1..=5).all(|n| has(&engine, n)));
    assert!(!fs.exists(&lock).unwrap());
}
