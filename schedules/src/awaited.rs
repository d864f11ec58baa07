//! Reads of futures, two threads of them, beside a writer and somebody who flushes. The helpers that make the reads are
//! threads of the execution, too.
//!
//! What a future finds is what a read finds that waits, at the same moment; one that asks for what is newest finds what was
//! visible when it was called, and not what came while it waited. An error comes to the read that met it, and to no other.

use std::future::poll_fn;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::Runner;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use thermocline_base::options::{Options, Shape};
use thermocline_base::sync::thread;
use thermocline_base::{CfId, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{
    Durability, Engine, PendingRead, Runtime, RuntimeOptions, Setup, Value, World,
};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_pm::SimPm;

use crate::run::{Choice, Orders, config};

const PM: u64 = 512 << 10;
const DIR: &str = "/db";
const CF: CfId = CfId::DEFAULT;

/// The keys, all of which each batch sets to its number.
const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// Batches.
const BATCHES: u64 = 4;

/// How often each reader looks, and how often somebody flushes.
const LOOKS: usize = 3;

/// What futures meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meets {
    /// Tables that are sound.
    Sound,
    /// A table that is damaged, among others.
    Damage,
}

/// A store, what its writer has done, and how many reads had to wait. The numbers are the machine's own: no step of an
/// execution.
struct Store {
    engine: Engine,
    started: AtomicU64,
    visible: AtomicU64,
    waited: Arc<AtomicU64>,
}

/// Runs so many executions. Returns how many reads had to wait.
///
/// # Panics
/// If a future finds anything but what it must; it is printed of which choice that execution was.
pub fn awaited(meets: Meets, choice: Choice, executions: usize) -> u64 {
    let waited: Arc<AtomicU64> = Arc::default();
    let counts = waited.clone();
    let run = move || match meets {
        Meets::Sound => sound(&counts),
        Meets::Damage => damaged(&counts),
    };
    let runs = || match choice.orders {
        Orders::Random => {
            let scheduler = RandomScheduler::new_from_seed(choice.seed, executions);
            Runner::new(scheduler, config()).run(run)
        }
        Orders::Pct(depth) => {
            let scheduler = PctScheduler::new_from_seed(choice.seed, depth, executions);
            Runner::new(scheduler, config()).run(run)
        }
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(runs)) {
        eprintln!("an execution of {choice} with futures failed: {meets:?}");
        resume_unwind(panic);
    }
    waited.load(Ordering::Relaxed)
}

