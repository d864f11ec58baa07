//! Who is registered, and what is lent to whom.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Weak;
use std::time::Duration;

use thermocline_base::counter::thread_number;
use thermocline_base::size::format_size;
use thermocline_base::{Line, SeqNo};
use thermocline_catalog::View;
use thermocline_env::Clock;
use thermocline_policy::tuning::HOLDS_KEPT;

use crate::report::{ReaderKind, ReaderState};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, RwLock, lock, read, write};

pub(super) const SHARDS: usize = 16;

/// So many readers are told of, those that have been there longest.
pub(super) const TOLD_MAX: usize = 64;

/// And so many by an error.
pub(super) const NAMED_MAX: usize = 3;

/// Who may hold a view between two calls.
pub(crate) trait Guest: Debug + Send + Sync {
    /// If it is not inside a call, and `is_past` of the view that it has, takes that, with its place there.
    fn leave(&self, is_past: &dyn Fn(&View) -> bool) -> Option<Left>;

    /// The view that it has.
    fn lent(&self) -> Lent;
}

/// What was in a seat.
pub(crate) type Left = Box<dyn Any + Send>;

/// Whether a reader has a view.
#[derive(Debug)]
pub(crate) enum Lent {
    No,
    Yes(Arc<View>),
    /// It is inside a call.
    InUse,
}

/// A hold.
#[derive(Debug)]
pub(crate) struct Hold {
    pub kind: ReaderKind,
    pub seqno: SeqNo,
    /// By the store's clock, its last tick.
    pub since_ns: u64,
    /// How many families had been dropped.
    pub drops: u64,
    /// Whether the engine has it for itself, for the length of a call. Users are not told of it.
    pub of_engine: bool,
    pub guest: Option<Arc<dyn Guest>>,
}

/// Where a hold is entered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldId {
    pub(super) shard: usize,
    pub(super) at: usize,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) entries: Vec<Option<Hold>>,
    pub(super) free: Vec<usize>,
}

/// Who is registered with a store, and what is lent to whom (`holds`).
#[derive(Debug)]
pub(crate) struct Holds {
    pub(super) shards: Box<[Line<Mutex<Shard>>]>,
    /// How often readers were asked to leave. Relaxed: who misses it is asked again.
    pub(super) asked: AtomicU64,
    pub(super) clock: Arc<dyn Clock>,
    /// Those of earlier openings.
    pub(super) elders: RwLock<Vec<Weak<Holds>>>,
}

