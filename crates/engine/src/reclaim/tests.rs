//! What is dropped, what is not, and what readers see meanwhile.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline_base::options::{Options, Shape};
use thermocline_base::{CfId, CfOptions, Error, ErrorKind, WriteBatch};
use thermocline_memtable::Lookup;
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::tests::Machine;
use crate::{Cursor, Durability, Engine, Family, Snapshot, World};

const CF: CfId = CfId::DEFAULT;
const MIB: u64 = 1 << 20;

thread_local! {
    /// The shape of level 0 in the tests of this thread.
    static SHAPE: Cell<Shape> = const { Cell::new(Shape::GlobalIndex) };
}

fn options(pm: u64, memtable_bytes: u64) -> Options {
    let mut options = Options {
        pm,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options.memtable.bytes_max = memtable_bytes;
    options.level0.shape = Some(SHAPE.get());
    options.level0.merge_percent = 0;
    // What is mostly dead stays as it is, too.
    options.flush.rewrite_ratio = 0;
    options
}

/// The same where each memtable keeps its own index.
mod immutables {
    use super::*;

    fn with(test: impl FnOnce()) {
        SHAPE.set(Shape::Immutables);
        test();
    }

    #[test]
    fn keys_overwritten_without_end_fit() {
        with(|| {
            hot_keys_fit(1);
            hot_keys_fit(10);
        });
    }

    #[test]
    fn what_everybody_deleted_leaves_nothing_behind() {
        with(super::what_everybody_deleted_leaves_nothing_behind);
    }

    #[test]
    fn zones_are_given_back_beside_readers() {
        with(super::zones_are_given_back_beside_readers);
    }

    #[test]
    fn exactly_what_nobody_needs_is_dropped() {
        with(super::exactly_what_nobody_needs_is_dropped);
    }

    #[test]
    fn readers_beside_the_stores_thread_never_miss_a_value() {
        with(super::readers_beside_the_stores_thread_never_miss_a_value);
    }

    #[test]
    fn readers_that_outlive_their_store_keep_what_they_read() {
        with(super::readers_that_outlive_their_store_keep_what_they_read);
    }

    #[test]
    fn a_dropped_family_gives_its_space_back() {
        with(super::a_dropped_family_gives_its_space_back);
    }
}

fn open(sim: &Machine, options: &Options) -> Engine {
    Engine::open(sim.world(), Path::new("/db"), options.clone()).unwrap()
}

fn put(engine: &Engine, cf: CfId, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(cf, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn family(id: CfId) -> Family {
    Family {
        id,
        ..Family::DEFAULT
    }
}

fn delete(engine: &Engine, cf: CfId, key: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.delete(cf, key).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(CF, key, <[u8]>::to_vec).unwrap()
}

/// A value that says which write it is of.
fn value(n: u64, len: usize) -> Vec<u8> {
    let mut value = n.to_le_bytes().to_vec();
    value.resize(len, n.to_le_bytes()[0]);
    value
}

fn scanned(cursor: &mut Cursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        all.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = cursor.next().unwrap();
    }
    all
}

/// A hundred mebibytes, in a plain run thirty, through a region of four, while a snapshot and an iterator of the first moment
/// stay open.
fn hot_keys_fit(keys: u8) {
    const LEN: usize = 4000;
    let sim = Machine::new(4 * MIB);
    let engine = open(&sim, &options(4 * MIB, 0));
    for key in 0..keys {
        put(&engine, CF, &[key], &value(u64::from(key), LEN));
    }
    let snapshot = engine.snapshot();
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    let first: Vec<_> = (0..keys)
        .map(|key| (vec![key], value(u64::from(key), LEN)))
        .collect();
    let writes = explored(30, 100) * MIB / LEN as u64;
    let mut most = 0;
    for n in 1..=writes {
        let key = n % u64::from(keys);
        put(&engine, CF, &[key.to_le_bytes()[0]], &value(n, LEN));
        most = most.max(engine.metrics().space.attached_bytes);
    }
    // The memtable of the snapshot, the one that was sealed last, the one that is written; each an
    // eighth of the region, in zones of which the last may be nearly empty.
    assert!(most < 2 * MIB, "{most} bytes were attached at once");
    let metrics = engine.metrics();
    assert!(metrics.memtables.len() <= 4, "{:?}", metrics.memtables);
    assert!(metrics.memtables_dropped > explored(40, 150), "{metrics:?}");
    assert_eq!(metrics.memtables[0].readers, 2);
    assert_eq!(
        scanned(&mut snapshot.cursor(Family::DEFAULT).unwrap()),
        first
    );
    assert_eq!(scanned(&mut cursor), first);
    for (key, old) in &first {
        let at = snapshot.get(CF, key, <[u8]>::to_vec).unwrap();
        assert_eq!(at.as_ref(), Some(old));
    }
    drop((snapshot, cursor));
    assert!(engine.reclaim().unwrap() >= 1, "nobody needs the first one");
    let killed = open(&sim.killed(), &options(4 * MIB, 0));
    engine.close().unwrap();
    let closed = open(&sim, &options(4 * MIB, 0));
    // A handle of a closed store reads nothing (`close`).
    assert!(engine.get(CF, b"", |_| ()).is_err());
    for engine in [killed, closed] {
        for key in 0..u64::from(keys) {
            let last = (0..u64::from(keys)).map(|back| writes - back);
            let last = last.filter(|n| n % u64::from(keys) == key).max().unwrap();
            let found = get(&engine, &[key.to_le_bytes()[0]]);
            assert!(found == Some(value(last, LEN)), "key {key}");
        }
    }
}

#[test]
fn one_key_overwritten_without_end_fits() {
    hot_keys_fit(1);
}

#[test]
fn ten_keys_overwritten_without_end_fit() {
    hot_keys_fit(10);
}

#[test]
fn what_everybody_deleted_leaves_nothing_behind() {
    let engine = open(&Machine::new(MIB), &options(MIB, 16 << 10));
    for round in 0..20u64 {
        for key in 0..40u8 {
            put(&engine, CF, &[key], &value(round, 1000));
        }
        for key in 0..40u8 {
            delete(&engine, CF, &[key]);
        }
    }
    // The tombstones of the last round lie in the active memtable.
    put(&engine, CF, b"last", &value(1, 20_000));
    engine.reclaim().unwrap();
    let metrics = engine.metrics();
    assert!(metrics.memtables.len() <= 2, "{:?}", metrics.memtables);
    assert!(metrics.space.attached_bytes <= 5 * (16 << 10));
}

/// Readers that stand still keep versions, not memtables: those go, and the readers see what they saw.
#[test]
fn zones_are_given_back_beside_readers() {
    let engine = open(&Machine::new(MIB), &options(MIB, 16 << 10));
    let fill = |n: u64| {
        for i in 0..20 {
            put(&engine, CF, b"hot", &value(n * 100 + i, 1000));
        }
    };
    fill(1);
    let old = engine.snapshot();
    fill(2);
    let held = engine.snapshot();
    let mut cursor = held.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    fill(3);
    fill(4);
    drop(old);
    engine.reclaim().unwrap();
    let before = engine.metrics();
    assert!(before.memtables.iter().all(|m| !m.retired));
    let needed = before.memtables.iter().filter(|m| m.readers > 0);
    let needed: Vec<_> = needed.map(|g| (g.readers, g.retired)).collect();
    // One registration: the cursor shares the snapshot's.
    assert_eq!(needed, [(1, false)]);
    // The space is used meanwhile.
    for n in 5..20 {
        fill(n);
        assert_eq!(scanned(&mut cursor), [(b"hot".to_vec(), value(219, 1000))]);
    }
    let sees = |at: &Snapshot| at.get(CF, b"hot", <[u8]>::to_vec).unwrap();
    assert_eq!(sees(&held), Some(value(219, 1000)));
    engine.reclaim().unwrap();
    assert!(engine.metrics().memtables.iter().all(|m| !m.retired));
    let used = engine.metrics().space.zones_attached;
    drop(held);
    drop(cursor);
    engine.reclaim().unwrap();
    assert!(engine.metrics().space.zones_attached < used);
    assert!(engine.metrics().memtables.len() <= 2);
    assert_eq!(get(&engine, b"hot"), Some(value(1919, 1000)));
}

/// One version of a key, as the oracle knows it.
#[derive(Debug, Clone)]
struct Written {
    seqno: u64,
    memtable: u64,
    value: Option<Vec<u8>>,
}

/// Everything that was ever written, and what must be there of it.
#[derive(Default)]
struct Oracle {
    versions: BTreeMap<(CfId, Vec<u8>), Vec<Written>>,
    /// Memtables in the current view: there are no others, since nobody is inside a call.
    current: BTreeSet<u64>,
}

impl Oracle {
    fn at(&self, seqno: u64) -> BTreeMap<(CfId, Vec<u8>), Vec<u8>> {
        let seen = self.versions.iter().filter_map(|(key, all)| {
            let last = all.iter().rfind(|v| v.seqno <= seqno)?;
            Some((key.clone(), last.value.clone()?))
        });
        seen.collect()
    }

    /// Drops what nobody needs, by looking at everything.
    fn reclaim(&mut self, readers: &[u64], active: u64) {
        loop {
            let needed = |memtable: u64, is_oldest: bool| {
                self.versions.values().any(|all| {
                    all.iter().enumerate().any(|(i, version)| {
                        let mine = version.memtable == memtable;
                        let next = all.get(i + 1);
                        let newest = next.is_none_or(|next| next.memtable != memtable);
                        // A tombstone with nothing below it says what its absence says.
                        let idle = is_oldest && newest && version.value.is_none();
                        let between = |next: &Written| {
                            let from = version.seqno..next.seqno;
                            readers.iter().any(|r| from.contains(r))
                        };
                        mine && !idle && next.is_none_or(between)
                    })
                })
            };
            let oldest = self.current.iter().min().copied();
            let mut all = self.current.iter().copied();
            let dead = all.find(|&id| id != active && !needed(id, Some(id) == oldest));
            let Some(dead) = dead else { return };
            self.current.remove(&dead);
        }
    }
}

struct Run {
    engine: Engine,
    oracle: Oracle,
    rng: Rng,
    snapshots: Vec<Snapshot>,
    cursors: Vec<(Cursor, u64)>,
    written: u64,
}

impl Run {
    fn write(&mut self) {
        let mut batch = WriteBatch::new();
        let mut all = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let cf = CfId(u16::try_from(self.rng.below(2)).unwrap());
            // A few hot keys and some cold ones.
            let key = match self.rng.one_in(6) {
                true => vec![b'c', self.rng.next_u64().to_le_bytes()[0] % 32],
                false => vec![self.rng.next_u64().to_le_bytes()[0] % 3],
            };
            self.written += 1;
            let value = (!self.rng.one_in(3)).then(|| {
                let len = 8 + self.rng.below(600);
                value(self.written, len)
            });
            match &value {
                Some(value) => batch.put(cf, &key, value).unwrap(),
                None => batch.delete(cf, &key).unwrap(),
            }
            all.push(((cf, key), value));
        }
        let before = self.engine.visible().0;
        self.engine
            .write(batch.iter(), Durability::Immediate)
            .unwrap();
        let memtable = self.active();
        let first = self.engine.visible().0 + 1 - all.len() as u64;
        assert!(first > before);
        for (seqno, (key, value)) in (first..).zip(all) {
            self.oracle.versions.entry(key).or_default().push(Written {
                seqno,
                memtable,
                value,
            });
        }
        self.oracle.current.insert(memtable);
    }

    /// The memtables that a reader who comes now sees.
    fn view(&self) -> BTreeSet<u64> {
        let memtables = self.engine.metrics().memtables;
        let current = memtables.iter().filter(|m| !m.retired);
        current.map(|m| m.id).collect()
    }

    fn active(&self) -> u64 {
        let memtables = self.engine.metrics().memtables;
        memtables.iter().find(|m| !m.sealed).unwrap().id
    }

    fn check(&mut self) {
        let scan = |at: &Snapshot| {
            let mut all = BTreeMap::new();
            for cf in [CfId(0), CfId(1)] {
                let rows = scanned(&mut at.cursor(family(cf)).unwrap());
                all.extend(rows.into_iter().map(|(k, v)| ((cf, k), v)));
            }
            all
        };
        for snapshot in &self.snapshots {
            assert_eq!(scan(snapshot), self.oracle.at(snapshot.seqno().0));
        }
        for (cursor, seqno) in &mut self.cursors {
            let want = self.oracle.at(*seqno).into_iter();
            let want = want.filter(|((cf, _), _)| *cf == CF);
            let want: Vec<_> = want.map(|((_, k), v)| (k, v)).collect();
            assert_eq!(scanned(cursor), want);
        }
        let now = self.oracle.at(u64::MAX);
        assert_eq!(scan(&self.engine.snapshot()), now);
        for (cf, key) in self.oracle.versions.keys() {
            let found = self.engine.get(*cf, key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_ref(), now.get(&(*cf, key.clone())));
        }
    }

    /// Nobody reads any more, and all indexes are merged: of what nobody needs nothing stays.
    fn reclaim_all(&mut self) {
        self.snapshots.clear();
        self.cursors.clear();
        let inner = self.engine.inner.clone();
        loop {
            let dropped = self.engine.reclaim().unwrap();
            let merged = inner
                .merger
                .merge_for_room(&mut inner.memtables.lock_writer());
            if dropped == 0 && !merged.unwrap() {
                break;
            }
        }
        let active = self.active();
        self.oracle.current.insert(active);
        self.oracle.reclaim(&[], active);
        assert_eq!(self.view(), self.oracle.current);
    }

    /// Exactly what nobody needs goes.
    fn reclaim(&mut self) {
        self.engine.reclaim().unwrap();
        let snapshots = self.snapshots.iter().map(|snapshot| snapshot.seqno().0);
        let cursors = self.cursors.iter().map(|(_, seqno)| *seqno);
        let readers: Vec<u64> = snapshots.chain(cursors).collect();
        let active = self.active();
        self.oracle.current.insert(active);
        self.oracle.reclaim(&readers, active);
        if SHAPE.get() == Shape::GlobalIndex {
            // Dead ones stay in the index that they have in common with others.
            let view = self.view();
            assert!(
                self.oracle.current.is_subset(&view),
                "readers at {readers:?}"
            );
            return;
        }
        assert_eq!(self.view(), self.oracle.current, "readers at {readers:?}");
        let memtables = self.engine.metrics().memtables;
        assert!(
            memtables.iter().all(|m| !m.retired),
            "readers at {readers:?}"
        );
    }
}

/// Random histories with random readers, held against an oracle that knows every version: what is seen
/// is right at every moment held, and exactly the memtables that nobody needs go.
#[test]
fn exactly_what_nobody_needs_is_dropped() {
    let mut dropped = 0;
    for seed in seeds(0..40) {
        let _replay = Replay::new("-p thermocline-engine exactly_what_nobody_needs", seed);
        let mut rng = Rng::new(seed);
        // Merged indexes keep dead memtables.
        let pm = if SHAPE.get() == Shape::GlobalIndex {
            2 * MIB
        } else {
            MIB
        };
        let mut sim = Machine::new(pm);
        let options = options(pm, 2000 + rng.next_u64() % 4000);
        let engine = open(&sim, &options);
        engine.family("other", &CfOptions::default()).unwrap();
        let mut run = Run {
            engine,
            oracle: Oracle::default(),
            rng,
            snapshots: Vec::new(),
            cursors: Vec::new(),
            written: 0,
        };
        for _ in 0..400 {
            match run.rng.below(40) {
                0 => run.snapshots.push(run.engine.snapshot()),
                1 => {
                    let seqno = run.engine.visible().0;
                    let cursor = run.engine.cursor(Family::DEFAULT).unwrap();
                    run.cursors.push((cursor, seqno));
                }
                2..4 if !run.snapshots.is_empty() => {
                    let one = run.rng.below(run.snapshots.len());
                    run.snapshots.swap_remove(one);
                }
                4..6 if !run.cursors.is_empty() => {
                    let one = run.rng.below(run.cursors.len());
                    run.cursors.swap_remove(one);
                }
                6..9 => run.reclaim(),
                9 => run.engine.work_ahead().unwrap(),
                10 => run.check(),
                11 if run.rng.one_in(4) => {
                    // A new process, after a crash or a close. Nobody reads the past any more.
                    run.snapshots.clear();
                    run.cursors.clear();
                    if run.rng.one_in(2) {
                        run.engine.close().unwrap();
                    } else {
                        sim = sim.killed();
                    }
                    run.engine = open(&sim, &options);
                    run.check();
                }
                _ => run.write(),
            }
        }
        run.reclaim();
        run.check();
        run.reclaim_all();
        run.check();
        dropped += run.engine.metrics().memtables_dropped;
    }
    assert!(dropped > 300, "{dropped} dropped");
}

/// Writers, getters, snapshots and cursors beside the store's own thread, in a region that has to be
/// used again and again.
#[test]
fn readers_beside_the_stores_thread_never_miss_a_value() {
    const KEYS: usize = 8;
    let world = World {
        background: true,
        ..Machine::new(MIB).world()
    };
    let engine = Engine::open(world, Path::new("/db"), options(MIB, 24 << 10)).unwrap();
    for key in 0..KEYS as u64 {
        put(&engine, CF, &key.to_le_bytes(), &value(0, 700));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (engine, done) = (&engine, &done);
            scope.spawn(move || {
                let mut last = [0; KEYS];
                let mut rng = Rng::new(reader);
                while !done.load(Ordering::Relaxed) {
                    let snapshot = rng.one_in(3).then(|| engine.snapshot());
                    for key in 0..KEYS as u64 {
                        let found = get(engine, &key.to_le_bytes()).expect("never deleted");
                        let n = u64::from_le_bytes(found[..8].try_into().unwrap());
                        assert_eq!(found, value(n, 700));
                        let last = &mut last[usize::try_from(key).unwrap()];
                        assert!(n >= *last, "time goes forward");
                        *last = n;
                    }
                    let Some(snapshot) = snapshot else { continue };
                    let rows = scanned(&mut snapshot.cursor(Family::DEFAULT).unwrap());
                    assert_eq!(rows.len(), KEYS);
                    let again = scanned(&mut snapshot.cursor(Family::DEFAULT).unwrap());
                    assert_eq!(rows, again);
                }
            });
        }
        let mut n = 0;
        while engine.metrics().memtables_dropped < 60 {
            n += 1;
            let mut batch = WriteBatch::new();
            batch
                .put(CF, &(n % KEYS as u64).to_le_bytes(), &value(n, 700))
                .unwrap();
            match engine.write(batch.iter(), Durability::Immediate) {
                Ok(()) => {}
                // Readers hold what is dead: they will let go.
                Err(Error::OutOfSpace(_)) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    engine.close().unwrap();
}

/// Readers of a store that was closed, and opened again by another that drops what they read: of what
/// was there the memtables stay that they read, each as long as its reader.
#[test]
fn readers_that_outlive_their_store_keep_what_they_read() {
    let sim = Machine::new(MIB);
    let options = options(MIB, 16 << 10);
    let fill = |engine: &Engine, n: u64| {
        for i in 0..40 {
            put(engine, CF, b"hot", &value(n * 100 + i, 1000));
        }
    };
    let first = open(&sim, &options);
    fill(&first, 1);
    let old = first.snapshot();
    drop(first);
    let second = open(&sim, &options);
    fill(&second, 2);
    let newer = second.cursor(Family::DEFAULT).unwrap();
    put(&second, CF, b"hot", &value(7, 5000));
    let pinned = second.value(CF, b"hot").unwrap().unwrap();
    assert!(pinned.is_pinned());
    second.close().unwrap();
    drop(second);
    let third = open(&sim, &options);
    let there = third.metrics().memtables;
    let (mut dropped, mut newer) = (0, newer);
    for n in 3..40 {
        fill(&third, n);
        let at = old.get(CF, b"hot", <[u8]>::to_vec).unwrap();
        assert_eq!(at, Some(value(139, 1000)));
        assert_eq!(scanned(&mut newer), [(b"hot".to_vec(), value(239, 1000))]);
        dropped = third.metrics().memtables_dropped;
    }
    let ids = |engine: &Engine| -> Vec<u64> {
        let memtables = engine.metrics().memtables;
        memtables.iter().map(|m| m.id).collect()
    };
    assert!(dropped > 10, "its own go");
    let stay = || {
        third.reclaim().unwrap();
        let ids = ids(&third);
        there.iter().filter(|g| ids.contains(&g.id)).count()
    };
    let read = stay();
    assert!((2..=3).contains(&read), "{read} of {}", there.len());
    drop(old);
    assert_eq!(stay(), read - 1);
    drop(newer);
    assert_eq!(stay(), 1, "that of the value");
    fill(&third, 40);
    assert!(pinned.into_vec() == value(7, 5000));
    assert_eq!(stay(), 0);
    assert!(ids(&third).len() <= 2, "{:?}", ids(&third));
    assert_eq!(get(&third, b"hot"), Some(value(4039, 1000)));
}

/// A family that is dropped leaves memtables in which nothing else lives.
#[test]
fn a_dropped_family_gives_its_space_back() {
    let engine = open(&Machine::new(MIB), &options(MIB, 16 << 10));
    let side = engine.family("side", &CfOptions::default()).unwrap();
    put(&engine, CF, b"default", b"stays");
    for n in 0..100 {
        put(&engine, side.id, &[n], &value(u64::from(n), 1000));
    }
    let used = engine.metrics().space.zones_attached;
    let snapshot = engine.snapshot();
    engine.drop_family("side").unwrap();
    // The one that is written goes when it is sealed.
    put(&engine, CF, b"large", &value(7, 16_000));
    engine.reclaim().unwrap();
    assert!(engine.metrics().space.zones_attached >= used, "it is read");
    for n in 0..100 {
        let at = snapshot.get(side.id, &[n], <[u8]>::to_vec).unwrap();
        assert_eq!(at, Some(value(u64::from(n), 1000)));
    }
    drop(snapshot);
    engine.reclaim().unwrap();
    assert_eq!(engine.metrics().memtables.len(), 2);
    assert_eq!(get(&engine, b"default").as_deref(), Some(&b"stays"[..]));
}

/// A record that cannot be read keeps its memtable, and nothing else: neither what is dead only once something older has gone, nor
/// what a flush or a writer without room would do next.
#[test]
fn what_cannot_be_read_keeps_nothing_else() {
    let machine = Machine::new(4 * MIB);
    let mut options = options(4 * MIB, 1 << 20);
    options.level0.shape = Some(Shape::Immutables);
    let engine = open(&machine, &options);
    let seal = || engine.inner.memtables.seal_active().unwrap();
    put(&engine, CF, b"k", b"1");
    let snapshot = engine.snapshot();
    seal();
    // It hides nothing when the one before has gone.
    delete(&engine, CF, b"k");
    seal();
    put(&engine, CF, b"bad", b"value");
    let view = engine.inner.common.catalog.view_to_keep();
    let record = view.memtables[0].get(CF, b"bad", engine.visible(), true);
    let at = match record.unwrap() {
        Lookup::Record(record) => record.value_at(),
        other => panic!("{other:?}"),
    };
    drop(view);
    seal();
    let memtables = || engine.metrics().memtables.len();
    assert_eq!(memtables(), 4);
    machine.rot(at);
    drop(snapshot);
    let error = engine.inner.reclaimer.reclaim().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(memtables(), 2);
    engine.inner.reclaimer.reclaim_readable().unwrap();
    engine.inner.flusher.flush_job().unwrap();
}

/// On return of `close` the folder may be removed, and another database made there, whose files have the names of this one's. Whoever
/// reclaims has looked before whether the store is open.
#[test]
fn who_reclaims_beside_closing_removes_no_file_behind_it() {
    let machine = Machine::new(MIB);
    let engine = open(&machine, &options(MIB, 16 << 10));
    put(&engine, CF, b"key", b"one");
    engine.flush().unwrap();
    let table = machine.only_table();
    let is_there = || machine.fs.contents(&table).is_some();
    // As a reader has it who is inside a call.
    let version = engine.inner.common.catalog.version();
    put(&engine, CF, b"key", b"two");
    engine.flush().unwrap();
    engine.compact(CF, (Unbounded, Unbounded)).unwrap();
    assert!(is_there());
    engine.close().unwrap();
    assert!(is_there());
    drop(version);
    let error = engine.inner.reclaimer.reclaim().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    assert!(is_there());
    // The next opening knows whose it is.
    let next = open(&machine, &options(MIB, 16 << 10));
    assert!(!is_there());
    assert_eq!(get(&next, b"key").as_deref(), Some(&b"two"[..]));
}
