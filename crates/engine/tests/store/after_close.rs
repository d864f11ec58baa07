//! Once a store is closed, or its last handle has gone, nothing of it touches its folder or its
//! region: whatever its workers had before them, and whoever still holds a snapshot or a cursor.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, ErrorKind, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, Runtime, RuntimeOptions, Setup, World};
use thermocline_env::fault::{Fault, FaultStorage};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_env::{Clock, Env};
use thermocline_pm::SimPm;

const CF: CfId = CfId::DEFAULT;

/// A machine that counts what is done to it.
struct Machine {
    disk: FaultStorage,
    pm: SimPm,
}

impl Machine {
    fn new() -> Machine {
        Machine {
            disk: FaultStorage::over_sim(SimFs::new(Steps::new())),
            pm: SimPm::new(1 << 20, Steps::new()),
        }
    }

    fn open(&self, runtime: &Runtime) -> Engine {
        let world = World {
            env: Env {
                storage: Arc::new(self.disk.clone()),
                ..Env::simulated(SimFs::new(Steps::new()), 7)
            },
            shadow: None,
            sim: Some(self.pm.clone()),
            background: true,
        };
        let mut options = Options {
            pm: 1 << 20,
            ..Options::default()
        };
        options.pm_region.part_bytes_first = 256 << 10;
        options.memtable.bytes_max = 20_000;
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        Engine::open_with(world, Path::new("/db"), options, setup).unwrap()
    }

    /// Calls of the storage, and points at which persistent memory became durable.
    fn touched(&self) -> (u64, u64) {
        let steps = self.pm.steps().count();
        (self.disk.calls_for(Fault::Eio, None), steps)
    }
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) -> thermocline_base::Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

fn runtime(clock: &Arc<SimClock>) -> Runtime {
    Runtime::with_clock(RuntimeOptions::default(), clock.clone()).unwrap()
}

/// Lets an hour pass, and returns when the workers have done what was due then.
fn an_hour(clock: &SimClock, runtime: &Runtime, other: &Engine, machine: &Machine) {
    put(other, b"k", b"v").unwrap();
    let before = machine.touched();
    // The first look finds a write, the second none, and covers it.
    while machine.touched() == before {
        clock.sleep_ms(60 * 60_000);
        runtime.look_at_clock();
        std::thread::yield_now();
    }
}

#[test]
fn a_closed_store_touches_nothing() {
    for last_handle in [false, true] {
        let clock = Arc::new(SimClock::new());
        let runtime = runtime(&clock);
        let other_machine = Machine::new();
        let other = other_machine.open(&runtime);
        let machine = Machine::new();
        let engine = machine.open(&runtime);
        // Enough for the region to grow and for memtables to come: the workers have something to
        // do, and a deadline.
        for k in 0..200u8 {
            put(&engine, &[k], &[k; 1000]).unwrap();
        }
        let snapshot = engine.snapshot();
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        assert!(cursor.seek_to_first().unwrap());
        let handle = (!last_handle).then(|| engine.clone());
        if last_handle {
            drop(engine);
        } else {
            engine.close().unwrap();
            engine.close().unwrap();
        }
        let touched = machine.touched();
        assert_eq!(runtime.metrics().stores, 1);
        assert_eq!(runtime.metrics().timers, 0);
        an_hour(&clock, &runtime, &other, &other_machine);
        for k in 0..200u8 {
            let found = snapshot.get(CF, &[k], <[u8]>::to_vec).unwrap();
            assert_eq!(found, Some(vec![k; 1000]));
            assert_eq!(cursor.key(), [k]);
            cursor.next().unwrap();
        }
        if let Some(handle) = handle {
            assert!(put(&handle, b"k", b"v").is_err());
            assert!(handle.family("new", &CfOptions::default()).is_err());
            assert!(handle.work_ahead().is_err() && handle.cover_idle().is_err());
            let refused = handle.get(CF, &[9], <[u8]>::to_vec).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed, "a handle is no reader");
            let refused = handle.table_indexes().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed, "nor of tables");
            assert_eq!(handle.metrics().durable, 200);
            handle.close().unwrap();
        }
        drop((cursor, snapshot));
        an_hour(&clock, &runtime, &other, &other_machine);
        assert_eq!(machine.touched(), touched, "last handle: {last_handle}");
    }
}

#[test]
fn a_store_that_fell_idle_covers_its_last_write_and_then_sleeps() {
    let clock = Arc::new(SimClock::new());
    let runtime = runtime(&clock);
    let machine = Machine::new();
    let engine = machine.open(&runtime);
    assert_eq!(runtime.metrics().timers, 0, "nothing was written");
    assert_eq!(runtime.metrics().workers, 0);
    let write_and_wait = |n: u8| {
        put(&engine, &[n], b"v").unwrap();
        assert_eq!(runtime.metrics().timers, 1);
        let before = machine.touched();
        while machine.touched() == before {
            clock.sleep_ms(1000);
            runtime.look_at_clock();
            std::thread::yield_now();
        }
    };
    write_and_wait(0);
    write_and_wait(1);
    // The task ends after its last touch.
    engine.close().unwrap();
    assert_eq!(runtime.metrics().timers, 0);
}
