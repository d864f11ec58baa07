//! Time to live: what has expired goes, nothing younger does, nothing older returns, and no reader sees it happen.

use std::ops::Bound;
use std::time::Duration;

use thermocline_base::SeqNo;
use thermocline_base::merge::Counter;
use thermocline_base::options::Shape;
use thermocline_base::{CfOptions, WriteBatch};
use thermocline_env::Clock;
use thermocline_env::simulated::SimClock;
use thermocline_policy::pick::Reason;

use super::filters::content;
use super::*;
use crate::sync::Arc;
use crate::{Durability, Family, Setup, World};

const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);
const NAMES: [&str; 2] = ["default", "down"];
const START: u64 = 1_000_000;

/// The TTLs of the two families, in seconds.
type Ttls = [Option<u64>; 2];

fn open_with_ttls(
    machine: &Machine,
    clock: &Arc<SimClock>,
    options: &Options,
    ttls: Ttls,
) -> Engine {
    let given = NAMES.iter().zip(ttls);
    let given = given.filter_map(|(name, ttl)| Some((name.to_string(), ttl?)));
    let setup = Setup {
        ttls: given.map(|(n, s)| (n, Duration::from_secs(s))).collect(),
        ..Setup::default()
    };
    let world = world_of(machine, clock);
    Engine::open_with(world, Path::new("/db"), options.clone(), setup).unwrap()
}

fn clock_at(unix_s: u64) -> Arc<SimClock> {
    let clock = Arc::new(SimClock::new());
    clock.set_unix_s(unix_s);
    clock
}

/// A value, the time at which it was written and its seqno.
type Written = (Vec<u8>, u64, SeqNo);

#[derive(Debug, Default)]
struct Did {
    expired: u64,
    dropped: u64,
    undone: u64,
    gone: usize,
}

/// A store whose families have TTLs, and what it may show.
struct Aging {
    machine: Machine,
    clock: Arc<SimClock>,
    /// What has passed since the beginning, in seconds. The calendar says so, but it is sometimes set back.
    now: u64,
    options: Options,
    engine: Engine,
    ttls: Ttls,
    families: Vec<Family>,
    models: Vec<std::collections::BTreeMap<Vec<u8>, Written>>,
    keys: Vec<Vec<u8>>,
    held: Vec<(Snapshot, Vec<Model>)>,
    did: Did,
}

