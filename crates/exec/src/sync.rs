//! What this crate uses of the synchronisation facade. A name of its own, so that a model can put loom's in its place
//! (`tests/loom`).

pub(crate) use std::sync::Arc;

pub(crate) use thermocline_base::sync::{
    AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock, wait, wait_for,
};
