//! Leaders and followers: durable writes that meet become one group with one persist (LogFree §3.2.2).
//!
//! Each thread commits through one of a few *buckets*. A thread that finds its bucket free leads: it
//! writes at once. A thread that finds it led leaves its changes there and sleeps. When the leader is
//! done, it hands the bucket to the first thread that waits. That one takes along all that has
//! gathered, up to a size. So groups grow as persisting is slow, and where it is fast, with as many
//! buckets as threads, nobody ever waits here.
//!
//! A bucket is free, led, or led with followers. Only the last two steps need its lock: from free to
//! led and back is one compare-exchange each.
//!
//! # Invariants
//! 1. A bucket has at most one leader. It leaves by [`Led`]'s drop, on every path.
//! 2. A request in the queue is answered once: by a verdict of the leader that took it, or by being
//!    made the leader. A leader that dies before its group was granted has written nothing: those it took
//!    come back to the front of the queue, and the first of them leads next. Those of whom it does not know what
//!    became of them hear that ([`Taken`]'s drop).
//! 3. The state is *followed* whenever the queue is not empty and nobody holds its lock.

use std::cell::Cell;
use std::collections::VecDeque;
use std::time::Duration;

use thermocline_base::counter::thread_number;
use thermocline_base::{Error, Result, WriteBatch};

use crate::sync::{Arc, AtomicU32, AtomicU64, Condvar, Mutex, Ordering, lock, wait, wait_for};

const FREE: u32 = 0;
const LED: u32 = 1;
const FOLLOWED: u32 = 2;

/// Changes that wait for a leader, in memory of their own.
#[derive(Debug)]
pub struct Request {
    /// The changes.
    pub batch: WriteBatch,
    /// What they take in an item.
    pub bytes: u64,
    turn: Mutex<Turn>,
    changed: Condvar,
}

#[derive(Debug)]
enum Turn {
    Waits,
    Leads,
    Done(Result<()>),
}

impl Request {
    /// One with these changes, which take `bytes` bytes.
    pub fn new(batch: WriteBatch, bytes: u64) -> Arc<Request> {
        Arc::new(Request {
            batch,
            bytes,
            turn: Mutex::new(Turn::Waits),
            changed: Condvar::new(),
        })
    }

    fn answer(&self, turn: Turn) {
        *lock(&self.turn) = turn;
        self.changed.notify_one();
    }

    /// Sleeps until a leader has written the changes, or it is this request's turn to lead (`None`).
    fn wait(&self) -> Option<Result<()>> {
        let mut turn = lock(&self.turn);
        loop {
            match std::mem::replace(&mut *turn, Turn::Waits) {
                Turn::Waits => turn = wait(&self.changed, turn),
                Turn::Leads => return None,
                Turn::Done(result) => return Some(result),
            }
        }
    }
}

/// See the module's text.
#[derive(Debug)]
#[repr(align(128))]
pub struct Bucket {
    state: AtomicU32,
    pub(crate) queue: Mutex<VecDeque<Arc<Request>>>,
    /// What a leader that waits wants to have in the queue, in bytes. Under the queue's lock.
    wanted: AtomicU64,
    gathered: Condvar,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            state: AtomicU32::new(FREE),
            queue: Mutex::default(),
            wanted: AtomicU64::new(u64::MAX),
            gathered: Condvar::new(),
        }
    }
}

/// The buckets of a store.
#[derive(Debug)]
pub struct Buckets(Box<[Bucket]>);

impl Buckets {
    /// So many.
    pub fn new(buckets: usize) -> Buckets {
        Buckets((0..buckets.max(1)).map(|_| Bucket::default()).collect())
    }

    /// This thread's bucket.
    pub fn mine(&self) -> &Bucket {
        &self.0[thread_number() % self.0.len()]
    }
}

/// The lead of a bucket.
#[derive(Debug)]
pub struct Led<'a>(&'a Bucket);

/// What became of a request.
#[derive(Debug)]
pub enum Joined<'a> {
    /// It leads.
    Leads(Led<'a>),
    /// A leader wrote it, or failed to.
    Done(Result<()>),
}

impl Bucket {
    /// Leads if nobody does.
    #[inline]
    pub fn lead(&self) -> Option<Led<'_>> {
        // Acquire: partner of the releases below. What the leader before did is over.
        self.state
            .compare_exchange(FREE, LED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            // Not `then_some`: a lead that is made is one that is left.
            .then(|| Led(self))
    }

