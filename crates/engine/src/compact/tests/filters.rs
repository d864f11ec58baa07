//! Compaction filters: what they remove and change, that no reader sees it happen, and nothing older returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use thermocline_base::filter::{CompactionFilter, Entry, Verdict, ask};
use thermocline_base::merge::Counter;
use thermocline_base::options::{Costs, Shape};
use thermocline_base::{CfOptions, ErrorKind, WriteBatch};

use super::*;
use crate::sync::{Mutex, lock};
use crate::{Durability, Family, FilterUse, Setup};

const ALL: (std::ops::Bound<&[u8]>, std::ops::Bound<&[u8]>) =
    (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);

/// What becomes of a value: one that begins with `r` goes, one with `c` becomes another that stays.
fn filtered(value: &[u8]) -> Option<Vec<u8>> {
    match value.split_first() {
        Some((b'r', _)) => None,
        Some((b'c', rest)) => Some([b"d", rest].concat()),
        _ => Some(value.to_vec()),
    }
}

/// A snapshot, and what it has shown of both families.
type Seen = (Snapshot, Vec<Model>);

/// Filters as `filtered` says. Sometimes somebody comes while it is asked, takes a snapshot and looks; and goes.
#[derive(Debug, Default)]
struct Busy {
    /// Where snapshots are taken; nowhere, if there is none.
    of: Mutex<Option<(Engine, Vec<Family>)>>,
    asked: AtomicU64,
    /// Those that were taken and are held.
    taken: Mutex<Vec<Seen>>,
}

/// Takes a snapshot and looks.
fn look((engine, families): &(Engine, Vec<Family>)) -> Seen {
    let snapshot = engine.snapshot();
    let seen = families.iter().map(|family| content(&snapshot, *family));
    let seen = seen.collect();
    (snapshot, seen)
}

#[derive(Debug)]
struct Filter(Arc<Busy>);

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "tests.busy"
    }

    fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
        let n = self.0.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(of) = &*lock(&self.0.of) {
            let mut taken = lock(&self.0.taken);
            match n % 40 {
                3 => taken.push(look(of)),
                17 if n % 80 < 40 => taken.clear(),
                _ => {}
            }
        }
        let value = entry.value()?;
        Ok(match filtered(&value) {
            None => Verdict::Remove,
            Some(other) if *other != *value => Verdict::Change(other),
            Some(_) => Verdict::Keep,
        })
    }
}

fn setup(busy: &Arc<Busy>) -> Setup {
    let filter = |family: &str| -> (String, Arc<dyn CompactionFilter>) {
        (family.into(), Arc::new(Filter(busy.clone())))
    };
    Setup {
        compaction_filters: vec![filter("default"), filter("down")],
        ..Setup::default()
    }
}

fn open_filtered(machine: &Machine, options: &Options, busy: &Arc<Busy>) -> Engine {
    let setup = setup(busy);
    Engine::open_with(machine.world(), Path::new("/db"), options.clone(), setup).unwrap()
}

/// All that a snapshot shows of a family.
pub fn content(snapshot: &Snapshot, family: Family) -> Model {
    let mut cursor = snapshot.cursor(family).unwrap();
    let mut all = Model::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        all.insert(cursor.key().to_vec(), cursor.value().to_vec());
        more = cursor.next().unwrap();
    }
    all
}

/// A store whose compactions filter, and what it may show.
struct Filtered {
    machine: Machine,
    options: Options,
    busy: Arc<Busy>,
    engine: Engine,
    families: Vec<Family>,
    /// What was written, and is not seen to be filtered yet.
    models: Vec<Model>,
    keys: Vec<Vec<u8>>,
    /// Snapshots, and what they have shown.
    held: Vec<Seen>,
    done: FilterUse,
}

impl Filtered {
    fn begin(options: Options) -> Filtered {
        let machine = Machine::new(PM);
        let busy = Arc::default();
        let engine = open_filtered(&machine, &options, &busy);
        let key = |n: u8| [&b"kk"[..usize::from(n % 3)], &[n]].concat();
        let families = families(&engine);
        *lock(&busy.of) = Some((engine.clone(), families.clone()));
        Filtered {
            families,
            models: vec![Model::new(), Model::new()],
            keys: (0..120).map(key).collect(),
            held: Vec::new(),
            done: FilterUse::default(),
            machine,
            options,
            busy,
            engine,
        }
    }

