//! Tables that range tombstones cover go unread: beside jobs, readers, splits and kills, and as soon as they may.

use std::ops::Bound;

use thermocline_base::{SeqNo, WriteBatch};
use thermocline_policy::pick::Reason;

use super::*;
use crate::{Durability, Family};

const CF: CfId = CfId::DEFAULT;

fn delete_range(engine: &Engine, cf: CfId, start: &[u8], end: Option<&[u8]>, as_: Durability) {
    let mut batch = WriteBatch::new();
    batch.delete_range(cf, start, end).unwrap();
    engine.write(batch.iter(), as_).unwrap();
}

/// Jobs that took tables away because a range tombstone covers them.
fn drops(engine: &Engine) -> u64 {
    let reasons = engine.metrics().compaction.reasons;
    let mut reasons = reasons
        .iter()
        .filter(|(reason, _)| *reason == Reason::Deleted);
    reasons.next().map_or(0, |(_, jobs)| *jobs)
}

/// Bytes of tables, and of those in persistent memory.
fn bytes(engine: &Engine) -> (u64, u64) {
    let version = version_of(engine);
    let tables = version.tables().map(|(_, table)| table.bytes).sum();
    (tables, engine.metrics().pm_tier.table_bytes)
}

impl Story {
    fn delete_some(&mut self, rng: &mut Rng) {
        let at = rng.below(2);
        let mut keys = self.keys.clone();
        keys.sort();
        let (a, b) = (rng.below(keys.len()), rng.below(keys.len()));
        let (from, to) = (keys[a.min(b)].clone(), keys[a.max(b)].clone());
        let to = (!rng.one_in(5)).then_some(to);
        if to.as_ref() == Some(&from) {
            return;
        }
        let cf = self.families[at].id;
        delete_range(
            &self.engine,
            cf,
            &from,
            to.as_deref(),
            Durability::Immediate,
        );
        let is_left = |key: &[u8]| key < &from[..] || to.as_ref().is_some_and(|to| key >= &to[..]);
        self.models[at].retain(|key, _| is_left(key));
    }

    fn delete_and_go_on(&mut self, rng: &mut Rng, steps: usize) -> u64 {
        let mut gone = 0;
        for _ in 0..steps {
            let before = drops(&self.engine);
            match rng.below(40) {
                0 => self.delete_some(rng),
                1..=3 => self.begin_job(),
                _ => self.step(rng),
            }
            gone += drops(&self.engine).saturating_sub(before);
        }
        gone
    }
}

fn in_shape(rng: &mut Rng) -> Options {
    let mut options = any(rng);
    let shape = *rng.pick(&["global-index", "immutables", "ssd"]);
    options.set("level0.shape", shape).unwrap();
    options
}

#[test]
fn whatever_ranges_delete_reads_as_before() {
    let mut all = 0;
    for seed in seeds(0..explored(5, 16)) {
        let _replay = Replay::new("-p thermocline-engine whatever_ranges_delete", seed);
        let mut rng = Rng::new(seed);
        let options = in_shape(&mut rng);
        let mut story = Story::begin(options);
        all += story.delete_and_go_on(&mut rng, 1500);
        story.check();
        story.end(&mut rng);
        // Nobody reads, and everything is deleted.
        story.held.clear();
        for at in 0..2 {
            let cf = story.families[at].id;
            delete_range(&story.engine, cf, b"", None, Durability::Immediate);
            story.models[at].clear();
        }
        while story.engine.compact_once().unwrap() {}
        story.check();
        let version = version_of(&story.engine);
        let left = version
            .tables()
            .filter(|(place, _)| place.cf != CfId::METADATA);
        assert_eq!(left.count(), 0);
    }
    println!("{all} drops");
    assert!(all > explored(15, 30) || seeds(0..2).len() == 1, "{all}");
}

#[test]
fn forgetting_who_reads_is_caught() {
    let is_caught = (0..10).any(|seed| {
        let story = || {
            let _bug = plant(Bug::DeletedForgetsReaders);
            let mut rng = Rng::new(seed);
            let mut story = Story::begin(tiny());
            story.delete_and_go_on(&mut rng, 2500);
        };
        std::panic::catch_unwind(story).is_err()
    });
    assert!(is_caught);
}

/// A store with tables of keys `a…` and `b…`, in files or in persistent memory.
fn with_tables(shape: &str) -> (Machine, Options, Engine) {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.set("level0.shape", shape).unwrap();
    let engine = open(&machine, &options);
    for first in [b'a', b'b'] {
        for n in 0..60u8 {
            put(&engine, CF, &[first, n], &[n; 100]);
        }
        engine.flush().unwrap();
    }
    if shape == "global-index" {
        engine
            .compact(CF, (Bound::Unbounded, Bound::Unbounded))
            .unwrap();
    }
    (machine, options, engine)
}

