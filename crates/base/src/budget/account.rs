//! One store's part of a budget.

use std::sync::{Arc, Weak};

use crate::budget::limit::{Full, Spare, room};
use crate::budget::shared::Budget;
use crate::budget::tally::{Evict, Tally};
use crate::error::{Error, Result};
use crate::size::format_size;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Memory beside the indexes, counted until this is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
    /// Of those, the bytes that nobody can give back. What the charge grows by later is not among them.
    kept: u64,
}

impl Charge {
    /// Bytes that the charge counts.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts `bytes` from now on, if that is more than now; over the limits if need be, as [`Account::charge_over`].
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
        if self.kept > 0 {
            self.account.budget.let_go_kept(self.kept);
        }
    }
}

/// One store's part of a budget, and its own limit.
#[derive(Debug)]
pub struct Account {
    budget: Arc<Budget>,
    /// Held bytes change under `stage` only.
    tally: Tally,
    overdrawn: AtomicU64,
    over: AtomicU64,
    stage: Mutex<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    Closed,
}

impl Account {
    /// An account with a limit of its own, of a store that is being opened.
    pub fn new(budget: Arc<Budget>, limit: u64) -> Arc<Account> {
        Arc::new(Account {
            budget,
            tally: Tally::new(limit),
            overdrawn: AtomicU64::new(0),
            over: AtomicU64::new(0),
            stage: Mutex::new(Stage::Opening),
        })
    }

