//! What is held and charged against one limit, and who can give some of it back.

use std::fmt::Debug;
use std::sync::Weak;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// What can give back memory that is charged, because it can get again what it kept there.
pub trait Evict: Debug + Send + Sync {
    /// Gives back about `bytes`, or all there is if that is less. Readers may keep some of it for a
    /// while. May be asked under any lock of a store.
    fn evict(&self, bytes: u64);
}

/// What is counted against one limit: a budget has one, and each account has one of its own.
#[derive(Debug)]
pub(super) struct Tally {
    limit: u64,
    held: AtomicU64,
    used: AtomicU64,
    charged: AtomicU64,
    /// Who can give back of what is charged, in the order in which they are asked.
    evicting: Mutex<Vec<Weak<dyn Evict>>>,
}

impl Tally {
    pub fn new(limit: u64) -> Tally {
        Tally {
            limit,
            held: AtomicU64::new(0),
            used: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            evicting: Mutex::default(),
        }
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Counts bytes that are used, and says how many are now.
    pub fn add_used(&self, bytes: u64) -> u64 {
        self.used.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    pub fn sub_used(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds to what is held, if that then stays below `most` (B2).
    pub fn hold(&self, bytes: u64, most: u64) -> bool {
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= most);
        let (set, fetch) = (Ordering::SeqCst, Ordering::Relaxed);
        self.held.fetch_update(set, fetch, more).is_ok()
    }

    /// Adds to what is held, over the limit if need be.
    pub fn hold_over(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Raises what is held to `bytes`. The caller changes it alone.
    pub fn hold_up_to(&self, bytes: u64) {
        self.held.store(bytes, Ordering::SeqCst);
    }

    /// Lowers what is held to `bytes`. The caller changes it alone.
    pub fn hold_down_to(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
    }

    pub fn let_go(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// By how much what is held and charged is above the limit (B4).
    pub fn excess(&self) -> u64 {
        let charged = self.charged.load(Ordering::SeqCst);
        let both = self.held.load(Ordering::SeqCst).saturating_add(charged);
        both.saturating_sub(self.limit)
    }

    /// Adds to what is charged, over the limit if need be.
    pub fn charge_over(&self, bytes: u64) {
        self.charged.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Adds to what is charged; `false`, and nothing is added, if that is too much (B4).
    pub fn charge(&self, bytes: u64) -> bool {
        self.charge_over(bytes);
        let fits = self.excess() == 0;
        if !fits {
            self.uncharge(bytes);
        }
        fits
    }

    pub fn uncharge(&self, bytes: u64) {
        self.charged.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// From now on `who` is asked to give back, after all who are asked already.
    pub fn add_evicting(&self, who: Weak<dyn Evict>) {
        let mut all = lock(&self.evicting);
        all.retain(|other| other.strong_count() > 0);
        all.push(who);
    }

    /// As [`Tally::add_evicting`], before all who are asked already.
    pub fn add_evicting_first(&self, who: Weak<dyn Evict>) {
        lock(&self.evicting).insert(0, who);
    }

    /// Whether nothing is above the limit, once whoever can give back has done so (B4).
    pub fn make_room(&self) -> bool {
        self.excess() == 0 || self.evict()
    }

    /// Has them give back until there is no excess, and somewhat more, so that not every small step asks
    /// again. Returns whether there is none.
    #[cold]
    fn evict(&self) -> bool {
        // Not under the lock: what goes may be the last of its store.
        let all = lock(&self.evicting).clone();
        for who in all.iter().filter_map(Weak::upgrade) {
            match self.excess() {
                0 => return true,
                bytes => who.evict(bytes + self.limit / 64),
            }
        }
        self.excess() == 0
    }
}
