//! A reader that stands still: nobody has to wait for it, and it reads on what it must.
//!
//! Many times what the region holds is written while it is held. A snapshot, a cursor or an iterator holds
//! no memtable and no table while it is not inside a call; what it may still be asked for is kept by its
//! seqno, wherever it is moved.

mod elders;
mod fair;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{CfId, CfOptions, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{
    Cursor, Durability, Engine, Family, KeyBounds, ReaderKind, Snapshot, Value, Watch, World,
};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_env::{Clock, Env};
use thermocline_pm::SimPm;
use thermocline_testkit::explore::{explored, is_tried, side_by_side};

use fair::{Fair, READERS};

const PM: u64 = 1 << 20;

const HERE: &str = "/db";

const EVERYTHING: KeyBounds<'static> = (Bound::Unbounded, Bound::Unbounded);

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const SHAPES: [&str; 6] = [
    "tiered",
    "global-index",
    "pm-tables",
    "immutables",
    "ssd",
    "leveled",
];

fn options(shape: &str) -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    match shape {
        "leveled" => {
            options.set("preset", shape).unwrap();
            options.dram = 4 << 20;
        }
        _ => options.set("level0.shape", shape).unwrap(),
    }
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 64 << 10;
    options.read.readahead = 4;
    options.compaction.table_bytes = 64 << 10;
    options.compaction.base_bytes = 256 << 10;
    options
}

struct Machine {
    world: World,
    fs: SimFs,
    clock: Arc<SimClock>,
}

impl Machine {
    fn new() -> Machine {
        let steps = Steps::new();
        let fs = SimFs::new(steps.clone());
        let clock = Arc::new(SimClock::new());
        let env = Env {
            clock: clock.clone(),
            ..Env::simulated(fs.clone(), 7)
        };
        let world = World {
            env,
            sim: Some(SimPm::new(4 * PM, steps)),
            shadow: None,
            background: false,
        };
        Machine { world, fs, clock }
    }

    fn open(&self, shape: &str) -> Engine {
        Engine::open(self.world.clone(), Path::new(HERE), options(shape)).unwrap()
    }

    /// Ends the life of `before`, and begins another.
    fn open_after(&self, shape: &str, before: &Engine) -> Engine {
        before.close().unwrap();
        self.open(shape)
    }

    fn a_day_passes(&self) {
        self.clock.sleep_ms(DAY_MS);
    }
}

fn put(engine: &Engine, cf: CfId, key: &[u8], value: &[u8]) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(cf, key, value)?;
    engine.write(batch.iter(), Durability::Immediate)
}

fn old_key(n: u32) -> Vec<u8> {
    format!("old {n:05}").into_bytes()
}

/// What there is when the reader comes: in memtables and in tables, with deletes of keys and of a range.
fn begin(engine: &Engine, family: Family) -> Model {
    let mut model = Model::new();
    for n in 0..600u32 {
        let value = vec![n.to_le_bytes()[0]; 100 + n as usize % 200];
        put(engine, family.id, &old_key(n), &value).unwrap();
        model.insert(old_key(n), value);
        if n == 300 {
            engine.flush().unwrap();
        }
    }
    let mut batch = WriteBatch::new();
    for n in (0..600).step_by(7) {
        batch.delete(family.id, &old_key(n)).unwrap();
        model.remove(&old_key(n));
    }
    batch
        .delete_range(family.id, &old_key(100), Some(&old_key(130)))
        .unwrap();
    model.retain(|key, _| !(old_key(100)..old_key(130)).contains(key));
    batch.set_metadata(family.id, b"then").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    model
}

/// Who stands still.
enum Held {
    Snapshot(Snapshot),
    /// Half way, with the keys that it has passed.
    Cursor(Cursor, usize),
    /// On its way back.
    Reverse(Cursor, usize),
    /// Not yet anywhere.
    Unmoved(Cursor),
    /// What a transaction has that is never ended.
    Watch(Watch),
}

const KINDS: usize = 6;

impl Held {
    fn new(engine: &Engine, family: Family, kind: usize) -> Held {
        let cursor = || engine.cursor(family).unwrap();
        match kind {
            0 => Held::Snapshot(engine.snapshot()),
            1 => Held::new_at(&engine.snapshot(), family),
            2 => {
                let mut cursor = cursor();
                assert!(cursor.seek_to_last().unwrap());
                (0..99).for_each(|_| assert!(cursor.prev().unwrap()));
                Held::Reverse(cursor, 100)
            }
            3 => Held::Unmoved(cursor()),
            4 => Held::Watch(engine.watch().unwrap()),
            _ => Held::Unmoved(engine.snapshot().cursor(family).unwrap()),
        }
    }