fn compact_all(engine: &Engine) {
    while engine.compact_once().unwrap() {}
}

/// No byte of a table is read or written, and zones and files are free at once.
#[test]
fn what_is_deleted_is_back_without_reading_a_table() {
    for shape in ["global-index", "pm-tables"] {
        let (_machine, _, engine) = with_tables(shape);
        compact_all(&engine);
        let before = (bytes(&engine), engine.metrics().ssd);
        delete_range(&engine, CF, b"a", Some(b"b"), Durability::Immediate);
        assert!(engine.compact_once().unwrap());
        let now = (bytes(&engine), engine.metrics().ssd);
        assert!(now.0.0 <= before.0.0 * 3 / 4, "{shape}: {before:?} {now:?}");
        let zones = (now.0.1, before.0.1);
        assert!(shape != "pm-tables" || zones.0 < zones.1, "{zones:?}");
        assert_eq!(now.1.tables_read, before.1.tables_read);
        assert_eq!(now.1.tables_written, before.1.tables_written);
        assert_eq!(drops(&engine), 1);
        assert_eq!(engine.get(CF, b"a\x05", <[u8]>::to_vec).unwrap(), None);
        assert!(engine.get(CF, b"b\x05", <[u8]>::to_vec).unwrap().is_some());
    }
}

/// A reader from before keeps the tables, one from behind does not; when it ends they go, whatever has become of the tombstone.
#[test]
fn tables_wait_for_readers_who_see_them() {
    for flushed in [false, true] {
        let (_machine, _, engine) = with_tables("global-index");
        let before = engine.snapshot();
        let at = before.seqno();
        let cursor = engine.cursor(Family::DEFAULT).unwrap();
        delete_range(&engine, CF, b"a", Some(b"b"), Durability::Immediate);
        let behind = engine.snapshot();
        assert!(!engine.compact_once().unwrap());
        if flushed {
            engine.inner.memtables.seal_active().unwrap();
            engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        }
        assert_eq!(
            before.value(CF, b"a\x05").unwrap().as_deref(),
            Some(&[5; 100][..])
        );
        drop(before);
        assert!(engine.inner.common.compactions.deleted.waits_for(at));
        assert!(!engine.compact_once().unwrap() || drops(&engine) == 0);
        drop(cursor);
        compact_all(&engine);
        assert_eq!(drops(&engine), 1, "{flushed}");
        assert!(behind.value(CF, b"a\x05").unwrap().is_none());
        assert!(behind.value(CF, b"b\x05").unwrap().is_some());
    }
}

/// What is visible and not durable takes nothing away; the write behind which it is durable asks for a look.
#[test]
fn tables_wait_until_the_tombstone_is_durable() {
    let (machine, options, engine) = with_tables("global-index");
    delete_range(&engine, CF, b"a", Some(b"b"), Durability::Buffered);
    let deleted = &engine.inner.common.compactions.deleted;
    let settled = || engine.inner.common.settled();
    assert!(!engine.compact_once().unwrap());
    assert!(!deleted.is_due(settled));
    assert!(deleted.is_due(|| SeqNo(engine.metrics().visible)));
    assert!(!engine.compact_once().unwrap());
    engine.sync().unwrap();
    assert!(!deleted.is_due(settled), "the sync has asked for a look");
    assert!(engine.compact_once().unwrap());
    let engine = {
        drop(engine);
        open(&machine.killed(), &options)
    };
    assert_eq!(engine.get(CF, b"a\x05", <[u8]>::to_vec).unwrap(), None);
}

/// An open finds the tombstone in its memtable.
#[test]
fn tables_go_after_an_open() {
    let (machine, options, engine) = with_tables("global-index");
    delete_range(&engine, CF, b"a", Some(b"b"), Durability::Immediate);
    drop(engine);
    let engine = open(&machine.killed(), &options);
    assert!(engine.compact_once().unwrap());
    assert_eq!(drops(&engine), 1);
}

/// Where the fact was lost, tombstone and tables meet in a compaction.
#[test]
fn tables_whose_tombstone_was_forgotten_go_by_a_compaction() {
    let (machine, options, engine) = with_tables("global-index");
    let snapshot = engine.snapshot();
    delete_range(&engine, CF, b"a", Some(b"b"), Durability::Immediate);
    put(&engine, CF, b"b\x05", b"new");
    engine.inner.memtables.seal_active().unwrap();
    engine.inner.flusher.flush_sealed(Extent::All).unwrap();
    drop(snapshot);
    engine.close().unwrap();
    let engine = open(&machine, &options);
    let before = bytes(&engine).0;
    engine
        .compact(CF, (Bound::Unbounded, Bound::Unbounded))
        .unwrap();
    let now = bytes(&engine).0;
    assert_eq!(drops(&engine), 0);
    assert!(now < before * 3 / 4, "{before} {now}");
    assert_eq!(engine.get(CF, b"a\x05", <[u8]>::to_vec).unwrap(), None);
}

