//! Committing without waiting: a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use thermocline_base::sync::{Condvar, Mutex, lock, wait};
use thermocline_base::{Error, Result};
use thermocline_engine::is_calling;

/// The outcome of a commit that goes on in the background: await it on any runtime, or [wait].
/// Dropping it forgets the outcome; the commit goes on.
///
/// In a callback or listener nobody can wait for it: its outcome is told behind them, on their own thread. There [wait]
/// refuses, and an executor that blocks the thread would never end. Let another thread wait, or take
/// [`Batch::commit_with_callback`](crate::Batch::commit_with_callback).
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
    /// [`Error::Poisoned`] after a failed persist: the outcome is unknown. [`Error::Busy`] in a callback or listener, of
    /// whatever store, if the outcome is not known yet: the commit goes on. [`Error::InvalidArgument`] if it was awaited,
    /// and has given its outcome then.
    pub fn wait(self) -> Result<()> {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(result) = state.result.take() {
                return result;
            }
            if state.over {
                return Err(Error::InvalidArgument(
                    "this commit was awaited before, and has given its outcome then".into(),
                ));
            }
            // The outcome is told behind the call that this thread is in.
            if is_calling() {
                return Err(Error::Busy(
                    "a callback or listener must not wait for a commit, whose outcome is told behind it; the \
                     commit goes on, and what comes of it is told no more: move it to another thread to wait, or \
                     have a callback told"
                        .into(),
                ));
            }
            state = wait(&self.0.changed, state);
        }
    }
}

impl Future for Commit {
    type Output = Result<()>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // Dropped behind the lock: what goes with a waker may be a task, and all that it has.
        let _before;
        let mut state = lock(&self.0.state);
        assert!(!state.over, "a commit is polled again after it was ready");
        match state.result.take() {
            Some(result) => {
                state.over = true;
                Poll::Ready(result)
            }
            None => {
                _before = state.waker.replace(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Commit {
    /// It takes its waker along, and with it what that holds, however long the commit takes.
    fn drop(&mut self) {
        // Dropped behind the lock, as when it is polled.
        let waker = lock(&self.0.state).waker.take();
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use thermocline_base::sync::try_lock;

    use super::*;

    /// How many wakers have gone, and how many of them while the commit was locked.
    #[derive(Default)]
    struct Gone {
        all: AtomicUsize,
        locked: AtomicUsize,
    }

    /// A waker, and whose it is.
    struct Task {
        commit: Arc<Shared>,
        gone: Arc<Gone>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Task {
        fn drop(&mut self) {
            let is_locked = try_lock(&self.commit.state).is_none();
            self.gone.all.fetch_add(1, Ordering::Relaxed);
            let locked = usize::from(is_locked);
            self.gone.locked.fetch_add(locked, Ordering::Relaxed);
        }
    }

    /// With a waker a task may go, and what a task has may ask for the commit, or end the store that tells it.
    #[test]
    fn wakers_go_with_their_commit_or_before_and_under_no_lock() {
        let (mut commit, tell) = Commit::new();
        let gone = Arc::new(Gone::default());
        for n in 0..3 {
            let task = Task {
                commit: commit.0.clone(),
                gone: gone.clone(),
            };
            let waker = Waker::from(Arc::new(task));
            let polled = Pin::new(&mut commit).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            drop(waker);
            // The last one is there still.
            let counts = [&gone.all, &gone.locked].map(|count| count.load(Ordering::Relaxed));
            assert_eq!(counts, [n, 0]);
        }
        // Nobody is told yet.
        drop(commit);
        let counts = [&gone.all, &gone.locked].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [3, 0]);
        tell(Ok(()));
    }
}
