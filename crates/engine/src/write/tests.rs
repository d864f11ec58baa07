//! What a commit says, what a power cut leaves of it, and who asks not to wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use thermocline_base::options::{Options, Preset};
use thermocline_base::{BatchEntry, CfId, ErrorKind, Point, Result, Site, When, WriteBatch};
use thermocline_commit::{Callback, Durability, WriteOptions};
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_halloc::Reserve;
use thermocline_memtable::{SITE_DEFERRED, SITE_ITEM};
use thermocline_observe::cause::StallCause;
use thermocline_pm::RegionKind;
use thermocline_policy::seal;

use crate::store::Engine;
use crate::sync::{Arc, Mutex, Ordering, lock};
use crate::tests::{Machine, Nothing, options};
use crate::world::World;
use crate::write::env::limits;

const CF: CfId = CfId::DEFAULT;

/// Nothing is written back by itself.
fn asked_for(preset: Preset) -> Options {
    let mut options = match preset {
        Preset::Leveled => Options {
            dram: 8 << 20,
            ..Options::preset(preset)
        },
        _ => options(),
    };
    options.commit.buffered_bytes = 1 << 20;
    options
}

fn open(machine: &Machine, options: &Options) -> Engine {
    let mut world: World = machine.world();
    if options.in_dram() {
        world.sim = None;
    }
    Engine::open(world, Path::new("/db"), options.clone()).unwrap()
}

fn put(key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, b"value").unwrap();
    batch
}

fn nothing() -> impl ExactSizeIterator<Item = BatchEntry<'static>> + Clone {
    std::iter::empty()
}

#[test]
fn a_durable_commit_of_nothing_covers_what_was_buffered_before_it() {
    for preset in [Preset::GlobalIndex, Preset::Leveled] {
        let options = asked_for(preset);
        let machine = Machine::new(1 << 20);
        let engine = open(&machine, &options);
        // So that no first write names the chain, and syncs files.
        engine
            .write(put(b"a").iter(), Durability::Immediate)
            .unwrap();
        let left = |mode: Durability| {
            engine
                .write(put(b"b").iter(), Durability::Buffered)
                .unwrap();
            engine.write(nothing(), mode).unwrap();
            let after = open(&machine.without_power(), &options);
            [&b"a"[..], b"b"].map(|key| after.get(CF, key, |_| ()).unwrap().is_some())
        };
        assert_eq!(left(Durability::Buffered), [true, false], "{preset:?}");
        assert_eq!(left(Durability::Immediate), [true, true], "{preset:?}");
    }
}

#[test]
fn a_commit_of_nothing_is_told_behind_those_before_it_and_as_durable_as_they_are() {
    let engine = open(&Machine::new(1 << 20), &asked_for(Preset::GlobalIndex));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = |n: u8| -> Callback {
        let (told, asked) = (told.clone(), engine.clone());
        Box::new(move |result| {
            result.unwrap();
            lock(&told).push((n, asked.durable() == asked.visible()));
        })
    };
    let first = put(b"first");
    engine
        .write_with_callback(first.iter(), false, tell(1))
        .unwrap();
    for n in [2, 3] {
        engine
            .write_with_callback(nothing(), false, tell(n))
            .unwrap();
    }
    let second = put(b"second");
    engine
        .write_with_callback(second.iter(), false, tell(4))
        .unwrap();
    assert_eq!(*lock(&told), [], "nothing is durable");
    engine.sync().unwrap();
    let all = [1, 2, 3, 4].map(|n| (n, true));
    assert_eq!(*lock(&told), all);
    // All is durable: nobody else comes by.
    engine
        .write_with_callback(nothing(), false, tell(5))
        .unwrap();
    assert_eq!(lock(&told).last(), Some(&(5, true)));
}

