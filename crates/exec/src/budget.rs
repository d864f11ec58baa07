//! How much the device has to do at a time: reads of readers, reads and writes of jobs.
//!
//! Readers never wait here. Jobs take a *place* for each read and write, as long as there is room beside what is under way
//! (PM-Blade §V).
//!
//! # Invariants
//! 1. *No place is given twice.* Whether there is room is asked, and the place is taken, under one lock. So what jobs have
//!    under way is more than one of them allows only by who did not ask for room, or was out of patience.
//! 2. *In their order.* Places are given to those who wait, under that lock, and nobody takes one past somebody for whom
//!    there would be room. Who allows less than others is passed by them.
//! 3. *Nobody waits beside room.* Room comes when something ends. What a job ends gives its place on. A reader that ends
//!    only looks whether somebody waits for whom there may be room.
//! 4. *A place is given, or taken.* Who waits is in the queue until its place is given. Who is out of patience leaves the
//!    queue under the lock, or finds that it has its place.
//!
//! # Readers are counted in shards
//! Each read that misses the cache is counted, and threads would wait for each other's cache lines if they all counted in
//! one. So a read is counted in the shard of the thread that begins it, and counted out there, wherever it ends: no shard
//! falls below zero. Who adds up the shards, one after the other, counts each read that is under way all the while once, and
//! none that is not under way at any time in between. Of the others it may count any. If it misses one, that might have begun
//! behind the decision, for readers ask nobody. If it counts one that ends meanwhile, it may see less room than there is:
//! invariant 3 says that it hears of that end.
//!
//! # Why nobody waits beside room
//! What follows is sequentially consistent, so there is one order of all its steps. Who begins to wait says so (`awaited`),
//! *then* adds up the readers. A reader that ends is counted out, *then* looks at `awaited`; if somebody waits, *then* it adds
//! up, and if the readers leave room, it gives under the lock. As long as somebody is in the queue, `awaited` is no less than
//! its depth.
//!
//! Say that one waits and nothing moves any more. Of all reads that have ended take the one that was counted out last.
//! - It has looked *after* the one that waits said so. Then it saw that. It added up when all the others had been counted
//!   out, and found no more than are left. If these leave room, it has taken the lock, and given.
//! - It has looked *before*. Then it was counted out before that, and all others before it. So the one that waits found no
//!   more than are left when it added up.
//!
//! In both cases somebody has looked under the lock who knew of all reads that have ended. What jobs have changes under the
//! lock alone, and who gives a place back gives it on there. So the last one who has looked knew all, and found no room.
//! Reads that have begun since only take room.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::{
    Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SHARDS, lock, thread_number, wait,
    wait_for,
};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Reads that readers wait for, by the thread that has begun them.
    clients: [Apart; SHARDS],
    /// The largest `depth` of those who wait for a place; 0 if nobody does. Changes under the lock. All readers look at it, so
    /// it lies apart from what jobs change all the time.
    awaited: Apart,
    jobs: Mutex<Jobs>,
}

/// A number with cache lines of its own. Sequentially consistent: the [module](self) has the argument.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart(AtomicUsize);

/// Reads and writes of jobs.
#[derive(Debug, Default)]
struct Jobs {
    /// Places that are taken.
    taken: usize,
    /// Of those, the places of writes that go before others.
    first: usize,
    waiting: VecDeque<Waiting>,
}

/// One who waits for a place.
#[derive(Debug)]
struct Waiting {
    /// With how many under way there is no room for it.
    depth: usize,
    /// Tells it that it has left the queue.
    given: Arc<Condvar>,
}

impl Jobs {
    /// Where in the queue it is; `None` once it has its place.
    fn find(&self, given: &Arc<Condvar>) -> Option<usize> {
        let mut waiting = self.waiting.iter();
        waiting.position(|other| Arc::ptr_eq(&other.given, given))
    }
}

impl Budget {
    /// So many reads of readers begin. Returns in which shard they are counted.
    pub fn enter_clients(&self, n: usize) -> usize {
        let shard = thread_number() % SHARDS;
        self.clients[shard].0.fetch_add(n, Ordering::SeqCst);
        shard
    }

