//! A callback or listener of the user that does not return: what it holds up, and what it must not.
//!
//! It waits at a channel, and time is simulated. What such a call must not hold up, and did, would hang
//! here.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{
    Durability, Engine, Event, EventListener, Runtime, RuntimeOptions, Setup, World,
};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_env::{Clock, Env};
use thermocline_pm::SimPm;

const CF: CfId = CfId::DEFAULT;

/// Of so many buffered writes one is not durable at once, if nobody asks for that: a write-back may be under way that commits have asked
/// for, and another one may wait, and neither takes along what comes behind its beginning.
const PUTS: u32 = 3;

/// A simulated machine.
struct Machine {
    fs: SimFs,
    pm: SimPm,
    clock: Arc<SimClock>,
}

impl Machine {
    fn new(clock: &Arc<SimClock>) -> Machine {
        Machine {
            fs: SimFs::new(Steps::new()),
            pm: SimPm::new(64 << 20, Steps::new()),
            clock: clock.clone(),
        }
    }

    fn try_open(
        &self,
        runtime: &Runtime,
        listener: Option<Arc<dyn EventListener>>,
    ) -> Result<Engine> {
        let world = World {
            env: Env {
                clock: self.clock.clone(),
                ..Env::simulated(self.fs.clone(), 7)
            },
            shadow: None,
            sim: Some(self.pm.clone()),
            background: true,
        };
        let mut options = Options {
            pm: 64 << 20,
            ..Options::default()
        };
        options.commit.buffered_bytes = 1 << 30;
        // Nothing but the timer of buffered writes makes them durable.
        options.memtable.idle_ms = 3_600_000;
        let setup = Setup {
            runtime: Some(runtime.clone()),
            listener,
            ..Setup::default()
        };
        Engine::open_with(world, Path::new("/db"), options, setup)
    }

    fn open(&self, runtime: &Runtime) -> Engine {
        self.try_open(runtime, None).unwrap()
    }
}

fn clock_and_runtime() -> (Arc<SimClock>, Runtime) {
    let clock = Arc::new(SimClock::new());
    let runtime = Runtime::with_clock(RuntimeOptions::default(), clock.clone()).unwrap();
    (clock, runtime)
}

fn batch(key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, b"value").unwrap();
    batch
}

fn put(engine: &Engine, key: &[u8], durability: Durability) {
    engine.write(batch(key).iter(), durability).unwrap();
}

/// A commit whose callback waits until the sender is used or dropped. Returns when it does.
fn block(engine: &Engine) -> Sender<()> {
    let (key, door): (_, Receiver<()>) = channel();
    let (begins, begun) = channel();
    let blocked = move |result: Result<()>| {
        result.unwrap();
        begins.send(()).unwrap();
        let _ = door.recv();
    };
    engine
        .write_with_callback(batch(b"blocked").iter(), false, Box::new(blocked))
        .unwrap();
    begun.recv().unwrap();
    key
}

