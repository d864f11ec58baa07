//! Isolation (design §12).
#![forbid(unsafe_code)]

mod footprint;
mod held;
mod life;
mod locks;
mod memory;
mod options;
mod reading;
mod refusal;
mod report;
mod scan;
mod shared;
mod store;
mod sync;
mod transaction;
mod transactions;
mod writes;

pub use options::{Isolation, LOCK_TIMEOUT, Locking, TxnOptions};
pub use reading::ValueOf;
pub use report::{
    LockedKey, REPORTED_LOCKS_MAX, REPORTED_MAX, TransactionState, TransactionsReport,
};
pub use scan::Scan;
pub use shared::OPEN_MAX;
pub use store::{MEMORY_SHARE, Moment, Ordered, Place, Store};
pub use transaction::Transaction;
pub use transactions::Transactions;
pub use writes::Savepoint;
