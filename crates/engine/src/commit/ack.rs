//! Acknowledging without a waiting thread: a commit that returns at once and tells later.
//!
//! Such a write is stored and indexed by the committing thread like a buffered one; its write-back is
//! shared with others, and when `durable` has passed it the store's own thread calls its callback.
//! Without a thread of its own the store does so in [`Engine::sync`] and when it is closed.
//!
//! # Invariants
//! 1. A callback is on the list before its group finishes. So whoever has drained the ring, as closing
//!    does, finds it there.
//! 2. One thread at a time calls them, in the order of their seqnos, and under no lock. Another that
//!    comes meanwhile leaves its share to the one who is at it, as in the ring (`ring`): both look again
//!    after they have given up the turn.
//! 3. Each is called once, with the outcome; if it panics, the others are called all the same.
//!
//! [`Engine::sync`]: crate::Engine::sync

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_base::{BatchEntry, Error, Result};
use thermocline_memtable::item_bytes;

use crate::commit::carry::Durability;
use crate::commit::submit::{WriteOptions, only_deletes};
use crate::store::{Engine, Inner};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// Called once, with the outcome of a commit.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// Most commits that may wait for their callbacks. Past it a commit is refused: the callbacks, or the
/// device, are slower than whoever commits.
const WAITING_MAX: usize = 1 << 16;

/// Commits that wait for `durable` without a thread.
#[derive(Default)]
pub(crate) struct Acks {
    pub waiting: Mutex<BTreeMap<u64, Callback>>,
    /// Whether a thread calls callbacks.
    running: AtomicBool,
}

impl std::fmt::Debug for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = lock(&self.waiting).len();
        f.debug_struct("Acks").field("waiting", &waiting).finish()
    }
}

impl Acks {
    /// Calls the callbacks of what is durable by now, or of all if the store is poisoned.
    pub fn run(&self, inner: &Inner) {
        while self.is_due(inner) && !self.running.swap(true, Ordering::AcqRel) {
            let turn = Turn(self);
            while let Some((callback, result)) = self.take(inner) {
                // Its panic has been reported by its hook.
                let _ = catch_unwind(AssertUnwindSafe(|| callback(result)));
            }
            drop(turn);
        }
    }

    fn is_due(&self, inner: &Inner) -> bool {
        let first = lock(&self.waiting).first_key_value().map(|(last, _)| *last);
        first.is_some_and(|last| last <= inner.ring.durable() || inner.poison.check().is_err())
    }

    /// The next callback that can be called, and what it is to be told.
    fn take(&self, inner: &Inner) -> Option<(Callback, Result<()>)> {
        let mut waiting = lock(&self.waiting);
        let entry = waiting.first_entry()?;
        let result = if *entry.key() <= inner.ring.durable() {
            Ok(())
        } else {
            Err(inner.poison.check().err()?)
        };
        Some((entry.remove(), result))
    }
}

/// The turn to call callbacks.
struct Turn<'a>(&'a Acks);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.running.swap(false, Ordering::AcqRel);
    }
}

impl Engine {
    /// Applies `entries` as one: visible together on return, durable when `done` is called with the
    /// outcome, by a thread of the store's.
    ///
    /// # Errors
    /// As [`Engine::write`], and then `done` is never called; [`Error::Busy`] if 65,536 commits wait
    /// for their callbacks.
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
        if lock(&inner.acks.waiting).len() >= WAITING_MAX {
            return Err(Error::Busy(format!(
                "{WAITING_MAX} commits wait for their callbacks; commit slower, or make them quicker"
            )));
        }
        let bytes = item_bytes(entries.clone());
        let Some(separated) = inner.separate(entries.clone(), bytes, no_slowdown)? else {
            return self.write_told(entries, bytes, no_slowdown, done);
        };
        let written = {
            let (entries, bytes) = separated.entries(entries);
            self.write_told(entries.into_iter(), bytes, no_slowdown, done)
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
        done: Callback,
    ) -> Result<()> {
        let inner = &*self.inner;
        let options = WriteOptions {
            durability: Durability::Buffered,
            no_slowdown,
        };
        if inner.is_oversized(entries.len(), bytes) {
            inner.hold_back(bytes, no_slowdown, || only_deletes(entries.clone()))?;
            self.write_staged(entries, bytes, options, Some(done))?;
            inner.wrote(true);
            self.request_sync();
            return Ok(());
        }
        inner.hold_back(bytes, no_slowdown, || only_deletes(entries.clone()))?;
        let granted = self.grant(entries.clone(), bytes, options)?;
        let last = granted.group.last;
        lock(&inner.acks.waiting).insert(last.0, done);
        if let Err(error) = inner.carry(&granted.group, entries, options.durability) {
            // Whoever called the callback has told about it.
            let untold = lock(&inner.acks.waiting).remove(&last.0).is_some();
            return if untold { Err(error) } else { Ok(()) };
        }
        // An error is told to the callback.
        let _ = inner.acknowledge(last, options.durability);
        inner.wrote(granted.due);
        self.request_sync();
        Ok(())
    }
}