    /// So many end that are counted in that shard.
    pub fn leave_clients(&self, shard: usize, n: usize) {
        self.clients[shard].0.fetch_sub(n, Ordering::SeqCst);
        let awaited = self.awaited.0.load(Ordering::SeqCst);
        // Mostly nobody waits. Else readers alone may leave no room for anybody who does.
        if awaited > 0 && self.clients() < awaited {
            self.give(&mut lock(&self.jobs));
        }
    }

    /// Reads of readers that are under way.
    pub fn clients(&self) -> usize {
        let shards = self.clients.iter();
        shards.map(|shard| shard.0.load(Ordering::SeqCst)).sum()
    }

    /// Takes a place, whether there is room or not. While one is taken as the `first`, nobody who waits is given one.
    pub fn enter(&self, first: bool) {
        let mut jobs = lock(&self.jobs);
        jobs.taken += 1;
        jobs.first += usize::from(first);
    }

    /// Takes a place if fewer than `depth` are under way; returns whether it has.
    pub fn enter_if_room(&self, depth: usize) -> bool {
        let mut jobs = lock(&self.jobs);
        // Room that a reader has made, and was not given yet, is of those who wait.
        self.give(&mut jobs);
        let fits = self.has_room(&jobs, depth);
        jobs.taken += usize::from(fits);
        fits
    }

    /// Takes a place once fewer than `depth` are under way, behind those who wait, or when no time is `left` to wait
    /// (`None`: there always is).
    pub fn enter_within(&self, depth: usize, mut left: impl FnMut() -> Option<Duration>) {
        let Some(given) = self.line_up(depth) else {
            return;
        };
        let mut jobs = lock(&self.jobs);
        while let Some(at) = jobs.find(&given) {
            jobs = match left() {
                None => wait(&given, jobs),
                Some(time) if time.is_zero() => return self.go_without(jobs, at),
                Some(time) => wait_for(&given, jobs, time),
            };
        }
    }

    /// Gives a place back that was taken as the `first`, or not.
    pub fn leave(&self, first: bool) {
        let mut jobs = lock(&self.jobs);
        jobs.taken -= 1;
        jobs.first -= usize::from(first);
        self.give(&mut jobs);
    }

    /// Takes a place, if there is room and nobody waits. Else it waits from now on, for what is returned.
    fn line_up(&self, depth: usize) -> Option<Arc<Condvar>> {
        let mut jobs = lock(&self.jobs);
        if jobs.waiting.is_empty() && jobs.first == 0 && self.has_room(&jobs, depth) {
            jobs.taken += 1;
            return None;
        }
        let given = Arc::new(Condvar::new());
        let own = given.clone();
        jobs.waiting.push_back(Waiting { depth, given: own });
        self.note_who_waits(&jobs);
        self.give(&mut jobs);
        Some(given)
    }

    /// Takes a place for the one who waits `at` this place of the queue, since it is out of patience.
    fn go_without(&self, mut jobs: MutexGuard<'_, Jobs>, at: usize) {
        jobs.waiting.remove(at);
        jobs.taken += 1;
        self.note_who_waits(&jobs);
    }

    /// Gives places to those who wait, in their order, as far as there is room.
    fn give(&self, jobs: &mut Jobs) {
        if jobs.waiting.is_empty() {
            return;
        }
        let mut at = 0;
        while jobs.first == 0 && at < jobs.waiting.len() {
            if !self.has_room(jobs, jobs.waiting[at].depth) {
                at += 1;
            } else if let Some(next) = jobs.waiting.remove(at) {
                jobs.taken += 1;
                next.given.notify_one();
            }
        }
        self.note_who_waits(jobs);
    }

    fn has_room(&self, jobs: &Jobs, depth: usize) -> bool {
        jobs.taken + self.clients() < depth
    }

    /// Says up to how many under way a reader that ends has to look.
    fn note_who_waits(&self, jobs: &Jobs) {
        let most = jobs.waiting.iter().map(|waiting| waiting.depth).max();
        self.awaited.0.store(most.unwrap_or(0), Ordering::SeqCst);
    }
}

/// What its tests and models ask.
#[cfg(test)]
impl Budget {
    /// Places that are taken.
    pub fn taken(&self) -> usize {
        lock(&self.jobs).taken
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        lock(&self.jobs).waiting.len()
    }

    /// Whether readers look for who waits.
    pub fn is_awaited(&self) -> bool {
        self.awaited.0.load(Ordering::SeqCst) > 0
    }
}
