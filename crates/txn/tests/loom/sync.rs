//! Loom in the place of `src/sync.rs`.

pub(crate) use std::sync::Arc;

pub(crate) use thermocline_testkit::loom::{
    AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, thread, wait,
    wait_for,
};
