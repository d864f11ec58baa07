//! The polling thread: it has the ring, puts reads on their way and answers those that are done.
//!
//! # Invariants
//! 1. *Asked is answered.* A read is in the queue, under way, with the helpers, or answered. The thread ends when it was
//!    told to and the first two are empty.
//! 2. *No read waits for another one*, unless the ring is full. The thread sleeps in one of two ways. While nothing is
//!    under way it is *parked*, and a caller wakes it. Else it sleeps in the kernel, where the *bell*, a byte in a
//!    pipe, ends its sleep. Before it sleeps it says so under the queue's lock, having seen that the queue is empty. A
//!    caller that brings a read looks under the same lock. If there is no room for more it does not say so, and nobody
//!    rings in vain. Then, and where the device is polled, for which there is no bell, a read that comes meanwhile waits
//!    until one that is under way is done.
//! 3. *As if read alone.* If the kernel does not answer a read in full, a helper reads it again by the file itself, and
//!    that answer counts.
//! 4. *Wakers hold up nothing but asynchronous reads*, and one that panics ends no read but its own.
//! 5. *A task is woken behind its answers.* Of answers to one task that follow each other the last one wakes it, for all of
//!    them. No waker is kept beyond the answers that are at hand.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use thermocline_base::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock, thread, wait};
use thermocline_base::{AsyncIo, Result};

use crate::flights::{FLIGHTS_MAX, Flights, Landed};
use crate::helpers::Helpers;
use crate::order::{Order, ReadPromise, read_on};
use crate::pool::BufPool;
use crate::prepared::Prepared;
use crate::refusal::Refusal;

/// What belongs to a read that is under way.
struct Tag {
    start: u64,
    before: usize,
    direct: bool,
    promise: ReadPromise,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Awake,
    Parked,
    InKernel,
}

struct Queue {
    waiting: VecDeque<Order>,
    sleep: Sleep,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    parked: Condvar,
    bell: PipeWriter,
    /// Which way is used. Relaxed: it is only told.
    way: AtomicUsize,
}

/// See the [module](self).
pub(crate) struct Poller(Arc<Shared>);

impl Poller {
    /// One that reads in this way or, where that polls and an error says so (`falls_back`), by interrupts: then it notes the refusal, as it does
    /// what is refused later.
    ///
    /// # Errors
    /// The kernel's, where it refuses that as well, or is only short of something.
    pub fn start(
        way: AsyncIo,
        with: (BufPool, Arc<Helpers>),
        refusal: &Arc<Refusal>,
        falls_back: impl Fn(&io::Error) -> bool,
    ) -> io::Result<Poller> {
        let polling = Polling::new(way, with, refusal, falls_back)?;
        let shared = polling.shared.clone();
        let builder = thread::Builder::new().name("thermocline-poll".into());
        builder.spawn(move || polling.poll())?;
        Ok(Poller(shared))
    }

    /// Has a read made.
    pub fn read(&self, order: Order) {
        let mut queue = lock(&self.0.queue);
        queue.waiting.push_back(order);
        let sleep = queue.end_sleep();
        // Neither the thread that wakes nor others that bring reads wait for a system call.
        drop(queue);
        self.0.wake(sleep);
    }

    /// The way that is used.
    pub fn way(&self) -> AsyncIo {
        AsyncIo::ALL[self.0.way.load(Ordering::Relaxed)]
    }

    /// Ends the thread once all reads are answered. The caller does not wait for it: it may be in a waker, which is the
    /// user's.
    pub fn stop(&self) {
        let mut queue = lock(&self.0.queue);
        queue.stopping = true;
        let sleep = queue.end_sleep();
        // Under the lock: until it is given up the thread does not end, and the pipe has its other end.
        self.0.wake(sleep);
    }
}

impl Queue {
    /// Says that the thread is awake. Whoever asks wakes it, if it was not.
    fn end_sleep(&mut self) -> Sleep {
        std::mem::replace(&mut self.sleep, Sleep::Awake)
    }
}

impl Shared {
    /// Ends this sleep. If the thread has woken by itself meanwhile, it wakes once more for nothing.
    fn wake(&self, sleep: Sleep) {
        match sleep {
            Sleep::Awake => {}
            Sleep::Parked => {
                self.parked.notify_one();
            }
            Sleep::InKernel => self.ring_bell(),
        }
    }

