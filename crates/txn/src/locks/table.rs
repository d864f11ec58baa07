//! The locks of a store: who has which key and range, and how one waits.
//!
//! Keys are those of all families: two bytes say which. Each key lies in one *stripe*, by its hash; a stripe has a lock
//! of its own. A key has an entry while somebody holds its lock or waits for it.
//!
//! Most keys are free when they are asked for, and nobody waits when they are given back. Such a key costs twice a
//! stripe's lock, and nothing else that others have: no number, no wake-up, and no memory of its own. Since when it is held
//! is told by the clock's last tick; whoever waits looks at the clock itself.
//!
//! # No wake-up is lost
//! 1. Whatever may let a request be granted (a release, a request that is given up, a range that goes, a holder that is
//!    evicted) is followed, under the lock of the key's stripe, by [`LockTable::settle`], which grants all that can be.
//!    A request joins its queue under the same lock, and is settled at once. So none that could be granted waits when
//!    that lock is given up.
//! 2. A range is locked before the stripes are looked through for whoever has keys of it alone. A writer looks for
//!    ranges under the lock of his key's stripe. So either the writer was there first, and is found by the range, or he
//!    finds the range, whose number is lower then. A range is unlocked before the stripes are settled, in the same way.
//!    A range is counted before it looks, so the same holds of a writer who finds his key free and no range counted: he
//!    takes it and needs no number, since a holder is waited for whenever he came.
//! 3. A verdict is given once ([`Wake`]). Who gives up, for lack of time, looks at the verdict under the stripe's
//!    lock, under which alone requests are granted: it was granted by then, or never is.
//! 4. The time of a holder or of a range may be over, and nobody else wakes whom that keeps. Of each key the first who
//!    waits is told when that is, whenever it may have changed, by [`LockTable::settle`]; he settles then. Nobody
//!    behind him could be granted before. Whose time is over by then loses what others wait for, and is given none of
//!    it: so whoever is waited for still has time, and the first is told until when, or he ends by himself.
//! 5. Who is to sleep is in the graph before. So [`LockTable::close`] wakes all who sleep, and nobody sleeps behind it.
//!
//! # Fair
//! Requests for keys and ranges are numbered as they arrive. A range waits for requests that came before it, and those
//! that come after it wait for the range.

use std::ops::Range;
use std::time::Duration;

use thermocline_base::Line;
use thermocline_base::size::index;

use crate::life::{Life, TxnId};
use crate::locks::entry::{Entry, Holder, Mode, Request};
use crate::locks::graph::{Graph, InTheWay, Wait};
use crate::locks::key::LockKey;
use crate::locks::ranges::{Over, Ranges};
use crate::locks::stripe::Stripe;
use crate::locks::wake::{Verdict, Wake};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, lock};

/// Who waits until some time looks at the clock at least this often: one that is not the machine's may jump. Who waits for
/// ever, and for nobody whose time will be over, does not look at it.
const SLEEP_MAX_NS: u64 = 100_000_000;

/// How a lock was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is held from now on, unless its transaction's time is over ([`Life::check`]) and somebody wants it.
    Anew,
    /// It was held already, perhaps less strongly.
    Before,
}

/// Why a lock was not got.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It took too long. Who had the key, if it was not only somebody's range or an earlier request.
    TimedOut {
        key: LockKey,
        holders: Vec<Holder>,
        others: Vec<TxnId>,
    },
    /// This circle of transactions waited for each other, and this one is the youngest.
    Deadlock(Vec<TxnId>),
    /// The store is closed, and nobody waits any more.
    Closed,
}

/// Who is in the way of those who wait for a key; nothing where nobody waits.
fn in_the_way(entry: &Entry, over: &Over) -> Option<InTheWay> {
    entry.is_waited_for().then(|| InTheWay {
        holders: entry.holders().map(|holder| holder.who.id).collect(),
        is_alone: entry.is_held_alone(),
        ranges: over.all(),
    })
}

