//! Loom models of a promise, and of the room of jobs (`room`): every interleaving of whoever answers and whoever waits. The
//! sources are included by path, and reach their locks and atomics through `crate::sync`, which is loom's here.
//!
//! Of the promise, seen to fail on: a waker that is left behind a look of its own, outside the lock under which the
//! answer was not there; the first waker kept in place of the last; a promise that goes without a word.

#[path = "../../src/budget.rs"]
mod budget;
#[expect(dead_code, reason = "the models use parts of the source")]
#[path = "../../src/promise.rs"]
mod promise;
mod sync;

mod room;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use promise::{Pending, promise};
use thermocline_testkit::loom::{AtomicUsize, Ordering, SeqCst, check, thread};

/// Counts how often it was called.
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell(AtomicUsize::new(0)));
    (bell.clone(), Waker::from(bell))
}

fn ask(pending: &mut Pending<u32>, waker: &Waker) -> Poll<Option<u32>> {
    Pin::new(pending).poll(&mut Context::from_waker(waker))
}

fn check_any(name: &str, model: impl Fn() + Send + Sync + 'static) {
    check(name, None, SeqCst::Weaker, model);
}

/// Whoever was told to wait is woken, by the last waker that it left.
fn waits(answer: Option<u32>) {
    let (promise, mut pending) = promise();
    let answerer = thread::spawn(move || match answer {
        Some(answer) => promise.keep(answer),
        None => drop(promise),
    });
    let (first, waker) = bell();
    let (last, other) = bell();
    let mut polls = ask(&mut pending, &waker);
    if polls.is_pending() {
        polls = ask(&mut pending, &other);
    }
    let waited = polls.is_pending();
    answerer.join().unwrap();
    if waited {
        assert_eq!(last.0.load(Ordering::SeqCst), 1);
        assert_eq!(first.0.load(Ordering::SeqCst), 0);
        polls = ask(&mut pending, &other);
    }
    assert_eq!(polls, Poll::Ready(answer));
}

#[test]
fn no_answer_is_missed() {
    check_any("an answer", || waits(Some(7)));
}

#[test]
fn nobody_waits_for_a_promise_that_has_gone() {
    check_any("a promise that goes", || waits(None));
}

#[test]
fn a_future_that_goes_takes_the_answer_along() {
    check_any("a future that goes", || {
        let (promise, mut pending) = promise();
        let held = Arc::new(());
        let answer = held.clone();
        let answerer = thread::spawn(move || promise.keep(answer));
        let (_, waker) = bell();
        let _ = Pin::new(&mut pending).poll(&mut Context::from_waker(&waker));
        drop(pending);
        answerer.join().unwrap();
        assert_eq!(Arc::strong_count(&held), 1);
    });
}

/// A waker may hold its task, and all that belongs to that. What nobody waits for any more may take long.
#[test]
fn a_future_that_goes_takes_its_waker_along() {
    check_any("a future that goes before the answer", || {
        let (promise, mut pending) = promise();
        let (bell, waker) = bell();
        assert!(ask(&mut pending, &waker).is_pending());
        drop((pending, waker));
        assert_eq!(Arc::strong_count(&bell), 1);
        promise.keep(7);
        assert_eq!(bell.0.load(Ordering::SeqCst), 0);
    });
}
