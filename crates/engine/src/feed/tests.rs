//! Feeds of stores in simulated worlds: what they give, what they keep, and when they are cut off.

use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::planted::plant;
use thermocline_base::{CfId, CfOptions, ErrorKind, SeqNo, WriteBatch};

use super::*;
use crate::tests::Machine;
use crate::{Change, ChangeFeed, ChangeGroup, ChangeOp, Durability, Engine, IngestWriter};

mod closing;
mod kept;
mod lost;
mod mirror;

const PM: u64 = 2 << 20;
const CF: CfId = CfId::DEFAULT;

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 16 << 10;
    // Memtables stay sealed for a while.
    options.set("level0.shape", "global-index").unwrap();
    options
}

fn open(machine: &Machine, options: &Options) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap()
}

fn puts(keys: impl IntoIterator<Item = u32>, len: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(CF, &key.to_be_bytes(), &vec![7; len]).unwrap();
    }
    batch
}

fn put(engine: &Engine, key: u32) {
    put_with(engine, key, Durability::Immediate);
}

fn put_with(engine: &Engine, key: u32, durability: Durability) {
    engine.write(puts([key], 100).iter(), durability).unwrap();
}

fn since(engine: &Engine, seqno: u64) -> ChangeFeed {
    engine.changes_since(seqno).unwrap()
}

/// First and last seqno of each group there is.
fn groups(feed: &mut ChangeFeed) -> Vec<(u64, u64)> {
    let group = |group: Result<ChangeGroup>| {
        let group = group.unwrap();
        let seqnos = group.changes().map(|change| change.unwrap().seqno);
        let all: Vec<u64> = (group.first()..=group.last()).collect();
        assert_eq!(seqnos.collect::<Vec<_>>(), all);
        (group.first(), group.last())
    };
    feed.map(group).collect()
}

fn gone(error: &Error) -> (u64, u64) {
    match error {
        Error::ChangesGone { since, oldest } => (*since, *oldest),
        other => panic!("{other}"),
    }
}

/// The families, long values and seqnos aside: what a group says.
fn keys_and_values(group: &ChangeGroup) -> Vec<(Vec<u8>, Vec<u8>)> {
    let put = |change: Result<Change<'_>>| match change.unwrap().op {
        ChangeOp::Put { key, value } => (key.to_vec(), value.to_vec()),
        other => panic!("{other:?}"),
    };
    group.changes().map(put).collect()
}

/// Writes until the active memtable is another one.
fn seal(engine: &Engine, from: u32) -> u32 {
    let active = || engine.inner.common.catalog.view().memtables[0].id();
    let before = active();
    (from..)
        .find(|&key| {
            put(engine, key);
            active() != before
        })
        .unwrap()
        + 1
}

#[test]
fn groups_come_in_order_and_on_demand_and_a_feed_can_be_resumed() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let mut feed = since(&engine, 0);
    assert!(feed.next().is_none());
    put(&engine, 1);
    engine
        .write(puts(2..5, 10).iter(), Durability::Immediate)
        .unwrap();
    assert_eq!(groups(&mut feed), [(1, 1), (2, 4)]);
    assert!(feed.next().is_none());
    put(&engine, 5);
    assert_eq!(groups(&mut feed), [(5, 5)]);
    assert_eq!(feed.position(), 5);
    // One that lies within a group is given the whole group.
    assert_eq!(groups(&mut since(&engine, 1)), [(2, 4), (5, 5)]);
    assert_eq!(groups(&mut since(&engine, 3)), [(2, 4), (5, 5)]);
    assert_eq!(groups(&mut since(&engine, 4)), [(5, 5)]);
    assert_eq!(groups(&mut since(&engine, 5)), []);
    let error = engine.changes_since(6).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // Through many memtables and openings, clean ones and others.
    let (mut key, mut all) = (6, 5);
    let mut machine = machine;
    let mut engine = engine;
    for life in 0..4 {
        drop(feed);
        if life % 2 == 0 {
            engine.close().unwrap();
        } else {
            machine = machine.killed();
        }
        engine = open(&machine, &options());
        feed = since(&engine, all);
        for _ in 0..3 {
            key = seal(&engine, key);
            let groups = groups(&mut feed);
            assert!(groups.len() > 10 && groups[0].0 > all, "{groups:?}");
            assert!(groups.windows(2).all(|two| two[0].1 + 1 == two[1].0));
            all = groups.last().unwrap().1;
        }
    }
    assert!(engine.metrics().memtables.len() > 9);
    let whole = groups(&mut since(&engine, 0));
    let records: u64 = whole.iter().map(|(first, last)| last - first + 1).sum();
    assert_eq!(records, u64::from(key - 1));
    engine.close().unwrap();
    assert_eq!(feed.next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert!(feed.next().is_none(), "after an error it has ended");
    assert!(engine.changes_since(0).is_err());
}

