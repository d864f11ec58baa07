//! What a writer does that was refused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use thermocline_base::budget::Spare;
use thermocline_base::options::Options;
use thermocline_base::{CfId, Error, ErrorKind, WriteBatch};
use thermocline_env::Clock;
use thermocline_observe::cause::StallCause;
use thermocline_policy::tuning::ROOM_OTHERS_MS;

use crate::busy::busy;
use crate::sync::{Mutex, lock};
use crate::tests::Machine;
use crate::{Durability, Engine, Runtime, RuntimeOptions, Setup};

/// A job has given back, behind the refused attempt and before the writer looked, the DRAM that this lacked: then it is tried again,
/// and once, since what it lacks may be something else.
#[test]
fn dram_that_came_back_before_the_first_look_is_tried() {
    const PM: u64 = 8 << 20;
    let machine = Machine::new(PM);
    let options = Options {
        pm: PM,
        ..Options::default()
    };
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let admission = &engine.inner.admission;
    let waits = || {
        let mut attempts = admission.begin_attempts();
        let refused = Error::OutOfSpace("one more write".into());
        admission.wait_for_room(&mut attempts, refused, 10, false)
    };
    assert!(waits().is_err());
    admission.common.room.note_lacking(1);
    waits().unwrap();
    assert!(waits().is_err());
    // As much as there will never be.
    admission.common.room.note_lacking(u64::MAX / 2);
    assert!(waits().is_err());
}

/// What a write lacks is measured from what is in use, and what other writes were promised is in it: that does not count twice.
#[test]
fn what_is_promised_is_part_of_what_a_write_lacks() {
    const PM: u64 = 8 << 20;
    const DRAM: u64 = 64 << 20;
    let machine = Machine::new(PM);
    let options = Options {
        pm: PM,
        dram: DRAM,
        ..Options::default()
    };
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let admission = &engine.inner.admission;
    let common = &admission.common;
    let refused = || Error::OutOfSpace("one more write".into());
    // As much as groups in flight have, and what one more needs beside them.
    common.account.promise(DRAM / 2, Spare::Keep).unwrap();
    common.room.note_lacking(DRAM / 8 * 5);
    let mut attempts = admission.begin_attempts();
    admission
        .wait_for_room(&mut attempts, refused(), 10, false)
        .unwrap();
    assert!(common.account.held() >= DRAM / 2);
}

/// A clock that goes on by a nanosecond with each look at it.
#[derive(Debug, Default)]
struct Looks(AtomicU64);

impl Clock for Looks {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep_ms(&self, ms: u64) {
        self.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }

    fn unix_s(&self) -> u64 {
        0
    }
}

/// A writer seals the active memtable, for which it has to name the next one, and flushes. If the time of naming counted as that of
/// the flush, too, all delays together would be longer than the writer has waited.
#[test]
fn what_a_writer_waits_for_counts_once() {
    const PM: u64 = 8 << 20;
    let machine = Machine::new(PM);
    let clock = Arc::new(Looks::default());
    let mut world = machine.world();
    world.env.clock = clock.clone();
    let options = Options {
        pm: PM,
        ..Options::default()
    };
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"key", b"value").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let admission = &engine.inner.admission;
    let uses = || StallCause::ALL.map(|cause| admission.common.stalls.get(cause));
    let nanos = || uses().iter().map(|one| one.nanos).sum::<u64>();
    let mut attempts = admission.begin_attempts();
    let refused = Error::OutOfSpace("one more write".into());
    let (counted, begun) = (nanos(), clock.now_ns());
    admission
        .wait_for_room(&mut attempts, refused, 10, false)
        .unwrap();
    let waited = clock.now_ns() - begun;
    for cause in [StallCause::Memtable, StallCause::Flush] {
        assert!(admission.common.stalls.get(cause).count > 0, "{cause:?}");
    }
    // Two looks, before it and behind it, are this test's.
    let counted = nanos() - counted;
    assert!(counted + 2 <= waited, "{counted} of {waited}");
}

