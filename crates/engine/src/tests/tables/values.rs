//! Values that lie apart from tables: how often the device is asked for them.

use std::ops::Bound;

use thermocline_memtable::Direction;

use thermocline_base::{CfOptions, Codec};
use thermocline_sst::BlobWriter;

use super::*;

fn home_apart() -> Home {
    let mut home = Home::new();
    home.options.blob.value_bytes_min = 100;
    home.options.blob.compression = Codec::None;
    home
}

/// Two runs of references, and the values to which they refer.
fn loaded(home: &Home) -> Engine {
    let engine = home.open();
    load(&engine, (0..1000).map(|n| n * 2), 300);
    load(&engine, (0..1000).map(|n| n * 2 + 1), 300);
    assert_eq!(version_of(&engine).blob_files().count(), 2);
    engine
}

fn scan(engine: &Engine, way: Direction) {
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut more = match way {
        Direction::Forward => cursor.seek_to_first().unwrap(),
        Direction::Reverse => cursor.seek_to_last().unwrap(),
    };
    for n in 0..2000 {
        assert!(more);
        let n = match way {
            Direction::Forward => n,
            Direction::Reverse => 1999 - n,
        };
        assert_eq!(cursor.key(), key(n));
        assert_eq!(cursor.value(), [n.to_le_bytes()[0]; 300]);
        more = match way {
            Direction::Forward => cursor.next().unwrap(),
            Direction::Reverse => cursor.prev().unwrap(),
        };
    }
    assert!(!more);
}

#[test]
fn a_cursor_reads_values_ahead_both_ways() {
    let home = home_apart();
    let engine = loaded(&home);
    // Opens all files.
    scan(&engine, Direction::Forward);
    for way in [Direction::Forward, Direction::Reverse] {
        files(&engine).cache().forget();
        let charged = engine.inner.common.account.charged();
        let bytes = files(&engine).blob_bytes().read();
        let (calls, ()) = home.reads_of(|| scan(&engine, way));
        // As many as a block refers to at once, and the first ones of each run.
        assert!(calls <= 70, "{calls} calls, {way:?}");
        let bytes = files(&engine).blob_bytes().read() - bytes;
        assert!(bytes < 2000 * 336 + 60 * 8192, "{bytes}, {way:?}");
        let (again, ()) = home.reads_of(|| scan(&engine, way));
        assert_eq!(again, 0, "all of it is in the cache");
        files(&engine).cache().forget();
        assert_eq!(engine.inner.common.account.charged(), charged);
    }
    let mut alone = home_apart();
    alone.options.read.ahead_bytes = 0;
    let engine = loaded(&alone);
    scan(&engine, Direction::Forward);
    files(&engine).cache().forget();
    let (calls, ()) = alone.reads_of(|| scan(&engine, Direction::Forward));
    assert!(calls > 2000, "{calls}");
}

/// A scan of ten keys reads about ten values, and one of one key reads one.
#[test]
fn what_cursors_are_used_to_is_read_of_values() {
    let home = home_apart();
    let engine = loaded(&home);
    scan(&engine, Direction::Forward);
    let mut rng = Rng::new(3);
    let mut read_by = |scans: u64, entries: usize| {
        let bytes = files(&engine).blob_bytes().read();
        let (calls, ()) = home.reads_of(|| {
            for _ in 0..scans {
                files(&engine).cache().forget();
                let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
                let from = u32::try_from(rng.below(1900)).unwrap();
                assert!(cursor.seek(&key(from)).unwrap());
                (1..entries).for_each(|_| assert!(cursor.next().unwrap()));
            }
        });
        (calls, files(&engine).blob_bytes().read() - bytes)
    };
    for _ in 0..2 {
        read_by(50, 1);
        let (calls, bytes) = read_by(50, 1);
        // A block of each run, and a value.
        assert!(calls <= 50 * 3, "{calls}");
        assert!(bytes <= 50 * 8192, "{bytes}");
        read_by(50, 40);
        let (calls, bytes) = read_by(50, 40);
        // Twenty values of each run: at once, but where a block ends.
        assert!(calls <= 50 * 8, "{calls}");
        assert!(bytes <= 50 * 4 * 16384, "{bytes}");
    }
}

/// However far cursors are used to go, values behind a bound are not read.
#[test]
fn values_behind_a_bound_are_not_read() {
    let home = home_apart();
    let engine = loaded(&home);
    let read_by = |from: Bound<&[u8]>, until: Bound<&[u8]>, way: Direction| {
        files(&engine).cache().forget();
        let before = files(&engine).blob_bytes().read();
        let seen = crate::tests::count_within(&engine, from, until, way);
        (seen, files(&engine).blob_bytes().read() - before)
    };
    for way in [Direction::Forward, Direction::Reverse] {
        let within = |low: Bound<&[u8]>, high: Bound<&[u8]>| {
            scan(&engine, way);
            match way {
                Direction::Forward => read_by(low, high, way),
                Direction::Reverse => read_by(high, low, way),
            }
        };
        let (low, high) = (key(100), key(102));
        let (seen, bytes) = within(Bound::Included(&low[..]), Bound::Included(&high[..]));
        // Two values of one run and one of the other, in whole units.
        assert!(seen == 3 && bytes <= 2 * 8192, "{seen} {bytes}, {way:?}");
        let (low, high) = (key(100), key(101));
        let none = within(Bound::Excluded(&low[..]), Bound::Excluded(&high[..]));
        assert_eq!(none, (0, 0), "{way:?}");
    }
}

