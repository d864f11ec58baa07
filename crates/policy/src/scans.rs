//! Scans pay for tables: what waits to be flushed becomes tables early where it is scanned much.
//!
//! Neighbours in a memtable lie apart, since it has records in the order in which they came; in a table they lie side by side.
//! So a scan gets on faster over tables; a lookup gets slower, since it finds its record with fewer steps in an index.
//! Writing a table of a record costs as much as some entries of scans save. *Once scans have collected that many for
//! each record of memtables*, the flush that would come later anyway is due. A tenant who rents until the rents have come to
//! the price, and then buys, pays at most twice what the best decision would have cost, whatever comes; so does the
//! store.
//!
//! It does not matter in which memtable an entry was collected: scans go over all of them alike, and each record has its share. So the
//! active memtable counts, too. It may have most of what is scanned, and where little is written it would be sealed late or never. If it has
//! as much as tables for scans must have ([`Scans::seals`]) it is sealed for them; else it waits, with its share of what was scanned.
//!
//! What becomes tables for scans stays in persistent memory, whatever costs say of writes: it was asked for by reads. So no flush is
//! due for them where it does not fit; and from then on level 0 may have all that memtables leave, even beyond its share, until a
//! flush is due that makes room ([`level0_share`]).

use crate::tuning::{MAJOR_PERCENT, SCANS_FLUSH_PARTS, SCANS_LOOK_EVERY, SCANS_PER_RECORD};

/// What was read of memtables, and what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scans {
    /// Entries that scans have collected of memtables.
    pub scanned: u64,
    /// Lookups that were answered by memtables in the same time.
    pub found: u64,
    /// Records of sealed memtables.
    pub records: u64,
    /// Records of the memtable that takes writes.
    pub active_records: u64,
    /// Bytes of its items.
    pub active_bytes: u64,
}

impl Scans {
    /// Entries of scans, beyond lookups: those lose by tables about what an entry gains.
    pub fn balance(&self) -> u64 {
        self.scanned.saturating_sub(self.found)
    }

    /// The balance from which on a flush of `taken` bytes pays, where a usual one has so many; `None` if it is too small.
    ///
    /// ```
    /// use thermocline_policy::scans::Scans;
    /// let scans = Scans { records: 1000, active_records: 20, ..Scans::default() };
    /// assert_eq!(scans.due(100, 800), Some(2040));
    /// assert_eq!(scans.due(11, 100), None, "its tables would be narrow");
    /// ```
    pub fn due(&self, taken: u64, usual: u64) -> Option<u64> {
        let records = self.records.saturating_add(self.active_records);
        let due = records.saturating_mul(SCANS_PER_RECORD);
        (is_wide(taken, usual) && records > 0).then_some(due)
    }

    /// Whether a flush for scans takes the active memtable, too, if it comes to that, where a usual one has so many bytes.
    pub fn seals(&self, usual: u64) -> bool {
        usual > 0 && self.active_records > 0 && is_wide(self.active_bytes, usual)
    }
}

/// Whether so many bytes are enough for tables, where a usual flush has such.
fn is_wide(bytes: u64, usual: u64) -> bool {
    bytes >= usual / SCANS_FLUSH_PARTS
}

/// What level 0 in persistent memory may have, where its share is such, and memtables leave it so much
/// ([`Sealed::lends`](crate::flush::Sealed::lends)).
///
/// ```
/// use thermocline_policy::scans::level0_share;
/// assert_eq!(level0_share(3000, None), 3000);
/// // Nine tenths of it are filled.
/// assert_eq!(level0_share(3000, Some(4500)), 5000);
/// assert_eq!(level0_share(3000, Some(1000)), 3000);
/// ```
pub fn level0_share(share: u64, lent: Option<u64>) -> u64 {
    lent.map_or(share, |left| share.max(left / MAJOR_PERCENT * 100))
}

/// Whether a scan that has collected `count` entries, behind `before` others, looks whether a flush has come to pay.
pub fn looks(before: u64, count: u64) -> bool {
    before / SCANS_LOOK_EVERY != before.wrapping_add(count) / SCANS_LOOK_EVERY
}
