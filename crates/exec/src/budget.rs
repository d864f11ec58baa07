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
//!    only looks whether somebody waits for whom there may be room, so that a read costs one atomic operation. Who begins to
//!    wait says so before it counts readers, and a reader is counted out before it looks: either is seen by the other one.
//!    Of readers that end, the one that leaves room sees that it does: its own number is below what somebody waits for.
//! 4. *A place is given, or taken.* Who waits is in the queue until its place is given. Who is out of patience leaves the
//!    queue under the lock, or finds that it has its place.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_for};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Reads that readers wait for. Relaxed where they begin: nothing is guarded by that.
    clients: AtomicUsize,
    /// The largest `depth` of those who wait for a place; 0 if nobody does. Changes under the lock. Sequentially consistent, as
    /// the count above where it falls or is asked: invariant 3.
    awaited: AtomicUsize,
    jobs: Mutex<Jobs>,
}

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
    /// So many reads of readers begin.
    pub fn enter_clients(&self, n: usize) {
        self.clients.fetch_add(n, Ordering::Relaxed);
    }

    /// So many end.
    pub fn leave_clients(&self, n: usize) {
        let left = self.clients.fetch_sub(n, Ordering::SeqCst) - n;
        // Else readers alone leave no room for anybody who waits.
        if left < self.awaited.load(Ordering::SeqCst) {
            self.give(&mut lock(&self.jobs));
        }
    }

    /// Reads of readers that are under way.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
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
        jobs.taken + self.clients.load(Ordering::SeqCst) < depth
    }

    /// Says up to how many under way a reader that ends has to look.
    fn note_who_waits(&self, jobs: &Jobs) {
        let most = jobs.waiting.iter().map(|waiting| waiting.depth).max();
        self.awaited.store(most.unwrap_or(0), Ordering::SeqCst);
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
        self.awaited.load(Ordering::SeqCst) > 0
    }
}
