//! Acknowledging without a waiting thread: a commit that returns at once and tells later.
//!
//! Such a write is stored and indexed by the committing thread like a buffered one; its write-back is
//! shared with others, and when `durable` has passed it its callback is called, as the store's other
//! calls are (`runtime::strand`): by a courier, or without threads at the end of [`Engine::sync`] and
//! when the store is closed.
//!
//! # What waits is bounded
//! A callback must be called, so none is ever dropped. A commit takes a *place* before anything has
//! happened, and its place is free when its callback has returned; there are [`WAITING_MAX`]. Whoever
//! finds none waits, with two exceptions, which are refused: who asked not to wait, and who is in a call
//! of the user's already, of whatever store. The callbacks that it would wait for may be behind that
//! call, or behind one that waits for it. So calls never wait for calls, and who waits holds up nobody.
//!
//! Whoever waits makes durable itself what is visible, and makes the calls where no courier can. Thus it
//! depends on nothing but callbacks that return.
//!
//! # Invariants
//! 1. A callback is on the list before its group finishes. So whoever has drained the ring, as closing
//!    does, finds it there.
//! 2. They are called one at a time, in the order of their seqnos, and under no lock: in calls of the store,
//!    of which at most one waits or runs at a time for this (`called`). It gives that up under the lock under which
//!    it found nothing due; who makes something due looks for it after that, under the same lock.
//! 3. Each is called once, with the outcome; if it panics, the others are called all the same.
//!
//! # Rejected
//! *Refusing all who find no place*, as it was: whoever commits faster than the device for a moment would have
//! to wait by itself, with nothing to wait for.
//!
//! [`Engine::sync`]: crate::Engine::sync

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use thermocline_base::{BatchEntry, Error, Result, SeqNo};
use thermocline_memtable::item_bytes;
use thermocline_observe::events::Courier;
use thermocline_observe::stall::StallCause;
use thermocline_runtime::is_calling;

use crate::commit::carry::Durability;
use crate::commit::submit::{WriteOptions, only_deletes};
use crate::store::{Engine, Inner};
use crate::sync::{Condvar, Mutex, Ordering, lock, wait_for};

/// Called once, with the outcome of a commit.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// Most commits of a store whose callbacks have not returned.
pub(crate) const WAITING_MAX: usize = 1 << 16;

/// Callbacks after which a call ends, and other calls of the store have their turn.
const CALLED_AT_ONCE: usize = 64;

/// After this time whoever waits for a place looks again, though nobody said so: the system may have
/// given no courier.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Commits that wait for `durable` without a thread.
#[derive(Default)]
pub(crate) struct Acks {
    waiting: Mutex<Waiting>,
    /// Who finds no place waits here.
    freed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// By the last seqno of their group.
    callbacks: BTreeMap<u64, Callback>,
    /// Places that are taken: commits under way, callbacks here, and the one that is called.
    places: usize,
    /// Whether a call is asked for, or runs, that calls what is due.
    called: bool,
    /// Threads that wait for a place.
    parked: usize,
}

/// A place of a commit that has not been granted yet, and its callback. Dropped, nothing was committed,
/// and the callback is never called.
pub(crate) struct Told<'a> {
    acks: &'a Acks,
    done: Option<Callback>,
}

