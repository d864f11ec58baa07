//! What jobs teach of what steps cost.

use std::sync::atomic::{AtomicU64, Ordering};

use thermocline_base::KeyRange;
use thermocline_policy::pick::Reason;

use super::collect::{ALL, CF, apart, counted};
use super::*;

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

/// It would seem to take so long to bring an entry down that more is merged inside persistent memory than pays.
#[test]
fn a_job_that_moves_values_does_not_tell_what_an_entry_costs() {
    let machine = Machine::new(PM);
    let mut options = apart();
    options.blob.file_bytes = 1 << 20;
    options.blob.space_percent_max = 101;
    options.compaction.level0_tables = 1;
    let clock = Arc::new(Looks::default());
    let world = world_of(&machine, &clock);
    let engine = Engine::open(world, Path::new("/db"), options).unwrap();
    let compactor = &engine.inner.compactor;
    let units = || engine.inner.common.compactions.costs.units();
    for n in 0..20u8 {
        put(&engine, CF, &[n], &[n; 300]);
    }
    engine.compact(CF, ALL).unwrap();
    let before = counted(&engine);
    assert_eq!((before.len(), before[0].bytes), (1, 20 * 300));
    // A merge of level 0 tells what is garbage, and moves nothing.
    for n in 0..10u8 {
        delete(&engine, CF, &[n]);
    }
    flush(&engine);
    let merge = compactor.picker.take_due().unwrap();
    assert_eq!(merge.reason(), Reason::Level0);
    let usual = units();
    compactor.run(merge).unwrap();
    let learned = units();
    assert_ne!(learned, usual);
    assert_eq!(counted(&engine)[0].live, 10 * 300);
    // Another one moves what is left.
    for n in [10, 19] {
        put(&engine, CF, &[n], b"short");
    }
    flush(&engine);
    let all = KeyRange::inclusive(&b"\0"[..], &b"\xff"[..]);
    let by_hand = compactor.take_range(CF, &all).unwrap();
    compactor.run(by_hand).unwrap();
    engine.reclaim().unwrap();
    let after = counted(&engine);
    assert_eq!((after.len(), after[0].bytes), (1, 8 * 300));
    assert_eq!(units(), learned);
}
