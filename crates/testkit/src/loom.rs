//! Loom, for models that include sources by path and put this module in the place of their
//! `crate::sync`.
//!
//! Loom runs a model again and again until it has seen every interleaving of its threads, up to
//! reorderings of independent steps, and every value that the memory model lets a load return. Three
//! things stand between it and the sources, and this module puts them right.
//!
//! # Accesses that hide others
//! To know which steps depend on each other, loom 0.7 remembers one access to an atomic, the last.
//! A thread that loads and then stores, like every writer of a version lock, meets its own load
//! there and not what other threads have loaded before: the executions in which the store comes
//! first are never tried. The atomics here tell loom of every load once more, as a step on an object
//! that stands for the loads of that thread from that atomic, and of every store as a step on all
//! such objects of other threads. These steps have no other effect and cannot be separated from
//! the access itself, so they add no executions but those that were missing. The test
//! `tests/loom.rs` compares with all interleavings of small programs.
//!
//! # Fences that cannot be preempted
//! Loom runs a fence together with the step before it. The order of two sequentially consistent
//! fences matters, though, and what other threads do between that step and the fence. [`fence`]
//! makes these fences steps that depend on each other.
//!
//! # Sequentially consistent accesses
//! Loom takes them for acquire and release. That finds faults that are none where a proof rests on
//! their single order, so a model may choose how they are compiled: [`SeqCst`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Counter;

use loom::sync::Condvar as Object;

use crate::explore;

pub use loom::hint;
pub use loom::sync::atomic::Ordering;
pub use loom::sync::{Condvar, Mutex, MutexGuard};

/// How often whoever waits looks before it sleeps.
pub const SPINS: u32 = 1;

/// Threads of a model, its first one included.
const THREADS: usize = 4;

/// What a sequentially consistent access is. Each of the two compilations with fences allows some
/// executions that the language forbids and the other way round, so where a model needs them it is
/// to be checked with both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeqCst {
    /// An acquire, release or both: weaker than the language promises.
    Weaker,
    /// The same, after a fence.
    FenceBefore,
    /// The same, before a fence.
    FenceAfter,
}

thread_local! {
    // Loom runs all threads of a model on one thread of the system.
    static SEQ_CST: Cell<SeqCst> = const { Cell::new(SeqCst::Weaker) };
    static SPAWNED: Cell<usize> = const { Cell::new(0) };
    static LOADS: RefCell<Vec<[Option<Rc<Object>>; THREADS]>> = const { RefCell::new(Vec::new()) };
    static FENCES: RefCell<Option<Rc<Object>>> = const { RefCell::new(None) };
}

/// Preemptions that a plain run explores where a whole one explores more.
const PREEMPTIONS: usize = 2;

/// Explores all executions of a model with at most `preemptions` preemptions (`None`: any number; in a plain run
/// [`PREEMPTIONS`] are enough), and prints how many there were.
///
/// # Panics
/// If the model does in any execution; and if it does not end.
pub fn check(
    name: &str,
    preemptions: Option<usize>,
    seq_cst: SeqCst,
    model: impl Fn() + Send + Sync + 'static,
) -> u64 {
    let plain = explore::times().is_none();
    let preemptions = preemptions.map(|most| if plain { most.min(PREEMPTIONS) } else { most });
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 50_000;
    // Whatever the environment says: all of them.
    (builder.max_permutations, builder.max_duration) = (None, None);
    let executions = Arc::new(Counter::new(0));
    let counter = Arc::clone(&executions);
    SEQ_CST.set(seq_cst);
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        SPAWNED.set(0);
        LOADS.with_borrow_mut(Vec::clear);
        FENCES.take();
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    let bound = preemptions.map_or("any number of".into(), |bound| format!("at most {bound}"));
    println!("loom: {name}: all {executions} executions with {bound} preemptions");
    executions
}

/// A fence.
pub fn fence(order: Ordering) {
    if order == Ordering::SeqCst {
        let fences = FENCES.with_borrow_mut(|all| Rc::clone(all.get_or_insert_default()));
        fences.notify_all(); // nobody waits: this only counts as a step
    }
    loom::sync::atomic::fence(order);
}

/// A fence after a read-modify-write; never left out here, since that is no fence for loom.
pub fn fence_after_rmw() {
    fence(Ordering::SeqCst);
}

/// Locks.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a panic ends the model")
}

/// Gives the lock up, waits to be woken, and takes it again.
pub fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).expect("a panic ends the model")
}

/// As [`wait`], for some time; here that is over at once.
pub fn wait_for<'a, T>(
    _: &Condvar,
    guard: MutexGuard<'a, T>,
    _: std::time::Duration,
) -> MutexGuard<'a, T> {
    guard
}

/// Threads.
pub mod thread {
    use std::cell::Cell;

    use super::SPAWNED;

    pub use loom::thread::{JoinHandle, current, park, yield_now};

    loom::thread_local! {
        static NUMBER: Cell<usize> = Cell::new(0);
    }

    /// 0 for a model's first thread, the others in the order in which it spawned them.
    pub fn number() -> usize {
        NUMBER.with(Cell::get)
    }

