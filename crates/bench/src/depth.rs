//! Several reads under way at once on one thread: a small executor.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::clock::Instant;

/// Reads that are under way, and those whose turn it is to be asked.
pub(crate) struct InFlight<R> {
    reads: Vec<Option<(R, Instant)>>,
    wakers: Vec<Waker>,
    free: Vec<usize>,
    woken: Arc<Woken>,
}

struct Woken {
    places: Mutex<VecDeque<usize>>,
    thread: Thread,
}

struct Place {
    number: usize,
    woken: Arc<Woken>,
}

impl Woken {
    fn next(&self) -> Option<usize> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        places.pop_front()
    }
}

impl Wake for Place {
    fn wake(self: Arc<Place>) {
        let places = self.woken.places.lock();
        let mut places = places.unwrap_or_else(PoisonError::into_inner);
        places.push_back(self.number);
        let first = places.len() == 1;
        drop(places);
        if first {
            self.woken.thread.unpark();
        }
    }
}

impl<R: Future + Unpin> InFlight<R> {
    /// Up to `depth` reads, awaited by this thread.
    pub fn new(depth: usize) -> InFlight<R> {
        let woken = Arc::new(Woken {
            places: Mutex::default(),
            thread: thread::current(),
        });
        let waker = |number| {
            let woken = woken.clone();
            Waker::from(Arc::new(Place { number, woken }))
        };
        InFlight {
            reads: std::iter::repeat_with(|| None).take(depth).collect(),
            wakers: (0..depth).map(waker).collect(),
            free: (0..depth).collect(),
            woken,
        }
    }

    /// Whether one more read may begin.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no read is under way.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.reads.len()
    }

    /// Begins to await a read, for which there is room. If it has its answer, that is returned at once.
    pub fn add(&mut self, read: R, begun: Instant) -> Option<(R::Output, Instant)> {
        let place = self.free.pop()?;
        self.reads[place] = Some((read, begun));
        self.ask(place)
    }

    /// Waits for the next answer; also returns when its read was begun.
    ///
    /// # Panics
    /// If no read is under way.
    pub fn next(&mut self) -> (R::Output, Instant) {
        assert!(!self.is_empty(), "nothing to wait for");
        loop {
            match self.woken.next() {
                Some(place) => {
                    if let Some(answer) = self.ask(place) {
                        return answer;
                    }
                }
                None => thread::park(),
            }
        }
    }

    fn ask(&mut self, place: usize) -> Option<(R::Output, Instant)> {
        let (read, begun) = self.reads[place].as_mut()?;
        let begun = *begun;
        let mut context = Context::from_waker(&self.wakers[place]);
        let Poll::Ready(answer) = Pin::new(read).poll(&mut context) else {
            return None;
        };
        self.reads[place] = None;
        self.free.push(place);
        Some((answer, begun))
    }
}
