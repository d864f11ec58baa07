//! Budgets of DRAM: what a store may use, and what all stores of a process may use together.
//!
//! An [`Account`] is a store's, a [`Budget`] is what several accounts draw on. Memory is counted where
//! it is taken from the system ([`Account::take`]), in whatever pieces that happens. A write must not
//! fail once it was granted its place, so memory is *promised* before ([`Account::promise`]): the
//! store says how many bytes it will use at most, all its memory together, when every write that it
//! has let through is done.
//!
//! # Why two stores never spend the same room
//! An account *holds* room, at least what it uses; the budget counts what all of them hold.
//!
//! - **B1** The budget's `held` is the sum of all accounts' `held`: it changes by the same amount, before
//!   the account's is raised and after the account's is lowered.
//! - **B2** A promise raises the budget's `held` by compare-exchange, and only up to the limit. So of two
//!   stores that want the last room one gets it, before either has used a byte of it.
//! - **B3** `used` ≤ `held` in every account. `take` raises `used`, and stays below what was promised, as
//!   long as the promise was no lie. `held` is lowered only by the next promise, which again covers
//!   all that is used and all writes that are under way, or by [`Account::settle`], when there are none.
//!
//! Together: the sum of all `used` is at most the sum of all `held`, which is at most the limit.
//!
//! Memory that is given back does not lower `held` at once: the promise was "at most so much in all", and
//! a write under way may take again what another gave back.
//!
//! # What a promise costs others
//! A store that promises for many writes ahead keeps others from room that it may never use. So it does
//! that only with a small share of the room that is free ([`Account::has_ample_room_for`]), and gives the rest
//! back when it falls idle.
//!
//! # At the limits
//! - While a store is being opened nothing is promised: its indexes are rebuilt, and `take` itself asks
//!   the budget and fails where that is full. The store's own limit does not count then: a store
//!   whose limit was lowered must be opened to be helped.
//! - Should a promise have been too small, `take` goes over it, and over the limit if need be, rather
//!   than fail a write that was granted. [`Account::overdrawn`] says by how much; tests hold it at 0.
//! - The last sixteenth of either limit is left to writes that only delete.
//! - A store that is closed holds what it uses and no more, until its last reader has gone.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::size::format_size;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What several accounts draw on. See the module's text.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    held: AtomicU64,
    used: AtomicU64,
}

/// One store's part of a budget, and its own limit.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    limit: u64,
    used: AtomicU64,
    /// Changed under `stage` only.
    held: AtomicU64,
    overdrawn: AtomicU64,
    stage: Mutex<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    Closed,
}

/// How far a limit may be used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spare {
    /// The last sixteenth stays free.
    Keep,
    /// For writes that only delete.
    Use,
}

/// Which limit has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The account's own.
    Account,
    /// The one of all accounts together.
    Budget,
}

fn room(limit: u64, spare: Spare) -> u64 {
    match spare {
        Spare::Keep => limit - limit / 16,
        Spare::Use => limit,
    }
}

impl Budget {
    /// A budget of `limit` bytes; `u64::MAX` is no limit.
    pub fn new(limit: u64) -> Arc<Budget> {
        Arc::new(Budget {
            limit,
            held: AtomicU64::new(0),
            used: AtomicU64::new(0),
        })
    }

