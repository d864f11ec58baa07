//! What the transactions of a store share: the locks, the limits, and the list of those that are open.

use std::collections::BTreeMap;

use thermocline_base::shown::shown;
use thermocline_base::{Error, Result};
use thermocline_engine::{Claims, RangeClaim, Resolution, WriteOptions};

use crate::held::Held;
use crate::life::{Life, TxnId};
use crate::locks::entry::Mode;
use crate::locks::table::{LockKey, LockTable, Taken};
use crate::memory::{LOCK_BYTES, Memory, TOUCHED_BYTES, TRANSACTION_BYTES};
use crate::options::TxnOptions;
use crate::refusal::{lock_key, lock_range};
use crate::store::Store;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// Most transactions that are open at a time.
pub const OPEN_MAX: usize = 65_536;

/// Parts of the table of locks: more than cores, so that two transactions seldom meet in one.
const STRIPES: usize = 64;

/// How what a prepared transaction claims is locked.
pub(crate) fn mode_of(writes: bool) -> Mode {
    match writes {
        true => Mode::Exclusive,
        false => Mode::Shared,
    }
}

/// A transaction that is prepared, or about to be.
struct Kept {
    life: Arc<Life>,
    held: Held,
}

/// DRAM for a prepared transaction: its locks, and the store's list of what it claims.
fn kept_bytes(claims: &Claims) -> u64 {
    let keys = claims.keys().map(|(_, key, _)| 3 * key.len());
    let ends = |range: &RangeClaim| range.end.as_ref().map_or(0, |end| end.len());
    let ranges = claims.ranges().iter();
    let ranges = ranges.map(|range| 3 * (range.start.len() + ends(range)));
    let bytes = keys.chain(ranges).sum::<usize>() as u64;
    TRANSACTION_BYTES + (LOCK_BYTES + 2 * TOUCHED_BYTES) * claims.len() as u64 + bytes
}

/// Locks all of it, in a table where nobody has what it writes.
fn lock_again(locks: &LockTable, life: &Arc<Life>, claims: &Claims) -> Held {
    let mut held = Held::default();
    for (cf, key, writes) in claims.keys() {
        let key: LockKey = lock_key(cf, key);
        // Not got, it is not held: what is promised does not depend on locks.
        if let Ok(Taken::Anew) = locks.acquire(life, &key, mode_of(writes), 0) {
            held.add(life, key);
        }
    }
    for range in claims.ranges() {
        let (start, end) = lock_range(range.cf, &range.start, range.end.as_deref());
        let mut keys = Vec::new();
        let taken = locks.acquire_range(life, (&start, &end), 0, |key| keys.push(key));
        keys.into_iter().for_each(|key| held.add(life, key));
        if let Ok(arrival) = taken {
            held.add_range(life, arrival, (start, end));
        }
    }
    held
}

/// What the transactions of a store share.
pub(crate) struct Shared<S: Store> {
    pub store: Arc<S>,
    pub locks: LockTable,
    pub memory: Memory,
    open: Mutex<BTreeMap<TxnId, (Arc<Life>, TxnOptions)>>,
    /// By name: those that are prepared, and those that are about to be.
    prepared: Mutex<BTreeMap<Box<[u8]>, Kept>>,
    next: AtomicU64,
}

impl<S: Store> std::fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transactions")
            .field("locks", &self.locks)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl<S: Store> Shared<S> {
    /// There is no transaction yet.
    pub fn new(store: S) -> Shared<S> {
        let store = Arc::new(store);
        let clock = Arc::clone(&store);
        Shared {
            locks: LockTable::new(STRIPES, move || clock.now_ns()),
            memory: Memory::new(store.memory_max()),
            open: Mutex::default(),
            prepared: Mutex::default(),
            next: AtomicU64::new(1),
            store,
        }
    }

    /// How many transactions are open, and some of those that are open longest.
    pub fn first(&self, most: usize) -> (usize, Vec<(Arc<Life>, TxnOptions)>) {
        let open = lock(&self.open);
        (open.len(), open.values().take(most).cloned().collect())
    }

    /// A transaction begins.
    pub fn enter(&self, options: &TxnOptions) -> Result<Arc<Life>> {
        self.memory.take(TRANSACTION_BYTES)?;
        let now_ns = self.store.now_ns();
        let expires_ns = options.expiration.map_or(u64::MAX, |after| {
            now_ns.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
        });
        let mut open = lock(&self.open);
        if open.len() >= OPEN_MAX {
            drop(open);
            self.memory.give_back(TRANSACTION_BYTES);
            return Err(Error::OutOfSpace(format!(
                "{OPEN_MAX} transactions are open, as many as may be; end some (Db::transactions lists those that are \
                 open longest)"
            )));
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let life = Arc::new(Life::new(id, now_ns, expires_ns));
        open.insert(id, (Arc::clone(&life), *options));
        Ok(life)
    }

    /// A transaction is about to be prepared, with these locks.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is one of this name; [`Error::OutOfSpace`] with the limit. Its locks are free
    /// then.
    pub fn keep(
        &self,
        name: &[u8],
        life: &Arc<Life>,
        (mut held, claims): (Held, &Claims),
    ) -> Result<()> {
        held.bytes = kept_bytes(claims);
        let mut prepared = lock(&self.prepared);
        let taken = match prepared.contains_key(name) {
            true => Err(Error::InvalidArgument(format!(
                "transaction '{}' is prepared already, or about to be; give this one another name, or commit that or roll \
                 it back first (Db::prepared lists those that there are)",
                shown(name)
            ))),
            false => self.memory.take(held.bytes),
        };
        if let Err(error) = taken {
            drop(prepared);
            held.release(life, &self.locks);
            return Err(error);
        }
        let _ = life.name.set(name.into());
        let life = Arc::clone(life);
        prepared.insert(name.into(), Kept { life, held });
        Ok(())
    }

    /// A prepared transaction has ended: its locks are free.
    pub fn let_go(&self, name: &[u8]) {
        let kept = lock(&self.prepared).remove(name);
        if let Some(mut kept) = kept {
            kept.held.release(&kept.life, &self.locks);
            self.memory.give_back(kept.held.bytes);
        }
    }

    /// What an open has found prepared has its locks again. Nobody else has any.
    pub fn restore(&self) {
        for (name, claims) in self.store.prepared_claims() {
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            let life = Arc::new(Life::new(id, self.store.now_ns(), u64::MAX));
            // Nobody takes its locks.
            let _ = life.settle();
            let _ = life.name.set(name.clone().into());
            let mut held = lock_again(&self.locks, &life, &claims);
            held.bytes = kept_bytes(&claims);
            self.memory.take_anyway(held.bytes);
            lock(&self.prepared).insert(name.into(), Kept { life, held });
        }
    }

    /// Ends a prepared transaction.
    pub fn resolve(&self, name: &[u8], resolution: Resolution, mode: WriteOptions) -> Result<()> {
        self.store.resolve(name, resolution, mode)?;
        self.let_go(name);
        Ok(())
    }

    /// How many are prepared.
    pub fn prepared(&self) -> usize {
        lock(&self.prepared).len()
    }

    /// A transaction has ended.
    pub fn leave(&self, id: TxnId) {
        lock(&self.open).remove(&id);
        self.memory.give_back(TRANSACTION_BYTES);
    }
}