    /// Waits behind the leader; leads if there is none any more.
    pub fn join(&self, request: &Arc<Request>) -> Joined<'_> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(led) = self.lead() {
                return Joined::Leads(led);
            }
            let followed =
                self.state
                    .compare_exchange(LED, FOLLOWED, Ordering::Relaxed, Ordering::Relaxed);
            if let Ok(_) | Err(FOLLOWED) = followed {
                break;
            }
        }
        queue.push_back(request.clone());
        let bytes: u64 = queue.iter().map(|request| request.bytes).sum();
        if bytes >= self.wanted.load(Ordering::Relaxed) {
            self.gathered.notify_one();
        }
        drop(queue);
        match request.wait() {
            Some(result) => Joined::Done(result),
            None => Joined::Leads(Led(self)),
        }
    }
}

impl Led<'_> {
    /// Waits until followers with `bytes` bytes have gathered, at most for `time`.
    pub fn wait_for_followers(&self, bytes: u64, time: Duration) {
        let mut queue = lock(&self.0.queue);
        let gathered = |queue: &VecDeque<Arc<Request>>| -> u64 {
            queue.iter().map(|request| request.bytes).sum()
        };
        // One sleep: the follower that completes the size ends it; a spurious wake-up only shortens it.
        if gathered(&queue) < bytes {
            self.0.wanted.store(bytes, Ordering::Relaxed);
            queue = wait_for(&self.0.gathered, queue, time);
            self.0.wanted.store(u64::MAX, Ordering::Relaxed);
        }
        drop(queue);
    }

    /// Takes followers, as long as they take at most `bytes_max` bytes together.
    pub fn take(&self, bytes_max: u64) -> Taken<'_> {
        let mut taken = Taken {
            bucket: self.0,
            requests: Vec::new(),
            are_granted: Cell::new(false),
        };
        if self.0.state.load(Ordering::Relaxed) != FOLLOWED {
            return taken;
        }
        let mut queue = lock(&self.0.queue);
        let mut bytes = 0;
        while let Some(next) = queue.front() {
            bytes += next.bytes;
            if bytes > bytes_max {
                break;
            }
            taken.requests.extend(queue.pop_front());
        }
        if queue.is_empty() {
            self.0.state.store(LED, Ordering::Relaxed);
        }
        taken
    }
}

impl Drop for Led<'_> {
    fn drop(&mut self) {
        let free = self
            .0
            .state
            .compare_exchange(LED, FREE, Ordering::Release, Ordering::Relaxed);
        if free.is_ok() {
            return;
        }
        let mut queue = lock(&self.0.queue);
        let next = queue.pop_front();
        let state = match (&next, queue.is_empty()) {
            (None, _) => FREE,
            (Some(_), true) => LED,
            (Some(_), false) => FOLLOWED,
        };
        self.0.state.store(state, Ordering::Release);
        drop(queue);
        if let Some(next) = next {
            next.answer(Turn::Leads);
        }
    }
}

/// Followers that a leader has taken: it owes each an answer. Its lead ends after that.
#[derive(Debug)]
pub struct Taken<'a> {
    bucket: &'a Bucket,
    /// Those that have no answer yet, as they came.
    requests: Vec<Arc<Request>>,
    /// Whether all of them are in a group that was granted.
    are_granted: Cell<bool>,
}

/// One that is being written, and what became of it, once that is known.
struct Owed {
    request: Arc<Request>,
    result: Option<Result<()>>,
}

impl Drop for Owed {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| {
            Err(Error::Poisoned(
                "the thread that wrote this change died; its outcome is unknown".into(),
            ))
        });
        self.request.answer(Turn::Done(result));
    }
}

impl Taken<'_> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Those that have no answer yet.
    pub fn requests(&self) -> &[Arc<Request>] {
        &self.requests
    }

    /// The leader's group, with all of them, has its place.
    pub fn granted(&self) {
        self.are_granted.set(true);
    }

    /// Tells each what became of it.
    pub fn answer(mut self, mut result: impl FnMut(&Request) -> Result<()>) {
        while !self.requests.is_empty() {
            let mut owed = Owed {
                request: self.requests.remove(0),
                result: None,
            };
            // Should the function panic, this one is told that nobody knows, and the others come back to the queue.
            owed.result = Some(result(&owed.request));
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.requests);
        if left.is_empty() {
            return;
        }
        if self.are_granted.get() {
            for request in left {
                let result = None;
                drop(Owed { request, result });
            }
            return;
        }
        let mut queue = lock(&self.bucket.queue);
        left.into_iter()
            .rev()
            .for_each(|request| queue.push_front(request));
        // Relaxed, as where a follower comes: the leader is still there, and hands over when it leaves.
        self.bucket.state.store(FOLLOWED, Ordering::Relaxed);
    }
}
