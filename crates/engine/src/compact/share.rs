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
    /// What there may be where memtables lend what they leave; 0 where they lend nothing.
    lent: AtomicU64,
}

impl Share {
    /// As the options say.
    pub fn new(all: Option<u64>) -> Share {
        Share {
            all,
            now: AtomicU64::new(all.unwrap_or(0)),
            lent: AtomicU64::new(0),
        }
    }

    /// Bytes that level 0 may have, whatever memtables lend; 0 if it has none there.
    pub fn bytes(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Most bytes that it may have; `None` if nothing of it is to lie there.
    pub fn most(&self) -> Option<u64> {
        let lent = self.lent.load(Ordering::Relaxed);
        self.all.map(|_| self.bytes().max(lent))
    }

    /// The region may have `limit` bytes now, and `pm` where its disk has room.
    pub fn region_may_have(&self, limit: u64, pm: u64) {
        let now = within_limit(self.all.unwrap_or(0), limit, pm);
        self.now.store(now, Ordering::Relaxed);
    }

    /// Memtables leave so much for level 0, where they do.
    pub(super) fn memtables_lend(&self, lent: Option<u64>) {
        // By itself: the share beside it may be another one when somebody asks.
        self.lent.store(level0_share(0, lent), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each changes when it does: what one of them was says nothing of what the other has become.
    #[test]
    fn neither_the_region_nor_what_memtables_lend_keeps_a_share_as_it_was() {
        let share = Share::new(Some(600));
        assert_eq!((share.bytes(), share.most()), (600, Some(600)));
        // Nine tenths of what is lent are filled.
        share.memtables_lend(Some(90));
        assert_eq!(share.most(), Some(600));
        share.region_may_have(250, 1000);
        assert_eq!((share.bytes(), share.most()), (150, Some(150)));
        share.memtables_lend(Some(450));
        assert_eq!((share.bytes(), share.most()), (150, Some(500)));
        share.region_may_have(1000, 1000);
        assert_eq!((share.bytes(), share.most()), (600, Some(600)));
        share.region_may_have(500, 1000);
        assert_eq!((share.bytes(), share.most()), (300, Some(500)));
        share.memtables_lend(None);
        assert_eq!((share.bytes(), share.most()), (300, Some(300)));
        let none = Share::new(None);
        none.memtables_lend(Some(450));
        none.region_may_have(250, 1000);
        assert_eq!((none.bytes(), none.most()), (0, None));
    }
}
