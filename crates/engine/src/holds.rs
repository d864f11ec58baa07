//! Who holds a moment of the store: snapshots, cursors and iterators, copies that are being made. For whom they
//! hold it up: metrics, and the error that says that there is no room, name them.
//!
//! A *hold* is an entry here beside the registration of its seqno (`readers`), on which alone
//! depends what is kept. Holds lie in shards, each with a lock of its own; a thread mostly uses its
//! own shard.
//!
//! # Views are lent
//! No reader keeps a view while it is not inside a call. A view has memtables, tables and files;
//! who held one could keep all of it for as long as he stands still. What a reader needs is kept by
//! its seqno, wherever it is moved, and the newest view shows the same at that seqno as the one
//! before.
//!
//! A cursor would have to seek anew for each step. So it leaves its view, and its place in it, in
//! its *seat* between two calls ([`Guest`]), behind a lock that it holds while it moves and that
//! nobody else waits for. Whoever wants something gone that views hold calls
//! [`Inner::ask_readers_to_leave`]. That *asks*: it raises a number that cursors compare when they
//! move, so that those who are inside a call look for a newer view at the next; and it empties the
//! seats of all others whose views are past. An emptied cursor keeps its key, and seeks that in the
//! newest view when it moves again.
//!
//! 1. A seat is emptied only under its lock, which a cursor holds from the beginning of a call to its end. So
//!    none loses its view while it moves.
//! 2. A seat whose lock is taken is passed over: so nobody waits here for a cursor, nor it for itself.
//! 3. What was taken out of seats is dropped when no lock of this module is held.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use thermocline_base::counter::thread_number;
use thermocline_base::size::format_size;
use thermocline_base::{Line, SeqNo};

use crate::store::Inner;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};
use crate::view::View;

const SHARDS: usize = 16;

/// So many readers are told of, those that have been there longest.
const TOLD_MAX: usize = 64;

/// And so many by an error.
const NAMED_MAX: usize = 3;

/// What holds a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReaderKind {
    /// A snapshot.
    Snapshot,
    /// A cursor, or one end of an iterator.
    Cursor,
    /// A checkpoint or backup that is being made.
    Copy,
}

impl ReaderKind {
    /// Its name, as `stat` spells it.
    pub fn name(self) -> &'static str {
        match self {
            ReaderKind::Snapshot => "snapshot",
            ReaderKind::Cursor => "cursor",
            ReaderKind::Copy => "copy",
        }
    }
}

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
    /// By the store's clock.
    pub since_ns: u64,
    /// How many families had been dropped.
    pub drops: u64,
    pub guest: Option<Arc<dyn Guest>>,
}

/// Where a hold is entered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldId {
    shard: usize,
    at: usize,
}

#[derive(Debug, Default)]
struct Shard {
    entries: Vec<Option<Hold>>,
    free: Vec<usize>,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Holds {
    shards: Box<[Line<Mutex<Shard>>]>,
    /// How often readers were asked to leave. Relaxed: who misses it is asked again.
    asked: AtomicU64,
}

impl Default for Holds {
    fn default() -> Holds {
        Holds {
            shards: (0..SHARDS).map(|_| Line::default()).collect(),
            asked: AtomicU64::new(0),
        }
    }
}

impl Holds {
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
        drop(shard);
        drop(gone);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let len = |shard: &Line<Mutex<Shard>>| {
            let shard = lock(shard);
            shard.entries.len() - shard.free.len()
        };
        self.shards.iter().map(len).sum()
    }

    /// Calls `each` with every hold, under a lock behind which nothing is taken.
    pub fn for_each(&self, mut each: impl FnMut(&Hold)) {
        for shard in &self.shards {
            lock(shard).entries.iter().flatten().for_each(&mut each);
        }
    }

    /// What a reader compares with what it was when it took its view.
    #[inline]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Inner {
    /// Asks readers to let go of what is in no current view any more. May be called under the
    /// writer's lock, and those before it.
    pub fn ask_readers_to_leave(&self) {
        let current = self.view.load_full();
        self.holds.asked.fetch_add(1, Ordering::Relaxed);
        let is_past = |view: &View| view.is_past(&current);
        let mut left = Vec::new();
        self.holds.for_each(|hold| {
            left.extend(hold.guest.as_ref().and_then(|guest| guest.leave(&is_past)));
        });
        // Behind the locks (3).
        drop(left);
    }
}

/// A reader, as metrics tell of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderState {
    /// What it is.
    pub kind: ReaderKind,
    /// Of each key that was written since, the version that was newest at this seqno stays for it.
    pub seqno: u64,
    /// Since when, by the store's clock.
    pub held: Duration,
    /// Changes since that are visible: most versions that stay for it alone.
    pub behind: u64,
    /// Whether it is inside a call. Then it may keep generations and tables that have gone otherwise.
    pub in_call: bool,
    /// Persistent memory of generations that have gone otherwise, and that it has not let go of
    /// yet. It is asked to when there is need of that.
    pub retired_bytes: u64,
}

impl std::fmt::Display for ReaderState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, seqno) = (self.kind.name(), self.seqno);
        write!(f, "a {kind} at seqno {seqno} for {:.1?}", self.held)?;
        match self.in_call {
            true => write!(f, ", inside a call"),
            false => Ok(()),
        }
    }
}

impl Inner {
    /// Those who read, who have been there longest first; not all of them if they are many.
    pub fn readers_told(&self) -> Vec<ReaderState> {
        let (now, visible) = (self.now_ns(), self.commits.ring.visible());
        let mut all = Vec::new();
        let mut lent = Vec::new();
        self.holds.for_each(|hold| {
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
        all.sort_by_key(|state| (std::cmp::Reverse(state.held), state.seqno));
        all.truncate(TOLD_MAX);
        all
    }

    /// Who holds what would be free, for an error.
    pub fn who_reads(&self) -> String {
        let mut who = self.named();
        let pinned = self.pins.upgrade().map_or(0, |pins| pins.bytes());
        if pinned > 0 {
            who.push(format!("{} of values in place", format_size(pinned)));
        }
        if lock(&self.reclaim).has_elders() {
            let elders = self.elders_named();
            who.push(match elders.is_empty() {
                true => "a reader of an earlier opening, or of another process".to_string(),
                false => format!("of an earlier opening: {}", elders.join(", ")),
            });
        }
        match who.is_empty() {
            true => "a read that is about to end".to_string(),
            false => who.join("; "),
        }
    }

    /// Those that may keep more than versions.
    fn named(&self) -> Vec<String> {
        let told = self.readers_told().into_iter();
        let told = told.filter(|r| r.in_call || r.retired_bytes > 0 || r.kind == ReaderKind::Copy);
        told.take(NAMED_MAX).map(|r| r.to_string()).collect()
    }

    /// Those that are registered with a store that is closed.
    pub fn named_as_elders(&self) -> Vec<String> {
        let told = self.readers_told().into_iter();
        told.take(NAMED_MAX).map(|r| r.to_string()).collect()
    }
}