    /// A cursor half way.
    fn new_at(at: &Snapshot, family: Family) -> Held {
        let mut cursor = at.cursor(family).unwrap();
        assert!(cursor.seek_to_first().unwrap());
        (0..99).for_each(|_| assert!(cursor.next().unwrap()));
        Held::Cursor(cursor, 100)
    }

    fn check_at(at: &Snapshot, family: Family, model: &Model) {
        for n in 0..600 {
            let found = at.get(family.id, &old_key(n), <[u8]>::to_vec).unwrap();
            assert!(found.as_ref() == model.get(&old_key(n)), "key {n}");
        }
        assert_eq!(at.get(family.id, b"new 0", |_| ()).unwrap(), None);
        let metadata = at.metadata(family.id, <[u8]>::to_vec).unwrap();
        assert_eq!(metadata.as_deref(), Some(&b"then"[..]));
        Held::Unmoved(at.cursor(family).unwrap()).check(family, model);
    }

    fn check(self, family: Family, model: &Model) {
        let all: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        match self {
            Held::Snapshot(at) => Held::check_at(&at, family, model),
            Held::Watch(watch) => Held::check_at(watch.snapshot(), family, model),
            Held::Cursor(mut cursor, passed) => {
                assert_eq!(cursor.key(), &all[passed - 1].0[..], "it stays where it is");
                for (key, value) in &all[passed..] {
                    assert!(cursor.next().unwrap());
                    assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                }
                assert!(!cursor.next().unwrap());
                Held::Unmoved(cursor).check(family, model);
            }
            Held::Reverse(mut cursor, passed) => {
                let left = all.len() - passed;
                assert_eq!(cursor.key(), &all[left].0[..], "it stays where it is");
                for (key, value) in all[..left].iter().rev() {
                    assert!(cursor.prev().unwrap());
                    assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                }
                assert!(!cursor.prev().unwrap());
                Held::Unmoved(cursor).check(family, model);
            }
            Held::Unmoved(mut cursor) => {
                let mut more = cursor.seek_to_first().unwrap();
                for (key, value) in &all {
                    assert!(more);
                    assert_eq!((cursor.key(), cursor.value()), (&key[..], &value[..]));
                    more = cursor.next().unwrap();
                }
                assert!(!more, "{:?}", cursor.key());
            }
        }
    }
}

/// Writes new keys, overwrites all old ones and deletes some, until much more than the region has was written.
fn write_much(engine: &Engine, family: Family) -> Result<()> {
    let (mut written, mut n) = (0, 0u32);
    let much = explored(3, 5) * PM;
    while written < much {
        put(engine, family.id, format!("new {n}").as_bytes(), &[7; 900])?;
        put(engine, family.id, &old_key(n % 700), &[8; 300])?;
        if n % 97 == 0 {
            let mut batch = WriteBatch::new();
            batch.delete(family.id, &old_key(n % 600))?;
            let (start, end) = (old_key(n % 500), old_key(n % 500 + 20));
            batch.delete_range(family.id, &start, Some(&end))?;
            batch.set_metadata(family.id, &n.to_le_bytes())?;
            engine.write(batch.iter(), Durability::Immediate)?;
        }
        written += 1200;
        n += 1;
    }
    Ok(())
}

fn family_of(engine: &Engine, kind: usize) -> Family {
    match kind % 2 {
        0 => Family::DEFAULT,
        _ => engine.family("f", &CfOptions::default()).unwrap(),
    }
}

/// Of the pairs of a shape and something else every second one in a plain run, of many every third; each of both is among
/// them.
fn pairs(shape: &'static str, of: usize) -> impl Iterator<Item = usize> {
    let first = SHAPES.iter().position(|known| *known == shape);
    let first = first.expect("it is one of them");
    let part = if of < KINDS { 2 } else { 3 };
    (0..of).filter(move |one| is_tried(first + one, part))
}