/// It has no group of its own that could fail.
#[test]
fn a_commit_of_nothing_hears_that_what_came_before_it_is_not_durable() {
    let machine = Machine::new(1 << 20);
    let disk = FaultStorage::over_sim(machine.fs.clone());
    let mut world = machine.world();
    world.env.storage = Arc::new(disk.clone());
    world.sim = None;
    let options = asked_for(Preset::Leveled);
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    // So that no first write names the chain, and syncs files.
    let (first, second) = (put(b"a"), put(b"b"));
    engine.write(first.iter(), Durability::Immediate).unwrap();
    engine.write(second.iter(), Durability::Buffered).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let done: Callback = Box::new(move |result| {
        lock(&tell).push(result.map_err(|error| error.kind()));
    });
    engine.write_with_callback(nothing(), false, done).unwrap();
    assert!(lock(&told).is_empty());
    let (fault, op) = (Fault::SyncKept, Some(Op::Sync));
    disk.arm(Plan {
        fault,
        op,
        at: disk.calls_for(fault, op),
        repeat: Repeat::Once,
    });
    engine.write(nothing(), Durability::Immediate).unwrap_err();
    assert_eq!(disk.fired(), 1);
    assert_eq!(*lock(&told), [Err(ErrorKind::Poisoned)]);
    // Nor is one durable that comes later, though nothing fails any more.
    let again = engine.write(nothing(), Durability::Immediate);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Poisoned);
}

/// Writes without waiting. Between tries is done what the write would have waited for. Fails where waiting would not help.
fn try_without_waiting(engine: &Engine, batch: &WriteBatch) -> Result<()> {
    let mode = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    for _ in 0..4 {
        match engine.write(batch.iter(), mode) {
            Err(error) if error.kind() == ErrorKind::Busy => engine.work_ahead()?,
            done => return done,
        }
    }
    panic!("busy for ever");
}

fn write_without_waiting(engine: &Engine, batch: &WriteBatch) {
    try_without_waiting(engine, batch).unwrap();
}

/// The zones that it has are filled, memtable after memtable; then it says that it is full. With room it goes on.
#[test]
fn who_asks_not_to_wait_gets_past_a_region_whose_disk_lets_it_not_grow() {
    let mut options = options();
    options.memtable.bytes_max = 32 << 10;
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &options);
    let row = |n: u16| {
        let mut batch = WriteBatch::new();
        batch.put(CF, &n.to_be_bytes(), &[7; 1000]).unwrap();
        batch
    };
    write_without_waiting(&engine, &row(0));
    // For the manifest, and for no part of the region.
    machine.lay_region_on_disk(128 << 10);
    let had = engine.metrics().space;
    let mut kept = 1;
    let full = loop {
        match try_without_waiting(&engine, &row(kept)) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::OutOfSpace, "{full}");
    assert!(full.to_string().contains("grow"), "{full}");
    let metrics = engine.metrics();
    assert_eq!(metrics.space.region_bytes, had.region_bytes);
    assert_eq!(metrics.space.zones_free, 1, "the one that is kept back");
    assert!(metrics.memtables.len() > 4, "{:?}", metrics.memtables);
    machine.limit_disk(u64::MAX);
    engine.work_ahead().unwrap();
    write_without_waiting(&engine, &row(kept));
    assert!(engine.metrics().space.region_bytes > had.region_bytes);
    for n in 0..=kept {
        let there = engine.get(CF, &n.to_be_bytes(), |_| ()).unwrap();
        assert!(there.is_some(), "{n}");
    }
}

/// A memtable that is full has room left in its zone. The next one has a name, and needs a zone of its own, for which the
/// region has to grow.
#[test]
fn who_asks_not_to_wait_grows_no_region_for_the_next_memtable() {
    // An item with one row: a header, and a record of 1018 bytes, on whole lines.
    const ITEM: u64 = 1088;
    let mut options = options();
    // So many fill all zones of the first part but two, and the next one in part. The last one is kept back.
    options.memtable.bytes_max = 185 * ITEM;
    let engine = open(&Machine::new(1 << 20), &options);
    let row = |n: u16| {
        let mut batch = WriteBatch::new();
        batch.put(CF, &n.to_be_bytes(), &[7; 1000]).unwrap();
        batch
    };
    let mode = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    write_without_waiting(&engine, &row(0));
    let had = engine.metrics();
    let mut kept = 1;
    let busy = loop {
        match engine.write(row(kept).iter(), mode) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        let has = engine.metrics().space.region_bytes;
        assert_eq!(has, had.space.region_bytes, "row {kept}");
        if kept == 100 {
            // Names the next memtable. Zones are not lacking yet.
            engine.work_ahead().unwrap();
        }
    };
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    assert!(busy.to_string().contains("grow"), "{busy}");
    let metrics = engine.metrics();
    assert_eq!((kept, metrics.space.zones_free), (185, 1));
    assert_eq!(metrics.space.region_bytes, had.space.region_bytes);
    write_without_waiting(&engine, &row(kept));
    let metrics = engine.metrics();
    assert!(metrics.space.region_bytes > had.space.region_bytes);
    assert_eq!(metrics.memtables.len(), had.memtables.len() + 1);
}

