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
//! # Memory beside the indexes
//! Blocks that are cached, tables that are open, and what flushes work with are *charged*
//! ([`Account::charge`]): counted when they are made, for as long as the [`Charge`] lives. They get what
//! promises leave, and give way to promises: who needs room asks those who can give some back
//! ([`Evict`]), first of all accounts, then of his own.
//!
//! - **B4** Whenever a promise or a charge returns, what is held and what is charged are together at most
//!   the limit, of the budget and of the account. A promise raises `held` first and looks at `charged`
//!   after; a charge raises `charged` first and looks at `held` after; both sequentially consistent. So of
//!   two that want the same room at once one sees the other at least, and gives up or has others give way.
//!
//! Some of it can never be given back while its store is open: memory in which records lie (preset
//! `leveled`). It is *kept* ([`Account::charge_kept`]), and may be half of a budget at most, so that stores
//! that came first leave room for the indexes of all.
//!
//! With B3, what is used and what is charged are together at most the limit, at every moment. There are
//! two exceptions, which [`Account::over`] tells: what has to be done even where nothing can give way
//! ([`Account::charge_over`]: a flush, by which indexes become smaller; a table that is read and not kept);
//! and an account whose own limit was lowered, before its indexes are below that.
//!
//! # At the limits
//! - While a store is being opened nothing is promised: its indexes are rebuilt, and `take` itself asks
//!   the budget and fails where that is full. The store's own limit does not count then: a store
//!   whose limit was lowered must be opened to be helped.
//! - Should a promise have been too small, `take` goes over it, and over the limit if need be, rather
//!   than fail a write that was granted. [`Account::overdrawn`] says by how much; tests hold it at 0.
//! - The last sixteenth of either limit is left to writes that only delete.
//! - A store that is closed holds what it uses and no more, until its last reader has gone.

use std::fmt::Debug;
use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::size::format_size;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What several accounts draw on. See the module's text.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    held: AtomicU64,
    used: AtomicU64,
    charged: AtomicU64,
    /// Of what is charged, what nobody can give back.
    kept: AtomicU64,
    /// Who can give back of what is charged, in the order in which they are asked.
    evicting: Mutex<Vec<Weak<dyn Evict>>>,
}

/// What can give back memory that is charged, because it can get again what it kept there.
pub trait Evict: Debug + Send + Sync {
    /// Gives back about `bytes`, or all there is if that is less. Readers may keep some of it for a
    /// while. May be asked under any lock of a store.
    fn evict(&self, bytes: u64);
}

/// Memory beside the indexes, counted until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
    kept: bool,
}