    fn write(&mut self, rng: &mut Rng) {
        let at = rng.below(2);
        let (cf, key) = (self.families[at].id, rng.pick(&self.keys));
        if rng.one_in(6) {
            delete(&self.engine, cf, key);
            self.models[at].remove(key);
            return;
        }
        let mut value = vec![*rng.pick(b"rckk")];
        let filler = rng.next_u64().to_le_bytes();
        value.extend(filler.into_iter().cycle().take(rng.below(200)));
        put(&self.engine, cf, key, &value);
        self.models[at].insert(key.clone(), value);
    }

    /// What is there now is what was written, or what the filter makes of it; and from then on it is that.
    fn check(&mut self) {
        let snapshot = self.engine.snapshot();
        for (family, model) in self.families.iter().zip(&mut self.models) {
            let now = content(&snapshot, *family);
            for key in &self.keys {
                let (found, written) = (now.get(key), model.get(key));
                let other = written.and_then(|value| filtered(value));
                let may_be = found == written || written.is_some() && found == other.as_ref();
                assert!(may_be, "{key:?}: {found:?} of {written:?}");
            }
            *model = now;
        }
        check_then(&snapshot, &self.families, &self.models, &self.keys);
        drop(snapshot);
        check_now(&self.engine, &self.families, &self.models, &self.keys);
        self.check_held();
    }

    /// Snapshots show what they have shown.
    fn check_held(&mut self) {
        self.held.append(&mut lock(&self.busy.taken));
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models, &self.keys);
        }
    }

    fn reopen(&mut self, killed: bool) {
        self.count();
        *lock(&self.busy.of) = None;
        lock(&self.busy.taken).clear();
        match killed {
            true => {
                self.held.clear();
                self.machine = self.machine.killed();
            }
            false => self.engine.close().unwrap(),
        }
        self.engine = open_filtered(&self.machine, &self.options, &self.busy);
        *lock(&self.busy.of) = Some((self.engine.clone(), self.families.clone()));
        self.check();
    }

    fn count(&mut self) {
        let FilterUse {
            removed,
            changed,
            undone,
            failed,
            expired: _,
        } = self.engine.metrics().compaction.filters;
        self.done.removed += removed;
        self.done.changed += changed;
        self.done.undone += undone;
        self.done.failed += failed;
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(1000) {
            0..900 => self.write(rng),
            900..930 => flush(&self.engine),
            930..950 => while self.engine.compact_once().unwrap() {},
            950..960 => {
                let cf = self.families[rng.below(2)].id;
                let merged = self.engine.compact_level0(cf).map_err(|e| e.kind());
                assert!(merged.err().is_none_or(|e| e == ErrorKind::OutOfSpace));
            }
            960..966 => {
                let cf = self.families[rng.below(2)].id;
                self.engine.compact(cf, ALL).unwrap();
                // Before anything else moves, those that came meanwhile look.
                self.check_held();
            }
            966..976 => self
                .held
                .push(look(&(self.engine.clone(), self.families.clone()))),
            976..988 if !self.held.is_empty() => {
                drop(self.held.remove(rng.below(self.held.len())));
            }
            988..=996 => self.check(),
            997 => self.reopen(false),
            998 => self.reopen(true),
            _ => self.check_held(),
        }
    }

    /// At last nobody reads, and everything is filtered that was written.
    fn end(mut self) -> FilterUse {
        self.check();
        *lock(&self.busy.of) = None;
        self.held.clear();
        for (family, model) in self.families.iter().zip(&mut self.models) {
            self.engine.compact(family.id, ALL).unwrap();
            let all = std::mem::take(model).into_iter();
            *model = all.filter_map(|(k, v)| Some((k, filtered(&v)?))).collect();
        }
        check_now(&self.engine, &self.families, &self.models, &self.keys);
        self.count();
        self.done
    }
}

fn story(seed: u64) -> FilterUse {
    let mut rng = Rng::new(seed);
    let mut options = any(&mut rng);
    options.level0.shape = Some(*rng.pick(&Shape::ALL));
    let mut story = Filtered::begin(options);
    for _ in 0..1500 {
        story.step(&mut rng);
    }
    story.end()
}