/// Writes go on beside a reader that stands still for a day, and it reads exactly what it must.
#[test]
fn who_stands_still_holds_nobody_up() {
    let of = |shape| pairs(shape, KINDS).map(move |kind| (shape, kind));
    let all: Vec<(&'static str, usize)> = SHAPES.into_iter().flat_map(of).collect();
    let outcomes = side_by_side(&all, |&(shape, kind)| stands_still(shape, kind));
    let wrong = outcomes.into_iter().filter_map(|outcome| outcome.err());
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fails where a reader of kind `kind` holds somebody up; panics where it reads something else.
fn stands_still(shape: &'static str, kind: usize) -> Result<(), String> {
    let machine = Machine::new();
    let engine = machine.open(shape);
    let family = family_of(&engine, kind);
    let model = begin(&engine, family);
    let held = Held::new(&engine, family, kind);
    machine.a_day_passes();
    let written = write_much(&engine, family);
    written.map_err(|error| format!("{shape}, reader {kind}: {error}"))?;
    machine.a_day_passes();
    engine.reclaim().unwrap();
    let metrics = engine.metrics();
    let retired = metrics.memtables.iter().filter(|m| m.retired).count();
    held.check(family, &model);
    match retired {
        0 => Ok(()),
        _ => Err(format!("{shape}, reader {kind}: {retired} retired")),
    }
}

/// A handle, or what has one, is no reader: the next opening has all the space.
#[test]
fn a_handle_of_a_closed_store_holds_nothing() {
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    for shape in SHAPES {
        let machine = Machine::new();
        let engine = machine.open(shape);
        begin(&engine, Family::DEFAULT);
        let handle = engine.clone();
        engine.close().unwrap();
        let again = machine.open(shape);
        if let Err(error) = write_much(&again, Family::DEFAULT) {
            wrong.push(format!("{shape}: {error}"));
        }
        refused.push(handle.get(CfId::DEFAULT, &old_key(1), |_| ()));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    for closed in refused {
        assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
    }
}

/// A value that is read in place holds its own memtable, not all that came after it.
#[test]
fn a_pinned_value_holds_its_memtable_alone() {
    let mut wrong = Vec::new();
    for shape in SHAPES {
        let machine = Machine::new();
        let engine = machine.open(shape);
        put(&engine, CfId::DEFAULT, b"pinned", &[5; 4000]).unwrap();
        let value: Value = engine.value(CfId::DEFAULT, b"pinned").unwrap().unwrap();
        begin(&engine, Family::DEFAULT);
        if let Err(error) = write_much(&engine, Family::DEFAULT) {
            wrong.push(format!("{shape}: {error}"));
            continue;
        }
        assert_eq!(*value, [5; 4000]);
        value.verify().unwrap();
        // What stands behind it is known as flushed to the next opening.
        drop(value);
        let found = engine.get(CfId::DEFAULT, b"pinned", <[u8]>::to_vec);
        assert_eq!(found.unwrap(), Some(vec![5; 4000]));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is overwritten while a reader stands still keeps one version for it, however often that is.
#[test]
fn what_is_overwritten_keeps_one_version_for_a_reader() {
    for shape in SHAPES {
        let machine = Machine::new();
        let engine = machine.open(shape);
        let model = begin(&engine, Family::DEFAULT);
        let held = Held::new(&engine, Family::DEFAULT, 0);
        for n in 0..8000u32 {
            put(
                &engine,
                CfId::DEFAULT,
                &old_key(n % 30),
                &[n.to_le_bytes()[0]; 600],
            )
            .unwrap();
        }
        engine.flush().unwrap();
        engine.compact(CfId::DEFAULT, EVERYTHING).unwrap();
        let metrics = engine.metrics();
        let on_ssd: u64 = metrics.levels.iter().map(|level| level.bytes).sum();
        let there = on_ssd + metrics.pm_tier.table_bytes + metrics.pm_tier.sealed;
        // 600 values of 200 bytes, and thirty of 600.
        assert!(there < 600 << 10, "{shape}: {there} bytes");
        held.check(Family::DEFAULT, &model);
    }
}

/// Who reads a family that is dropped goes on, and holds nothing of the others.
#[test]
fn a_reader_of_a_dropped_family_holds_that_family_alone() {
    for shape in SHAPES {
        for kind in 0..2 {
            let machine = Machine::new();
            let engine = machine.open(shape);
            let family = engine.family("f", &CfOptions::default()).unwrap();
            begin(&engine, Family::DEFAULT);
            let model = begin(&engine, family);
            let held = Held::new(&engine, family, kind);
            put(&engine, family.id, &old_key(2), b"later").unwrap();
            engine.drop_family("f").unwrap();
            machine.a_day_passes();
            write_much(&engine, Family::DEFAULT).unwrap();
            engine.reclaim().unwrap();
            let memtables = engine.metrics().memtables;
            assert!(
                memtables.iter().all(|m| !m.retired),
                "{shape}: {memtables:?}"
            );
            held.check(family, &model);
            // Nobody is left: nothing of it is.
            engine.reclaim().unwrap();
            engine.flush().unwrap();
            engine.reclaim().unwrap();
            assert_eq!(engine.metrics().pm_tier.table_bytes_retired, 0, "{shape}");
            engine.close().unwrap();
            let report = thermocline_engine::verify(&machine.world, HERE.as_ref(), &options(shape));
            assert_eq!(report.unwrap().faults, []);
        }
    }
}

/// Who reads, since when, and how far behind.
#[test]
fn metrics_tell_who_reads() {
    let machine = Machine::new();
    let engine = machine.open("tiered");
    begin(&engine, Family::DEFAULT);
    let first = engine.snapshot();
    machine.a_day_passes();
    let cursor = engine.cursor(Family::DEFAULT).unwrap();
    put(&engine, CfId::DEFAULT, b"k", b"v").unwrap();
    let told = engine.metrics().readers_told;
    let kinds: Vec<_> = told.iter().map(|reader| reader.kind).collect();
    assert_eq!(kinds, [ReaderKind::Snapshot, ReaderKind::Cursor]);
    assert_eq!(told[0].held, Duration::from_millis(DAY_MS));
    assert_eq!((told[0].seqno, told[0].behind), (first.seqno().0, 1));
    assert!(!told[0].in_call && told[1].held.is_zero());
    drop((first, cursor));
    assert_eq!(engine.metrics().readers_told, []);
}

/// The files and the region of a machine, with the store's own threads, and a clock for who reads beside them.
fn beside_readers(machine: &Machine) -> (World, Arc<Fair>) {
    let clock = Arc::new(Fair::default());
    let env = Env {
        storage: machine.world.env.storage.clone(),
        clock: clock.clone(),
        ..Env::real()
    };
    let world = World {
        env,
        background: true,
        ..machine.world.clone()
    };
    (world, clock)
}

/// Cursors that move slowly, and snapshots, beside a writer and the store's own threads: each sees its moment.
#[test]
fn slow_readers_beside_writers_and_jobs_see_their_moment() {
    for shape in SHAPES {
        let machine = Machine::new();
        let (world, clock) = beside_readers(&machine);
        let engine = Engine::open(world, HERE.as_ref(), options(shape)).unwrap();
        let model = begin(&engine, Family::DEFAULT);
        let helds: Vec<Held> = (0..KINDS)
            .map(|kind| Held::new(&engine, Family::DEFAULT, kind))
            .collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (engine, done, model, clock) = (&engine, &done, &model, &clock);
            for nth in 0..READERS {
                let at = engine.snapshot();
                scope.spawn(move || {
                    while !done.load(Ordering::Acquire) {
                        let _round = clock.begin_round(nth);
                        Held::Unmoved(at.cursor(Family::DEFAULT).unwrap())
                            .check(Family::DEFAULT, model);
                        Held::Snapshot(at.clone()).check(Family::DEFAULT, model);
                    }
                });
            }
            let written = write_much(engine, Family::DEFAULT);
            done.store(true, Ordering::Release);
            written.unwrap();
        });
        for held in helds {
            held.check(Family::DEFAULT, &model);
        }
        engine.close().unwrap();
    }
}

/// A cursor that keeps its view while it stands still keeps memtables that have gone otherwise.
#[test]
fn a_view_that_nobody_sees_by_is_caught() {
    let kept = || {
        let machine = Machine::new();
        let engine = machine.open("global-index");
        let model = begin(&engine, Family::DEFAULT);
        let held = Held::new(&engine, Family::DEFAULT, 1);
        write_much(&engine, Family::DEFAULT).unwrap();
        let told = engine.metrics().readers_told;
        held.check(Family::DEFAULT, &model);
        told[0].retired_bytes
    };
    assert_eq!(kept(), 0);
    let _bug = plant(Bug::IdleKeepsView);
    assert!(kept() > 0);
}
