//! What was written lately: the changes against which transactions are checked.
//!
//! While somebody *watches*, each writer that is granted seqnos notes the keys of its changes here, under the writer's
//! lock, which it holds anyway. So a transaction that asks under that lock learns of every change that comes before it
//! in the one order of all writes, visible or not, and of none that comes behind. While nobody watches, nothing is
//! noted.
//!
//! # What is here
//! Every change above a bound ([`Recent::record`] drops only what no watcher needs, or what has no room). Changes lie in
//! the order of their seqnos, in chunks: a chunk that is full is never changed again, and is read without a lock. A
//! table of a fixed size, the *marks*, has, for each of its slots, the last seqno of a key whose hash leads there: a key whose
//! slot is not above a moment has not changed since. Most questions end there, and take no lock.
//!
//! # Questions without a lock
//! A writer that notes a change stores its seqno in its slot, and then as the last one (release). A thread that asks
//! loads the last one first (acquire), so it finds the slots of all changes up to that. It must know of all changes
//! that were granted before it asks. Each of them was noted before: the thread holds the writer's lock, under which
//! changes are noted, or has got the lock of a key from the thread that changed it, or was told of the change in some
//! other way.
//!
//! # Who watches
//! Watchers are entered in parts, each behind a lock of its own. A watcher takes its moment under that lock: what is
//! visible then. A writer that drops changes first loads what is visible (V), and then looks into all parts. It drops
//! no change above the first moment that it finds, nor above V. A watcher that it did not find took its moment after
//! that look, so that moment is not below V. Noting stops under the locks of all parts, and while nobody is in one: a
//! watcher that begins after that finds it stopped.
//!
//! # Invariants
//! 1. A watcher's moment is not below `State::complete_above` when it begins to watch. When noting begins nothing is
//!    in flight, so all that is not noted is visible, and the moment sees it.
//! 2. Changes are noted in the order of grants: both happen under the writer's lock.
//! 3. What is dropped for lack of room raises `complete_above`. A watcher from an earlier moment is told so
//!    ([`Met::Forgotten`]), and never that nothing has changed.
//!
//! # Memory
//! [`LOG_BYTES_MAX`] and the table's `SLOTS` words while somebody watches, nothing twice `IDLE_CHANGES` changes after the
//! last one ended.
//!
//! # Lock order
//! The changes' lock comes behind the writer's, and those of the parts behind that, in their order. Nothing is taken under
//! these.

mod watchers;

use std::collections::VecDeque;

use arc_swap::ArcSwapOption;
use thermocline_base::checksum::hash64_seeded;
use thermocline_base::size::index;
use thermocline_base::{BatchEntry, CfId, Kind, SeqNo};

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use watchers::Watchers;
pub use watchers::Watching;

/// Bytes of noted changes, at most: some 300,000 changes of short keys.
pub const LOG_BYTES_MAX: usize = 16 << 20;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// Slots of the table of last changes.
const SLOTS: usize = 1 << 15;

/// After so many changes it is asked whether anybody has watched meanwhile, and noting stops if not: transactions that follow
/// each other find it going.
const IDLE_CHANGES: u64 = 4096;

/// The hash of a key.
pub fn key_hash(cf: CfId, key: &[u8]) -> u64 {
    hash64_seeded(key, u64::from(cf.0))
}

/// A change that was granted.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// Its place in the order of all writes.
    pub seqno: SeqNo,
    /// The family of its key.
    pub cf: CfId,
    /// The key, or the first one of a range.
    pub key: &'a [u8],
    /// [`key_hash`] of them.
    pub hash: u64,
    /// Of a range: the first key behind it, or nothing where it has no end.
    pub range: Option<Option<&'a [u8]>>,
}

/// Which changes somebody must know of.
pub trait Footprint {
    /// Whether this is one of them.
    fn meets(&self, change: &Changed<'_>) -> bool;

    /// Whether it has keys only, no ranges, and this holds for the hashes of all of them.
    fn holds_for_all(&self, holds: &mut dyn FnMut(u64) -> bool) -> bool;
}

/// Why a footprint does not stand on unchanged ground.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Met {
    /// Somebody has changed what it has.
    Change {
        /// When.
        seqno: SeqNo,
        /// The family.
        cf: CfId,
        /// The key, or the first of a range.
        key: Vec<u8>,
    },
    /// Changes since its moment had no room here any more, up to this one.
    Forgotten(SeqNo),
}

#[derive(Debug, Clone, Copy)]
struct Head {
    seqno: u64,
    hash: u64,
    cf: CfId,
    at: u32,
    key_len: u32,
    /// Of a range: how many bytes its end has, behind those of the key.
    end_len: Option<u32>,
}

