//! Files that nobody needs any more, on a disk that fails.

use std::path::Path;

use thermocline_base::CfOptions;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::simulated::SimClock;

use crate::flush::tests::{files, put};
use crate::sync::Arc;
use crate::tests::{Machine, options};
use crate::{Engine, Setup};

/// A sync that fails behind a removal may have covered a name that an edit is about to rely on. A folder that could not be opened
/// was not synced.
#[test]
fn a_failed_sync_behind_a_removal_stops_the_store() {
    let faults = [
        (Fault::NoAccess, false),
        (Fault::SyncKept, true),
        (Fault::SyncNoSpace, true),
    ];
    for (fault, stops) in faults {
        let machine = Machine::new(1 << 20);
        let disk = FaultStorage::over_sim(machine.fs.clone());
        let mut world = machine.world();
        world.env.storage = Arc::new(disk.clone());
        let engine = Engine::open(world, Path::new("/db"), options()).unwrap();
        let op = Some(Op::SyncDir);
        disk.arm(Plan {
            fault,
            op,
            at: disk.calls_for(fault, op),
            repeat: Repeat::Once,
        });
        let inner = &engine.inner;
        let synced = inner.sweeper.sync_removals();
        assert_eq!(disk.fired(), 1, "{fault:?}");
        assert_eq!(synced.is_err(), stops, "{fault:?}");
        let poisoned = inner.common.poison.check().is_err();
        assert_eq!(poisoned, stops, "{fault:?}");
    }
}

/// A get is under way when a family is dropped. Nobody writes behind that.
#[test]
fn files_of_a_dropped_family_that_somebody_reads_go_though_nobody_writes() {
    let machine = Machine::new(1 << 20);
    let clock = Arc::new(SimClock::new());
    let runtime = crate::Runtime::scripted(clock.clone());
    let setup = Setup {
        runtime: Some(runtime.clone()),
        ..Setup::default()
    };
    let mut world = machine.world();
    world.background = true;
    world.env.clock = clock.clone();
    let mut options = options();
    options.set("level0.shape", "global-index").unwrap();
    let engine = Engine::open_with(world, Path::new("/db"), options, setup).unwrap();
    let work = || while runtime.step().is_some() {};
    let time_passes = || {
        for _ in 0..3 {
            clock.advance_ns(60_000_000_000);
            work();
        }
    };
    let family = engine.family("f", &CfOptions::default()).unwrap();
    put(&engine, family.id, b"key", b"value");
    engine.flush().unwrap();
    time_passes();
    let read = engine.inner.common.catalog.view_to_keep();
    engine.drop_family("f").unwrap();
    work();
    assert_eq!(files(&machine), 1);
    drop(read);
    time_passes();
    assert_eq!(files(&machine), 0);
    engine.close().unwrap();
}
