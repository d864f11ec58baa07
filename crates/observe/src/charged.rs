//! Tables that reads ask in vain, and that are compacted for it (LevelDB's seek compaction).
//!
//! A read that asks two tables, and finds nothing in the first, would have been cheaper if both were one. And a scan
//! that steps over many deletes would be cheaper if they had met what they delete. So such a read *charges* the
//! table, and when it has been charged as often as it would cost to compact it, it is handed to
//! `policy::pick::pick_read`: one level down, if that helps.
//!
//! # What is charged
//! | read | charges | how often |
//! |---|---|---|
//! | a get that read blocks of two tables | the first of them, which did not have the key | once |
//! | a cursor that goes to a key which two runs may have | the table of the newer run | once |
//! | a cursor that steps over deletes of a table, without a key between | that table | once for 32 of them |
//!
//! Filters answer most gets without a block; those charge nothing. Nor does a cursor charge a table from which a filter keeps
//! it (`tables::source`). Nor are tables in persistent memory charged: whether reads pay for a
//! merge of those is what equation 1 says (`compact::costs`), and files below them are charged as if they were not there.
//!
//! # What that costs
//! One read in so many is looked at, chosen at random by its thread, and charges for all of them
//! (`compaction.read_sample`). So the others count nothing and share nothing, and the one adds to a counter that lies
//! with the table. A read in vain costs about as much as compacting 40 KiB (LevelDB's estimate: a seek of 10 ms against
//! 100 MB/s; on an SSD 80 µs against 500 MB/s, which comes to the same); one in [`READ_BYTES`](thermocline_policy::tuning::READ_BYTES) is allowed, so that
//! tables pay for their compaction more than twice before they get it.
//!
//! # Why it ends
//! A job of this kind moves a table one level down, as others do (`policy::pick`, invariant 4). One that has
//! tombstones and nothing below it is rewritten; where a snapshot keeps them it is charged anew, and pays again
//! before it is rewritten again. Without reads there is none, and what size demands comes first.

use std::collections::VecDeque;

use thermocline_base::{CfId, FileId};

use thermocline_base::sync::{AtomicBool, Mutex, Ordering, lock};

use thermocline_policy::reads::pays;
use thermocline_policy::tuning::READS_WAITING_MAX;

use crate::latency::chosen;

/// A reference that reads ask in vain: there may be others to the same file, which are asked less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charged {
    /// The column family.
    pub cf: CfId,
    /// The file of the table.
    pub file: FileId,
    /// The first key of its range.
    pub first: Vec<u8>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Reads {
    /// One read in so many is looked at; 0 is none.
    every: u64,
    waiting: Mutex<VecDeque<Charged>>,
    /// One has come that nobody was told of. Relaxed: who sees it late asks late.
    news: AtomicBool,
}

impl Reads {
    /// One read in `every` is looked at; 0 is none.
    pub fn new(every: u64) -> Reads {
        Reads {
            every,
            waiting: Mutex::default(),
            news: AtomicBool::new(false),
        }
    }

    /// Whether this read is looked at.
    #[inline]
    pub fn looks(&self) -> bool {
        match self.every {
            0 => false,
            1 => true,
            every => chosen(every),
        }
    }

    /// A read that is looked at has charged a table of so many `bytes`, which was charged `before` times. Returns
    /// how often it is charged now. Parts of a table are charged together, and that is compacted which pays last: it is
    /// asked most, as like as not.
    pub fn charge(&self, before: u64, bytes: u64, table: impl FnOnce() -> Charged) -> u64 {
        let now = before.saturating_add(self.every);
        if pays(bytes, before, now) {
            let charged = table();
            let mut waiting = lock(&self.waiting);
            if waiting.len() < READS_WAITING_MAX && !waiting.contains(&charged) {
                waiting.push_back(charged);
                self.news.store(true, Ordering::Relaxed);
            }
        }
        now
    }

    /// Whether a table has come that waits for its job.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) && self.news.swap(false, Ordering::Relaxed)
    }

    /// The next table that waits.
    pub fn next(&self) -> Option<Charged> {
        lock(&self.waiting).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_policy::tuning::{READ_BYTES, READS_MIN};

    use super::*;

    fn table(file: u64) -> Charged {
        Charged {
            cf: CfId::DEFAULT,
            file: FileId(file),
            first: b"a".to_vec(),
        }
    }

    #[test]
    fn a_table_waits_once_for_each_time_that_it_has_paid() {
        let charge = |reads: &Reads, before| reads.charge(before, 200 * READ_BYTES, || table(7));
        let charge_small = |reads: &Reads, before| reads.charge(before, 1, || table(8));
        let reads = Reads::new(64);
        let mut charged = 0;
        let mut waited = Vec::new();
        for n in 1..=10 {
            charged = charge(&reads, charged);
            // More often than it is taken it does not wait.
            charged = charge(&reads, charged);
            assert_eq!(charged, 128 * n);
            if reads.has_news() {
                waited.push(n);
                assert_eq!((reads.next(), reads.next()), (Some(table(7)), None));
            }
        }
        // At 200, 400, … reads.
        assert_eq!(waited, [2, 4, 5, 7, 8, 10]);
        // A small table has a hundred.
        assert_eq!(charge_small(&Reads::new(99), 0), 99);
        let one = Reads::new(1);
        charge_small(&one, 98);
        assert!(!one.has_news());
        charge_small(&one, 99);
        assert!(one.has_news() && !one.has_news());
        assert!(!Reads::new(0).looks() && one.looks());
    }

    #[test]
    fn about_one_read_in_so_many_is_looked_at() {
        let reads = Reads::new(64);
        let looked = (0..64_000).filter(|_| reads.looks()).count();
        assert!((700..1300).contains(&looked), "{looked}");
    }

    #[test]
    fn no_more_tables_wait_than_there_is_room_for() {
        let reads = Reads::new(1);
        for n in 0..1000 {
            reads.charge(READS_MIN - 1, 1, || table(n));
        }
        let waiting = std::iter::from_fn(|| reads.next()).count();
        assert_eq!(waiting, READS_WAITING_MAX);
    }
}
