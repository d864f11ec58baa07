//! The lock of one key: who holds it, and who waits.
//!
//! # The queue
//! Requests are granted in the order in which they arrived, and none passes another one: a reader that comes behind a
//! waiting writer waits, so writers do not starve, nor do readers. Only those go first for whom the others wait anyway: a
//! holder of the shared lock that wants it exclusively, and whoever has locked a range with the key.
//!
//! # Thousands that wait
//! Each request knows the next ahead that wants the lock alone ([`Request::ahead`]). That changes where one comes or goes
//! in between, and for nobody behind the next that wants the lock alone: so a queue of writers is granted, and grows, by
//! steps that do not depend on its length. Only the first of a queue is told when to look for one whose time is over: the
//! others cannot be granted before it.

use std::collections::VecDeque;
use std::ops::Range;

use crate::life::{Life, TxnId};
use crate::locks::wake::Wake;
use crate::sync::Arc;

/// How a key is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Beside others who read.
    Shared,
    /// Alone.
    Exclusive,
}

impl Mode {
    fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// Who holds a lock.
#[derive(Debug, Clone)]
pub(crate) struct Holder {
    pub who: Arc<Life>,
    pub mode: Mode,
    pub since_ns: u64,
}

impl Holder {
    /// Whether nobody else may have it.
    pub fn is_exclusive(&self) -> bool {
        self.mode == Mode::Exclusive
    }
}

/// Who wants one.
#[derive(Debug)]
pub(crate) struct Request {
    pub who: Arc<Life>,
    pub mode: Mode,
    /// Its place among all requests for keys and ranges.
    pub arrival: u64,
    pub wake: Arc<Wake>,
    /// The next ahead that wants the lock alone.
    pub ahead: Option<TxnId>,
    /// When it was told to look again.
    expiry: u64,
}

impl Request {
    pub fn new(who: &Arc<Life>, mode: Mode, arrival: u64, wake: &Arc<Wake>) -> Request {
        Request {
            who: Arc::clone(who),
            mode,
            arrival,
            wake: Arc::clone(wake),
            ahead: None,
            expiry: u64::MAX,
        }
    }

    /// What `ahead` is of the one right behind it.
    fn ahead_of_next(&self) -> Option<TxnId> {
        match self.mode {
            Mode::Exclusive => Some(self.who.id),
            Mode::Shared => self.ahead,
        }
    }

    fn look_at(&mut self, expiry: u64) {
        if self.expiry != expiry {
            self.expiry = expiry;
            self.wake.set_expiry(expiry);
        }
    }
}

/// The lock of a key. Most have one holder and nobody who waits, and need no memory beside this.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    holder: Option<Holder>,
    /// `None` where it would be empty.
    more: Option<Box<More>>,
}

/// What of a lock is seldom there.
#[derive(Debug, Default)]
struct More {
    holders: Vec<Holder>,
    queue: VecDeque<Request>,
    /// No request of the queue has arrived later.
    newest: u64,
}

impl More {
    /// Has the requests from a place on know who is ahead, as far as that has changed: one came there, or has gone from
    /// there. Returns their places.
    fn link(&mut self, from: usize) -> Range<usize> {
        let before = from.checked_sub(1).map(|before| &self.queue[before]);
        let mut ahead = before.and_then(Request::ahead_of_next);
        let mut to = from;
        for request in self.queue.range_mut(from..) {
            // Those behind one of whom nothing has changed know it already.
            if to > from && request.ahead == ahead {
                break;
            }
            request.ahead = ahead;
            ahead = request.ahead_of_next();
            to += 1;
        }
        from..to
    }
}

impl Entry {
    /// One that is held by one.
    #[inline]
    pub fn held(who: &Arc<Life>, mode: Mode, since_ns: u64) -> Entry {
        let who = Arc::clone(who);
        Entry {
            holder: Some(Holder {
                who,
                mode,
                since_ns,
            }),
            more: None,
        }
    }

    #[inline]
    pub fn is_unused(&self) -> bool {
        self.holder.is_none() && self.more.is_none()
    }

    pub fn is_waited_for(&self) -> bool {
        self.first().is_some()
    }

    fn queue(&self) -> impl DoubleEndedIterator<Item = &Request> {
        self.more.iter().flat_map(|more| &more.queue)
    }

    /// The request that is granted next.
    pub fn first(&self) -> Option<&Request> {
        self.more.as_ref()?.queue.front()
    }

    /// The request of a transaction. Those that came last are found first.
    pub fn request(&self, who: TxnId) -> Option<&Request> {
        self.queue().rfind(|request| request.who.id == who)
    }

