//! What memtables leave for level 0.

use crate::tuning::MAJOR_PERCENT;

/// What memtables have beside level 0 in persistent memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// What both may have together, if that is more than level 0's share.
    pub all: u64,
    /// What memtables have beyond a usual flush.
    pub memtables: u64,
    /// Whether level 0 may have all that they leave, even beyond its share: what scans asked for lies there, and since then no
    /// flush was due to make room.
    pub lent: bool,
}

impl Beside {
    /// What of its share level 0 may have now. A flush that leaves memtables behind would free nothing if all that it takes
    /// became tables: so as much leaves persistent memory as the share is short of.
    ///
    /// ```
    /// use thermocline_policy::flush::Beside;
    /// let beside = Beside { all: 5000, memtables: 3500, lent: false };
    /// assert_eq!(beside.level0_share(5000), 1500);
    /// assert_eq!(Beside { memtables: 1000, ..beside }.level0_share(3000), 3000);
    /// // Nine tenths of it are filled.
    /// assert_eq!(Beside { memtables: 500, lent: true, ..beside }.level0_share(3000), 5000);
    /// assert_eq!(Beside::default().level0_share(50), 50);
    /// ```
    pub fn level0_share(&self, share: u64) -> u64 {
        let left = self.all.max(share).saturating_sub(self.memtables);
        self.lent_share(share).unwrap_or(share.min(left))
    }

    /// Level 0's share where it is more than usual.
    fn lent_share(&self, share: u64) -> Option<u64> {
        let left = self.all.max(share).saturating_sub(self.memtables);
        let more = left / MAJOR_PERCENT * 100;
        Some(more).filter(|more| self.lent && *more > share)
    }

    /// What level 0 may have at most.
    pub fn level0_most(&self, share: u64) -> u64 {
        self.lent_share(share).unwrap_or(share)
    }
}