    /// Runs a thread beside the others. Only a model's first thread may.
    pub fn spawn<T: 'static>(f: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
        assert_eq!(number(), 0);
        let number = SPAWNED.get() + 1;
        assert!(number < super::THREADS);
        SPAWNED.set(number);
        loom::thread::spawn(move || {
            NUMBER.with(|own| own.set(number));
            f()
        })
    }
}

/// An atomic's loads, by thread; see "accesses that hide others". A place in [`LOADS`], so that
/// atomics stay small and need no dropping: models put them where nothing is dropped.
#[derive(Debug)]
struct Loads(usize);

impl Loads {
    fn new() -> Loads {
        LOADS.with_borrow_mut(|all| {
            all.push(Default::default());
            Loads(all.len() - 1)
        })
    }

    /// The object for the loads of a thread, if there were any.
    fn of(&self, thread: usize) -> Option<Rc<Object>> {
        LOADS.with_borrow(|all| all[self.0][thread].clone())
    }

    /// This thread has just loaded.
    fn loaded(&self) {
        let number = thread::number();
        let own = self.of(number).unwrap_or_else(|| {
            let new = Rc::new(Object::new());
            LOADS.with_borrow_mut(|all| all[self.0][number] = Some(Rc::clone(&new)));
            new
        });
        loom::stop_exploring();
        own.notify_all(); // nobody waits: this only counts as a step
        loom::explore();
    }

    /// This thread stores now: others may run before, but not before the end of `store`.
    fn store(&self, store: impl FnOnce()) {
        let stopped = self.depend_on_others();
        store();
        if stopped {
            loom::explore();
        }
    }

    /// This thread reads, modifies and writes now. (Others may run just before, too.)
    fn update<T>(&self, update: impl FnOnce() -> T) -> T {
        if self.depend_on_others() {
            loom::explore();
        }
        update()
    }

    /// Whether there were loads of others; if so, exploring has stopped.
    fn depend_on_others(&self) -> bool {
        let own = thread::number();
        let mut stopped = false;
        for other in (0..THREADS).filter(|&other| other != own) {
            let Some(loads) = self.of(other) else {
                continue;
            };
            loads.notify_all();
            if !stopped {
                loom::stop_exploring();
                stopped = true;
            }
        }
        stopped
    }
}

fn before(order: Ordering) {
    if order == Ordering::SeqCst && SEQ_CST.get() == SeqCst::FenceBefore {
        fence(Ordering::SeqCst);
    }
}

fn after(order: Ordering) {
    if order == Ordering::SeqCst && SEQ_CST.get() == SeqCst::FenceAfter {
        fence(Ordering::SeqCst);
    }
}

macro_rules! atomic {
    ($name:ident $(<$t:ident>)?, $value:ty, $doc:literal) => {
        #[doc = $doc]
        pub struct $name $(<$t>)? {
            value: loom::sync::atomic::$name $(<$t>)?,
            loads: Loads,
        }

        impl $(<$t>)? $name $(<$t>)? {
            /// An atomic of this value.
            pub fn new(value: $value) -> Self {
                Self {
                    value: loom::sync::atomic::$name::new(value),
                    loads: Loads::new(),
                }
            }

            /// Loads.
            pub fn load(&self, order: Ordering) -> $value {
                before(order);
                let value = self.value.load(order);
                self.loads.loaded();
                after(order);
                value
            }

            /// Stores.
            pub fn store(&self, value: $value, order: Ordering) {
                before(order);
                self.loads.store(|| self.value.store(value, order));
                after(order);
            }

            /// Swaps.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                before(order);
                let old = self.loads.update(|| self.value.swap(value, order));
                after(order);
                old
            }

            /// Stores `new` if the value is `current`.
            ///
            /// # Errors
            /// With the value that it is.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                before(success);
                let exchange = || self.value.compare_exchange(current, new, success, failure);
                let result = self.loads.update(exchange);
                after(success);
                result
            }
        }

        impl $(<$t>)? Default for $name $(<$t>)? {
            fn default() -> Self {
                Self {
                    value: loom::sync::atomic::$name::default(),
                    loads: Loads::new(),
                }
            }
        }

        impl $(<$t>)? std::fmt::Debug for $name $(<$t>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.value.fmt(f)
            }
        }
    };
}

atomic!(AtomicBool, bool, "A flag.");
atomic!(AtomicU32, u32, "A number of 32 bits.");
atomic!(AtomicUsize, usize, "A number.");
atomic!(AtomicU64, u64, "A number of 64 bits.");
atomic!(AtomicPtr<T>, *mut T, "A pointer.");

impl AtomicU64 {
    /// Exclusive access: everybody else's must have happened before, in an order that this thread
    /// can know of.
    pub fn with_mut<R>(&mut self, f: impl FnOnce(&mut u64) -> R) -> R {
        self.value.with_mut(f)
    }
}

macro_rules! arithmetic {
    ($name:ident, $value:ty, $($operation:ident),*) => {
        impl $name {
            $(
                /// As that of the standard library.
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    before(order);
                    let old = self.loads.update(|| self.value.$operation(value, order));
                    after(order);
                    old
                }
            )*
        }
    };
}

arithmetic!(AtomicUsize, usize, fetch_add, fetch_sub, fetch_max);
arithmetic!(
    AtomicU64, u64, fetch_add, fetch_sub, fetch_max, fetch_or, fetch_and
);