#[test]
fn what_is_filtered_no_reader_sees_change() {
    let mut all = FilterUse::default();
    for seed in seeds(0..explored(2, 16)) {
        let _replay = Replay::new("-p thermocline-engine what_is_filtered", seed);
        let did = story(seed);
        all.removed += did.removed;
        all.changed += did.changed;
        all.undone += did.undone;
        assert_eq!(did.failed, 0);
    }
    println!("{all:?}");
    let (least, undone) = (explored(70, 640), explored(0, 16));
    let enough = all.removed > least && all.changed > least && all.undone > undone;
    assert!(enough || seeds(0..2).len() == 1, "{all:?}");
}

#[test]
fn filtering_what_readers_see_and_uncovering_what_is_older_is_caught() {
    for bug in [Bug::FilterForgetsReaders, Bug::FilterUncovers] {
        let is_caught = (0..10).any(|seed| {
            let planted = move || {
                let _bug = plant(bug);
                story(seed)
            };
            std::panic::catch_unwind(planted).is_err()
        });
        assert!(is_caught, "{bug:?}");
    }
}

/// Where no table is left, nothing but the manifest says that its memtable was flushed.
#[test]
fn what_was_removed_does_not_come_back_with_its_memtable() {
    let machine = Machine::new(PM);
    let busy: Arc<Busy> = Arc::default();
    let mut options = tiny();
    // Memtables that were flushed are kept for feeds.
    options.feed.retain_bytes = 1 << 20;
    let engine = open_filtered(&machine, &options, &busy);
    put(&engine, CfId::DEFAULT, b"k", b"removed");
    flush(&engine);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!(engine.metrics().compaction.filters.removed, 1);
    assert_eq!(crate::flush::tests::get(&engine, b"k"), None);
    assert_eq!(version_of(&engine).tables().count(), 0);
    assert!(!engine.inner.common.reclaim.is_nothing_retired());
    let killed = machine.killed();
    let engine = open_filtered(&killed, &options, &busy);
    assert_eq!(crate::flush::tests::get(&engine, b"k"), None);
    put(&engine, CfId::DEFAULT, b"k", b"kept");
    engine.close().unwrap();
    let engine = open_filtered(&killed, &options, &busy);
    let found = crate::flush::tests::get(&engine, b"k");
    assert_eq!(found, Some(b"kept".to_vec()));
}

/// Removes counters that have come to zero; fails and panics if it is to.
#[derive(Debug, Default)]
struct Zeros {
    fails: AtomicU64,
    seen: Mutex<Vec<Vec<u8>>>,
}

#[derive(Debug)]
struct OfZeros(Arc<Zeros>);

impl CompactionFilter for OfZeros {
    fn name(&self) -> &str {
        "tests.zeros"
    }

    fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
        let value = entry.value()?.into_owned();
        lock(&self.0.seen).push(value.clone());
        match self.0.fails.load(Ordering::Relaxed) {
            1 => return Err("not now".into()),
            2 => panic!("a fault of the filter's"),
            _ => {}
        }
        Ok(match value == [0; 8] {
            true => Verdict::Remove,
            false => Verdict::Keep,
        })
    }
}

