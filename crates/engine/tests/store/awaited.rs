//! Reads of futures, and of several keys at once, answer as a get did when they began: whatever is written, flushed,
//! compacted or closed meanwhile, in whatever order what they need is read, and whoever gives up.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Bound;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thermocline_base::options::{Options, Shape};
use thermocline_base::{CfId, CfOptions, IndexKind, Result, Steps, WriteBatch};
use thermocline_engine::{
    Durability, Engine, PendingRead, Runtime, Setup, Snapshot, Value, World, WriteOptions,
};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_pm::SimPm;
use thermocline_testkit::{Replay, Rng, seeds};

const PM_BYTES: u64 = 8 << 20;

/// The keys of a family, each one of these or of a few beside them.
const KEYS: usize = 300;

type Model = BTreeMap<(CfId, Vec<u8>), Vec<u8>>;
type Values = Vec<Option<Vec<u8>>>;

fn key(n: usize) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

/// A store without threads.
struct Store {
    engine: Option<Engine>,
    runtime: Runtime,
    families: [CfId; 2],
}

impl Store {
    fn new(fs: &SimFs, options: &Options, seed: u64) -> Store {
        let clock = Arc::new(SimClock::new());
        let env = Env {
            clock: clock.clone(),
            ..Env::simulated(fs.clone(), seed)
        };
        let world = World {
            env,
            sim: Some(SimPm::new(PM_BYTES, fs.steps().clone())),
            shadow: None,
            background: false,
        };
        let runtime = Runtime::scripted(clock);
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        let engine = Engine::open_with(world, Path::new("/db"), options.clone(), setup).unwrap();
        let lists = CfOptions::default().merge_operator("thermocline.append:2c");
        let lists = engine.family("lists", &lists).unwrap();
        Store {
            engine: Some(engine),
            runtime,
            families: [CfId(0), lists.id],
        }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn write(&self, fill: impl FnOnce(&mut WriteBatch)) {
        let mut batch = WriteBatch::new();
        fill(&mut batch);
        let options = WriteOptions::from(Durability::Immediate);
        self.engine().write(batch.iter(), options).unwrap();
    }

    /// What a read finds, once all that it waits for was done.
    fn answer<T: Unpin>(&self, read: &mut PendingRead<T>, rng: &mut Rng) -> Result<T> {
        loop {
            match ask(read) {
                Poll::Ready(found) => return found,
                Poll::Pending => assert!(self.step(rng), "nobody is woken"),
            }
        }
    }

    /// One of the things that wait, if there is any.
    fn step(&self, rng: &mut Rng) -> bool {
        self.runtime
            .async_reader()
            .step(|waiting| rng.below(waiting))
    }
}

/// Writes into each table's file, at a place that is drawn.
fn damage_tables(fs: &SimFs, rng: &mut Rng) {
    let names = fs.list(Path::new("/db")).unwrap().into_iter();
    for name in names.filter(|name| name.ends_with(".sst")) {
        let path = Path::new("/db").join(name);
        let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
        let at = rng.below(usize::try_from(file.len().unwrap() / 2).unwrap()) as u64;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_at(&[byte[0] ^ 1], at).unwrap();
    }
}

fn options(rng: &mut Rng) -> Options {
    let mut options = Options {
        pm: PM_BYTES,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 64 << 10;
    options.level0.shape = Some(*rng.pick(&Shape::ALL));
    options.read.cache_bytes = *rng.pick(&[0, 1, 64 << 10]);
    options.read.open_tables = *rng.pick(&[1, 512]);
    options.read.pin_bytes_min = *rng.pick(&[1, 1 << 10]);
    options.ssd.index = *rng.pick(&IndexKind::ALL);
    options.ssd.direct = rng.one_in(2);
    options.blob.inline_bytes_max = 5000;
    options
}

fn ask<T: Unpin>(read: &mut PendingRead<T>) -> Poll<Result<T>> {
    Pin::new(read).poll(&mut Context::from_waker(Waker::noop()))
}

/// A read under way, and what it must find.
enum Read {
    One(PendingRead<Option<Value>>, Option<Vec<u8>>),
    Several(PendingRead<Vec<Option<Value>>>, Values),
}

impl Read {
    /// Whether it has answered, rightly.
    fn is_done(&mut self) -> bool {
        match self {
            Read::One(read, right) => match ask(read) {
                Poll::Ready(found) => {
                    assert_eq!(found.unwrap().as_deref(), right.as_deref());
                    true
                }
                Poll::Pending => false,
            },
            Read::Several(read, right) => match ask(read) {
                Poll::Ready(found) => {
                    let found = found.unwrap().into_iter();
                    let found: Values = found.map(|v| v.map(Value::into_vec)).collect();
                    assert_eq!(found, *right);
                    true
                }
                Poll::Pending => false,
            },
        }
    }
}

struct Run {
    store: Store,
    rng: Rng,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    reads: Vec<Read>,
    waited: usize,
}

impl Run {
    fn family(&mut self) -> CfId {
        *self.rng.pick(&self.store.families)
    }

    fn some_key(&mut self) -> (CfId, Vec<u8>) {
        (self.family(), key(self.rng.below(KEYS + 20)))
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(40) {
            0 => 6000,
            1..4 => 1000,
            _ => self.rng.below(200),
        };
        vec![b'a' + u8::try_from(self.rng.below(26)).unwrap(); len]
    }

    fn write(&mut self) {
        let (cf, key) = self.some_key();
        let value = self.value();
        match self.rng.below(12) {
            0 => {
                self.store.write(|batch| batch.delete(cf, &key).unwrap());
                self.model.remove(&(cf, key));
            }
            1 => {
                let end = [&key[..], b"x"].concat();
                self.store
                    .write(|batch| batch.delete_range(cf, &key, Some(&end)).unwrap());
                self.model
                    .retain(|(of, k), _| *of != cf || *k < key || *k >= end);
            }
            2..6 if cf != CfId(0) => {
                self.store
                    .write(|batch| batch.merge(cf, &key, &value).unwrap());
                let list = self.model.entry((cf, key));
                list.and_modify(|list| {
                    list.push(b',');
                    list.extend_from_slice(&value);
                })
                .or_insert(value);
            }
            _ => {
                self.store
                    .write(|batch| batch.put(cf, &key, &value).unwrap());
                self.model.insert((cf, key), value);
            }
        }
    }

    fn read(&mut self) {
        let at = match self.snapshots.len() {
            0 => None,
            n => Some(self.rng.below(n)).filter(|_| self.rng.one_in(2)),
        };
        let keys: Vec<_> = (0..1 + self.rng.below(90))
            .map(|_| self.some_key())
            .collect();
        let now;
        let (snapshot, model) = match at {
            Some(at) => &self.snapshots[at],
            None => {
                now = (self.store.engine().snapshot(), self.model.clone());
                &now
            }
        };
        let right = |key: &(CfId, Vec<u8>)| model.get(key).cloned();
        let several: Values = keys.iter().map(right).collect();
        let (cf, key) = &keys[0];
        let mut reads = Vec::new();
        match self.rng.below(4) {
            0 => {
                let keys: Vec<_> = keys.iter().map(|(cf, key)| (*cf, &**key)).collect();
                let found = snapshot.values(&keys).into_iter();
                let found: Values = found.map(|v| v.unwrap().map(Value::into_vec)).collect();
                assert_eq!(found, several);
            }
            1 => reads.push(Read::Several(snapshot.values_async(keys), several)),
            2 => reads.push(Read::One(
                snapshot.value_async(*cf, key),
                several[0].clone(),
            )),
            _ => {
                let read = self.store.engine().value_async(*cf, key);
                reads.push(Read::One(read, self.model.get(&keys[0]).cloned()));
            }
        }
        for mut read in reads {
            if !read.is_done() {
                self.waited += 1;
                self.reads.push(read);
            }
        }
    }

    fn go_on(&mut self) {
        for _ in 0..self.rng.below(4) {
            self.store.step(&mut self.rng);
        }
        if self.reads.is_empty() {
            return;
        }
        let some = self.rng.below(self.reads.len());
        if self.rng.one_in(10) || self.reads[some].is_done() {
            self.reads.swap_remove(some);
        }
    }

    fn turn(&mut self) {
        match self.rng.below(60) {
            0..20 => self.write(),
            20..40 => self.read(),
            40..55 => self.go_on(),
            55 => {
                self.store.engine().flush().unwrap();
            }
            56 => {
                let cf = self.family();
                let all = (Bound::Unbounded, Bound::Unbounded);
                self.store.engine().compact(cf, all).unwrap();
            }
            57 => {
                let snapshot = self.store.engine().snapshot();
                self.snapshots.push((snapshot, self.model.clone()));
            }
            _ => {
                self.snapshots.pop();
            }
        }
    }

    /// Ends all reads.
    fn end(&mut self) {
        while !self.reads.is_empty() {
            let stepped = self.store.step(&mut self.rng);
            let before = self.reads.len();
            self.reads.retain_mut(|read| !read.is_done());
            assert!(stepped || self.reads.len() < before, "nobody is woken");
        }
    }
}

#[test]
fn futures_answer_as_gets_did_when_they_began() {
    let mut waited = 0;
    for seed in seeds(0..60) {
        let _replay = Replay::new("-p thermocline-engine futures_answer_as_gets_did", seed);
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(Steps::new());
        let mut run = Run {
            store: Store::new(&fs, &options(&mut rng), seed),
            rng,
            model: Model::new(),
            snapshots: Vec::new(),
            reads: Vec::new(),
            waited: 0,
        };
        for _ in 0..KEYS {
            run.write();
        }
        run.store.engine().flush().unwrap();
        for _ in 0..400 {
            run.turn();
        }
        if run.rng.one_in(2) {
            // They read on.
            run.store.engine.take().unwrap().close().unwrap();
        }
        run.end();
        waited += run.waited;
    }
    assert!(waited > 1000, "{waited} reads had to wait");
}

/// Operands are looked for once more when they are folded: that is no later than the call, and though the store be closed.
#[test]
fn a_future_folds_what_there_was_when_it_began() {
    for (flushes, closes) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut rng = Rng::new(1);
        let fs = SimFs::new(Steps::new());
        let mut store = Store::new(&fs, &options(&mut rng), 1);
        let lists = store.families[1];
        store.write(|batch| batch.merge(lists, b"k", b"a").unwrap());
        store.write(|batch| batch.merge(lists, b"k", b"b").unwrap());
        if flushes {
            store.engine().flush().unwrap();
        }
        let mut read = store.engine().value_async(lists, b"k");
        store.write(|batch| batch.put(lists, b"k", b"later").unwrap());
        if closes {
            store.engine.take().unwrap().close().unwrap();
        }
        let found = store.answer(&mut read, &mut rng);
        let found = found.unwrap().map(Value::into_vec);
        assert_eq!(found.as_deref(), Some(&b"a,b"[..]), "{flushes} {closes}");
    }
}

/// Who has asked at a moment may let go of that: what he has asked for is read on, though its family be dropped.
#[test]
fn a_future_of_a_moment_reads_a_family_on_that_is_dropped() {
    for (flushes, of_snapshot) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut rng = Rng::new(1);
        let fs = SimFs::new(Steps::new());
        let store = Store::new(&fs, &options(&mut rng), 1);
        let (engine, lists) = (store.engine(), store.families[1]);
        for operand in [b"a", b"b"] {
            store.write(|batch| batch.merge(lists, b"k", operand).unwrap());
        }
        if flushes {
            engine.flush().unwrap();
            store.write(|batch| batch.merge(lists, b"k", b"c").unwrap());
            engine.flush().unwrap();
        }
        let mut read = match of_snapshot {
            true => engine.snapshot().value_async(lists, b"k"),
            false => engine.value_async(lists, b"k"),
        };
        engine.drop_family("lists").unwrap();
        engine.reclaim().unwrap();
        let found = store.answer(&mut read, &mut rng);
        let found = found.unwrap().map(Value::into_vec);
        let right = if flushes { &b"a,b,c"[..] } else { b"a,b" };
        assert_eq!(found.as_deref(), Some(right), "{flushes} {of_snapshot}");
        // Nobody is left: nothing of it is.
        drop(read);
        engine.reclaim().unwrap();
        engine.flush().unwrap();
        engine.reclaim().unwrap();
        assert_eq!(engine.metrics().pm_tier.table_bytes_retired, 0);
    }
}

