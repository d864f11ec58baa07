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
//!
//! # Readers of earlier openings
//! They read in the newest opening (`close`), whose holds know of theirs, and count, tell of and ask
//! them like its own. To the newest opening all of them had begun before any family was dropped.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Weak;
use std::time::Duration;

use arc_swap::Guard;
use thermocline_base::counter::thread_number;
use thermocline_base::size::format_size;
use thermocline_base::{CfId, Error, Line, Result, SeqNo};
use thermocline_catalog::View;
use thermocline_commit::readers::Registration;
use thermocline_env::Clock;

use crate::close::After;
use crate::store::Inner;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, RwLock, lock, read, write};

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
    clock: Arc<dyn Clock>,
    /// Those of earlier openings.
    elders: RwLock<Vec<Weak<Holds>>>,
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

    fn elders(&self) -> Vec<Arc<Holds>> {
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
        drop(shard);
        drop(gone);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        let elders = self.elders();
        self.count_own() + elders.iter().map(|elder| elder.count_own()).sum::<usize>()
    }

    fn count_own(&self) -> usize {
        let len = |shard: &Line<Mutex<Shard>>| {
            let shard = lock(shard);
            shard.entries.len() - shard.free.len()
        };
        self.shards.iter().map(len).sum()
    }

    /// Calls `each` with every hold of this opening, under a lock behind which nothing is taken.
    fn for_each(&self, mut each: impl FnMut(&Hold)) {
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
    fn ask_to_leave(&self, is_past: &dyn Fn(&View) -> bool) {
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
    fn told(&self, visible: u64) -> Vec<ReaderState> {
        let now = self.clock.now_ns();
        let mut all = Vec::new();
        let mut lent = Vec::new();
        self.for_each(|hold| {
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
    fn told_of_elders(&self, visible: u64) -> Vec<ReaderState> {
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

/// A seqno that is registered for as long as there is a clone.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    held: Arc<Registered>,
    /// How many families had been dropped (`families`, invariant 4).
    drops: u64,
}

/// A view, for the length of a call.
#[derive(Debug)]
pub(crate) struct Reading {
    pub view: Guard<Arc<View>>,
    /// Who has it, if that is a later opening than the reader's: registered there at the same moment.
    pub by: Option<Moment>,
}

impl Deref for Reading {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

/// The registration that all clones of a moment share. Registering once more at a moment that is past
/// could not be made safe: a writer that looks for readers might find the new slot still free, and the
/// old one free already.
#[derive(Debug)]
struct Registered {
    inner: Arc<Inner>,
    registration: Registration,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.inner.commits.readers.leave(&self.registration);
        // SeqCst, as what `leave` counts: see `close`.
        if self.inner.closed.load(Ordering::SeqCst) {
            self.inner.let_left_go();
        }
    }
}

impl Moment {
    pub fn now(inner: &Arc<Inner>) -> Moment {
        let mark = inner.commits.ring.visible_mark();
        let registration = inner.commits.readers.register(mark, thread_number());
        Moment::of(inner, registration, inner.families.moment())
    }

    /// A moment of an earlier opening, which was registered with `inner` before that could do anything.
    pub fn past(inner: &Arc<Inner>, registration: Registration) -> Moment {
        Moment::of(inner, registration, 0)
    }

    fn of(inner: &Arc<Inner>, registration: Registration, drops: u64) -> Moment {
        let inner = inner.clone();
        let held = Arc::new(Registered {
            inner,
            registration,
        });
        Moment { held, drops }
    }

    #[inline]
    pub fn inner(&self) -> &Arc<Inner> {
        &self.held.inner
    }

    /// The last seqno that it sees.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        self.held.registration.seqno
    }

    /// The view in which it reads family `cf` now, for the length of a call.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a family that was dropped while the moment was being registered;
    /// [`Error::Closed`] for a store that was closed before.
    pub fn view(&self, cf: CfId) -> Result<Reading> {
        let inner = self.inner();
        let view = inner.catalog.view();
        let mut reading = match view.pins() {
            Ok(_) => Reading { view, by: None },
            Err(_) => self.view_after_close(cf)?,
        };
        // Behind the view (`snapshot`, 4).
        if inner.families.moment() != self.drops
            && let Some(relic) = inner.relic_of(cf)?
        {
            let view = Guard::from_inner(relic);
            reading = Reading { view, by: None };
        }
        Ok(reading)
    }

    #[cold]
    fn view_after_close(&self, cf: CfId) -> Result<Reading> {
        let by = match &*lock(&self.inner().left) {
            After::Nothing => return Err(Error::Closed),
            After::View(view) => {
                let view = Guard::from_inner(view.clone());
                return Ok(Reading { view, by: None });
            }
            // Whoever registered after that reads nothing: there may be no version for him.
            After::Opened(moments) => {
                let own = moments.iter().find(|by| by.seqno() == self.seqno());
                own.cloned().ok_or(Error::Closed)?
            }
        };
        let reading = by.view(cf)?;
        let by = reading.by.or(Some(by));
        Ok(Reading { by, ..reading })
    }

    /// Whether `cf` had not been dropped.
    pub fn check(&self, cf: CfId) -> Result<()> {
        self.inner().families.check(cf, self.drops)
    }

    /// What it is to be entered as.
    pub fn hold(&self, kind: ReaderKind) -> Hold {
        Hold {
            kind,
            seqno: self.seqno(),
            since_ns: self.inner().now_ns(),
            drops: self.drops,
            guest: None,
        }
    }
}

/// Some of these readers, and how many bytes of values in place there are.
fn named(readers: impl Iterator<Item = ReaderState>, in_place: u64) -> Vec<String> {
    let readers = readers.take(NAMED_MAX).map(|reader| reader.to_string());
    let in_place = (in_place > 0).then(|| format!("{} of values in place", format_size(in_place)));
    readers.chain(in_place).collect()
}

/// Those first who have been there longest, and not too many.
fn sort(all: &mut Vec<ReaderState>) {
    all.sort_by_key(|state| (std::cmp::Reverse(state.held), state.seqno));
    all.truncate(TOLD_MAX);
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
    /// Asks readers to let go of what is in no current view any more. May be called under the
    /// writer's lock, and those before it.
    pub fn ask_readers_to_leave(&self) {
        let current = self.catalog.view_to_keep();
        self.holds.ask_to_leave(&|view| view.is_past(&current));
    }

    /// Those who read, who have been there longest first; not all of them if they are many.
    pub fn readers_told(&self) -> Vec<ReaderState> {
        let visible = self.commits.ring.visible();
        let mut all = self.holds.told(visible);
        all.extend(self.holds.told_of_elders(visible));
        sort(&mut all);
        all
    }

    /// Who holds what would be free, for an error: those that may keep more than versions.
    pub fn who_reads(&self) -> String {
        let visible = self.commits.ring.visible();
        let keeps = |reader: &ReaderState| {
            reader.in_call || reader.retired_bytes > 0 || reader.kind == ReaderKind::Copy
        };
        let own = self.holds.told(visible).into_iter().filter(keeps);
        let pinned = self.pins.upgrade().map_or(0, |pins| pins.bytes());
        let mut who = named(own, pinned);
        let held = self.elders.held();
        let elders = self.holds.told_of_elders(visible).into_iter();
        let elders = elders.filter(|reader| held.everything || keeps(reader));
        let of_elders = named(elders, held.bytes);
        if !of_elders.is_empty() {
            who.push(format!("of an earlier opening: {}", of_elders.join(", ")));
        }
        if lock(&self.reclaim).has_strangers() {
            who.push("a reader of another process".to_string());
        }
        match who.is_empty() {
            true => "a read that is about to end".to_string(),
            false => who.join("; "),
        }
    }
}
