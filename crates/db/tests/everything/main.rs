//! Random histories of everything at once, compared with a model.
//!
//! Each seed draws a store: a preset, a shape of level 0, where its region or its logs lie, divisions, codecs,
//! sizes so small that everything happens all the time. Then it draws steps: writes of every kind,
//! buffered and not; families of both orders that come and go; reads, scans, cursors and snapshots that are held
//! over flushes, drops, and into the next life of the store; flushes and compactions; tables that are ingested
//! and exported; checkpoints, backups, a second store that follows the first by its changes; callbacks that
//! block; handles that somebody forgot. Lives end by a close or, on a simulated machine, by a kill or a power
//! cut, often just behind an ingest, a copy or a drop; the next one has other options.
//!
//! No write may be refused, whoever holds what, but readers from before a family was dropped, whose tables stay where they
//! lie; and for a while a simulated disk may be full, and a simulated
//! process may have 64 descriptors. After a crash everything that was acknowledged as
//! durable is there, and of the buffered writes behind it a prefix.
//!
//! `cargo test` runs some seeds that are always the same. `THERMOCLINE_EVERYTHING_SECONDS=3600` runs fresh ones, too, for
//! that long; a failure prints its seed and the command that repeats it.
#![expect(
    clippy::disallowed_methods,
    reason = "the test measures how long it has run, and removes folders"
)]

mod aging;
mod copies;
mod draw;
mod history;
mod machine;
#[path = "../model/reading.rs"]
mod reading;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use thermocline_testkit::explore::{explored, is_tried, side_by_side};
use thermocline_testkit::{Replay, seeds};

use crate::history::History;

/// The allocator of these tests, which make and drop a great deal (decision 179).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const STEPS: usize = 300;

/// So many fresh histories run at a time, beside those that are always the same.
const AT_ONCE: usize = 3;

/// As many fresh histories are explored: two processors take about a minute for them.
const FRESH: u64 = 12;

/// How much was seen to have expired.
fn run(seed: u64) -> usize {
    let _replay = Replay::new("-p thermocline --test everything", seed);
    let mut history = History::new(seed);
    let ended = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..STEPS {
            history.step();
        }
        history.compare();
        history.end();
    }));
    if let Err(panic) = ended {
        let last = history.told.len().saturating_sub(40);
        for step in &history.told[last..] {
            eprintln!("{step}");
        }
        resume_unwind(panic);
    }
    history.gone
}

/// Runs these side by side: a history waits for its disk about half of the time, and the last of them would be alone.
fn run_all(seeds: &[u64]) -> Vec<usize> {
    side_by_side(seeds, |&seed| run(seed))
}

#[test]
fn any_history_is_as_the_model_says() {
    run_all(&seeds(0..explored(1, 5)));
}

/// Those in which what one of the families has expires, with and without operands.
#[test]
fn what_expires_goes_and_nothing_else_does() {
    if std::env::var_os("THERMOCLINE_SEED").is_none() {
        // With operands and without.
        let seeds = (0..explored(1, 4)).flat_map(|nth| [5 + 8 * nth, 19 + 32 * nth]);
        let gone = run_all(&seeds.collect::<Vec<_>>());
        println!("seen to have gone, in bytes and entries: {gone:?}");
        assert!(gone.iter().sum::<usize>() > 0);
    }
}

/// Fresh ones: a number of them where all is explored, or for as many seconds as somebody asks for.
#[test]
fn fresh_histories_are_as_the_model_says() {
    let asked = std::env::var("THERMOCLINE_EVERYTHING_SECONDS").ok();
    let asked = asked.map(|seconds| seconds.parse().expect("a number of seconds"));
    let asked = asked.map(Duration::from_secs);
    if std::env::var_os("THERMOCLINE_SEED").is_some() {
        return;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let first = now.expect("it is after 1970").as_secs() << 20;
    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let goes_on = |nth: u64| match asked {
        Some(time) => begun.elapsed() < time,
        None => nth < explored(0, FRESH),
    };
    // A history waits for its disk about half of the time.
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if !goes_on(nth) {
                        break;
                    }
                    run(first + nth);
                }
            });
        }
    });
    // Each thread has drawn one that it did not run.
    let histories = next.into_inner() - AT_ONCE as u64;
    println!("{histories} histories of {STEPS} steps from seed {first} on");
}

/// Each of these has found a fault that is mended: an open without room for a log that failed, a merge on a full
/// disk that went on for ever, readers that had all descriptors, a compaction of a table with nothing but range
/// tombstones that found no room and was tried again for ever, a durable commit of nothing that left what was
/// buffered before it to a power cut, readers of an earlier opening that kept a small region full, long values of a
/// family that was dropped on a full disk and that readers of an earlier opening had, a compaction on a full disk that was tried
/// again each time it had become a little smaller, tables of a deleted range that were tried for ever where the manifest had no room, and a
/// reader of a dropped family that stepped over deleted keys. A plain run has every third one.
#[test]
fn histories_that_found_something_find_it_no_more() {
    if std::env::var_os("THERMOCLINE_SEED").is_none() {
        let found = [
            17,
            23,
            1_882_705_510_793_295,
            1_882_708_348_240_003,
            47,
            1_882_800_133_242_991,
            1_882_973_324_443_673,
            1_882_972_803_301_377,
            700_017,
            700_011,
        ];
        let tried = found.into_iter().enumerate();
        let tried = tried.filter(|(nth, _)| is_tried(*nth, 3));
        run_all(&tried.map(|(_, seed)| seed).collect::<Vec<_>>());
    }
}
