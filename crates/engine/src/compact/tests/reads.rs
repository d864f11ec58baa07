//! Tables that reads ask in vain are compacted, and no others.

use std::ops::Bound;

use thermocline_memtable::Direction;
use thermocline_policy::pick::Reason;

use super::*;
use crate::{Cursor, Family};

const CF: CfId = CfId::DEFAULT;

/// Looks at every read; level 0 is never too deep.
pub(super) fn looking() -> Options {
    let mut options = tiny();
    options.compaction.level0_tables = 100;
    options.compaction.base_bytes = 1 << 20;
    options.compaction.table_bytes = 1 << 20;
    options.compaction.read_sample = 1;
    options
}

fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

/// A level below level 0 with these keys.
pub(super) fn below(engine: &Engine, keys: std::ops::Range<u16>) {
    for n in keys {
        put(engine, CF, &key(n), &[7; 20]);
    }
    flush(engine);
    let all = (Bound::Unbounded, Bound::Unbounded);
    engine.compact(CF, all).unwrap();
    assert_eq!(levels(engine)[0], 0);
}

/// Compactions for the sake of reads.
fn for_reads(engine: &Engine) -> u64 {
    let reasons = engine.metrics().compaction.reasons;
    reasons
        .iter()
        .find(|(reason, _)| *reason == Reason::Reads)
        .unwrap()
        .1
}

/// Seeks so often where both levels may have something.
fn seek(engine: &Engine, times: u16) {
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    for n in 0..times {
        assert!(cursor.seek(&key(n % 50)).unwrap());
    }
}

#[test]
fn a_table_that_seeks_pay_for_is_compacted_and_reads_find_the_same() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &looking());
    below(&engine, 0..60);
    for n in (0..60).step_by(10) {
        put(&engine, CF, &key(n), b"newer");
    }
    flush(&engine);
    assert_eq!(levels(&engine)[0], 1);
    seek(&engine, 99);
    assert!(!engine.compact_once().unwrap(), "it has not paid yet");
    seek(&engine, 1);
    assert!(engine.compact_once().unwrap());
    assert!(!engine.compact_once().unwrap());
    assert_eq!((for_reads(&engine), levels(&engine)[0]), (1, 0));
    // One run is left: nobody asks anything in vain.
    seek(&engine, 1000);
    assert!(!engine.compact_once().unwrap());
    for n in 0..60 {
        let wanted = if n % 10 == 0 { &b"newer"[..] } else { &[7; 20] };
        let found = engine.get(CF, &key(n), |value| value == wanted).unwrap();
        assert_eq!(found, Some(true));
    }
}

/// Where prefixes divide the keys, a seek in one that neither table has reads nothing.
#[test]
fn seeks_that_pass_over_tables_do_not_pay_for_them() {
    let machine = Machine::new(PM);
    let mut options = looking();
    options.partition.by = PartitionBy::Prefix;
    options.partition.prefix_len = 2;
    let engine = open(&machine, &options);
    let even = |steps: usize| {
        for n in (0..60).step_by(steps) {
            put(&engine, CF, &key(n), &[7; 20]);
        }
        flush(&engine);
    };
    even(2);
    let all = (Bound::Unbounded, Bound::Unbounded);
    engine.compact(CF, all).unwrap();
    even(20);
    assert_eq!(levels(&engine)[0], 1);
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    for n in 0..1000 {
        let odd = key(2 * (n % 20) + 1);
        let here = Bound::Included(&odd[..]);
        assert!(!cursor.seek_within(here, here, Direction::Forward).unwrap());
    }
    assert!(!engine.compact_once().unwrap());
    // Without bounds each of them is asked.
    seek(&engine, 200);
    assert!(engine.compact_once().unwrap());
    assert_eq!(for_reads(&engine), 1);
}

