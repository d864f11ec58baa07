//! A sync of the region that fails *once*, as kernels tell of it, and a machine that goes on: the process ends, the
//! next one opens the store over the same caches, writes on, and then the power fails. What was acknowledged
//! before or after is there, and the store opens.
//!
//! The failure leaves readable what the device does not have and no later sync will write (`pm::sim`). So
//! an open that trusts what it reads builds on what goes with the power; the planted bugs here do.

use std::io::Write;

use thermocline_base::options::{Options, Shape};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::{Error, Result, Steps};
use thermocline_engine::Durability;
use thermocline_env::simulated::SeededRandom;
use thermocline_testkit::explore::one_in;

use crate::check::{caught, write_on};
use crate::life::{Life, options};
use crate::oracle::{Change, Expect, Op};
use crate::pm_tables;
use crate::raw::HERE;
use crate::snapshot::{Budget, Snapshot};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

/// Which sync fails, and how.
#[derive(Debug, Clone, Copy)]
struct Case {
    shape: Shape,
    seed: u64,
    /// Of those from the creation on.
    sync: u64,
    code: i32,
    /// Of those of the next process's open, one that fails, too.
    second: Option<u64>,
}

/// With tables in persistent memory memtables are small. Without, none is sealed but by hand: then what is
/// deferred is still not written back when the region grows.
fn options_of(shape: Shape) -> Options {
    let mut options = options();
    options.memtable.bytes_max = 1 << 20;
    if shape != Shape::GlobalIndex {
        pm_tables::tiered(&mut options);
        options.level0.pm_percent = 40;
        options.level0.shape = Some(shape);
        options.memtable.bytes_max = 6 << 10;
    }
    options.memtable.item_bytes_max = 4 << 10;
    options
}

/// All that persists something: items, deferred ones, families, batches that are staged, memtables, growth,
/// tables, and a second opening.
fn work(life: &mut Life, seed: u64) -> Result<()> {
    let random = SeededRandom::new(seed);
    life.open()?;
    life.run(&Op::Family("red".into()))?;
    for n in 0..16u8 {
        let len = usize::try_from(random.below(300)).unwrap();
        let change = |cf| Change {
            cf,
            key: vec![n % 7],
            value: (n % 5 != 4).then(|| vec![n; len].into()),
        };
        life.run(&Op::Write(vec![change(0), change(1)]))?;
        // Acknowledged, and written back by somebody who comes later.
        life.run_as(&Op::put(0, &[b'd', n % 3], [n; 20]), Durability::Buffered)?;
        match n % 8 {
            2 => {
                life.run(&Op::put(0, &[b'w', n], [n; 15_000]))?;
            }
            4 => {
                // Larger than an item.
                let part = |k| Change {
                    cf: u16::from(k % 2),
                    key: vec![k],
                    value: Some(vec![n; 500].into()),
                };
                life.run(&Op::Write((0..10).map(part).collect()))?;
            }
            6 => {
                life.engine().flush()?;
            }
            _ => {}
        }
    }
    for n in 0..16u8 {
        life.run_as(&Op::put(0, &[b'd', n % 3], [n; 20]), Durability::Buffered)?;
        life.run(&Op::put(0, &[b'g', n], [n; 15_000]))?;
    }
    life.close()?;
    life.open()?;
    life.run(&Op::put(0, b"last", *b"words")).map(drop)
}

/// A life in the same machine: what the last process left in caches is there, and no more durable than it was.
fn next_process(life: &Life, case: &Case, expect: &Expect) -> Life {
    let steps = Steps::new();
    let pm = life.pm.fork(steps.clone());
    let fs = life.fs.image_killed(steps);
    Life::on(
        pm,
        fs,
        &options_of(case.shape),
        case.seed + 1,
        expect.clone(),
    )
}

