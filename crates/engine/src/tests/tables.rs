//! Which tables are open, what is read from the device and how often, and what it takes in DRAM.

mod operands;
mod prefixes;
mod values;
mod within;

use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::{CfId, ErrorKind, FileId, Kind, Result, SeqNo, WriteBatch};
use thermocline_env::Env;
use thermocline_env::fault::{Fault, FaultStorage, Op};
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_sst::{KeyRef, TableWriter, WriteOptions};
use thermocline_tables::{FoundIn, TableFiles, dram_of};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::sync::thread;
use crate::tests::version_of;
use crate::{Durability, Engine, Family, Runtime, RuntimeOptions, Setup, World};

const CF: CfId = CfId::DEFAULT;
const DIR: &str = "/db";

/// A store whose files are a simulated disk's, which counts calls.
struct Home {
    disk: FaultStorage,
    fs: SimFs,
    world: World,
    options: Options,
}

impl Home {
    fn new() -> Home {
        let steps = thermocline_base::Steps::new();
        let fs = SimFs::new(steps.clone());
        let disk = FaultStorage::over_sim(fs.clone());
        let mut options = Options {
            pm: 16 << 20,
            ..Options::default()
        };
        // What is looked at lies in files.
        options.set("level0.shape", "global-index").unwrap();
        options.memtable.bytes_max = 4 << 20;
        options.pm_region.part_bytes_first = 256 << 10;
        // Tables stay as they were flushed.
        options.compaction.level0_tables = 1024;
        options.compaction.table_bytes = 16 << 10;
        let world = World {
            env: Env {
                storage: Arc::new(disk.clone()),
                ..Env::real()
            },
            sim: Some(SimPm::new(16 << 20, steps)),
            shadow: None,
            background: false,
        };
        Home {
            disk,
            fs,
            world,
            options,
        }
    }

    fn open(&self) -> Engine {
        Engine::open(self.world.clone(), Path::new(DIR), self.options.clone()).unwrap()
    }

    /// Calls that read.
    fn reads(&self) -> u64 {
        self.disk.calls_for(Fault::Eio, Some(Op::Read))
    }