/// A table that several small ranges cover together goes; one with a key outside of them stays.
#[test]
fn ranges_cover_a_table_together() {
    let (_machine, _, engine) = with_tables("global-index");
    for n in (0..60u8).step_by(4).filter(|n| *n != 20) {
        delete_range(
            &engine,
            CF,
            &[b'a', n],
            Some(&[b'a', n + 4]),
            Durability::Immediate,
        );
    }
    let before = bytes(&engine).0;
    compact_all(&engine);
    assert!(drops(&engine) > 0 && bytes(&engine).0 < before);
    assert!(
        engine
            .get(CF, &[b'a', 21], <[u8]>::to_vec)
            .unwrap()
            .is_some()
    );
    assert_eq!(engine.get(CF, &[b'a', 24], <[u8]>::to_vec).unwrap(), None);
}

/// Who reads after the first of several ranges that cover a table together, and before the last, sees what the last has deleted.
#[test]
fn a_reader_between_two_ranges_that_cover_a_table_keeps_it() {
    let (_machine, _, engine) = with_tables("global-index");
    compact_all(&engine);
    let before = drops(&engine);
    delete_range(&engine, CF, b"a", Some(b"a\x1e"), Durability::Immediate);
    let held = engine.snapshot();
    delete_range(&engine, CF, b"a\x1e", Some(b"b"), Durability::Immediate);
    while engine.compact_once().unwrap() {}
    for n in 0..60u8 {
        let there = held.value(CF, &[b'a', n]).unwrap();
        assert_eq!(there.is_some(), n >= 0x1e, "{n}");
    }
    drop(held);
    compact_all(&engine);
    assert!(drops(&engine) > before);
    assert_eq!(engine.get(CF, b"a\x25", <[u8]>::to_vec).unwrap(), None);
}

/// A million keys deleted one by one: once a cursor has stepped over them their tables go unread, and no flush writes the deletes.
#[test]
fn what_is_deleted_key_by_key_goes_unread() {
    for shape in ["global-index", "pm-tables"] {
        for flushed in [false, true] {
            let (_machine, _, engine) = with_tables(shape);
            compact_all(&engine);
            let held = engine.snapshot();
            for n in 0..60u8 {
                delete(&engine, CF, &[b'a', n]);
            }
            if flushed {
                engine.inner.memtables.seal_active().unwrap();
                engine.inner.flusher.flush_sealed(Extent::All).unwrap();
            }
            let before = bytes(&engine).0;
            let first = || {
                let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
                assert!(cursor.seek_to_first().unwrap());
                cursor.key().to_vec()
            };
            assert_eq!(first(), b"b\0");
            // Somebody reads what was there.
            while engine.compact_once().unwrap() {}
            assert_eq!(drops(&engine), 0);
            assert_eq!(
                held.value(CF, b"a\x05").unwrap().as_deref(),
                Some(&[5; 100][..])
            );
            drop(held);
            assert_eq!(first(), b"b\0");
            compact_all(&engine);
            assert!(drops(&engine) > 0, "{shape} {flushed}");
            assert!(bytes(&engine).0 < before * 3 / 4, "{shape} {flushed}");
            assert_eq!(engine.get(CF, b"a\x05", <[u8]>::to_vec).unwrap(), None);
            assert_eq!(first(), b"b\0");
            engine.flush().unwrap();
            assert_eq!(first(), b"b\0");
        }
    }
}

/// Who came after a gap had been found reads nothing there, however much is written before tables are looked at.
#[test]
fn readers_behind_a_gap_do_not_keep_its_tables() {
    let (_machine, _, engine) = with_tables("global-index");
    compact_all(&engine);
    for n in 0..60u8 {
        delete(&engine, CF, &[b'a', n]);
    }
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    drop(cursor);
    let behind = engine.snapshot();
    put(&engine, CF, b"c", b"later");
    compact_all(&engine);
    assert!(drops(&engine) > 0);
    assert!(behind.value(CF, b"a\x05").unwrap().is_none());
    assert!(behind.value(CF, b"b\x05").unwrap().is_some());
    assert!(behind.value(CF, b"c").unwrap().is_none());
}
