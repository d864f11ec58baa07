//! What the transactions of a store share: the locks, the limits, and the list of those that are open.

use std::collections::BTreeMap;

use thermocline_base::{Error, Result};

use crate::life::{Life, TxnId};
use crate::locks::table::LockTable;
use crate::memory::{Memory, TRANSACTION_BYTES};
use crate::options::TxnOptions;
use crate::store::Store;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock};

/// Most transactions that are open at a time.
pub const OPEN_MAX: usize = 65_536;

/// Parts of the table of locks: more than cores, so that two transactions seldom meet in one.
const STRIPES: usize = 64;

/// What the transactions of a store share.
pub(crate) struct Shared<S: Store> {
    pub store: Arc<S>,
    pub locks: LockTable,
    pub memory: Memory,
    open: Mutex<BTreeMap<TxnId, (Arc<Life>, TxnOptions)>>,
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

    /// A transaction has ended.
    pub fn leave(&self, id: TxnId) {
        lock(&self.open).remove(&id);
        self.memory.give_back(TRANSACTION_BYTES);
    }
}