    /// How many calls read in `work`.
    fn reads_of<T>(&self, work: impl FnOnce() -> T) -> (u64, T) {
        let before = self.reads();
        let done = work();
        (self.reads() - before, done)
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn put(engine: &Engine, n: u32, value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(CF, &key(n), value).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

/// Puts these keys, with values of `len` bytes that name them, and flushes.
fn load(engine: &Engine, keys: impl Iterator<Item = u32>, len: usize) {
    for n in keys {
        put(engine, n, &vec![n.to_le_bytes()[0]; len]).unwrap();
    }
    assert_eq!(engine.flush().unwrap(), 1);
}

fn get_len(engine: &Engine, n: u32) -> Result<Option<usize>> {
    engine.get(CF, &key(n), |value| {
        assert!(value.iter().all(|byte| *byte == n.to_le_bytes()[0]), "{n}");
        value.len()
    })
}

fn files(engine: &Engine) -> &TableFiles {
    &engine.inner.common.catalog.table_files
}

#[test]
fn a_point_read_of_an_open_table_is_one_call_or_none() {
    let home = Home::new();
    let engine = home.open();
    load(&engine, (0..1000).map(|n| n * 2), 1024);
    // Opens them, and has their index blocks read.
    for n in 0..1000 {
        get_len(&engine, n * 2).unwrap();
    }
    files(&engine).cache().forget();
    let hits = |engine: &Engine| {
        let files = files(engine);
        (files.found(FoundIn::Cache), files.found(FoundIn::File))
    };
    let before = hits(&engine);
    let (mut read, mut cached) = (0, 0);
    for n in (0..1000).map(|n| n * 2) {
        let (calls, len) = home.reads_of(|| get_len(&engine, n).unwrap());
        assert_eq!(len, Some(1024));
        assert!(calls <= 1, "{calls} calls for {n}");
        read += calls;
        cached += 1 - calls;
    }
    assert!(read > 200 && cached > 500, "{read} read, {cached} cached");
    let after = hits(&engine);
    assert_eq!((after.0 - before.0, after.1 - before.1), (cached, read));
    // The filter knows what is not there, but for one in 256.
    let missing = || (0..999).filter(|n| get_len(&engine, n * 2 + 1).unwrap().is_some());
    let (calls, found) = home.reads_of(|| missing().count());
    assert_eq!(found, 0);
    assert!(calls < 20, "{calls}");
    assert_eq!(hits(&engine), after);
}

#[test]
fn a_cursor_reads_ahead_both_ways_and_nothing_twice() {
    let home = Home::new();
    let engine = home.open();
    // Two runs, in tables of 16 KiB; and then one in larger ones would be read in fewer calls still.
    load(&engine, (0..1000).map(|n| n * 2), 300);
    load(&engine, (0..1000).map(|n| n * 2 + 1), 300);
    let tables = engine
        .inner
        .common
        .catalog
        .view()
        .tables
        .version()
        .tables()
        .count() as u64;
    let scan = |forwards: bool| {
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let mut more = match forwards {
            true => cursor.seek_to_first().unwrap(),
            false => cursor.seek_to_last().unwrap(),
        };
        let mut n = 0;
        while more {
            let at = if forwards { n } else { 1999 - n };
            assert_eq!(cursor.key(), key(at));
            n += 1;
            more = match forwards {
                true => cursor.next().unwrap(),
                false => cursor.prev().unwrap(),
            };
        }
        assert_eq!(n, 2000);
    };
    // Opens the tables.
    scan(true);
    for forwards in [true, false] {
        files(&engine).cache().forget();
        let bytes = files(&engine).bytes().read();
        let (calls, ()) = home.reads_of(|| scan(forwards));
        // Of each table, which has five blocks: the first one, and the rest.
        assert!(calls <= 2 * tables, "{calls} calls for {tables} tables");
        let bytes = files(&engine).bytes().read() - bytes;
        assert!(bytes < 2000 * 300 * 2, "{bytes}");
        // Without a cache neither, since it has its blocks at hand.
        let (again, ()) = home.reads_of(|| scan(forwards));
        assert_eq!(again, 0, "all of it is in the cache");
    }
    let mut alone = Home::new();
    alone.options.read.ahead_bytes = 0;
    let engine = alone.open();
    load(&engine, (0..1000).map(|n| n * 2), 300);
    let scan = || {
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            more = cursor.next().unwrap();
        }
    };
    scan();
    files(&engine).cache().forget();
    let (calls, ()) = alone.reads_of(scan);
    assert!(calls > 70, "{calls}");
}

#[test]
fn what_cursors_are_used_to_is_read_with_the_first_block() {
    let mut home = Home::new();
    home.options.compaction.table_bytes = 4 << 20;
    let engine = home.open();
    load(&engine, 0..10_000, 300);
    let mut rng = Rng::new(7);
    // Calls and bytes of scans from anywhere, none of which finds anything in the cache.
    let mut read_by = |scans: usize, entries: u32| {
        let bytes = files(&engine).bytes().read();
        let scan = || {
            files(&engine).cache().forget();
            let from = u32::try_from(rng.below(9000)).unwrap();
            let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
            assert!(cursor.seek(&key(from)).unwrap());
            for n in 1..entries {
                assert!(cursor.next().unwrap());
                assert_eq!(cursor.key(), key(from + n));
            }
        };
        let (calls, _) = home.reads_of(|| std::iter::repeat_with(scan).take(scans).count());
        (calls, files(&engine).bytes().read() - bytes)
    };
    // Nothing is known yet: an index block, a data block, and two pieces of those behind it.
    read_by(1, 1);
    let (calls, _) = read_by(1, 100);
    assert_eq!(calls, 4);
    for _ in 0..2 {
        read_by(30, 100);
        let (calls, bytes) = read_by(30, 100);
        // An index block, and one piece for 32 KiB; not much more than that, too.
        assert!(calls <= 65, "{calls}");
        assert!(bytes < 30 * (60 << 10), "{bytes}");
        read_by(60, 1);
        let (calls, bytes) = read_by(30, 1);
        assert_eq!(calls, 60);
        assert!(bytes <= 30 * (20 << 10), "{bytes}");
    }
}

#[test]
fn no_more_tables_stay_open_than_may_and_all_are_read() {
    let mut home = Home::new();
    home.options.read.open_tables = 4;
    let engine = home.open();
    load(&engine, 0..2000, 300);
    let tables = engine
        .inner
        .common
        .catalog
        .view()
        .tables
        .version()
        .tables()
        .count() as u64;
    assert!(tables > 30, "{tables}");
    let mut rng = Rng::new(1);
    for _ in 0..3000 {
        let n = u32::try_from(rng.below(2000)).unwrap();
        assert_eq!(get_len(&engine, n).unwrap(), Some(300));
        assert!(files(&engine).open_use().tables() <= 4);
    }
    let opened = files(&engine).open_use().opened();
    assert!(opened > 10 * tables, "{opened}");
    // One that is read again and again stays open.
    let hot = || {
        let before = files(&engine).open_use().opened();
        for round in 0..100u32 {
            get_len(&engine, 7).unwrap();
            get_len(&engine, (round * 50) % 2000).unwrap();
        }
        files(&engine).open_use().opened() - before
    };
    hot();
    let opened = hot();
    assert!(opened <= 105, "{opened}");
    // A cursor keeps one of each run open.
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut more = cursor.seek_to_first().unwrap();
    let mut count = 0;
    while more {
        more = cursor.next().unwrap();
        get_len(&engine, (count * 50) % 2000).unwrap();
        count += 1;
        assert!(files(&engine).open_use().tables() <= 6);
    }
    assert_eq!(count, 2000);
    drop(cursor);
    drop(engine);
}

/// A share of DRAM is the limit, and no number of tables.
#[test]
fn of_many_small_tables_each_is_opened_once() {
    let mut home = Home::new();
    // One for each key.
    home.options.compaction.table_bytes = 64;
    let engine = home.open();
    load(&engine, 0..600, 100);
    let tables = version_of(&engine).tables().count() as u64;
    assert!(tables > 512, "{tables}");
    for n in (0..600).chain(0..600) {
        assert_eq!(get_len(&engine, n).unwrap(), Some(100));
    }
    let open = files(&engine).open_use();
    assert_eq!((open.tables(), open.opened()), (tables, tables));
}

#[test]
fn threads_that_need_a_table_together_open_it_once() {
    let home = Home::new();
    let engine = home.open();
    load(&engine, 0..2000, 300);
    let tables = engine
        .inner
        .common
        .catalog
        .view()
        .tables
        .version()
        .tables()
        .count() as u64;
    let begin = Arc::new(std::sync::Barrier::new(4));
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (engine, begin) = (engine.clone(), begin.clone());
            thread::spawn(move || {
                begin.wait();
                for n in 0..2000 {
                    assert_eq!(get_len(&engine, n).unwrap(), Some(300));
                }
            })
        })
        .collect();
    readers.into_iter().for_each(|r| r.join().unwrap());
    let open = files(&engine).open_use();
    assert_eq!((open.tables(), open.opened()), (tables, tables));
}

