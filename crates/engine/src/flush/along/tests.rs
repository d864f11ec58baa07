//! What is held for a range, and what it is when something is in the way. (More is in `pm_tables::tests::along`, and in the
//! histories of `evacuate`.)

use std::path::Path;

use thermocline_base::options::{Options, Shape};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfOptions, Codec, WriteBatch};
use thermocline_catalog::view::Position;

use super::*;
use crate::flush::Extent;
use crate::flush::tests::{Model, check_cursor, get, put};
use crate::partitions::waiting::Waiter;
use crate::partitions::{Adjustment, Outcome};
use crate::tests::Machine;
use crate::tests::version_of;
use crate::{Durability, Engine};

const PM: u64 = 4 << 20;

fn open(machine: &Machine) -> Engine {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.compaction.table_bytes = 32 << 10;
    options.compaction.compression_last = Codec::None;
    options.flush.automatic = false;
    options.level0.shape = Some(Shape::Tiered);
    options.level0.merge_percent = 0;
    Engine::open(machine.world(), Path::new("/db"), options).unwrap()
}

fn key(n: u16) -> [u8; 2] {
    n.to_be_bytes()
}

fn write(engine: &Engine, cf: CfId, keys: impl Iterator<Item = u16>, value: &[u8]) {
    for n in keys {
        put(engine, cf, &key(n), value);
    }
    engine.inner.memtables.seal_active().unwrap();
}

/// Who asks for splits here.
const HAND: Waiter = Waiter::Hand(0);

/// What is to be flushed, and a range that cuts a table of level 0.
fn within_a_table(engine: &Engine) -> (Taken, Span) {
    let flusher = &engine.inner.flusher;
    write(engine, CfId::DEFAULT, 0..300, &[1; 100]);
    flusher.flush_sealed(Extent::All).unwrap();
    write(engine, CfId::DEFAULT, 200..300, &[2; 100]);
    let taken = Taken {
        memtables: flusher.evacuator.to_flush(),
        front: None,
        for_scans: false,
    };
    let from = Position {
        cf: CfId::DEFAULT,
        key: key(150)[..].into(),
    };
    (taken, Span { from, to: None })
}

#[test]
fn a_split_waits_for_a_range_that_cuts_its_table() {
    let story = || {
        let machine = Machine::new(PM);
        let engine = open(&machine);
        let inner = &engine.inner;
        let (taken, span) = within_a_table(&engine);
        let along = inner
            .flusher
            .evacuator
            .along_of(&taken, &span, 10_000, true);
        assert_eq!((along.len(), along[0].rests.len()), (1, 1));
        // Before the range, in the table that is taken.
        let split = Adjustment::Split(key(50).to_vec());
        let outcome = inner
            .partitioner
            .adjust(CfId::DEFAULT, &split, HAND)
            .unwrap();
        let stands = along[0].stands(inner.common.catalog.edits().state());
        drop(along);
        (outcome, stands)
    };
    assert_eq!(story(), (Outcome::Waits, true));
    let _bug = plant(Bug::SplitBesideJob);
    assert_eq!(story(), (Outcome::Done, false));
}

/// A manifest says how large they are, and may say anything of each level.
#[test]
fn tables_of_any_size_are_added_up_where_they_are_taken_along() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let inner = &engine.inner;
    let (taken, span) = within_a_table(&engine);
    let evacuator = &inner.flusher.evacuator;
    let mut along = evacuator.along_of(&taken, &span, 10_000, true);
    let (place, table) = along[0].inputs[0].clone();
    let huge = Arc::new(TableRef {
        file_bytes: u64::MAX,
        bytes: u64::MAX,
        ..TableRef::clone(&table)
    });
    along[0].inputs = vec![(place, huge.clone()), (place, huge)];
    along[0].to = Level(1);
    along[0].level0_bytes = u64::MAX;
    assert_eq!(along[0].bytes(), u64::MAX);
    let mut outputs = Outputs::default();
    outputs.memtable_bytes += 1;
    for _ in 0..2 {
        evacuator.count_flush(&outputs, &along);
    }
    let usage = inner.common.compactions.usage.counted();
    assert_eq!(usage.levels[1].bytes_in, u64::MAX);
}

#[test]
fn a_family_without_tables_takes_nothing_along() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let red = engine.family("red", &CfOptions::default()).unwrap().id;
    engine.inner.common.compactions.costs.bypass_always();
    for round in 1..4u8 {
        write(&engine, CfId::DEFAULT, 0..200, &[round; 100]);
        // The second has no table yet, and none any more.
        if round > 1 {
            write(&engine, red, 0..5, &[round; 100]);
        }
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        if round == 2 {
            let mut batch = WriteBatch::new();
            batch.delete_range(red, b"", None).unwrap();
            engine.write(batch.iter(), Durability::Immediate).unwrap();
            engine.flush().unwrap();
            let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
            engine.compact(red, all).unwrap();
        }
    }
    assert_eq!(engine.inner.common.pm_tables_use().bytes, 0);
    assert_eq!(get(&engine, &key(7)), Some(vec![3; 100]));
    let found = engine.get(red, &key(4), <[u8]>::to_vec).unwrap();
    assert_eq!(found, Some(vec![3; 100]));
}

