//! Jobs that fail: they are told of and tried again, and hold nothing up that does not need them.

use std::ops::Bound;

use thermocline_base::{Error, FileId};

use super::*;

const CF: CfId = CfId::DEFAULT;
const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn value(round: usize, n: usize) -> Vec<u8> {
    let byte = (7 * round + n).to_le_bytes()[0];
    vec![byte; 100 + (n + round) % 100]
}

/// What fails twice without lack of room is as good as corrupt: else the same table would be taken for ever, and no other one.
#[test]
fn what_fails_twice_is_passed_over_until_its_table_has_gone() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.blob.value_bytes_min = 100;
    options.blob.file_bytes = 4 << 10;
    options.compaction.level0_tables = 1;
    let engine = open(&machine, &options);
    let write = |round: usize, n: usize| {
        put(&engine, CF, format!("{n:04}").as_bytes(), &value(round, n));
    };
    (0..100).for_each(|n| write(1, n));
    flush(&engine);
    engine.compact(CF, ALL).unwrap();
    (0..100).filter(|n| n % 2 == 1).for_each(|n| write(2, n));
    flush(&engine);
    let compactions = &engine.inner.common.compactions;
    while compactions.collectable(&version_of(&engine)).is_empty() {
        assert!(engine.compact_once().unwrap());
    }
    let version = version_of(&engine);
    let tables: Vec<FileId> = version.tables().map(|(_, table)| table.file).collect();
    let all = compactions.collectable(&version).len();
    assert!(all > 0);
    let unreadable = Error::Io {
        op: "read",
        path: "/db/000001.blob".into(),
        offset: Some(64),
        source: std::io::Error::from_raw_os_error(5),
    };
    let full = Error::OutOfSpace("no room".into());
    for error in [&full, &full, &unreadable] {
        compactions.collection_ended(tables.clone(), Some(error));
        assert_eq!(compactions.collectable(&version).len(), all);
        assert!(!compactions.collects());
    }
    compactions.collection_ended(tables, Some(&unreadable));
    assert!(compactions.collectable(&version).is_empty());
    // Other tables, which say what they refer to.
    (0..100).filter(|n| n % 3 == 1).for_each(|n| write(3, n));
    flush(&engine);
    engine.compact(CF, ALL).unwrap();
    (0..100).filter(|n| n % 3 == 2).for_each(|n| write(4, n));
    flush(&engine);
    while compactions.collectable(&version_of(&engine)).is_empty() {
        assert!(engine.compact_once().unwrap());
    }
}

/// A job that fails is told of until one of its kind succeeds, and tried again, each time later.
#[test]
fn the_last_failure_is_told_until_such_a_job_succeeds() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.compaction.level0_tables = 1;
    let engine = open(&machine, &options);
    (0..100).for_each(|n| put(&engine, CF, format!("{n:04}").as_bytes(), &value(1, n)));
    flush(&engine);
    while engine.compact_once().unwrap() {}
    let told = |engine: &Engine| {
        let of = engine.metrics().compaction;
        (of.failed, of.last_failure)
    };
    assert_eq!(told(&engine), (0, None));
    (0..100).for_each(|n| put(&engine, CF, format!("{n:04}").as_bytes(), &value(2, n)));
    flush(&engine);
    let version = version_of(&engine);
    let rot = || {
        for (_, table) in version.tables() {
            let name = format!("{:06}.sst", table.file.0);
            machine.rot_file(&Path::new("/db").join(name), 20);
        }
    };
    rot();
    let failures = &engine.inner.common.compactions.failures;
    let mut pauses = Vec::new();
    for n in 1..4 {
        // What only moves tables reads none.
        let error = (0..100).find_map(|_| engine.compact_once().err()).unwrap();
        let (failed, last) = told(&engine);
        assert_eq!(failed, n);
        assert!(last.unwrap().contains(&error.to_string()));
        pauses.extend(failures.again());
    }
    assert!(pauses.is_sorted() && pauses[0] < pauses[2]);
    // They can be read again.
    rot();
    while engine.compact_once().unwrap() {}
    assert_eq!(told(&engine), (3, None));
    assert_eq!(failures.again(), None);
}