#[test]
fn a_table_that_is_not_what_it_should_be_is_told_each_time_and_tried_again() {
    let mut home = Home::new();
    home.options.read.open_tables = 1;
    let engine = home.open();
    load(&engine, 0..200, 300);
    load(&engine, 200..400, 300);
    let version = version_of(&engine);
    let mut names: Vec<FileId> = version.tables().map(|(_, table)| table.file).collect();
    names.sort();
    let (first, last) = (names[0], names[names.len() - 1]);
    let paths = [first, last].map(|file| files(&engine).path(file));
    let bytes = paths.clone().map(|path| home.fs.contents(&path).unwrap());
    let whole = &bytes[0];
    let mut flipped = whole.clone();
    let at = flipped.len() - 100;
    flipped[at] ^= 1;
    let bad: [(&str, Option<&[u8]>); 6] = [
        ("missing", None),
        ("empty", Some(b"")),
        ("truncated", Some(&whole[..whole.len() - 1])),
        ("half of it", Some(&whole[..whole.len() / 2])),
        ("another one's", Some(&bytes[1])),
        ("flipped", Some(&flipped)),
    ];
    for (what, content) in bad {
        // The other one is open, so this one is not.
        assert_eq!(get_len(&engine, 399).unwrap(), Some(300));
        match content {
            Some(content) => home.fs.install(&paths[0], content),
            None => home.world.env.storage.remove(&paths[0]).unwrap(),
        }
        for _ in 0..2 {
            let error = get_len(&engine, 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
            let text = error.to_string();
            let name = paths[0].display().to_string();
            assert!(
                text.contains(&name) && text.contains("offset"),
                "{what}: {text}"
            );
            let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
            let error = cursor.seek(&key(0)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
            assert!(!cursor.valid());
        }
        home.fs.install(&paths[0], whole);
        assert_eq!(get_len(&engine, 0).unwrap(), Some(300), "{what}");
    }
}

#[test]
fn who_writes_tables_is_charged_and_cached_blocks_give_way() {
    let mut home = Home::new();
    home.options.dram = 2 << 20;
    let engine = home.open();
    load(&engine, 0..2000, 300);
    for n in 0..2000 {
        get_len(&engine, n).unwrap();
    }
    let (files, account) = (files(&engine), &engine.inner.common.account);
    let before = account.charged();
    assert!(before > 400_000, "{before}");
    // Indexes take most of what there is.
    let most = (2 << 20) - before - 100_000;
    account
        .promise(most, thermocline_base::budget::Spare::Keep)
        .unwrap();
    let path = Path::new("/db/scratch");
    let identity = files.identity(FileId(900));
    let options = WriteOptions::default();
    let mut table = TableWriter::create(&*files.storage, path, identity, CF, options).unwrap();
    let mut work = files.work();
    for n in 0..1000 {
        let key = KeyRef::new(&key(n), SeqNo(1)).to_owned();
        let value = thermocline_sst::Value::Inline(&[1; 100]);
        table.add(key.as_ref(), Kind::Put, value).unwrap();
        work.cover_bytes(dram_of(&table));
        assert!(account.charged() >= table.memory() + (256 << 10));
        assert!(account.held() + account.charged() <= 2 << 20);
    }
    assert!(table.memory() > 100_000 && account.charged() < before + table.memory());
    let with = account.charged();
    drop(work);
    assert!(with - account.charged() > (256 << 10) + 100_000);
    assert_eq!(account.over(), 0);
}

/// Invariant 15.8: whatever is written, flushed, read and held, what is in use is below the limits.
#[test]
fn dram_in_use_is_below_the_budgets_indexes_caches_and_tables_included() {
    for seed in seeds(0..4) {
        let _replay = Replay::new("-p thermocline-engine --lib dram_in_use_is_below", seed);
        let mut rng = Rng::new(seed);
        let (runtime_dram, store_dram) = match seed % 2 {
            0 => (3 << 20, 2 << 20),
            _ => (3 << 20, 8 << 20),
        };
        let runtime = Runtime::new(RuntimeOptions {
            dram: runtime_dram,
            workers: 1,
            jobs: 1,
        })
        .unwrap();
        let homes = [Home::new(), Home::new()];
        let engines = homes.each_ref().map(|home| {
            let setup = Setup {
                runtime: Some(runtime.clone()),
                ..Setup::default()
            };
            let mut options = home.options.clone();
            options.dram = store_dram;
            let dir = Path::new(DIR);
            Engine::open_with(home.world.clone(), dir, options, setup).unwrap()
        });
        let budget = runtime.budget();
        let check = |what: &str| {
            let both = budget.used() + budget.charged();
            assert!(both <= runtime_dram, "{both} after {what}: {budget:?}");
            let open: u64 = engines.iter().map(|e| files(e).open_use().bytes()).sum();
            let cached = engines[0].metrics().cache.map_or(0, |cache| cache.bytes);
            assert!(budget.charged() >= open + cached, "{what}: {budget:?}");
            for engine in &engines {
                let account = &engine.inner.common.account;
                let both = account.used() + account.charged();
                assert!(both <= store_dram, "{both} after {what}: {account:?}");
                assert_eq!((account.over(), account.overdrawn()), (0, 0), "{what}");
            }
        };
        let (mut full, mut most) = (0, 0);
        let mut cursors = Vec::new();
        for step in 0..6000u32 {
            let engine = &engines[rng.below(2)];
            let n = u32::try_from(rng.below(1 << 20)).unwrap();
            match rng.below(100) {
                0..50 => match put(engine, n, &[1; 400]) {
                    Ok(()) => check("a put"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                        full += 1;
                        cursors.clear();
                        engine.flush().unwrap();
                        check("a flush");
                    }
                },
                50..97 => {
                    engine.get(CF, &key(n), <[u8]>::len).unwrap();
                    check("a get");
                }
                97 => {
                    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
                    cursor.seek(&key(n)).unwrap();
                    for _ in 0..50 {
                        cursor.next().unwrap();
                        check("a step");
                    }
                    cursors.push(cursor);
                    cursors.truncate(5);
                }
                _ if step % 3 == 0 => {
                    // So that indexes compete with blocks.
                    let mut batch = WriteBatch::new();
                    for more in 0..400 {
                        batch.put(CF, &key(n + more), &[1; 60]).unwrap();
                    }
                    let written = engine.write(batch.iter(), Durability::Immediate);
                    full += u32::from(written.is_err());
                    check("a batch");
                }
                _ if rng.below(10) == 0 => {
                    engine.flush().unwrap();
                    check("a flush");
                }
                _ => {}
            }
            most = most.max(budget.charged());
        }
        assert!(most > runtime_dram / 8, "{most} bytes of blocks and tables");
        println!("seed {seed}: {full} times full, {most} bytes charged at most");
        drop(cursors);
        for engine in &engines {
            engine.close().unwrap();
        }
        drop(engines);
        assert_eq!(
            (budget.used(), budget.charged()),
            (0, 0),
            "all is given back"
        );
    }
}
