//! Loom in the place of `src/sync.rs`.

pub(crate) use std::sync::Arc;

pub(crate) use thermocline_testkit::loom::{
    AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_for,
};