    /// Of the requests at these places who is next ahead and wants the lock alone.
    pub fn aheads(&self, places: Range<usize>) -> impl Iterator<Item = (TxnId, Option<TxnId>)> {
        let more = self.more.iter();
        let requests = more.flat_map(move |more| more.queue.range(places.clone()));
        requests.map(|request| (request.who.id, request.ahead))
    }

    /// How a transaction holds it.
    pub fn mode_of(&self, who: TxnId) -> Option<Mode> {
        let own = self.holders().find(|holder| holder.who.id == who);
        own.map(|holder| holder.mode)
    }

    /// Who holds it.
    pub fn holders(&self) -> impl Iterator<Item = &Holder> {
        let more = self.more.iter().flat_map(|more| &more.holders);
        self.holder.iter().chain(more)
    }

    /// Whether one has it alone, who is the only holder then.
    pub fn is_held_alone(&self) -> bool {
        self.holders().next().is_some_and(Holder::is_exclusive)
    }

    /// Keeps those holders that are wanted.
    fn retain(&mut self, holds: impl Fn(&Holder) -> bool) {
        self.holder.take_if(|holder| !holds(holder));
        if let Some(more) = &mut self.more {
            more.holders.retain(holds);
        }
        self.forget_more();
    }

    fn forget_more(&mut self) {
        self.more
            .take_if(|more| more.holders.is_empty() && more.queue.is_empty());
    }

    /// Those holders whom a transaction must wait for.
    pub fn in_the_way(&self, who: TxnId, mode: Mode) -> impl Iterator<Item = &Holder> {
        // Who only wants to read waits for one who has it alone, and nobody has it beside that one.
        let most = match mode {
            Mode::Shared => 1,
            Mode::Exclusive => usize::MAX,
        };
        self.holders()
            .take(most)
            .filter(move |holder| holder.who.id != who && holder.mode.conflicts(mode))
    }

    /// Whether somebody else has it alone, or wants that since before an arrival, which is asked for where somebody waits.
    pub fn is_wanted_alone(&self, who: TxnId, arrival: impl FnOnce() -> u64) -> bool {
        if self.in_the_way(who, Mode::Shared).next().is_some() {
            return true;
        }
        if !self.is_waited_for() {
            return false;
        }
        let arrival = arrival();
        self.queue().any(|request| {
            request.mode == Mode::Exclusive && request.arrival < arrival && request.who.id != who
        })
    }

    /// Whether somebody else waits to have it alone, who came behind this number.
    pub fn is_wanted_alone_behind(&self, number: u64, who: TxnId) -> bool {
        let last = self.queue().next_back();
        if last.and_then(Request::ahead_of_next).is_none() {
            return false;
        }
        // Those who came last are last, but for a few.
        self.queue().rev().any(|request| {
            request.mode == Mode::Exclusive && request.arrival > number && request.who.id != who
        })
    }

    /// Whether somebody waits who cannot have it beside one who has it so. `gone` was the last who wanted it alone and
    /// waits no more, which those behind may not know yet.
    fn is_wanted_beside(&self, mode: Mode, gone: Option<TxnId>) -> bool {
        let Some(last) = self.queue().next_back() else {
            return false;
        };
        let alone = last.ahead_of_next();
        mode == Mode::Exclusive || (alone.is_some() && alone != gone)
    }

    /// It is held from now on, or held more strongly. Nobody is in the way.
    pub fn hold(&mut self, who: &Arc<Life>, mode: Mode, since_ns: u64) {
        // Who wants to read has nothing of it yet, however many others have.
        if mode == Mode::Exclusive {
            let more = self.more.iter_mut().flat_map(|more| &mut more.holders);
            let mut all = self.holder.iter_mut().chain(more);
            if let Some(own) = all.find(|holder| holder.who.id == who.id) {
                own.mode = mode;
                return;
            }
        }
        let holder = Holder {
            who: Arc::clone(who),
            mode,
            since_ns,
        };
        match &self.holder {
            None => self.holder = Some(holder),
            Some(_) => self.more.get_or_insert_default().holders.push(holder),
        }
    }

    /// It is held by this transaction no longer.
    #[inline]
    pub fn release(&mut self, who: TxnId) {
        if self.more.is_none() {
            self.holder.take_if(|holder| holder.who.id == who);
            return;
        }
        self.retain(|holder| holder.who.id != who);
    }

    /// Takes it from those whose time is over at this moment, for others who wait. They may not go on. Who waits alone, for
    /// more of it, keeps what it has.
    pub fn evict(&mut self, now_ns: u64) {
        let more = self.more.as_ref().filter(|more| more.queue.len() == 1);
        let only = more.and_then(|more| more.queue.front());
        let only = only.map(|request| request.who.id);
        self.retain(|holder| Some(holder.who.id) == only || !holder.who.expires_by(now_ns));
    }