/// The zones that are free behind that of the chain are enough for a long write with what is left there, and not by themselves.
#[test]
fn who_asks_not_to_wait_goes_on_behind_the_zone_at_hand() {
    let mut options = options();
    options.memtable.bytes_max = 128 << 10;
    let engine = open(&Machine::new(1 << 20), &options);
    let mode = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    engine.inner.memtables.name_ahead().unwrap();
    // Others have all zones but the one that is kept back; then the first four, of 16 KiB, are free again.
    let space = &engine.inner.common.space;
    let owner = engine.inner.sweeper.pm_owner().unwrap();
    let mut others = Vec::new();
    for ordinal in 1..space.usage().zones_free {
        let ordinal = u32::try_from(ordinal).unwrap();
        others.push(space.attach(owner, ordinal, 1, Reserve::Keep).unwrap());
    }
    space.release(&others[..4]);
    engine.write(put(b"a").iter(), mode).unwrap();
    let had = space.usage();
    let mut long = WriteBatch::new();
    long.put(CF, b"long", &[7; 50_000]).unwrap();
    assert!(!space.has_room_now(50_000, Reserve::Keep));
    engine.write(long.iter(), mode).unwrap();
    let has = space.usage();
    assert_eq!(has.region_bytes, had.region_bytes);
    assert_eq!((had.zones_free, has.zones_free), (4, 1));
    let found = engine.get(CF, b"long", <[u8]>::len).unwrap();
    assert_eq!(found, Some(50_000));
}

fn long_put() -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(CF, b"long", &vec![7; 300 << 10]).unwrap();
    batch
}

/// A worker that made the region grow, for which a writer waited, may tell of that before the writer does.
#[test]
fn a_writer_is_held_up_by_growth_whoever_tells_of_that() {
    let engine = open(&Machine::new(1 << 20), &options());
    let inner = &engine.inner;
    let held_up = || inner.common.stalls.get(StallCause::Growth).count;
    let (had, before) = (inner.common.space.region_bytes(), held_up());
    // All of it has been told.
    inner
        .memtables
        .region_seen
        .store(u64::MAX, Ordering::Relaxed);
    let long = long_put();
    engine.write(long.iter(), Durability::Immediate).unwrap();
    assert!(inner.common.space.region_bytes() > had);
    assert_eq!(held_up(), before + 1);
}

/// The first part has as many zones free as it should, and no run of them is long enough. The next part has one.
#[test]
fn who_asks_not_to_wait_gets_a_run_that_a_later_part_has() {
    let engine = open(&Machine::new(1 << 20), &options());
    let had = engine.metrics().space;
    assert!(had.region_bytes < 300 << 10);
    write_without_waiting(&engine, &long_put());
    assert!(engine.metrics().space.region_bytes > had.region_bytes);
    let found = engine.get(CF, b"long", <[u8]>::len).unwrap();
    assert_eq!(found, Some(300 << 10));
    // No part will ever have this one.
    let mut longer = WriteBatch::new();
    longer.put(CF, b"longer", &vec![7; 600 << 10]).unwrap();
    let grown = engine.metrics().space.region_bytes;
    let full = try_without_waiting(&engine, &longer).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::OutOfSpace, "{full}");
    engine.work_ahead().unwrap();
    assert_eq!(engine.metrics().space.region_bytes, grown);
}

