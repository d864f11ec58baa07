//! Loom in the place of `src/sync.rs`.

pub(crate) use std::sync::Arc;

pub(crate) use thermocline_testkit::loom::thread::number as thread_number;
pub(crate) use thermocline_testkit::loom::{
    AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_for,
};

/// Readers that begin on a model's first thread are counted in one shard, those of its second thread in the other one.
pub(crate) const SHARDS: usize = 2;
