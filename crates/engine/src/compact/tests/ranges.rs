//! Ranges that are compacted on demand.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use thermocline_env::simulated::SimClock;

use super::reads::{below, looking};
use super::*;
use crate::Setup;
use crate::flush::tests::{files, get, tables};
use crate::tests::version_of;

/// A bound at some key, or none.
pub(super) fn bound(keys: &[Vec<u8>], rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(3) {
        0 => Unbounded,
        1 => Included(rng.pick(keys).clone()),
        _ => Excluded(rng.pick(keys).clone()),
    }
}

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Unbounded, Unbounded);

#[test]
fn nothing_is_left_of_what_was_deleted() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    let cf = CfId::DEFAULT;
    let keys: Vec<Vec<u8>> = (0..2000u64).map(|n| n.to_be_bytes().to_vec()).collect();
    for key in &keys {
        put(&engine, cf, key, &[7; 100]);
    }
    engine.flush().unwrap();
    assert!(
        tables(&engine) > 50 && deepest(&engine) > 1,
        "{:?}",
        levels(&engine)
    );
    for key in &keys {
        delete(&engine, cf, key);
    }
    let snapshot = engine.snapshot();
    put(&engine, cf, b"one", b"left");
    engine.compact(cf, ALL).unwrap();
    // Nobody needs a tombstone: nothing lies below.
    assert_eq!(tables(&engine), 1);
    assert_eq!(snapshot.value(cf, &keys[3]).unwrap().as_deref(), None);
    assert_eq!(get(&engine, b"one"), Some(b"left".to_vec()));
    // The snapshot has no need of the old files.
    assert_eq!(files(&machine), 1);
    drop(snapshot);
    engine.reclaim().unwrap();
    let space = engine.metrics().space;
    assert!(space.zones_attached <= 2, "{space:?}");
    engine.close().unwrap();
    let engine = open(&machine, &tiny());
    assert_eq!((tables(&engine), files(&machine)), (1, 1));
    assert_eq!(get(&engine, &keys[3]), None);
}

/// Else a level of which much is written anew would seem to write little for what comes to it.
#[test]
fn what_is_written_anew_where_it_stands_came_from_no_other_level() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    let (cf, key) = (CfId::DEFAULT, |n: u64| n.to_be_bytes());
    (0..60).for_each(|n| put(&engine, cf, &key(n), &[7; 100]));
    let snapshot = engine.snapshot();
    delete(&engine, cf, &key(30));
    engine.compact(cf, ALL).unwrap();
    let counted = || {
        let levels = engine.metrics().compaction.levels;
        let brought: u64 = levels.iter().map(|level| level.bytes_in).sum();
        let written: u64 = levels.iter().map(|level| level.bytes_written).sum();
        (brought, written)
    };
    let before = counted();
    assert!(before.0 > 0);
    // The table with the delete, which nobody needs any more.
    drop(snapshot);
    engine.compact(cf, ALL).unwrap();
    let after = counted();
    assert!(after.1 > before.1, "{before:?}, {after:?}");
    assert_eq!(after.0, before.0);
}

#[test]
fn what_a_snapshot_reads_stays_until_it_has_gone() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &tiny());
    let cf = CfId::DEFAULT;
    let keys: Vec<Vec<u8>> = (0..300u64).map(|n| n.to_be_bytes().to_vec()).collect();
    for key in &keys {
        put(&engine, cf, key, &[7; 100]);
    }
    let snapshot = engine.snapshot();
    for key in &keys {
        delete(&engine, cf, key);
    }
    engine.compact(cf, ALL).unwrap();
    // Each key twice, and rewritten once at most: it ends.
    let entries = |engine: &Engine| {
        let version = version_of(engine);
        version
            .tables()
            .map(|(_, table)| table.entries)
            .sum::<u64>()
    };
    assert_eq!(entries(&engine), 600);
    for key in &keys {
        assert_eq!(
            snapshot.value(cf, key).unwrap().as_deref(),
            Some(&[7; 100][..])
        );
        assert_eq!(get(&engine, key), None);
    }
    drop(snapshot);
    engine.compact(cf, ALL).unwrap();
    assert_eq!((entries(&engine), files(&machine)), (0, 0));
}

