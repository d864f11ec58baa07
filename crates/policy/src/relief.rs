//! Room that deletes make, where the disk is full: when they are flushed, and how large jobs may be (`engine::pressure::relief`
//! has the steps).
//!
//! # Why it ends
//! Each job but a rewrite moves data down. A table is rewritten only if it was there when the disk became full, or somebody began to wait for
//! room there. That moment is taken anew only in two cases: something was deleted since; or the oldest reader has gone, of those that
//! were there then or for which jobs kept something since. Jobs that give up become smaller by a part, or wait twice as
//! long each time.

use crate::tuning::{
    AGAIN_GROWTH, AGAIN_MAX_NS, AGAIN_NS, DELETES_MANY, DELETES_PAUSE_NS, GAVE_UP_PARTS,
    RELIEF_MARGIN_BYTES, RELIEF_MARGIN_PARTS, ROOM_MORE_BYTES, ROOM_MORE_PARTS, STARVED_NS,
};

/// Bytes of a disk of `disk_bytes` that no work of this kind uses, beside what flushes need.
pub fn margin(disk_bytes: u64) -> u64 {
    (disk_bytes / RELIEF_MARGIN_PARTS).min(RELIEF_MARGIN_BYTES)
}

/// Bytes of the disk that a compaction may use which only lack of room demands: what is free beyond that which all
/// flushes might take, and beyond the [`margin`].
pub fn room_for_jobs((free, disk_bytes): (u64, u64), flushes: u64) -> u64 {
    free.saturating_sub(flushes + margin(disk_bytes))
}

/// Whether so many writes that only delete are worth a flush.
pub fn are_many(deletes: u64) -> bool {
    deletes >= DELETES_MANY
}

/// Whether a writer that asked at `asked_ns` for room for a long value, and did not ask again, is forgotten now.
pub fn has_given_up(asked_ns: u64, now_ns: u64) -> bool {
    now_ns >= asked_ns + STARVED_NS
}

/// Whether it is time to look again for readers that have gone and for which tables kept what was deleted.
pub fn looks_at_readers(looked_ns: u64, now_ns: u64) -> bool {
    now_ns >= looked_ns + AGAIN_NS
}

/// How long the next flush of deletes waits behind the last one, and tables rest with which a job has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// Nanoseconds.
    pub ns: u64,
}

impl Default for Pause {
    fn default() -> Pause {
        Pause {
            ns: DELETES_PAUSE_NS,
        }
    }
}

impl Pause {
    /// A flush of deletes has ended. What one that failed has written was written for nothing.
    pub fn after(self, succeeded: bool) -> Pause {
        match succeeded {
            true => Pause::default(),
            false => Pause {
                ns: (self.ns * AGAIN_GROWTH).min(AGAIN_MAX_NS),
            },
        }
    }

    /// Whether it is not over yet, where the last flush ended then; 0 if there was none.
    pub fn lasts(self, ended_ns: u64, now_ns: u64) -> bool {
        ended_ns > 0 && now_ns < ended_ns + self.ns
    }
}

/// What a job may have where one of so many bytes has given up. It is clearly less: a job that becomes a little smaller
/// with each of a thousand rewritten tables is not tried a thousand times.
fn smaller(bytes: u64) -> Option<u64> {
    bytes.checked_sub((bytes / GAVE_UP_PARTS).max(1))
}

/// Jobs that have given up for lack of room, and when larger ones are tried again.
///
/// ```
/// use thermocline_policy::relief::GaveUp;
/// let mut jobs = GaveUp::default();
/// assert_eq!(jobs.bytes_max(Some(1 << 20), 0), Some(u64::MAX));
/// jobs.gave_up(100 << 20, 1 << 20, 0);
/// // Clearly smaller ones are tried, until there is clearly more room, or time has passed.
/// assert_eq!(jobs.bytes_max(Some(1 << 20), 1), Some(75 << 20));
/// assert_eq!(jobs.bytes_max(Some(2 << 20), 1), Some(u64::MAX));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaveUp {
    /// Jobs of so many bytes have given up. Larger jobs would, too, and jobs that are hardly smaller.
    bytes_below: u64,
    /// How much room there was when it began.
    room_then: u64,
    /// And when it gave up.
    at_ns: u64,
    /// How long it waits; the next one waits longer.
    again_ns: u64,
}

