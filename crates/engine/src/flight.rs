//! The Reorder Ring in its simplest form: groups between grant and finish (LogFree §3.2.3).
//!
//! A group is *granted* under the writer's lock: it gets its seqnos and its place in the chain, in
//! one order. Then its thread copies, persists and indexes it, beside all others. It *finishes* here:
//! in whatever order groups come, `durable` and `visible` move over them in the order of their grants,
//! and a group is acknowledged when they have passed it (design §14, rule 6). LogFree keeps the order
//! with four indices over an array of descriptors; a short critical section does the same here, since
//! what it covers (a set of at most as many seqnos as there are writing threads) is smaller than a
//! persist by far.
//!
//! # Invariants
//! 1. `durable` and `visible` are stored under the lock, so they only rise.
//! 2. `visible` reaches a group's last seqno only after its records, and those of all groups before
//!    it, are durable and in the index.
//! 3. A group that cannot finish stops all behind it: the store is poisoned, and whoever waits learns.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thermocline_base::sync::{Condvar, Mutex, MutexGuard, hint, lock, wait};
use thermocline_base::{Result, SeqNo};

use crate::durable::Watermark;
use crate::poison::Poison;

/// How often a waiting writer looks again before it parks: about a microsecond.
const SPINS: u32 = 100;

#[derive(Debug)]
pub(crate) struct Flight {
    state: Mutex<State>,
    changed: Condvar,
    failed: AtomicBool,
}

/// What everybody may read without a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marks<'a> {
    /// The last seqno that is durable together with all before it.
    pub durable: &'a AtomicU64,
    /// The last seqno that readers see.
    pub visible: &'a AtomicU64,
}

#[derive(Debug)]
struct State {
    watermark: Watermark,
    /// Groups in flight, in the order of their grants: last seqno and number of records.
    open: VecDeque<(u64, u64)>,
    parked: usize,
}

impl Flight {
    /// Nothing is in flight, and everything up to `last` is durable.
    pub fn new(last: SeqNo) -> Flight {
        let watermark = Watermark::new(last);
        Flight {
            state: Mutex::new(State {
                watermark,
                open: VecDeque::new(),
                parked: 0,
            }),
            changed: Condvar::new(),
            failed: AtomicBool::new(false),
        }
    }

    /// No seqno below `next` will be given out any more. Nothing is in flight.
    pub fn skip_to(&self, next: SeqNo) {
        lock(&self.state).watermark.skip_to(next);
    }

    /// A group of `records` records up to `last` was granted. Called in the order of grants.
    pub fn begin(&self, last: SeqNo, records: u64) {
        lock(&self.state).open.push_back((last.0, records));
    }

    /// Groups in flight.
    pub fn groups(&self) -> usize {
        lock(&self.state).open.len()
    }

    /// Records in flight.
    pub fn records(&self) -> u64 {
        lock(&self.state)
            .open
            .iter()
            .map(|&(_, records)| records)
            .sum()
    }

    /// Appends the last seqnos of the groups in flight to `out`, ascending: what `visible` may be
    /// next, and so what readers may soon read at.
    pub fn boundaries(&self, out: &mut Vec<SeqNo>) {
        out.extend(lock(&self.state).open.iter().map(|&(last, _)| SeqNo(last)));
    }

    /// The group is durable and indexed. Returns when it may be acknowledged.
    pub fn finish(
        &self,
        first: SeqNo,
        last: SeqNo,
        marks: Marks<'_>,
        poison: &Poison,
    ) -> Result<()> {
        let mut state = lock(&self.state);
        let done = state.watermark.finish(first, last);
        self.publish(&mut state, marks);
        if done {
            return Ok(());
        }
        drop(state);
        // Partner: the release store in `publish`.
        let covered = || marks.durable.load(Ordering::Acquire) >= last.0;
        for _ in 0..SPINS {
            if covered() {
                return Ok(());
            }
            hint::spin_loop();
        }
        let mut state = lock(&self.state);
        while !covered() {
            if self.failed.load(Ordering::Acquire) {
                return poison.check();
            }
            state = self.park(state);
        }
        Ok(())
    }

    /// Moves the watermarks over what has finished (invariants 1 and 2).
    fn publish(&self, state: &mut State, marks: Marks<'_>) {
        let durable = state.watermark.durable().0;
        if durable == marks.durable.load(Ordering::Relaxed) {
            return;
        }
        while state.open.front().is_some_and(|&(last, _)| last <= durable) {
            state.open.pop_front();
        }
        marks.durable.store(durable, Ordering::Release);
        // Sequentially consistent: the store pairs with the registration of readers.
        marks.visible.store(durable, Ordering::SeqCst);
        if state.parked > 0 {
            self.changed.notify_all();
        }
    }

    /// A group could not be finished (invariant 3). The store is poisoned already.
    pub fn fail(&self) {
        let _state = lock(&self.state);
        self.failed.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Waits until nothing is in flight. The caller holds the writer's lock, so nothing is granted
    /// meanwhile.
    pub fn drain(&self, poison: &Poison) -> Result<()> {
        let mut state = lock(&self.state);
        while !state.open.is_empty() {
            if self.failed.load(Ordering::Acquire) {
                return poison.check();
            }
            state = self.park(state);
        }
        Ok(())
    }

    fn park<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.parked += 1;
        let mut state = wait(&self.changed, state);
        state.parked -= 1;
        state
    }
}
