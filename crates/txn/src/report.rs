//! Who holds what, as plain data.

use std::time::Duration;

use crate::options::{Isolation, Locking};

/// So many transactions are reported, those that are open longest.
pub const REPORTED_MAX: usize = 64;

/// So many locks of each.
pub const REPORTED_LOCKS_MAX: usize = 8;

/// The transactions of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionsReport {
    /// How many are open.
    pub open: usize,
    /// How many are prepared, beside those.
    pub prepared: usize,
    /// How many of those that are open wait for a lock.
    pub waiting: usize,
    /// Keys that are locked, or waited for.
    pub locked_keys: usize,
    /// Ranges that are locked.
    pub locked_ranges: usize,
    /// DRAM for locks, writes and reads, in bytes.
    pub memory_bytes: u64,
    /// Most that this may be.
    pub memory_bytes_max: u64,
    /// The [`REPORTED_MAX`] that are open longest, the first first.
    pub transactions: Vec<TransactionState>,
}

/// An open transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionState {
    /// Its number; a larger one began later.
    pub id: u64,
    /// When it meets others.
    pub locking: Locking,
    /// What it is kept from seeing.
    pub isolation: Isolation,
    /// How long it has been open, from the clock's tick before it began: up to ten milliseconds too long.
    pub open_for: Duration,
    /// The sequence number of its snapshot, once it has one.
    pub snapshot: Option<u64>,
    /// How many keys and ranges it has locked.
    pub locks: u64,
    /// Some of the keys.
    pub keys: Vec<LockedKey>,
    /// The transactions that it waits for.
    pub waits_for: Vec<u64>,
}

/// A key that is locked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedKey {
    /// Its column family.
    pub family: String,
    /// The key.
    pub key: Vec<u8>,
    /// Whether nobody else may read it for update either.
    pub exclusive: bool,
    /// How long it has been locked, as [`TransactionState::open_for`].
    pub held_for: Duration,
}