fn add(engine: &Engine, cf: CfId, key: &[u8], n: i64) {
    let mut batch = WriteBatch::new();
    batch.merge(cf, key, &n.to_le_bytes()).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn open_counters(machine: &Machine, zeros: &Arc<Zeros>) -> (Engine, CfId) {
    let filter: Arc<dyn CompactionFilter> = Arc::new(OfZeros(zeros.clone()));
    let setup = Setup {
        compaction_filters: vec![("counters".into(), filter)],
        ..Setup::default()
    };
    let engine = Engine::open_with(machine.world(), Path::new("/db"), tiny(), setup).unwrap();
    let counts = CfOptions::default().merge_operator(Counter::NAME);
    let cf = engine.family("counters", &counts).unwrap().id;
    (engine, cf)
}

#[test]
fn operands_are_folded_before_a_filter_sees_them() {
    let machine = Machine::new(PM);
    let zeros = Arc::default();
    let (engine, cf) = open_counters(&machine, &zeros);
    for n in [5, 6] {
        for key in [b"a", b"b"] {
            add(&engine, cf, key, n);
        }
        engine.flush().unwrap();
    }
    let snapshot = engine.snapshot();
    add(&engine, cf, b"a", -11);
    engine.compact(cf, ALL).unwrap();
    // The first sum is the snapshot's, the operand above it stays apart, and neither is asked about.
    assert_eq!(*lock(&zeros.seen), Vec::<Vec<u8>>::new());
    drop(snapshot);
    engine.compact(cf, ALL).unwrap();
    let mut seen = std::mem::take(&mut *lock(&zeros.seen));
    seen.dedup();
    assert_eq!(seen, [vec![0; 8], 11i64.to_le_bytes().to_vec()]);
    assert_eq!(engine.get(cf, b"a", <[u8]>::to_vec).unwrap(), None);
    let entries = version_of(&engine);
    let entries: u64 = entries.tables_of(cf).map(|(_, table)| table.entries).sum();
    assert_eq!(
        entries, 1,
        "what was removed leaves no delete in the last level"
    );
}

#[test]
fn a_filter_that_fails_loses_nothing_and_rests() {
    let machine = Machine::new(PM);
    let zeros: Arc<Zeros> = Arc::default();
    let (engine, cf) = open_counters(&machine, &zeros);
    for round in 0..4u8 {
        for key in 0..100 {
            put(&engine, cf, &[key], &[round; 8]);
        }
        flush(&engine);
    }
    for (fails, says) in [(1, "not now"), (2, "it panicked")] {
        zeros.fails.store(fails, Ordering::Relaxed);
        let error = engine.compact(cf, ALL).unwrap_err().to_string();
        let named = error.contains("'tests.zeros'") && error.contains(says);
        assert!(named, "{error}");
    }
    assert_eq!(engine.metrics().compaction.filters.failed, 2);
    let asked = lock(&zeros.seen).len();
    // By itself it is not asked for two jobs, which do their work.
    while engine.compact_once().unwrap() {}
    assert_eq!(lock(&zeros.seen).len(), asked);
    for key in 0..100 {
        let found = engine.get(cf, &[key], <[u8]>::to_vec).unwrap();
        assert_eq!(found, Some(vec![3; 8]));
    }
    zeros.fails.store(0, Ordering::Relaxed);
    engine.compact(cf, ALL).unwrap();
    assert!(lock(&zeros.seen).len() >= asked + 100);
    engine.close().unwrap();
    // Nobody need have it.
    let engine = open(&machine, &tiny());
    assert!(engine.get(cf, &[7], <[u8]>::to_vec).unwrap().is_some());
}

/// It is told as elsewhere, and no lack of room, for which nothing is merged there any more.
#[test]
fn a_filter_that_fails_inside_persistent_memory_is_told_of() {
    let machine = Machine::new(PM);
    let zeros: Arc<Zeros> = Arc::default();
    let mut options = tiny();
    options.compaction.table_bytes = 16 << 10;
    options.level0.shape = Some(Shape::PmTables);
    options.level0.internal = Costs::Off;
    options.flush.automatic = false;
    let filter: Arc<dyn CompactionFilter> = Arc::new(OfZeros(zeros.clone()));
    let setup = Setup {
        compaction_filters: vec![("default".into(), filter)],
        ..Setup::default()
    };
    let engine = Engine::open_with(machine.world(), Path::new("/db"), options, setup).unwrap();
    for round in 1..3u8 {
        for key in 0..100 {
            put(&engine, CfId::DEFAULT, &[key], &[round; 8]);
        }
        engine.flush().unwrap();
    }
    zeros.fails.store(1, Ordering::Relaxed);
    let compactor = &engine.inner.compactor;
    let error = compactor.merge_one_slice(CfId::DEFAULT).unwrap_err();
    assert!(error.to_string().contains("'tests.zeros'"), "{error}");
    let told = engine.metrics().compaction;
    assert_eq!((told.failed, told.internal_given_up), (1, 0));
    assert!(told.last_failure.unwrap().contains("'tests.zeros'"));
    // The next one that works takes that back.
    zeros.fails.store(0, Ordering::Relaxed);
    compactor.merge_one_slice(CfId::DEFAULT).unwrap();
    assert_eq!(engine.metrics().compaction.last_failure, None);
}

/// Removes what is as long as this, or longer.
#[derive(Debug)]
struct Long(u64);

impl CompactionFilter for Long {
    fn name(&self) -> &str {
        "tests.long"
    }

    fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
        Ok(match entry.value_len()? >= self.0 {
            true => Verdict::Remove,
            false => Verdict::Keep,
        })
    }
}

