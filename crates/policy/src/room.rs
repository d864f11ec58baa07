//! Room on the disk, and how far the region may grow.
//!
//! A full disk fails the first work that needs room, and that may be the flush or the compaction that would have made
//! room. So the last of the disk is kept for those, the *reserve*: as much as lies in persistent memory, which may all
//! have to be flushed, and a job of compaction; no more than a part of the disk. Where only some reserves are free,
//! writers are held back; where no more than one is free, they are refused, but for deletes.
//!
//! A region that lies on that disk is the largest part of it, and does not get smaller by what is deleted in it. So it
//! grows only as far as the disk still has room for a flush of all of the region, and for a job.

use crate::pressure::Limits;
use crate::tuning::{
    AHEAD_PARTS, DISK_JOB_PARTS, GROWTH_BYTES, INGEST_ASK_BYTES, REGION_TRIES_BYTES, RESERVE_PARTS,
    RESERVES_SOFT,
};

/// Of a region whose newest part has so many zones: how many are to be free, with their pages there, before writers need them.
///
/// ```
/// assert_eq!(thermocline_policy::room::zones_ahead(64), 16);
/// ```
pub fn zones_ahead(newest_zones: u64) -> u64 {
    (newest_zones / AHEAD_PARTS).max(1)
}

/// What the file system says, and what may need room. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Free on the disk.
    pub free: u64,
    /// The disk's size.
    pub total: u64,
    /// Persistent memory in use, which may all have to be flushed.
    pub attached: u64,
    /// What a job of compaction takes, if nothing limits it.
    pub job: u64,
}

impl Disk {
    /// What a job of compaction may need.
    pub fn job_bytes(&self) -> u64 {
        self.job.min(self.total / DISK_JOB_PARTS)
    }

    /// What flushes and compactions may need.
    ///
    /// ```
    /// use thermocline_policy::room::Disk;
    /// let disk = Disk { free: 50, total: 1000, attached: 80, job: 500 };
    /// assert_eq!(disk.reserve(), 180);
    /// assert!(disk.is_full());
    /// assert_eq!(Disk { attached: 800, ..disk }.reserve(), 250);
    /// ```
    pub fn reserve(&self) -> u64 {
        let all = self.attached.saturating_add(self.job_bytes());
        all.min(self.total / RESERVE_PARTS).max(1)
    }

    /// Whether writes are refused, but for deletes.
    pub fn is_full(&self) -> bool {
        self.free <= self.reserve()
    }

    /// Whether so many bytes may be written at once.
    pub fn takes(&self, bytes: u64) -> bool {
        self.free > self.reserve().saturating_add(bytes)
    }

    /// What may be written, beyond the reserve.
    pub fn beyond_reserve(&self) -> u64 {
        self.free.saturating_sub(self.reserve())
    }

    /// Whether what is free at the region's end goes back to the disk: when that is full, or nearly so and the store `idle`.
    /// Otherwise the region keeps what it has, as growing again costs writes.
    pub fn is_short(&self, idle: bool) -> bool {
        let reserves = if idle { RESERVES_SOFT } else { 1 };
        self.free <= reserves * self.reserve()
    }

    /// Where the disk delays writers, in bytes in use.
    pub fn limits(&self) -> Limits {
        let but = |reserves: u64| self.total.saturating_sub(reserves * self.reserve());
        Limits {
            soft: but(RESERVES_SOFT),
            hard: but(1),
        }
    }

    /// Bytes in use, by whomever.
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }

    /// How large a region may become that lies on this disk and has so many bytes. And how many bytes of the disk it
    /// tries to get first, since a quota does not tell its room.
    pub fn region_limit(&self, has: u64) -> (u64, u64) {
        let keep = has.saturating_add(self.job_bytes());
        let more = self.free.saturating_sub(keep) / GROWTH_BYTES;
        (has.saturating_add(more), keep.min(REGION_TRIES_BYTES))
    }
}

/// Whether an ingestion that has written so many bytes since it asked for room on the disk asks again.
pub fn asks_again(written: u64) -> bool {
    written >= INGEST_ASK_BYTES
}

/// What a region that may have `limit` bytes has of `bytes`, which are a share of one that may have `pm`: as large a part of it.
///
/// ```
/// use thermocline_policy::room::within_limit;
/// assert_eq!(within_limit(600, 250, 1000), 150);
/// assert_eq!(within_limit(600, 1000, 1000), 600);
/// ```
pub fn within_limit(bytes: u64, limit: u64, pm: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(limit.min(pm)) / u128::from(pm.max(1));
    u64::try_from(part).unwrap_or(bytes)
}

/// What of `attached` bytes of persistent memory waits to be flushed, when `at_home` may stay where they are: as a
/// part of `limit` that is as large as the part which it is of what those leave.
pub fn waiting(attached: u64, at_home: u64, limit: u64) -> u64 {
    let at_home = at_home.min(limit);
    let bytes = u128::from(attached.saturating_sub(at_home)) * u128::from(limit);
    let bytes = bytes / u128::from((limit - at_home).max(1));
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn disk() -> impl Strategy<Value = Disk> {
        let sizes = (0u64..1 << 40, 1u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40);
        sizes.prop_map(|(free, total, attached, job)| Disk {
            free: free.min(total),
            total,
            attached,
            job,
        })
    }

    proptest! {
        #[test]
        fn writers_are_delayed_before_they_are_refused(disk in disk()) {
            let limits = disk.limits();
            prop_assert!(limits.soft <= limits.hard);
            prop_assert_eq!(disk.is_full(), !disk.takes(0));
            prop_assert!(!disk.is_full() || disk.used() >= limits.hard);
            prop_assert!(!disk.is_full() || disk.is_short(false) && disk.is_short(true));
            prop_assert!(disk.reserve() <= (disk.total / RESERVE_PARTS).max(1));
        }

        #[test]
        fn a_region_leaves_room_for_itself_to_be_flushed(disk in disk(), has in 0u64..1 << 40) {
            let (limit, tries) = disk.region_limit(has);
            let grown = limit - has;
            // Behind its growth there is room for all of it, and for a job, if there was any before.
            let keep = limit + disk.job_bytes();
            prop_assert!(grown == 0 || disk.free - grown >= keep);
            prop_assert!(tries <= REGION_TRIES_BYTES);
        }

        #[test]
        fn what_is_at_home_does_not_wait(limit in 1u64..1 << 40, attached in 0u64..1 << 40, at_home in 0u64..1 << 40) {
            prop_assert_eq!(waiting(attached, 0, limit), attached);
            let waits = waiting(attached, at_home, limit);
            prop_assert!(attached > at_home.min(limit) || waits == 0);
            prop_assert!(attached > limit || waits <= limit);
        }
    }
}
