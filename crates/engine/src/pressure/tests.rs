//! What a store owes, by a clock that stands still unless somebody waits.

use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{CfId, ErrorKind, Steps, WriteBatch};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

use super::*;
use crate::{Durability, Engine, Snapshot, StallUse, World, WriteOptions};

const PM: u64 = 4 << 20;

fn filled(percent: u64) -> Pressure {
    let pressure = Pressure::new(PM);
    pressure.set(&Debt {
        pm_bytes: PM / 100 * percent,
        ..Debt::default()
    });
    pressure
}

#[test]
fn nothing_is_owed_below_the_soft_limit() {
    for percent in [0, 50, 74] {
        assert_eq!(filled(percent).now.load(Ordering::Relaxed), 0);
    }
    let pressure = filled(90);
    assert!(pressure.now.load(Ordering::Relaxed) > 0);
    // What was freed is not owed for.
    pressure.set(&Debt::default());
    assert_eq!(pressure.now.load(Ordering::Relaxed), 0);
}

#[test]
fn small_writes_gather_a_piece_and_large_ones_wait_no_longer_than_allowed() {
    let mut before = 0;
    for percent in [80, 85, 90, 96, 100] {
        let pressure = filled(percent);
        let clock = 1_000_000_000;
        let mut writes = 0;
        let until = loop {
            writes += 1;
            if let Some((until, cause)) = pressure.owe(100, clock) {
                assert_eq!(cause, StallCause::PmFill);
                break until;
            }
        };
        let owed = until - clock;
        assert!((PIECE..PIECE + PIECE / 4).contains(&owed), "{owed}");
        // The fuller, the sooner: about so many nanoseconds for a byte.
        let nanos = PIECE / (100 * writes);
        assert!(nanos > before, "{percent}: {nanos} after {before}");
        before = nanos;
        // Whoever writes meanwhile waits behind.
        let (behind, _) = pressure.owe(100, clock).unwrap();
        assert!(behind >= until);
        let (large, _) = pressure.owe(1 << 40, clock).unwrap();
        assert_eq!(large, clock + DELAY_MAX);
        // It is over when it is.
        assert_eq!(pressure.owe(1, clock + 2 * DELAY_MAX), None);
    }
    assert!((900..=1000).contains(&before), "{before}");
}

fn open(background: bool) -> Engine {
    let steps = Steps::new();
    let world = World {
        env: Env::simulated(SimFs::new(steps.clone()), 7),
        sim: Some(SimPm::new(PM, steps)),
        shadow: None,
        background,
    };
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = 128 << 10;
    // Nothing else moves the clock.
    options.memtable.idle_ms = 0;
    Engine::open(world, Path::new("/db"), options).unwrap()
}

/// Fills it to so many percent with what snapshots hold, so that no flush helps.
fn fill(engine: &Engine, percent: u64, held: &mut Vec<Snapshot>) {
    for n in 0..u32::MAX {
        let space = engine.metrics().space;
        if space.attached_bytes >= space.limit_bytes / 100 * percent {
            return;
        }
        let mut batch = WriteBatch::new();
        batch
            .put(CfId::DEFAULT, &n.to_be_bytes(), &[7; 2000])
            .unwrap();
        engine.write(batch.iter(), Durability::Buffered).unwrap();
        if n % 10 == 0 {
            held.push(engine.snapshot());
        }
    }
}

fn held_back(engine: &Engine) -> StallUse {
    engine.inner.stalls.get(StallCause::PmFill)
}

#[test]
fn writers_of_a_store_that_fills_are_held_back_a_little_and_told_why() {
    let engine = open(true);
    let mut held = Vec::new();
    fill(&engine, 70, &mut held);
    assert_eq!(held_back(&engine).count, 0);
    fill(&engine, 90, &mut held);
    let stall = held_back(&engine);
    assert!(stall.count > 10, "{stall:?}");
    assert!(stall.nanos_max <= DELAY_MAX + PIECE, "{stall:?}");
    assert!(stall.nanos >= stall.count * PIECE, "{stall:?}");
    // Who asked not to wait is told so, once enough is owed.
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"k", &[7; 1000]).unwrap();
    let mode = WriteOptions {
        durability: Durability::Buffered,
        no_slowdown: true,
    };
    // However far others move the clock.
    let owed_until = &engine.inner.pressure.owed_until;
    owed_until.store(u64::MAX, Ordering::Relaxed);
    let error = engine.write(batch.iter(), mode).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.to_string().contains("behind"), "{error}");
    owed_until.store(0, Ordering::Relaxed);
    // With space comes speed: as soon as threads of the store have let go of what they looked at.
    drop(held);
    engine.flush().unwrap();
    while engine.inner.pressure.now.load(Ordering::Relaxed) > 0 {
        engine.reclaim().unwrap();
        std::thread::yield_now();
    }
    let before = held_back(&engine);
    // One that may wait for those threads, which the other may not.
    let mode = Durability::Buffered;
    engine.write(batch.iter(), mode).unwrap();
    assert_eq!(held_back(&engine), before);
}

#[test]
fn a_store_without_background_holds_nobody_back() {
    let engine = open(false);
    let mut held = Vec::new();
    fill(&engine, 93, &mut held);
    assert_eq!(held_back(&engine), StallUse::default());
    assert_eq!(engine.inner.world.env.clock.now_ns(), 0);
}
