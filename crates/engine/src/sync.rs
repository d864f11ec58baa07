//! What this crate uses of the synchronisation facade. A name of its own, so that a model can put
//! loom's in its place (`tests/loom`).

pub(crate) use thermocline_base::sync::{
    Arc, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering,
    RwLock, SPINS, fence_after_rmw, hint, lock, lock_short, read, thread, try_lock, wait, wait_for,
    write,
};
