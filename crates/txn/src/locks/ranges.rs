//! Ranges of keys that must not change: what serializable transactions have read by iterators, and what transactions that
//! lock delete.

use std::collections::BTreeMap;

use crate::life::{Ended, Life, TxnId};
use crate::locks::entry::Mode;
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// A range that a transaction has locked, shared.
#[derive(Debug)]
struct RangeLock {
    who: Arc<Life>,
    start: Vec<u8>,
    end: Vec<u8>,
}

impl RangeLock {
    fn has(&self, key: &[u8]) -> bool {
        *self.start <= *key && *key < *self.end
    }
}

/// The ranges that are locked, by number. Who looks for those that have a key looks through all: there is one for each
/// iterator of a serializable transaction, and each range that is deleted. One that is unlocked is found by its number.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// How many there are, or are about to be. Raised before a range gets its number, and read after a request got its
    /// own, both by way of one counter (acquire and release): a request sees those that came before it. A request
    /// without a number reads it under the lock of its key's stripe, which a range takes behind.
    count: AtomicUsize,
    all: Mutex<BTreeMap<u64, RangeLock>>,
}

impl Ranges {
    /// `who` locks the keys from `start` up to, and not with, `end`. Returns the number that it gets of `arrivals`.
    pub fn add(&self, who: &Arc<Life>, (start, end): (&[u8], &[u8]), arrivals: &AtomicU64) -> u64 {
        let mut all = lock(&self.all);
        self.count.fetch_add(1, Ordering::Relaxed);
        let arrival = arrivals.fetch_add(1, Ordering::AcqRel);
        let range = RangeLock {
            who: Arc::clone(who),
            start: start.to_vec(),
            end: end.to_vec(),
        };
        all.insert(arrival, range);
        arrival
    }

    /// The number of the first range that `who` has locked a key with.
    pub fn first_of(&self, key: &[u8], who: TxnId) -> Option<u64> {
        if self.len() == 0 {
            return None;
        }
        let all = lock(&self.all);
        let own = all
            .iter()
            .find(|(_, range)| range.who.id == who && range.has(key));
        own.map(|(arrival, _)| *arrival)
    }

    /// A range is locked no longer.
    pub fn remove(&self, arrival: u64) {
        let mut all = lock(&self.all);
        all.remove(&arrival);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// Those that have a key.
    pub fn over(&self, key: &[u8]) -> Over {
        if self.len() == 0 {
            return Over::default();
        }
        let all = lock(&self.all);
        let over = all.iter().filter(|(_, range)| range.has(key));
        Over(
            over.map(|(arrival, range)| (*arrival, Arc::clone(&range.who)))
                .collect(),
        )
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// The ranges that have a key: their numbers, ascending, and whose they are.
#[derive(Debug, Default)]
pub(crate) struct Over(Vec<(u64, Arc<Life>)>);

impl Over {
    /// Whose ranges keep a request of `who`: those that came before it, if it wants the key alone. Those whose time is over
    /// keep nobody.
    pub fn keepers(
        &self,
        who: TxnId,
        (mode, arrival): (Mode, u64),
        now_ns: u64,
    ) -> impl Iterator<Item = TxnId> {
        let before = match mode {
            Mode::Shared => 0,
            Mode::Exclusive => self.0.partition_point(|(number, _)| *number < arrival),
        };
        let owners = self.0[..before].iter().map(|(_, owner)| owner);
        let keepers = owners.filter(move |owner| owner.id != who && !owner.expires_by(now_ns));
        keepers.map(|owner| owner.id)
    }

    /// Takes the key from those whose time is over at this moment, where `is_wanted` says of a range's number and owner that
    /// it keeps somebody. They may not go on.
    pub fn evict(&mut self, now_ns: u64, is_wanted: impl Fn(u64, TxnId) -> bool) {
        self.0.retain(|(number, owner)| {
            let is_taken = owner.is_overdue(now_ns)
                && is_wanted(*number, owner.id)
                && owner.expires_by(now_ns);
            !is_taken && owner.check() != Err(Ended::Expired)
        });
    }

    /// All of them, but those whose time was over when somebody wanted what they have.
    pub fn all(&self) -> Vec<(u64, TxnId)> {
        let all = self.0.iter();
        let standing = all.filter(|(_, owner)| owner.check() != Err(Ended::Expired));
        standing
            .map(|(number, owner)| (*number, owner.id))
            .collect()
    }

    /// When, behind now, the time of the first is over, of others than `who`. One whose time was over before keeps nobody, or
    /// ends by itself.
    pub fn first_expiry(&self, who: TxnId, now_ns: u64) -> u64 {
        let others = self.0.iter().filter(|(_, owner)| owner.id != who);
        let expiries = others.map(|(_, owner)| owner.expires_ns);
        expiries.filter(|at| *at > now_ns).min().unwrap_or(u64::MAX)
    }
}