/// What lies above in persistent memory hides nothing from whoever asks: files below are charged, and it stays.
#[test]
fn files_below_persistent_memory_that_seeks_pay_for_are_compacted() {
    let machine = Machine::new(PM);
    let mut options = looking();
    options.set("level0.shape", "ssd").unwrap();
    let engine = open(&machine, &options);
    below(&engine, 0..60);
    let every = |engine: &Engine, step: usize, value: &[u8]| {
        for n in (0..60).step_by(step) {
            put(engine, CF, &key(n), value);
        }
        flush(engine);
    };
    every(&engine, 10, b"newer");
    engine.close().unwrap();
    options.set("level0.shape", "pm-tables").unwrap();
    options.set("level0.internal", "off").unwrap();
    let engine = open(&machine, &options);
    every(&engine, 20, b"newest");
    let stands = |engine: &Engine| (levels(engine)[0], engine.metrics().pm_tier.tables);
    assert_eq!(stands(&engine), (2, 1));
    seek(&engine, 100);
    assert!(engine.compact_once().unwrap());
    assert_eq!((for_reads(&engine), stands(&engine)), (1, (1, 1)));
    // One run of files is left.
    seek(&engine, 1000);
    assert!(!engine.compact_once().unwrap());
    for n in 0..60 {
        let wanted = match (n % 20, n % 10) {
            (0, _) => &b"newest"[..],
            (_, 0) => &b"newer"[..],
            _ => &[7; 20],
        };
        let found = engine.get(CF, &key(n), |value| value == wanted).unwrap();
        assert_eq!(found, Some(true));
    }
}

#[test]
fn nothing_is_compacted_for_reads_where_that_is_switched_off_or_nothing_is_written() {
    let machine = Machine::new(PM);
    let mut options = looking();
    options.compaction.read_sample = 0;
    let engine = open(&machine, &options);
    below(&engine, 0..60);
    put(&engine, CF, &key(7), b"newer");
    flush(&engine);
    seek(&engine, 5000);
    assert!(!engine.compact_once().unwrap());
    engine.close().unwrap();
    options.compaction.read_sample = 1;
    options.read_only = true;
    let engine = open(&machine, &options);
    seek(&engine, 5000);
    assert_eq!(for_reads(&engine), 0);
}

#[test]
fn scans_after_large_deletes_become_fast_again() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &looking());
    // So many that deletes alone ask for no compaction.
    below(&engine, 0..4000);
    for n in 100..1900 {
        delete(&engine, CF, &key(n));
    }
    flush(&engine);
    let deletes = || {
        let levels = engine.metrics().levels;
        levels.iter().map(|level| level.deletes).sum::<u64>()
    };
    // One at an earlier moment does not pass what one of today has stepped through.
    let earlier = engine.snapshot();
    put(&engine, CF, &key(0), b"newer");
    let scan_with = |mut cursor: Cursor| {
        let mut more = cursor.seek_to_first().unwrap();
        let mut entries = 0;
        while more {
            entries += 1;
            more = cursor.next().unwrap();
        }
        assert_eq!(entries, 2200);
    };
    let scan = || scan_with(engine.cursor(Family::DEFAULT).unwrap());
    scan();
    // 1800 deletes are 56 charges; to pass them is none.
    for _ in 0..20 {
        assert!(!engine.compact_once().unwrap());
        assert_eq!(deletes(), 1800);
        scan();
    }
    scan_with(earlier.into_cursor(Family::DEFAULT).unwrap());
    let reads = &engine.inner.common.catalog.table_files.reads;
    assert!(!reads.has_news(), "the step that has charged it has asked");
    assert!(engine.compact_once().unwrap());
    assert_eq!((for_reads(&engine), deletes()), (1, 0));
    scan();
    scan();
    scan();
    assert!(!engine.compact_once().unwrap());
}

#[test]
fn a_get_that_a_filter_answers_charges_nothing() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &looking());
    below(&engine, 0..60);
    put(&engine, CF, &key(0), b"newer");
    put(&engine, CF, &key(59), b"newer");
    flush(&engine);
    for _ in 0..5 {
        for n in 1..59 {
            assert!(engine.get(CF, &key(n), |_| ()).unwrap().is_some());
        }
    }
    // Some filter may take one of these keys for one of its own; not all.
    assert!(!engine.compact_once().unwrap());
}
