//! Ranges of keys that must not change: what serializable transactions have read by iterators.

use crate::life::{Life, TxnId};
use crate::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, lock};

/// A range that a transaction has locked, shared.
#[derive(Debug)]
pub(crate) struct RangeLock {
    who: Arc<Life>,
    start: Vec<u8>,
    end: Vec<u8>,
    arrival: u64,
}

/// The ranges that are locked. Looked through from end to end: there is one for each iterator of a serializable
/// transaction.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// How many there are, or are about to be. Raised before a range gets its number, and read after a request got its
    /// own, both by way of one counter (acquire and release): a request sees those that came before it. A request
    /// without a number reads it under the lock of its key's stripe, which a range takes behind.
    count: AtomicUsize,
    all: Mutex<Vec<RangeLock>>,
}

impl Ranges {
    /// `who` locks the keys from `start` up to, and not with, `end`. Returns the number that it gets of `arrivals`.
    pub fn add(&self, who: &Arc<Life>, (start, end): (&[u8], &[u8]), arrivals: &AtomicU64) -> u64 {
        let mut all = lock(&self.all);
        self.count.fetch_add(1, Ordering::Relaxed);
        let arrival = arrivals.fetch_add(1, Ordering::AcqRel);
        all.push(RangeLock {
            who: Arc::clone(who),
            start: start.to_vec(),
            end: end.to_vec(),
            arrival,
        });
        arrival
    }

    /// The number of the first range that `who` has locked a key with.
    pub fn first_of(&self, key: &[u8], who: TxnId) -> Option<u64> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let all = lock(&self.all);
        let own = all
            .iter()
            .filter(|range| range.who.id == who && *range.start <= *key && *key < *range.end);
        own.map(|range| range.arrival).min()
    }

    /// A range is locked no longer.
    pub fn remove(&self, arrival: u64) {
        let mut all = lock(&self.all);
        all.retain(|range| range.arrival != arrival);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    /// Whose ranges, that came before `arrival`, keep `who` from changing a key. Those whose time is over keep nobody.
    pub fn keepers(&self, key: &[u8], who: TxnId, arrival: u64, now_ns: u64) -> Vec<Arc<Life>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let mut all = lock(&self.all);
        let keeps = |range: &RangeLock| {
            range.who.id != who
                && range.arrival < arrival
                && *range.start <= *key
                && *key < *range.end
        };
        all.retain(|range| !(keeps(range) && range.who.expires_by(now_ns)));
        self.count.store(all.len(), Ordering::Relaxed);
        let kept = all.iter().filter(|range| keeps(range));
        kept.map(|range| Arc::clone(&range.who)).collect()
    }

    /// When the time of the first is over whose range has a key.
    pub fn first_expiry(&self, key: &[u8], who: TxnId) -> u64 {
        let all = lock(&self.all);
        let others = all
            .iter()
            .filter(|range| range.who.id != who && *range.start <= *key && *key < *range.end);
        let expiries = others.map(|range| range.who.expires_ns);
        expiries.min().unwrap_or(u64::MAX)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
