//! What this crate uses of the synchronisation facade. A name of its own, so that a model can put loom's in its place
//! (`tests/loom`).

pub(crate) use std::sync::Arc;

pub(crate) use thermocline_base::sync::thread::number as thread_number;
pub(crate) use thermocline_base::sync::{
    AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_for,
};

use thermocline_base::sync::SCHEDULED;

/// Over how many places threads spread what all of them count. In a schedule nobody is slow, and to look at a place is a step.
pub(crate) const SHARDS: usize = if SCHEDULED { 1 } else { 16 };
