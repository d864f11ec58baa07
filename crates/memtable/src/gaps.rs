//! Gaps: stretches of keys in which nothing is visible, because every key there is deleted. A
//! cursor that has stepped through one notes it; later ones pass it in one seek. So a queue, which
//! puts at the tail, deletes at the head and asks for the first key, does not step through all that
//! was ever deleted.
//!
//! # What a gap says
//! It is kept by the memtable that takes the writes when it is noted, for one family. Let M be
//! that memtable. *Clean as of s* means: of the keys in the gap nobody who reads at s or later
//! finds a value in M, or in anything older than M. So a reader at t ≥ s may seek M, and whatever
//! lies below M in its view, past the gap. What newer memtables have is not spoken of.
//!
//! Which layers the deleted values, or the deletes, lie in does not matter, nor what becomes of
//! those layers: a flush or compaction moves what is below M, and changes nothing of what is
//! visible. Tables that are ingested enter when M has been flushed and has left the view
//! (`engine::ingest`). Where an evacuation has come to, readers look for no keys before its front
//! in M (`engine::view`), and ask M for no gaps there: tables that lie there may be newer than M.
//!
//! # Why it is true
//! Three moments: a cursor at s has found nothing visible from `start` to `end`; when it notes
//! that, nothing is granted, for it holds the writer's lock, and the last seqno that was granted is
//! g; and M still takes the writes. From then on each put into M looks whether its key is in a gap
//! ([`Gaps::put`]), before its group finishes, and *cuts* it out.
//! 1. A group that is granted later sees the gap: the writer's lock lies between. So it cuts before
//!    it is visible, and whoever reads at a moment at which it is visible, and loads the gaps after
//!    that, finds them cut. Hence of whatever is granted later no put is in a gap that such a
//!    reader finds.
//! 2. If s ≥ g, then all that was granted before is at or below s: the cursor has seen it. Any
//!    reader at t ≥ s sees of a key what the cursor saw, or something that was granted later, which
//!    by 1 is no put. The gap is *clean* as of s.
//! 3. If s < g, a group may be under way that did not see the gap and that the cursor did not see.
//!    The gap is only a *candidate* since g. When another cursor, at s' ≥ g, has found nothing
//!    visible in it, or in a part of it, that part is clean as of s': what was granted up to g the
//!    cursor has seen, and of what was granted later no put is in it, by 1.
//!
//! A reader at t knows t before it loads the gaps, so 1 holds for it; and what is cut later is
//! newer than t. Deletes and range tombstones cut nothing. Whoever reads at t < s makes no use of a
//! gap that is clean as of s.
//!
//! Two clean gaps that touch become one, as of the later moment. One that is cut becomes two.
//!
//! # What it costs
//! A put into a family that never had a gap in this memtable: a branch. Into one that has: a load
//! and a bisection among few gaps. A get: nothing. DRAM: [`GAPS_CHARGE`] bytes for a family and
//! memtable that has gaps, charged to the store's account with the first; where there are none
//! there are no gaps. A put needs no more: where a cut would leave too many gaps ([`GAPS_BYTES_MAX`]),
//! the whole gap is given up. Nothing of this is persistent. A memtable's gaps go with it, or when
//! writes need their DRAM ([`Evict`]); the next cursor that steps through what is left notes it anew.
//!
//! # Rejected
//! - *A range tombstone as of s*, which is never written: what it hides in older layers is passed
//!   in one seek, but in its own layer, where a queue has all its deletes, a newer put may follow
//!   each of them, so that cursors would step through them all the same.
//! - *Taking deleted keys out of the index*: a flush would not write the delete, and what is older
//!   would return.

use std::sync::Arc;

use arc_swap::ArcSwap;
use thermocline_base::SeqNo;
use thermocline_base::budget::{Account, Charge, Evict};
use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{Mutex, lock};
use thermocline_policy::tuning::{GAP_BYTES_PARTS, GAPS_BYTES_MAX, GAPS_CHARGE};

use crate::scan::Direction;

#[cfg(test)]
mod tests;

/// What is known of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is visible in it for whoever reads then or later.
    Clean(SeqNo),
    /// A candidate: no put was granted behind this.
    Since(SeqNo),
}

impl State {
    /// What is known of two gaps that touch, if that can be said in one.
    fn with(self, other: State) -> Option<State> {
        match (self, other) {
            (State::Clean(a), State::Clean(b)) => Some(State::Clean(a.max(b))),
            _ => (self == other).then_some(self),
        }
    }
}

