//! Reads that a task awaits, and work that a future cannot do itself.
//!
//! A thread that waits for each read has one read under way, and a context switch for it. An [`AsyncReader`] has as
//! many under way as there are futures, with one thread for all of them (TridentKV §3.4): the *polling thread*
//! (`poller`) hands reads to the kernel (`flights`, by `io_uring`) and wakes the tasks whose reads are done. *Helpers*
//! (`helpers`) are threads that wait. They make the reads that the kernel does not take: those of simulators, those of
//! files that are [counted](crate::DirectStorage::buffered) as they go through the page cache, those of other such files where
//! the device is polled, and all where the system refuses `io_uring`, or as long as it has no room for it (`tries`). They also do
//! other work between the reads of a future that would have to wait.
//!
//! # What always holds
//! 1. *As if read alone.* The answer is what [`File::read_at`] says, errors with their offset included; and it comes to the
//!    future that asked, and to no other.
//! 2. *A future can go at any time.* It has no part of a read that is under way: the ring or the helper that reads owns
//!    buffer and file until the kernel is done with them (`flights`). A read that has not begun when its future goes is
//!    not made.
//! 3. *Any executor.* A future needs nothing of its executor but a waker (`promise`).
//! 4. *Counted once*, as the file counts what it reads itself.
//! 5. *Bounded.* One polling thread and up to 32 helpers, which start when they are needed; up to 256 reads under way,
//!    others wait. The threads end after the reader has gone and everything is answered. Nobody waits for that.
//!
//! # Another backend
//! Another backend takes the place of `Poller`: it gets orders (`order`), and keeps their promises.
//!
//! # Rejected
//! - *The task hands its read to the kernel itself*: it would spare waking the polling thread. But the kernel ends what a
//!   thread has begun when that thread ends, and interrupts it, to complete reads, in the midst of other work.
//! - *Wakers called by the runtime's couriers*, as those of commits are: each read would take one more switch between
//!   threads. A waker that blocks holds up asynchronous reads, and nothing else.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use thermocline_base::sync::{Mutex, SCHEDULED, lock};
use thermocline_base::{AsyncIo, Error, Result};
use thermocline_env::File;

use crate::helpers::{Helpers, Work, run};
use crate::order::{Order, read_on, work_of};
#[cfg(target_os = "linux")]
use crate::poller::Poller;
use crate::pool::BufPool;
use crate::prepared::Wanted;
use crate::promise::{Pending, promise};
use crate::range::RangeBuf;
use crate::refusal::{Refusal, Refused};
#[cfg(target_os = "linux")]
use crate::tries::Tries;
use crate::under_way::{Held, UnderWay};

/// See the [module](self). Shared as an [`Arc`].
///
/// ```
/// use std::{future::Future, path::Path, pin::pin, sync::Arc, task::{Context, Poll, Waker}};
/// use thermocline_base::{AsyncIo, Steps};
/// use thermocline_env::{OpenMode, Storage, sim::SimFs};
/// use thermocline_exec::{AsyncReader, BufPool};
///
/// let disk = SimFs::new(Steps::new());
/// disk.install(Path::new("/a"), b"some bytes");
/// let file = disk.open(Path::new("/a"), OpenMode::Read)?;
/// let reader = AsyncReader::scripted(BufPool::new(1 << 20));
/// let mut read = pin!(reader.read(AsyncIo::Interrupt, file, 5, 3));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(read.as_mut().poll(&mut context).is_pending());
/// assert!(reader.step(|waiting| waiting - 1));
/// let Poll::Ready(bytes) = read.poll(&mut context) else { unreachable!("it was read") };
/// assert_eq!(bytes?[..], b"byt"[..]);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
pub struct AsyncReader {
    pool: BufPool,
    helpers: Arc<Helpers>,
    reads: UnderWay,
    /// `None` inside where the system refuses it.
    #[cfg(target_os = "linux")]
    poller: OnceLock<Option<Poller>>,
    /// Held by whoever tries to start it.
    #[cfg(target_os = "linux")]
    tries: Mutex<Tries>,
    refusal: Arc<Refusal>,
    /// What waits to be done by [`AsyncReader::step`], in place of threads.
    script: Option<Mutex<Vec<Work>>>,
}

/// What an [`AsyncReader`] says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncUse {
    /// The way in which reads are made; `None` until the first one.
    pub way: Option<AsyncIo>,
    /// Helpers that have started.
    pub helpers: usize,
    /// What the system has refused, if another way is used for that.
    pub refused: Option<Refused>,
}

/// A read that is under way. It is made whether it is polled or not.
#[must_use = "what was read is in the future's answer"]
pub struct Reading {
    pending: Pending<Result<RangeBuf>>,
    file: Arc<dyn File>,
    offset: u64,
}

/// Work that is under way. It is done whether it is polled or not. `None` if it has panicked.
#[must_use = "what was done is in the future's answer"]
pub struct Running<T>(Pending<T>);

impl AsyncReader {
    /// With buffers of `pool`. Starts no thread yet.
    pub fn new(pool: BufPool) -> AsyncReader {
        AsyncReader::counted(pool, UnderWay::default())
    }

    /// The same; its reads count among `reads` while they are under way.
    pub fn counted(pool: BufPool, reads: UnderWay) -> AsyncReader {
        AsyncReader::of(pool, reads, None)
    }

    /// One without threads: what it is asked for is done by [`AsyncReader::step`].
    pub fn scripted(pool: BufPool) -> AsyncReader {
        AsyncReader::of(pool, UnderWay::default(), Some(Mutex::default()))
    }