/// The locks of a store.
pub(crate) struct LockTable {
    stripes: Box<[Line<Mutex<Stripe>>]>,
    ranges: Ranges,
    graph: Graph,
    arrivals: AtomicU64,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl LockTable {
    /// With so many stripes, a power of two. `clock` tells nanoseconds.
    pub fn new(stripes: usize, clock: impl Fn() -> u64 + Send + Sync + 'static) -> LockTable {
        assert!(stripes.is_power_of_two(), "{stripes} stripes");
        LockTable {
            stripes: (0..stripes).map(|_| Line::default()).collect(),
            ranges: Ranges::default(),
            graph: Graph::default(),
            arrivals: AtomicU64::new(0),
            clock: Box::new(clock),
        }
    }

    fn stripe(&self, key: &LockKey) -> &Mutex<Stripe> {
        // Not the low bits, by which a stripe finds its keys.
        let at = (key.hash() >> 32) & (self.stripes.len() as u64 - 1);
        &self.stripes[index(at)]
    }

    fn arrive(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::AcqRel)
    }

    /// Grants all that can be granted of a key. Tells the graph who is in the way of those who wait on, and the first of
    /// them when the time of one of those is over.
    fn settle(&self, key: &LockKey, entry: &mut Entry, now_ns: u64) {
        let mut over = self.ranges.over(key.bytes());
        if entry.is_waited_for() {
            entry.evict(now_ns);
            over.evict(now_ns, |number, who| {
                entry.is_wanted_alone_behind(number, who)
            });
        }
        let kept = |request: &Request| {
            let wants = (request.mode, request.arrival);
            let mut keepers = over.keepers(request.who.id, wants, now_ns);
            keepers.next().is_some()
        };
        let moved = entry.grant(now_ns, kept, |who| self.graph.done(who));
        self.graph.set(key, in_the_way(entry, &over));
        self.tell_aheads(entry, moved);
        if let Some(first) = entry.first() {
            let who = first.who.id;
            let expiry = entry.first_expiry(who, now_ns);
            entry.look_at(expiry.min(over.first_expiry(who, now_ns)));
        }
    }

    /// Tells the graph of those at some places of a queue who is next ahead.
    fn tell_aheads(&self, entry: &Entry, places: Range<usize>) {
        if !places.is_empty() {
            self.graph.follow(entry.aheads(places));
        }
    }

    /// For whom a transaction waits that has a request for a key, beside those who hold it.
    fn others(&self, key: &LockKey, entry: &Entry, who: TxnId, now_ns: u64) -> Vec<TxnId> {
        let Some(request) = entry.request(who) else {
            return Vec::new();
        };
        let over = self.ranges.over(key.bytes());
        let keepers = over.keepers(who, (request.mode, request.arrival), now_ns);
        request.ahead.into_iter().chain(keepers).collect()
    }

    /// Locks a key, waiting for at most `wait_ns`. `tick_ns` is the time of the clock's last tick: since when a key that was
    /// free is held.
    ///
    /// # Errors
    /// Why it has not got it; nothing has changed then.
    #[inline]
    pub fn acquire(
        &self,
        who: &Arc<Life>,
        key: &LockKey,
        mode: Mode,
        (tick_ns, wait_ns): (u64, u64),
    ) -> Result<Taken, Refused> {
        let mut stripe = lock(self.stripe(key));
        if (mode == Mode::Shared || self.ranges.len() == 0) && !stripe.has(key) {
            stripe.add(key, Entry::held(who, mode, tick_ns));
            return Ok(Taken::Anew);
        }
        self.acquire_since(None, who, (key, mode), (stripe, wait_ns))
    }

