//! Memory held and charged against one limit, and the holders that can give some of it back.

use std::fmt::Debug;
use std::sync::Weak;

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// A holder of charged memory that can give it back, because it can get again what it kept there.
pub trait Evict: Debug + Send + Sync {
    /// Gives back about `bytes`, or everything if that is less. Readers may keep some of it for a while. May be
    /// called under any lock of a store.
    fn evict(&self, bytes: u64);
}

/// The counters against one limit. A budget has one, and each account has one of its own.
#[derive(Debug)]
pub(super) struct Tally {
    limit: u64,
    held: AtomicU64,
    used: AtomicU64,
    charged: AtomicU64,
    /// The holders that can give back charged memory, in the order in which they are asked.
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

    /// Counts bytes that are used, and returns how many are used now.
    pub fn add_used(&self, bytes: u64) -> u64 {
        self.used.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    pub fn sub_used(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Adds to the held bytes, if they then stay below `most` (B2).
    pub fn hold(&self, bytes: u64, most: u64) -> bool {
        let more = |held: u64| held.checked_add(bytes).filter(|&held| held <= most);
        let (set, fetch) = (Ordering::SeqCst, Ordering::Relaxed);
        self.held.fetch_update(set, fetch, more).is_ok()
    }

    /// Adds to the held bytes, over the limit if need be.
    pub fn hold_over(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Raises the held bytes to `bytes`. The caller alone changes them.
    pub fn hold_up_to(&self, bytes: u64) {
        self.held.store(bytes, Ordering::SeqCst);
    }

    /// Lowers the held bytes to `bytes`. The caller alone changes them.
    pub fn hold_down_to(&self, bytes: u64) {
        self.held.store(bytes, Ordering::Relaxed);
    }

    pub fn let_go(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// By how much held and charged bytes together exceed the limit (B4).
    pub fn excess(&self) -> u64 {
        let charged = self.charged.load(Ordering::SeqCst);
        let both = self.held.load(Ordering::SeqCst).saturating_add(charged);
        both.saturating_sub(self.limit)
    }

    /// Adds to the charged bytes, over the limit if need be.
    pub fn charge_over(&self, bytes: u64) {
        self.charged.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Adds to the charged bytes; `false`, and nothing is added, if that is too much (B4).
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

    /// Has `who` asked to give back from now on, after the holders that are asked already.
    pub fn add_evicting(&self, who: Weak<dyn Evict>) {
        let mut all = lock(&self.evicting);
        all.retain(|other| other.strong_count() > 0);
        all.push(who);
    }

    /// As [`Tally::add_evicting`], before the holders that are asked already.
    pub fn add_evicting_first(&self, who: Weak<dyn Evict>) {
        lock(&self.evicting).insert(0, who);
    }

    /// Whether nothing exceeds the limit, once the holders have given back what they can (B4).
    pub fn make_room(&self) -> bool {
        self.excess() == 0 || self.evict()
    }

    /// Has the holders give back until there is no excess, and somewhat more, so that not every small step asks
    /// again. Returns whether there is none.
    #[cold]
    fn evict(&self) -> bool {
        // Not under the lock: the holder that goes may be the last of its store.
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