    fn ring_bell(&self) {
        // A pipe that is read from has room for what one sleep needs, and both of its ends are held.
        let _ = (&self.bell).write(&[0]);
    }
}

/// Wakes the tasks of answers as they come, those of one task that follow each other with one call. The last one is woken
/// when this goes.
#[derive(Default)]
struct Wakes(Option<Waker>);

impl Wakes {
    fn add(&mut self, waker: Waker) {
        let same = (self.0.as_ref()).is_some_and(|last| last.will_wake(&waker));
        match self.0.replace(waker) {
            Some(last) if !same => call(|| last.wake()),
            last => call(|| drop(last)),
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Some(last) = self.0.take() {
            call(|| last.wake());
        }
    }
}

/// Calls the code of a task, whatever that does.
fn call(code: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(code));
}

/// What the thread has.
struct Polling {
    shared: Arc<Shared>,
    /// `None` once the kernel has refused everything.
    flights: Option<Flights<Tag>>,
    /// Whether the device is found not to be polled: there will be another ring when nothing is under way.
    refused: bool,
    ear: PipeReader,
    pool: BufPool,
    helpers: Arc<Helpers>,
    refusal: Arc<Refusal>,
}

impl Polling {
    /// See [`Poller::start`].
    fn new(
        way: AsyncIo,
        (pool, helpers): (BufPool, Arc<Helpers>),
        refusal: &Arc<Refusal>,
        falls_back: impl Fn(&io::Error) -> bool,
    ) -> io::Result<Polling> {
        let (ear, bell) = io::pipe()?;
        let made = Flights::new(way, ear.try_clone()?).map(|flights| (flights, way));
        let (flights, way) = match made {
            Ok(made) => made,
            Err(error)
                if matches!(way, AsyncIo::Sqpoll | AsyncIo::Iopoll) && falls_back(&error) =>
            {
                refusal.note(way, &error);
                let flights = Flights::new(AsyncIo::Interrupt, ear.try_clone()?)?;
                (flights, AsyncIo::Interrupt)
            }
            Err(error) => return Err(error),
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                sleep: Sleep::Awake,
                stopping: false,
            }),
            parked: Condvar::new(),
            bell,
            way: AtomicUsize::new(way as usize),
        });
        Ok(Polling {
            shared,
            flights: Some(flights),
            refused: false,
            ear,
            pool,
            helpers,
            refusal: refusal.clone(),
        })
    }

    fn poll(mut self) {
        self.give_up_on(Flights::enable);
        // One memory for all turns, asked for while no lock is held.
        let mut orders = Vec::with_capacity(FLIGHTS_MAX);
        while self.take(&mut orders) {
            // Answers first: tasks go on while reads are handed to the kernel.
            self.reap();
            let are_new = !orders.is_empty();
            orders.drain(..).for_each(|order| self.launch(order));
            if are_new && self.under_way() > 0 {
                self.give_up_on(|ring| ring.submit());
                self.reap();
            }
            if self.under_way() > 0 && self.may_sleep() {
                self.give_up_on(Flights::submit_and_wait);
            }
        }
        if let Some(flights) = self.flights {
            self.shared.ring_bell();
            flights.land();
        }
    }

    fn under_way(&self) -> usize {
        self.flights.as_ref().map_or(0, Flights::under_way)
    }

    /// Takes the next reads, for which there is room; `false` when there will be none any more.
    fn take(&mut self, orders: &mut Vec<Order>) -> bool {
        let under_way = self.under_way();
        if self.refused && under_way == 0 {
            self.read_by_interrupts();
        }
        let room = match &self.flights {
            Some(_) if self.refused => 0,
            Some(flights) => flights.room(),
            None => FLIGHTS_MAX,
        };
        let mut queue = lock(&self.shared.queue);
        while queue.waiting.is_empty() && under_way == 0 {
            if queue.stopping {
                return false;
            }
            queue.sleep = Sleep::Parked;
            queue = wait(&self.shared.parked, queue);
        }
        queue.sleep = Sleep::Awake;
        let some = queue.waiting.len().min(room);
        orders.extend(queue.waiting.drain(..some));
        true
    }

    /// Whether to sleep in the kernel. If there is no room for more, what comes waits for that, and does not ring.
    fn may_sleep(&self) -> bool {
        let Some(flights) = &self.flights else {
            return false;
        };
        let full = flights.room() == 0 || self.refused;
        let mut queue = lock(&self.shared.queue);
        let sleeps = queue.waiting.is_empty() || full;
        if sleeps && !full && flights.has_bell() {
            queue.sleep = Sleep::InKernel;
        }
        sleeps
    }

    fn launch(&mut self, (wanted, promise): Order) {
        if !promise.is_wanted() {
            return;
        }
        let prepared = wanted.prepare(&self.pool);
        let raw = wanted.file.raw_reads();
        let direct = raw.is_some_and(|raw| raw.direct_unit().is_some());
        let (Some(flights), Ok(prepared)) = (&mut self.flights, prepared) else {
            return read_on(&self.helpers, &self.pool, (wanted, promise));
        };
        let Prepared { start, before, buf } = prepared;
        let tag = Tag {
            start,
            before,
            direct,
            promise,
        };
        if let Err((wanted, _, tag)) = flights.launch((wanted, start), buf, tag) {
            read_on(&self.helpers, &self.pool, (wanted, tag.promise));
        }
    }

    /// Answers what is done; how many there were.
    fn reap(&mut self) -> usize {
        let Some(flights) = &mut self.flights else {
            return 0;
        };
        let (refused, helpers, pool) = (&mut self.refused, &self.helpers, &self.pool);
        let refusal = &self.refusal;
        let polled = self.shared.way.load(Ordering::Relaxed) == AsyncIo::Iopoll as usize;
        let mut wakes = Wakes::default();
        flights.landed(|landed| {
            if let Err(error) = &landed.got
                && polled
                && landed.tag.direct
                && error.kind() == io::ErrorKind::Unsupported
            {
                *refused = true;
                refusal.note(AsyncIo::Iopoll, error);
            }
            match answer(landed) {
                Ok(Some(waker)) => wakes.add(waker),
                Ok(None) => {}
                Err(again) => read_on(helpers, pool, again),
            }
        })
    }

    /// Makes a call of the ring; returns whether it has failed for good. Then helpers make the reads that were under
    /// way, and all others.
    fn give_up_on(&mut self, call: impl FnOnce(&mut Flights<Tag>) -> io::Result<()>) -> bool {
        let called = self.flights.as_mut().map(call);
        let failed = match &called {
            Some(Err(error)) => {
                let way = AsyncIo::ALL[self.shared.way.load(Ordering::Relaxed)];
                self.refusal.note(way, error);
                true
            }
            _ => false,
        };
        if let Some(flights) = self.flights.take_if(|_| failed) {
            self.shared
                .way
                .store(AsyncIo::Threads as usize, Ordering::Relaxed);
            for (wanted, tag) in flights.give_up() {
                read_on(&self.helpers, &self.pool, (wanted, tag.promise));
            }
        }
        failed
    }

    /// Takes another ring, since the device is not polled. Nothing is under way.
    fn read_by_interrupts(&mut self) {
        self.refused = false;
        if let Some(before) = self.flights.take() {
            before.land();
        }
        let made = self.ear.try_clone().and_then(|ear| {
            let mut flights = Flights::new(AsyncIo::Interrupt, ear)?;
            flights.enable()?;
            Ok(flights)
        });
        let way = match &made {
            Ok(_) => AsyncIo::Interrupt,
            Err(error) => {
                self.refusal.note(AsyncIo::Interrupt, error);
                AsyncIo::Threads
            }
        };
        self.flights = made.ok();
        self.shared.way.store(way as usize, Ordering::Relaxed);
    }
}

/// Answers a read that is done in full, and returns who is to be woken; gives it back if it is to be made again.
fn answer(landed: Landed<Tag>) -> std::result::Result<Option<Waker>, Order> {
    let Landed {
        wanted,
        buf,
        tag,
        got,
    } = landed;
    let got = got.unwrap_or(0);
    if let Some(raw) = wanted.file.raw_reads().filter(|_| got > 0) {
        raw.has_read(tag.direct, got, tag.start);
    }
    if got < tag.before + wanted.len {
        return Err((wanted, tag.promise));
    }
    let prepared = Prepared {
        start: tag.start,
        before: tag.before,
        buf,
    };
    let bytes: Result<_> = Ok(prepared.answer(got, wanted.len));
    // It is not under way any more when it is answered.
    drop(wanted);
    Ok(tag.promise.keep_quietly(bytes))
}

#[cfg(test)]
mod tests;