/// Of several keys the first one's error is told, wherever the others meet theirs.
#[test]
fn of_several_keys_the_first_ones_error_is_told() {
    let fs = SimFs::new(Steps::new());
    let mut rng = Rng::new(2);
    let mut options = options(&mut rng);
    options.level0.shape = Some(Shape::Immutables);
    options.read.cache_bytes = 1;
    let store = Store::new(&fs, &options, 2);
    let cf = CfId(0);
    for n in 0..KEYS {
        store.write(|batch| batch.put(cf, &key(n), &[b'v'; 100]).unwrap());
    }
    store.engine().flush().unwrap();
    assert!(store.engine().value(cf, &key(1)).unwrap().is_some());
    damage_tables(&fs, &mut rng);
    // That of a dropped family is known at once, before any table was read.
    let gone = store.engine().family("gone", &CfOptions::default());
    let gone = gone.unwrap().id;
    store.engine().drop_family("gone").unwrap();
    let snapshot = store.engine().snapshot();
    let damaged = (0..KEYS)
        .map(key)
        .find(|key| snapshot.value(cf, key).is_err());
    let damaged = damaged.expect("one of the blocks is damaged");
    for keys in [
        [(gone, b"k".to_vec()), (cf, damaged.clone())],
        [(cf, damaged), (gone, b"k".to_vec())],
    ] {
        let named: Vec<_> = keys.iter().map(|(cf, key)| (*cf, &**key)).collect();
        let right = snapshot.values(&named).into_iter().find_map(Result::err);
        let mut read = snapshot.values_async(keys.to_vec());
        let found = store.answer(&mut read, &mut rng);
        assert_eq!(found.unwrap_err().to_string(), right.unwrap().to_string());
    }
}