    fn of(pool: BufPool, reads: UnderWay, script: Option<Mutex<Vec<Work>>>) -> AsyncReader {
        AsyncReader {
            pool,
            helpers: Arc::new(Helpers::named("thermocline-read")),
            reads,
            #[cfg(target_os = "linux")]
            poller: OnceLock::new(),
            #[cfg(target_os = "linux")]
            tries: Mutex::default(),
            refusal: Arc::new(Refusal::none()),
            script,
        }
    }

    /// Reads `len` bytes at `offset`. The first read decides in which way all are made, unless the system has no room for
    /// that: then helpers make this one, and a later one decides.
    pub fn read(&self, way: AsyncIo, file: Arc<dyn File>, offset: u64, len: usize) -> Reading {
        Reading {
            pending: self.send(way, file.clone(), (offset, len), self.reads.hold()),
            file,
            offset,
        }
    }

    /// Decides now in which way reads are made, as the first one would.
    ///
    /// ```
    /// use thermocline_base::AsyncIo;
    /// use thermocline_exec::{AsyncReader, BufPool};
    /// let reader = AsyncReader::new(BufPool::new(0));
    /// reader.decide(AsyncIo::Threads);
    /// assert_eq!(reader.usage().refused, None);
    /// ```
    pub fn decide(&self, way: AsyncIo) {
        #[cfg(target_os = "linux")]
        if self.script.is_none() {
            self.poller(way);
        }
        let _ = way;
    }

    /// As [`AsyncReader::read`]. It counts as `held`, which is held, as the file is, only until the read is answered.
    pub(crate) fn send(
        &self,
        way: AsyncIo,
        file: Arc<dyn File>,
        (offset, len): (u64, usize),
        held: Held,
    ) -> Pending<Result<RangeBuf>> {
        let (promise, pending) = promise();
        let wanted = Wanted {
            file,
            offset,
            len,
            _held: held,
        };
        self.order(way, (wanted, promise));
        pending
    }

    /// Does `work` where it may wait.
    pub fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Running<T> {
        let (promise, pending) = promise();
        self.bring(Box::new(move || {
            if promise.is_wanted() {
                promise.keep(work());
            }
        }));
        Running(pending)
    }

    fn order(&self, way: AsyncIo, order: Order) {
        if self.script.is_some() {
            return self.bring(work_of(&self.pool, order));
        }
        #[cfg(target_os = "linux")]
        if order.0.file.raw_reads().is_some()
            && let Some(poller) = self.poller(way)
        {
            return poller.read(order);
        }
        let _ = way;
        read_on(&self.helpers, &self.pool, order);
    }

    #[cfg(target_os = "linux")]
    fn poller(&self, way: AsyncIo) -> Option<&Poller> {
        if SCHEDULED {
            return None;
        }
        match self.poller.get() {
            Some(settled) => settled.as_ref(),
            None => self.start_poller(way),
        }
    }

    #[cold]
    #[cfg(target_os = "linux")]
    fn start_poller(&self, way: AsyncIo) -> Option<&Poller> {
        let mut tries = lock(&self.tries);
        // Others may have started it meanwhile.
        if let Some(settled) = self.poller.get() {
            return settled.as_ref();
        }
        if !tries.is_due() {
            return None;
        }
        self.refusal.forget();
        let tried = match way {
            AsyncIo::Threads => Ok(None),
            way => {
                let with = (self.pool.clone(), self.helpers.clone());
                let falls_back = |error: &io::Error| tries.falls_back(error);
                Poller::start(way, with, &self.refusal, falls_back).map(Some)
            }
        };
        if let Err(error) = &tried {
            // If another way was refused before, that was noted.
            let refused = self.refusal.told().map_or(way, |_| AsyncIo::Interrupt);
            self.refusal.note(refused, error);
        }
        let settled = tries.settle(tried)?;
        self.poller.get_or_init(|| settled).as_ref()
    }

    fn bring(&self, work: Work) {
        match &self.script {
            None => self.helpers.bring(work),
            Some(waiting) => lock(waiting).push(work),
        }
    }

    /// Of a [scripted](AsyncReader::scripted) reader: does one of the things that wait, on this thread. `pick` is told
    /// how many wait, and returns which one is done. Returns whether anything waited.
    ///
    /// # Panics
    /// If `pick` returns a number that is not below what it was given.
    pub fn step(&self, pick: impl FnOnce(usize) -> usize) -> bool {
        let Some(waiting) = &self.script else {
            return false;
        };
        let mut locked = lock(waiting);
        if locked.is_empty() {
            return false;
        }
        let picked = pick(locked.len());
        let work = locked.remove(picked);
        drop(locked);
        run(work);
        true
    }

    /// What is used.
    pub fn usage(&self) -> AsyncUse {
        let helpers = self.helpers.threads();
        #[cfg(target_os = "linux")]
        let way = match self.poller.get() {
            Some(Some(poller)) => Some(poller.way()),
            Some(None) => Some(AsyncIo::Threads),
            None => None,
        };
        #[cfg(not(target_os = "linux"))]
        let way = None;
        AsyncUse {
            way: way.or((helpers > 0).then_some(AsyncIo::Threads)),
            helpers,
            refused: self.refusal.told(),
        }
    }
}

impl Future for Reading {
    type Output = Result<RangeBuf>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<RangeBuf>> {
        let answer = ready!(Pin::new(&mut self.pending).poll(context));
        Poll::Ready(answer.unwrap_or_else(|| {
            let source = io::Error::other("the thread that made the read has panicked");
            Err(Error::io_at("read", self.file.path(), self.offset, source))
        }))
    }
}

impl<T> Future for Running<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Drop for AsyncReader {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(Some(poller)) = self.poller.get() {
            poller.stop();
        }
        self.helpers.stop();
    }
}

impl std::fmt::Debug for AsyncReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncReader").field(&self.usage()).finish()
    }
}
