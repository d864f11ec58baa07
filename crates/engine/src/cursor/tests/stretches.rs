//! What range tombstones of tables cost a cursor: in reads of older tables, and in tables that it keeps.

use std::ops::Bound;

use thermocline_base::Codec;
use thermocline_memtable::Direction;

use super::*;
use crate::cursor::walk::{Copied, Walk};
use crate::store::Moment;
use crate::tests::version_of;

/// Backwards, too, ranges that touch are one stretch: an older table is sought once, before all of them.
#[test]
fn ranges_that_touch_are_one_stretch_backwards() {
    const RANGES: u32 = 50;
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    let key = |n: u32| n.to_be_bytes().to_vec();
    for n in 0..2000 {
        put(&engine, &key(n), &[n.to_le_bytes()[0]; 40]);
    }
    engine.flush().unwrap();
    let table = machine.only_table();
    let edge = |n: u32| key(5 + 39 * n);
    // In no order, so that the newest is not the last.
    for n in (0..RANGES).map(|n| n * 7 % RANGES) {
        delete_range(&engine, &edge(n), Some(&edge(n + 1)));
    }
    put(&engine, &key(700), b"new");
    engine.flush().unwrap();
    // What lies there is covered, and each range ends or begins in one of these blocks or near them.
    let len = machine.file_len(&table);
    (len / 5..len * 2 / 5).for_each(|at| machine.rot_file(&table, at));
    let end = 5 + 39 * RANGES;
    let expected: Vec<u32> = (0..5).chain([700]).chain(end..2000).collect();
    let here = |cursor: &Cursor| u32::from_be_bytes(cursor.key().try_into().unwrap());
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut seen = Vec::new();
    let mut more = cursor.seek_to_last().unwrap();
    while more {
        seen.push(here(&cursor));
        more = cursor.prev().unwrap();
    }
    seen.reverse();
    assert_eq!(seen, expected);
    assert!(cursor.seek_for_prev(&key(end - 1)).unwrap() && here(&cursor) == 700);
    assert!(cursor.prev().unwrap() && here(&cursor) == 4);
    assert!(cursor.next().unwrap() && here(&cursor) == 700);
}

/// A cursor keeps no table for range tombstones that it has passed, though it has no older run that asks for them.
#[test]
fn a_long_cursor_keeps_few_tables_with_tombstones() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.compaction.table_bytes = 1 << 10;
    options.compaction.compression_level0 = Codec::None;
    let engine = open_with(&machine, &options);
    let key = |n: u32| n.to_be_bytes().to_vec();
    for n in 0..1000 {
        put(&engine, &key(n), &[7; 100]);
    }
    // What is deleted stays, and so does what deletes it.
    let before = engine.snapshot();
    for n in (0..1000).step_by(20) {
        delete_range(&engine, &key(n + 5), Some(&key(n + 8)));
    }
    engine.flush().unwrap();
    assert!(version_of(&engine).tables().count() > 30);
    for way in [Direction::Forward, Direction::Reverse] {
        let mut walk = Walk::new(Moment::now(&engine.inner), Family::DEFAULT);
        let (mut seen, mut most) = (0, 0);
        let mut copied = Copied::default();
        let all = Bound::Unbounded;
        let mut more = walk.seek(&mut copied, all, all, way).unwrap();
        while more {
            seen += 1;
            let kept = walk.runs.iter().map(|run| run.covers_kept());
            most = most.max(kept.sum::<usize>());
            more = walk.step(&mut copied, walk.way(way), all).unwrap();
        }
        assert_eq!(seen, 850, "{way:?}");
        assert!((1..=3).contains(&most), "{most}, {way:?}");
    }
    let mut then = before.cursor(Family::DEFAULT).unwrap();
    assert!(then.seek(&key(5)).unwrap() && then.key() == key(5));
}