#[test]
fn a_range_ends_in_one_level_without_tombstones_and_others_stay() {
    for seed in seeds(0..12) {
        let _replay = Replay::new("-p thermocline-engine a_range_ends_in_one_level", seed);
        let mut rng = Rng::new(seed);
        let mut story = Story::begin(any(&mut rng));
        for n in 0..1500 {
            story.write(&mut rng);
            if n % 300 == 299 {
                flush(&story.engine);
            }
            if n % 700 == 699 {
                while story.engine.compact_once().unwrap() {}
            }
        }
        let (from, to) = (bound(&story.keys, &mut rng), bound(&story.keys, &mut rng));
        let (from, to) = (from.as_ref().map(|k| &k[..]), to.as_ref().map(|k| &k[..]));
        let cf = story.families[rng.below(2)].id;
        story.engine.compact(cf, (from, to)).unwrap();
        let version = version_of(&story.engine);
        let within = |key: &Vec<u8>| {
            use std::ops::RangeBounds;
            (from, to).contains(&key[..])
        };
        let levels_of = |key: &Vec<u8>| {
            let partition = version.family(cf)?;
            let has = |tables: &std::sync::Arc<thermocline_version::LevelTables>| {
                tables.may_have(key).map(|t| t.deletes).max()
            };
            let levels = partition
                .levels()
                .filter_map(|(level, t)| Some((level.0, has(t)?)));
            Some(levels.collect::<Vec<_>>())
        };
        let found: Vec<_> = story.keys.iter().filter(|key| within(key)).collect();
        let mut in_levels: Vec<u8> = Vec::new();
        for key in found {
            let of_key = levels_of(key).unwrap_or_default();
            assert!(of_key.len() <= 1, "{key:?} in {of_key:?}");
            assert!(
                of_key
                    .iter()
                    .all(|(level, deletes)| *level > 0 && *deletes == 0)
            );
            in_levels.extend(of_key.iter().map(|(level, _)| *level));
        }
        in_levels.dedup();
        assert!(in_levels.len() <= 1, "{in_levels:?}");
        story.check();
    }
}

#[test]
fn an_empty_range_and_a_dropped_family() {
    let engine = open(&Machine::new(PM), &tiny());
    put(&engine, CfId::DEFAULT, b"k", b"v");
    let empty = (Excluded(&b"k"[..]), Included(&b"k"[..]));
    engine.compact(CfId::DEFAULT, empty).unwrap();
    assert_eq!(levels(&engine)[0], 1);
    engine
        .compact(CfId::DEFAULT, (Included(&b"k"[..]), Included(&b"k"[..])))
        .unwrap();
    assert_eq!(levels(&engine)[0], 0);
    let other = engine
        .family("other", &thermocline_base::CfOptions::default())
        .unwrap();
    engine.drop_family("other").unwrap();
    let error = engine.compact(other.id, ALL).unwrap_err();
    assert_eq!(
        error.kind(),
        thermocline_base::ErrorKind::InvalidArgument,
        "{error}"
    );
}

/// A read is under way when the last job ends. Nobody writes behind that.
#[test]
fn files_that_somebody_reads_when_they_become_obsolete_go_though_nobody_writes() {
    let machine = Machine::new(PM);
    let clock = Arc::new(SimClock::new());
    let runtime = crate::Runtime::scripted(clock.clone());
    let setup = Setup {
        runtime: Some(runtime.clone()),
        ..Setup::default()
    };
    let world = World {
        background: true,
        ..world_of(&machine, &clock)
    };
    let engine = Engine::open_with(world, Path::new("/db"), looking(), setup).unwrap();
    let time_passes = || {
        for _ in 0..3 {
            clock.advance_ns(60_000_000_000);
            while runtime.step().is_some() {}
        }
    };
    below(&engine, 0..60);
    put(&engine, CfId::DEFAULT, &[0, 30], b"newer");
    flush(&engine);
    time_passes();
    assert_eq!((levels(&engine)[0], files(&machine)), (1, 2));
    let read = engine.inner.common.catalog.view_to_keep();
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!((tables(&engine), files(&machine)), (1, 3));
    drop(read);
    time_passes();
    assert_eq!((tables(&engine), files(&machine)), (1, 1));
    engine.close().unwrap();
}