/// The zones that are free are too short, and nothing else is lacking for which the region would grow.
#[test]
fn who_asks_not_to_wait_for_a_long_run_hears_when_the_disk_has_room_again() {
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &options());
    write_without_waiting(&engine, &put(b"a"));
    machine.lay_region_on_disk(128 << 10);
    let had = engine.metrics().space.region_bytes;
    let full = try_without_waiting(&engine, &long_put()).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::OutOfSpace, "{full}");
    assert_eq!(engine.metrics().space.region_bytes, had);
    machine.limit_disk(u64::MAX);
    // Nobody knows yet; who is refused has it tried again.
    assert!(try_without_waiting(&engine, &long_put()).is_err());
    engine.work_ahead().unwrap();
    write_without_waiting(&engine, &long_put());
    assert!(engine.metrics().space.region_bytes > had);
    assert!(engine.get(CF, b"long", |_| ()).unwrap().is_some());
}

/// A memtable that refers to as much in blob files as it may has hardly any bytes of its own.
#[test]
fn who_asks_not_to_wait_gets_past_a_memtable_that_is_full_of_blobs() {
    let mut options = options();
    (options.blob.inline_bytes_max, options.blob.generation_bytes) = (64, 64);
    let engine = open(&Machine::new(1 << 20), &options);
    for n in 0..3u8 {
        let mut batch = WriteBatch::new();
        batch.put(CF, &[n], &[n; 100]).unwrap();
        write_without_waiting(&engine, &batch);
    }
    assert!(engine.metrics().memtables.len() > 1);
    for n in 0..3u8 {
        let found = engine.get(CF, &[n], <[u8]>::to_vec).unwrap();
        assert_eq!(found, Some(vec![n; 100]));
    }
}

/// An open after a crash leaves a gap of as many seqnos as DRAM could have held records.
#[test]
fn who_asks_not_to_wait_gets_past_a_memtable_that_spans_too_much() {
    let options = asked_for(Preset::Leveled);
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &options);
    engine
        .write(put(b"a").iter(), Durability::Immediate)
        .unwrap();
    let after = open(&machine.without_power(), &options);
    let is_wide = || {
        let writer = after.inner.memtables.lock_writer();
        seal::is_wide(&writer.in_hand(), &writer.limits)
    };
    assert!(is_wide());
    write_without_waiting(&after, &put(b"b"));
    assert!(!is_wide());
    for key in [b"a", b"b"] {
        assert!(after.get(CF, key, |_| ()).unwrap().is_some());
    }
}

/// Nobody makes room for what is not lacking.
#[test]
fn who_finds_no_memtable_behind_one_that_spans_too_much_is_told_what_was_refused() {
    let mut options = asked_for(Preset::Leveled);
    options.flush.automatic = false;
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &options);
    engine
        .write(put(b"a").iter(), Durability::Immediate)
        .unwrap();
    let crashed = machine.without_power();
    let disk = FaultStorage::over_sim(crashed.fs.clone());
    let mut world = crashed.world();
    world.env.storage = Arc::new(disk.clone());
    world.sim = None;
    let after = Engine::open(world, Path::new("/db"), options).unwrap();
    let (fault, op) = (Fault::NoSpace, Some(Op::Create));
    disk.arm(Plan {
        fault,
        op,
        at: disk.calls_for(fault, op),
        repeat: Repeat::Forever,
    });
    let refused = after.write(put(b"b").iter(), Durability::Immediate);
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    let says = error.to_string();
    assert!(says.contains("spans too many"), "{says}");
    assert!(says.contains("no room for another log"), "{says}");
    assert!(!says.contains("descriptor"), "{says}");
    disk.disarm();
    after
        .write(put(b"b").iter(), Durability::Immediate)
        .unwrap();
}