impl Aging {
    fn begin(options: Options, ttls: Ttls) -> Aging {
        let machine = Machine::new(PM);
        let clock = clock_at(START);
        let engine = open_with_ttls(&machine, &clock, &options, ttls);
        let key = |n: u8| [&b"kk"[..usize::from(n % 3)], &[n]].concat();
        Aging {
            families: families(&engine),
            models: vec![Default::default(), Default::default()],
            keys: (0..120).map(key).collect(),
            held: Vec::new(),
            did: Did::default(),
            now: START,
            machine,
            clock,
            options,
            engine,
            ttls,
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += seconds;
        self.clock.advance_ns(seconds * 1_000_000_000);
    }

    /// Keys that are written at about the same time lie beside each other, as a rule.
    fn write(&mut self, rng: &mut Rng) {
        let at = rng.below(2);
        let near = (usize::try_from(self.now).unwrap() / 40 + rng.below(12)) % self.keys.len();
        let n = match rng.one_in(8) {
            true => rng.below(self.keys.len()),
            false => near,
        };
        let (cf, key) = (self.families[at].id, self.keys[n].clone());
        if rng.one_in(8) {
            delete(&self.engine, cf, &key);
            self.models[at].remove(&key);
            return;
        }
        let filler = rng.next_u64().to_le_bytes();
        let value: Vec<u8> = filler.into_iter().cycle().take(rng.below(200)).collect();
        put(&self.engine, cf, &key, &value);
        let seqno = SeqNo(self.engine.inner.common.commits.ring.visible());
        self.models[at].insert(key, (value, self.now, seqno));
    }

    /// What is there now is what was written, or nothing where the TTL has passed; and from then on it is that.
    fn check(&mut self) {
        let snapshot = self.engine.snapshot();
        for (n, family) in self.families.iter().enumerate() {
            let found = content(&snapshot, *family);
            assert!(found.keys().all(|key| self.models[n].contains_key(key)));
            let (ttl, now) = (self.ttls[n], self.now);
            let before = self.models[n].len();
            self.models[n].retain(|key, (value, written, _)| {
                let there = found.get(key);
                let may_go = ttl.is_some_and(|ttl| *written + ttl <= now);
                let is_right = there == Some(value) || there.is_none() && may_go;
                assert!(
                    is_right,
                    "{key:?} of {written} at {now}, {ttl:?}: {there:?}"
                );
                there.is_some()
            });
            self.did.gone += before - self.models[n].len();
        }
        drop(snapshot);
        let plain = self.plain();
        check_now(&self.engine, &self.families, &plain, &self.keys);
        self.check_held();
    }

    fn plain(&self) -> Vec<Model> {
        let of = |model: &std::collections::BTreeMap<Vec<u8>, Written>| -> Model {
            let all = model.iter();
            all.map(|(k, (v, ..))| (k.clone(), v.clone())).collect()
        };
        self.models.iter().map(of).collect()
    }

    fn check_held(&self) {
        for (snapshot, models) in &self.held {
            check_then(snapshot, &self.families, models, &self.keys);
        }
    }

    /// Where nobody reads, a range that is compacted has nothing left of what is known to have expired, and all else.
    fn compact(&mut self, n: usize) {
        self.check();
        if !self.held.is_empty() {
            self.engine.compact(self.families[n].id, ALL).unwrap();
            return self.check();
        }
        self.engine.compact(self.families[n].id, ALL).unwrap();
        let expired = self.engine.inner.common.expired(self.families[n].id);
        let lives = |written: &Written| expired.is_none_or(|expired| written.2 > expired);
        let of_model = self.models[n].iter().filter(|(_, written)| lives(written));
        let expected: Vec<Vec<u8>> = of_model.map(|(key, _)| key.clone()).collect();
        self.check();
        let left: Vec<Vec<u8>> = self.models[n].keys().cloned().collect();
        assert_eq!(left, expected);
    }

    fn count(&mut self) {
        let compaction = self.engine.metrics().compaction;
        self.did.expired += compaction.filters.expired;
        self.did.undone += compaction.filters.undone;
        let dropped = compaction.reasons.iter();
        let mut dropped = dropped.filter(|(reason, _)| *reason == Reason::Expired);
        self.did.dropped += dropped.next().map_or(0, |(_, jobs)| *jobs);
    }

    fn reopen(&mut self, killed: bool, rng: &mut Rng) {
        self.check();
        self.count();
        self.held.clear();
        match killed {
            true => self.machine = self.machine.killed(),
            false => self.engine.close().unwrap(),
        }
        let any = [None, Some(300), Some(1000), Some(4000)];
        if rng.one_in(2) {
            self.ttls = [*rng.pick(&any), *rng.pick(&any)];
        }
        self.engine = open_with_ttls(&self.machine, &self.clock, &self.options, self.ttls);
        self.check();
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(1000) {
            0..800 => self.write(rng),
            800..850 => self.pass(rng.below(40) as u64),
            850..885 => flush(&self.engine),
            885..925 => while self.engine.compact_once().unwrap() {},
            925..935 => {
                let cf = self.families[rng.below(2)].id;
                let merged = self.engine.compact_level0(cf).map_err(|e| e.kind());
                let no_room = thermocline_base::ErrorKind::OutOfSpace;
                assert!(merged.err().is_none_or(|kind| kind == no_room));
            }
            935..942 => self.compact(rng.below(2)),
            942..950 => {
                self.check();
                let snapshot = self.engine.snapshot();
                self.held.push((snapshot, self.plain()));
            }
            950..970 if !self.held.is_empty() => {
                drop(self.held.remove(rng.below(self.held.len())));
            }
            970..=980 => self.check(),
            981 => self.pass(rng.below(2000) as u64),
            982 => {
                let back = rng.below(300) as u64;
                self.clock.set_unix_s(self.clock.unix_s() - back);
            }
            983 => self.reopen(false, rng),
            984 => self.reopen(true, rng),
            _ => self.check_held(),
        }
    }

    /// At last nobody reads, all that was written is known to have been, and nothing is left of it.
    fn end(mut self) -> Did {
        self.held.clear();
        self.engine.close().unwrap();
        self.ttls = [Some(1000); 2];
        self.engine = open_with_ttls(&self.machine, &self.clock, &self.options, self.ttls);
        // Past all that the calendar was set back, so that the time is noted again.
        self.clock.set_unix_s(self.now);
        self.pass(10);
        let cf = self.families[0].id;
        put(&self.engine, cf, b"last", b"");
        let seqno = SeqNo(self.engine.inner.common.commits.ring.visible());
        self.models[0].insert(b"last".to_vec(), (Vec::new(), self.now, seqno));
        // The first write has named a chain, and noted the time.
        self.pass(10);
        flush(&self.engine);
        self.pass(999);
        for n in [0, 1] {
            self.compact(n);
        }
        assert!(self.models[0].contains_key(&b"last"[..]));
        self.pass(1);
        for n in [0, 1] {
            self.compact(n);
            assert_eq!(self.models[n], Default::default());
        }
        self.count();
        self.did
    }
}

fn story(seed: u64) -> Did {
    let mut rng = Rng::new(seed);
    let mut options = any(&mut rng);
    options.level0.shape = Some(*rng.pick(&Shape::ALL));
    let mut story = Aging::begin(options, [Some(300), Some(1000)]);
    for _ in 0..1500 {
        story.step(&mut rng);
    }
    story.end()
}

#[test]
fn what_has_expired_goes_and_nothing_younger_does() {
    let mut all = Did::default();
    for seed in seeds(0..explored(3, 16)) {
        let _replay = Replay::new("-p thermocline-engine what_has_expired_goes", seed);
        let did = story(seed);
        all.expired += did.expired;
        all.dropped += did.dropped;
        all.undone += did.undone;
        all.gone += did.gone;
    }
    println!("{all:?}");
    let least = explored(100, 640);
    let gone = u64::try_from(all.gone).unwrap();
    let enough = all.expired > least && gone > least && all.dropped > least / 10;
    assert!(enough || seeds(0..2).len() == 1, "{all:?}");
}

#[test]
fn a_time_that_speaks_of_what_comes_later_is_caught() {
    let is_caught = (0..10).any(|seed| {
        let planted = move || {
            let _bug = plant(Bug::TimesAhead);
            story(seed)
        };
        std::panic::catch_unwind(planted).is_err()
    });
    assert!(is_caught);
}

fn open_one(machine: &Machine, clock: &Arc<SimClock>, ttl: Option<u64>) -> Engine {
    open_with_ttls(machine, clock, &tiny(), [ttl, None])
}

fn has(engine: &Engine, key: &[u8]) -> bool {
    let found = engine.get(CfId::DEFAULT, key, |_| ());
    found.unwrap().is_some()
}

fn pairs(engine: &Engine) -> Vec<(u64, u64)> {
    let times = engine.inner.common.catalog.write_times();
    let pairs = times.pairs().iter();
    pairs.map(|pair| (pair.seqno.0, pair.unix_s)).collect()
}

/// Writes into a table of its own, whose time is noted.
fn write_table(engine: &Engine, keys: std::ops::Range<u8>) {
    for key in keys {
        put(engine, CfId::DEFAULT, &[key], b"value");
    }
    flush(engine);
}

#[test]
fn a_store_without_ttls_notes_no_times_and_keeps_those_that_it_has() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let engine = open_one(&machine, &clock, None);
    write_table(&engine, 0..9);
    assert_eq!(pairs(&engine), []);
    assert_eq!(engine.metrics().write_times, None);
    engine.close().unwrap();
    clock.set_unix_s(2000);
    let engine = open_one(&machine, &clock, Some(100));
    write_table(&engine, 9..10);
    let noted = pairs(&engine);
    // What was written before has been, when there was a TTL first.
    assert_eq!(noted.last(), Some(&(9, 2000)), "{noted:?}");
    engine.close().unwrap();
    clock.set_unix_s(3000);
    let engine = open_one(&machine, &clock, None);
    write_table(&engine, 10..11);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!(pairs(&engine), noted);
    assert!(has(&engine, &[3]));
    engine.close().unwrap();
    let engine = open_one(&machine, &clock, Some(1000));
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!((0..11).filter(|n| has(&engine, &[*n])).count(), 2);
    assert!(has(&engine, &[9]) && has(&engine, &[10]));
}