impl Told<'_> {
    /// Its group ends with `last`.
    pub fn granted(mut self, last: SeqNo) {
        if let Some(done) = self.done.take() {
            lock(&self.acks.waiting).callbacks.insert(last.0, done);
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
    fn free(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.places -= 1;
        if waiting.parked > 0 {
            self.freed.notify_one();
        }
    }

    /// Whether a call must be asked for, which is noted.
    fn wants_call(&self, inner: &Inner) -> bool {
        let mut waiting = lock(&self.waiting);
        !waiting.called && {
            waiting.called = waiting.is_due(inner);
            waiting.called
        }
    }

    /// The next callback that can be called, and what it is to be told; or notes that none can (invariant 2).
    fn take(&self, inner: &Inner) -> Option<(Callback, Result<()>)> {
        let mut waiting = lock(&self.waiting);
        if !waiting.is_due(inner) {
            waiting.called = false;
            return None;
        }
        let (last, callback) = waiting.callbacks.pop_first()?;
        let result = match last <= inner.ring.durable() {
            true => Ok(()),
            false => inner.poison.check(),
        };
        Some((callback, result))
    }

    /// Forgets the callback of a group that failed, unless it was told about that. It has its place until
    /// it is dropped.
    fn forget(&self, last: SeqNo) -> Option<Told<'_>> {
        let done = lock(&self.waiting).callbacks.remove(&last.0);
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

    fn is_due(&self, inner: &Inner) -> bool {
        let first = self.callbacks.first_key_value().map(|(last, _)| *last);
        first.is_some_and(|last| last <= inner.ring.durable() || inner.poison.check().is_err())
    }
}

impl Inner {
    /// Has the callbacks called of what is durable by now, or of all if the store is poisoned. May be
    /// asked for under any lock.
    pub fn tell_commits(&self) {
        if self.acks.wants_call(self) {
            self.ask_for_callbacks();
        }
    }

    fn ask_for_callbacks(&self) {
        let me = self.me.clone();
        self.background.run(Box::new(move || {
            if let Some(inner) = me.upgrade() {
                inner.call_back();
            }
        }));
    }

    /// A call: callbacks that are due, and another call for more of them.
    fn call_back(&self) {
        for _ in 0..CALLED_AT_ONCE {
            let Some((callback, result)) = self.acks.take(self) else {
                return;
            };
            // Its panic has been reported by its hook.
            if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
                self.background.count_panic();
            }
            self.acks.free();
        }
        self.ask_for_callbacks();
    }

    /// A place for a commit, before anything has happened.
    fn take_place(&self, no_slowdown: bool, done: Callback) -> Result<Told<'_>> {
        let taken = lock(&self.acks.waiting).try_take();
        if !taken {
            self.wait_for_place(no_slowdown)?;
        }
        Ok(Told {
            acks: &self.acks,
            done: Some(done),
        })
    }

    #[cold]
    fn wait_for_place(&self, no_slowdown: bool) -> Result<()> {
        if no_slowdown || is_calling() {
            let why = match no_slowdown {
                true => "it asked not to wait",
                false => "in a callback or listener it must not wait for others",
            };
            return Err(Error::Busy(format!(
                "{WAITING_MAX} commits wait for their callbacks, and {why}; commit slower, or make callbacks \
                 quicker"
            )));
        }
        let begun = self.now_ns();
        loop {
            // What they wait for, whoever has no time for it.
            self.sync_up_to(SeqNo(self.ring.visible()))?;
            self.tell_commits();
            self.background.settle();
            self.check_writable()?;
            let mut waiting = lock(&self.acks.waiting);
            if waiting.places >= WAITING_MAX {
                waiting.parked += 1;
                waiting = wait_for(&self.acks.freed, waiting, LOOK_AGAIN);
                waiting.parked -= 1;
            }
            if waiting.try_take() {
                break;
            }
        }
        self.stalls.held_up(StallCause::Callbacks, begun);
        Ok(())
    }
}

impl Engine {
    /// Applies `entries` as one: visible together on return, durable when `done` is called with the
    /// outcome, by a thread of the runtime's. If 65,536 commits of the store wait for their callbacks, it
    /// waits for one of those.
    ///
    /// # Errors
    /// As [`Engine::write`], and then `done` is never called; [`Error::Busy`] where it would wait for
    /// callbacks and `no_slowdown` is true, or this is a callback or listener itself.
    pub fn write_with_callback<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        no_slowdown: bool,
        done: Callback,
    ) -> Result<()> {
        let inner = &*self.inner;
        let _settled = inner.background.settled_after();
        inner.check_writable()?;
        if entries.len() == 0 {
            done(Ok(()));
            return Ok(());
        }
        let told = inner.take_place(no_slowdown, done)?;
        let bytes = item_bytes(entries.clone());
        let Some(separated) = inner.separate(entries.clone(), bytes, no_slowdown)? else {
            return self.write_told(entries, bytes, no_slowdown, told);
        };
        let written = {
            let (entries, bytes) = separated.entries(entries);
            self.write_told(entries.into_iter(), bytes, no_slowdown, told)
        };
        drop(separated);
        if written.is_err() {
            inner.discard_blobs();
        }
        written
    }

    /// As [`Engine::write_with_callback`], for a batch that is not empty and without long values.
    fn write_told<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        no_slowdown: bool,
        told: Told<'_>,
    ) -> Result<()> {
        let inner = &*self.inner;
        let options = WriteOptions {
            durability: Durability::Buffered,
            no_slowdown,
        };
        if inner.is_oversized(entries.len(), bytes) {
            inner.hold_back(bytes, no_slowdown, || only_deletes(entries.clone()))?;
            self.write_staged(entries, bytes, options, Some(told))?;
            inner.wrote(true);
            self.have_told();
            return Ok(());
        }
        inner.hold_back(bytes, no_slowdown, || only_deletes(entries.clone()))?;
        let granted = self.grant(entries.clone(), bytes, options)?;
        let last = granted.group.last;
        told.granted(last);
        if let Err(error) = inner.carry(&granted.group, entries, options.durability) {
            // Whoever called the callback has told about it.
            let untold = inner.acks.forget(last);
            return match untold {
                Some(_) => Err(error),
                None => Ok(()),
            };
        }
        // An error is told to the callback.
        let _ = inner.acknowledge(last, options.durability);
        inner.wrote(granted.due);
        self.have_told();
        Ok(())
    }

    /// Lets a worker write back, and then the callback be called.
    fn have_told(&self) {
        self.request_sync();
        if self.inner.closed.load(Ordering::Acquire) {
            // No worker comes any more. A failed store was closed beside this write, which must be told.
            self.inner.tell_commits();
        }
    }
}
