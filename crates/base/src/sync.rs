//! The synchronisation primitives of the engine, behind one name so that the same source runs on
//! the operating system's threads and, built with `--cfg loom`, under a model checker that tries
//! every interleaving.

#[cfg(not(loom))]
pub use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, RwLock,
    atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    },
};

#[cfg(loom)]
pub use loom::sync::{
    Arc, Condvar, Mutex, MutexGuard, RwLock,
    atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    },
};

/// Hints and yields to other threads.
pub mod hint {
    #[cfg(loom)]
    pub use loom::thread::yield_now as spin_loop;
    #[cfg(not(loom))]
    pub use std::hint::spin_loop;
}

/// Threads.
pub mod thread {
    #[cfg(loom)]
    pub use loom::thread::{JoinHandle, spawn, yield_now};
    #[cfg(not(loom))]
    pub use std::thread::{JoinHandle, spawn, yield_now};
}

/// Locks a mutex whose data stays consistent even if a holder panicked.
///
/// Every structure behind a mutex in this engine is changed only by steps that each leave it
/// whole, so poisoning carries no news; a panic elsewhere must not cascade into every caller.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