/// What a write finds when it reserves DRAM: that is short now, and the index of the active memtable takes much of it. So the memtable is
/// sealed, behind all writes in flight. Whoever has looked only before that has a writer wait that asks not to, here for one whose
/// persist takes as long as it likes.
#[test]
fn who_asks_not_to_wait_does_not_wait_for_a_memtable_that_has_just_become_heavy() {
    const DRAM: u64 = 1 << 20;
    let mut options = options();
    (options.pm, options.dram) = (8 << 20, DRAM);
    options.flush.automatic = true;
    let machine = Machine::new(8 << 20);
    let engine = open(&machine, &options);
    let mut keys = 0u64;
    while engine.metrics().index_bytes <= DRAM / 8 {
        let mut batch = WriteBatch::new();
        for _ in 0..50 {
            keys += 1;
            // Two that differ at their ends alone have a node of their own.
            let begin = keys.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            for end in 0..2u8 {
                batch.put(CF, &[&begin[..], &[end]].concat(), b"v").unwrap();
            }
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    let inner = &engine.inner;
    inner.memtables.lock_writer().wants_next = true;
    engine.work_ahead().unwrap();
    assert!(!inner.memtables.next.is_missing());
    let stopped = machine.stop_before("memtable: item durable");
    let mode = WriteOptions {
        durability: Durability::Immediate,
        no_slowdown: true,
    };
    let (slow, fast) = (put(b"slow"), put(b"fast"));
    std::thread::scope(|threads| {
        let (engine, slow, fast) = (&engine, &slow, &fast);
        let in_flight =
            threads.spawn(move || engine.write(slow.iter(), Durability::Immediate).unwrap());
        stopped.wait();
        // Somebody else takes half of the DRAM, and nothing is promised ahead.
        inner.common.account.take(DRAM / 2).unwrap();
        inner.memtables.lock_writer().credit.spend();
        let (tried, done) = channel();
        threads.spawn(move || tried.send(engine.write(fast.iter(), mode)).unwrap());
        let done = done.recv_timeout(Duration::from_secs(60));
        stopped.let_go();
        in_flight.join().unwrap();
        let busy = done.expect("it waits for nobody").unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
        assert!(busy.to_string().contains("in flight"), "{busy}");
    });
    inner.common.account.give(DRAM / 2);
    write_without_waiting(&engine, &fast);
    for key in [b"slow", b"fast"] {
        assert!(engine.get(CF, key, |_| ()).unwrap().is_some());
    }
}

/// What covers the last write of an idle store would be missing in the chain, before writes that are acknowledged.
#[test]
fn nobody_writes_behind_what_covers_a_store_and_was_not_stored() {
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &asked_for(Preset::GlobalIndex));
    engine
        .write(put(b"a").iter(), Durability::Immediate)
        .unwrap();
    machine.die_before("memtable: item durable");
    let covered = catch_unwind(AssertUnwindSafe(|| engine.cover_idle()));
    machine.fs.steps().observe(None);
    assert!(covered.is_err());
    let refused = engine.write(put(b"b").iter(), Durability::Immediate);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Poisoned);
}

/// A write that panics between its grant and its way into the chain keeps its ticket, and nobody behind it could ever finish. They
/// hear of it.
#[test]
fn a_write_that_panics_right_behind_its_grant_poisons_the_store() {
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &asked_for(Preset::GlobalIndex));
    let batch = put(b"a");
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    // As a transaction does that watches: what is written is noted for it behind the grant.
    engine.inner.memtables.lock_writer().watched = true;
    let written = catch_unwind(AssertUnwindSafe(|| {
        let ring = &engine.inner.common.commits.ring;
        let broken = batch.iter().inspect(|_| assert_eq!(ring.groups(), 0));
        engine.write(broken, Durability::Immediate)
    }));
    assert!(written.is_err());
    if engine.inner.common.poison.check().is_ok() {
        // Closing would wait for that group.
        std::mem::forget(engine);
        panic!("nobody hears of it");
    }
    let refused = engine.write(batch.iter(), Durability::Immediate);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Poisoned);
}

/// A group that no run of zones can hold would ask for a flush, in vain, and then be written one by one.
#[test]
fn a_group_is_no_longer_than_the_longest_run_of_a_small_region() {
    let mut options = asked_for(Preset::GlobalIndex);
    options.commit.group_bytes_max = 900 << 10;
    options.memtable.item_bytes_max = 4 << 20;
    let engine = open(&Machine::new(1 << 20), &options);
    let space = &engine.inner.common.space;
    assert!(space.needs_pieces(options.commit.group_bytes_max));
    let most = engine.inner.common.commits.limits().group_bytes;
    assert!(most > 100 << 10 && !space.needs_pieces(most), "{most}");
}

