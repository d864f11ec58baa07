//! DRAM that the transactions of a store have, and its limit.

use thermocline_base::size::{format_size, index};
use thermocline_base::{Error, Result};

use crate::sync::{AtomicU64, Ordering};

/// What a lock costs beside its key: its slot, of five that a table may have for it, its place in its transaction's list and
/// among the keys in order.
pub(crate) const LOCK_BYTES: u64 = 480;
/// What a key or range that must not change costs beside its bytes: its places in lists that have room to grow, and among
/// hashes.
pub(crate) const TOUCHED_BYTES: u64 = 128;
/// What a write costs beside key and value, in the same way.
const WRITE_BYTES: u64 = 160;
/// What a savepoint costs, in a list that has room to grow.
pub(crate) const SAVEPOINT_BYTES: u64 = 48;
/// What a write costs more that lies in a range that was deleted later: the range has its number.
pub(crate) const HIDDEN_BYTES: u64 = 8;
/// What a transaction costs that has nothing, and what its lists take for their first entries.
pub(crate) const TRANSACTION_BYTES: u64 = 2048;
/// For so many entries a list takes memory at once, and for so many bytes of keys and values. A list that grows from
/// nothing moves again and again, and to move memory may wait for other threads.
pub(crate) const FIRST_ENTRIES: usize = 8;
pub(crate) const FIRST_BYTES: usize = 512;
/// With what more it begins: a lock and a write of it.
pub(crate) const BEGIN_BYTES: u64 = 1024;

/// What a write costs that has so many bytes of keys and values.
pub(crate) fn write_bytes(bytes: usize) -> u64 {
    WRITE_BYTES + bytes as u64
}

/// The DRAM of all transactions of a store.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicU64,
    pub limit: u64,
    /// What a transaction takes at a time beyond its need, so that it seldom asks, while the half is not used. Of a
    /// thousand transactions that is an eighth of the limit at most.
    ahead: u64,
}

/// Most that a transaction takes ahead.
const AHEAD_MAX: u64 = 4096;

/// The lists of a transaction with some twenty writes of some hundred bytes.
const LISTS_MAX: u64 = 16 << 10;

impl Memory {
    pub fn new(limit: u64) -> Memory {
        Memory {
            used: AtomicU64::new(0),
            limit,
            ahead: AHEAD_MAX.min(limit >> 13),
        }
    }

    /// Takes so many bytes, if there are; else what would be used then.
    fn try_take(&self, bytes: u64) -> Result<(), u64> {
        // Relaxed: it is a number alone.
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used <= self.limit {
            return Ok(());
        }
        self.give_back(bytes);
        Err(used)
    }

    /// Takes so many bytes, and some ahead if there is room. Returns how many.
    ///
    /// # Errors
    /// As [`Memory::take`].
    pub fn take_ahead(&self, bytes: u64) -> Result<u64> {
        let more = bytes + self.ahead;
        // Nothing is lost if others take some meanwhile.
        let has_room = self.used() < self.limit / 2;
        match has_room.then(|| self.try_take(more)) {
            Some(Ok(())) => Ok(more),
            _ => self.take(bytes).map(|()| bytes),
        }
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] with the limit; nothing is taken then.
    pub fn take(&self, bytes: u64) -> Result<()> {
        let Err(used) = self.try_take(bytes) else {
            return Ok(());
        };
        Err(Error::OutOfSpace(format!(
            "the transactions of this store would take {} of DRAM for locks, writes and reads, and may take {} (a \
             quarter of `dram`); end those that are open (Db::transactions lists them), make them smaller, or raise \
             `dram`",
            format_size(used),
            format_size(self.limit)
        )))
    }

    /// Takes so many bytes, limit or not: what an open finds prepared is there, and a savepoint is made by whoever asks.
    pub fn take_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that a lane keeps counted for those that begin.
    pub fn lane_max(&self) -> u64 {
        4 * self.ahead
    }

    /// Bytes of lists that are kept when their transaction has ended.
    pub fn lists_max(&self) -> usize {
        index(LISTS_MAX.min(self.limit >> 11))
    }

    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
