//! Acknowledging without a waiting thread: a commit that returns at once and tells later.
//!
//! Such a write is stored and indexed by the committing thread like a buffered one; its write-back is
//! shared with others, unless it is so large that the committing thread persists it. When `durable` has passed it its
//! callback is called, as the store's other calls are (`runtime`): by a courier, or without threads at the end of the commit if it
//! is durable by then, else at the end of `sync`, and when the store is closed. Where the system gives the store no thread
//! that would write back, or none that would make the calls, the committing thread does both.
//!
//! # What waits is bounded
//! A callback must be called, so none is ever dropped. A commit takes a *place* before anything has happened,
//! and its place is free when its callback has returned; there are [`WAITING_MAX`]. A commit that finds no
//! place waits for one. Two kinds of commits are refused instead: those that asked not to wait, and those
//! that are made inside a call of the user's, of whatever store. The callbacks that such a call would wait
//! for may be queued behind the call itself, or behind one that waits for it. So calls never wait for calls,
//! and a commit that waits holds up nobody.
//!
//! A commit that waits makes everything visible durable itself, and makes the calls where no courier can.
//! Thus it depends on nothing but callbacks that return.
//!
//! # Invariants
//! 1. A callback is on the list before its group finishes. So a thread that has drained the ring, as closing
//!    does, finds it there.
//! 2. Callbacks are called one at a time, in the order of their seqnos, and under no lock. They run in calls
//!    of the store: at most one call waits or runs for this at a time (`called`). A call that finds nothing
//!    due clears `called` under the lock under which it has looked. A thread that makes a callback due looks
//!    for that afterwards, under the same lock.
//! 3. Each is called once, with the outcome; if it panics, the others are called all the same.
//! 4. An empty commit has no group. It is told when everything that was visible before it is durable. Its
//!    callback comes behind that of the last visible group, which is on the list by 1, or was called.
//!
//! # Rejected
//! *Refusing every commit that finds no place*, as it was: a caller that is faster than the device for a
//! moment would have to wait by itself, with nothing to wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use thermocline_base::{Result, SeqNo};

use crate::sync::{Condvar, Mutex, lock, wait_for};

/// Called once, with the outcome of a commit.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// Most commits of a store whose callbacks have not returned.
pub const WAITING_MAX: usize = 1 << 16;

/// A commit that waits for a place looks again after this time, even if nothing woke it: the system may have
/// given no courier.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Commits that wait for `durable` without a thread.
#[derive(Default)]
pub(crate) struct Acks {
    waiting: Mutex<Waiting>,
    /// Commits that find no place wait here.
    freed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// By the last seqno of their group, and among those of one seqno by `nothings`: the group's own is the first.
    callbacks: BTreeMap<(u64, u64), Callback>,
    /// Empty commits until now.
    nothings: u64,
    /// Places that are taken: commits under way, callbacks here, and the one that is called.
    places: usize,
    /// Whether a call is asked for, or runs, that calls what is due.
    called: bool,
    /// Threads that wait for a place.
    parked: usize,
}

/// A place of a commit that has not been granted yet, and its callback. Dropped, nothing was committed,
/// and the callback is never called.
pub struct Told<'a> {
    acks: &'a Acks,
    done: Option<Callback>,
}

impl Told<'_> {
    /// Its group ends with `last`.
    pub fn granted(mut self, last: SeqNo) {
        if let Some(done) = self.done.take() {
            lock(&self.acks.waiting).callbacks.insert((last.0, 0), done);
        }
    }

    /// It has no group, and waits for the one that ends with `last`.
    pub(crate) fn behind(mut self, last: SeqNo) {
        if let Some(done) = self.done.take() {
            let mut waiting = lock(&self.acks.waiting);
            waiting.nothings += 1;
            let place = (last.0, waiting.nothings);
            waiting.callbacks.insert(place, done);
        }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if self.done.is_some() {
            self.acks.free();
        }
    }
}

impl std::fmt::Debug for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acks")
            .field("places", &self.places())
            .finish()
    }
}

impl Acks {
    /// Commits whose callbacks have not returned.
    pub fn places(&self) -> usize {
        lock(&self.waiting).places
    }

    /// A place is free.
    pub(crate) fn free(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.places -= 1;
        if waiting.parked > 0 {
            self.freed.notify_one();
        }
    }

    /// Whether a call must be asked for, which is noted.
    pub(crate) fn wants_call(&self, is_due: impl Fn(SeqNo) -> bool) -> bool {
        let mut waiting = lock(&self.waiting);
        !waiting.called && {
            waiting.called = waiting.is_due(is_due);
            waiting.called
        }
    }

    /// The next callback that can be called, and the last seqno of its group; or notes that none can (invariant 2).
    pub(crate) fn take(&self, is_due: impl Fn(SeqNo) -> bool) -> Option<(Callback, SeqNo)> {
        let mut waiting = lock(&self.waiting);
        if !waiting.is_due(is_due) {
            waiting.called = false;
            return None;
        }
        let ((last, _), callback) = waiting.callbacks.pop_first()?;
        Some((callback, SeqNo(last)))
    }

    /// A place for a commit that `done` is to be told of, if one is free.
    pub(crate) fn take_place(&self, done: Callback) -> std::result::Result<Told<'_>, Callback> {
        match lock(&self.waiting).try_take() {
            true => Ok(self.told(done)),
            false => Err(done),
        }
    }

    /// As [`Acks::take_place`], after a wait for one.
    pub(crate) fn wait_for_place(&self, done: Callback) -> std::result::Result<Told<'_>, Callback> {
        let mut waiting = lock(&self.waiting);
        if waiting.places >= WAITING_MAX {
            waiting.parked += 1;
            waiting = wait_for(&self.freed, waiting, LOOK_AGAIN);
            waiting.parked -= 1;
        }
        match waiting.try_take() {
            true => Ok(self.told(done)),
            false => Err(done),
        }
    }

    fn told(&self, done: Callback) -> Told<'_> {
        Told {
            acks: self,
            done: Some(done),
        }
    }

    /// Forgets the callback of a group that failed, unless it was told about that. It has its place until
    /// it is dropped.
    pub(crate) fn forget(&self, last: SeqNo) -> Option<Told<'_>> {
        let done = lock(&self.waiting).callbacks.remove(&(last.0, 0));
        done.map(|done| Told {
            acks: self,
            done: Some(done),
        })
    }
}

impl Waiting {
    /// Takes a place, unless all are taken.
    fn try_take(&mut self) -> bool {
        let free = self.places < WAITING_MAX;
        self.places += usize::from(free);
        free
    }

    fn is_due(&self, is_due: impl Fn(SeqNo) -> bool) -> bool {
        let first = self.callbacks.first_key_value();
        first.is_some_and(|((last, _), _)| is_due(SeqNo(*last)))
    }
}