/// Where a persist is a sync, whoever writes behind it would be seen no sooner than that has ended.
#[test]
fn a_large_buffered_write_is_deferred_only_where_a_persist_is_a_sync() {
    let alone = |kind: RegionKind, bytes: u64| {
        let mut options = options();
        options.commit.buffered_bytes = bytes;
        limits(&options, kind, 1 << 20).alone_bytes
    };
    assert_eq!(alone(RegionKind::Shm, 0), 256);
    assert_eq!(alone(RegionKind::Dax, 4096), 4096);
    for slow in [RegionKind::File, RegionKind::Dram] {
        assert_eq!([alone(slow, 0), alone(slow, 4096)], [u64::MAX; 2]);
    }
}

/// Where items become durable in `call`, in its order: one by the thread that stores it, or all that were deferred.
fn persisted(machine: &Machine, call: impl FnOnce()) -> Vec<Site> {
    let sites = Arc::new(Mutex::new(Vec::new()));
    let seen = sites.clone();
    let observe = move |point: Point| {
        if point.when == When::After && [SITE_ITEM, SITE_DEFERRED].contains(&point.site) {
            lock(&seen).push(point.site);
        }
    };
    machine.fs.steps().observe(Some(Arc::new(observe)));
    call();
    machine.fs.steps().observe(None);
    std::mem::take(&mut *lock(&sites))
}

/// What a transaction writes has a way of its own to the pipeline.
#[test]
fn a_large_buffered_write_is_persisted_by_its_own_thread_if_it_is_guarded_too() {
    for guarded in [false, true] {
        let machine = Machine::new(1 << 20);
        let engine = open(&machine, &options());
        // So that no first write names the chain, and syncs files.
        let first = put(b"a");
        engine.write(first.iter(), Durability::Immediate).unwrap();
        let watch = engine.watch().unwrap();
        // Too short to be written back at once.
        let short = put(b"b");
        engine.write(short.iter(), Durability::Buffered).unwrap();
        let ring = &engine.inner.common.commits.ring;
        assert!(ring.durable() < ring.visible());
        let mut large = WriteBatch::new();
        large.put(CF, b"c", &[7; 300]).unwrap();
        let sites = persisted(&machine, || {
            let written = match guarded {
                true => watch.write(large.iter(), Durability::Buffered.into(), &Nothing),
                false => engine.write(large.iter(), Durability::Buffered),
            };
            written.unwrap();
        });
        // Its own first, and then what was deferred before it.
        assert_eq!(sites, [SITE_ITEM, SITE_DEFERRED], "{guarded}");
        assert_eq!(ring.durable(), ring.visible());
    }
}

/// What is deferred is left to somebody else, and so is the callback until that is durable.
#[test]
fn a_large_commit_with_a_callback_waits_for_no_persist_but_its_own() {
    let machine = Machine::new(1 << 20);
    let engine = open(&machine, &options());
    // So that no first write names the chain, and syncs files.
    let first = put(b"a");
    engine.write(first.iter(), Durability::Immediate).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let commit = |n: u8, value: &[u8]| {
        let tell = told.clone();
        let done: Callback = Box::new(move |result| lock(&tell).push((n, result.is_ok())));
        let mut batch = WriteBatch::new();
        batch.put(CF, &[n], value).unwrap();
        persisted(&machine, || {
            let written = engine.write_with_callback(batch.iter(), false, done);
            written.unwrap();
        })
    };
    assert_eq!(commit(1, &[7; 300]), [SITE_ITEM]);
    // It is durable: nobody else comes by.
    assert_eq!(*lock(&told), [(1, true)]);
    assert!(commit(2, b"short").is_empty());
    assert_eq!(commit(3, &[7; 300]), [SITE_ITEM]);
    assert_eq!(*lock(&told), [(1, true)]);
    let synced = persisted(&machine, || engine.sync().unwrap());
    assert_eq!(synced, [SITE_DEFERRED]);
    assert_eq!(*lock(&told), [1, 2, 3].map(|n| (n, true)));
}
