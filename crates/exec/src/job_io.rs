//! Reads and writes of jobs, made while the job works (PM-Blade §V).
//!
//! A job reads blocks (S1), merges them (S2) and writes what comes of it (S3). A thread that does one after the other
//! leaves the device idle while it merges, and the processor while it waits. With a [`JobIo`] a job sends for what it
//! will read ([`JobIo::read`]), gives away what it has written ([`JobIo::behind`]), and goes on merging.
//!
//! | stage | who | how |
//! |---|---|---|
//! | S1 | a reader of its own ([`AsyncReader`]): `io_uring`, or threads where that is refused | in the order in which they are asked for |
//! | S3 | threads that do nothing else, the paper's flush coroutine | one write of a file at a time, in order, when the device has room |
//! | the sync behind S3 | threads of their own | the job waits, but no longer than until its store is closed (`closing`) |
//!
//! *Room* is the paper's rule: a write of [`Turn::Within`] begins while `q - q_comp - q_cli > 0`. Here `q` is the depth
//! that the caller names, `q_comp` counts the reads and writes of jobs that are under way, those of values that
//! jobs move among them, and `q_cli` the reads of tables and values that readers of the stores wait for. A write that has
//! found no room for [`PATIENCE_MS`](room::PATIENCE_MS) begins all the same: readers that never stop must not stop
//! writers. A job sends for a read ahead of its need by the same rule, and makes a read that finds no room when it
//! needs it. So where readers keep the device busy, jobs do one thing after the other, and where they do not,
//! everything at once. While a write is made for which writers wait ([`Turn::First`]), other writes find no room.
//! Whether there is room is asked, and the room is taken, under one lock, in the order in which writes wait (`budget`):
//! however many threads ask, only those of them begin for which there is room.
//!
//! # What always holds
//! 1. *As if written at once.* Bytes, offsets, order within a file, and errors are those of the file itself. Only the
//!    moment differs: if a write fails, the next call that writes or syncs returns its error. A sync, a tail, and every
//!    other call of the file come after all writes before them.
//! 2. *Nothing after a failure.* Once a write has failed, no further write of its file begins.
//! 3. *Bounded.* A file has at most [`PIECES_MAX`] writes that wait and one under way (without threads none is under
//!    way). A job that brings one more waits.
//! 4. *No thread of users.* A job that waits for a stage waits for the device, and for nobody's code. (The reader of
//!    futures calls wakers of users, which may wait for a flush: decision 158.)
//! 5. *No write outlives its file.* A file that is dropped forgets the writes that wait, and waits for the one that is
//!    under way. Files take turns, a write each: however many there are, none waits for another one to end.
//! 6. *Repeatable without threads.* An [inline](JobIo::inline) one does everything on the thread of the job. A seed
//!    decides when, between the first moment at which it may happen and the last.
//!
//! # Why nobody waits for ever
//! A job waits for a read, which waits for nothing but the device; or for a write, which in addition waits for room.
//! Room comes when a read or a write ends, or after [`PATIENCE_MS`](room::PATIENCE_MS). Neither takes a lock that a job
//! holds. So everything ends, with any depth from 1 on, and with one thread or none at all (then the job itself makes
//! the writes that it brings).
//!
//! # Rejected
//! - *Writes by `io_uring`*: a direct write that makes a file longer is not made without waiting by the kernel's file
//!   systems, but handed to a thread of the kernel. A thread of ours is the same, and is counted.
//! - *One thread that writes for all files*: a file system makes writes of one file one after the other, but those of
//!   several at once.

mod behind;
mod closing;
mod inline;
mod room;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use thermocline_base::{AsyncIo, Result};
use thermocline_env::{Clock, File};

use crate::asynchronous::AsyncReader;
use crate::helpers::Helpers;
use crate::pool::BufPool;
use crate::prepared::Prepared;
use crate::promise::{Pending, wait_for};
use crate::range::{RangeBuf, read_range};
use crate::refusal::Refused;
use crate::under_way::UnderWay;

pub use behind::{Behind, PIECES_MAX, Written};
pub use closing::Closing;
use closing::UntilClosed;
use inline::Inline;
pub use room::Turn;
use room::{Room, Way};

/// See the [module](self). Shared as an [`Arc`].
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use thermocline_base::{AsyncIo, Site, Steps};
/// use thermocline_env::{File, OpenMode, Storage, sim::SimFs};
/// use thermocline_exec::{BufPool, JobIo, Turn};
///
/// let disk = SimFs::new(Steps::new());
/// let file = disk.open(Path::new("/a"), OpenMode::CreateNew)?;
/// let io = Arc::new(JobIo::inline(BufPool::new(1 << 20), 7));
/// let behind = io.behind(file.clone(), Turn::Now);
/// behind.write_at(b"some bytes", 0)?;
/// behind.sync(Site("example"))?;
/// let read = io.read((AsyncIo::Interrupt, 8), file, 5, 3).and_then(|coming| coming.wait());
/// assert_eq!(read.expect("it is there")[..], b"byt"[..]);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
pub struct JobIo {
    room: Arc<Room>,
    /// `None` without threads.
    reader: Option<AsyncReader>,
}