    /// Locks a key that is not known to be free, in its stripe.
    fn acquire_since(
        &self,
        arrival: Option<u64>,
        who: &Arc<Life>,
        (key, mode): (&LockKey, Mode),
        (mut stripe, wait_ns): (MutexGuard<'_, Stripe>, u64),
    ) -> Result<Taken, Refused> {
        let entry = stripe.entry(key);
        let before = entry.mode_of(who.id);
        if before.is_some_and(|before| before >= mode) {
            return Ok(Taken::Before);
        }
        let taken = before.map_or(Taken::Anew, |_| Taken::Before);
        let now_ns = (self.clock)();
        // Under the stripe's lock (2): a range that has looked here already came before.
        let arrival = arrival.unwrap_or_else(|| self.arrive());
        if !entry.is_waited_for() && entry.in_the_way(who.id, mode).next().is_none() {
            let over = self.ranges.over(key.bytes());
            let mut keepers = over.keepers(who.id, (mode, arrival), now_ns);
            if keepers.next().is_none() {
                entry.hold(who, mode, now_ns);
                return Ok(taken);
            }
        }
        let wake: Arc<Wake> = Arc::default();
        let request = Request::new(who, mode, arrival, &wake);
        let moved = entry.enqueue(request, self.ranges.first_of(key.bytes(), who.id));
        self.tell_aheads(entry, moved);
        self.settle(key, entry, now_ns);
        if wake.look() == Verdict::Granted {
            return Ok(taken);
        }
        if wait_ns == 0 {
            let refused = self.withdraw(&mut stripe, who, (key, mode), now_ns);
            return Err(refused);
        }
        let wait = Wait {
            key: key.clone(),
            mode,
            arrival,
            ahead: entry.request(who.id).and_then(|own| own.ahead),
        };
        self.graph.wait(who.id, &wake, wait);
        drop(stripe);
        let deadline = now_ns.saturating_add(wait_ns);
        self.wait(who, (key, mode), &wake, deadline).map(|()| taken)
    }

    /// Waits for the verdict on a request.
    fn wait(
        &self,
        who: &Arc<Life>,
        (key, mode): (&LockKey, Mode),
        wake: &Wake,
        deadline: u64,
    ) -> Result<(), Refused> {
        let mut expiry = u64::MAX;
        loop {
            let time = self.time_to_sleep(deadline.min(expiry));
            let (verdict, told) = wake.sleep(expiry, time);
            expiry = told;
            if verdict == Verdict::Granted {
                return Ok(());
            }
            // Whatever lets it be granted settles, and that wakes it.
            if verdict == Verdict::Waiting && (self.clock)() < deadline.min(expiry) {
                continue;
            }
            let mut stripe = lock(self.stripe(key));
            let now_ns = (self.clock)();
            if let Some(entry) = stripe.get_mut(key)
                && verdict == Verdict::Waiting
            {
                self.settle(key, entry, now_ns);
            }
            let refused = match wake.look() {
                Verdict::Granted => return Ok(()),
                Verdict::Waiting if now_ns < deadline => continue,
                Verdict::Waiting => None,
                Verdict::Victim(circle) => Some(Refused::Deadlock(circle)),
                Verdict::Closed => Some(Refused::Closed),
            };
            let kept = self.withdraw(&mut stripe, who, (key, mode), now_ns);
            return Err(refused.unwrap_or(kept));
        }
    }

    /// For how long to sleep until then, at most; `None` if that never comes.
    fn time_to_sleep(&self, until: u64) -> Option<Duration> {
        if until == u64::MAX {
            return None;
        }
        let sleep = until.saturating_sub((self.clock)()).min(SLEEP_MAX_NS);
        Some(Duration::from_nanos(sleep))
    }

    /// Gives a request up. Returns what kept it.
    fn withdraw(
        &self,
        stripe: &mut Stripe,
        who: &Arc<Life>,
        (key, mode): (&LockKey, Mode),
        now_ns: u64,
    ) -> Refused {
        let (mut holders, mut others) = (Vec::new(), Vec::new());
        stripe.change(key, |entry| {
            holders.extend(entry.in_the_way(who.id, mode).cloned());
            others = self.others(key, entry, who.id, now_ns);
            let moved = entry.withdraw(who.id);
            // While it is in the graph: those behind it have waited, by way of it, for who is ahead of them now.
            self.tell_aheads(entry, moved);
            self.graph.done(who.id);
            self.settle(key, entry, now_ns);
        });
        Refused::TimedOut {
            key: key.clone(),
            holders,
            others,
        }
    }

    /// Whoever waits is refused what it waits for, and so is whoever would wait from now on.
    pub fn close(&self) {
        self.graph.close();
    }

    /// Gives the lock of a key up, if it was not taken away.
    pub fn release(&self, who: TxnId, key: &LockKey) {
        lock(self.stripe(key)).change(key, |entry| {
            entry.release(who);
            if entry.is_waited_for() {
                self.settle(key, entry, (self.clock)());
            }
        });
    }

    /// Locks the keys from `start` up to, and not with, `end` against changes. Returns the range's number. `taken` is
    /// called with each key that is locked, shared, on the way.
    ///
    /// # Errors
    /// Why it has not got it; the keys that it was called with are locked all the same.
    pub fn acquire_range(
        &self,
        who: &Arc<Life>,
        (start, end): (&[u8], &[u8]),
        wait_ns: u64,
        mut taken: impl FnMut(LockKey),
    ) -> Result<u64, Refused> {
        let arrival = self.ranges.add(who, (start, end), &self.arrivals);
        let mut wanted: Vec<LockKey> = Vec::new();
        // Who came behind a range of its own waits for that.
        let first = |key: &LockKey| self.ranges.first_of(key.bytes(), who.id).unwrap_or(arrival);
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let within = stripe.within((start, end));
            let wanted_alone = within.filter(|(key, e)| e.is_wanted_alone(who.id, || first(key)));
            wanted.extend(wanted_alone.map(|(key, _)| key.clone()));
        }
        for key in wanted {
            let stripe = lock(self.stripe(&key));
            let shared = (&key, Mode::Shared);
            match self.acquire_since(Some(arrival), who, shared, (stripe, wait_ns)) {
                Ok(Taken::Anew) => taken(key),
                Ok(Taken::Before) => {}
                Err(refused) => {
                    self.release_range(arrival, (start, end));
                    return Err(refused);
                }
            }
        }
        Ok(arrival)
    }