#[test]
fn longer_values_than_are_read_ahead_are_read_alone() {
    let mut home = home_apart();
    home.options.read.ahead_bytes = 1000;
    let engine = home.open();
    load(&engine, 0..100, 1001);
    let scan = || {
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            assert_eq!(cursor.value().len(), 1001);
            more = cursor.next().unwrap();
        }
    };
    scan();
    files(&engine).cache().forget();
    let (calls, ()) = home.reads_of(scan);
    assert!(calls >= 100, "{calls}");
}

/// Whoever stands at a damaged value learns of it, and nobody else.
#[test]
fn a_damaged_value_is_an_error_of_its_own_key() {
    let home = home_apart();
    let engine = loaded(&home);
    let bad = 777;
    let (file, _) = version_of(&engine).blob_files().last().unwrap();
    let path = files(&engine).blob_path(file);
    engine.close().unwrap();
    let mut bytes = home.fs.contents(&path).unwrap();
    // The file has the odd keys, each with its key and what rounds it up to eight bytes.
    let record: usize = (32 + 300 + 4_usize).next_multiple_of(8);
    let at = 64 + bad / 2 * record + 32 + 100;
    bytes[at] ^= 1;
    home.fs.install(&path, &bytes);
    let engine = home.open();
    let bad = u32::try_from(bad).unwrap();
    for way in [Direction::Forward, Direction::Reverse] {
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        let mut seen = 0;
        let mut more = cursor.seek_to_first();
        if way == Direction::Reverse {
            more = cursor.seek_to_last();
        }
        loop {
            more = match more {
                Ok(false) => break,
                Ok(true) => {
                    assert_ne!(cursor.key(), key(bad));
                    assert_eq!(cursor.value()[7], cursor.key()[3]);
                    seen += 1;
                    match way {
                        Direction::Forward => cursor.next(),
                        Direction::Reverse => cursor.prev(),
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    assert!(error.to_string().contains(&path.display().to_string()));
                    cursor.seek_past(&key(bad), way)
                }
            };
        }
        assert_eq!(seen, 1999, "{way:?}");
    }
}

/// What lies in the cache is not read again, and several values take the time of one.
#[test]
fn values_are_kept_and_several_are_read_at_once() {
    let home = home_apart();
    let engine = loaded(&home);
    let keys: Vec<_> = (0..40).map(|n| key(n * 50)).collect();
    let keys: Vec<(CfId, &[u8])> = keys.iter().map(|key| (CF, &key[..])).collect();
    let found = |place| files(&engine).found(place);
    let read = |calls_max: u64| {
        let before = [FoundIn::Cache, FoundIn::File].map(found);
        let (calls, values) = home.reads_of(|| engine.snapshot().values(&keys));
        assert!(calls <= calls_max, "{calls}");
        for (n, value) in (0u32..).zip(values) {
            let value = value.unwrap().unwrap();
            assert_eq!(value.as_ref(), [(n * 50).to_le_bytes()[0]; 300]);
        }
        let after = [FoundIn::Cache, FoundIn::File].map(found);
        [after[0] - before[0], after[1] - before[1]]
    };
    assert_eq!(read(1000), [0, 40]);
    assert_eq!(read(0), [40, 0]);
    files(&engine).cache().forget();
    let one = |n: u32| home.reads_of(|| get_len(&engine, n).unwrap());
    let (calls, len) = one(77);
    assert!((2..=3).contains(&calls), "{calls}: blocks and a value");
    assert_eq!(len, Some(300));
    assert_eq!(one(77), (0, Some(300)));
}

/// A long value is in memory once: it is read by itself, in pieces, to where its caller gets it, wherever the reference to it lies.
#[test]
fn several_long_values_are_not_read_at_once() {
    let (home, len) = (Home::new(), (2 << 20) + 1000);
    let engine = home.open();
    for n in 0..4_u32 {
        put(&engine, n, &vec![n.to_le_bytes()[0]; len]).unwrap();
    }
    let keys: Vec<_> = (0..4).map(key).collect();
    let keys: Vec<(CfId, &[u8])> = keys.iter().map(|key| (CF, &key[..])).collect();
    for is_flushed in [false, true] {
        if is_flushed {
            engine.flush().unwrap();
        }
        // Opens all files.
        drop(engine.snapshot().values(&keys));
        let (calls, values) = home.reads_of(|| engine.snapshot().values(&keys));
        // Read with the others each would take one call, and a buffer of its length.
        assert_eq!(calls, 4 * 3, "{is_flushed}");
        for (n, value) in (0u32..).zip(values) {
            let value = value.unwrap().unwrap();
            assert_eq!(value.len(), len);
            assert!(value.iter().all(|byte| *byte == n.to_le_bytes()[0]), "{n}");
        }
    }
}

/// What is read of compressed values is the values, by whatever way they are read.
#[test]
fn compressed_values_read_as_others() {
    for compression in Codec::ALL {
        let mut home = home_apart();
        home.options.blob.compression = compression;
        let engine = loaded(&home);
        let stored: u64 = version_of(&engine)
            .blob_files()
            .filter_map(|(_, blob)| blob.value_bytes)
            .sum();
        assert_eq!(stored < 2000 * 100, compression != Codec::None, "{stored}");
        for way in [Direction::Forward, Direction::Reverse] {
            files(&engine).cache().forget();
            scan(&engine, way);
            scan(&engine, way);
        }
        files(&engine).cache().forget();
        let keys: Vec<_> = (0..40).map(|n| key(n * 50 + 1)).collect();
        let keys: Vec<(CfId, &[u8])> = keys.iter().map(|key| (CF, &key[..])).collect();
        for _ in 0..2 {
            for (n, value) in (0u32..).zip(engine.snapshot().values(&keys)) {
                let want = [(n * 50 + 1).to_le_bytes()[0]; 300];
                assert_eq!(value.unwrap().unwrap().as_ref(), want);
            }
        }
        assert_eq!(get_len(&engine, 77).unwrap(), Some(300));
    }
}

/// Tables stay in persistent memory, and writes put values apart.
fn home_in_pm() -> Home {
    let mut home = Home::new();
    for (name, value) in [("level0.shape", "pm-tables"), ("level0.internal", "off")] {
        home.options.set(name, value).unwrap();
    }
    home.options.blob.inline_bytes_max = 64;
    home
}

/// A table in persistent memory keeps what a family had in it that was dropped. The family's blob files go.
#[test]
fn what_a_dropped_family_has_in_persistent_memory_misses_no_value() {
    let home = home_in_pm();
    let engine = home.open();
    let dropped = engine.family("dropped", &CfOptions::default()).unwrap().id;
    let mut batch = WriteBatch::new();
    batch.put(CF, &key(1), b"short").unwrap();
    batch.put(dropped, &key(1), &[1; 100]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    let has = || {
        let version = version_of(&engine);
        (version.pm_table_count(), version.blob_files().count())
    };
    assert_eq!(has(), (1, 1));
    engine.drop_family("dropped").unwrap();
    engine.reclaim().unwrap();
    assert_eq!(has(), (1, 0));
    engine.close().unwrap();
    let report = crate::verify(&home.world, Path::new(DIR), &home.options).unwrap();
    assert_eq!(report.faults, []);
    drop(engine);
    let found = home.open().get(CF, &key(1), <[u8]>::to_vec).unwrap();
    assert_eq!(found.as_deref(), Some(&b"short"[..]));
}

/// A check looks up to what entries in persistent memory refer, as it does for those of tables in files.
#[test]
fn a_value_that_has_gone_is_missed_by_the_entry_in_persistent_memory() {
    let home = home_in_pm();
    let (one, two) = ([1; 100], [2; 300]);
    let engine = home.open();
    let mut batch = WriteBatch::new();
    batch.put(CF, &key(1), &one).unwrap();
    batch.put(CF, &key(2), &two).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    assert_eq!(version_of(&engine).pm_table_count(), 1);
    let (file, _) = version_of(&engine).blob_files().next().unwrap();
    let path = files(&engine).blob_path(file);
    let identity = files(&engine).identity(file);
    engine.close().unwrap();
    let faults = || {
        let report = crate::verify(&home.world, Path::new(DIR), &home.options);
        report.unwrap().faults
    };
    assert_eq!(faults(), []);
    // The file is sound and has the same values, but not where they were.
    let storage = &*home.world.env.storage;
    storage.remove(&path).unwrap();
    let mut writer = BlobWriter::create(storage, &path, identity).unwrap();
    writer.append(CF, &key(2), &two).unwrap();
    writer.append(CF, &key(1), &one).unwrap();
    writer.finish().unwrap();
    let faults = faults();
    assert_eq!(faults.len(), 2, "{faults:?}");
    for fault in faults {
        let says = "no value is there, and an entry of a PM table at";
        assert!(fault.what.contains(says), "{fault:?}");
        assert_eq!(fault.place, path.display().to_string());
    }
}

/// No more blob files stay open than tables may, and all are read.
#[test]
fn few_blob_files_stay_open() {
    let mut home = home_apart();
    home.options.read.open_tables = 3;
    home.options.blob.file_bytes = 2 << 10;
    let engine = home.open();
    load(&engine, 0..300, 300);
    let count = version_of(&engine).blob_files().count();
    assert!(count > 20, "{count}");
    home.fs.take_most_open();
    let mut rng = Rng::new(2);
    for _ in 0..1000 {
        let n = u32::try_from(rng.below(300)).unwrap();
        assert_eq!(get_len(&engine, n).unwrap(), Some(300));
        files(&engine).cache().forget();
    }
    let open = home.fs.take_most_open();
    assert!(open <= 12, "{open} files were open at once");
}