/// What other threads do for several keys waits for them at once, be the newest of a key in memory or in a table.
#[test]
fn of_several_keys_all_are_on_their_way_before_one_is_awaited() {
    for flushes in [false, true] {
        let mut rng = Rng::new(3);
        let fs = SimFs::new(Steps::new());
        let mut options = options(&mut rng);
        options.level0.shape = Some(Shape::GlobalIndex);
        options.compaction.level0_tables = 1024;
        options.read.open_tables = 512;
        options.read.cache_bytes = 1 << 20;
        let store = Store::new(&fs, &options, 3);
        let [plain, lists] = store.families;
        for n in 0..10 {
            store.write(|batch| batch.put(lists, &key(n), b"base").unwrap());
        }
        store.engine().flush().unwrap();
        for n in 0..10 {
            store.write(|batch| {
                batch.put(plain, &key(n), &[b'v'; 6000]).unwrap();
                batch.merge(lists, &key(n), b"more").unwrap();
            });
        }
        let mut keys: Vec<_> = (0..10).map(|n| (lists, key(n))).collect();
        match flushes {
            // Searches find operands at once, as soon as the cache has their block.
            true => assert!(store.engine().flush().unwrap() > 0),
            false => keys.extend((0..10).map(|n| (plain, key(n)))),
        }
        let snapshot = store.engine().snapshot();
        let named: Vec<_> = keys.iter().map(|(cf, key)| (*cf, &**key)).collect();
        let right = snapshot.values(&named).into_iter();
        let right: Values = right.map(|v| v.unwrap().map(Value::into_vec)).collect();
        assert_eq!(right[0].as_deref(), Some(&b"base,more"[..]));
        let mut read = snapshot.values_async(keys.clone());
        let mut waited = None;
        let stepped = store.runtime.async_reader().step(|waiting| {
            waited = Some(waiting);
            0
        });
        assert!(stepped);
        assert_eq!(waited, Some(keys.len()), "{flushes}");
        let found = store.answer(&mut read, &mut rng).unwrap().into_iter();
        let found: Values = found.map(|v| v.map(Value::into_vec)).collect();
        assert_eq!(found, right);
    }
}