/// Buffered writes of both are durable once a second has passed.
fn is_durable_within_a_second(clock: &SimClock, runtime: &Runtime, stores: &[&Engine]) {
    for engine in stores {
        // What was asked for before may take along some, but not each.
        let mut puts = 0..PUTS;
        let waits = puts.any(|_| {
            put(engine, b"buffered", Durability::Buffered);
            engine.durable() < engine.visible()
        });
        assert!(waits, "each is durable at once, and nobody asks for that");
    }
    clock.sleep_ms(1000);
    runtime.look_at_clock();
    for engine in stores {
        while engine.durable() < engine.visible() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn buffered_writes_are_durable_within_a_second_beside_a_blocked_callback() {
    let (clock, runtime) = clock_and_runtime();
    let machines = [Machine::new(&clock), Machine::new(&clock)];
    let [same, other] = machines.each_ref().map(|machine| machine.open(&runtime));
    let key = block(&same);
    is_durable_within_a_second(&clock, &runtime, &[&other]);
    is_durable_within_a_second(&clock, &runtime, &[&same, &other]);
    key.send(()).unwrap();
}

#[test]
fn buffered_writes_are_durable_within_a_second_beside_a_blocked_listener() {
    let (clock, runtime) = clock_and_runtime();
    let machines = [Machine::new(&clock), Machine::new(&clock)];
    let (key, door) = channel::<()>();
    let (begins, begun) = channel();
    let door = Mutex::new(door);
    let listener = move |_: &Event| {
        let _ = begins.send(());
        let _ = door.lock().unwrap().recv();
    };
    let same = machines[0]
        .try_open(&runtime, Some(Arc::new(listener)))
        .unwrap();
    let other = machines[1].open(&runtime);
    // It is told that the store was opened.
    begun.recv().unwrap();
    is_durable_within_a_second(&clock, &runtime, &[&other]);
    is_durable_within_a_second(&clock, &runtime, &[&same, &other]);
    drop(key);
}

#[test]
fn another_store_is_told_beside_a_blocked_callback() {
    let (clock, runtime) = clock_and_runtime();
    let machines: Vec<Machine> = (0..5).map(|_| Machine::new(&clock)).collect();
    let engines: Vec<Engine> = machines.iter().map(|m| m.open(&runtime)).collect();
    let keys: Vec<Sender<()>> = engines[1..].iter().map(block).collect();
    // As each of those was, though the ones before it are blocked.
    let (told, tells) = channel();
    for _ in 0..100 {
        let told = told.clone();
        let done = move |result: Result<()>| told.send(result).unwrap();
        engines[0]
            .write_with_callback(batch(b"k").iter(), false, Box::new(done))
            .unwrap();
        tells.recv().unwrap().unwrap();
    }
    drop(keys);
}

#[test]
fn closing_gives_up_the_folder_and_then_waits_for_a_blocked_callback() {
    for by_drop in [false, true] {
        let (clock, runtime) = clock_and_runtime();
        let machine = Machine::new(&clock);
        let engine = machine.open(&runtime);
        let key = block(&engine);
        put(&engine, b"buffered", Durability::Buffered);
        let (told, tells) = channel();
        for n in 0..10u8 {
            let told = told.clone();
            let done = move |result: Result<()>| told.send((n, result)).unwrap();
            engine
                .write_with_callback(batch(&[n]).iter(), false, Box::new(done))
                .unwrap();
        }
        let (ends, end) = channel();
        let closes = std::thread::spawn(move || {
            if by_drop {
                drop(engine);
            } else {
                engine.close().unwrap();
            }
            ends.send(()).unwrap();
        });
        // The next opening waits for no callback.
        let again = loop {
            match machine.try_open(&runtime, None) {
                Ok(engine) => break engine,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Locked, "{error}"),
            }
            std::thread::yield_now();
        };
        assert!(!again.metrics().recovery.sealed_by_recovery);
        assert!(again.get(CF, b"buffered", |_| ()).unwrap().is_some());
        assert!(tells.try_recv().is_err() && end.try_recv().is_err());
        key.send(()).unwrap();
        end.recv().unwrap();
        // By then every commit was told.
        for n in 0..10u8 {
            let (m, result) = tells.try_recv().unwrap();
            result.unwrap();
            assert_eq!(m, n);
        }
        closes.join().unwrap();
    }
}

/// Closing waits for no callback there. Those that are left are called all the same, and they are more than one call of the
/// store makes.
#[test]
fn a_callback_that_lets_the_last_handle_go_takes_no_other_callback_along() {
    const MORE: u32 = 1000;
    let (clock, runtime) = clock_and_runtime();
    let machine = Machine::new(&clock);
    let engine = machine.open(&runtime);
    let (key, door) = channel::<Engine>();
    let lets_go = move |result: Result<()>| {
        result.unwrap();
        drop(door.recv().unwrap());
    };
    engine
        .write_with_callback(batch(b"first").iter(), false, Box::new(lets_go))
        .unwrap();
    let (told, tells) = channel();
    for n in 0..MORE {
        let told = told.clone();
        let done = move |result: Result<()>| told.send((n, result)).unwrap();
        engine
            .write_with_callback(batch(b"k").iter(), false, Box::new(done))
            .unwrap();
    }
    // A callback that nobody calls any more is dropped, and then this test fails and does not hang.
    drop(told);
    key.send(engine).unwrap();
    for n in 0..MORE {
        let (m, result) = tells.recv().unwrap();
        result.unwrap();
        assert_eq!(m, n);
    }
    let again = machine.open(&runtime);
    assert!(!again.metrics().recovery.sealed_by_recovery);
}

#[test]
fn commits_that_wait_for_their_callbacks_are_bounded() {
    const MOST: u64 = 1 << 16;
    let (clock, runtime) = clock_and_runtime();
    let machine = Machine::new(&clock);
    let engine = machine.open(&runtime);
    let told = Arc::new(AtomicU64::new(0));
    let commit = |no_slowdown| {
        let told = told.clone();
        let done = move |result: Result<()>| {
            result.unwrap();
            told.fetch_add(1, Ordering::Relaxed);
        };
        engine.write_with_callback(batch(b"k").iter(), no_slowdown, Box::new(done))
    };
    let key = block(&engine);
    for _ in 1..MOST {
        commit(false).unwrap();
    }
    assert_eq!(engine.metrics().deliveries.commits, MOST);
    let error = commit(true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("65536 commits"), "{error}");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| commit(false).unwrap());
        // Neither does that hold up anybody else.
        is_durable_within_a_second(&clock, &runtime, &[&engine]);
        assert!(!waits.is_finished());
        assert_eq!(engine.metrics().deliveries.commits, MOST);
        key.send(()).unwrap();
        waits.join().unwrap();
    });
    engine.close().unwrap();
    assert_eq!(told.load(Ordering::Relaxed), MOST);
    assert_eq!(engine.metrics().deliveries.commits, 0);
}

