//! What was read of memtables since what they hold is there, for `policy::scans`.

use thermocline_observe::count::{Count, Counted};

use crate::partitions::share;
use crate::sync::{AtomicU64, Ordering};

/// Where the counters were from which on reads count. A race between a flush that moves them and somebody who asks costs a
/// look that is a little wrong.
#[derive(Debug, Default)]
pub(crate) struct ReadSince {
    scanned: AtomicU64,
    found: AtomicU64,
}

impl ReadSince {
    /// Entries that scans have collected of memtables, and lookups that were answered by memtables.
    pub fn get(&self, counted: &Counted) -> (u64, u64) {
        let since = |now: u64, from: &AtomicU64| now.saturating_sub(from.load(Ordering::Relaxed));
        // In this order: what tables have answered was counted as found before.
        let in_tables = counted.get(Count::FoundInTables);
        let in_memtables = counted.get(Count::Found).saturating_sub(in_tables);
        (
            since(counted.get(Count::Scanned), &self.scanned),
            since(in_memtables, &self.found),
        )
    }

    /// So many bytes of persistent memory, `of` all that memtables had, are flushed: their part of the reads counts no more.
    pub fn flushed(&self, counted: &Counted, bytes: u64, of: u64) {
        let (scanned, found) = self.get(counted);
        let gone = |reads| share(reads, bytes, of);
        self.scanned.fetch_add(gone(scanned), Ordering::Relaxed);
        self.found.fetch_add(gone(found), Ordering::Relaxed);
    }
}
