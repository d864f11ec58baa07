//! Batches that are no larger than an item may be, and go in pieces alone.

use thermocline_env::Clock;
use thermocline_halloc::{Reserve, Zone};

use super::*;
use crate::stage::due::goes_in_pieces;
use crate::store::Common;
use crate::sync::Mutex;
use crate::tests::Nothing;

/// An item may be larger than any part of the region.
fn with_large_items() -> Options {
    let mut options = options(MIB);
    options.memtable.item_bytes_max = 4 * MIB;
    options
}

fn opened(machine: &Machine) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), with_large_items()).unwrap()
}

fn hurried() -> WriteOptions {
    WriteOptions {
        no_slowdown: true,
        ..WriteOptions::default()
    }
}

/// Its parts have 256, 512 and 256 KiB.
#[test]
fn what_fits_no_part_of_the_region_goes_in_pieces() {
    let machine = Machine::new(MIB);
    let engine = opened(&machine);
    write(&engine, &puts(CF, 0..10, b"before")).unwrap();
    let batch = puts(CF, 5..555, &[7; 1100]);
    assert!(is_staged(&engine, &batch));
    // The largest part has room for this one.
    assert!(!is_staged(&engine, &puts(CF, 0..400, &[1; 1100])));
    let busy = engine.write(batch.iter(), hurried()).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    assert!(busy.to_string().contains("pieces"), "{busy}");
    write(&engine, &batch).unwrap();
    // More than there can be, and one record, are refused as ever.
    let large = puts(CF, 600..1700, &[1; 1100]);
    let single = puts(CF, 600..601, &vec![1; 600 << 10]);
    for refused in [large, single] {
        assert!(!is_staged(&engine, &refused));
        let error = write(&engine, &refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    }
    let mut expected = model(0..10, b"before");
    expected.extend(model(5..555, &[7; 1100]));
    assert_eq!(contents(&engine, CF), expected);
    let killed = machine.killed();
    drop(engine);
    for machine in [machine, killed] {
        assert_eq!(contents(&opened(&machine), CF), expected);
        assert_sound(&machine, MIB);
    }
}

/// Takes all that is left of the region, for nobody, zone by zone in their order.
fn take_all(engine: &Engine, reserve: Reserve) -> Vec<Zone> {
    let space = &engine.inner.common.space;
    // As a table's that was never made.
    let owner = engine.inner.sweeper.pm_owner().unwrap();
    let attached = |ordinal| space.attach(owner, ordinal, 1, reserve).ok();
    (0..).map_while(attached).collect()
}

/// Takes all that is left of the region, for nobody, and frees every second zone of that. Returns the others.
fn scatter(engine: &Engine) -> Vec<Zone> {
    let (others, free): (Vec<_>, Vec<_>) = take_all(engine, Reserve::Use)
        .into_iter()
        .partition(|zone| zone.ordinal.is_multiple_of(2));
    engine.inner.common.space.release(&free);
    others
}

/// A clock: whenever somebody looks at it, room was made that others have taken; but for one zone after many looks.
#[derive(Debug, Default)]
struct Taking(Mutex<Option<Taken>>);

struct Taken {
    common: Arc<Common>,
    zones: Vec<Zone>,
    looks: u64,
}

impl std::fmt::Debug for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} zones, {} looks", self.zones.len(), self.looks)
    }
}

/// Looks behind which there is a zone: an attempt to find one looks a few times, so that less than a hundred fail.
const LOOKS: u64 = 150;

impl Clock for Taking {
    fn now_ns(&self) -> u64 {
        if let Some(taken) = &mut *lock(&self.0) {
            taken.looks += 1;
            if taken.looks.is_multiple_of(LOOKS)
                && let Some(zone) = taken.zones.pop()
            {
                taken.common.space.release(&[zone]);
            }
            taken.common.room.note();
        }
        0
    }

    fn sleep_ms(&self, _: u64) {}

    fn unix_s(&self) -> u64 {
        0
    }
}

/// Stores a batch in a region of which others have taken all but the zone that is kept back. The zones that `take` returns, last
/// one first, are given back as [`Taking`] does. Returns the zones of the batch, and how often somebody looked at the clock.
fn stored_beside(batch: &WriteBatch, take: impl Fn(&Engine) -> Vec<Zone>) -> (Vec<Zone>, u64) {
    let machine = Machine::new(MIB);
    let clock = Arc::new(Taking::default());
    let mut world = machine.world();
    world.env.clock = clock.clone();
    let mut options = options(MIB);
    options.flush.automatic = true;
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let stager = &engine.inner.stager;
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    let staging = stager.reserve_stage(batch.iter(), bytes).unwrap();
    *lock(&clock.0) = Some(Taken {
        common: engine.inner.common.clone(),
        zones: take(&engine),
        looks: 0,
    });
    let stored = stager.store_stage(staging, batch.iter());
    let taken = lock(&clock.0).take().unwrap();
    let (staging, _) = stored.unwrap();
    let zones = staging.stage.as_ref().unwrap().zones().to_vec();
    (zones, taken.looks)
}

