//! Who waits for whom.
//!
//! A transaction waits for one lock at a time, and all that it waits for must end before it goes on. So a circle of
//! waits is a deadlock, and there is none without a circle. Whoever begins to wait, or waits for one more, looks for a
//! circle through himself: the last wait that closes a circle finds it. (Where all who wait for a key wait for one more,
//! who is in the way now, the circle is looked for through that one.)
//!
//! # Thousands that wait for thousands
//! Who is in the way of a key is noted once, however many wait for it ([`InTheWay`]). Of each who waits it is noted for
//! which key, and who is next ahead and wants that alone ([`Wait`]). So a key that goes from hand to hand costs a few
//! steps each time.
//!
//! A search visits everybody once, and goes through the holders and ranges of a key once: whoever comes by later would
//! find nobody there who was not visited. But for one: nobody waits for himself, so whoever looks for a circle may hold
//! the key that he waits for, and has not found himself there. That he went through them does not count.
//!
//! Through one for whom nobody waits there is no circle, and none is looked for: a queue grows at its end by a few steps,
//! whatever its length.
//!
//! # The victim
//! The youngest transaction of the circle gives up: the one that began last. So the oldest of all is never a victim, and
//! each transaction becomes the oldest in time.
//!
//! # Closed
//! Whoever waits is in the graph. So when the store is closed all of them are told, and who comes later is told at once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::life::TxnId;
use crate::locks::entry::Mode;
use crate::locks::key::LockKey;
use crate::locks::wake::Wake;
use crate::sync::{Arc, Mutex, lock};

/// Who is in the way of those who wait for a key.
#[derive(Debug, Default)]
pub(crate) struct InTheWay {
    /// Who holds it.
    pub holders: Vec<TxnId>,
    /// Whether that is one who has it alone: those who want to read wait for no other holder.
    pub is_alone: bool,
    /// The numbers of ranges that have it, ascending, and whose they are: they keep those who came later and want it
    /// alone.
    pub ranges: Vec<(u64, TxnId)>,
}

impl InTheWay {
    /// Holders and ranges for which one waits. Its own are among them.
    fn of(&self, wait: &Wait) -> (&[TxnId], &[(u64, TxnId)]) {
        match wait.mode {
            Mode::Exclusive => {
                let earlier = |(number, _): &(u64, TxnId)| *number < wait.arrival;
                let before = self.ranges.partition_point(earlier);
                (self.holders.as_slice(), &self.ranges[..before])
            }
            Mode::Shared if self.is_alone => (self.holders.as_slice(), &self.ranges[..0]),
            Mode::Shared => Default::default(),
        }
    }
}

/// What a transaction waits for.
#[derive(Debug)]
pub(crate) struct Wait {
    pub key: LockKey,
    pub mode: Mode,
    /// The request's place among all.
    pub arrival: u64,
    /// Who is next ahead and wants the key alone. (For whom that one waits, it waits, too. Who waits ahead to read waits
    /// for nobody else than they.)
    pub ahead: Option<TxnId>,
}

#[derive(Debug)]
struct Waiting {
    wake: Arc<Wake>,
    wait: Wait,
}

/// The graph. Its lock comes behind those of stripes, and before those of verdicts.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    waiting: Mutex<Waits>,
}

impl Graph {
    /// `who` begins to wait. Where that closes a circle, the youngest in it is told to give up; it may be `who`.
    pub fn wait(&self, who: TxnId, wake: &Arc<Wake>, wait: Wait) {
        let mut waits = lock(&self.waiting);
        if waits.is_closed {
            wake.close();
            return;
        }
        waits.count(wait.ahead);
        let wake = Arc::clone(wake);
        waits.all.insert(who, Waiting { wake, wait });
        waits.break_circles(who);
    }

    /// Who is in the way of a key now; nothing where nobody waits for it any more. As for [`Graph::wait`], if there is one
    /// more.
    pub fn set(&self, key: &LockKey, way: Option<InTheWay>) {
        let mut waits = lock(&self.waiting);
        for one in waits.replace(key, way) {
            waits.break_circles(one);
        }
    }

    /// Of those who wait, who is next ahead now and wants the key alone. As for [`Graph::wait`].
    pub fn follow(&self, aheads: impl Iterator<Item = (TxnId, Option<TxnId>)>) {
        let mut waits = lock(&self.waiting);
        for (who, ahead) in aheads {
            waits.follow(who, ahead);
        }
    }

    /// It waits no more.
    pub fn done(&self, who: TxnId) {
        lock(&self.waiting).remove(who);
    }

    /// Nobody waits any more.
    pub fn close(&self) {
        let mut waits = lock(&self.waiting);
        waits.is_closed = true;
        let mut all: Vec<TxnId> = waits.all.keys().copied().collect();
        // The same order in every run.
        all.sort_unstable();
        for who in all {
            if let Some(gone) = waits.remove(who) {
                gone.wake.close();
            }
        }
    }

    /// For whom a transaction waits.
    pub fn blockers(&self, who: TxnId) -> Vec<TxnId> {
        let waits = lock(&self.waiting);
        let Some(Waiting { wait, .. }) = waits.all.get(&who) else {
            return Vec::new();
        };
        let (holders, ranges) = waits.in_the_way(wait);
        let ranges = ranges.iter().map(|(_, owner)| owner);
        let all = holders.iter().chain(ranges).chain(&wait.ahead);
        let mut others: Vec<TxnId> = all.copied().filter(|one| *one != who).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        lock(&self.waiting).all.len()
    }

    /// How many steps all of it took so far: those who were told of, and looked at.
    #[cfg(test)]
    pub fn steps(&self) -> usize {
        lock(&self.waiting).steps.get()
    }
}

