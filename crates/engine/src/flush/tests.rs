//! Reads go on through tables as before, whatever was flushed, held, dropped or killed meanwhile.

use std::collections::BTreeMap;
use std::path::Path;

use thermocline_base::options::{Options, SHAPES};
use thermocline_base::{CfId, CfOptions, ErrorKind, WriteBatch};
use thermocline_observe::count::Count;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::store::Engine;
use crate::tests::Machine;
use crate::{Cursor, Durability, Family, Snapshot};

const PM: u64 = 4 << 20;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    // What is looked at lies in files.
    options.set("level0.shape", "global-index").unwrap();
    options.pm_region.part_bytes_first = 256 << 10;
    options.compaction.table_bytes = 16 << 10;
    options
}

fn open(machine: &Machine) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options()).unwrap()
}

pub(crate) fn put(engine: &Engine, cf: CfId, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(cf, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

pub(crate) fn delete(engine: &Engine, cf: CfId, key: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.delete(cf, key).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

pub(crate) fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap()
}

pub(crate) fn tables(engine: &Engine) -> usize {
    engine
        .inner
        .common
        .catalog
        .view()
        .tables
        .version()
        .file_count()
}

pub(crate) fn files(machine: &Machine) -> usize {
    let names = machine.world().env.storage.list(Path::new("/db")).unwrap();
    let tables = names.iter().filter(|name| name.ends_with(".sst"));
    tables.count()
}

/// All that a cursor shows, there and back.
pub(crate) fn check_cursor(mut cursor: Cursor, model: &Model) {
    let mut wanted: Vec<_> = model.iter().collect();
    if cursor.is_reverse() {
        wanted.reverse();
    }
    let here = |cursor: &Cursor| (cursor.key().to_vec(), cursor.value().to_vec());
    let same = |got: (Vec<u8>, Vec<u8>), wanted: &(&Vec<u8>, &Vec<u8>)| {
        assert_eq!((&got.0, &got.1), (wanted.0, wanted.1));
    };
    let mut more = cursor.seek_to_first().unwrap();
    for pair in &wanted {
        assert!(more, "{:?} is missing", pair.0);
        same(here(&cursor), pair);
        more = cursor.next().unwrap();
    }
    assert!(!more);
    let mut more = cursor.seek_to_last().unwrap();
    for pair in wanted.iter().rev() {
        assert!(more, "{:?} is missing backwards", pair.0);
        same(here(&cursor), pair);
        more = cursor.prev().unwrap();
    }
    assert!(!more);
    for (i, pair) in wanted.iter().enumerate() {
        assert!(cursor.seek(pair.0).unwrap());
        same(here(&cursor), pair);
        assert_eq!(cursor.prev().unwrap(), i > 0);
        if i > 0 {
            same(here(&cursor), &wanted[i - 1]);
            // Turned again.
            assert!(cursor.next().unwrap());
            same(here(&cursor), pair);
        }
    }
}

fn keys() -> impl Iterator<Item = Vec<u8>> {
    (0..60u8).map(|n| {
        vec![b'k'; usize::from(n % 3)]
            .into_iter()
            .chain([n])
            .collect()
    })
}

pub(crate) fn check_now(engine: &Engine, families: &[Family], models: &[Model], keys: &[Vec<u8>]) {
    for (family, model) in families.iter().zip(models) {
        for key in keys {
            let found = engine.get(family.id, key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), model.get(key), "{key:?}");
        }
        check_cursor(engine.cursor(*family).unwrap(), model);
    }
}

pub(crate) fn check_then(
    snapshot: &Snapshot,
    families: &[Family],
    models: &[Model],
    keys: &[Vec<u8>],
) {
    for (family, model) in families.iter().zip(models) {
        for key in keys {
            let found = snapshot.value(family.id, key).unwrap();
            assert_eq!(
                found.as_deref(),
                model.get(key).map(Vec::as_slice),
                "{key:?}"
            );
        }
        check_cursor(snapshot.cursor(*family).unwrap(), model);
    }
}

pub(crate) fn delete_range(engine: &Engine, model: &mut Model, (from, to): (&[u8], &[u8])) {
    let mut batch = WriteBatch::new();
    batch.delete_range(CfId::DEFAULT, from, Some(to)).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    model.retain(|key, _| &key[..] < from || &key[..] >= to);
}

pub(crate) fn families(engine: &Engine) -> Vec<Family> {
    let mut reverse = CfOptions::default();
    reverse.reverse = Some(true);
    vec![Family::DEFAULT, engine.family("down", &reverse).unwrap()]
}

#[test]
fn whatever_is_flushed_reads_as_before() {
    let mut most = 0;
    for seed in seeds(0..explored(12, 30)) {
        let _replay = Replay::new("-p thermocline-engine whatever_is_flushed", seed);
        let mut rng = Rng::new(seed);
        let mut machine = Machine::new(PM);
        let mut engine = open(&machine);
        let both = families(&engine);
        let mut models = vec![Model::new(), Model::new()];
        let mut held: Vec<(Snapshot, Vec<Model>)> = Vec::new();
        let all: Vec<Vec<u8>> = keys().collect();
        for n in 0..400u64 {
            let at = rng.below(2);
            let (cf, key) = (both[at].id, rng.pick(&all));
            match rng.below(100) {
                0..70 => {
                    let value = vec![n.to_le_bytes()[0]; rng.below(300)];
                    put(&engine, cf, key, &value);
                    models[at].insert(key.clone(), value);
                }
                70..90 => {
                    delete(&engine, cf, key);
                    models[at].remove(key);
                }
                90..92 => {
                    engine.flush().unwrap();
                    most = most.max(tables(&engine));
                    check_now(&engine, &both, &models, &all);
                    for (snapshot, models) in &held {
                        check_then(snapshot, &both, models, &all);
                    }
                }
                92..95 => held.push((engine.snapshot(), models.clone())),
                95..98 if !held.is_empty() => drop(held.remove(rng.below(held.len()))),
                98 => {
                    let killed = machine.killed();
                    held.clear();
                    drop(engine);
                    machine = killed;
                    engine = open(&machine);
                    check_now(&engine, &both, &models, &all);
                }
                99 => {
                    engine.close().unwrap();
                    // They read on.
                    for (snapshot, models) in &held {
                        check_then(snapshot, &both, models, &all);
                    }
                    held.clear();
                    drop(engine);
                    engine = open(&machine);
                    check_now(&engine, &both, &models, &all);
                }
                _ => {}
            }
        }
        check_now(&engine, &both, &models, &all);
    }
    assert!(most > 2 || std::env::var("THERMOCLINE_SEED").is_ok());
}

#[test]
fn memtables_that_are_read_outlive_their_flush_and_a_crash_finds_both() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"a", b"1");
    put(&engine, CfId::DEFAULT, b"b", b"1");
    put(&engine, CfId::DEFAULT, b"pinned", &[1; 4000]);
    let pinned = engine.value(CfId::DEFAULT, b"pinned").unwrap().unwrap();
    let snapshot = engine.snapshot();
    put(&engine, CfId::DEFAULT, b"a", b"2");
    delete(&engine, CfId::DEFAULT, b"b");
    assert_eq!(engine.flush().unwrap(), 1);
    assert_eq!(tables(&engine), 1);
    // A value is read there. The snapshot reads in the table.
    assert_eq!(engine.metrics().memtables_dropped, 0);
    let value = |key| snapshot.get(CfId::DEFAULT, key, <[u8]>::to_vec).unwrap();
    assert_eq!(value(b"a"), Some(b"1".to_vec()));
    assert_eq!(value(b"b"), Some(b"1".to_vec()));
    let killed = machine.killed();
    let again = open(&killed);
    assert_eq!(
        (get(&again, b"a"), get(&again, b"b")),
        (Some(b"2".to_vec()), None)
    );
    // It is known to be flushed, so it only goes.
    assert_eq!(again.flush().unwrap(), 0);
    assert_eq!(again.reclaim().unwrap(), 1);
    assert_eq!(tables(&again), 1);
    assert_eq!(
        (get(&again, b"a"), get(&again, b"b")),
        (Some(b"2".to_vec()), None)
    );
    drop(pinned);
    assert_eq!(engine.reclaim().unwrap(), 1);
    assert_eq!(value(b"b"), Some(b"1".to_vec()));
    assert_eq!(get(&engine, b"a"), Some(b"2".to_vec()));
}

