//! Committing without waiting: a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thermocline_base::Result;
use thermocline_base::sync::{Condvar, Mutex, lock, wait};

/// The outcome of a commit that goes on without its thread: await it on any runtime, or [wait].
/// Dropping it forgets the outcome; the commit goes on.
///
/// [wait]: Commit::wait
#[derive(Debug)]
#[must_use = "the commit is durable only when this is ready"]
pub struct Commit(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    result: Option<Result<()>>,
    waker: Option<Waker>,
}

impl Commit {
    /// A commit, and the function that tells its outcome.
    pub(crate) fn new() -> (Commit, impl FnOnce(Result<()>) + Send + 'static) {
        let shared = Arc::new(Shared::default());
        let told = shared.clone();
        let tell = move |result| {
            let waker = {
                let mut state = lock(&told.state);
                state.result = Some(result);
                state.waker.take()
            };
            told.changed.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        (Commit(shared), tell)
    }

    /// Sleeps until the commit is durable.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] after a failed persist: the outcome is unknown.
    pub fn wait(self) -> Result<()> {
        let mut state = lock(&self.0.state);
        loop {
            match state.result.take() {
                Some(result) => return result,
                None => state = wait(&self.0.changed, state),
            }
        }
    }
}

impl Future for Commit {
    type Output = Result<()>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut state = lock(&self.0.state);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