#[test]
fn a_table_goes_unread_and_uncovers_nothing() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let engine = open_one(&machine, &clock, Some(100));
    // Older versions of the first keys in the last level, of which one is written again later, in a table of its own.
    write_table(&engine, 0..9);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    clock.set_unix_s(1050);
    put(&engine, CfId::DEFAULT, &[3], b"newer");
    flush(&engine);
    clock.set_unix_s(1149);
    let snapshot = engine.snapshot();
    clock.set_unix_s(1151);
    assert!(!engine.compact_once().unwrap(), "somebody reads them");
    drop(snapshot);
    assert!(engine.compact_once().unwrap());
    assert!(engine.compact_once().unwrap());
    assert!(!engine.compact_once().unwrap());
    let compaction = engine.metrics().compaction;
    assert_eq!(compaction.filters.expired, 10);
    assert!(compaction.reasons.contains(&(Reason::Expired, 2)));
    assert!((0..9).all(|n| !has(&engine, &[n])));
    assert_eq!(levels(&engine).iter().sum::<usize>(), 0);
    // What was written since then lives.
    write_table(&engine, 20..29);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    let below = SeqNo(engine.inner.common.commits.ring.visible());
    assert_eq!(engine.inner.common.expired(CfId::DEFAULT), Some(SeqNo(10)));
    assert!(below > SeqNo(10));
}