/// The keys from `start` on that lie before `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    start: Arc<[u8]>,
    end: Arc<[u8]>,
    state: State,
}

impl Gap {
    /// Its DRAM, with two allocations.
    fn bytes(&self) -> usize {
        size_of::<Gap>() + 2 * 32 + self.start.len() + self.end.len()
    }

    /// Whether a reader at `seqno` may pass it.
    fn is_for(&self, seqno: SeqNo) -> bool {
        matches!(self.state, State::Clean(from) if from <= seqno)
    }

    /// A cursor at `seen` has found nothing in it.
    fn seen_empty(self, seen: SeqNo) -> Gap {
        match self.state {
            State::Since(since) if since <= seen => Gap {
                state: State::Clean(seen),
                ..self
            },
            _ => self,
        }
    }

    /// What of it lies in `start..end`.
    fn within(&self, start: &Arc<[u8]>, end: &Arc<[u8]>) -> Option<Gap> {
        let gap = Gap {
            start: self.start.clone().max(start.clone()),
            end: self.end.clone().min(end.clone()),
            state: self.state,
        };
        (gap.start < gap.end).then_some(gap)
    }
}

/// The gaps of a family in a memtable, at one moment: ascending, and apart.
#[derive(Debug, Default)]
pub struct GapList(Vec<Gap>);

impl GapList {
    fn find(&self, key: &[u8]) -> Option<usize> {
        let i = self.0.partition_point(|gap| *gap.start <= *key);
        let i = i.checked_sub(1)?;
        (*key < *self.0[i].end).then_some(i)
    }

    /// The first key of the gap that `key` lies in, and the first behind it, if a reader at `seqno`
    /// may pass it.
    pub fn over(&self, key: &[u8], seqno: SeqNo) -> Option<(&[u8], &[u8])> {
        let gap = &self.0[self.find(key)?];
        gap.is_for(seqno).then_some((&gap.start, &gap.end))
    }

    /// The least moment at which a reader may pass the gap that `key` lies in.
    pub fn passed_from(&self, key: &[u8]) -> Option<SeqNo> {
        match self.0[self.find(key)?].state {
            State::Clean(from) => Some(from),
            State::Since(_) => None,
        }
    }

    /// Where the next gap begins that a reader at `seqno` may pass, on his way from `key`, which is
    /// in none: forwards its first key, backwards the first behind it.
    pub fn next(&self, key: &[u8], direction: Direction, seqno: SeqNo) -> Option<&[u8]> {
        let behind = self.0.partition_point(|gap| *gap.start <= *key);
        let (before, behind) = self.0.split_at(behind);
        match direction {
            Direction::Forward => behind
                .iter()
                .find(|gap| gap.is_for(seqno))
                .map(|gap| &*gap.start),
            Direction::Reverse => before
                .iter()
                .rfind(|gap| gap.is_for(seqno))
                .map(|gap| &*gap.end),
        }
    }

    fn is_small(&self) -> bool {
        self.0.iter().map(Gap::bytes).sum::<usize>() <= GAPS_BYTES_MAX
    }

    /// Without `key`, which is in the gap `i`.
    fn cut(&self, i: usize, key: &[u8]) -> GapList {
        let gap = &self.0[i];
        let left = gap.within(&gap.start, &key.into());
        let right = gap.within(&behind(key), &gap.end);
        let mut all = self.0[..i].to_vec();
        all.extend(left.into_iter().chain(right));
        all.extend_from_slice(&self.0[i + 1..]);
        let cut = GapList(all);
        if cut.is_small() {
            return cut;
        }
        let mut all = self.0.clone();
        all.remove(i);
        GapList(all)
    }

    /// With what a cursor at `seen` has found empty, when `granted` was the last seqno of all.
    fn with(&self, range: (&[u8], &[u8]), seen: SeqNo, granted: SeqNo) -> GapList {
        let (start, end): (Arc<[u8]>, Arc<[u8]>) = (range.0.into(), range.1.into());
        let sees_all = seen >= granted || active(Bug::GapBesideWriters);
        let unknown = match sees_all {
            true => State::Clean(seen),
            false => State::Since(granted),
        };
        let before = self.0.iter().filter_map(|g| g.within(&g.start, &start));
        let after = self.0.iter().filter_map(|g| g.within(&end, &g.end));
        let mut inside = Vec::new();
        let mut at = start.clone();
        for gap in self.0.iter().filter_map(|g| g.within(&start, &end)) {
            inside.extend(between(&at, &gap.start, unknown));
            at = gap.end.clone();
            inside.push(gap.seen_empty(seen));
        }
        inside.extend(between(&at, &end, unknown));
        let all = GapList::joined(before.chain(inside).chain(after));
        match all.is_small() {
            true => all,
            // It begins anew.
            false => GapList(between(&start, &end, unknown).into_iter().collect()),
        }
    }