/// Each zone of a batch may have to be waited for, as often as any write's.
#[test]
fn a_batch_that_waits_for_each_of_its_zones_is_stored() {
    let batch = puts(CF, 0..300, &[1; 1100]);
    let (zones, looks) = stored_beside(&batch, |engine| {
        let mut zones = scatter(engine);
        zones.extend(take_all(engine, Reserve::Keep));
        zones
    });
    let zones = zones.len() as u64;
    assert!(
        zones > 5 && looks >= (zones - 1) * LOOKS,
        "{zones}, {looks}"
    );
}

/// So may what makes the zone at hand wider.
#[test]
fn a_batch_that_waits_each_time_for_its_zone_to_become_wider_is_stored() {
    // A record needs a zone of 16 KiB, and a little of another one: what is left is used as long as it is a quarter.
    let batch = puts(CF, 0..8, &[1; 17_300]);
    let (zones, looks) = stored_beside(&batch, |engine| {
        let mut zones = take_all(engine, Reserve::Keep);
        zones.reverse();
        // The first record waits for none.
        let first = zones.split_off(zones.len() - 2);
        engine.inner.common.space.release(&first);
        zones
    });
    let [zone] = &zones[..] else {
        panic!("{zones:?}");
    };
    assert!(zone.end.0 - zone.data.0 > 8 * (16 << 10), "{zone:?}");
    assert!(looks >= 7 * LOOKS, "{looks}");
}

