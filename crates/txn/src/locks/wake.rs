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
}

/// Where one request waits. Its verdict is given once.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    verdict: Mutex<Verdict>,
    given: Condvar,
}

impl Wake {
    /// Gives the verdict; `false` if there is one already.
    fn give(&self, verdict: Verdict) -> bool {
        let mut own = lock(&self.verdict);
        if *own != Verdict::Waiting {
            return false;
        }
        *own = verdict;
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

    /// What has become of it by now.
    pub fn look(&self) -> Verdict {
        lock(&self.verdict).clone()
    }

    /// Sleeps until there is a verdict, or for `time`; wakes for no reason, too.
    pub fn sleep(&self, time: Option<Duration>) -> Verdict {
        let own = lock(&self.verdict);
        if *own != Verdict::Waiting {
            return own.clone();
        }
        let own = match time {
            Some(time) => wait_for(&self.given, own, time),
            None => wait(&self.given, own),
        };
        own.clone()
    }
}
