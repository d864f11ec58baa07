//! What all who meet a transaction know of it: who it is, whether it still stands, and what it has.

use std::sync::OnceLock;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A transaction's number. A larger one began later.
pub(crate) type TxnId = u64;

/// Whether a transaction may go on. It leaves [`OPEN`] once.
const OPEN: u32 = 0;
/// It is being written, or has ended.
const SETTLED: u32 = 1;
/// Its time was over, and somebody took a lock of it.
const EXPIRED: u32 = 2;
/// It was chosen to break a deadlock.
const BROKEN: u32 = 3;

/// A transaction as others see it.
#[derive(Debug)]
pub(crate) struct Life {
    pub id: TxnId,
    /// By the store's clock, as all times here.
    pub begun_ns: u64,
    /// When its locks may be taken; `u64::MAX` for never.
    pub expires_ns: u64,
    /// Who moves it from `OPEN` has decided its end. Acquire and release: whoever finds that it has expired takes its
    /// locks, and it must not have begun to write.
    state: AtomicU32,
    /// Locks that it holds, its ranges included. Relaxed, for reports.
    pub locks: AtomicU64,
    /// Its snapshot's seqno and one, 0 where it has none. Relaxed, for reports.
    pub snapshot: AtomicU64,
    /// Under which it is prepared, once it is: for messages.
    pub name: OnceLock<Box<[u8]>>,
}

/// Why a transaction may not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Expired,
    Broken,
}

impl Life {
    pub fn new(id: TxnId, begun_ns: u64, expires_ns: u64) -> Life {
        Life {
            id,
            begun_ns,
            expires_ns,
            state: AtomicU32::new(OPEN),
            locks: AtomicU64::new(0),
            snapshot: AtomicU64::new(0),
            name: OnceLock::new(),
        }
    }

    fn leave_open(&self, to: u32) -> bool {
        let moved = self
            .state
            .compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire);
        moved.is_ok()
    }

    /// From now on nobody takes its locks: it is about to be written.
    pub fn settle(&self) -> Result<(), Ended> {
        match self.leave_open(SETTLED) {
            true => Ok(()),
            false => self.check(),
        }
    }

    /// It is over, for the deadlock that it was part of.
    pub fn break_off(&self) {
        self.leave_open(BROKEN);
    }

    /// Whether it may go on.
    pub fn check(&self) -> Result<(), Ended> {
        match self.state.load(Ordering::Acquire) {
            EXPIRED => Err(Ended::Expired),
            BROKEN => Err(Ended::Broken),
            _ => Ok(()),
        }
    }

    /// Whether its time is over by now, and nobody has said so yet.
    pub fn is_overdue(&self, now_ns: u64) -> bool {
        now_ns >= self.expires_ns && self.state.load(Ordering::Acquire) == OPEN
    }

    /// Whether its locks may be taken at this time; from then on it may not go on.
    pub fn expires_by(&self, now_ns: u64) -> bool {
        if now_ns < self.expires_ns {
            return false;
        }
        self.leave_open(EXPIRED);
        self.check() == Err(Ended::Expired)
    }
}
