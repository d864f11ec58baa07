//! DRAM that the transactions of a store have, and its limit.

use thermocline_base::size::format_size;
use thermocline_base::{Error, Result};

use crate::sync::{AtomicU64, Ordering};

/// What a lock costs beside its key: its entry, its place in two lists, the nodes of maps.
pub(crate) const LOCK_BYTES: u64 = 256;
/// What a key or range that must not change costs beside its bytes: its places in lists that have room to grow, and among
/// hashes.
pub(crate) const TOUCHED_BYTES: u64 = 128;
/// What a write costs beside key and value, in the same way.
pub(crate) const WRITE_BYTES: u64 = 160;
/// What a transaction costs that has nothing.
pub(crate) const TRANSACTION_BYTES: u64 = 2048;

/// The DRAM of all transactions of a store.
#[derive(Debug)]
pub(crate) struct Memory {
    used: AtomicU64,
    pub limit: u64,
}

impl Memory {
    pub fn new(limit: u64) -> Memory {
        Memory {
            used: AtomicU64::new(0),
            limit,
        }
    }

    /// Takes so many bytes.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] with the limit; nothing is taken then.
    pub fn take(&self, bytes: u64) -> Result<()> {
        // Relaxed: it is a number alone.
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used <= self.limit {
            return Ok(());
        }
        self.give_back(bytes);
        Err(Error::OutOfSpace(format!(
            "the transactions of this store would take {} of DRAM for locks, writes and reads, and may take {} (a \
             quarter of `dram`); end those that are open (Db::transactions lists them), make them smaller, or raise \
             `dram`",
            format_size(used),
            format_size(self.limit)
        )))
    }

    /// Takes so many bytes, limit or not: what an open finds prepared is there.
    pub fn take_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}
