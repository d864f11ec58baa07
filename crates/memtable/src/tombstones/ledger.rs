//! The DRAM of a memtable's range tombstones: counted to the byte, taken from the account ahead.

use std::sync::Arc;

use thermocline_base::Result;
use thermocline_base::budget::Account;
use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};

/// Counts what tombstones take. What was once taken from the account goes back with the memtable.
///
/// At most `need` bytes are ever in use: what was in use when no write was under way, and what was promised
/// since. Of that the account has counted at least as much; and of a new promise no more than itself is
/// taken, so that a store that has room for it in the account has room for it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    account: Option<Arc<Account>>,
    /// Bytes of what there is. Relaxed: it guards nothing.
    used: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes that the account has counted.
    held: u64,
    need: u64,
    /// Bytes that writes under way may come to use.
    promised: u64,
}

impl Ledger {
    /// One whose bytes count in `account`.
    pub fn charged_to(account: &Arc<Account>) -> Arc<Ledger> {
        let mut ledger = Ledger::default();
        ledger.account = Some(account.clone());
        Arc::new(ledger)
    }

    /// Whose bytes they are.
    pub fn account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    pub fn keep(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Most bytes that are in use when what is under way is done.
    pub fn need(&self) -> u64 {
        let state = lock(&self.state);
        state.need.max(self.used.load(Ordering::Relaxed))
    }

    /// Takes what is missing for `bytes` more from the account, for a write under way.
    ///
    /// # Errors
    /// Those of [`Account::take`]; nothing is promised then.
    pub fn promise(&self, bytes: u64) -> Result<()> {
        let mut state = lock(&self.state);
        if state.promised == 0 {
            state.need = self.used.load(Ordering::Relaxed);
        }
        let need = state.need + bytes;
        self.hold(&mut state, need)?;
        state.need = need;
        state.promised += bytes;
        Ok(())
    }

    /// The write is done: what it did not use is there for the next one.
    pub fn fulfil(&self, bytes: u64) {
        lock(&self.state).promised -= bytes;
    }

    /// Sees to it that what is used is held, should a promise have been too small.
    pub fn settle(&self) -> Result<()> {
        let mut state = lock(&self.state);
        let used = self.used.load(Ordering::Relaxed);
        self.hold(&mut state, used)
    }

    fn hold(&self, state: &mut State, bytes: u64) -> Result<()> {
        if let Some(more) = bytes.checked_sub(state.held).filter(|more| *more > 0) {
            if let Some(account) = &self.account {
                account.take(more)?;
            }
            state.held = bytes;
        }
        Ok(())
    }

    /// Bytes that the account has counted.
    pub fn held(&self) -> u64 {
        lock(&self.state).held
    }

    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        if let Some(account) = &self.account {
            account.give(self.held());
        }
    }
}
