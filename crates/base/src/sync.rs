//! The synchronisation primitives of the engine, behind one name, so that the same source runs on
//! the operating system's threads and under tools that take over scheduling:
//!
//! - Normally: `parking_lot`'s locks, which are compiled with the engine, so that the thread
//!   sanitizer sees into them (those of the standard library it would only report), and the standard
//!   library's atomics.
//! - With the feature `shuttle`: a scheduler that runs the threads of a test in random orders.
//! - Loom's models include the sources that they check by path and put loom in this module's place
//!   (`art/tests/loom`, `commit/tests/loom`).
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

/// A sequentially consistent fence for a place right after a sequentially consistent
/// read-modify-write of the same thread. On x86-64 the locked instruction of the latter is one
/// already, and only the compiler is told.
#[inline]
pub fn fence_after_rmw() {
    #[cfg(all(target_arch = "x86_64", not(feature = "shuttle")))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(feature = "shuttle"))))]
    fence(Ordering::SeqCst);
}

/// How often a thread that waits for something short looks again before it sleeps: a few microseconds. Under a
/// scheduler that takes over, looking again is a step like sleeping.
pub const SPINS: u32 = if cfg!(feature = "shuttle") { 1 } else { 400 };

/// Whether a scheduler takes over. Then no thread may wait for anything but this module's locks.
pub const SCHEDULED: bool = cfg!(feature = "shuttle");

/// Hints to the processor.
pub mod hint {
    #[cfg(feature = "shuttle")]
    pub use shuttle::hint::spin_loop;
    #[cfg(not(feature = "shuttle"))]
    pub use std::hint::spin_loop;
}

/// Threads.
pub mod thread {
    #[cfg(not(feature = "shuttle"))]
    use std::cell::Cell;

    #[cfg(feature = "shuttle")]
    pub use shuttle::thread::{
        Builder, JoinHandle, Scope, ScopedJoinHandle, ThreadId, current, scope, spawn, yield_now,
    };
    #[cfg(not(feature = "shuttle"))]
    pub use std::thread::{
        Builder, JoinHandle, Scope, ScopedJoinHandle, ThreadId, current, scope, spawn, yield_now,
    };

    /// A thread of a scope; `None` if the system gives none.
    #[cfg(not(feature = "shuttle"))]
    pub fn spawn_scoped<'scope, 'env, T: Send + 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        name: &str,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<ScopedJoinHandle<'scope, T>> {
        let builder = Builder::new().name(name.to_string());
        builder.spawn_scoped(scope, work).ok()
    }

    /// A thread of a scope. A scheduler has always one, and no name for it.
    #[cfg(feature = "shuttle")]
    pub fn spawn_scoped<'scope, 'env, T: Send + 'static>(
        scope: &'scope Scope<'scope, 'env>,
        _name: &str,
        work: impl FnOnce() -> T + Send + 'scope,
    ) -> Option<ScopedJoinHandle<'scope, T>> {
        Some(scope.spawn(work))
    }

    /// A small number for this thread, never given to another one.
    #[cfg(not(feature = "shuttle"))]
    #[inline]
    pub fn number() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};

        thread_local! {
            static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NUMBER.with(|number| {
            if number.get() == usize::MAX {
                number.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }

    #[cfg(not(feature = "shuttle"))]
    thread_local! {
        /// What [`random`] has come to on this thread; `None` before its first number.
        static RANDOM: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// A random number that costs next to nothing: for samples. Each thread has a sequence of its own. In test builds
    /// these all begin at the same place, so that a run that failed can be repeated.
    #[cfg(not(feature = "shuttle"))]
    #[inline]
    pub fn random() -> u32 {
        let state = RANDOM
            .get()
            .unwrap_or_else(|| beginning(number(), cfg!(feature = "planted")));
        let next = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        RANDOM.set(Some(next));
        // The high half is the random one.
        let [_, _, _, _, high @ ..] = next.to_le_bytes();
        u32::from_le_bytes(high)
    }

    /// The place at which a sequence begins that is to be repeated.
    #[cfg(not(feature = "shuttle"))]
    const REPEATED: u64 = 0;

    /// From here on this thread draws the numbers that it draws behind every such call: for whoever counts, and wants the
    /// same counts each time.
    #[cfg(not(feature = "shuttle"))]
    pub fn repeat_random() {
        RANDOM.set(Some(REPEATED));
    }

    /// Where the sequence of the thread with this number begins; at the same place for all where runs are `repeated`. Elsewhere
    /// threads that end after a few numbers would all draw the same ones then, and what is looked at once in 64 numbers would not
    /// be looked at by any of them.
    #[cfg(not(feature = "shuttle"))]
    #[cold]
    fn beginning(number: usize, repeated: bool) -> u64 {
        if repeated {
            return REPEATED;
        }
        // Neighbours begin far from each other: the finaliser of splitmix64.
        let mut z = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number of the execution's own. A generator that outlives the execution would make it unrepeatable.
    #[cfg(feature = "shuttle")]
    pub fn random() -> u32 {
        shuttle::rand::RngCore::next_u32(&mut shuttle::rand::thread_rng())
    }

    /// An id for the simulated process of this thread, if several share this process's memory; `None` otherwise. A
    /// scheduler runs each execution on one thread of the system's, and executions on several threads must know
    /// nothing of each other.
    pub fn process() -> Option<std::thread::ThreadId> {
        super::SCHEDULED.then(|| std::thread::current().id())
    }

    /// A small number for this thread, the same in every run of one schedule.
    #[cfg(feature = "shuttle")]
    pub fn number() -> usize {
        shuttle::thread::current().id().into()
    }

    #[cfg(all(test, not(feature = "shuttle")))]
    mod tests {
        use super::*;

        /// The next number says so once in `every` times.
        fn is_chosen(every: u64) -> bool {
            (u64::from(random()) * every) >> 32 == 0
        }

        #[test]
        fn threads_that_draw_few_numbers_draw_others_each() {
            let mut chosen = 0;
            for number in 0..640 {
                RANDOM.set(Some(beginning(number, false)));
                chosen += (0..10).filter(|_| is_chosen(32)).count();
            }
            // Of 6,400 about 200.
            assert!((150..250).contains(&chosen), "{chosen}");
        }

        #[test]
        fn a_sequence_is_repeated_on_every_thread() {
            let drawn = || {
                repeat_random();
                std::array::from_fn::<u32, 100, _>(|_| random())
            };
            let once = drawn();
            assert_eq!(drawn(), once);
            assert_eq!(std::thread::spawn(drawn).join().unwrap(), once);
        }
    }
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

    /// Locks a mutex that is only ever held for a fraction of a microsecond: looks again for a while before it
    /// sleeps.
    #[inline]
    pub fn lock_short<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.try_lock().unwrap_or_else(|| lock_spinning(mutex))
    }

    #[cold]
    fn lock_spinning<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        for _ in 0..super::SPINS {
            std::hint::spin_loop();
            if !mutex.is_locked()
                && let Some(guard) = mutex.try_lock()
            {
                return guard;
            }
        }
        mutex.lock()
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

    /// Locks what is held shortly.
    pub fn lock_short<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        lock(mutex)
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

pub use imp::{lock, lock_short, read, try_lock, wait, wait_for, write};
