//! How many entries of a memtable a cursor collects.

use std::ops::Bound;

use thermocline_base::SeqNo;
use thermocline_memtable::Direction;

use super::*;
use crate::cursor::source::{Reader, Source};
use crate::cursor::walk::{Copied, Walk};
use crate::store::Moment;

#[test]
fn a_first_chunk_has_about_as_many_entries_as_were_used_of_those_before() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    let memtable = engine.inner.common.catalog.view().memtables[0].clone();
    let reader = Reader {
        cf: CF,
        seqno: SeqNo::MAX,
        direction: Direction::Forward,
        chunk_max: 64,
        verify: true,
        until: Bound::Unbounded,
    };
    let mut source = Source::default();
    let after = |source: &mut Source, used: usize| {
        source.used = used;
        source.first_chunk(&memtable, reader)
    };
    assert_eq!(after(&mut source, 0), 16, "nothing is known yet");
    assert_eq!(after(&mut source, 50), 62, "a quarter more than the mean");
    assert_eq!(
        after(&mut source, 0),
        62,
        "nothing showed, so nothing was learned"
    );
    assert_eq!(after(&mut source, 1), 32, "the mean of both");
    let last = (0..8).map(|_| after(&mut source, 1)).last();
    assert_eq!(last, Some(4), "never fewer");
    assert_eq!(after(&mut source, 1_000_000), 41, "as if it had been 64");
}

/// Entries that a new cursor collects of the active memtable at first, which then shows `used` entries.
fn first_chunk(engine: &Engine, from: u32, used: usize) -> usize {
    let mut walk = Walk::new(Moment::now(&engine.inner), Family::DEFAULT);
    let mut copied = Copied::default();
    let (from, way) = (from.to_be_bytes(), Direction::Forward);
    let bound = Bound::Included(&from[..]);
    let mut found = walk.seek(&mut copied, bound, Bound::Unbounded, way);
    let collected = walk.sources[0].chunk.len();
    for _ in 1..used {
        assert!(found.unwrap());
        found = walk.step(&mut copied, walk.way(way), Bound::Unbounded);
    }
    assert!(found.unwrap());
    collected
}

/// Each scan may have a cursor of its own.
#[test]
fn a_new_cursor_collects_at_first_about_as_many_entries_as_others_used() {
    let machine = Machine::new(PM);
    let engine = open_with(&machine, &options());
    (0..300u32).for_each(|n| put(&engine, &n.to_be_bytes(), b"value"));
    assert_eq!(first_chunk(&engine, 0, 40), 16, "nothing is known yet");
    let second = first_chunk(&engine, 100, 40);
    assert!((50..=52).contains(&second), "{second}");
    for n in 0..60 {
        first_chunk(&engine, n, 2);
    }
    assert_eq!(first_chunk(&engine, 0, 1), 4);
}
