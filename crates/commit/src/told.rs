//! Commits that return before they are durable, and tell later.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_base::{Error, Result, SeqNo};

use crate::ack::{Callback, Told, WAITING_MAX};
use crate::env::{CommitEnv, Durability, Entries, WriteOptions};
use crate::pipeline::Commits;

/// Callbacks after which a call ends, and other calls of the store have their turn.
const CALLED_AT_ONCE: usize = 64;

impl Commits {
    /// Writes with the callback of `told`, which is taken when it is granted, and returns when it is visible, and whether it is
    /// durable, too. If not, nobody writes back for it: the caller sees to that, and in any case to the callback.
    ///
    /// One that is large by itself is persisted by this thread, beside others (the [crate's text](crate) has more). It does not
    /// wait until those before it are durable.
    ///
    /// # Errors
    /// As [`Commits::write`], and then the callback is never called. If `told` is left there, nothing has happened.
    pub fn write_told<'a>(
        &self,
        env: &impl CommitEnv,
        entries: impl Entries<'a>,
        (bytes, no_slowdown): (u64, bool),
        told: &mut Option<Told<'_>>,
    ) -> Result<bool> {
        let mode = WriteOptions {
            durability: Durability::Buffered,
            no_slowdown,
        };
        env.admit(entries.clone(), bytes, no_slowdown)?;
        let reserved = env.reserve(entries.clone(), bytes, mode)?;
        let last = reserved.group.last;
        if let Some(told) = told.take() {
            told.granted(last);
        }
        let durability = self.durability_of(mode.durability, bytes);
        if let Err(error) = self.carry(env, reserved.group, entries, durability) {
            self.untold(last, error)?;
            return Ok(false);
        }
        // An error is told to the callback.
        match durability {
            Durability::Immediate => {
                let _is_seen = self.ring.wait_visible(last.0);
            }
            Durability::Buffered => {
                let _ = self.acknowledge(env, last, durability);
            }
        }
        env.wrote(reserved.due);
        Ok(self.is_durable(last))
    }

    /// Whether everything up to `last` is durable.
    pub fn is_durable(&self, last: SeqNo) -> bool {
        last.0 <= self.ring.durable()
    }

    /// What the caller hears whose group, which ends with `last` and has a callback, has failed with `error`: that, and then the
    /// callback is never called; or nothing, if it was called already and has told the outcome.
    ///
    /// # Errors
    /// `error`.
    pub fn untold(&self, last: SeqNo, error: Error) -> Result<()> {
        match self.acks.forget(last) {
            Some(_) => Err(error),
            None => Ok(()),
        }
    }

    /// An empty commit: `told` is called when everything that is visible now is durable. Returns whether it is durable
    /// already; if not, the caller makes it so, and in any case sees to the callback.
    pub fn write_nothing(&self, told: Told<'_>) -> bool {
        let last = SeqNo(self.ring.visible());
        told.behind(last);
        self.is_durable(last)
    }

    /// Commits whose callbacks have not returned.
    pub fn places(&self) -> usize {
        self.acks.places()
    }

    /// Has the callbacks called of what is durable by now, or of all if the store is poisoned. May be
    /// asked for under any lock.
    pub fn tell(&self, env: &impl CommitEnv) {
        if self.acks.wants_call(|last| self.is_due(env, last)) {
            env.call_later();
        }
    }

    /// A call: callbacks that are due, and another call for more of them.
    pub fn call_back(&self, env: &impl CommitEnv) {
        for _ in 0..CALLED_AT_ONCE {
            let Some((callback, last)) = self.acks.take(|last| self.is_due(env, last)) else {
                return;
            };
            let result = match self.is_durable(last) {
                true => Ok(()),
                false => env.check_poison(),
            };
            // Its panic has been reported by its hook.
            if catch_unwind(AssertUnwindSafe(|| callback(result))).is_err() {
                env.count_panic();
            }
            self.acks.free();
        }
        env.call_later();
    }

    /// Whether the callback of a group that ends with `last` can be called.
    fn is_due(&self, env: &impl CommitEnv, last: SeqNo) -> bool {
        self.is_durable(last) || env.check_poison().is_err()
    }

    /// A place for a commit that `done` is to be told of, before anything has happened.
    ///
    /// # Errors
    /// [`Error::Busy`] where all are taken and it must not wait; those of the store.
    pub fn take_place(
        &self,
        env: &impl CommitEnv,
        no_slowdown: bool,
        done: Callback,
    ) -> Result<Told<'_>> {
        match self.acks.take_place(done) {
            Ok(told) => Ok(told),
            Err(done) => self.wait_for_place(env, no_slowdown, done),
        }
    }

    #[cold]
    fn wait_for_place(
        &self,
        env: &impl CommitEnv,
        no_slowdown: bool,
        mut done: Callback,
    ) -> Result<Told<'_>> {
        if no_slowdown || env.is_in_call() {
            let why = match no_slowdown {
                true => "it asked not to wait",
                false => "in a callback or listener it must not wait for others",
            };
            return Err(Error::Busy(format!(
                "{WAITING_MAX} commits wait for their callbacks, and {why}; commit slower, or make callbacks \
                 quicker"
            )));
        }
        let begun = env.now_ns();
        let told = loop {
            // The callbacks wait for this, and another thread may have no time for it.
            self.sync_up_to(env, SeqNo(self.ring.visible()))?;
            self.tell(env);
            env.settle();
            env.check()?;
            done = match self.acks.wait_for_place(done) {
                Ok(told) => break told,
                Err(done) => done,
            };
        };
        env.waited_for_callbacks(begun);
        Ok(told)
    }
}
