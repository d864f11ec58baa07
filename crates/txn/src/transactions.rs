//! The transactions of a store: what they share.

use std::collections::BTreeMap;
use std::time::Duration;

use thermocline_base::{CfId, Result};
use thermocline_engine::{PreparedState, Resolution, WriteOptions};

use crate::lane::Lanes;
use crate::life::{Life, TxnId};
use crate::options::TxnOptions;
use crate::refusal::unlock_key;
use crate::report::{
    LockedKey, REPORTED_LOCKS_MAX, REPORTED_MAX, TransactionState, TransactionsReport,
};
use crate::shared::Shared;
use crate::store::Store;
use crate::sync::{Arc, Ordering};
use crate::transaction::Transaction;

/// What the transactions of a store share. A clone is another handle.
#[derive(Debug)]
pub struct Transactions<S: Store>(Arc<Lanes<S>>);

impl<S: Store> Clone for Transactions<S> {
    fn clone(&self) -> Self {
        Transactions(Arc::clone(&self.0))
    }
}

impl<S: Store> Transactions<S> {
    /// Those of a store that was just opened: only those that are prepared, which have their locks again.
    pub fn new(store: S) -> Transactions<S> {
        let shared = Shared::new(store);
        shared.restore();
        Transactions(Arc::new(Lanes::new(shared)))
    }

    /// The transactions that are prepared, by name.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Closed`]; of a store that was opened for reading those of reading.
    pub fn prepared(&self) -> Result<Vec<PreparedState>> {
        self.0.shared.store.prepared()
    }

    /// Commits a prepared transaction, or rolls it back, and frees its locks.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] if none of this name is prepared. Those of a write: it is prepared as
    /// before; but after [`thermocline_base::Error::Poisoned`] the outcome is unknown.
    pub fn resolve(&self, name: &[u8], resolution: Resolution, mode: WriteOptions) -> Result<()> {
        self.0.shared.resolve((name, None), resolution, mode)
    }

    /// The store is closed, or about to be: whoever waits for a lock is told [`thermocline_base::Error::Closed`], and so is
    /// whoever would have to wait from now on. Nobody else would wake them: who has the lock may be prepared, and is not
    /// resolved any more.
    pub fn close(&self) {
        self.0.shared.locks.close();
    }

    /// A transaction begins. It has no snapshot until it reads.
    ///
    /// # Errors
    /// [`thermocline_base::Error::OutOfSpace`] with the limit, if as many are open as may be, or they have all the DRAM that they may
    /// have.
    pub fn begin(&self, options: TxnOptions) -> Result<Transaction<S>> {
        let begun = self.0.begin(&options)?;
        Ok(Transaction::new(begun, options))
    }

    /// Who holds what, and for how long.
    pub fn report(&self) -> TransactionsReport {
        let shared = &*self.0.shared;
        let now_ns = shared.store.now_ns();
        let since = |then_ns: u64| Duration::from_nanos(now_ns.saturating_sub(then_ns));
        let (count, first) = self.0.first(REPORTED_MAX);
        let mut keys: BTreeMap<TxnId, Vec<(CfId, LockedKey)>> = BTreeMap::new();
        keys.extend(first.iter().map(|(life, _)| (life.id, Vec::new())));
        shared.locks.for_each_holder(|key, holder| {
            if let Some(own) = keys.get_mut(&holder.who.id)
                && own.len() < REPORTED_LOCKS_MAX
            {
                let (cf, key) = unlock_key(key);
                let locked = LockedKey {
                    family: String::new(),
                    key: key.to_vec(),
                    exclusive: holder.is_exclusive(),
                    held_for: since(holder.since_ns),
                };
                own.push((cf, locked));
            }
        });
        // The store takes a lock to tell a name, and that is not to be taken under one of a stripe.
        let named = |(cf, key): (CfId, LockedKey)| LockedKey {
            family: shared.store.family_name(cf),
            ..key
        };
        let state = |(life, options): (Arc<Life>, TxnOptions)| TransactionState {
            id: life.id,
            locking: options.locking,
            isolation: options.isolation,
            open_for: since(life.begun_ns),
            snapshot: life.snapshot.load(Ordering::Relaxed).checked_sub(1),
            locks: life.locks.load(Ordering::Relaxed),
            keys: keys
                .remove(&life.id)
                .into_iter()
                .flatten()
                .map(named)
                .collect(),
            waits_for: shared.locks.blockers(life.id),
        };
        let transactions = first.into_iter().map(state).collect();
        let (locked_keys, locked_ranges, waiting) = shared.locks.counts();
        TransactionsReport {
            open: count,
            prepared: shared.prepared(),
            waiting,
            locked_keys,
            locked_ranges,
            memory_bytes: self.0.memory_used(),
            memory_bytes_max: shared.memory.limit,
            transactions,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::thread;

    use thermocline_base::{ErrorKind, limits};
    use thermocline_engine::Family;

    use super::*;
    use crate::fake::Fake;

    /// As a put with such a key is, and the transaction goes on.
    #[test]
    fn a_range_with_an_end_that_is_too_long_is_refused_at_once() {
        let all = Transactions::new(Fake::default());
        let long = vec![0xff; limits::KEY_LEN_MAX + 1];
        for options in [TxnOptions::pessimistic(), TxnOptions::optimistic()] {
            let mut txn = all.begin(options).unwrap();
            for (start, end) in [(&b""[..], Some(&long[..])), (&long[..], None)] {
                let refused = txn.delete_range(Family::DEFAULT, start, end);
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
            }
            assert!(txn.is_empty());
        }
        assert_eq!(all.report().locked_keys, 0);
    }

    /// Nothing was granted: its name and its locks are free for others.
    #[test]
    fn one_that_a_panic_keeps_from_being_prepared_leaves_nothing_behind() {
        let store = Fake::default();
        let (on_prepare, dies) = (Arc::clone(&store.on_prepare), AtomicBool::new(true));
        let dies_once = move || assert!(!dies.swap(false, Ordering::Relaxed), "planned");
        assert!(on_prepare.set(Box::new(dies_once)).is_ok());
        let all = Transactions::new(store);
        let begin = || {
            let mut txn = all.begin(TxnOptions::pessimistic()).unwrap();
            txn.put(Family::DEFAULT, b"k", b"v").unwrap();
            txn
        };
        let txn = begin();
        let prepare = move || txn.prepare(b"one").is_ok();
        assert!(catch_unwind(AssertUnwindSafe(prepare)).is_err());
        let report = all.report();
        assert_eq!((report.prepared, report.locked_keys), (0, 0));
        drop(begin().prepare(b"one").unwrap());
        assert_eq!(all.report().prepared, 1);
    }

    #[test]
    fn a_report_asks_for_names_under_no_lock_of_its_own() {
        let store = Fake::default();
        let on_name = Arc::clone(&store.on_name);
        let all = Transactions::new(store);
        let mut txn = all.begin(TxnOptions::pessimistic()).unwrap();
        txn.put(Family::DEFAULT, b"k", b"v").unwrap();
        let others = all.clone();
        let looks = move || {
            let others = others.clone();
            let (tell, told) = mpsc::channel();
            // It takes the lock of every stripe.
            thread::spawn(move || tell.send(others.0.shared.locks.counts()).unwrap());
            let counts = told.recv_timeout(Duration::from_secs(60));
            assert_eq!(counts, Ok((1, 0, 0)), "a stripe is locked");
        };
        assert!(on_name.set(Box::new(looks)).is_ok());
        let report = all.report();
        assert_eq!(report.transactions[0].keys[0].family, "family 0");
    }
}
