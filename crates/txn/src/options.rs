//! How a transaction is to be run.

use std::time::Duration;

use thermocline_engine::Durability;

/// How long a transaction waits for a lock unless told otherwise.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// What a transaction is kept from seeing of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// Snapshot isolation: all reads are of one moment, and of two transactions that overlap and write the same key only
    /// the first commits. What a transaction only reads may change before it commits (write skew); what it reads with
    /// `get_for_update` may not.
    #[default]
    Snapshot,
    /// Serializable, and in the order of real time: as if transactions and plain writes had been made one after the other.
    /// Ranges that were iterated over are included, so there are no phantoms.
    Serializable,
}

/// When a transaction meets others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Locking {
    /// As it goes: it locks what it writes, and waits.
    #[default]
    Pessimistic,
    /// When it commits: it locks nothing, and is refused then if others were faster.
    Optimistic,
}

/// How a transaction is to be run. By default it is [pessimistic](TxnOptions::pessimistic).
///
/// ```
/// # use thermocline_txn as thermocline;
/// use thermocline::{Isolation, TxnOptions};
/// assert_eq!(TxnOptions::default(), TxnOptions::pessimistic());
/// let options = TxnOptions::default().isolation(Isolation::Serializable);
/// assert_ne!(options, TxnOptions::default());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnOptions {
    pub(crate) locking: Locking,
    pub(crate) isolation: Isolation,
    pub(crate) durability: Durability,
    pub(crate) lock_timeout: Duration,
    pub(crate) expiration: Option<Duration>,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions::pessimistic()
    }
}

impl TxnOptions {
    /// One that locks what it writes as it goes, and waits for others who hold that.
    pub fn pessimistic() -> TxnOptions {
        TxnOptions {
            locking: Locking::Pessimistic,
            isolation: Isolation::Snapshot,
            durability: Durability::Immediate,
            lock_timeout: LOCK_TIMEOUT,
            expiration: None,
        }
    }

    /// One that locks nothing, and learns when it commits whether others were faster.
    pub fn optimistic() -> TxnOptions {
        TxnOptions {
            locking: Locking::Optimistic,
            ..TxnOptions::pessimistic()
        }
    }

    /// What it is kept from seeing; [`Isolation::Snapshot`] unless set.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TxnOptions {
        self.isolation = isolation;
        self
    }

    /// When its commit is acknowledged; [`Durability::Immediate`] unless set.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TxnOptions {
        self.durability = durability;
        self
    }

    /// How long it waits for each lock, at most; a second unless set. Zero is not to wait, [`Duration::MAX`] to wait for
    /// as long as it takes. Deadlocks are broken at once, however long this is.
    #[must_use]
    pub fn lock_timeout(mut self, timeout: Duration) -> TxnOptions {
        self.lock_timeout = timeout;
        self
    }

    /// How long after its beginning others may take its locks, from when on it cannot be committed. Never, unless set.
    #[must_use]
    pub fn expiration(mut self, after: Duration) -> TxnOptions {
        self.expiration = Some(after);
        self
    }

    /// The timeout in nanoseconds.
    pub(crate) fn lock_timeout_ns(&self) -> u64 {
        u64::try_from(self.lock_timeout.as_nanos()).unwrap_or(u64::MAX)
    }
}
