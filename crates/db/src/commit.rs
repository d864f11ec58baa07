//! Committing without waiting: a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thermocline_base::sync::{Condvar, Mutex, lock, wait};
use thermocline_base::{Error, Result};

/// The outcome of a commit that goes on in the background: await it on any runtime, or [wait].
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
    /// Whether the result has been handed out.
    over: bool,
    waker: Option<Waker>,
}

/// The duty to tell a commit's outcome. If it is dropped before, it tells that the outcome is unknown.
#[derive(Debug)]
struct Teller(Option<Arc<Shared>>);

impl Teller {
    fn tell(mut self, result: Result<()>) {
        if let Some(shared) = self.0.take() {
            shared.tell(result);
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.tell(Err(Error::Poisoned(
                "the store went before the commit was told about; its outcome is unknown".into(),
            )));
        }
    }
}

impl Shared {
    fn tell(&self, result: Result<()>) {
        let waker = {
            let mut state = lock(&self.state);
            state.result = Some(result);
            state.waker.take()
        };
        self.changed.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Commit {
    /// A commit, and the function that tells its outcome.
    pub(crate) fn new() -> (Commit, impl FnOnce(Result<()>) + Send + 'static) {
        let shared = Arc::new(Shared::default());
        let teller = Teller(Some(shared.clone()));
        (Commit(shared), move |result| teller.tell(result))
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
        assert!(!state.over, "a commit is polled again after it was ready");
        match state.result.take() {
            Some(result) => {
                state.over = true;
                Poll::Ready(result)
            }
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