/// What is given though it is not durable.
fn given_too_early() -> Vec<(u64, u64)> {
    let engine = open(&Machine::new(PM), &options());
    let mut feed = since(&engine, 0);
    put_with(&engine, 1, Durability::Buffered);
    let early = groups(&mut feed);
    engine.sync().unwrap();
    assert_eq!([early.clone(), groups(&mut feed)].concat(), [(1, 1)]);
    early
}

#[test]
fn nothing_is_given_before_it_is_durable() {
    assert_eq!(given_too_early(), []);
    let bug = plant(Bug::FeedAheadOfDurable);
    assert_eq!(given_too_early(), [(1, 1)]);
    drop(bug);
    // Nor before what was granted earlier.
    let engine = open(&Machine::new(PM), &options());
    let mut feed = since(&engine, 0);
    let first = engine.begin(puts(0..2, 10), Durability::Immediate).unwrap();
    let second = engine.begin(puts(2..5, 10), Durability::Immediate).unwrap();
    assert!(!second.carry().unwrap());
    assert_eq!(groups(&mut feed), []);
    assert!(first.carry().unwrap());
    assert_eq!(groups(&mut feed), [(1, 2), (3, 5)]);
}

#[test]
fn a_staged_batch_is_one_group_between_those_before_and_behind_it() {
    let mut options = options();
    options.memtable.item_bytes_max = 4 << 10;
    let machine = Machine::new(PM);
    let engine = open(&machine, &options);
    let mut feed = since(&engine, 0);
    put(&engine, 0);
    engine
        .write(puts(1..301, 100).iter(), Durability::Buffered)
        .unwrap();
    put(&engine, 301);
    let wanted = [(1, 1), (2, 301), (302, 302)];
    assert_eq!(groups(&mut feed), wanted);
    assert_eq!(groups(&mut since(&engine, 100)), wanted[1..]);
    assert_eq!(groups(&mut since(&engine, 301)), wanted[2..]);
    // The same after a crash, where it is the first thing that was written, and behind another one.
    let machine = machine.killed();
    let engine = open(&machine, &options);
    assert_eq!(groups(&mut since(&engine, 0)), wanted);
    let behind = engine.metrics().durable;
    engine
        .write(puts(0..100, 100).iter(), Durability::Immediate)
        .unwrap();
    engine
        .write(puts(0..200, 100).iter(), Durability::Immediate)
        .unwrap();
    let groups = groups(&mut since(&engine, behind));
    assert_eq!(
        groups.iter().map(|(a, b)| b - a).collect::<Vec<_>>(),
        [99, 199]
    );
}