#[test]
fn a_callback_that_commits_waits_for_no_callback() {
    const MOST: u64 = 1 << 16;
    let (clock, runtime) = clock_and_runtime();
    let machines = [Machine::new(&clock), Machine::new(&clock)];
    let engines = machines.each_ref().map(|machine| machine.open(&runtime));
    let (kind, kinds) = channel();
    let mut keys = Vec::new();
    for engine in &engines {
        let (key, door) = channel();
        keys.push(key);
        let (both, kind) = (engines.clone(), kind.clone());
        let done = move |_: Result<()>| {
            door.recv().unwrap();
            // With the callbacks of the very store, and with those of one whose callback does the same.
            for engine in &both {
                let again = engine.write_with_callback(batch(b"k").iter(), false, Box::new(drop));
                kind.send(again.map_err(|error| error.kind())).unwrap();
            }
        };
        engine
            .write_with_callback(batch(b"k").iter(), false, Box::new(done))
            .unwrap();
        for _ in 1..MOST {
            engine
                .write_with_callback(batch(b"k").iter(), false, Box::new(drop))
                .unwrap();
        }
    }
    keys[0].send(()).unwrap();
    for _ in 0..2 {
        assert_eq!(kinds.recv().unwrap(), Err(ErrorKind::Busy));
    }
    keys[1].send(()).unwrap();
    // The first may have room again by now.
    kinds.recv().unwrap().ok();
    assert_eq!(kinds.recv().unwrap(), Err(ErrorKind::Busy));
}

#[test]
fn events_that_wait_for_a_listener_are_bounded() {
    const MOST: u64 = 4096;
    let (clock, runtime) = clock_and_runtime();
    let machine = Machine::new(&clock);
    let (key, door) = channel::<()>();
    let (begins, begun) = channel();
    let (door, told) = (Mutex::new(door), Arc::new(Mutex::new(Vec::new())));
    let listener = {
        let told = told.clone();
        move |event: &Event| {
            let _ = begins.send(());
            let _ = door.lock().unwrap().recv();
            told.lock().unwrap().push(event.clone());
        }
    };
    let engine = machine.try_open(&runtime, Some(Arc::new(listener)));
    let engine = engine.unwrap();
    begun.recv().unwrap();
    let families = |of: std::ops::Range<u64>| {
        for n in of {
            engine
                .family(&n.to_string(), &CfOptions::default())
                .unwrap();
        }
    };
    families(0..MOST + 100);
    let metrics = engine.metrics().deliveries;
    assert!(
        metrics.events == MOST && metrics.events_lost >= 100,
        "{metrics:?}"
    );
    drop(key);
    while engine.metrics().deliveries.events > 0 {
        std::thread::yield_now();
    }
    families(MOST + 100..MOST + 110);
    engine.close().unwrap();
    let told = told.lock().unwrap();
    // Each family is told, or lost, and where it is lost that is said.
    let lost: u64 = told
        .iter()
        .map(|event| match event {
            Event::EventsLost { events } => *events,
            _ => 0,
        })
        .sum();
    assert_eq!(lost, engine.metrics().deliveries.events_lost);
    let gap = told
        .iter()
        .position(|event| matches!(event, Event::EventsLost { .. }))
        .unwrap();
    assert_eq!(gap as u64, MOST + 1, "behind all that waited");
    let names = told[gap..].iter().filter_map(|event| match event {
        Event::ColumnFamilyCreated { name } => Some(name.clone()),
        _ => None,
    });
    let after: Vec<String> = (MOST + 100..MOST + 110).map(|n| n.to_string()).collect();
    assert_eq!(names.collect::<Vec<_>>(), after);
    assert_eq!(told.last(), Some(&Event::Closed { error: None }));
}