/// Long values of records in memory are read at once, and one that is damaged is the error of its key alone.
#[test]
fn a_damaged_long_value_of_several_is_the_error_of_its_key() {
    let fs = SimFs::new(Steps::new());
    let mut rng = Rng::new(4);
    let mut options = options(&mut rng);
    options.read.cache_bytes = 1;
    let store = Store::new(&fs, &options, 4);
    let cf = CfId(0);
    store.write(|batch| {
        for n in 0..10 {
            let byte = |_| rng.next_u64().to_le_bytes()[0];
            let value: Vec<u8> = (0..6000).map(byte).collect();
            batch.put(cf, &key(n), &value).unwrap();
        }
    });
    let mut names = fs.list(Path::new("/db")).unwrap().into_iter();
    let name = names.find(|name| name.ends_with(".blob"));
    let path = Path::new("/db").join(name.expect("long values lie in a file"));
    let file = fs.open(&path, OpenMode::ReadWrite).unwrap();
    // Within the sixth one.
    let at = file.len().unwrap() / 2 + 1000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 1], at).unwrap();
    let shown = |found: Result<Option<Value>>| match found {
        Ok(value) => Ok(value.map(Value::into_vec)),
        Err(error) => Err(error.to_string()),
    };
    let snapshot = store.engine().snapshot();
    let keys: Vec<_> = (0..10).map(|n| (cf, key(n))).collect();
    let named: Vec<_> = keys.iter().map(|(cf, key)| (*cf, &**key)).collect();
    let right: Vec<_> = named
        .iter()
        .map(|(cf, key)| shown(snapshot.value(*cf, key)))
        .collect();
    let mut errors = right.iter().filter_map(|one| one.as_ref().err());
    let error = errors.next().expect("one of them is damaged");
    assert_eq!(errors.next(), None);
    let found: Vec<_> = snapshot.values(&named).into_iter().map(shown).collect();
    assert_eq!(found, right);
    let mut read = snapshot.values_async(keys);
    let found = store.answer(&mut read, &mut rng);
    assert_eq!(found.unwrap_err().to_string(), *error);
}