    /// Gives a range up.
    pub fn release_range(&self, arrival: u64, (start, end): (&[u8], &[u8])) {
        self.ranges.remove(arrival);
        let now_ns = (self.clock)();
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let within = stripe.within((start, end));
            let waited_for = within.filter(|(_, entry)| entry.is_waited_for());
            let waited_for: Vec<LockKey> = waited_for.map(|(key, _)| key.clone()).collect();
            for key in waited_for {
                if let Some(entry) = stripe.get_mut(&key) {
                    self.settle(&key, entry, now_ns);
                }
            }
        }
    }

    /// Calls `each` with every key and who holds it, under the lock of a stripe.
    pub fn for_each_holder(&self, mut each: impl FnMut(&[u8], &Holder)) {
        for stripe in &self.stripes {
            for (key, entry) in lock(stripe).iter() {
                entry.holders().for_each(|holder| each(key.bytes(), holder));
            }
        }
    }

    /// Keys that are locked or waited for, ranges, and transactions that wait.
    pub fn counts(&self) -> (usize, usize, usize) {
        let keys = self.stripes.iter().map(|stripe| lock(stripe).len()).sum();
        (keys, self.ranges.len(), self.graph.len())
    }

    /// For whom a transaction waits.
    pub fn blockers(&self, who: TxnId) -> Vec<TxnId> {
        self.graph.blockers(who)
    }

    /// See [`Graph::steps`].
    #[cfg(test)]
    pub fn steps(&self) -> usize {
        self.graph.steps()
    }
}

impl std::fmt::Debug for LockTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockTable")
            .field("stripes", &self.stripes.len())
            .finish_non_exhaustive()
    }
}
