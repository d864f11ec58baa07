//! Tables with many deletes meet what these hide, though no level is too large and nobody reads.

use std::ops::Bound;

use thermocline_env::simulated::SimClock;
use thermocline_policy::pick::Reason;

use super::*;
use crate::Setup;

const CF: CfId = CfId::DEFAULT;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Bytes in the deepest level, and deletes in all.
fn left(engine: &Engine) -> (u64, u64) {
    let version = version_of(engine);
    let tables = version.tables();
    let of = tables.map(|(place, table)| match place.level {
        Level::ZERO => (0, table.deletes),
        _ => (table.bytes, table.deletes),
    });
    of.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
}

#[test]
fn what_is_deleted_between_what_lives_goes_by_itself() {
    for shape in ["ssd", "pm-tables"] {
        let machine = Machine::new(PM);
        let mut options = tiny();
        options.set("level0.shape", shape).unwrap();
        let engine = open(&machine, &options);
        (0..400).for_each(|n| put(&engine, CF, &key(n), &[7; 100]));
        flush(&engine);
        engine
            .compact(CF, (Bound::Unbounded, Bound::Unbounded))
            .unwrap();
        let (before, _) = left(&engine);
        // Every fourth lives. What a snapshot sees stays until it has gone.
        let snapshot = engine.snapshot();
        let at = snapshot.seqno();
        let waits = || engine.inner.common.compactions.deleted.waits_for(at);
        assert!(!engine.compact_once().unwrap() && !waits());
        let deleted = || (0..400).filter(|n| n % 4 != 0);
        deleted()
            .take(190)
            .for_each(|n| delete(&engine, CF, &key(n)));
        flush(&engine);
        while engine.compact_once().unwrap() {}
        assert_eq!(left(&engine), (before, 190), "{shape}: too few");
        deleted()
            .skip(190)
            .for_each(|n| delete(&engine, CF, &key(n)));
        flush(&engine);
        while engine.compact_once().unwrap() {}
        assert_eq!(left(&engine), (before, 300), "{shape}: somebody reads");
        assert!(waits());
        drop(snapshot);
        while engine.compact_once().unwrap() {}
        let (after, deletes) = left(&engine);
        // Few may be left where they are fewer than half of what lies below.
        let sank = after < before * 2 / 5 && deletes < 30;
        assert!(sank, "{shape}: {after} of {before}, {deletes} deletes");
        let reasons = engine.metrics().compaction.reasons;
        let jobs = reasons.iter().find(|(of, _)| *of == Reason::Tombstones);
        assert!(jobs.is_some_and(|(_, jobs)| *jobs > 0), "{reasons:?}");
        for n in 0..400 {
            let found = engine.get(CF, &key(n), <[u8]>::len).unwrap();
            assert_eq!(found, (n % 4 == 0).then_some(100));
        }
    }
}

/// Nothing else happens in the store: nobody writes, and no time passes.
#[test]
fn the_reader_for_whom_deletes_waited_wakes_them_when_it_goes() {
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
    let engine = Engine::open_with(world, Path::new("/db"), tiny(), setup).unwrap();
    let work = || while runtime.step().is_some() {};
    (0..400).for_each(|n| put(&engine, CF, &key(n), &[7; 100]));
    flush(&engine);
    engine
        .compact(CF, (Bound::Unbounded, Bound::Unbounded))
        .unwrap();
    work();
    let (before, _) = left(&engine);
    let first = engine.snapshot();
    let second = engine.snapshot();
    let deleted = (0..400).filter(|n| n % 4 != 0);
    deleted.for_each(|n| delete(&engine, CF, &key(n)));
    flush(&engine);
    work();
    assert_eq!(left(&engine), (before, 300));
    drop(second);
    work();
    assert_eq!(left(&engine), (before, 300), "the first still reads");
    drop(first);
    work();
    let (after, deletes) = left(&engine);
    assert!(after < before * 2 / 5 && deletes < 30, "{after}, {deletes}");
    engine.close().unwrap();
    work();
}