#[test]
fn a_flushed_memtable_goes_before_an_older_one_that_is_read() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let (old, new) = (vec![1; 4000], vec![2; 4000]);
    put(&engine, CfId::DEFAULT, b"k", &old);
    engine.inner.memtables.seal_active().unwrap();
    let pinned = engine.value(CfId::DEFAULT, b"k").unwrap().unwrap();
    assert!(pinned.is_pinned());
    put(&engine, CfId::DEFAULT, b"k", &new);
    engine.inner.memtables.seal_active().unwrap();
    // The first one is dead, and read.
    assert_eq!(engine.reclaim().unwrap(), 0);
    assert_eq!(engine.inner.common.retired().len(), 1);
    engine.flush().unwrap();
    // The second one: the manifest says that the first is not to be looked at any more.
    assert_eq!(engine.metrics().memtables_dropped, 1);
    assert_eq!(get(&engine, b"k"), Some(new.clone()));
    assert_eq!(get(&open(&machine.killed()), b"k"), Some(new.clone()));
    assert_eq!(&*pinned, &old[..]);
    drop(pinned);
    assert_eq!(engine.reclaim().unwrap(), 1);
    assert_eq!(get(&engine, b"k"), Some(new.clone()));
    assert_eq!(get(&open(&machine.killed()), b"k"), Some(new));
}