/// What a [`JobIo`] says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobIoUse {
    /// The way in which reads are made; `None` until the first one.
    pub way: Option<AsyncIo>,
    /// Threads that write, and have started.
    pub writers: usize,
    /// What the system has refused to reads, if another way is used for that.
    pub refused: Option<Refused>,
}

/// A read that was sent for.
#[must_use = "what was read is in its answer"]
pub struct Coming(Answer);

enum Answer {
    /// On its way.
    Pending(Pending<Result<RangeBuf>>),
    /// Made before it was needed.
    There(Option<Result<RangeBuf>>),
    /// Not made yet: it is, when it is needed.
    Later(Option<Box<dyn FnOnce() -> Result<RangeBuf> + Send>>),
}

impl JobIo {
    /// With buffers of `pool`, beside `clients`, which count in the budget. Starts no thread yet.
    pub fn new(pool: BufPool, clients: UnderWay, clock: Arc<dyn Clock>) -> JobIo {
        let way = Way::Threads {
            writers: Arc::new(Helpers::named("thermocline-write")),
            patient: Arc::new(Helpers::named("thermocline-write")),
            syncers: Arc::new(Helpers::named("thermocline-sync")),
            clock,
        };
        let room = Room::new(way, pool.clone(), clients);
        JobIo {
            // Its reads are counted here.
            reader: Some(AsyncReader::new(pool)),
            room,
        }
    }

    /// One without threads. It does what it is asked for now or later, as `seed` decides.
    pub fn inline(pool: BufPool, seed: u64) -> JobIo {
        let way = Way::Inline(Inline::new(seed));
        JobIo {
            room: Room::new(way, pool, UnderWay::default()),
            reader: None,
        }
    }

    /// Sends for the `len` bytes of `file` at `offset`, unless so many reads and writes are under way as `depth` says. Nobody
    /// holds the file any more once it is read. The first read decides in which way all are made.
    pub fn read(
        &self,
        (way, depth): (AsyncIo, usize),
        file: Arc<dyn File>,
        offset: u64,
        len: usize,
    ) -> Option<Coming> {
        let held = self.room.under_way.job_if_room(depth)?;
        if let Some(reader) = &self.reader {
            let pending = reader.send(way, file, (offset, len), held);
            return Some(Coming(Answer::Pending(pending)));
        }
        let pool = self.room.pool.clone();
        let read = move || {
            let _held = held;
            read_range(&*file, &pool, offset, len)
        };
        let is_now = matches!(&self.room.way, Way::Inline(inline) if inline.is_now());
        Some(Coming(match is_now {
            true => Answer::There(Some(read())),
            false => Answer::Later(Some(Box::new(read))),
        }))
    }

    /// Decides now in which way reads are made, as the first one would.
    pub fn decide(&self, way: AsyncIo) {
        if let Some(reader) = &self.reader {
            reader.decide(way);
        }
    }

    /// Reads the `len` bytes of `file` at `offset` now, for a job that waits for them; fewer only where the file ends. The read
    /// counts, and asks for no room.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_now(&self, file: &dyn File, offset: u64, len: usize) -> Result<RangeBuf> {
        let _under_way = self.room.under_way.job();
        let mut read = Prepared::new(&self.room.pool, file, offset, len)?;
        let got = file.read_at(&mut read.buf, read.start)?;
        Ok(read.answer(got, len))
    }

    /// Wraps `file`: its writes are made behind the job that brings them, when `turn` allows.
    pub fn behind(&self, file: Arc<dyn File>, turn: Turn) -> Arc<Behind> {
        Arc::new(Behind::new(self.room.clone(), file, turn))
    }

    /// Wraps `file`, which no edit names yet: once its store is being closed, whoever waits for a sync of it is refused, as is
    /// whoever writes. What waits behind a job ([`JobIo::behind`]) wraps this one.
    pub fn until_closed(&self, file: Arc<dyn File>, closing: &Arc<Closing>) -> Arc<dyn File> {
        let syncers = self.room.syncers().cloned();
        Arc::new(UntilClosed::new(file, closing.clone(), syncers))
    }

    /// What is used.
    pub fn usage(&self) -> JobIoUse {
        let reads = self.reader.as_ref().map(AsyncReader::usage);
        let reads = reads.unwrap_or_default();
        JobIoUse {
            way: reads.way,
            refused: reads.refused,
            writers: self.room.threads(),
        }
    }
}

impl Coming {
    /// Waits for it on this thread. `None` if it could not be read in full: a caller that still needs it reads it
    /// again, and learns why.
    pub fn wait(self) -> Option<RangeBuf> {
        wait_for(self)
    }
}

/// A future of the same.
impl Future for Coming {
    type Output = Option<RangeBuf>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<RangeBuf>> {
        let answer = match &mut self.0 {
            Answer::Pending(pending) => ready!(Pin::new(pending).poll(context)),
            Answer::There(answer) => answer.take(),
            Answer::Later(read) => {
                let answer = read.take().map(|read| read());
                self.0 = Answer::There(answer);
                // Other tasks may go on first, as if the read had taken a while.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
        };
        Poll::Ready(answer.and_then(Result::ok))
    }
}

impl fmt::Debug for JobIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobIo").field(&self.usage()).finish()
    }
}