#[test]
fn what_was_flushed_is_gone_and_the_error_says_from_where_on_it_is_not() {
    let engine = open(&Machine::new(PM), &options());
    put(&engine, 1);
    put(&engine, 2);
    engine.flush().unwrap();
    put(&engine, 3);
    let error = engine.changes_since(1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    assert_eq!(gone(&error), (1, 2));
    assert!(error.to_string().contains("only those since 2"), "{error}");
    assert_eq!(groups(&mut since(&engine, 2)), [(3, 3)]);
    assert_eq!(engine.metrics().feed.oldest, 2);
}

/// Overwrites a memtable in the middle and returns what is given since the beginning.
fn with_a_gap() -> Result<Vec<(u64, u64)>> {
    let mut options = options();
    options.flush.automatic = false;
    // Its memtable would only go when all of them are merged.
    options.set("level0.shape", "immutables").unwrap();
    let engine = open(&Machine::new(PM), &options);
    put(&engine, 1000);
    seal(&engine, 1001);
    let mut last = 0;
    for _ in 0..3 {
        // Of these only the last round is alive.
        last = seal(&engine, 0);
    }
    (0..last).for_each(|key| put(&engine, key));
    engine.reclaim().unwrap();
    assert!(engine.metrics().memtables_dropped > 0);
    let oldest = engine.metrics().feed.oldest;
    if oldest > 0 {
        let rest = groups(&mut since(&engine, oldest));
        assert_eq!(
            (rest[0].0, rest.last().unwrap().1),
            (oldest + 1, engine.metrics().durable)
        );
    }
    Ok(groups(&mut engine.changes_since(0)?))
}

#[test]
fn a_memtable_that_died_leaves_a_gap_that_no_feed_crosses() {
    let error = with_a_gap().unwrap_err();
    assert_eq!(gone(&error).0, 0, "{error}");
    let _bug = plant(Bug::FeedAcceptsGap);
    let all = with_a_gap().unwrap();
    assert!(all.windows(2).any(|two| two[0].1 + 1 < two[1].0));
}

/// Flushes ahead of a feed. Returns what it gives then, and how many memtables there are when it has.
fn flushed_ahead() -> (Vec<Result<(u64, u64)>>, usize) {
    let engine = open(&Machine::new(PM), &options());
    let mut feed = since(&engine, 0);
    let mut key = 0;
    for _ in 0..3 {
        key = seal(&engine, key);
        engine.flush().unwrap();
    }
    let all = feed
        .by_ref()
        .map(|group| group.map(|g| (g.first(), g.last())))
        .collect();
    // The writer's next one.
    engine.reclaim().unwrap();
    (all, engine.metrics().memtables.len())
}

#[test]
fn an_open_feed_keeps_what_it_has_not_read_and_no_more() {
    let (groups, memtables) = flushed_ahead();
    let seqnos: Vec<u64> = groups.into_iter().map(|group| group.unwrap().0).collect();
    assert_eq!(seqnos, (1..=seqnos.len() as u64).collect::<Vec<_>>());
    assert_eq!(memtables, 1);
    let _bug = plant(Bug::FeedForgetsPin);
    assert!(flushed_ahead().0[0].is_err());
}

#[test]
fn what_is_retained_is_there_without_a_feed_and_after_reopening() {
    let mut options = options();
    options.feed.retain_bytes = 256 << 10;
    let machine = Machine::new(PM);
    let mut engine = open(&machine, &options);
    let mut key = 0;
    while engine.metrics().feed.oldest == 0 {
        key = seal(&engine, key);
        engine.flush().unwrap();
    }
    let used = engine.metrics().feed;
    assert!(
        used.kept_bytes <= 256 << 10 && used.kept_memtables > 2,
        "{used:?}"
    );
    for _ in 0..2 {
        let oldest = engine.metrics().feed.oldest;
        let groups = groups(&mut since(&engine, oldest));
        assert_eq!(groups.len() as u64, u64::from(key) - oldest);
        drop(engine);
        engine = open(&machine, &options);
    }
    options.feed.retain_bytes = 0;
    drop(engine);
    let engine = open(&machine, &options);
    engine.reclaim().unwrap();
    assert_eq!(engine.metrics().feed.oldest, u64::from(key));
    assert_eq!(engine.metrics().memtables.len(), 1);
}

#[test]
fn a_feed_that_nobody_reads_is_cut_off_and_keeps_no_writer_waiting() {
    for (percent, retained) in [(60, 0), (90, 0), (0, PM), (90, 8 * PM), (10, 0)] {
        let mut options = options();
        // Few memtables: descriptors are not what is short.
        options.memtable.bytes_max = 64 << 10;
        options.feed.pins_percent_max = percent;
        options.feed.retain_bytes = retained;
        let engine = open(&Machine::new(PM), &options);
        let mut feed = since(&engine, 0);
        let mut kept = 0;
        // Eight times as much as there is room for.
        for key in 0..8 * u32::try_from(PM).unwrap() / 1024 {
            engine
                .write(puts([key], 1000).iter(), Durability::Immediate)
                .unwrap();
            if key % 128 == 0 {
                kept = kept.max(engine.metrics().feed.kept_bytes);
            }
        }
        assert_eq!(kept > 0, percent > 50 || retained > 0);
        assert!(
            kept <= (PM / 100 * percent).max(retained),
            "{kept} at {percent} %"
        );
        let used = engine.metrics().feed;
        assert_eq!(used.open, 0, "it is cut off: {used:?}");
        let error = feed.next().unwrap().unwrap_err();
        assert_eq!(gone(&error), (0, used.oldest), "{error}");
        assert!(feed.next().is_none());
    }
}

#[test]
fn a_group_can_be_read_when_its_memtable_is_gone_for_others() {
    let engine = open(&Machine::new(PM), &options());
    put(&engine, 1);
    let group = since(&engine, 0).next().unwrap().unwrap();
    engine.flush().unwrap();
    for key in 0..100 {
        put(&engine, key);
    }
    engine.flush().unwrap();
    assert!(engine.changes_since(0).is_err() || engine.metrics().feed.oldest == 0);
    let read = || {
        let changes: Vec<_> = group.changes().map(Result::unwrap).collect();
        assert_eq!(changes.len(), 1);
        let (key, value) = (&1u32.to_be_bytes()[..], [7; 100][..].into());
        assert_eq!(changes[0].op, ChangeOp::Put { key, value });
    };
    read();
    engine.close().unwrap();
    read();
}

#[test]
fn an_ingestion_is_no_change_and_who_was_before_it_hears_of_it() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    put(&engine, 1);
    let mut feed = since(&engine, 0);
    assert_eq!(groups(&mut feed), [(1, 1)]);
    let mut table = IngestWriter::create(&machine.world().env, Path::new("/t.sst")).unwrap();
    table.put(b"a", b"1").unwrap();
    table.finish().unwrap();
    let ingested = engine.ingest(CF, &["/t.sst"]).unwrap();
    put(&engine, 2);
    assert_eq!(engine.metrics().feed.open, 1);
    let error = feed.next().unwrap().unwrap_err();
    assert_eq!(gone(&error), (1, ingested.seqno), "{error}");
    assert_eq!(engine.metrics().feed.open, 0, "it has ended");
    assert_eq!(groups(&mut since(&engine, ingested.seqno)).len(), 1);
    drop(engine);
    let engine = open(&machine.killed(), &options());
    let error = engine.changes_since(1).unwrap_err();
    assert_eq!(gone(&error), (1, ingested.seqno), "{error}");
}

