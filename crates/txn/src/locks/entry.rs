//! The lock of one key: who holds it, and who waits.
//!
//! # The queue
//! Requests are granted in the order in which they arrived, and none passes another one: a reader that comes behind a
//! waiting writer waits, so writers do not starve, nor do readers. Only those go first for whom the others wait anyway: a
//! holder of the shared lock that wants it exclusively, and whoever has locked a range with the key.

use std::collections::VecDeque;

use crate::life::{Life, TxnId};
use crate::locks::wake::{Verdict, Wake};
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

    fn queue(&self) -> impl Iterator<Item = &Request> {
        self.more.iter().flat_map(|more| &more.queue)
    }

    fn first(&self) -> Option<&Request> {
        self.more.as_ref()?.queue.front()
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

    /// Keeps those holders and requests that are wanted.
    fn retain(&mut self, holds: impl Fn(&Holder) -> bool, waits: impl Fn(&Request) -> bool) {
        self.holder.take_if(|holder| !holds(holder));
        if let Some(more) = &mut self.more {
            more.holders.retain(holds);
            more.queue.retain(waits);
        }
        self.forget_more();
    }

    fn forget_more(&mut self) {
        self.more
            .take_if(|more| more.holders.is_empty() && more.queue.is_empty());
    }

    /// Those holders whom a transaction must wait for.
    pub fn in_the_way(&self, who: TxnId, mode: Mode) -> impl Iterator<Item = &Holder> {
        self.holders()
            .filter(move |holder| holder.who.id != who && holder.mode.conflicts(mode))
    }

    /// Whether somebody else has it alone, or wants that since before `arrival`.
    pub fn is_wanted_alone(&self, who: TxnId, arrival: u64) -> bool {
        let wanted = self.queue().any(|request| {
            request.mode == Mode::Exclusive && request.arrival < arrival && request.who.id != who
        });
        wanted || self.in_the_way(who, Mode::Shared).next().is_some()
    }

    /// It is held from now on, or held more strongly.
    pub fn hold(&mut self, who: &Arc<Life>, mode: Mode, since_ns: u64) {
        let more = self.more.iter_mut().flat_map(|more| &mut more.holders);
        let mut all = self.holder.iter_mut().chain(more);
        if let Some(own) = all.find(|holder| holder.who.id == who.id) {
            own.mode = own.mode.max(mode);
            return;
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
        self.retain(|holder| holder.who.id != who, |_| true);
    }

    /// Takes it from those whose time is over at this moment. They may not go on.
    pub fn evict(&mut self, now_ns: u64) {
        self.retain(|holder| !holder.who.expires_by(now_ns), |_| true);
    }

    /// A request gets its place. A range of its own that the key is in, and its number, may bring it forward: before
    /// writers that came behind the range, and so wait for it.
    pub fn enqueue(&mut self, request: Request, own_range: Option<u64>) {
        let upgrades = self.mode_of(request.who.id).is_some();
        let first = self
            .queue()
            .take_while(|r| self.mode_of(r.who.id).is_some());
        let first = first.count();
        let at = match upgrades {
            true => first,
            false => {
                let ahead = self.queue().skip(first);
                first + ahead.take_while(|r| r.arrival < request.arrival).count()
            }
        };
        let waits_for_range = |ahead: &Request| {
            ahead.mode == Mode::Exclusive && own_range.is_some_and(|own| own < ahead.arrival)
        };
        let forward = self.queue().position(waits_for_range);
        let at = forward.map_or(at, |forward| forward.min(at));
        let more = self.more.get_or_insert_default();
        more.queue.insert(at, request);
    }

    /// A request is given up.
    pub fn withdraw(&mut self, who: TxnId) {
        self.retain(|_| true, |request| request.who.id != who);
    }

    /// Grants what can be, from the front. Whether a range is `in_the_way` of a request is asked for those that nothing
    /// else keeps. Calls `leaves` with each who waits no more.
    pub fn grant(
        &mut self,
        now_ns: u64,
        in_the_way: impl Fn(&Request) -> bool,
        mut leaves: impl FnMut(TxnId),
    ) {
        while let Some(first) = self.first() {
            let given_up = matches!(first.wake.look(), Verdict::Victim(_));
            let held = self.in_the_way(first.who.id, first.mode).next().is_some();
            if !given_up && (held || in_the_way(first)) {
                return;
            }
            let queue = self.more.as_mut().map(|more| &mut more.queue);
            let Some(first) = queue.and_then(VecDeque::pop_front) else {
                return;
            };
            self.forget_more();
            // Before it wakes: it may wait for another lock at once.
            leaves(first.who.id);
            if first.wake.grant() {
                self.hold(&first.who, first.mode, now_ns);
            }
        }
    }

    /// Of each request for whom it waits here: holders, and the next ahead that wants the lock alone. (For whom that one
    /// waits, it waits, too. Who waits ahead to read waits for nobody else than they.)
    pub fn waits(&self) -> impl Iterator<Item = (&Request, Vec<TxnId>)> {
        let mut alone = None;
        self.queue().map(move |request| {
            let holders = self.in_the_way(request.who.id, request.mode);
            let for_whom = holders.map(|holder| holder.who.id).chain(alone).collect();
            if request.mode == Mode::Exclusive {
                alone = Some(request.who.id);
            }
            (request, for_whom)
        })
    }

    /// When the time of the first is over who has the lock, or may get it before a request of `who`.
    pub fn first_expiry(&self, who: TxnId) -> u64 {
        let holders = self.holders().map(|holder| &holder.who);
        let all = holders.chain(self.queue().map(|request| &request.who));
        let others = all.filter(|other| other.id != who);
        let expiries = others.map(|other| other.expires_ns);
        expiries.min().unwrap_or(u64::MAX)
    }
}
