//! Where a transaction sleeps while it waits for a lock, and what it is told.

use std::time::Duration;

use crate::life::TxnId;
use crate::sync::{Condvar, Mutex, lock, wait, wait_for};

/// What has become of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Verdict {
    #[default]
    Waiting,
    Granted,
    /// It is to be given up, to break this circle.
    Victim(Vec<TxnId>),
    /// It is to be given up: the store is closed.
    Closed,
}

impl Verdict {
    /// Whether the request is to leave its queue without the lock.
    pub fn gives_up(&self) -> bool {
        matches!(self, Verdict::Victim(_) | Verdict::Closed)
    }
}

/// What the one who waits was told.
#[derive(Debug)]
struct Told {
    verdict: Verdict,
    expiry: u64,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            verdict: Verdict::Waiting,
            expiry: u64::MAX,
        }
    }
}

/// Where one request waits. Its verdict is given once.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    verdict: Mutex<Told>,
    given: Condvar,
}

impl Wake {
    /// Gives the verdict; `false` if there is one already.
    fn give(&self, verdict: Verdict) -> bool {
        let mut own = lock(&self.verdict);
        if own.verdict != Verdict::Waiting {
            return false;
        }
        own.verdict = verdict;
        drop(own);
        self.given.notify_all();
        true
    }

    /// The lock is granted, unless the request was given up.
    pub fn grant(&self) -> bool {
        self.give(Verdict::Granted)
    }

    /// The request is to be given up, unless it was granted.
    pub fn sacrifice(&self, circle: Vec<TxnId>) -> bool {
        self.give(Verdict::Victim(circle))
    }

    /// The store is closed: the request is to be given up, unless it was granted.
    pub fn close(&self) {
        self.give(Verdict::Closed);
    }

    /// When the time of somebody is over whom the request waits for; `u64::MAX` for never. Then it is to look.
    pub fn set_expiry(&self, expiry: u64) {
        lock(&self.verdict).expiry = expiry;
        self.given.notify_all();
    }

    /// What has become of it by now.
    pub fn look(&self) -> Verdict {
        lock(&self.verdict).verdict.clone()
    }

    /// Sleeps until there is a verdict or another expiry than this, or for `time`; wakes for no reason, too. Returns both.
    pub fn sleep(&self, expiry: u64, time: Option<Duration>) -> (Verdict, u64) {
        let mut own = lock(&self.verdict);
        if own.verdict == Verdict::Waiting && own.expiry == expiry {
            own = match time {
                Some(time) => wait_for(&self.given, own, time),
                None => wait(&self.given, own),
            };
        }
        (own.verdict.clone(), own.expiry)
    }
}