#[test]
fn readers_that_come_while_tables_go_keep_them_for_a_second() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let engine = open_one(&machine, &clock, Some(100));
    write_table(&engine, 0..9);
    clock.set_unix_s(1100);
    let job = engine.inner.compactor.picker.take_due().unwrap();
    let snapshot = engine.snapshot();
    engine.inner.compactor.run(job).unwrap();
    let family = Family::DEFAULT;
    assert_eq!(content(&snapshot, family).len(), 9);
    drop(snapshot);
    assert!(!engine.compact_once().unwrap());
    clock.advance_ns(1_000_000_000);
    assert!(engine.compact_once().unwrap());
    assert!(!has(&engine, &[3]));
}

#[test]
fn a_clock_that_is_set_ahead_makes_old_and_one_that_is_set_back_does_not() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let engine = open_one(&machine, &clock, Some(100));
    write_table(&engine, 0..1);
    clock.set_unix_s(500);
    write_table(&engine, 1..2);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    // Nothing is noted before the calendar is where it was.
    clock.set_unix_s(1000);
    write_table(&engine, 2..3);
    assert_eq!(pairs(&engine).last().map(|pair| pair.1), Some(1000));
    clock.set_unix_s(1001);
    write_table(&engine, 3..4);
    assert_eq!(pairs(&engine).last(), Some(&(4, 1001)));
    clock.set_unix_s(1099);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert!((0..4).all(|n| has(&engine, &[n])));
    // Far ahead, and back.
    clock.set_unix_s(1100);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!((0..4).filter(|n| has(&engine, &[*n])).count(), 3);
    clock.set_unix_s(1_000_000);
    write_table(&engine, 4..5);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!((0..5).filter(|n| has(&engine, &[*n])).count(), 1);
    clock.set_unix_s(1200);
    write_table(&engine, 5..6);
    clock.set_unix_s(900_000);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert!(has(&engine, &[4]) && has(&engine, &[5]));
}

