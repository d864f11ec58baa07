//! Loom in the place of `src/sync.rs`.

pub(crate) use std::sync::Arc;

pub(crate) use thermocline_testkit::loom::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, SPINS,
    fence_after_rmw, hint, lock, thread, wait, wait_for,
};