/// Some changes that follow each other.
#[derive(Debug, Default)]
struct Chunk {
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

impl Chunk {
    fn size(&self) -> usize {
        self.bytes.len() + self.heads.len() * size_of::<Head>()
    }

    fn last(&self) -> u64 {
        self.heads.last().map_or(0, |head| head.seqno)
    }

    fn push(&mut self, change: &Changed<'_>) {
        let small = |len: usize| u32::try_from(len).expect("a chunk and its last key are short");
        let end = change.range.map(|end| end.unwrap_or_default());
        self.heads.push(Head {
            seqno: change.seqno.0,
            hash: change.hash,
            cf: change.cf,
            at: small(self.bytes.len()),
            key_len: small(change.key.len()),
            end_len: end.map(|end| small(end.len())),
        });
        self.bytes.extend_from_slice(change.key);
        self.bytes.extend_from_slice(end.unwrap_or_default());
    }

    fn change(&self, head: &Head) -> Changed<'_> {
        let rest = &self.bytes[head.at as usize..];
        let (key, rest) = rest.split_at(head.key_len as usize);
        let range = head.end_len.map(|len| &rest[..len as usize]);
        Changed {
            seqno: SeqNo(head.seqno),
            cf: head.cf,
            key,
            hash: head.hash,
            range: range.map(|end| (!end.is_empty()).then_some(end)),
        }
    }

    /// The first change above `after` that the footprint meets.
    fn first_met(&self, after: u64, footprint: &dyn Footprint) -> Option<Met> {
        let from = self.heads.partition_point(|head| head.seqno <= after);
        let mut changes = self.heads[from..].iter().map(|head| self.change(head));
        let met = changes.find(|change| footprint.meets(change))?;
        Some(Met::Change {
            seqno: met.seqno,
            cf: met.cf,
            key: met.key.to_vec(),
        })
    }
}

/// When keys were changed last, for questions without a lock.
#[derive(Debug)]
struct Marks {
    /// The last seqno that was noted.
    last: AtomicU64,
    /// The last change of a range.
    last_range: AtomicU64,
    /// By hash, the last change.
    slots: Box<[AtomicU64]>,
}