    /// The budget that it draws on.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.tally.used()
    }

    /// Bytes in use or promised.
    pub fn held(&self) -> u64 {
        self.tally.held()
    }

    /// By how many bytes promises were too small; 0 unless something is wrong.
    pub fn overdrawn(&self) -> u64 {
        self.overdrawn.load(Ordering::Relaxed)
    }

    /// Bytes beside the indexes.
    pub fn charged(&self) -> u64 {
        self.tally.charged()
    }

    /// By how many bytes, at most, a limit was exceeded by work that had to be done although nothing could give way;
    /// 0 unless `dram` is small.
    pub fn over(&self) -> u64 {
        self.over.load(Ordering::Relaxed)
    }

    /// Has `who` asked to give back from now on when the account's own limit is in the way, after the holders that
    /// are asked already.
    pub fn add_evicting(&self, who: Weak<dyn Evict>) {
        self.tally.add_evicting(who);
    }

    /// Whether `bytes` more do not fit under the account's own limit.
    pub fn is_full(&self, bytes: u64) -> bool {
        let both = self.held().saturating_add(self.charged());
        both.saturating_add(bytes) > self.tally.limit()
    }

    /// Whether `bytes` beyond those in use fit under the account's own limit: what was promised is among both.
    pub fn fits_beside_used(&self, bytes: u64) -> bool {
        let both = self.used().saturating_add(self.charged());
        both.saturating_add(bytes) <= self.tally.limit()
    }

    /// Has holders give back, until both limits are kept (B4).
    fn make_room(&self) -> Result<(), Full> {
        match () {
            () if !self.budget.tally.make_room() => Err(Full::Budget),
            () if !self.tally.make_room() => Err(Full::Account),
            () => Ok(()),
        }
    }

    /// Counts `bytes` beside the indexes, if there is room for them.
    pub fn charge(self: &Arc<Account>, bytes: u64) -> Option<Charge> {
        if !self.tally.charge(bytes) {
            return None;
        }
        if !self.budget.tally.charge(bytes) {
            self.tally.uncharge(bytes);
            return None;
        }
        Some(self.charged_for(bytes))
    }

    /// As [`Account::charge`]. If there is no room, other holders give way, if they can.
    pub fn charge_or_evict(self: &Arc<Account>, bytes: u64) -> Option<Charge> {
        if let Some(charge) = self.charge(bytes) {
            return Some(charge);
        }
        // Charged first, so that the room that others give back is for this.
        let charge = self.charge_blindly(bytes);
        match self.make_room() {
            Ok(()) => Some(charge),
            Err(_) => None,
        }
    }

    /// As [`Account::charge_or_evict`], for memory that nobody can give back. All such memory together is at most
    /// half of the budget.
    pub fn charge_kept(self: &Arc<Account>, bytes: u64) -> Option<Charge> {
        if !self.budget.keep(bytes) {
            return None;
        }
        match self.charge_or_evict(bytes) {
            Some(mut charge) => {
                charge.kept = bytes;
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
            let over = self.tally.excess().max(self.budget.tally.excess());
            // The rest comes from a limit that was lowered.
            let over = over.min(self.charged());
            self.over.fetch_max(over, Ordering::Relaxed);
        }
        charge
    }

    fn charge_blindly(self: &Arc<Account>, bytes: u64) -> Charge {
        self.tally.charge_over(bytes);
        self.budget.tally.charge_over(bytes);
        self.charged_for(bytes)
    }

    fn charged_for(self: &Arc<Account>, bytes: u64) -> Charge {
        let account = self.clone();
        Charge {
            account,
            bytes,
            kept: 0,
        }
    }

    fn uncharge(&self, bytes: u64) {
        self.tally.uncharge(bytes);
        self.budget.tally.uncharge(bytes);
    }

    /// Counts `bytes` that are about to be taken from the system.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] naming the budget, while the store is being opened; nothing is counted
    /// then.
    pub fn take(&self, bytes: u64) -> Result<()> {
        let used = self.tally.add_used(bytes);
        self.budget.tally.add_used(bytes);
        if used <= self.held() || self.cover() {
            return Ok(());
        }
        self.give(bytes);
        Err(self.full(Full::Budget, "opening this store"))
    }

    /// Holds the used bytes, beyond any promise. False if that cannot be and need not be.
    #[cold]
    fn cover(&self) -> bool {
        let stage = lock(&self.stage);
        let (used, held) = (self.used(), self.held());
        let Some(more) = used.checked_sub(held) else {
            return true;
        };
        if *stage == Stage::Opening {
            if !self.budget.tally.hold(more, self.budget.limit()) {
                return false;
            }
            if self.make_room() == Err(Full::Budget) {
                self.budget.tally.let_go(more);
                return false;
            }
        } else {
            self.budget.tally.hold_over(more);
            self.overdrawn.fetch_add(more, Ordering::Relaxed);
        }
        self.tally.hold_up_to(used);
        true
    }

    /// Counts `bytes` that were given back to the system.
    pub fn give(&self, bytes: u64) {
        self.tally.sub_used(bytes);
        self.budget.tally.sub_used(bytes);
        // A closed account takes nothing any more, so this needs no lock. An open one must not lower its held bytes
        // here (B3).
        let stage = lock(&self.stage);
        if *stage == Stage::Closed {
            self.hold_only(self.used());
        }
    }

    /// Lowers the held bytes to `bytes`. The caller has the lock.
    fn hold_only(&self, bytes: u64) {
        let held = self.held();
        if bytes < held {
            self.tally.hold_down_to(bytes);
            self.budget.tally.let_go(held - bytes);
        }
    }

    /// Whether a promise of `bytes` would have room if nothing else had any.
    pub fn could_hold(&self, bytes: u64, spare: Spare) -> bool {
        let limit = self.tally.limit().min(self.budget.limit());
        bytes <= room(limit, spare)
    }

    /// Promises that at most `bytes` will be in use, bytes in use now and all writes under way included. Takes the
    /// room for that, or gives back what an earlier promise had beyond it.
    ///
    /// # Errors
    /// The limit that is in the way; the earlier promise stands then.
    pub fn promise(&self, bytes: u64, spare: Spare) -> Result<(), Full> {
        if bytes > room(self.tally.limit(), spare) {
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
            .tally
            .hold(bytes - held, room(self.budget.limit(), spare))
        {
            return Err(Full::Budget);
        }
        self.tally.hold_up_to(bytes);
        let made = self.make_room();
        if made.is_err() {
            self.hold_only(held);
        }
        made
    }

    /// Whether a promise of `bytes` would leave room to spare in both limits, and seven eighths of the free room to
    /// other stores. Only such a promise may be made for writes that may never come.
    pub fn has_ample_room_for(&self, bytes: u64) -> bool {
        let free = room(self.budget.limit(), Spare::Keep).saturating_sub(self.budget.held());
        bytes <= room(self.tally.limit(), Spare::Keep)
            && bytes.saturating_sub(self.held()) <= free / 8
    }

    /// The store is open: from here on memory is promised before it is taken.
    pub fn opened(&self) {
        *lock(&self.stage) = Stage::Open;
    }

    /// Gives up promised room beyond what is in use. No write is under way.
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

    /// The error for `what`, for which a limit has no room.
    #[cold]
    pub fn full(&self, limit: Full, what: &str) -> Error {
        Error::OutOfSpace(match limit {
            Full::Account => format!(
                "the index in DRAM has {} of the {} that dram allows, and {what} might exceed it; \
                 raise dram",
                format_size(self.used()),
                format_size(self.tally.limit())
            ),
            Full::Budget => format!(
                "the indexes in DRAM of all stores in this runtime have {} of the {} that the \
                 runtime's dram allows ({} with what is promised to writes), and {what} might \
                 exceed it; raise the runtime's dram, or close stores",
                format_size(self.budget.used()),
                format_size(self.budget.limit()),
                format_size(self.budget.held())
            ),
        })
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let used = self.used();
        self.budget.tally.sub_used(used);
        self.budget.tally.let_go(self.held());
    }
}