impl Holds {
    /// None so far; `clock` is the store's.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Holds> {
        Arc::new(Holds {
            shards: (0..SHARDS).map(|_| Line::default()).collect(),
            asked: AtomicU64::new(0),
            clock,
            elders: RwLock::default(),
        })
    }

    /// These, of earlier openings, count here from now on.
    pub fn follow(&self, elders: Vec<Weak<Holds>>) {
        *write(&self.elders) = elders;
    }

    pub(super) fn elders(&self) -> Vec<Arc<Holds>> {
        let elders = read(&self.elders);
        elders.iter().filter_map(Weak::upgrade).collect()
    }

    /// Enters a hold.
    pub fn enter(&self, hold: Hold) -> HoldId {
        let shard = thread_number() % SHARDS;
        let mut own = lock(&self.shards[shard]);
        let at = own.free.pop().unwrap_or(own.entries.len());
        match own.entries.get_mut(at) {
            Some(free) => *free = Some(hold),
            None => own.entries.push(Some(hold)),
        }
        HoldId { shard, at }
    }

    /// Forgets one.
    pub fn remove(&self, id: HoldId) {
        let mut shard = lock(&self.shards[id.shard]);
        let gone = shard.entries[id.at].take();
        shard.free.push(id.at);
        if shard.free.len() == shard.entries.len() {
            // Whoever asks readers to leave goes through all places, perhaps under the writer's lock: those of many who were
            // there once are not kept.
            shard.entries.clear();
            shard.free.clear();
            shard.entries.shrink_to(HOLDS_KEPT);
            shard.free.shrink_to(HOLDS_KEPT);
        }
        drop(shard);
        drop(gone);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let elders = self.elders();
        self.count_own() + elders.iter().map(|elder| elder.count_own()).sum::<usize>()
    }

    /// As [`Holds::count`], without those of the engine itself.
    pub fn users(&self) -> usize {
        let mut users = 0;
        let elders = self.elders();
        for holds in elders.iter().map(|elder| &**elder).chain([self]) {
            holds.for_each(|hold| users += usize::from(!hold.of_engine));
        }
        users
    }

    pub(super) fn count_own(&self) -> usize {
        let len = |shard: &Line<Mutex<Shard>>| {
            let shard = lock(shard);
            shard.entries.len() - shard.free.len()
        };
        self.shards.iter().map(len).sum()
    }

    /// Calls `each` with every hold of this opening, under a lock behind which nothing is taken.
    pub(super) fn for_each(&self, mut each: impl FnMut(&Hold)) {
        for shard in &self.shards {
            lock(shard).entries.iter().flatten().for_each(&mut each);
        }
    }

    /// How many families had been dropped when the first of those began who are there.
    pub fn first_drops(&self) -> u64 {
        if self.elders().iter().any(|elder| elder.count_own() > 0) {
            return 0;
        }
        let mut first = u64::MAX;
        self.for_each(|hold| first = first.min(hold.drops));
        first
    }

    /// Asks all readers to look for a newer view when they move, and those to leave theirs who stand still in one
    /// that `is_past`.
    pub(super) fn ask_to_leave(&self, is_past: &dyn Fn(&View) -> bool) {
        let mut left = Vec::new();
        let elders = self.elders();
        for holds in elders.iter().map(|elder| &**elder).chain([self]) {
            holds.asked.fetch_add(1, Ordering::Relaxed);
            holds.for_each(|hold| {
                left.extend(hold.guest.as_ref().and_then(|guest| guest.leave(is_past)));
            });
        }
        // Behind the locks (3).
        drop(left);
    }

    /// Those of this opening, who have been there longest first, where `visible` is what is visible now.
    pub(super) fn told(&self, visible: u64) -> Vec<ReaderState> {
        let now = self.clock.now_ns();
        let mut all = Vec::new();
        let mut lent = Vec::new();
        self.for_each(|hold| {
            if hold.of_engine {
                return;
            }
            let own = hold.guest.as_ref().map_or(Lent::No, |guest| guest.lent());
            let held = now.saturating_sub(hold.since_ns);
            all.push(ReaderState {
                kind: hold.kind,
                seqno: hold.seqno.0,
                held: Duration::from_nanos(held),
                behind: visible.saturating_sub(hold.seqno.0),
                in_call: matches!(own, Lent::InUse),
                retired_bytes: 0,
            });
            lent.push(own);
        });
        for (state, lent) in all.iter_mut().zip(&lent) {
            if let Lent::Yes(view) = lent {
                let retired = view.memtables.iter().filter(|m| m.is_retired());
                state.retired_bytes = retired.map(|m| m.bytes()).sum();
            }
        }
        sort(&mut all);
        all
    }

    /// As [`Holds::told`], of those of earlier openings.
    pub(super) fn told_of_elders(&self, visible: u64) -> Vec<ReaderState> {
        let elders = self.elders();
        let mut all = elders
            .iter()
            .flat_map(|elder| elder.told(visible))
            .collect();
        sort(&mut all);
        all
    }

    /// What a reader compares with what it was when it took its view.
    #[inline]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// Some of these readers, and how many bytes of values in place there are.
pub(super) fn named(readers: impl Iterator<Item = ReaderState>, in_place: u64) -> Vec<String> {
    let readers = readers.take(NAMED_MAX).map(|reader| reader.to_string());
    let in_place = (in_place > 0).then(|| format!("{} of values in place", format_size(in_place)));
    readers.chain(in_place).collect()
}

/// Those first who have been there longest, and not too many.
pub(super) fn sort(all: &mut Vec<ReaderState>) {
    all.sort_by_key(|state| (std::cmp::Reverse(state.held), state.seqno));
    all.truncate(TOLD_MAX);
}

#[cfg(test)]
mod tests {
    use thermocline_env::real::RealClock;

    use super::*;

    #[test]
    fn the_places_of_many_who_have_gone_are_not_kept() {
        let holds = Holds::new(Arc::new(RealClock::new()));
        let enter = |seqno| {
            holds.enter(Hold {
                kind: ReaderKind::Snapshot,
                seqno: SeqNo(seqno),
                since_ns: 0,
                drops: 0,
                of_engine: false,
                guest: None,
            })
        };
        let many: Vec<HoldId> = (0..1000).map(enter).collect();
        assert_eq!(holds.count(), 1000);
        many.into_iter().for_each(|id| holds.remove(id));
        let places = |shard: &Line<Mutex<Shard>>| {
            let shard = lock(shard);
            (shard.entries.len(), shard.entries.capacity())
        };
        for (len, capacity) in holds.shards.iter().map(places) {
            assert!(len == 0 && capacity <= HOLDS_KEPT, "{len} {capacity}");
        }
        let (one, two) = (enter(1), enter(2));
        holds.remove(one);
        assert_eq!((holds.count(), holds.told(2)[0].seqno), (1, 2));
        holds.remove(two);
    }
}
