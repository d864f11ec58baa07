//! Who writes PM tables is promised the persistent memory for them before: a flush and several internal compactions
//! may be at it at the same time, and together with what is named they keep to a limit.
//!
//! A promise is kept until the tables are named, or gone. Between that edit and the end of the promise they count
//! twice, which keeps somebody waiting, and nothing worse.

use std::sync::Arc;

use thermocline_base::sync::{Mutex, lock};

/// Bytes that are promised. Before the versions in the order of locks.
#[derive(Debug, Clone, Default)]
pub struct Promised(Arc<Mutex<u64>>);

/// Ends when it is dropped.
#[derive(Debug)]
pub struct Promise {
    promised: Promised,
    bytes: u64,
}

impl Promise {
    /// Bytes of persistent memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Tables that take so much of it are named.
    pub fn kept(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        *lock(&self.promised.0) -= bytes;
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        *lock(&self.promised.0) -= self.bytes;
    }
}

impl Promised {
    /// Promises what tables may still take until all of them have `limit` bytes, at most `most` of it; `None` if
    /// that is less than `least`. They take what `taken` says, beside what is promised.
    pub fn promise(
        &self,
        taken: impl FnOnce() -> u64,
        limit: u64,
        (least, most): (u64, u64),
    ) -> Option<Promise> {
        let mut all = lock(&self.0);
        let taken = taken().saturating_add(*all);
        let bytes = limit.saturating_sub(taken).min(most);
        (bytes >= least).then(|| {
            *all += bytes;
            Promise {
                promised: self.clone(),
                bytes,
            }
        })
    }
}