/// So much lies in files that what is in level 0 does not go there with a flush.
fn write_much_below(engine: &Engine) {
    write(engine, CfId::DEFAULT, 0..3000, &[0; 300]);
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    engine.flush().unwrap();
    engine.compact(CfId::DEFAULT, all).unwrap();
}

/// How many tables are in level 0.
fn level0(engine: &Engine) -> usize {
    let version = version_of(engine);
    let place = Place::new(CfId::DEFAULT, Level::ZERO);
    let level0 = version.level(place).into_iter().flat_map(|t| t.iter());
    level0.count()
}

/// What is written into files of level 0 shows nothing of the base level, whatever it takes along.
#[test]
fn what_has_failed_on_its_way_down_is_told_until_something_goes_there() {
    for to_files in [true, false] {
        let machine = Machine::new(PM);
        let engine = open(&machine);
        if to_files {
            write_much_below(&engine);
        }
        write(&engine, CfId::DEFAULT, 0..300, &[1; 100]);
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        write(&engine, CfId::DEFAULT, 150..152, &[2; 100]);
        let compactions = &engine.inner.common.compactions;
        let bad = Error::corruption("a block", "/db/000001.sst", 7, 1, 2);
        compactions.failures.along_failed(true, &bad);
        compactions.costs.bypass_always();
        let ranges = engine.metrics().ranges_along;
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        assert_eq!(engine.metrics().ranges_along, ranges + 1);
        assert_eq!(level0(&engine) > 0, to_files);
        let told = engine.metrics().compaction.last_failure;
        assert_eq!(told.is_some(), to_files, "{told:?}");
    }
}

/// Range tombstones without an end, the greatest key that there is, and a snapshot, over what is taken along.
#[test]
fn what_is_deleted_over_what_is_taken_along_stays_deleted() {
    for to_files in [true, false] {
        let machine = Machine::new(PM);
        let engine = open(&machine);
        let last = vec![u8::MAX; thermocline_base::limits::KEY_LEN_MAX];
        if to_files {
            write_much_below(&engine);
        }
        put(&engine, CfId::DEFAULT, &last, b"last");
        write(&engine, CfId::DEFAULT, 0..300, &[1; 100]);
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        let mut before: Model = (0..300).map(|n| (key(n).to_vec(), vec![1; 100])).collect();
        if to_files {
            before.extend((300..3000).map(|n| (key(n).to_vec(), vec![0; 300])));
        }
        before.insert(last, b"last".to_vec());
        let snapshot = engine.snapshot();
        let mut batch = WriteBatch::new();
        batch.delete_range(CfId::DEFAULT, &key(100), None).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        write(&engine, CfId::DEFAULT, 150..152, &[2; 100]);
        engine.inner.common.compactions.costs.bypass_always();
        let ranges = engine.metrics().ranges_along;
        engine.inner.flusher.flush_sealed(Extent::All).unwrap();
        assert!(engine.metrics().ranges_along > ranges);
        assert_eq!(level0(&engine) > 0, to_files);
        let mut after: Model = (0..100).map(|n| (key(n).to_vec(), vec![1; 100])).collect();
        after.extend((150..152).map(|n| (key(n).to_vec(), vec![2; 100])));
        let family = crate::Family::DEFAULT;
        check_cursor(engine.cursor(family).unwrap(), &after);
        check_cursor(snapshot.cursor(family).unwrap(), &before);
        drop(snapshot);
        engine.flush().unwrap();
        check_cursor(engine.cursor(family).unwrap(), &after);
    }
}

/// It would be promised more than such a region has: no range would seem to lack room, and each would be written into persistent memory
/// until that is full, and then into files.
#[test]
fn a_flush_is_promised_a_part_of_what_the_region_may_have() {
    let machine = Machine::new(PM);
    machine.lay_region_on_disk(64 << 20);
    let engine = open(&machine);
    let (common, flusher) = (&engine.inner.common, &engine.inner.flusher);
    let promised = || {
        let taken = flusher.evacuator.taken_now(u64::MAX);
        let promise = flusher.flush_writer.promise_for_flush(&taken).unwrap();
        promise.map_or(0, |promise| promise.bytes())
    };
    let options = &common.options;
    let share = options.level0_pm_bytes().unwrap();
    let usual = usual_bytes(PM, options.sealed_percent());
    let coming = || {
        let taken = flusher.evacuator.taken_now(u64::MAX);
        let coming = flusher.evacuator.coming(&taken, &[]).unwrap();
        (coming.share, coming.usual_bytes)
    };
    assert_eq!(coming(), (share, usual));
    let all = share + options.flush_pm_bytes();
    assert_eq!((common.space.usage().limit_bytes, promised()), (PM, all));
    // It is not full, and has no room for a larger region.
    machine.limit_disk(machine.fs.used() + (200 << 10));
    engine.inner.pressure.press();
    let space = common.space.usage();
    assert_eq!(space.limit_bytes, space.region_bytes);
    assert!(!engine.inner.pressure.is_relieving());
    let now = promised();
    assert!((1..space.limit_bytes).contains(&now), "{now} of {space:?}");
    // By the same it is decided what leaves.
    let (less, usual_now) = coming();
    assert!((1..share).contains(&less), "{less} of {share}");
    assert!((1..usual).contains(&usual_now), "{usual_now} of {usual}");
}
