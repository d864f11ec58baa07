//! Coroutines of one job, on one thread (PM-Blade §V: the compaction coroutines of a worker thread).
//!
//! A coroutine runs until it has to wait for the device; then the next one that need not wait runs. No lock is needed
//! between coroutines of one thread, and none may be held while one waits.
//!
//! # Invariants
//! 1. *No wake is missed.* A coroutine's bell is rung before its thread is unparked, and is looked at before the thread
//!    parks. An unpark that comes between look and park makes the park return at once.
//! 2. *The first failure ends all.* The others are dropped where they wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use thermocline_base::sync::{AtomicBool, Ordering};

/// A coroutine.
pub type Coroutine<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + 'a>>;

/// Wakes a coroutine.
struct Bell {
    rung: AtomicBool,
    thread: Thread,
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        // Release: the thread looks with acquire before it parks, and sees what it was woken for.
        self.rung.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Runs coroutines on this thread, each until it waits, in turn, until all have ended. When all wait, `idle` is called with what
/// waits for one of them.
///
/// ```
/// use std::cell::RefCell;
/// use thermocline_exec::{Coroutine, weave};
///
/// let said = RefCell::new(Vec::new());
/// let speaker = |name| {
///     let said = &said;
///     Box::pin(async move {
///         for n in 0..2 {
///             said.borrow_mut().push((name, n));
///             thermocline_exec::rest().await;
///         }
///         Ok::<(), ()>(())
///     }) as Coroutine<'_, ()>
/// };
/// weave(vec![speaker("a"), speaker("b")], &|wait| wait()).expect("neither fails");
/// assert_eq!(*said.borrow(), [("a", 0), ("b", 0), ("a", 1), ("b", 1)]);
/// ```
///
/// # Errors
/// The first that a coroutine ends with; the others are dropped then.
pub fn weave<E>(coroutines: Vec<Coroutine<'_, E>>, idle: &dyn Fn(&dyn Fn())) -> Result<(), E> {
    let thread = thread::current();
    let bell = || {
        let (rung, thread) = (AtomicBool::new(true), thread.clone());
        Arc::new(Bell { rung, thread })
    };
    let mut left: Vec<_> = coroutines.into_iter().map(|c| (c, bell())).collect();
    while !left.is_empty() {
        let mut ran = false;
        let mut n = 0;
        while let Some((coroutine, bell)) = left.get_mut(n) {
            if !bell.rung.swap(false, Ordering::Acquire) {
                n += 1;
                continue;
            }
            ran = true;
            let waker = Waker::from(bell.clone());
            match coroutine.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(ended) => {
                    ended?;
                    drop(left.remove(n));
                }
                Poll::Pending => n += 1,
            }
        }
        if !ran {
            idle(&thread::park);
        }
    }
    Ok(())
}

/// Lets the other coroutines run that need not wait.
pub fn rest() -> impl Future<Output = ()> {
    let mut rested = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut rested, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn coroutines_that_others_wake_all_end() {
        for _ in 0..50 {
            let ended = Cell::new(0);
            let sleeper = |n: u64| {
                let ended = &ended;
                Box::pin(async move {
                    for round in 0..5 {
                        let (promise, pending) = crate::promise::promise();
                        thread::spawn(move || {
                            thread::sleep(Duration::from_micros(n * round * 7));
                            promise.keep(round);
                        });
                        assert_eq!(pending.await, Some(round));
                    }
                    ended.set(ended.get() + 1);
                    Ok::<(), ()>(())
                }) as Coroutine<'_, ()>
            };
            weave((0..4).map(sleeper).collect(), &|wait| wait()).unwrap();
            assert_eq!(ended.get(), 4);
        }
    }

    #[test]
    fn the_first_failure_ends_all() {
        struct Gone<'a>(&'a Cell<u32>);
        impl Drop for Gone<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let gone = Cell::new(0);
        let one = |fails: bool| {
            let own = Gone(&gone);
            Box::pin(async move {
                let _own = own;
                rest().await;
                match fails {
                    true => Err("as this test wants it"),
                    false => std::future::pending().await,
                }
            }) as Coroutine<'_, &'static str>
        };
        let ended = weave(vec![one(false), one(true), one(false)], &|wait| wait());
        assert_eq!((ended, gone.get()), (Err("as this test wants it"), 3));
        weave::<()>(Vec::new(), &|_| unreachable!("nobody waits")).unwrap();
    }
}