    /// Gaps in their order, of which those become one that touch and say the same.
    fn joined(gaps: impl Iterator<Item = Gap>) -> GapList {
        let mut all: Vec<Gap> = Vec::new();
        for gap in gaps {
            if let Some(last) = all.last_mut()
                && last.end == gap.start
                && let Some(state) = last.state.with(gap.state)
            {
                (last.end, last.state) = (gap.end, state);
            } else {
                all.push(gap);
            }
        }
        GapList(all)
    }
}

/// The first key behind `key`.
fn behind(key: &[u8]) -> Arc<[u8]> {
    key.iter().copied().chain([0]).collect()
}

fn between(start: &Arc<[u8]>, end: &Arc<[u8]>, state: State) -> Option<Gap> {
    (start < end).then(|| Gap {
        start: start.clone(),
        end: end.clone(),
        state,
    })
}

/// The gaps of a family in a memtable. See the [module](self).
#[derive(Debug)]
pub(crate) struct Gaps {
    list: ArcSwap<GapList>,
    /// Held by whoever changes the list.
    writing: Mutex<Dram>,
}

/// The DRAM of a list.
#[derive(Debug)]
struct Dram {
    /// Whose it is; none of a memtable that is no store's.
    account: Option<Arc<Account>>,
    /// Without it a store's list is empty.
    charge: Option<Charge>,
}

impl Dram {
    /// Whether there is some for gaps.
    fn take(&mut self) -> bool {
        let Some(account) = &self.account else {
            return true;
        };
        if self.charge.is_none() {
            self.charge = account.charge(GAPS_CHARGE);
        }
        self.charge.is_some()
    }
}

impl Gaps {
    /// None yet.
    pub fn new(account: Option<&Arc<Account>>) -> Arc<Gaps> {
        let gaps = Arc::new(Gaps {
            list: ArcSwap::default(),
            writing: Mutex::new(Dram {
                account: account.cloned(),
                charge: None,
            }),
        });
        if let Some(account) = account {
            let weak = Arc::downgrade(&gaps);
            account.add_evicting(weak.clone());
            account.budget().add_evicting(weak);
        }
        gaps
    }

    /// A put of `key` is in the index, and its group has not finished.
    #[inline]
    pub fn put(&self, key: &[u8]) {
        if self.list.load().find(key).is_some() && !active(Bug::GapForgetsPut) {
            self.cut(key);
        }
    }

    #[cold]
    fn cut(&self, key: &[u8]) {
        let _turn = lock(&self.writing);
        let old = self.list.load_full();
        if let Some(i) = old.find(key) {
            self.list.store(Arc::new(old.cut(i, key)));
        }
    }

    /// What there is now; `None` if there is nothing.
    pub fn list(&self) -> Option<Arc<GapList>> {
        let list = self.list.load_full();
        (!list.0.is_empty()).then_some(list)
    }

    /// Whether a gap from and up to these keys is one that is kept.
    pub fn takes((start, end): (&[u8], &[u8])) -> bool {
        start < end && start.len() + end.len() <= GAPS_BYTES_MAX / GAP_BYTES_PARTS
    }

    /// A cursor at `seen` has found nothing visible in `range`, when `granted` was the last seqno of all.
    /// Nothing is noted where there is no DRAM for it.
    pub fn note(&self, range: (&[u8], &[u8]), seen: SeqNo, granted: SeqNo) {
        let mut dram = lock(&self.writing);
        if dram.take() {
            let list = self.list.load().with(range, seen, granted);
            self.list.store(Arc::new(list));
        }
    }
}

impl Evict for Gaps {
    fn evict(&self, _bytes: u64) {
        let mut dram = lock(&self.writing);
        if dram.charge.is_some() {
            self.list.store(Arc::default());
            dram.charge = None;
        }
    }
}
