//! Which index tables have: the one that `ssd.index` names, whoever writes them. Beside many writers a flush trains none.

use std::ops::{Bound, Range};

use thermocline_env::OpenMode;
use thermocline_sst::{IndexUse, open_table};

use super::*;

/// The indexes of all tables in files.
fn indexes(engine: &Engine) -> Vec<IndexUse> {
    let files = &engine.inner.common.catalog.table_files;
    let version = version_of(engine);
    let index = |file| {
        let opened = files
            .storage
            .open(&files.path(file), OpenMode::Read)
            .unwrap();
        let table = open_table(&*opened, files.identity(file)).unwrap();
        table.properties().index
    };
    version
        .tables()
        .map(|(_, table)| index(table.file))
        .collect()
}

#[test]
fn flushes_and_compactions_write_the_index_that_is_wanted() {
    for (kind, used) in [
        (IndexKind::Binary, IndexUse::Binary),
        (IndexKind::Learned, IndexUse::Learned),
    ] {
        let machine = Machine::new(PM);
        let mut options = tiny();
        options.compaction.table_bytes = 64 << 10;
        options.ssd.index = kind;
        let engine = open(&machine, &options);
        let mut model = Model::new();
        let cf = CfId::DEFAULT;
        for round in 1..4u8 {
            for n in 0..1000u64 {
                let key = format!("{:08}", n * 7 % 1000).into_bytes();
                put(&engine, cf, &key, &[round; 50]);
                model.insert(key, vec![round; 50]);
            }
            flush(&engine);
            let found = indexes(&engine);
            assert!(!found.is_empty() && found.contains(&used), "{found:?}");
        }
        engine
            .compact(cf, (Bound::Unbounded, Bound::Unbounded))
            .unwrap();
        assert!(deepest(&engine) > 0);
        let found = indexes(&engine);
        assert!(found.iter().all(|index| *index == used), "{found:?}");
        // A single key needs no model.
        put(&engine, cf, b"key", &[0; 50]);
        model.insert(b"key".to_vec(), vec![0; 50]);
        flush(&engine);
        let count = |used| {
            indexes(&engine)
                .iter()
                .filter(|index| **index == used)
                .count()
        };
        let says = engine.table_indexes().unwrap();
        let says = [says.binary, says.learned, says.fell_back];
        let there = [IndexUse::Binary, IndexUse::Learned, IndexUse::FellBack];
        assert_eq!(says, there.map(|used| count(used) as u64));
        assert_eq!(says[2] > 0, kind == IndexKind::Learned, "{says:?}");
        let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
        let models = [model];
        check_now(&engine, &[crate::Family::DEFAULT], &models, &keys);
        engine.close().unwrap();
        // What was written stays readable whatever is wanted now.
        options.ssd.index = IndexKind::Binary;
        let engine = open(&machine, &options);
        check_now(&engine, &[crate::Family::DEFAULT], &models, &keys);
    }
}

/// The compaction that takes its tables down trains, however many have written.
#[test]
fn a_flush_beside_many_writers_trains_no_index() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.compaction.table_bytes = 64 << 10;
    options.ssd.index = IndexKind::Learned;
    options.ssd.train_writers = 2;
    let engine = open(&machine, &options);
    let cf = CfId::DEFAULT;
    let key = |n: u64| format!("{n:08}").into_bytes();
    let write = |keys: Range<u64>, value: u8| {
        for n in keys {
            put(&engine, cf, &key(n), &[value; 50]);
        }
    };
    let has = |index| indexes(&engine).contains(&index);
    write(0..1000, 1);
    flush(&engine);
    assert!(has(IndexUse::Learned) && !has(IndexUse::Binary));
    // Threads of other tests may have numbers between these, but hardly fifteen between any two.
    std::thread::scope(|scope| {
        for part in 0..8 {
            let write = &write;
            scope.spawn(move || write((part * 125)..((part + 1) * 125), 2));
        }
    });
    flush(&engine);
    assert!(has(IndexUse::Binary));
    engine
        .compact(cf, (Bound::Unbounded, Bound::Unbounded))
        .unwrap();
    assert!(has(IndexUse::Learned) && !has(IndexUse::Binary));
    // Those threads are gone.
    write(0..1000, 3);
    flush(&engine);
    assert!(!has(IndexUse::Binary));
    let model: Model = (0..1000).map(|n| (key(n), vec![3; 50])).collect();
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    check_now(&engine, &[crate::Family::DEFAULT], &[model], &keys);
}
