//! Events: which, in which order, and what a listener may do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Error, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{
    Durability, Engine, Event, EventListener, Family, Runtime, RuntimeOptions, Setup, StallCause,
    World,
};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, Storage};
use thermocline_pm::SimPm;
use tracing::field::{Field, Visit};
use tracing::span;

const CF: CfId = CfId::DEFAULT;

/// A simulated machine.
struct Machine {
    fs: SimFs,
    disk: FaultStorage,
    pm: SimPm,
    size: u64,
}

impl Machine {
    fn new() -> Machine {
        Machine::sized(1 << 20)
    }

    fn sized(pm: u64) -> Machine {
        let fs = SimFs::new(Steps::new());
        Machine {
            disk: FaultStorage::over_sim(fs.clone()),
            pm: SimPm::new(pm, Steps::new()),
            size: pm,
            fs,
        }
    }

    fn open(
        &self,
        background: bool,
        runtime: Option<&Runtime>,
        listener: impl EventListener + 'static,
    ) -> Result<Engine> {
        let storage: Arc<dyn Storage> = Arc::new(self.disk.clone());
        let world = World {
            env: Env {
                storage,
                ..Env::simulated(self.fs.clone(), 7)
            },
            shadow: None,
            sim: Some(self.pm.clone()),
            background,
        };
        let mut options = Options {
            pm: self.size,
            ..Options::default()
        };
        options.pm_region.part_bytes_first = 256 << 10;
        options.flush.automatic = false;
        options.memtable.bytes_max = 100_000;
        options.manifest.bytes_max = 512;
        options.set("level0.shape", "global-index").unwrap();
        let setup = Setup {
            runtime: runtime.cloned(),
            listener: Some(Arc::new(listener)),
            ..Setup::default()
        };
        Engine::open_with(world, Path::new("/db"), options, setup)
    }
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

/// What was told, in a word each.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Event>>>);

impl EventListener for Log {
    fn event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Log {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn words(&self) -> Vec<String> {
        let word = |event: &Event| {
            let text = format!("{event:?}");
            text.split(' ').next().unwrap().to_string()
        };
        self.take().iter().map(word).collect()
    }
}

#[test]
fn each_event_is_told_at_the_end_of_the_call_where_there_are_no_threads() {
    let machine = Machine::new();
    let log = Log::default();
    let engine = machine.open(false, None, log.clone()).unwrap();
    let [
        Event::Opened {
            records: 0,
            after_crash: false,
            ..
        },
    ] = log.take()[..]
    else {
        panic!("opened");
    };
    put(&engine, b"first", b"v").unwrap();
    assert!(log.take().is_empty());
    engine.family("other", &CfOptions::default()).unwrap();
    assert_eq!(
        log.take(),
        [Event::ColumnFamilyCreated {
            name: "other".into()
        }]
    );
    engine.family("other", &CfOptions::default()).unwrap();
    assert!(log.take().is_empty(), "it was there");
    // Memtables come and go, the region grows, and is full.
    let (mut sealed, mut switched, mut size) = (0, 0, 256 << 10);
    let mut key = 0u32;
    let refused = loop {
        // Another one each time: nothing of it dies.
        key += 1;
        let done = put(&engine, &key.to_be_bytes(), &[0; 3000]);
        for event in log.take() {
            match event {
                Event::MemtableSealed { id, records, bytes } => {
                    sealed += 1;
                    assert_eq!(id, sealed);
                    assert!(records > 20 && bytes > 90_000, "{records} {bytes}");
                }
                Event::MemtablePrepared { id } => assert_eq!(id, sealed + 2),
                Event::RegionGrown {
                    from_bytes,
                    to_bytes,
                } => {
                    assert_eq!(from_bytes, size);
                    size = to_bytes;
                }
                Event::ManifestSwitched { path, .. } => {
                    switched += 1;
                    assert!(path.starts_with("/db") && machine.fs.contents(&path).is_some());
                }
                Event::WriteStalled { .. } => (),
                Event::WritesRefused { cause } => {
                    assert!(done.is_err() && cause.contains("raise pm"), "{cause}");
                }
                other => panic!("{other:?}"),
            }
        }
        if let Err(error) = done {
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
    assert!(sealed > 3, "{sealed}");
    // Long names until the manifest has doubled, if it has not yet.
    for n in 0..100 {
        let name = format!("{n}{}", "x".repeat(200));
        engine.family(&name, &CfOptions::default()).unwrap();
        let told = log.take();
        switched += told
            .iter()
            .filter(|event| matches!(event, Event::ManifestSwitched { .. }))
            .count();
        if switched > 0 {
            break;
        }
    }
    assert!(switched > 0);
    assert_eq!(size, engine.metrics().space.region_bytes);
    let stalls = engine.metrics().stalls;
    // One of each was told when the region was due to grow or a memtable to be named.
    assert!(
        [StallCause::Growth, StallCause::Memtable]
            .iter()
            .all(|cause| stalls
                .iter()
                .any(|(of, stall)| of == cause && stall.count > 0)),
        "{stalls:?}"
    );
    engine.close().unwrap();
    assert_eq!(log.take(), [Event::Closed { error: None }]);
    engine.close().unwrap();
    drop(engine);
    assert!(log.take().is_empty());
}

/// Whatever the call is: nobody may come by afterwards.
#[test]
fn what_a_call_drops_is_told_at_its_end_where_there_are_no_threads() {
    let machine = Machine::new();
    let log = Log::default();
    let engine = machine.open(false, None, log.clone()).unwrap();
    engine.family("other", &CfOptions::default()).unwrap();
    engine.drop_family("other").unwrap();
    let gone = Event::ColumnFamilyDropped {
        name: "other".into(),
    };
    assert!(log.take().contains(&gone));
    // Who holds a value where it lies keeps the memtable, which is flushed.
    put(&engine, b"long", &[7; 5000]).unwrap();
    let value = engine.value(CF, b"long").unwrap().unwrap();
    assert!(value.is_pinned());
    assert_eq!(engine.flush().unwrap(), 1);
    let dropped = || {
        let told = log.take().into_iter();
        told.filter(|event| matches!(event, Event::MemtableDropped { .. }))
            .count()
    };
    assert_eq!(dropped(), 0);
    drop(value);
    assert_eq!(engine.reclaim().unwrap(), 1);
    assert_eq!(dropped(), 1);
}

#[test]
fn refusals_are_told_once_until_writes_of_that_size_are_taken() {
    let machine = Machine::new();
    let log = Log::default();
    let engine = machine.open(false, None, log.clone()).unwrap();
    put(&engine, b"k", b"v").unwrap();
    log.take();
    let told = |what: &[&str]| {
        let mut words = log.words();
        words.retain(|word| word.starts_with("Writes"));
        assert_eq!(words, what);
    };
    // More than the region can ever take.
    for _ in 0..3 {
        put(&engine, b"big", &[0; 900_000]).unwrap_err();
    }
    told(&["WritesRefused"]);
    put(&engine, b"small", b"v").unwrap();
    put(&engine, b"bigger", &[0; 950_000]).unwrap_err();
    told(&[]);
    let mut n = 0u32;
    while put(&engine, &n.to_be_bytes(), &[0; 3000]).is_ok() {
        n += 1;
    }
    // Smaller ones are refused too by now; they were told of already.
    told(&[]);
    let mut delete = WriteBatch::new();
    delete.delete(CF, b"k").unwrap();
    engine.write(delete.iter(), Durability::Immediate).unwrap();
    told(&[]);
    drop(engine);
    log.take();
    let engine = machine.open(false, None, log.clone()).unwrap();
    put(&engine, b"k", &[0; 400_000]).unwrap_err();
    told(&["WritesRefused"]);
}

#[test]
fn it_is_told_when_writes_are_taken_again() {
    let runtime = Runtime::new(RuntimeOptions {
        dram: 1 << 20,
        ..RuntimeOptions::default()
    });
    let runtime = runtime.unwrap();
    let (machine, other_machine) = (Machine::new(), Machine::sized(8 << 20));
    let log = Log::default();
    let engine = machine.open(false, Some(&runtime), log.clone()).unwrap();
    let other = other_machine
        .open(false, Some(&runtime), |_: &Event| ())
        .unwrap();
    let mut n = 0u64;
    while put(
        &other,
        &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
        b"",
    )
    .is_ok()
    {
        n += 1;
    }
    log.take();
    for _ in 0..3 {
        put(&engine, b"k", b"v").unwrap_err();
    }
    let told = log.take();
    let [Event::WritesRefused { cause }] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(cause.contains("raise the runtime's dram"), "{cause}");
    drop(other);
    for _ in 0..3 {
        put(&engine, b"k", b"v").unwrap();
    }
    assert_eq!(log.take(), [Event::WritesResumed]);
}

#[test]
fn a_failed_persist_is_told_once_with_its_cause() {
    for background in [false, true] {
        let machine = Machine::new();
        let log = Log::default();
        let engine = machine.open(background, None, log.clone()).unwrap();
        put(&engine, b"k", b"v").unwrap();
        machine.disk.arm(Plan {
            fault: Fault::Eio,
            op: Some(Op::Sync),
            at: machine.disk.calls_for(Fault::Eio, Some(Op::Sync)),
            repeat: Repeat::Forever,
        });
        let error = engine.family("other", &CfOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let cause = error.to_string();
        put(&engine, b"k", b"w").unwrap_err();
        engine.close().unwrap_err();
        let told = log.take();
        let [
            Event::Opened { .. },
            Event::Poisoned { cause: told },
            Event::Closed { error: Some(why) },
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(*told, cause);
        assert!(why.contains(&cause), "{why}");
    }
}

#[test]
fn a_write_whose_persist_fails_is_told_once() {
    let machine = Machine::new();
    let log = Log::default();
    let engine = machine.open(false, None, log.clone()).unwrap();
    put(&engine, b"k", b"v").unwrap();
    log.take();
    machine.pm.fail_fence_in(0);
    let cause = put(&engine, b"k", b"w").unwrap_err().to_string();
    assert_eq!(log.take(), [Event::Poisoned { cause }]);
}

/// A listener that uses the store whose events it is told, and closes it in the end.
#[derive(Clone, Default)]
struct Busy {
    engine: Arc<OnceLock<Mutex<Option<Engine>>>>,
    log: Log,
}

impl Busy {
    /// Whether it has closed the store in an event before this one.
    fn has_closed_it(&self, event: &Event) -> bool {
        let told = self.log.0.lock().unwrap();
        let is_last =
            |e: &Event| matches!(e, Event::ColumnFamilyCreated { name } if name == "last");
        told.iter().any(is_last) && !is_last(event)
    }
}

impl EventListener for Busy {
    fn event(&self, event: &Event) {
        self.log.event(event);
        if matches!(event, Event::Opened { .. }) {
            return; // `engine` is set when that has returned
        }
        let engine = self.engine.wait().lock().unwrap();
        let Some(engine) = engine.as_ref() else {
            return;
        };
        // All of this would wait for ever under a lock of the store's.
        if self.has_closed_it(event) {
            let read = engine.get(CF, b"k", <[u8]>::to_vec);
            assert!(matches!(read, Err(Error::Closed)), "{read:?}");
            assert!(matches!(put(engine, b"told", b""), Err(Error::Closed)));
            return;
        }
        assert_eq!(
            engine.get(CF, b"k", <[u8]>::to_vec).unwrap(),
            Some(b"v".to_vec())
        );
        let _ = engine.metrics();
        let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
        assert!(cursor.seek_to_first().unwrap());
        match event {
            Event::ColumnFamilyCreated { name } if name == "last" => engine.close().unwrap(),
            Event::ColumnFamilyCreated { name } if name == "first" => {
                put(engine, b"told", b"").unwrap();
                engine
                    .family("of the listener", &CfOptions::default())
                    .unwrap();
            }
            // "of the listener" may come before or after the last one.
            _ => (),
        }
    }
}

#[test]
fn a_listener_may_use_and_close_the_store() {
    for background in [false, true] {
        let machine = Machine::new();
        let busy = Busy::default();
        let engine = machine.open(background, None, busy.clone()).unwrap();
        put(&engine, b"k", b"v").unwrap();
        assert!(busy.engine.set(Mutex::new(Some(engine.clone()))).is_ok());
        engine.family("first", &CfOptions::default()).unwrap();
        engine.family("last", &CfOptions::default()).unwrap();
        // The listener closes it.
        // What it was told stays: by that it knows that it has.
        let told = loop {
            let told = busy.log.0.lock().unwrap().clone();
            if told.len() == 5 {
                break told;
            }
            std::thread::yield_now();
        };
        engine.close().unwrap();
        let name = |event: &Event| match event {
            Event::ColumnFamilyCreated { name } => name.clone(),
            other => format!("{other:?}").split(' ').next().unwrap().to_string(),
        };
        let names: Vec<String> = told.iter().map(name).collect();
        // The order of families made side by side is that of their events.
        assert_eq!(engine.families().len(), 4);
        let mut expected: Vec<String> = engine.families()[1..].to_vec();
        expected.insert(0, "Opened".into());
        expected.push("Closed".into());
        assert_eq!(names, expected);
        busy.engine.get().unwrap().lock().unwrap().take();
    }
}

#[test]
fn a_listener_that_panics_is_told_the_next_event_too() {
    for background in [false, true] {
        let machine = Machine::new();
        let log = Log::default();
        let runtime = Runtime::new(RuntimeOptions::default()).unwrap();
        let told = log.clone();
        let listener = move |event: &Event| {
            told.event(event);
            panic!("planned");
        };
        let engine = machine.open(background, Some(&runtime), listener).unwrap();
        for n in 0..5 {
            engine
                .family(&format!("{n}"), &CfOptions::default())
                .unwrap();
            put(&engine, b"k", b"v").unwrap();
        }
        engine.close().unwrap();
        let words = log.words();
        assert_eq!(words.len(), 7, "{words:?}");
        assert!(!background || runtime.metrics().panics == 7);
    }
}

#[test]
fn events_of_many_threads_come_one_at_a_time_and_in_the_order_of_things() {
    let machine = Machine::new();
    let log = Log::default();
    let inside = Arc::new(Mutex::new(()));
    let listener = {
        let log = log.clone();
        move |event: &Event| {
            let _alone = inside.try_lock().expect("one at a time");
            log.event(event);
        }
    };
    let runtime = Runtime::new(RuntimeOptions {
        workers: 4,
        ..RuntimeOptions::default()
    });
    let engine = machine
        .open(true, Some(&runtime.unwrap()), listener)
        .unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..25 {
                    engine
                        .family(&format!("{t} {n}"), &CfOptions::default())
                        .unwrap();
                }
            });
        }
    });
    let families = engine.families();
    drop(engine);
    let told: Vec<String> = log
        .take()
        .into_iter()
        .filter_map(|event| match event {
            Event::ColumnFamilyCreated { name } => Some(name),
            _ => None,
        })
        .collect();
    assert_eq!(told, families[1..]);
}

/// A subscriber of one thread's events that keeps them.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0
            .insert(field.name().to_string(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for Traced {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "thermocline" && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let level = event.metadata().level().to_string();
        fields.0.insert("level".into(), level);
        self.0.lock().unwrap().push(fields.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// In a process of its own. `tracing` keeps in mind whether anybody wants what is said at a place, and while
/// there is one subscriber it asks that of the thread that comes by first: were that another test's, nothing more would be
/// told to this one.
#[test]
fn tracing_is_told_the_same_with_fields() {
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "events::traced", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[child.stdout, child.stderr].concat()).into_owned();
    assert!(child.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "the child of the test above"]
fn traced() {
    for background in [false, true] {
        let machine = Machine::new();
        let traced = Traced::default();
        tracing::subscriber::with_default(traced.clone(), || {
            let engine = machine.open(background, None, |_: &Event| ()).unwrap();
            put(&engine, b"k", b"v").unwrap();
            engine.family("orders", &CfOptions::default()).unwrap();
            put(&engine, b"big", &[0; 1_000_000]).unwrap_err();
            engine.close().unwrap();
        });
        let told = traced.0.lock().unwrap().clone();
        let field = |n: usize, name: &str| told[n].get(name).map(String::as_str);
        let messages: Vec<_> = (0..told.len())
            .map(|n| field(n, "message").unwrap())
            .collect();
        let expected = [
            "opened",
            "column family created",
            "write stalled",
            "writes refused",
            "closed",
        ];
        assert_eq!(messages, expected, "only what the subscriber wants");
        assert!(told.iter().all(|event| event["db"] == "/db"));
        assert_eq!(field(0, "after_crash"), Some("false"));
        assert_eq!(field(1, "name"), Some("orders"));
        assert_eq!(field(2, "cause"), Some("\"memtable\""));
        assert!(field(3, "cause").unwrap().contains("raise pm"));
        assert_eq!(field(3, "level"), Some("WARN"));
        // Nobody listens any more.
        let before = told.len();
        machine
            .open(background, None, |_: &Event| ())
            .unwrap()
            .close()
            .unwrap();
        assert_eq!(traced.0.lock().unwrap().len(), before);
    }
}
