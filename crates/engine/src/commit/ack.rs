//! Acknowledging without a waiting thread: a commit that returns at once and tells later.
//!
//! Such a write is stored and indexed by the committing thread like a buffered one; what is left, the
//! write-back, is done for all of them together by the store's own thread, which then runs their
//! callbacks, in the order of their seqnos and under no lock. Without a thread [`Engine::sync`] does.
//!
//! [`Engine::sync`]: crate::Engine::sync

use std::collections::BTreeMap;

use thermocline_base::{BatchEntry, Result};

use crate::commit::carry::Durability;
use crate::commit::submit::WriteOptions;
use crate::store::{Engine, Inner};
use crate::sync::{Mutex, lock};

/// Called once, with the outcome of a commit.
pub type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// Commits that wait for `durable` without a thread.
#[derive(Default)]
pub(crate) struct Acks {
    waiting: Mutex<BTreeMap<u64, Callback>>,
}

impl std::fmt::Debug for Acks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = lock(&self.waiting).len();
        f.debug_struct("Acks").field("waiting", &waiting).finish()
    }
}

impl Acks {
    /// Runs the callbacks of what is durable by now, or of all if the store is poisoned.
    pub fn run(&self, inner: &Inner) {
        let poisoned = inner.poison.check().is_err();
        let durable = inner.ring.durable();
        let ready = {
            let mut waiting = lock(&self.waiting);
            let later = if poisoned {
                BTreeMap::new()
            } else {
                waiting.split_off(&(durable + 1))
            };
            std::mem::replace(&mut *waiting, later)
        };
        for (last, callback) in ready {
            let result = if last <= durable {
                Ok(())
            } else {
                inner.poison.check()
            };
            callback(result);
        }
    }
}

impl Engine {
    /// Applies `entries` as one: visible together on return, durable when `done` is called with the
    /// outcome, by a thread of the store's.
    ///
    /// # Errors
    /// As [`Engine::write`], and then `done` is never called.
    pub fn write_with_callback<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        no_slowdown: bool,
        done: Callback,
    ) -> Result<()> {
        let inner = &*self.inner;
        if entries.len() == 0 {
            inner.check_writable()?;
            done(Ok(()));
            return Ok(());
        }
        let mode = WriteOptions {
            durability: Durability::Buffered,
            no_slowdown,
        };
        let last = self.write_unacknowledged(entries, mode)?;
        lock(&inner.acks.waiting).insert(last.0, done);
        self.request_sync();
        Ok(())
    }
}
