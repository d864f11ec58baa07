//! One answer, from the thread that has it to the task that waits for it.
//!
//! # Invariants
//! 1. *No answer is missed.* The task that waits looks for the answer and leaves its waker under one lock. The thread
//!    that answers puts the answer down and takes the waker under the same lock. So either the task sees the answer, or
//!    the thread has the waker.
//! 2. *The last waker counts.* A task that is polled by another executor is woken there.
//! 3. *Nobody waits in vain.* A promise that is dropped answers that there will be no answer.
//! 4. *Wakers run under no lock.* A waker may poll the task at once, on this thread.
//! 5. *An answer that nobody waits for goes.* If the task is gone, the answer is dropped with the last of the two ends.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::sync::{Arc, Mutex, lock};

enum State<T> {
    Waiting(Option<Waker>),
    Kept(T),
    Broken,
}

struct Shared<T>(Mutex<State<T>>);

/// Held by the thread that will have the answer.
pub(crate) struct Promise<T>(Arc<Shared<T>>);

/// A future of the answer; `None` if there will be none.
#[must_use = "an answer that nobody waits for is dropped"]
pub(crate) struct Pending<T>(Arc<Shared<T>>);

/// Both ends.
pub(crate) fn promise<T>() -> (Promise<T>, Pending<T>) {
    let shared = Arc::new(Shared(Mutex::new(State::Waiting(None))));
    (Promise(shared.clone()), Pending(shared))
}

impl<T> Shared<T> {
    /// Moves on from waiting; returns the waker that is to be called.
    fn settle(&self, to: State<T>) -> Option<Waker> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Waiting(waker) => {
                let waker = waker.take();
                *state = to;
                waker
            }
            State::Kept(_) | State::Broken => None,
        }
    }
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub fn keep(self, answer: T) {
        if let Some(waker) = self.0.settle(State::Kept(answer)) {
            waker.wake();
        }
    }

    /// Whether a task still waits. Once this is false it stays so; a true answer may be out of date at once.
    pub fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(waker) = self.0.settle(State::Broken) {
            // Work that panics ends here, and must not meet another panic.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        // Dropped behind the lock: what goes with a waker may be a task.
        let _before;
        let mut state = lock(&self.0.0);
        match std::mem::replace(&mut *state, State::Broken) {
            State::Kept(answer) => Poll::Ready(Some(answer)),
            State::Broken => Poll::Ready(None),
            State::Waiting(Some(waker)) if waker.will_wake(context.waker()) => {
                *state = State::Waiting(Some(waker));
                Poll::Pending
            }
            State::Waiting(before) => {
                _before = before;
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
pub(crate) fn wait_for<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}
