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
    /// Whether the oldest of what would be kept goes all the same.
    pub yields: bool,
}

impl Keeping {
    /// The lowest of `memtables` that is kept: each has its number, the bytes that it keeps and its last seqno;
    /// newest first. The number behind all others, if none is.
    pub fn lowest(&self, feeds: &Feeds, memtables: impl Iterator<Item = (u64, u64, u64)>) -> u64 {
        let (mut lowest, mut above, mut all) = (u64::MAX, u64::MAX, 0);
        for (id, bytes, last) in memtables {
            all += bytes;
            let wanted = all <= self.pinned_bytes_max && feeds.want(last);
            if all > self.retain_bytes && !wanted {
                break;
            }
            (above, lowest) = (lowest, id);
        }
        match self.yields {
            true => above,
            false => lowest,
        }
    }
}