impl Charge {
    /// Bytes that it counts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` from now on, if those are more; over the limits if need be, as
    /// [`Account::charge_over`].
    pub fn grow_over(&mut self, bytes: u64) {
        if bytes > self.bytes {
            let mut more = self.account.charge_over(bytes - self.bytes);
            self.bytes += std::mem::take(&mut more.bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.uncharge(self.bytes);
        if self.kept {
            self.account.budget.let_go_kept(self.bytes);
        }
    }
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
    charged: AtomicU64,
    over: AtomicU64,
    evicting: Mutex<Vec<Weak<dyn Evict>>>,
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

fn excess(held: &AtomicU64, charged: &AtomicU64, limit: u64) -> u64 {
    let charged = charged.load(Ordering::SeqCst);
    let both = held.load(Ordering::SeqCst).saturating_add(charged);
    both.saturating_sub(limit)
}

/// Adds to what is charged; `false`, and nothing is added, if that is too much (B4).
fn add_charge(held: &AtomicU64, charged: &AtomicU64, limit: u64, bytes: u64) -> bool {
    charged.fetch_add(bytes, Ordering::SeqCst);
    let fits = excess(held, charged, limit) == 0;
    if !fits {
        charged.fetch_sub(bytes, Ordering::SeqCst);
    }
    fits
}

fn add(evicting: &Mutex<Vec<Weak<dyn Evict>>>, who: Weak<dyn Evict>) {
    let mut all = lock(evicting);
    all.retain(|other| other.strong_count() > 0);
    all.push(who);
}

/// Has them give back until there is no excess, and somewhat more, so that not every small step asks
/// again. Returns whether there is none.
#[cold]
fn evict(evicting: &Mutex<Vec<Weak<dyn Evict>>>, excess: impl Fn() -> u64, limit: u64) -> bool {
    // Not under the lock: what goes may be the last of its store.
    let all = lock(evicting).clone();
    for who in all.iter().filter_map(Weak::upgrade) {
        match excess() {
            0 => return true,
            bytes => who.evict(bytes + limit / 64),
        }
    }
    excess() == 0
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
            charged: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            evicting: Mutex::default(),
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

    /// Bytes beside the indexes.
    pub fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// From now on `who` is asked to give back, after all who are asked already.
    pub fn add_evicting(&self, who: Weak<dyn Evict>) {
        add(&self.evicting, who);
    }

    /// As [`Budget::add_evicting`], before all who are asked already.
    pub fn add_evicting_first(&self, who: Weak<dyn Evict>) {
        lock(&self.evicting).insert(0, who);
    }

    /// Adds to what is held, if that then stays below `most` (B2).
    fn hold(&self, bytes: u64, most: u64) -> bool {
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= most);
        let (set, fetch) = (Ordering::SeqCst, Ordering::Relaxed);
        self.held.fetch_update(set, fetch, more).is_ok()
    }

    /// By how much what is held and charged is above the limit (B4).
    fn excess(&self) -> u64 {
        excess(&self.held, &self.charged, self.limit)
    }

    /// Counts what nobody can give back, if there is room.
    fn keep(&self, bytes: u64) -> bool {
        let most = self.limit / 2;
        let more = |kept: u64| kept.checked_add(bytes).filter(|&kept| kept <= most);
        // Relaxed: it guards nothing but itself.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.kept.fetch_update(set, fetch, more).is_ok()
    }

    fn let_go_kept(&self, bytes: u64) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
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
            charged: AtomicU64::new(0),
            over: AtomicU64::new(0),
            evicting: Mutex::default(),
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

    /// Bytes beside the indexes.
    pub fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// By how many bytes a limit was exceeded, at most, by what had to be done although nothing could
    /// give way; 0 unless `dram` is small.
    pub fn over(&self) -> u64 {
        self.over.load(Ordering::Relaxed)
    }

    /// From now on `who` is asked to give back where the account's own limit is in the way, after all
    /// who are asked already.
    pub fn add_evicting(&self, who: Weak<dyn Evict>) {
        add(&self.evicting, who);
    }

    /// Whether `bytes` more do not fit under the account's own limit.
    pub fn is_full(&self, bytes: u64) -> bool {
        let both = self.held().saturating_add(self.charged());
        both.saturating_add(bytes) > self.limit
    }

    fn excess(&self) -> u64 {
        excess(&self.held, &self.charged, self.limit)
    }

    /// Has whoever can give back do so, until both limits are kept (B4).
    fn make_room(&self) -> Result<(), Full> {
        let budget = &*self.budget;
        if budget.excess() > 0 && !evict(&budget.evicting, || budget.excess(), budget.limit) {
            return Err(Full::Budget);
        }
        if self.excess() > 0 && !evict(&self.evicting, || self.excess(), self.limit) {
            return Err(Full::Account);
        }
        Ok(())
    }

    /// Counts `bytes` beside the indexes, if there is room for them.
    pub fn charge(self: &Arc<Account>, bytes: u64) -> Option<Charge> {
        if !add_charge(&self.held, &self.charged, self.limit, bytes) {
            return None;
        }
        let budget = &self.budget;
        if !add_charge(&budget.held, &budget.charged, budget.limit, bytes) {
            self.charged.fetch_sub(bytes, Ordering::SeqCst);
            return None;
        }
        Some(self.charged_for(bytes))
    }

    /// As [`Account::charge`]; where there is no room others give way, if they can.
    pub fn charge_or_evict(self: &Arc<Account>, bytes: u64) -> Option<Charge> {
        if let Some(charge) = self.charge(bytes) {
            return Some(charge);
        }
        // In front, so that what others give back is for this.
        let charge = self.charge_blindly(bytes);
        match self.make_room() {
            Ok(()) => Some(charge),
            Err(_) => None,
        }
    }

    /// As [`Account::charge_or_evict`], of memory that nobody can give back: all of it in the budget is at
    /// most half of that.
    pub fn charge_kept(self: &Arc<Account>, bytes: u64) -> Option<Charge> {
        if !self.budget.keep(bytes) {
            return None;
        }
        match self.charge_or_evict(bytes) {
            Some(mut charge) => {
                charge.kept = true;
                Some(charge)
            }
            None => {
                self.budget.let_go_kept(bytes);
                None
            }
        }
    }

    /// As [`Account::charge_or_evict`], over the limits if need be.
    pub fn charge_over(self: &Arc<Account>, bytes: u64) -> Charge {
        if let Some(charge) = self.charge(bytes) {
            return charge;
        }
        let charge = self.charge_blindly(bytes);
        if self.make_room().is_err() {
            let over = self.excess().max(self.budget.excess());
            // The rest is a limit that was lowered.
            let over = over.min(self.charged());
            self.over.fetch_max(over, Ordering::Relaxed);
        }
        charge
    }

    fn charge_blindly(self: &Arc<Account>, bytes: u64) -> Charge {
        self.charged.fetch_add(bytes, Ordering::SeqCst);
        self.budget.charged.fetch_add(bytes, Ordering::SeqCst);
        self.charged_for(bytes)
    }

    fn charged_for(self: &Arc<Account>, bytes: u64) -> Charge {
        let account = self.clone();
        Charge {
            account,
            bytes,
            kept: false,
        }
    }

    fn uncharge(&self, bytes: u64) {
        self.charged.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.charged.fetch_sub(bytes, Ordering::SeqCst);
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
            if self.make_room() == Err(Full::Budget) {
                self.budget.let_go(more);
                return false;
            }
        } else {
            self.budget.held.fetch_add(more, Ordering::SeqCst);
            self.overdrawn.fetch_add(more, Ordering::Relaxed);
        }
        self.held.store(used, Ordering::SeqCst);
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
        self.held.store(bytes, Ordering::SeqCst);
        let made = self.make_room();
        if made.is_err() {
            self.hold_only(held);
        }
        made
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
