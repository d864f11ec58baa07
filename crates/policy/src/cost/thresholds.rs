//! τw, τm and τt, from the budget.

use crate::tuning::{
    KEEP_PERCENT, KEEP_PERCENT_READS, MAJOR_PERCENT, WRITE_BYTES_MIN, WRITE_PARTS,
};

/// Sizes from which on decisions are due (PM-Blade §IV.C, table II), in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// τw: a partition of this size is asked about equation 2.
    pub write: u64,
    /// τm: from this size on level 0 sends partitions to the SSD.
    pub major: u64,
    /// τt: what may stay then.
    pub keep: u64,
}

impl Thresholds {
    /// Those of a level 0 which may have `budget` bytes, in so many partitions, which lately had these
    /// numbers of reads and writes. The more of them are reads, the slower level 0 fills, and the more
    /// of it may stay.
    ///
    /// ```
    /// use thermocline_policy::cost::Thresholds;
    /// let writing = Thresholds::new(1 << 30, 16, 0, 1000);
    /// let reading = Thresholds::new(1 << 30, 16, 900, 100);
    /// assert!(writing.keep < reading.keep && reading.keep < reading.major);
    /// ```
    pub fn new(budget: u64, partitions: usize, reads: u64, writes: u64) -> Thresholds {
        let major = part(budget, MAJOR_PERCENT, 100);
        let all = u128::from(reads) + u128::from(writes);
        let more = u128::from(reads) * u128::from(KEEP_PERCENT_READS) / all.max(1);
        let more = u64::try_from(more).unwrap_or(KEEP_PERCENT_READS);
        let each = major / WRITE_PARTS / (partitions.max(1) as u64);
        Thresholds {
            write: each.max(WRITE_BYTES_MIN.min(major)),
            major,
            keep: part(major, KEEP_PERCENT + more, 100),
        }
    }
}

fn part(bytes: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(of) / u128::from(all);
    u64::try_from(part).unwrap_or(u64::MAX)
}
