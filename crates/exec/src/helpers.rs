//! Threads for what has to wait: reads that the kernel does not take, other work between reads of a future, writes and syncs of
//! jobs.
//!
//! # Invariants
//! 1. *Threads as needed*, up to a bound: one starts where work waits and no thread is idle, and ends after the reader
//!    has gone. Where the system gives no thread at all, the caller that brings the work does it.
//! 2. *All work is done*, in its order, unless nobody wants it any more. That holds also for work that waits when the
//!    reader goes.
//! 3. *Work that panics ends alone*: its promise is broken, and the thread goes on.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thermocline_base::sync::{Condvar, Mutex, lock, thread, wait};

/// Threads at most: as many reads are under way where there is no `io_uring`.
const THREADS_MAX: usize = 32;

/// A piece of work.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    idle: usize,
    threads: usize,
    /// The caller that brings work does it, since the system gives no thread.
    alone: bool,
    stopping: bool,
}

/// See the [module](self).
pub(crate) struct Helpers {
    /// The name of its threads.
    name: &'static str,
    state: Mutex<State>,
    work: Condvar,
}

impl Helpers {
    /// Without any thread yet; they will have this name.
    pub fn named(name: &'static str) -> Helpers {
        Helpers {
            name,
            state: Mutex::default(),
            work: Condvar::new(),
        }
    }

    /// Has it done soon, on another thread.
    pub fn bring(self: &Arc<Helpers>, work: Work) {
        let mut state = lock(&self.state);
        state.waiting.push_back(work);
        if state.idle >= state.waiting.len() {
            drop(state);
            self.work.notify_one();
            return;
        }
        if state.threads == THREADS_MAX {
            return;
        }
        state.threads += 1;
        drop(state);
        let helpers = self.clone();
        let builder = thread::Builder::new().name(self.name.into());
        if builder.spawn(move || helpers.help()).is_err() {
            let mut state = lock(&self.state);
            state.threads -= 1;
            if state.threads > 0 || std::mem::replace(&mut state.alone, true) {
                return;
            }
            // What others bring meanwhile, too, or this work itself.
            while let Some(work) = state.waiting.pop_front() {
                drop(state);
                run(work);
                state = lock(&self.state);
            }
            state.alone = false;
        }
    }

    fn help(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                run(work);
                state = lock(&self.state);
            } else if state.stopping {
                state.threads -= 1;
                return;
            } else {
                state.idle += 1;
                state = wait(&self.work, state);
                state.idle -= 1;
            }
        }
    }

    /// Ends the threads once nothing waits. The caller does not wait for them: they may be in a waker, which is the
    /// user's.
    pub fn stop(&self) {
        lock(&self.state).stopping = true;
        self.work.notify_all();
    }

    /// Threads that have started.
    pub fn threads(&self) -> usize {
        lock(&self.state).threads
    }
}

/// Does a piece of work. What it promised is broken if it panics; the panic itself was reported by the hook.
pub(crate) fn run(work: Work) {
    let _ = catch_unwind(AssertUnwindSafe(work));
}
