//! The synchronisation primitives of the engine, behind one name, so that the same source runs on
//! the operating system's threads and under tools that take over scheduling:
//!
//! - Normally: `parking_lot`'s locks, which are compiled with the engine, so that the thread
//!   sanitizer sees into them (those of the standard library it would only report), and the standard
//!   library's atomics.
//! - With the feature `shuttle`: a scheduler that runs the threads of a test in random orders.
//! - Loom's models include the sources that they check by path and put loom in this module's place
//!   (`art/tests/loom.rs`, `engine/tests/loom.rs`).
//!
//! Locks carry no poison: every structure behind one is changed only by steps that each leave it
//! whole, so a panic elsewhere must not cascade into every caller.

pub use std::sync::Arc;

#[cfg(not(feature = "shuttle"))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(feature = "shuttle"))]
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

#[cfg(feature = "shuttle")]
pub use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
    atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
        fence,
    },
};

/// Hints to the processor.
pub mod hint {
    #[cfg(feature = "shuttle")]
    pub use shuttle::hint::spin_loop;
    #[cfg(not(feature = "shuttle"))]
    pub use std::hint::spin_loop;
}

/// Threads.
pub mod thread {
    #[cfg(feature = "shuttle")]
    pub use shuttle::thread::{Builder, JoinHandle, ThreadId, current, spawn, yield_now};
    #[cfg(not(feature = "shuttle"))]
    pub use std::thread::{Builder, JoinHandle, ThreadId, current, spawn, yield_now};
}

#[cfg(not(feature = "shuttle"))]
mod imp {
    use std::time::Duration;

    use super::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Locks.
    #[inline]
    pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    /// Locks if that needs no waiting.
    #[inline]
    pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock()
    }

    /// Locks for reading.
    pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        lock.read()
    }

    /// Locks for writing.
    pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        lock.write()
    }

    /// Gives the lock up, waits to be woken, and takes it again. Wakes for no reason, too.
    pub fn wait<'a, T>(condvar: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(&mut guard);
        guard
    }

    /// As [`wait`], for at most `time`.
    pub fn wait_for<'a, T>(
        condvar: &Condvar,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> MutexGuard<'a, T> {
        condvar.wait_for(&mut guard, time);
        guard
    }
}

#[cfg(feature = "shuttle")]
mod imp {
    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    use super::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Locks.
    pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks if that needs no waiting.
    pub fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks for reading.
    pub fn read<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks for writing.
    pub fn write<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
        lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the lock up, waits to be woken, and takes it again. Wakes for no reason, too.
    pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`], for at most `time`.
    pub fn wait_for<'a, T>(
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> MutexGuard<'a, T> {
        let woken = condvar.wait_timeout(guard, time);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }
}

pub use imp::{lock, read, try_lock, wait, wait_for, write};
