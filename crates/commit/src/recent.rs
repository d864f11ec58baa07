//! What was written lately: the changes against which transactions are checked.
//!
//! While somebody *watches*, whoever is granted seqnos notes the keys of his changes here, under the writer's lock that
//! he holds anyway. So a transaction that asks under that lock learns of every change that comes before it in the one
//! order of all writes, visible or not, and of none that comes behind. While nobody watches, nothing is noted.
//!
//! # What is here
//! Every change above a bound ([`Recent::record`] drops only what no watcher needs, or what has no room). Changes lie in
//! the order of their seqnos, in chunks: a chunk that is full is never changed again, and is read without a lock. A
//! table of a fixed size has, for each of its slots, the last seqno of a key whose hash leads there: a key whose slot is
//! not above a moment has not changed since. Most questions end there.
//!
//! # Invariants
//! 1. A watcher's moment is not below `State::complete_above` when it begins to watch. When noting begins nothing is
//!    in flight, so all that is not noted is visible, and the moment sees it.
//! 2. Changes are noted in the order of grants: both happen under the writer's lock.
//! 3. What is dropped for lack of room raises `complete_above`. Who watches from before is told so
//!    ([`Met::Forgotten`]) and never that nothing has changed.
//!
//! # Memory
//! [`LOG_BYTES_MAX`] and the table's `SLOTS` words while somebody watches, nothing `IDLE_CHANGES` changes after the
//! last one ended.

use std::collections::{BTreeMap, VecDeque};

use thermocline_base::checksum::hash64_seeded;
use thermocline_base::{BatchEntry, CfId, Kind, SeqNo};

use crate::sync::{Arc, Mutex, MutexGuard, lock};

/// Bytes of noted changes, at most: some 300,000 changes of short keys.
pub const LOG_BYTES_MAX: usize = 16 << 20;

/// Bytes of a chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// Slots of the table of last changes.
const SLOTS: usize = 1 << 15;

/// So many changes after the last watcher ended noting stops: transactions that follow each other find it going.
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

    /// The hashes of all its keys, if it has keys only and no ranges.
    fn hashes(&self) -> Option<Box<dyn Iterator<Item = u64> + '_>>;
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

#[derive(Debug, Default)]
struct State {
    /// Whether changes are noted.
    on: bool,
    /// All changes above this seqno are here.
    complete_above: u64,
    closed: VecDeque<Arc<Chunk>>,
    closed_bytes: usize,
    open: Chunk,
    /// The last seqno that was noted.
    last: u64,
    /// The moments of those who watch, and how many watch from each.
    floors: BTreeMap<u64, usize>,
    /// Changes since the last watcher ended.
    idle: u64,
    /// By hash, the last change.
    slots: Vec<u64>,
    /// The last change of a range.
    last_range: u64,
}

/// What was written lately. See the [module](self).
#[derive(Debug, Default)]
pub struct Recent {
    state: Mutex<State>,
}

impl Recent {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Begins to watch at what is visible, if changes are noted. Returns that moment.
    pub fn watch(&self, visible: impl FnOnce() -> u64) -> Option<SeqNo> {
        let mut state = self.state();
        if !state.on {
            return None;
        }
        let floor = visible();
        *state.floors.entry(floor).or_default() += 1;
        state.idle = 0;
        Some(SeqNo(floor))
    }

    /// Changes are noted from now on. The caller holds the writer's lock, and nothing is in flight: all up to `visible`
    /// is visible, and nothing behind it was granted.
    pub fn begin(&self, visible: u64) {
        let mut state = self.state();
        if !state.on {
            *state = State {
                on: true,
                complete_above: visible,
                last: visible,
                slots: vec![0; SLOTS],
                floors: std::mem::take(&mut state.floors),
                ..State::default()
            };
        }
    }

    /// Watches from `floor` no longer.
    pub fn leave(&self, floor: SeqNo) {
        let mut state = self.state();
        if let Some(count) = state.floors.get_mut(&floor.0) {
            *count -= 1;
            if *count == 0 {
                state.floors.remove(&floor.0);
            }
        }
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
        state.trim(visible)
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
        state.trim(visible)
    }

    /// Whether a footprint has met no change above `after`. Returns up to where that holds. Under the writer's lock that
    /// is all that was granted.
    ///
    /// # Errors
    /// The first change that it met, if that is known.
    pub fn check(&self, after: SeqNo, footprint: &dyn Footprint) -> Result<SeqNo, Met> {
        let state = self.state();
        let up_to = SeqNo(state.last.max(after.0));
        if state.is_clean(after.0, footprint) {
            return Ok(up_to);
        }
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

    /// Bytes of noted changes.
    pub fn bytes(&self) -> usize {
        let state = self.state();
        state.closed_bytes + state.open.size()
    }
}

impl State {
    fn slot(hash: u64) -> usize {
        // The high bits.
        usize::try_from(hash >> (u64::BITS - SLOTS.trailing_zeros())).unwrap_or(0)
    }

    fn push(&mut self, change: &Changed<'_>) {
        let seqno = change.seqno.0;
        self.last = seqno;
        self.idle += 1;
        match change.range {
            Some(_) => self.last_range = seqno,
            None => self.slots[State::slot(change.hash)] = seqno,
        }
        self.open.push(change);
        if self.open.size() >= CHUNK_BYTES {
            let full = std::mem::take(&mut self.open);
            self.closed_bytes += full.size();
            self.closed.push_back(Arc::new(full));
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

    /// Drops what nobody needs. Returns whether changes are noted any longer.
    fn trim(&mut self, visible: u64) -> bool {
        let floor = self.floors.keys().next().map_or(visible, |&floor| floor);
        while self.closed.front().is_some_and(|c| c.last() <= floor) {
            self.drop_oldest();
        }
        if self.floors.is_empty() && self.idle > IDLE_CHANGES {
            *self = State::default();
        }
        self.on
    }

    /// Whether the table alone says that nothing has changed above `after`.
    fn is_clean(&self, after: u64, footprint: &dyn Footprint) -> bool {
        if self.last <= after {
            return true;
        }
        let hashes = (self.last_range <= after)
            .then(|| footprint.hashes())
            .flatten();
        hashes.is_some_and(|mut hashes| hashes.all(|hash| self.slots[State::slot(hash)] <= after))
    }
}

#[cfg(test)]
mod tests;
