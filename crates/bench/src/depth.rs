//! Several reads under way at once on one thread: a small executor.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use thermocline::Result;

use crate::clock::{Instant, now};
use crate::threads::{Pace, Share, Tally};
use crate::workload::Operation;

/// Reads that are under way, and those whose turn it is to be asked.
struct InFlight<R> {
    reads: Vec<Option<(R, Instant)>>,
    wakers: Vec<Waker>,
    free: Vec<usize>,
    /// Taken from those that were woken; empty before more are taken.
    asked: VecDeque<usize>,
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
    /// Takes all with one lock: who wakes the next ones takes it, too.
    fn take(&self, into: &mut VecDeque<usize>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *places, into);
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
    fn new(depth: usize) -> InFlight<R> {
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
            asked: VecDeque::new(),
            woken,
        }
    }

    /// Whether one more read may begin.
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Whether no read is under way.
    fn is_empty(&self) -> bool {
        self.free.len() == self.reads.len()
    }

    /// Begins to await a read, for which there is room. If it has its answer, that is returned at once.
    fn add(&mut self, read: R, begun: Instant) -> Option<(R::Output, Instant)> {
        let place = self.free.pop()?;
        self.reads[place] = Some((read, begun));
        self.ask(place)
    }

    /// Waits for the next answer; also returns when its read was begun.
    ///
    /// # Panics
    /// If no read is under way.
    fn next(&mut self) -> (R::Output, Instant) {
        assert!(!self.is_empty(), "nothing to wait for");
        loop {
            if self.asked.is_empty() {
                self.woken.take(&mut self.asked);
            }
            match self.asked.pop_front() {
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

/// Keeps up to `depth` reads under way until the share is done: `begin` begins the next one, `count` has what one came to.
pub(crate) fn at_once<T, R: Future<Output = Result<T>> + Unpin>(
    (depth, share): (usize, Share),
    (pace, operation): (&mut Pace<'_>, Operation),
    mut begin: impl FnMut() -> R,
    count: impl Fn(T, &mut Tally),
) -> Result<()> {
    let mut reads = InFlight::new(depth);
    let mut at = share.from;
    let mut goes_on = true;
    loop {
        let answer = if goes_on && at < share.until && reads.has_room() {
            at += 1;
            let begun = now();
            reads.add(begin(), begun)
        } else if reads.is_empty() {
            return Ok(());
        } else {
            Some(reads.next())
        };
        if let Some((read, begun)) = answer {
            count(read?, &mut pace.tally);
            goes_on &= pace.lap_since(begun, operation);
        }
    }
}
