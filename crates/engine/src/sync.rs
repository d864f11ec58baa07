//! What this crate uses of the synchronisation facade.

pub(crate) use thermocline_base::sync::{
    Arc, AtomicBool, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, RwLock, fence, lock,
    lock_short, read, thread, try_lock, wait, write,
};