#[test]
fn a_tombstone_stays_while_a_table_has_its_key() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"k", b"1");
    engine.flush().unwrap();
    delete(&engine, CfId::DEFAULT, b"k");
    engine.inner.memtables.seal_active().unwrap();
    // No memtable is older, but a table has the key.
    assert_eq!(engine.reclaim().unwrap(), 0);
    assert_eq!(get(&engine, b"k"), None);
    assert_eq!(engine.flush().unwrap(), 1);
    assert_eq!(tables(&engine), 2);
    assert_eq!(get(&engine, b"k"), None);
    assert_eq!(get(&open(&machine.killed()), b"k"), None);
    // Without one there is nothing to hide.
    delete(&engine, CfId::DEFAULT, b"other");
    assert_eq!(engine.flush().unwrap(), 1);
    assert_eq!(tables(&engine), 2);
}

#[test]
fn tables_of_a_dropped_family_go_and_a_missing_file_is_corruption() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let other = engine.family("other", &CfOptions::default()).unwrap();
    put(&engine, CfId::DEFAULT, b"k", b"1");
    put(&engine, other.id, b"k", b"2");
    engine.flush().unwrap();
    assert_eq!((tables(&engine), files(&machine)), (2, 2));
    let killed = machine.killed();
    let report = crate::verify(&killed.world(), Path::new("/db"), &options()).unwrap();
    assert_eq!((report.faults, report.records), (vec![], 2));
    let snapshot = engine.snapshot();
    engine.drop_family("other").unwrap();
    assert_eq!(tables(&engine), 1);
    let value = snapshot.get(other.id, b"k", <[u8]>::to_vec).unwrap();
    assert_eq!(value, Some(b"2".to_vec()));
    drop(snapshot);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&machine);
    assert_eq!((tables(&engine), files(&machine)), (1, 1));
    assert_eq!(get(&engine, b"k"), Some(b"1".to_vec()));
    engine.close().unwrap();
    drop(engine);
    let storage = machine.world().env.storage;
    let names = storage.list(Path::new("/db")).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    storage.remove(&Path::new("/db").join(table)).unwrap();
    let error = Engine::open(machine.world(), Path::new("/db"), options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// A memtable has more persistent memory than it has filled. If what is flushed was measured otherwise than what waits, reads of
/// it would count on, and ask for flushes of what they have not read.
#[test]
fn behind_a_flush_of_all_no_read_counts() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    put(&engine, CfId::DEFAULT, b"k", b"1");
    let common = &engine.inner.common;
    for what in [Count::Scanned, Count::Found] {
        common.counted.add(what, 1000);
    }
    assert_eq!(common.read_since.get(&common.counted), (1000, 1000));
    engine.flush().unwrap();
    assert_eq!(common.read_since.get(&common.counted), (0, 0));
}

#[test]
fn so_many_memtables_are_flushed_together() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.set("level0.shape", "global-index").unwrap();
    options.flush.pm_percent = 95;
    options.flush.generations = 3;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    for round in 1..=6u8 {
        put(&engine, CfId::DEFAULT, &[round], b"value");
        engine.inner.memtables.seal_active().unwrap();
        // The flush that this makes due comes with the next write.
        put(&engine, CfId::DEFAULT, &[round, 1], b"value");
        let sealed = engine.inner.common.sealed().memtables;
        assert_eq!(sealed, usize::from(round % 3), "{round}");
        assert_eq!(engine.metrics().flushes, u64::from(round / 3));
        assert_eq!(tables(&engine), usize::from(round / 3));
    }
}

/// With shapes `ssd` and `pm-tables` nothing that is sealed stays as it is; elsewhere it does, while there is room.
#[test]
fn what_is_sealed_is_flushed_at_once_with_shape_ssd() {
    for shape in SHAPES {
        let at_once = ["ssd", "pm-tables"].contains(&shape);
        let machine = Machine::new(PM);
        let mut options = options();
        options.memtable.bytes_max = 16 << 10;
        options.set("level0.shape", shape).unwrap();
        let open = || Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap();
        let mut engine = open();
        for n in 0..1000u32 {
            put(&engine, CfId::DEFAULT, &n.to_be_bytes(), &[7; 100]);
            let sealed = engine.inner.common.catalog.view().memtables.len() - 1;
            assert!(!at_once || sealed == 0, "{sealed} memtables at {n}");
            if n == 500 {
                engine.close().unwrap();
                engine = open();
            }
        }
        assert_eq!(
            engine.inner.common.catalog.view().tables.is_empty(),
            !at_once
        );
        assert_eq!(tables(&engine) > 0, shape == "ssd");
        for n in 0..1000u32 {
            assert_eq!(get(&engine, &n.to_be_bytes()), Some(vec![7; 100]));
        }
    }
}
