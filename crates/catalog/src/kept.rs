//! What stays in persistent memory for change feeds.

use std::collections::BTreeMap;

use thermocline_base::planted::{Bug, active};

/// The feeds that are open, with the lowest seqno that each has not read. One that is cut off is not
/// among them.
#[derive(Debug, Default)]
pub struct Feeds {
    open: BTreeMap<u64, u64>,
    opened: u64,
}

impl Feeds {
    /// A feed that will read from `next` on. Returns its number.
    pub fn open(&mut self, next: u64) -> u64 {
        self.opened += 1;
        self.open.insert(self.opened, next);
        self.opened
    }

    /// Whether a feed is open and not cut off.
    pub fn is_open(&self, id: u64) -> bool {
        self.open.contains_key(&id)
    }

    /// A feed has read everything before `next`.
    pub fn advance(&mut self, id: u64, next: u64) {
        if let Some(own) = self.open.get_mut(&id) {
            *own = next;
        }
    }

    /// A feed reads no more.
    pub fn close(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Whether some feed has not read everything up to `last`.
    pub fn want(&self, last: u64) -> bool {
        self.open.values().any(|next| *next <= last) && !active(Bug::FeedForgetsPin)
    }

    /// What reaches up to `last` is gone: whoever has not read it is cut off.
    pub fn gone(&mut self, last: u64) {
        self.open.retain(|_, next| *next > last);
    }
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Bytes of persistent memory and blob files, whether or not a feed wants them.
    pub retain_bytes: u64,
    /// Bytes that feeds may want.
    pub pinned_bytes_max: u64,
    /// Whether the oldest of what would be kept, and that nobody reads, goes all the same.
    pub yields: bool,
}

impl Keeping {
    /// The lowest of `memtables` that is kept: each has its number, the bytes that it keeps, its last seqno, and whether
    /// it goes once it is not kept; newest first. The number behind all others, if none is. The oldest that yields is one
    /// that goes: what somebody reads stays in any case, and those behind it must not stay for its sake.
    pub fn lowest(
        &self,
        feeds: &Feeds,
        memtables: impl Iterator<Item = (u64, u64, u64, bool)>,
    ) -> u64 {
        let (mut lowest, mut above, mut all) = (u64::MAX, None, 0);
        for (id, bytes, last, goes) in memtables {
            all += bytes;
            let wanted = all <= self.pinned_bytes_max && feeds.want(last);
            if all > self.retain_bytes && !wanted {
                break;
            }
            if goes {
                above = Some(lowest);
            }
            lowest = id;
        }
        match self.yields {
            true => above.unwrap_or(lowest),
            false => lowest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the oldest yielded although somebody reads it, nothing would go, and a writer would find no room.
    #[test]
    fn what_somebody_reads_does_not_yield_in_place_of_what_is_behind_it() {
        let keeping = |yields| Keeping {
            retain_bytes: 100,
            pinned_bytes_max: 0,
            yields,
        };
        let lowest = |yields, goes: [bool; 3]| {
            let ids = [9, 7, 4].into_iter().zip(goes);
            let memtables = ids.map(|(id, goes)| (id, 10, id, goes));
            keeping(yields).lowest(&Feeds::default(), memtables)
        };
        assert_eq!(lowest(false, [true; 3]), 4);
        assert_eq!(lowest(true, [true; 3]), 7);
        assert_eq!(lowest(true, [true, true, false]), 9);
        assert_eq!(lowest(true, [true, false, false]), u64::MAX);
        assert_eq!(lowest(true, [false, true, false]), 9);
        assert_eq!(lowest(true, [false; 3]), 4);
        let none = std::iter::empty();
        assert_eq!(keeping(true).lowest(&Feeds::default(), none), u64::MAX);
    }
}