fn open(fs: &SimFs, shape: Shape, background: bool) -> Engine {
    let env = Env::simulated(fs.clone(), 7);
    let runtime = RuntimeOptions {
        workers: 2,
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::with_clock(runtime, env.clock.clone()).unwrap();
    let world = World {
        env,
        sim: Some(SimPm::new(PM, fs.steps().clone())),
        shadow: None,
        background,
    };
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 4 << 10;
    options.memtable.replay_threads = 1; // threads of a scope are the system's
    options.level0.shape = Some(shape);
    options.compaction.level0_tables = 1024;
    let setup = Setup {
        runtime: Some(runtime),
        ..Setup::default()
    };
    Engine::open_with(world, Path::new(DIR), options, setup).unwrap()
}

impl Store {
    fn new(engine: Engine, waited: &Arc<AtomicU64>) -> Arc<Store> {
        Arc::new(Store {
            engine,
            started: AtomicU64::new(0),
            visible: AtomicU64::new(0),
            waited: waited.clone(),
        })
    }

    /// Has these done at the same time, and closes the store.
    fn run(self: &Arc<Store>, threads: [fn(&Store); 4]) {
        let threads = threads.map(|run| {
            let store = self.clone();
            thread::spawn(move || run(&store))
        });
        threads.into_iter().for_each(|ran| ran.join().unwrap());
        self.engine.close().unwrap();
    }

    fn put(&self, keys: &[&[u8]], n: u64) {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.put(CF, key, &n.to_le_bytes()).unwrap();
        }
        let durability = Durability::Immediate;
        self.engine.write(batch.iter(), durability).unwrap();
    }

    /// The batch of this number.
    fn write(&self, n: u64) {
        self.started.store(n, Ordering::SeqCst);
        self.put(&KEYS, n);
        self.visible.store(n, Ordering::SeqCst);
    }

    fn write_all(&self) {
        (2..=BATCHES).for_each(|n| self.write(n));
    }

    fn flush(&self) {
        // What is in flight is not flushed.
        if let Err(error) = self.engine.flush() {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
    }

    fn flush_and_compact(&self) {
        for _ in 0..LOOKS {
            self.flush();
        }
        let all = (Bound::Unbounded, Bound::Unbounded);
        if let Err(error) = self.engine.compact(CF, all) {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        }
    }

    /// What a future finds.
    fn answer<T: Unpin>(&self, mut read: PendingRead<T>) -> Result<T> {
        let mut waits = false;
        let answer = block_on(poll_fn(|context| {
            let polled = Pin::new(&mut read).poll(context);
            waits |= polled.is_pending();
            polled
        }));
        self.waited.fetch_add(u64::from(waits), Ordering::Relaxed);
        answer
    }

    fn read(&self) {
        for _ in 0..LOOKS {
            let key = KEYS[thread_rng().gen_range(0..KEYS.len())];
            let least = self.visible.load(Ordering::SeqCst);
            let newest = self.engine.value_async(CF, key);
            // What begins from now on it does not see, however long it waits.
            let most = self.started.load(Ordering::SeqCst);
            let snapshot = self.engine.snapshot();
            let one = snapshot.value_async(CF, key);
            let keys = KEYS.map(|key| (CF, key.to_vec()));
            let several = snapshot.values_async(keys.to_vec());
            let right = number(snapshot.value(CF, key).unwrap());
            // One that nobody waits for takes nothing from the others.
            match thread_rng().gen_bool(0.25) {
                true => drop(one),
                false => assert_eq!(number(self.answer(one).unwrap()), right),
            }
            let several = self.answer(several).unwrap();
            let several: Vec<u64> = several.into_iter().map(number).collect();
            assert_eq!(several, [right; KEYS.len()]);
            let newest = number(self.answer(newest).unwrap());
            let moment = (least..=most).contains(&newest);
            assert!(moment, "{newest}, not in {least}..={most}");
        }
    }

    fn write_others(&self) {
        (2..=BATCHES).for_each(|n| self.put(&[b"c"], n));
    }

    fn flush_often(&self) {
        (0..LOOKS).for_each(|_| self.flush());
    }

    /// Of the keys `a`, in a damaged table, and `b`, in another one.
    fn read_beside_damage(&self) {
        let right = self.engine.value(CF, b"a").map(number);
        let right = right.unwrap_err().to_string();
        let named = |keys: [&[u8]; 2]| keys.map(|key| (CF, key.to_vec())).to_vec();
        for _ in 0..LOOKS {
            let snapshot = self.engine.snapshot();
            let damaged = self.engine.value_async(CF, b"a");
            let sound = self.engine.value_async(CF, b"b");
            let both = snapshot.values_async(named([b"b", b"a"]));
            let others = snapshot.values_async(named([b"b", b"c"]));
            let fails = |found: Result<u64>| assert_eq!(found.unwrap_err().to_string(), right);
            let late = thread_rng().gen_bool(0.5);
            if late {
                assert_eq!(number(self.answer(sound).unwrap()), 1);
                fails(self.answer(damaged).map(number));
            } else {
                fails(self.answer(damaged).map(number));
                assert_eq!(number(self.answer(sound).unwrap()), 1);
            }
            fails(self.answer(both).map(|_| 0));
            let others = self.answer(others).unwrap();
            let others: Vec<u64> = others.into_iter().map(number).collect();
            assert!(others[0] == 1 && others[1] <= BATCHES, "{others:?}");
        }
    }
}

/// What a batch has set a key to; 0 if none has.
fn number(value: Option<Value>) -> u64 {
    value.map_or(0, |value| {
        u64::from_le_bytes(value[..].try_into().expect("values are numbers"))
    })
}

/// Futures read what is written, flushed and compacted meanwhile.
fn sound(waited: &Arc<AtomicU64>) {
    let shapes = [Shape::Ssd, Shape::Immutables, Shape::GlobalIndex];
    let shape = shapes[thread_rng().gen_range(0..shapes.len())];
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, shape, thread_rng().gen_bool(0.5));
    let store = Store::new(engine, waited);
    store.write(1);
    store.flush();
    store.run([
        Store::write_all,
        Store::flush_and_compact,
        Store::read,
        Store::read,
    ]);
}

/// Futures read a damaged table beside others.
fn damaged(waited: &Arc<AtomicU64>) {
    let fs = SimFs::new(Steps::new());
    let store = Store::new(open(&fs, Shape::Ssd, false), waited);
    store.put(&[b"a"], 1);
    store.flush();
    damage(&fs, &store.engine);
    store.put(&[b"b"], 1);
    store.flush();
    store.run([
        Store::write_others,
        Store::flush_often,
        Store::read_beside_damage,
        Store::read_beside_damage,
    ]);
}

/// Changes the only table, so that the key `a` cannot be read.
fn damage(fs: &SimFs, engine: &Engine) {
    let mut names = fs.list(Path::new(DIR)).unwrap().into_iter();
    let name = names.find(|name| name.ends_with(".sst"));
    let path = Path::new(DIR).join(name.expect("a table"));
    let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
    for at in 0..file.len().unwrap() {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 1], at).unwrap();
        if engine.value(CF, b"a").is_err() {
            return;
        }
        file.write_at(&byte, at).unwrap();
    }
    panic!("no read notices any damage");
}