#[test]
fn families_have_names_and_those_that_were_dropped_are_left_out() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    let make = || engine.family("f", &CfOptions::default()).unwrap().id;
    let batch = |family: CfId, value: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(family, b"k", value).unwrap();
        batch.put(CF, b"k", value).unwrap();
        batch.set_metadata(family, value).unwrap();
        batch.delete_range(CF, b"a", None).unwrap();
        batch
    };
    let before = make();
    engine
        .write(batch(before, b"1").iter(), Durability::Immediate)
        .unwrap();
    let names = |engine: &Engine| -> Vec<String> {
        let name = |change: Change<'_>| {
            let (family, id) = (&change.family, change.family_id);
            format!("{} {family}/{id} {}", change.seqno, change.op.name())
        };
        let groups: Vec<ChangeGroup> = since(engine, 0).map(Result::unwrap).collect();
        groups
            .iter()
            .flat_map(|g| g.changes())
            .map(|c| name(c.unwrap()))
            .collect()
    };
    let first = [
        "1 f/1 put",
        "2 default/0 put",
        "3 f/1 metadata",
        "4 default/0 delete_range",
    ];
    assert_eq!(names(&engine), first);
    engine.drop_family("f").unwrap();
    let left = ["2 default/0 put", "4 default/0 delete_range"];
    assert_eq!(names(&engine), left);
    let now = make();
    engine
        .write(batch(now, b"2").iter(), Durability::Immediate)
        .unwrap();
    let second = [
        "5 f/2 put",
        "6 default/0 put",
        "7 f/2 metadata",
        "8 default/0 delete_range",
    ];
    assert_eq!(names(&engine), [&left[..], &second[..]].concat());
    let machine = machine.killed();
    let engine = open(&machine, &options());
    assert_eq!(names(&engine), [&left[..], &second[..]].concat());
}

#[test]
fn a_record_that_is_damaged_is_an_error_that_names_its_place() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    put(&engine, 1);
    let view = engine.inner.common.catalog.view_to_keep();
    let key = 1u32.to_be_bytes();
    let record = view.memtables[0].get(CF, &key, SeqNo(1), true);
    let at = match record.unwrap() {
        thermocline_memtable::Lookup::Record(record) => record.value_at(),
        other => panic!("{other:?}"),
    };
    machine.rot(at);
    let group = since(&engine, 0).next().unwrap().unwrap();
    let mut changes = group.changes();
    let error = changes.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(changes.next().is_none());
}