#[test]
fn what_finds_no_zones_side_by_side_goes_in_pieces_whichever_way_it_comes() {
    let machine = Machine::new(MIB);
    let engine = opened(&machine);
    write(&engine, &puts(CF, 0..1, b"before")).unwrap();
    let taken = scatter(&engine);
    let batch = |n: u16| puts(CF, n..n + 60, &[n.to_le_bytes()[0]; 1100]);
    let refused_as_item = |batch: &WriteBatch| {
        let bytes = thermocline_memtable::item_bytes(batch.iter());
        !is_staged(&engine, batch) && !engine.inner.common.space.has_room(bytes)
    };
    assert!(refused_as_item(&batch(100)));
    // Not from the first: it may be waited for a flush.
    let busy = engine.write(batch(100).iter(), hurried()).unwrap_err();
    assert_eq!(busy.kind(), ErrorKind::Busy, "{busy}");
    let single = puts(CF, 1..2, &[1; 60 << 10]);
    let error = write(&engine, &single).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(contents(&engine, CF), model(0..1, b"before"));
    write(&engine, &batch(100)).unwrap();
    assert!(refused_as_item(&batch(200)));
    let told = Arc::new(crate::sync::Mutex::new(Vec::new()));
    let tell = told.clone();
    let done: Callback = Box::new(move |result| lock(&tell).push(result.is_ok()));
    engine
        .write_with_callback(batch(200).iter(), false, done)
        .unwrap();
    engine.sync().unwrap();
    assert_eq!(*lock(&told), [true]);
    assert!(refused_as_item(&batch(300)));
    let watch = engine.watch().unwrap();
    let mode = WriteOptions::default();
    watch.write(batch(300).iter(), mode, &Nothing).unwrap();
    drop(watch);
    let mut expected = model(0..1, b"before");
    for n in [100u16, 200, 300] {
        expected.extend(model(n..n + 60, &[n.to_le_bytes()[0]; 1100]));
    }
    assert_eq!(contents(&engine, CF), expected);
    // Each is one memtable, and the active one.
    assert_eq!(engine.metrics().memtables.len(), 5);
    // More than is free, in whatever pieces.
    let before = holdings(&engine);
    let error = write(&engine, &puts(CF, 400..800, &[1; 1100])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    let (after, dram) = (holdings(&engine), before.3);
    assert_eq!((after.0, after.1, after.2), (before.0, before.1, before.2));
    // What the commits before have left is freed meanwhile.
    assert!(after.3 <= dram, "{after:?} {before:?}");
    engine.inner.common.space.release(&taken);
    drop(engine);
    assert_eq!(contents(&opened(&machine), CF), expected);
    assert_sound(&machine, MIB);
}

/// By its bytes it would fit what is free, but for one of its records.
#[test]
fn a_batch_with_a_record_that_fits_no_piece_takes_none() {
    let machine = Machine::new(MIB);
    let engine = opened(&machine);
    write(&engine, &puts(CF, 0..1, b"before")).unwrap();
    let taken = scatter(&engine);
    let mut batch = puts(CF, 100..130, &[1; 1100]);
    let large = vec![1; 40 << 10];
    batch.put(CF, &130u16.to_be_bytes(), &large).unwrap();
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    assert!(!is_staged(&engine, &batch));
    assert!(engine.inner.common.space.pieces_alone(bytes).is_some());
    let has = || {
        let (zones, staging, descriptors, _) = holdings(&engine);
        let lines = engine.metrics().pm.lines_written_back;
        (lines, zones, staging, descriptors)
    };
    let before = has();
    let error = write(&engine, &batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
    assert_eq!(has(), before);
    // The others alone go.
    write(&engine, &puts(CF, 100..160, &[1; 1100])).unwrap();
    engine.inner.common.space.release(&taken);
    write(&engine, &batch).unwrap();
    drop(engine);
    assert_eq!(contents(&opened(&machine), CF).len(), 61);
    assert_sound(&machine, MIB);
}

/// It has waited for that already, and would wait again.
#[test]
fn a_batch_that_lacks_something_else_than_zones_is_not_staged() {
    let machine = Machine::new(MIB);
    let engine = opened(&machine);
    write(&engine, &puts(CF, 0..1, b"before")).unwrap();
    scatter(&engine);
    let (stager, space) = (&engine.inner.stager, &engine.inner.common.space);
    let batch = puts(CF, 100..160, &[1; 1100]);
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    let is_staged = |error: Error| {
        let refused = stager.refused_as_item(error, batch.iter(), bytes);
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
        goes_in_pieces(&refused)
    };
    assert!(is_staged(space.full(bytes)));
    // Whatever was said behind it.
    assert!(is_staged(Error::OutOfSpace(match space.full(bytes) {
        Error::OutOfSpace(text) => format!("{text}; readers hold 3 memtables"),
        other => panic!("{other}"),
    })));
    for lacks in ["dram is used up", "there are as many memtables as can be"] {
        assert!(!is_staged(Error::OutOfSpace(lacks.into())));
    }
}

/// The family of the key to which batches append.
fn lists(engine: &Engine) -> CfId {
    let append = CfOptions::default().merge_operator("thermocline.append:2c");
    engine.family("lists", &append).unwrap().id
}

/// A batch with operands of one key among its records: two of them, so that one that is applied twice shows.
fn with_operands(lists: CfId, n: u16) -> WriteBatch {
    let mut batch = puts(CF, n..n + 60, &[1; 1100]);
    for operand in [n, n + 1] {
        let operand = operand.to_string();
        batch.merge(lists, b"list", operand.as_bytes()).unwrap();
    }
    batch
}

/// What they have come to, and how many other keys there are.
fn appended(engine: &Engine, lists: CfId) -> (String, usize) {
    let list = engine.get(lists, b"list", <[u8]>::to_vec).unwrap();
    let list = String::from_utf8(list.unwrap()).unwrap();
    (list, contents(engine, CF).len())
}

#[test]
fn what_was_refused_as_an_item_is_applied_once() {
    let machine = Machine::new(MIB);
    let engine = opened(&machine);
    let lists = lists(&engine);
    let mut first = WriteBatch::new();
    first.merge(lists, b"list", b"1").unwrap();
    write(&engine, &first).unwrap();
    let taken = scatter(&engine);
    let space = &engine.inner.common.space;
    let is_refused = |batch: &WriteBatch| {
        let bytes = thermocline_memtable::item_bytes(batch.iter());
        !is_staged(&engine, batch) && space.pieces_alone(bytes).is_some()
    };
    let batches = [100, 200].map(|n| with_operands(lists, n));
    assert!(is_refused(&batches[0]));
    write(&engine, &batches[0]).unwrap();
    assert!(is_refused(&batches[1]));
    let done: Callback = Box::new(|result| result.unwrap());
    engine
        .write_with_callback(batches[1].iter(), false, done)
        .unwrap();
    let expected = ("1,100,101,200,201".to_string(), 120);
    assert_eq!(appended(&engine, lists), expected);
    space.release(&taken);
    let killed = machine.killed();
    drop(engine);
    for machine in [machine, killed] {
        assert_eq!(appended(&opened(&machine), lists), expected);
        assert_sound(&machine, MIB);
    }
}

/// Two that meet find no zones together, and then none by themselves. The leader tells the follower so.
#[test]
fn a_follower_whose_leader_was_refused_goes_in_pieces() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("db");
    let world = World {
        background: false,
        ..World::real()
    };
    let mut options = with_large_items();
    // The leader waits until the other one has come.
    let one = thermocline_memtable::item_bytes(with_operands(CF, 100).iter());
    options.commit.group_bytes_max = 2 * one;
    (options.commit.buckets, options.commit.group_wait_us) = (1, 1_000_000);
    let engine = Engine::open(world.clone(), &dir, options.clone()).unwrap();
    let lists = lists(&engine);
    let mut first = WriteBatch::new();
    first.merge(lists, b"list", b"1").unwrap();
    engine.write(first.iter(), Durability::Buffered).unwrap();
    let taken = scatter(&engine);
    std::thread::scope(|scope| {
        for n in [100, 200] {
            let engine = &engine;
            scope.spawn(move || write(engine, &with_operands(lists, n)).unwrap());
        }
    });
    let found = appended(&engine, lists);
    let orders = ["1,100,101,200,201", "1,200,201,100,101"];
    assert!(orders.contains(&&*found.0), "{}", found.0);
    assert_eq!(found.1, 120);
    // Each is one memtable, behind the first, and the active one.
    assert_eq!(engine.metrics().memtables.len(), 4);
    engine.inner.common.space.release(&taken);
    drop(engine);
    let engine = Engine::open(world, &dir, options).unwrap();
    assert_eq!(appended(&engine, lists), found);
}
