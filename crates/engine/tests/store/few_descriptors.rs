//! A process that may have few files open: in a child, since a limit is of a whole process.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{CfId, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, IngestWriter, World};
use thermocline_env::sim::SimFs;
use thermocline_env::spares::Spare;
use thermocline_env::{Env, File, OpenMode, Storage};
use thermocline_pm::SimPm;

const CF: CfId = CfId::DEFAULT;

/// Where the child finds a folder.
const HOME: &str = "THERMOCLINE_FEW_DESCRIPTORS";

fn options() -> Options {
    let mut options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    options.set("level0.shape", "global-index").unwrap();
    options.memtable.bytes_max = 256 << 10;
    options.compaction.table_bytes = 32 << 10;
    options.compaction.base_bytes = 256 << 10;
    options
}

fn value(key: u32, round: u32) -> Vec<u8> {
    let words = (0..60u32).flat_map(|n| (n ^ key.wrapping_mul(0x9e37_79b9) ^ round).to_le_bytes());
    words.collect()
}

/// Several hundred tables, written, merged, read all over, and read again after another open.
#[test]
#[ignore = "needs a limit that its parent sets"]
fn child() {
    let Some(home) = std::env::var_os(HOME) else {
        return;
    };
    let dir = PathBuf::from(home).join("db");
    // Made while there are descriptors: later the stores may have all of them.
    let some = dir.with_file_name("some");
    let env = World::real().env;
    drop(env.storage.open(&some, OpenMode::CreateNew).unwrap());
    let engine = Engine::open(World::real(), &dir, options()).unwrap();
    let keys = 25_000u32;
    for round in 0..2 {
        for key in 0..keys {
            let mut batch = WriteBatch::new();
            let place = key.wrapping_mul(0x9e37_79b9).to_be_bytes();
            batch.put(CF, &place, &value(key, round)).unwrap();
            engine.write(batch.iter(), Durability::Buffered).unwrap();
        }
    }
    engine.flush().unwrap();
    engine.drain().unwrap();
    let check = |engine: &Engine| {
        for key in 0..keys {
            let place = key.wrapping_mul(0x9e37_79b9).to_be_bytes();
            let found = engine.get(CF, &place, <[u8]>::to_vec).unwrap();
            assert!(found == Some(value(key, 1)), "{key}");
        }
        let mut cursors: Vec<_> = (0..3)
            .map(|_| engine.cursor(Family::DEFAULT).unwrap())
            .collect();
        for cursor in &mut cursors {
            let mut found = u32::from(cursor.seek_to_first().unwrap());
            while cursor.next().unwrap() {
                found += 1;
            }
            assert_eq!(found, keys);
        }
    };
    // Many readers, each of them in as many tables as there are runs.
    let readers = |engine: &Engine| {
        let mut cursors: Vec<_> = (0..40)
            .map(|_| engine.cursor(Family::DEFAULT).unwrap())
            .collect();
        for (n, cursor) in (0u32..).zip(&mut cursors) {
            assert!(cursor.seek(&(n << 25).to_be_bytes()).unwrap());
        }
        for _ in 0..300 {
            assert!(cursors.iter_mut().all(|cursor| cursor.next().unwrap()));
        }
        // All are held while others are made.
        check(engine);
        assert!(cursors.iter_mut().all(|cursor| cursor.next().unwrap()));
        cursors
    };
    let tables: usize = engine.map().iter().map(|family| family.tables.len()).sum();
    assert!(tables > 100, "{tables} tables");
    let left = readers(&engine);
    engine.close().unwrap();
    drop(engine);
    // What a closed store has left does not count, and neither does what another one could do without.
    let engine = Engine::open(World::real(), &dir, options()).unwrap();
    drop(readers(&engine));
    let copy = dir.with_file_name("copy");
    engine.checkpoint(&copy).unwrap();
    let other = Engine::open(World::real(), &copy, options()).unwrap();
    let _held = (readers(&other), readers(&engine), left);
    // Neither does what stores could do without for who makes a table to be ingested.
    let mut taken = Vec::new();
    while let Ok(file) = env.storage.open(&some, OpenMode::Read) {
        taken.push(file);
    }
    IngestWriter::create(&env, &dir.with_file_name("table")).unwrap();
}

fn with_descriptors(limit: u32) -> (bool, String) {
    let home = tempfile::tempdir().unwrap();
    let done = Command::new("sh")
        .args(["-c", "ulimit -n \"$1\"; shift; exec \"$@\"", "sh"])
        .arg(limit.to_string())
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "few_descriptors::child",
            "--ignored",
            "--nocapture",
        ])
        .env(HOME, home.path())
        .output()
        .unwrap();
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn sixty_four_are_enough() {
    let (done, said) = with_descriptors(64);
    assert!(done, "{said}");
}

#[test]
fn too_few_are_named() {
    let (done, said) = with_descriptors(9);
    assert!(!done, "{said}");
    assert!(said.contains("9 (RLIMIT_NOFILE)"), "{said}");
}

/// A file that is open and need not be.
#[derive(Debug)]
struct Kept(Mutex<Option<Arc<dyn File>>>);

impl Spare for Kept {
    fn close(&self) {
        lock(&self.0).take();
    }
}

/// Neither does what stores could do without for who asks with which options one was opened.
#[test]
fn the_options_of_a_store_are_told_where_others_have_all_descriptors() {
    let fs = SimFs::new(Steps::new());
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(SimPm::new(1 << 20, Steps::new())),
        shadow: None,
        background: false,
    };
    let mut given = Options {
        pm: 1 << 20,
        ..Options::default()
    };
    given.pm_region.part_bytes_first = 256 << 10;
    let dir = PathBuf::from("/db");
    let engine = Engine::open(world.clone(), &dir, given).unwrap();
    engine.close().unwrap();
    drop(engine);
    let some = PathBuf::from("/some");
    fs.install(&some, b"");
    fs.limit_descriptors(8);
    let mut kept = Vec::new();
    while let Ok(file) = fs.open(&some, OpenMode::Read) {
        let one = Arc::new(Kept(Mutex::new(Some(file))));
        let spare: Arc<dyn Spare> = one.clone();
        fs.spares().add(Arc::downgrade(&spare));
        kept.push(one);
    }
    assert!(Engine::stored_options(&world, &dir).unwrap().is_some());
    assert!(kept.iter().all(|kept| lock(&kept.0).is_none()));
}
