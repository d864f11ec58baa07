//! Data larger than persistent memory, and than the DRAM for its index: sealed memtables are flushed by
//! the store itself, and a writer that finds no room waits for that.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Result, Steps, WriteBatch};
use thermocline_engine::{Cursor, Durability, Engine, Family, Snapshot, World};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

const CF: CfId = CfId::DEFAULT;
const PM: u64 = 4 << 20;

type Model = BTreeMap<(u16, Vec<u8>), Vec<u8>>;

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        dram: 2 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options
}

fn home() -> tempfile::TempDir {
    match Path::new("/dev/shm").is_dir() {
        true => tempfile::tempdir_in("/dev/shm").unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// A simulated machine, whose stores have no background.
fn simulated() -> (World, SimFs) {
    let steps = Steps::new();
    let fs = SimFs::new(steps.clone());
    let world = World {
        env: Env::simulated(fs.clone(), 7),
        sim: Some(SimPm::new(PM, steps)),
        shadow: None,
        background: false,
    };
    (world, fs)
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value)?;
    engine.write(batch.iter(), Durability::Immediate)
}

fn delete(engine: &Engine, key: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(CF, key)?;
    engine.write(batch.iter(), Durability::Immediate)
}

fn rows(mut cursor: Cursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = cursor.next().unwrap();
    }
    rows
}

fn of(model: &Model, cf: u16) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = model.iter().filter(|((of, _), _)| *of == cf);
    own.map(|((_, key), value)| (key.clone(), value.clone()))
        .collect()
}

fn check(engine: &Engine, families: &[Family], model: &Model, rng: &mut Rng) {
    for family in families {
        let found = rows(engine.cursor(*family).unwrap());
        assert!(found == of(model, family.id.0), "family {}", family.id.0);
    }
    for _ in 0..300 {
        let (cf, key) = (families[rng.below(2)].id, key(rng));
        let found = engine.get(cf, &key, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_ref(), model.get(&(cf.0, key)));
    }
}

