//! Worker threads without strands.

use std::sync::mpsc::channel;

use thermocline_env::simulated::SimClock;

use super::*;

/// Something that has a turn, in which it asks for one of the next, if there is one.
struct Asks {
    workers: Arc<Workers>,
    next: Option<Arc<Asks>>,
}

impl Turns for Asks {
    fn turn(self: Arc<Self>) {
        if let Some(next) = &self.next {
            self.workers.ready(next.clone());
        }
    }

    fn due(self: Arc<Self>, _: Task) {}

    fn alone(&self) {}
}

/// One of them starts the other, which would outlive the runtime for a moment.
#[test]
fn a_thread_that_is_started_while_all_end_is_waited_for() {
    let workers = Workers::new("test", 2, Arc::new(SimClock::new()));
    let (starts, is_starting) = channel();
    let (of, has_one) = (Arc::downgrade(&workers), AtomicBool::new(false));
    workers.starter.refuse_if(move || {
        if has_one.swap(true, Ordering::SeqCst) {
            starts.send(()).unwrap();
            // It is started only when all are told to end.
            while of.upgrade().is_some_and(|of| !lock(&of.state).stopping) {
                thread::yield_now();
            }
        }
        false
    });
    let asks = |next| {
        let workers = workers.clone();
        Arc::new(Asks { workers, next })
    };
    workers.ready(asks(Some(asks(None))));
    is_starting.recv().unwrap();
    workers.stop();
    assert!(lock(&workers.state).handles.is_empty());
}