/// All waits.
#[derive(Debug, Default)]
struct Waits {
    all: HashMap<TxnId, Waiting>,
    /// Of the keys that somebody waits for.
    keys: HashMap<LockKey, InTheWay>,
    /// How often each is in the way of a key, or next ahead. Nobody waits for who is not here.
    waited_for: HashMap<TxnId, usize>,
    is_closed: bool,
    #[cfg(test)]
    steps: std::cell::Cell<usize>,
}

impl Waits {
    #[cfg(test)]
    fn step(&self, steps: usize) {
        self.steps.set(self.steps.get() + steps);
    }

    #[cfg(not(test))]
    fn step(&self, _: usize) {}

    fn count(&mut self, come: impl IntoIterator<Item = TxnId>) {
        for one in come {
            *self.waited_for.entry(one).or_default() += 1;
        }
    }

    fn discount(&mut self, gone: impl IntoIterator<Item = TxnId>) {
        for one in gone {
            if let Entry::Occupied(mut count) = self.waited_for.entry(one) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    fn remove(&mut self, who: TxnId) -> Option<Waiting> {
        self.step(1);
        let gone = self.all.remove(&who)?;
        self.discount(gone.wait.ahead);
        Some(gone)
    }

    /// Who is in the way of a key now. Returns those who were not, and wait themselves.
    fn replace(&mut self, key: &LockKey, way: Option<InTheWay>) -> Vec<TxnId> {
        let before = self.keys.remove(key).unwrap_or_default();
        let is_waited_for = way.is_some();
        let now = way.unwrap_or_default();
        self.step(before.holders.len() + before.ranges.len());
        self.step(now.holders.len() + now.ranges.len());
        // Ranges that are new came later than all who wait, but for one who is about to: they keep nobody else.
        let (gone, come) = differing(&before.ranges, &now.ranges);
        self.count(come.iter().map(|(_, owner)| *owner));
        self.discount(gone.iter().map(|(_, owner)| *owner));
        let (gone, come) = differing(&before.holders, &now.holders);
        self.count(come.iter().copied());
        self.discount(gone.iter().copied());
        let come = come.iter().copied();
        let waiting = come.filter(|one| self.all.contains_key(one)).collect();
        if is_waited_for {
            self.keys.insert(key.clone(), now);
        }
        waiting
    }

    fn follow(&mut self, who: TxnId, ahead: Option<TxnId>) {
        self.step(1);
        let Some(own) = self.all.get_mut(&who) else {
            return;
        };
        let before = std::mem::replace(&mut own.wait.ahead, ahead);
        self.count(ahead);
        self.discount(before);
        // Of one who leaves the queue between them, it has waited for that one all the time.
        let between = before.and_then(|before| self.all.get(&before));
        let is_new = between.is_none_or(|between| between.wait.ahead != ahead);
        if ahead.is_some() && ahead != before && is_new {
            self.break_circles(who);
        }
    }

    /// Has the youngest of each circle through `who` give up.
    fn break_circles(&mut self, who: TxnId) {
        while let Some(circle) = self.circle_of(who) {
            let youngest = circle.iter().copied().max().unwrap_or(who);
            // Whoever was granted meanwhile waits no more: his entry is just not taken out yet.
            if let Some(gone) = self.remove(youngest) {
                gone.wake.sacrifice(circle);
            }
        }
    }

    fn in_the_way(&self, wait: &Wait) -> (&[TxnId], &[(u64, TxnId)]) {
        match self.keys.get(&wait.key) {
            Some(way) => way.of(wait),
            None => Default::default(),
        }
    }

    /// A circle of waits through `who`, beginning with it.
    fn circle_of(&self, who: TxnId) -> Option<Vec<TxnId>> {
        if !self.waited_for.contains_key(&who) {
            return None;
        }
        // Who led to whom: each is visited once.
        let mut from: HashMap<TxnId, TxnId> = HashMap::new();
        // How many holders and ranges of each key others than `who` went through.
        let mut passed: HashMap<&LockKey, (usize, usize)> = HashMap::new();
        let mut left = vec![who];
        while let Some(at) = left.pop() {
            self.step(1);
            let Some(Waiting { wait, .. }) = self.all.get(&at) else {
                continue;
            };
            let (holders, ranges) = self.in_the_way(wait);
            let of_key = passed.entry(&wait.key).or_default();
            let before = *of_key;
            if at != who {
                *of_key = (before.0.max(holders.len()), before.1.max(ranges.len()));
            }
            let holders = holders.get(before.0..).unwrap_or_default().iter();
            let ranges = ranges.get(before.1..).unwrap_or_default().iter();
            let next = holders.chain(ranges.map(|(_, owner)| owner));
            for &next in next.chain(&wait.ahead).filter(|next| **next != at) {
                self.step(1);
                if next == who {
                    return Some(path(&from, who, at));
                }
                if let Entry::Vacant(free) = from.entry(next) {
                    free.insert(at);
                    left.push(next);
                }
            }
        }
        None
    }
}

/// The way from `who` to `at`, both included.
fn path(from: &HashMap<TxnId, TxnId>, who: TxnId, at: TxnId) -> Vec<TxnId> {
    let mut path = vec![at];
    let mut back = at;
    while back != who {
        back = from[&back];
        path.push(back);
    }
    path.reverse();
    path
}

/// What two lists have between what they have in common at both ends.
fn differing<'a, T: PartialEq>(one: &'a [T], two: &'a [T]) -> (&'a [T], &'a [T]) {
    let same = one.iter().zip(two).take_while(|(one, two)| one == two);
    let same = same.count();
    let (one, two) = (&one[same..], &two[same..]);
    let ends = one.iter().rev().zip(two.iter().rev());
    let same = ends.take_while(|(one, two)| one == two).count();
    (&one[..one.len() - same], &two[..two.len() - same])
}