    /// A request gets its place. A range of its own that the key is in, and its number, may bring it forward: before
    /// writers that came behind the range, and so wait for it. Returns the places of those behind it that have another
    /// one ahead now.
    pub fn enqueue(&mut self, request: Request, own_range: Option<u64>) -> Range<usize> {
        let at = self.place_of(&request, own_range);
        let more = self.more.get_or_insert_default();
        more.newest = more.newest.max(request.arrival);
        if at == 0
            && let Some(first) = more.queue.front_mut()
        {
            first.look_at(u64::MAX);
        }
        more.queue.insert(at, request);
        let linked = more.link(at);
        at + 1..linked.end
    }

    fn place_of(&self, request: &Request, own_range: Option<u64>) -> usize {
        let (len, newest) = match &self.more {
            Some(more) => (more.queue.len(), more.newest),
            None => (0, 0),
        };
        let upgrades = self.mode_of(request.who.id).is_some();
        // Most come last.
        let at = if !upgrades && request.arrival > newest {
            len
        } else {
            let holds = |r: &&Request| self.mode_of(r.who.id).is_some();
            let first = self.queue().take_while(holds).count();
            let ahead = self.queue().skip(first);
            let earlier = ahead.take_while(|r| !upgrades && r.arrival < request.arrival);
            first + earlier.count()
        };
        // Where it has no such range, nobody is asked.
        let forward = own_range.and_then(|own| {
            self.queue()
                .position(|ahead| ahead.mode == Mode::Exclusive && own < ahead.arrival)
        });
        forward.map_or(at, |forward| forward.min(at))
    }

    /// A request is given up. Returns the places of those behind it that have another one ahead now.
    pub fn withdraw(&mut self, who: TxnId) -> Range<usize> {
        let Some(more) = &mut self.more else {
            return 0..0;
        };
        let mut queue = more.queue.iter();
        let Some(at) = queue.rposition(|request| request.who.id == who) else {
            return 0..0;
        };
        more.queue.remove(at);
        let linked = more.link(at);
        self.forget_more();
        linked
    }

    /// Grants what can be, from the front. Whether a range is `in_the_way` of a request is asked for those that nothing
    /// else keeps. Calls `leaves` with each who waits no more. Returns the places of those that have another one ahead
    /// now.
    ///
    /// Of those whose own time is over by now nobody holds what others wait for: it is as if each had been granted, and
    /// evicted at once. They may not go on.
    pub fn grant(
        &mut self,
        now_ns: u64,
        in_the_way: impl Fn(&Request) -> bool,
        mut leaves: impl FnMut(TxnId),
    ) -> Range<usize> {
        let (mut has_left, mut gone) = (false, None);
        while let Some(first) = self.first() {
            let given_up = first.wake.look().gives_up();
            let held = self.in_the_way(first.who.id, first.mode).next().is_some();
            if !given_up && (held || in_the_way(first)) {
                break;
            }
            let queue = self.more.as_mut().map(|more| &mut more.queue);
            let Some(first) = queue.and_then(VecDeque::pop_front) else {
                break;
            };
            self.forget_more();
            // Before it wakes: it may wait for another lock at once.
            leaves(first.who.id);
            if first.mode == Mode::Exclusive {
                gone = Some(first.who.id);
            }
            let is_wanted = self.is_wanted_beside(first.mode, gone);
            if first.wake.grant() && !(is_wanted && first.who.expires_by(now_ns)) {
                self.hold(&first.who, first.mode, now_ns);
            }
            has_left = true;
        }
        match &mut self.more {
            Some(more) if has_left => more.link(0),
            _ => 0..0,
        }
    }

    /// The first who waits is to look again at this time; `u64::MAX` for never.
    pub fn look_at(&mut self, expiry: u64) {
        let more = self.more.as_mut();
        if let Some(first) = more.and_then(|more| more.queue.front_mut()) {
            first.look_at(expiry);
        }
    }

    /// When, behind now, the time of the first is over who holds the lock beside `who`. One whose time was over before, and
    /// that still has it, ends by itself: others who wait have had it evicted, and it was granted nothing since.
    pub fn first_expiry(&self, who: TxnId, now_ns: u64) -> u64 {
        let others = self.holders().filter(|holder| holder.who.id != who);
        let expiries = others.map(|holder| holder.who.expires_ns);
        expiries.filter(|at| *at > now_ns).min().unwrap_or(u64::MAX)
    }
}