/// A writer who does not wait finds all flushed, and what was flushed kept for change feeds: a flush that it asks for gives that
/// up. If it did not ask, all such writers would be refused for ever.
#[test]
fn who_does_not_wait_asks_for_what_is_kept_for_feeds() {
    const PM: u64 = 8 << 20;
    let machine = Machine::new(PM);
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.feed.retain_bytes = PM;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"key", b"value").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    let admission = &engine.inner.admission;
    let refused = || {
        let mut attempts = admission.begin_attempts();
        let full = Error::OutOfSpace("one more write".into());
        let refused = admission.wait_for_room(&mut attempts, full, 10, true);
        refused.unwrap_err().kind()
    };
    assert!(engine.metrics().feed.kept_bytes > 0);
    assert_eq!(refused(), ErrorKind::Busy);
    engine.inner.flusher.flush_inline();
    assert_eq!(engine.metrics().feed.kept_bytes, 0);
    // There is nothing more to come.
    assert_eq!(refused(), ErrorKind::OutOfSpace);
}

/// A value of an earlier opening holds what is kept for feeds. If a writer who does not wait were told to come again, he would come
/// for ever: a flush cannot give that up, and nobody would say who has it.
#[test]
fn who_does_not_wait_hears_of_readers_of_an_earlier_opening() {
    const PM: u64 = 8 << 20;
    let machine = Machine::new(PM);
    let open = || {
        let mut options = Options {
            pm: PM,
            ..Options::default()
        };
        options.feed.retain_bytes = PM;
        options.read.pin_bytes_min = 100;
        options.read.pins_percent_max = 100;
        Engine::open(machine.world(), Path::new("/db"), options).unwrap()
    };
    let engine = open();
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"key", &[7; 1000]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let value = engine.value(CfId::DEFAULT, b"key").unwrap().unwrap();
    assert!(value.is_pinned());
    engine.close().unwrap();
    drop(engine);
    let engine = open();
    engine.flush().unwrap();
    assert_eq!(engine.metrics().feed.kept_memtables, 1);
    let admission = &engine.inner.admission;
    let refused = |no_slowdown| {
        let mut attempts = admission.begin_attempts();
        let full = Error::OutOfSpace("one more write".into());
        let refused = admission.wait_for_room(&mut attempts, full, 10, no_slowdown);
        refused.unwrap_err()
    };
    // Nor does one who waits get it.
    for no_slowdown in [true, false] {
        let error = refused(no_slowdown);
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert!(error.to_string().contains("earlier opening"), "{error}");
    }
    assert_eq!(value.into_vec(), [7; 1000]);
    assert_eq!(refused(true).kind(), ErrorKind::Busy);
    engine.inner.flusher.flush_inline();
    assert_eq!(engine.metrics().feed.kept_memtables, 0);
}