#[test]
fn damage_is_the_error_of_its_keys_in_every_way_of_reading() {
    for seed in seeds(0..20) {
        let _replay = Replay::new(
            "-p thermocline-engine damage_is_the_error_of_its_keys",
            seed,
        );
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(Steps::new());
        let mut options = options(&mut rng);
        options.level0.shape = Some(Shape::Immutables);
        // What is damaged is read again.
        options.read.cache_bytes = 1;
        let store = Store::new(&fs, &options, seed);
        let cf = CfId(0);
        for n in 0..KEYS {
            let len = if n % 50 == 0 { 6000 } else { 100 };
            store.write(|batch| batch.put(cf, &key(n), &vec![b'v'; len]).unwrap());
        }
        store.engine().flush().unwrap();
        // Opened before it is damaged.
        assert!(store.engine().value(cf, &key(1)).unwrap().is_some());
        damage_tables(&fs, &mut rng);
        let shown = |found: Result<Option<Value>>| match found {
            Ok(value) => Ok(value.map(Value::into_vec)),
            Err(error) => Err(error.to_string()),
        };
        let snapshot = store.engine().snapshot();
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let right: Vec<_> = keys
            .iter()
            .map(|key| shown(snapshot.value(cf, key)))
            .collect();
        assert!(right.iter().any(Result::is_ok) && right.iter().any(Result::is_err));
        let named: Vec<_> = keys.iter().map(|key| (cf, &**key)).collect();
        let found: Vec<_> = snapshot.values(&named).into_iter().map(shown).collect();
        assert_eq!(found, right);
        let mut reads: Vec<_> = keys
            .iter()
            .map(|key| snapshot.value_async(cf, key))
            .collect();
        let mut found: Vec<Option<std::result::Result<_, String>>> = vec![None; KEYS];
        let mut all = snapshot.values_async(keys.iter().map(|key| (cf, key.clone())).collect());
        let mut together = None;
        while together.is_none() || found.iter().any(Option::is_none) {
            let stepped = store.step(&mut rng);
            let mut answered = false;
            for (read, found) in reads.iter_mut().zip(&mut found) {
                if found.is_none()
                    && let Poll::Ready(answer) = ask(read)
                {
                    *found = Some(shown(answer));
                    answered = true;
                }
            }
            if together.is_none()
                && let Poll::Ready(answer) = ask(&mut all)
            {
                together = Some(answer);
                answered = true;
            }
            assert!(stepped || answered, "nobody is woken");
        }
        let first = right.iter().find_map(|one| one.as_ref().err());
        assert_eq!(together.unwrap().unwrap_err().to_string(), *first.unwrap());
        let found: Vec<_> = found.into_iter().flatten().collect();
        assert_eq!(found, right);
    }
}