    /// Most bytes that all accounts hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes in use or promised.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Adds to what is held, if that then stays below `most` (B2). Relaxed: the numbers guard nothing
    /// but each other.
    fn hold(&self, bytes: u64, most: u64) -> bool {
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= most);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.held.fetch_update(set, fetch, more).is_ok()
    }

    fn let_go(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Account {
    /// An account with a limit of its own, of a store that is being opened.
    pub fn new(budget: Arc<Budget>, limit: u64) -> Arc<Account> {
        Arc::new(Account {
            budget,
            limit,
            used: AtomicU64::new(0),
            held: AtomicU64::new(0),
            overdrawn: AtomicU64::new(0),
            stage: Mutex::new(Stage::Opening),
        })
    }

    /// The budget that it draws on.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes in use or promised.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// By how many bytes promises were too small; 0 unless something is wrong.
    pub fn overdrawn(&self) -> u64 {
        self.overdrawn.load(Ordering::Relaxed)
    }

    /// Counts `bytes` that are about to be taken from the system.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] naming the budget, while the store is being opened; nothing is counted
    /// then.
    pub fn take(&self, bytes: u64) -> Result<()> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        if used <= self.held.load(Ordering::Relaxed) || self.cover() {
            return Ok(());
        }
        self.give(bytes);
        Err(self.full(Full::Budget, "opening this store"))
    }

    /// Holds what is used, beyond any promise. False if that cannot be and need not be.
    #[cold]
    fn cover(&self) -> bool {
        let stage = lock(&self.stage);
        let (used, held) = (self.used(), self.held());
        let Some(more) = used.checked_sub(held) else {
            return true;
        };
        if *stage == Stage::Opening {
            if !self.budget.hold(more, self.budget.limit) {
                return false;
            }
        } else {
            self.budget.held.fetch_add(more, Ordering::Relaxed);
            self.overdrawn.fetch_add(more, Ordering::Relaxed);
        }
        self.held.store(used, Ordering::Relaxed);
        true
    }

    /// Counts `bytes` that were given back to the system.
    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
        // A closed account takes nothing any more, so this needs no lock to be right; and an open
        // one must not lower what it holds here (B3).
        let stage = lock(&self.stage);
        if *stage == Stage::Closed {
            self.hold_only(self.used());
        }
    }

    /// Lowers what is held to `bytes`. The caller has the lock.
    fn hold_only(&self, bytes: u64) {
        let held = self.held();
        if bytes < held {
            self.held.store(bytes, Ordering::Relaxed);
            self.budget.let_go(held - bytes);
        }
    }

    /// Promises that at most `bytes` will be in use, what is in use now and all writes under way
    /// included, and takes the room for that, or gives back what an earlier promise had beyond it.
    ///
    /// # Errors
    /// Which limit is in the way; the earlier promise stands then.
    pub fn promise(&self, bytes: u64, spare: Spare) -> Result<(), Full> {
        if bytes > room(self.limit, spare) {
            return Err(Full::Account);
        }
        let _stage = lock(&self.stage);
        let held = self.held();
        if bytes <= held {
            self.hold_only(bytes.max(self.used()));
            return Ok(());
        }
        if !self
            .budget
            .hold(bytes - held, room(self.budget.limit, spare))
        {
            return Err(Full::Budget);
        }
        self.held.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a promise of `bytes` would leave either limit with room to spare, and other stores seven
    /// eighths of what is free: whether it may be for writes that may never come.
    pub fn has_ample_room_for(&self, bytes: u64) -> bool {
        let free = room(self.budget.limit, Spare::Keep).saturating_sub(self.budget.held());
        bytes <= room(self.limit, Spare::Keep) && bytes.saturating_sub(self.held()) <= free / 8
    }

    /// The store is open: from here on memory is promised before it is taken.
    pub fn opened(&self) {
        *lock(&self.stage) = Stage::Open;
    }

    /// Gives up what was promised beyond what is in use. No write is under way.
    pub fn settle(&self) {
        let _stage = lock(&self.stage);
        self.hold_only(self.used());
    }

    /// The store is closed: there will be no write any more.
    pub fn close(&self) {
        let mut stage = lock(&self.stage);
        *stage = Stage::Closed;
        self.hold_only(self.used());
    }

    /// The error for `what`, which a limit has no room for.
    #[cold]
    pub fn full(&self, limit: Full, what: &str) -> Error {
        Error::OutOfSpace(match limit {
            Full::Account => format!(
                "the index in DRAM has {} of the {} that dram allows, and {what} might exceed it; \
                 raise dram",
                format_size(self.used()),
                format_size(self.limit)
            ),
            Full::Budget => format!(
                "the indexes in DRAM of all stores in this runtime have {} of the {} that the \
                 runtime's dram allows ({} with what is promised to writes), and {what} might \
                 exceed it; raise the runtime's dram, or close stores",
                format_size(self.budget.used()),
                format_size(self.budget.limit),
                format_size(self.budget.held())
            ),
        })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let used = self.used();
        self.budget.used.fetch_sub(used, Ordering::Relaxed);
        self.budget.let_go(self.held());
    }
}

#[cfg(test)]
mod tests;