/// A flush that meets what was written a moment ago fails, and would not a moment later. The write that waits for it waits on.
#[test]
fn a_flush_that_meets_writes_in_flight_refuses_nobody() {
    const PM: u64 = 8 << 20;
    let machine = Machine::new(PM);
    let options = Options {
        pm: PM,
        ..Options::default()
    };
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let admission = &engine.inner.admission;
    let after = |cause| {
        let refused = Error::OutOfSpace("one more write".into());
        admission.flush_failed(refused, cause, false)
    };
    after(busy("for writes in flight")).unwrap();
    let refused = after(Error::Unsupported("flushing".into())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
    assert_eq!(after(Error::Closed).unwrap_err().kind(), ErrorKind::Closed);
}

/// Another store of the runtime waits for DRAM. This one cannot flush, and has promised more to its writes than they take.
#[test]
fn a_store_that_cannot_flush_gives_up_what_it_has_promised() {
    const PM: u64 = 8 << 20;
    const DRAM: u64 = 4 << 20;
    let runtime = Runtime::new(RuntimeOptions {
        dram: DRAM,
        workers: 1,
        ..RuntimeOptions::default()
    });
    let runtime = runtime.unwrap();
    let machines = [Machine::new(PM), Machine::new(PM)];
    let open = |machine: &Machine| {
        let mut options = Options {
            pm: PM,
            dram: DRAM,
            ..Options::default()
        };
        options.flush.automatic = false;
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        Engine::open_with(machine.world(), Path::new("/db"), options, setup).unwrap()
    };
    let [engine, _other] = machines.each_ref().map(open);
    let (common, mut n) = (&engine.inner.common, 0u64);
    while !common.is_crowded() {
        let mut batch = WriteBatch::new();
        for _ in 0..100 {
            // Neighbours share no prefix, so that the index is large.
            n += 1;
            let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            batch.put(CfId::DEFAULT, &key, b"value").unwrap();
        }
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    assert!(common.account.held() > common.account.used());
    drop(common.poison.poison(Error::Unsupported("a device".into())));
    engine.inner.flusher.flush_job().unwrap_err();
    assert_eq!(common.account.held(), common.account.used());
}

/// A clock whose sleeps take no time, but for one: of that somebody is told, and it ends when it is told to.
#[derive(Debug)]
struct Patient {
    slept: AtomicU64,
    until: u64,
    told: Sender<()>,
    goes_on: Mutex<Receiver<()>>,
}

impl Clock for Patient {
    fn now_ns(&self) -> u64 {
        self.slept.load(Ordering::Relaxed) * 1_000_000
    }

    fn sleep_ms(&self, ms: u64) {
        let slept = self.slept.fetch_add(ms, Ordering::Relaxed) + ms;
        if slept == self.until {
            self.told.send(()).unwrap();
            lock(&self.goes_on).recv().unwrap();
        }
    }

    fn unix_s(&self) -> u64 {
        0
    }
}

/// Another store has the DRAM, and its flush takes longer than stores are waited for that do nothing. Whoever is refused then is told
/// that there is no room, though there will be.
#[test]
fn another_store_that_flushes_is_waited_for() {
    const PM: u64 = 64 << 20;
    const DRAM: u64 = 4 << 20;
    let runtime = Runtime::new(RuntimeOptions {
        dram: DRAM,
        workers: 1,
        ..RuntimeOptions::default()
    });
    let runtime = runtime.unwrap();
    let machines = [Machine::new(PM), Machine::new(PM)];
    let open = |machine: &Machine, clock: Option<Arc<Patient>>| {
        let mut options = Options {
            pm: PM,
            dram: DRAM,
            ..Options::default()
        };
        options.memtable.bytes_max = PM;
        options.flush.dram_percent = 90;
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        let mut world = machine.world();
        world.background = true;
        if let Some(clock) = clock {
            world.env.clock = clock;
        }
        Engine::open_with(world, Path::new("/db"), options, setup).unwrap()
    };
    let (told, hears) = channel();
    let (goes_on, waits) = channel();
    let clock = Arc::new(Patient {
        slept: AtomicU64::new(0),
        until: 2 * ROOM_OTHERS_MS,
        told: told.clone(),
        goes_on: Mutex::new(waits),
    });
    let first = open(&machines[0], None);
    let second = open(&machines[1], Some(clock));
    let common = &first.inner.common;
    // Its flush gets no turn.
    let turn = common.turns.flushing.take();
    let mut n = 0u64;
    while !common.is_crowded() {
        let mut batch = WriteBatch::new();
        for _ in 0..100 {
            n += 1;
            let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            batch.put(CfId::DEFAULT, &key, b"value").unwrap();
        }
        first.write(batch.iter(), Durability::Immediate).unwrap();
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let admission = &second.inner.admission;
            let mut attempts = admission.begin_attempts();
            let refused = Error::OutOfSpace("one more write".into());
            let waited = admission.wait_for_room(&mut attempts, refused, 10, false);
            told.send(()).unwrap();
            waited
        });
        hears.recv().unwrap();
        drop(turn);
        first.flush().unwrap();
        goes_on.send(()).unwrap();
        waits.join().unwrap().unwrap();
    });
}