#[test]
fn an_operand_counts_for_its_ttl_whatever_it_is_merged_into() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let setup = Setup {
        ttls: vec![("counts".into(), Duration::from_secs(100))],
        ..Setup::default()
    };
    let open = || {
        let world = world_of(&machine, &clock);
        Engine::open_with(world, Path::new("/db"), tiny(), setup.clone()).unwrap()
    };
    let engine = open();
    let counts = CfOptions::default().merge_operator(Counter::NAME);
    let cf = engine.family("counts", &counts).unwrap().id;
    let add = |n: i64| {
        let mut batch = WriteBatch::new();
        batch.merge(cf, b"k", &n.to_le_bytes()).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        flush(&engine);
    };
    let sum = || {
        let found = engine.get(cf, b"k", <[u8]>::to_vec).unwrap();
        found.map(|value| i64::from_le_bytes(value.try_into().unwrap()))
    };
    add(1);
    clock.set_unix_s(1060);
    add(2);
    clock.set_unix_s(1110);
    // It was folded with what is younger, and is as old as that.
    engine.compact(cf, ALL).unwrap();
    assert_eq!(sum(), Some(3));
    clock.set_unix_s(1150);
    add(4);
    clock.set_unix_s(1165);
    // What is older than the TTL goes where it lies by itself; what is younger counts.
    while engine.compact_once().unwrap() {}
    assert_eq!(sum(), Some(4));
    clock.set_unix_s(1250);
    engine.compact(cf, ALL).unwrap();
    assert_eq!(sum(), None);
}

#[test]
fn long_values_that_expire_are_not_read() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let mut options = tiny();
    options.blob.inline_bytes_max = 100;
    let engine = open_with_ttls(&machine, &clock, &options, [Some(100), None]);
    for key in 0..9u8 {
        put(&engine, CfId::DEFAULT, &[key], &[key; 1000]);
    }
    clock.set_unix_s(1001);
    flush(&engine);
    clock.set_unix_s(1050);
    write_table(&engine, 5..20);
    for name in machine.blob_files() {
        machine.rot_file(&Path::new("/db").join(name), 300);
    }
    clock.set_unix_s(1110);
    engine.compact(CfId::DEFAULT, ALL).unwrap();
    assert_eq!((0..20).filter(|n| has(&engine, &[*n])).count(), 15);
    // Nor are those kept that nothing refers to.
    engine.close().unwrap();
    let engine = open_with_ttls(&machine, &clock, &options, [Some(100), None]);
    assert_eq!((0..20).filter(|n| has(&engine, &[*n])).count(), 15);
    assert_eq!(machine.blob_files(), Vec::<String>::new());
}

#[test]
fn tables_of_what_has_expired_go_though_nobody_writes() {
    let machine = Machine::new(PM);
    let clock = clock_at(1000);
    let runtime = crate::Runtime::scripted(clock.clone());
    let setup = Setup {
        ttls: vec![("default".into(), Duration::from_secs(300))],
        runtime: Some(runtime.clone()),
        ..Setup::default()
    };
    let world = World {
        background: true,
        ..world_of(&machine, &clock)
    };
    let engine = Engine::open_with(world, Path::new("/db"), tiny(), setup).unwrap();
    let work = || while runtime.step().is_some() {};
    clock.advance_ns(5_000_000_000);
    write_table(&engine, 0..9);
    // The engine looks every three seconds.
    for n in 1..=155 {
        clock.advance_ns(2_000_000_000);
        work();
        let is_there = has(&engine, &[3]);
        assert!(
            if n < 150 {
                is_there
            } else {
                n < 153 || !is_there
            },
            "{n}"
        );
    }
    assert_eq!(levels(&engine).iter().sum::<usize>(), 0);
    engine.close().unwrap();
    work();
}