impl Marks {
    fn new(last: u64) -> Marks {
        Marks {
            last: AtomicU64::new(last),
            last_range: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn slot(&self, hash: u64) -> &AtomicU64 {
        // The high bits.
        let slot = hash >> (u64::BITS - SLOTS.trailing_zeros());
        &self.slots[index(slot)]
    }

    fn note(&self, change: &Changed<'_>) {
        let seqno = change.seqno.0;
        let mark = match change.range {
            Some(_) => &self.last_range,
            None => self.slot(change.hash),
        };
        mark.store(seqno, Ordering::Relaxed);
        // Release: pairs with `unchanged`.
        self.last.store(seqno, Ordering::Release);
    }

    /// Whether these alone say that a footprint has met nothing above `after`, and if so, up to where.
    fn unchanged(&self, after: u64, footprint: &dyn Footprint) -> Option<u64> {
        let last = self.last.load(Ordering::Acquire);
        if last <= after {
            return Some(after);
        }
        let is_before = |mark: &AtomicU64| mark.load(Ordering::Relaxed) <= after;
        let unchanged = is_before(&self.last_range)
            && footprint.holds_for_all(&mut |hash| is_before(self.slot(hash)));
        unchanged.then_some(last)
    }
}

#[derive(Debug, Default)]
struct State {
    /// What is noted goes here, too; `None` while nothing is noted.
    marks: Option<Arc<Marks>>,
    /// All changes above this seqno are here.
    complete_above: u64,
    closed: VecDeque<Arc<Chunk>>,
    closed_bytes: usize,
    open: Chunk,
    /// The last seqno that was noted.
    last: u64,
    /// Changes since it was asked whether anybody watches.
    idle: u64,
    /// Whether a chunk was closed since the last look at which chunks are needed.
    grown: bool,
}

/// What was written lately. See the [module](self).
#[derive(Debug, Default)]
pub struct Recent {
    /// Those of the state.
    marks: ArcSwapOption<Marks>,
    watchers: Watchers,
    state: Mutex<State>,
}

impl Recent {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Begins to watch at what is visible, if changes are noted.
    pub fn watch(&self, visible: impl FnOnce() -> u64) -> Option<Watching> {
        self.watchers.begin(|| {
            let noted = self.marks.load().is_some();
            noted.then(visible)
        })
    }

    /// Changes are noted from now on. The caller holds the writer's lock, and nothing is in flight: all up to `visible`
    /// is visible, and nothing behind it was granted.
    pub fn begin(&self, visible: u64) {
        let mut state = self.state();
        if state.marks.is_none() {
            let marks = Arc::new(Marks::new(visible));
            *state = State {
                marks: Some(Arc::clone(&marks)),
                complete_above: visible,
                last: visible,
                ..State::default()
            };
            // Last: from here on somebody may watch.
            self.marks.store(Some(marks));
        }
    }

    /// Somebody watches no longer.
    pub fn leave(&self, watching: &Watching) {
        self.watchers.end(watching);
    }

    /// Notes changes that were granted from `first` on; `visible` is what is visible now. The caller holds the writer's
    /// lock. Returns whether the next ones are to be noted, too.
    pub fn record<'a>(
        &self,
        first: SeqNo,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        visible: u64,
    ) -> bool {
        let mut state = self.state();
        for (entry, seqno) in entries.zip(first.0..) {
            let range = (entry.kind == Kind::RangeDelete).then_some(entry.value);
            state.push(&Changed {
                seqno: SeqNo(seqno),
                cf: entry.cf,
                key: entry.key,
                hash: key_hash(entry.cf, entry.key),
                range: range.map(|end| (!end.is_empty()).then_some(end)),
            });
        }
        self.trim(&mut state, visible)
    }

    /// As [`Recent::record`]: anything in family `cf` may have changed.
    pub fn record_family(&self, seqno: SeqNo, cf: CfId, visible: u64) -> bool {
        let mut state = self.state();
        state.push(&Changed {
            seqno,
            cf,
            key: &[],
            hash: key_hash(cf, &[]),
            range: Some(None),
        });
        self.trim(&mut state, visible)
    }

    /// Whether a footprint has met no change above `after`. Returns up to where that holds. Under the writer's lock that
    /// is all that was granted.
    ///
    /// # Errors
    /// The first change that it met, if that is known.
    pub fn check(&self, after: SeqNo, footprint: &dyn Footprint) -> Result<SeqNo, Met> {
        let clean = match &*self.marks.load() {
            Some(marks) => marks.unchanged(after.0, footprint),
            None => Some(after.0),
        };
        if let Some(up_to) = clean {
            return Ok(SeqNo(up_to));
        }
        let state = self.state();
        let up_to = SeqNo(state.last.max(after.0));
        if after.0 < state.complete_above {
            return Err(Met::Forgotten(SeqNo(state.complete_above)));
        }
        let from = state
            .closed
            .partition_point(|chunk| chunk.last() <= after.0);
        if from == state.closed.len() {
            return state
                .open
                .first_met(after.0, footprint)
                .map_or(Ok(up_to), Err);
        }
        let closed: Vec<_> = state.closed.iter().skip(from).cloned().collect();
        // Long, and not under the lock. What is closed meanwhile is looked at with the rest.
        drop(state);
        let seen = closed.last().map_or(after.0, |chunk| chunk.last());
        match closed
            .iter()
            .find_map(|chunk| chunk.first_met(after.0, footprint))
        {
            Some(met) => Err(met),
            None => self.check(SeqNo(seen.max(after.0)), footprint),
        }
    }

    /// Drops what nobody needs. Returns whether changes are noted any longer.
    fn trim(&self, state: &mut State, visible: u64) -> bool {
        if state.has_chunk_below(visible) && (state.grown || self.watchers.may_have_moved()) {
            state.grown = false;
            let floor = self.watchers.first(visible).min(visible);
            while state.has_chunk_below(floor) {
                state.drop_oldest();
            }
        }
        if state.idle > IDLE_CHANGES {
            state.idle = 0;
            let stopped = self.watchers.stop_if_idle(|| self.marks.store(None));
            if stopped {
                *state = State::default();
            }
        }
        state.marks.is_some()
    }

    /// Bytes of noted changes.
    pub fn bytes(&self) -> usize {
        let state = self.state();
        state.closed_bytes + state.open.size()
    }
}

impl State {
    fn push(&mut self, change: &Changed<'_>) {
        let Some(marks) = &self.marks else {
            return;
        };
        self.open.push(change);
        self.last = change.seqno.0;
        self.idle += 1;
        marks.note(change);
        if self.open.size() >= CHUNK_BYTES {
            let full = std::mem::take(&mut self.open);
            self.closed_bytes += full.size();
            self.closed.push_back(Arc::new(full));
            self.grown = true;
        }
        while self.closed_bytes > LOG_BYTES_MAX {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(chunk) = self.closed.pop_front() {
            self.closed_bytes -= chunk.size();
            self.complete_above = self.complete_above.max(chunk.last());
        }
    }

    /// Whether the oldest chunk has nothing above `floor`.
    fn has_chunk_below(&self, floor: u64) -> bool {
        self.closed.front().is_some_and(|c| c.last() <= floor)
    }
}

#[cfg(test)]
mod tests;