fn check_then(snapshot: &Snapshot, families: &[Family], model: &Model) {
    for family in families {
        let found = rows(snapshot.cursor(*family).unwrap());
        assert!(found == of(model, family.id.0), "family {}", family.id.0);
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    format!("{:05}", rng.below(20_000)).into_bytes()
}

/// A change of a few keys, now and then of many. Calls `let_go` if readers hold what that needs.
fn change(
    engine: &Engine,
    families: &[Family],
    model: &mut Model,
    rng: &mut Rng,
    let_go: impl FnOnce(),
) {
    let mut batch = WriteBatch::new();
    let many = rng.one_in(300);
    let changes = if many { 400 } else { 1 + rng.below(4) };
    let mut after = Vec::new();
    for _ in 0..changes {
        let (cf, key) = (families[rng.below(2)].id, key(rng));
        if rng.one_in(5) {
            batch.delete(cf, &key).unwrap();
            after.push(((cf.0, key), None));
        } else {
            let most = if rng.one_in(50) { 20_000 } else { 1200 };
            let value = vec![rng.next_u64().to_le_bytes()[0]; rng.below(most)];
            batch.put(cf, &key, &value).unwrap();
            after.push(((cf.0, key), Some(value)));
        }
    }
    let durability = match rng.below(3) {
        0 => Durability::Buffered,
        _ => Durability::Immediate,
    };
    match engine.write(batch.iter(), durability) {
        Err(error) if error.to_string().contains("are held by readers") => {
            let_go();
            engine.write(batch.iter(), durability).unwrap();
        }
        written => written.unwrap(),
    }
    for (key, value) in after {
        match value {
            Some(value) => drop(model.insert(key, value)),
            None => drop(model.remove(&key)),
        }
    }
}

/// Writes several times what persistent memory holds, reads it in every way, over lives that close.
fn several_times(world: &World, dir: &Path, seed: u64, bytes: u64) {
    let mut rng = Rng::new(seed);
    let mut options = options();
    // Batches of many are staged; memtables are small, or as they come.
    options.memtable.item_bytes_max = 64 << 10;
    options.memtable.bytes_max = *rng.pick(&[0, 128 << 10, 1 << 30]);
    // In time, or when there is no room.
    options.flush.pm_percent = *rng.pick(&[50, 95]);
    let mut model = Model::new();
    let mut written = 0;
    for life in 0..3 {
        let engine = Engine::open(world.clone(), dir, options.clone()).unwrap();
        let other = engine.family("other", &CfOptions::default()).unwrap();
        let families = [Family::DEFAULT, other];
        check(&engine, &families, &model, &mut rng);
        let mut held: Option<(Snapshot, Model)> = None;
        let mut cursor: Option<(Cursor, Model)> = None;
        while engine.metrics().user_bytes < bytes / 3 {
            let let_go = || (held, cursor) = (None, None);
            change(&engine, &families, &mut model, &mut rng, let_go);
            match rng.below(800) {
                0 => held = Some((engine.snapshot(), model.clone())),
                1 => {
                    if let Some((snapshot, model)) = held.take() {
                        check_then(&snapshot, &families, &model);
                    }
                }
                2 => cursor = Some((engine.cursor(other).unwrap(), model.clone())),
                3 => {
                    if let Some((cursor, model)) = cursor.take() {
                        assert!(rows(cursor) == of(&model, other.id.0));
                    }
                }
                4 => check(&engine, &families, &model, &mut rng),
                _ => {}
            }
            // So that they do not hold all there is.
            if engine.metrics().space.free_bytes < PM / 4 {
                (held, cursor) = (None, None);
            }
        }
        let metrics = engine.metrics();
        written += metrics.user_bytes;
        assert!(metrics.flushes > 0, "{metrics:?}");
        assert!(metrics.flushed_bytes > 0);
        assert_eq!(metrics.dram.overdrawn, 0);
        assert!(metrics.space.region_bytes <= PM);
        check(&engine, &families, &model, &mut rng);
        match life {
            0 => engine.close().unwrap(),
            _ => drop(engine),
        }
        let report = thermocline_engine::verify(world, dir, &options).unwrap();
        assert_eq!(report.faults, []);
    }
    assert!(written > 3 * PM, "{written}");
}

/// The first seed has small memtables, and flushes in time.
#[test]
fn several_times_persistent_memory_by_the_writer_itself() {
    for seed in seeds(0..explored(1, 3)) {
        let _replay = Replay::new("-p thermocline-engine by_the_writer_itself", seed);
        let (world, _) = simulated();
        several_times(&world, Path::new("/db"), seed, 4 * PM);
    }
}

#[test]
fn several_times_persistent_memory_in_the_background() {
    for seed in seeds(0..explored(1, 3)) {
        let _replay = Replay::new("-p thermocline-engine in_the_background", seed);
        let home = home();
        several_times(&World::real(), &home.path().join("db"), seed, 4 * PM);
    }
}

/// Several writers side by side, each with keys of its own.
#[test]
fn writers_side_by_side() {
    let home = home();
    let mut options = options();
    options.memtable.bytes_max = PM;
    options.flush.pm_percent = 95;
    let engine = Engine::open(World::real(), &home.path().join("db"), options).unwrap();
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let (engine, written) = (&engine, &written);
            scope.spawn(move || {
                let mut rng = Rng::new(writer.into());
                let mut model = BTreeMap::new();
                while written.load(Ordering::Relaxed) < 4 * PM {
                    let mut key = vec![writer];
                    key.extend(self::key(&mut rng));
                    if rng.one_in(6) {
                        delete(engine, &key).unwrap();
                        model.remove(&key);
                        continue;
                    }
                    let value = vec![writer; rng.below(2000)];
                    put(engine, &key, &value).unwrap();
                    written.fetch_add(value.len() as u64, Ordering::Relaxed);
                    model.insert(key, value);
                }
                for (key, value) in &model {
                    let found = engine.get(CF, key, <[u8]>::to_vec).unwrap();
                    assert_eq!(found.as_ref(), Some(value));
                }
            });
        }
    });
    assert!(engine.metrics().flushes > 1);
    engine.close().unwrap();
}

/// What is overwritten in persistent memory costs nothing below it; with threads, which may come to drop
/// what is dead later than a writer needs the room, hardly anything.
#[test]
fn what_is_overwritten_never_reaches_the_disk() {
    let home = home();
    for world in [simulated().0, World::real()] {
        let most = match world.background {
            true => 4000 * 2000 / 4,
            false => 0,
        };
        let dir = home.path().join("db");
        let mut options = options();
        options.memtable.bytes_max = 64 << 10;
        let engine = Engine::open(world, &dir, options).unwrap();
        for n in 0..4000u32 {
            put(&engine, &[(n % 50).to_le_bytes()[0]], &[7; 2000]).unwrap();
        }
        let metrics = engine.metrics();
        assert!(metrics.flushed_bytes <= most, "{metrics:?}");
        engine.close().unwrap();
    }
}
