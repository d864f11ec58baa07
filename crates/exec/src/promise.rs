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
//! 6. *A future that goes takes its waker along*, and with it what that holds, however long the answer takes.

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

/// Held by the thread that will have the answer. `None` inside once it was given.
pub(crate) struct Promise<T>(Option<Arc<Shared<T>>>);

/// A future of the answer; `None` if there will be none. `None` inside once it was taken.
#[must_use = "an answer that nobody waits for is dropped"]
pub(crate) struct Pending<T>(Option<Arc<Shared<T>>>);

/// Both ends.
pub(crate) fn promise<T>() -> (Promise<T>, Pending<T>) {
    let shared = Arc::new(Shared(Mutex::new(State::Waiting(None))));
    (Promise(Some(shared.clone())), Pending(Some(shared)))
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

    /// The answer, if it is there. Else the waker is left.
    fn ask(&self, context: &Context<'_>) -> Poll<Option<T>> {
        // Dropped behind the lock: what goes with a waker may be a task.
        let _before;
        let mut state = lock(&self.0);
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

    /// Gives out the waker that was left, since nobody waits any more.
    fn forget_waker(&self) -> Option<Waker> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Waiting(waker) => waker.take(),
            State::Kept(_) | State::Broken => None,
        }
    }
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub fn keep(self, answer: T) {
        if let Some(waker) = self.keep_quietly(answer) {
            waker.wake();
        }
    }

    /// Gives the answer, and returns the waker that the caller is to call, if somebody waits.
    #[must_use = "who waits is to be woken"]
    pub fn keep_quietly(mut self, answer: T) -> Option<Waker> {
        self.0.take()?.settle(State::Kept(answer))
    }

    /// Whether a task still waits. Once this is false it stays so; a true answer may be out of date at once.
    pub fn is_wanted(&self) -> bool {
        let shared = self.0.as_ref();
        shared.is_some_and(|shared| Arc::strong_count(shared) > 1)
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let shared = self.0.take();
        if let Some(waker) = shared.and_then(|shared| shared.settle(State::Broken)) {
            // Work that panics ends here, and must not meet another panic.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let answer = match &self.0 {
            Some(shared) => std::task::ready!(shared.ask(context)),
            None => None,
        };
        self.0 = None;
        Poll::Ready(answer)
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        // Dropped behind the lock: what goes with a waker may be a task.
        drop(self.0.take().and_then(|shared| shared.forget_waker()));
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