impl Default for GaveUp {
    fn default() -> GaveUp {
        GaveUp {
            bytes_below: u64::MAX,
            room_then: 0,
            at_ns: 0,
            again_ns: AGAIN_NS / AGAIN_GROWTH,
        }
    }
}

impl GaveUp {
    /// A job of `bytes` has given up, which began with so much `room`. Larger jobs are put off for a while.
    pub fn gave_up(&mut self, bytes: u64, room: u64, now_ns: u64) {
        self.room_then = room;
        self.at_ns = now_ns;
        self.again_ns = (self.again_ns * AGAIN_GROWTH).min(AGAIN_MAX_NS);
        self.bytes_below = bytes;
    }

    /// The disk has become full anew: all are tried.
    pub fn forget(&mut self) {
        self.bytes_below = u64::MAX;
    }

    /// The largest job that may be tried: larger ones have given up, lately and when there was about as much room as
    /// now. `None` if even a job of no bytes has, of tables with nothing but range tombstones.
    pub fn bytes_max(&mut self, room: Option<u64>, now_ns: u64) -> Option<u64> {
        let before = self.room_then;
        let enough = before.saturating_add((before / ROOM_MORE_PARTS).max(ROOM_MORE_BYTES));
        let enough = room.is_none_or(|room| room >= enough);
        if enough || now_ns >= self.at_ns + self.again_ns {
            self.bytes_below = u64::MAX;
        }
        if enough {
            self.again_ns = AGAIN_NS / AGAIN_GROWTH;
        }
        match self.bytes_below {
            u64::MAX => Some(u64::MAX),
            below => smaller(below),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn jobs_that_give_up_become_rarer_and_are_tried_again(room in 0u64..1 << 40, bytes in 1u64..1 << 40) {
            let mut jobs = GaveUp::default();
            let mut now = 0;
            for _ in 0..12 {
                prop_assert_eq!(jobs.bytes_max(Some(room), now), Some(u64::MAX));
                jobs.gave_up(bytes, room, now);
                prop_assert_eq!(jobs.bytes_max(Some(room), now), smaller(bytes));
                prop_assert_eq!(jobs.bytes_max(Some(room), now + AGAIN_NS - 1), smaller(bytes));
                now += AGAIN_MAX_NS;
            }
        }

        #[test]
        fn few_jobs_give_up_though_each_is_smaller_than_the_last(bytes in 1u64..1 << 40, less in 1u64..10) {
            let mut jobs = GaveUp::default();
            let (mut left, mut tried) = (bytes, 0);
            while left > 0 {
                if jobs.bytes_max(Some(0), 0).is_some_and(|most| left <= most) {
                    jobs.gave_up(left, 0, 0);
                    tried += 1;
                }
                // What makes them smaller by and by.
                left -= (left / (1000 * less)).max(1).min(left);
                if left < 1000 {
                    break;
                }
            }
            prop_assert!(tried <= 100, "{tried}");
        }

        #[test]
        fn pauses_grow_and_end(failures in 0usize..20) {
            let pause = (0..failures).fold(Pause::default(), |pause, _| pause.after(false));
            prop_assert!((DELETES_PAUSE_NS..=AGAIN_MAX_NS).contains(&pause.ns));
            let next = pause.after(false);
            prop_assert!(next.ns > pause.ns || pause.ns == AGAIN_MAX_NS && next == pause);
            prop_assert!(!pause.lasts(0, 5));
            prop_assert!(pause.lasts(5, 4 + pause.ns) && !pause.lasts(5, 5 + pause.ns));
            prop_assert_eq!(pause.after(true), Pause::default());
        }
    }
}