/// However short they are stored.
#[test]
fn a_filter_is_told_how_long_compressed_values_are() {
    let machine = Machine::new(PM);
    let mut options = tiny();
    options.blob.value_bytes_min = 100;
    options.blob.compression = Codec::Lz4;
    let filter: Arc<dyn CompactionFilter> = Arc::new(Long(1000));
    let setup = Setup {
        compaction_filters: vec![("default".into(), filter)],
        ..Setup::default()
    };
    let engine = Engine::open_with(machine.world(), Path::new("/db"), options, setup).unwrap();
    for n in 0..40u8 {
        let len = if n % 2 == 0 { 999 } else { 1000 };
        put(&engine, CfId::DEFAULT, &[n], &vec![n; len]);
    }
    flush(&engine);
    let version = version_of(&engine);
    let stored = version
        .blob_files()
        .filter_map(|(_, blob)| blob.value_bytes);
    assert!((1..40 * 100).contains(&stored.sum::<u64>()));
    drop(version);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    for n in 0..40u8 {
        let found = crate::flush::tests::get(&engine, &[n]);
        assert_eq!(found.is_some(), n % 2 == 0, "{n}");
    }
}

/// Closes the store that it has, once, or lets go of its handle.
#[derive(Debug, Default)]
struct Closes {
    of: Mutex<Option<Engine>>,
    lets_go: bool,
    told: Mutex<Option<Result<(), ErrorKind>>>,
}

impl CompactionFilter for Closes {
    fn name(&self) -> &str {
        "tests.closes"
    }

    fn filter(&self, _: &Entry<'_>) -> Result<Verdict, String> {
        let of = lock(&self.of).take();
        if let Some(engine) = of.filter(|_| !self.lets_go) {
            *lock(&self.told) = Some(engine.close().map_err(|error| error.kind()));
        }
        Ok(Verdict::Keep)
    }
}

/// Does something on a thread that nobody waits for if it waits for ever.
fn at_last<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = channel();
    std::thread::spawn(move || done.send(what()));
    let ended = ended.recv_timeout(Duration::from_secs(60));
    ended.expect("it does not wait for itself")
}

/// Who closes a store waits for its compactions, and so for the filter that they ask.
#[test]
fn a_filter_that_closes_its_store_is_told_that_it_cannot() {
    let closes = Arc::new(Closes::default());
    let filter: Arc<dyn CompactionFilter> = closes.clone();
    let setup = Setup {
        compaction_filters: vec![("default".into(), filter)],
        ..Setup::default()
    };
    let machine = Machine::new(PM);
    let engine = Engine::open_with(machine.world(), Path::new("/db"), tiny(), setup).unwrap();
    put(&engine, CfId::DEFAULT, b"k", b"value");
    flush(&engine);
    *lock(&closes.of) = Some(engine.clone());
    let own = engine.clone();
    at_last(move || own.compact(CfId::DEFAULT, ALL)).unwrap();
    let told = lock(&closes.told).take();
    assert_eq!(told, Some(Err(ErrorKind::InvalidArgument)));
    let found = crate::flush::tests::get(&engine, b"k");
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    engine.close().unwrap();
}

/// As a job does that keeps the store alive when its last handle goes.
#[test]
fn a_store_whose_last_handle_goes_in_a_filter_is_closed_elsewhere() {
    let machine = Machine::new(PM);
    let mut world = machine.world();
    world.background = true;
    let engine = Engine::open(world, Path::new("/db"), tiny()).unwrap();
    let inner = engine.inner.clone();
    let job = inner.clone();
    let closes = Closes {
        of: Mutex::new(Some(engine)),
        lets_go: true,
        ..Closes::default()
    };
    at_last(move || {
        let _inside = job.common.compactions.gate.enter();
        ask(&closes, &Entry::new(b"k", b"value")).unwrap();
    });
    inner.common.background.wait_ended();
    assert!(inner.common.closed.load(Ordering::SeqCst));
}
