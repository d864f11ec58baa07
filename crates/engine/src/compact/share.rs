//! How much of persistent memory level 0 may have.
//!
//! Options say it for the largest region that they allow. A region that shares a disk may have less, where that has no room for more.
//! Then level 0 has as large a part of what the region may have: else it would fill it, and memtables would have what is left. Where
//! flushes wait for scans, memtables lend it what they leave.

use thermocline_policy::room::within_limit;
use thermocline_policy::scans::level0_share;

use crate::sync::{AtomicU64, Ordering};

/// See the [module](self). Relaxed throughout: numbers that guard nothing.
#[derive(Debug)]
pub(crate) struct Share {
    /// Of the largest region; `None` if nothing of level 0 is to lie there.
    all: Option<u64>,
    /// Of the one that there may be now.
    now: AtomicU64,
    /// What it is with what memtables lend; 0 where they lend nothing.
    with_lent: AtomicU64,
}

impl Share {
    /// As the options say.
    pub fn new(all: Option<u64>) -> Share {
        Share {
            all,
            now: AtomicU64::new(all.unwrap_or(0)),
            with_lent: AtomicU64::new(0),
        }
    }

    /// Bytes that level 0 may have, whatever memtables lend; 0 if it has none there.
    pub fn bytes(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Most bytes that it may have; `None` if nothing of it is to lie there.
    pub fn most(&self) -> Option<u64> {
        let with_lent = self.with_lent.load(Ordering::Relaxed);
        self.all.map(|_| self.bytes().max(with_lent))
    }

    /// The region may have `limit` bytes now, and `pm` where its disk has room.
    pub fn region_may_have(&self, limit: u64, pm: u64) {
        let now = within_limit(self.all.unwrap_or(0), limit, pm);
        self.now.store(now, Ordering::Relaxed);
    }

    /// Memtables leave so much for level 0, where they do.
    pub(super) fn memtables_lend(&self, lent: Option<u64>) {
        let with_lent = lent.map_or(0, |_| level0_share(self.bytes(), lent));
        self.with_lent.store(with_lent, Ordering::Relaxed);
    }
}