/// What a power cut leaves of `life` now.
fn cut_power(life: &Life, case: &Case, when: &str) -> std::result::Result<(), String> {
    let now = Snapshot::of(life, HERE);
    let options = options_of(case.shape);
    // Nothing is kept that is not durable; then some of it.
    let some = now.states(Budget::NARROW, None, case.sync).pop();
    for state in some.into_iter().chain([now.oldest()]) {
        let mut after = now.life(&state, &options, case.seed + 2);
        let told = |why| format!("after a power cut {when}: {why}");
        after.recover().map_err(told)?;
        write_on(&after, now.expect.seen).map_err(told)?;
        let told = |error: Error| format!("after a power cut {when}: {error}");
        after.close().map_err(told)?;
        let report = after.verify().map_err(told)?;
        if let Some(fault) = report.faults.first() {
            return Err(format!("after a power cut {when}: {fault:?}"));
        }
    }
    Ok(())
}

/// Whether the sync came to fail.
fn story(case: &Case) -> std::result::Result<bool, String> {
    let mut life = Life::fresh(&options_of(case.shape), case.seed);
    life.pm.fail_sync_once_in(case.sync, case.code);
    let done = work(&mut life, case.seed);
    if life.pm.will_fail() {
        return Ok(false);
    }
    let expect = life.tracker.lock().unwrap().expect();
    if done.is_ok() {
        cut_power(&life, case, "of which nobody was warned")?;
        return Err("nobody was told that a sync has failed".into());
    }
    let _ = life.close();
    let mut again = next_process(&life, case, &expect);
    if let Some(second) = case.second {
        again.pm.fail_sync_once_in(second, case.code);
        let opened = again.open();
        if opened.is_err() {
            cut_power(&next_process(&again, case, &expect), case, "in an open")?;
        }
        let _ = again.close();
        again = next_process(&again, case, &expect);
    }
    again.recover()?;
    cut_power(&again, case, "after an open")?;
    write_on(&again, expect.seen)?;
    cut_power(&again, case, "after writing on")?;
    again.close().map_err(|error| error.to_string())?;
    cut_power(&again, case, "after a close")?;
    Ok(true)
}

/// Every `step`-th sync of the workload fails. Gives how many there are, or the first that does harm.
fn at_syncs(
    shape: Shape,
    (seed, code): (u64, i32),
    second: bool,
    step: u64,
) -> std::result::Result<u64, String> {
    let mut case = Case {
        shape,
        seed,
        sync: 0,
        code,
        second: None,
    };
    loop {
        case.second = second.then_some(case.sync / 3 % 5);
        let went = caught(|| story(&case)).map_err(|why| format!("{case:?}: {why}"))?;
        if !went {
            return Ok(case.sync);
        }
        case.sync += step;
    }
}

/// Every sync that is a multiple of `every` fails, with one error; with others fewer do, and in a plain run all do so
/// less often.
fn all_fail(shape: Shape, every: u64, least: u64) {
    let mut syncs = 0;
    let one_in = one_in(12);
    for (seed, code, second, step) in [
        (3, EIO, false, every),
        (4, ENOSPC, false, 2 * every),
        (5, EDQUOT, true, 3 * every),
    ] {
        let step = one_in * step;
        match at_syncs(shape, (seed, code), second, step) {
            Ok(n) => syncs += n / step,
            Err(why) => panic!("{why}"),
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "crash exploration, {syncs} syncs that failed once"
    );
    assert!(syncs * one_in > least, "{syncs}");
}

#[test]
fn what_a_failed_sync_left_in_caches_is_not_trusted() {
    all_fail(Shape::GlobalIndex, 1, 190);
}

#[test]
fn what_a_failed_sync_left_in_caches_is_not_trusted_with_tables_in_persistent_memory() {
    all_fail(Shape::PmTables, 3, 50);
    all_fail(Shape::Tiered, 4, 50);
}

fn is_caught(bug: Bug, code: i32) {
    let _bug = plant(bug);
    let why = at_syncs(Shape::GlobalIndex, (3, code), false, 1).expect_err("the bug does harm");
    assert!(why.contains("power cut"), "{why}");
    println!("{bug:?}: {why}");
}

#[test]
fn trusting_the_cache_after_a_failed_sync_is_caught() {
    is_caught(Bug::TrustCacheAfterFailedSync, EIO);
}

#[test]
fn taking_a_sync_that_found_no_room_for_a_full_region_is_caught() {
    is_caught(Bug::CleanAfterEnospc, ENOSPC);
}
