//! Batches into many families, and beside many readers of the past: what their indexes may take is promised, and not many
//! times as much. And flushes of many families, whose tables one edit could not name.

use std::path::Path;

use thermocline_base::limits::KEY_LEN_MAX;
use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, CfOptions, WriteBatch};
use thermocline_engine::{Durability, Engine, World};

use crate::budget::home;

fn open(dir: &Path) -> Engine {
    let mut options = Options {
        pm: 256 << 20,
        ..Options::default()
    };
    options.flush.automatic = false;
    Engine::open(World::real(), dir, options).unwrap()
}

fn families(engine: &Engine, count: u32) -> Vec<CfId> {
    let family = |n| engine.family(&format!("family {n}"), &CfOptions::default());
    (0..count).map(|n| family(n).unwrap().id).collect()
}

#[track_caller]
fn assert_within_the_promise(engine: &Engine) {
    let metrics = engine.metrics();
    assert_eq!((metrics.dram.overdrawn, metrics.flushes), (0, 0));
}

#[test]
fn a_batch_goes_into_very_many_families() {
    let home = home();
    let engine = open(home.path());
    let families = families(&engine, 2000);
    for n in 0..3u32 {
        let mut batch = WriteBatch::new();
        for family in &families {
            batch.put(*family, &n.to_be_bytes(), b"value").unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    assert_within_the_promise(&engine);
}

#[test]
fn a_large_batch_goes_into_some_families() {
    let home = home();
    let engine = open(home.path());
    let families = families(&engine, 10);
    let mut batch = WriteBatch::new();
    for n in 0..200_000u32 {
        let family = families[n as usize % families.len()];
        batch.put(family, &n.to_be_bytes(), b"v").unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    assert_within_the_promise(&engine);
}

#[test]
fn writers_into_many_families_keep_to_what_they_are_promised() {
    let home = home();
    let engine = open(home.path());
    let families = families(&engine, 300);
    std::thread::scope(|scope| {
        for writer in 0..4u32 {
            let (engine, families) = (&engine, &families);
            scope.spawn(move || {
                for n in 0..3000u32 {
                    let mut batch = WriteBatch::new();
                    let key = (n * 4 + writer).wrapping_mul(0x9e37_79b9);
                    let family = families[key as usize % families.len()];
                    batch.put(family, &key.to_be_bytes(), b"v").unwrap();
                    engine.write(batch.iter(), Durability::Immediate).unwrap();
                }
            });
        }
    });
    assert_within_the_promise(&engine);
}

/// Lists of versions could be as long as there are readers. They are not, and so nobody need reckon with that.
#[test]
fn a_batch_is_written_beside_many_snapshots() {
    let home = home();
    let engine = open(home.path());
    let mut snapshots = Vec::new();
    for n in 0..5000u32 {
        let mut batch = WriteBatch::new();
        // Some keys have several versions.
        batch
            .put(CfId::DEFAULT, &(n % 2000).to_be_bytes(), b"old")
            .unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        snapshots.push(engine.snapshot());
    }
    let mut batch = WriteBatch::new();
    for n in 0..20_000u32 {
        let key = n.to_be_bytes();
        batch.put(CfId::DEFAULT, &key, b"new").unwrap();
        batch.put(CfId::DEFAULT, &key, b"newest").unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    assert_within_the_promise(&engine);
    drop(snapshots);
}

fn long_key(last: u8) -> Vec<u8> {
    let mut key = vec![b'k'; KEY_LEN_MAX];
    key[KEY_LEN_MAX - 1] = last;
    key
}

#[track_caller]
fn assert_has_long_keys(engine: &Engine, families: &[CfId]) {
    for family in families {
        for last in [1, 2] {
            let value = engine.get(*family, &long_key(last), <[u8]>::to_vec);
            assert_eq!(value.unwrap(), Some(vec![last]), "{family:?}");
        }
    }
}

/// Each family has a table with the longest first and last key.
fn flush_with_long_keys(mut options: Options) {
    const FAMILIES: u32 = 300;
    options.flush.automatic = false;
    let home = home();
    let engine = Engine::open(World::real(), home.path(), options.clone()).unwrap();
    let families = families(&engine, FAMILIES);
    for family in &families {
        let mut batch = WriteBatch::new();
        for last in [1, 2] {
            batch.put(*family, &long_key(last), &[last]).unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    engine.flush().unwrap();
    // Threads of the store may still hold what was flushed.
    let memtables = engine.metrics().memtables;
    let left = memtables.iter().filter(|m| !m.retired);
    assert_eq!(left.map(|m| m.records).sum::<u64>(), 0, "{memtables:?}");
    assert_has_long_keys(&engine, &families);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(World::real(), home.path(), options).unwrap();
    assert_has_long_keys(&engine, &families);
}

/// One family has as many tables as keys, and each of them is named by its only key, twice at least. `rounds` times all of it is
/// written anew.
fn flush_many_tables_with_long_keys(mut options: Options, rounds: u8) {
    const KEYS: u16 = 600;
    let key = |n: u16| {
        let mut key = n.to_be_bytes().to_vec();
        key.resize(KEY_LEN_MAX, b'k');
        key
    };
    options.flush.automatic = false;
    options.compaction.table_bytes = 64 << 10;
    let home = home();
    let engine = Engine::open(World::real(), home.path(), options.clone()).unwrap();
    for round in 0..rounds {
        for n in 0..KEYS {
            let mut batch = WriteBatch::new();
            batch.put(CfId::DEFAULT, &key(n), &[round]).unwrap();
            engine.write(batch.iter(), Durability::Immediate).unwrap();
        }
        engine.flush().unwrap();
    }
    let check = |engine: &Engine| {
        for n in 0..KEYS {
            let value = engine.get(CfId::DEFAULT, &key(n), <[u8]>::to_vec);
            assert_eq!(value.unwrap(), Some(vec![rounds - 1]), "{n}");
        }
    };
    check(&engine);
    engine.close().unwrap();
    drop(engine);
    check(&Engine::open(World::real(), home.path(), options).unwrap());
}

#[test]
fn a_flush_of_many_tables_with_long_keys_is_named_in_parts_if_tiered() {
    flush_many_tables_with_long_keys(with_shape("tiered"), 1);
}

#[test]
fn a_flush_of_many_tables_with_long_keys_is_named_in_parts_into_pm_tables() {
    flush_many_tables_with_long_keys(with_shape("pm-tables"), 1);
}

/// Where all ranges are written at once they would be one group, and take along what the first round has written.
#[test]
fn a_flush_of_many_tables_with_long_keys_is_named_in_parts_into_the_base_level() {
    let mut options = with_shape("immutables");
    options.level0.evacuation_threads = 64;
    flush_many_tables_with_long_keys(options, 2);
}

#[test]
fn a_flush_of_many_tables_with_long_keys_is_named_in_parts_from_dram() {
    flush_many_tables_with_long_keys(Options::preset(Preset::Leveled), 1);
}

fn with_shape(shape: &str) -> Options {
    let mut options = Options {
        pm: 512 << 20,
        ..Options::default()
    };
    options.set("level0.shape", shape).unwrap();
    options
}

#[test]
fn a_flush_of_long_keys_is_named_in_parts_if_tiered() {
    flush_with_long_keys(with_shape("tiered"));
}

#[test]
fn a_flush_of_long_keys_is_named_in_parts_into_pm_tables() {
    flush_with_long_keys(with_shape("pm-tables"));
}

#[test]
fn a_flush_of_long_keys_is_named_in_parts_into_the_base_level() {
    flush_with_long_keys(with_shape("immutables"));
}

#[test]
fn a_flush_of_long_keys_is_named_in_parts_from_dram() {
    flush_with_long_keys(Options::preset(Preset::Leveled));
}
