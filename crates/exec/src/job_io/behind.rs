//! A file whose writes are made behind the job that brings them.
//!
//! # Invariants
//! 1. *In order.* Writes wait in the order in which they came. At most one write of a file is under way, since at most
//!    one thread has the file's turn. A caller that finds `turn` set leaves its write in the queue. The thread that has
//!    the turn looks at the queue once more under the lock before it clears `turn`.
//! 2. *Nothing after a failure.* A thread whose write fails puts the error down and forgets the writes that wait under
//!    one lock. A write that comes later finds the error under that lock, or that it was told already.
//! 3. *Told once, known for ever.* The first call behind a failure returns its error; each later call returns an error
//!    that says that an earlier write failed.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use thermocline_base::sync::{Condvar, Mutex, MutexGuard, lock, wait};
use thermocline_base::{Error, Result, Site};
use thermocline_env::File;

use super::room::{Room, Turn, Way};
use crate::pool::PooledBuf;

/// Writes of a file that wait, at most.
pub const PIECES_MAX: usize = 2;

/// A file that is written once, from its beginning to its end. See the [module](self).
pub struct Behind {
    room: Arc<Room>,
    chain: Arc<Chain>,
    when: Turn,
}

/// A future that ends when no more than some writes of a file are left, whatever came of the others.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Written<'a> {
    behind: &'a Behind,
    left: usize,
}

/// The writes of a file.
struct Chain {
    file: Arc<dyn File>,
    state: Mutex<State>,
    /// Calls that wait for it to go on.
    moved: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(u64, PooledBuf)>,
    /// A thread has come, or will come, to make the next write.
    turn: bool,
    /// A write is being made.
    under_way: bool,
    failed: Option<Failure>,
    waker: Option<Waker>,
}

enum Failure {
    /// Not told yet.
    New(Error),
    Told,
}

impl State {
    fn check(&mut self, file: &dyn File) -> Result<()> {
        let Some(failed) = self.failed.take() else {
            return Ok(());
        };
        self.failed = Some(Failure::Told);
        Err(match failed {
            Failure::New(error) => error,
            Failure::Told => {
                let source = io::Error::other("an earlier write of it failed");
                Error::io("write", file.path(), source)
            }
        })
    }

    /// Writes that are not made yet.
    fn left(&self) -> usize {
        self.waiting.len() + usize::from(self.under_way)
    }
}

impl Chain {
    /// Makes the next write, and has another thread go on if there are more.
    fn take_turn(self: Arc<Chain>, room: Arc<Room>, when: Turn) {
        let ends = Ends(&self);
        let more = self.step(&room, when);
        drop(ends);
        if let (true, Some(writers)) = (more, room.writers(when)) {
            let (chain, own) = (self.clone(), room.clone());
            writers.bring(Box::new(move || chain.take_turn(own, when)));
        }
    }

    /// Makes the next write. Returns whether there are more; if not, the turn is over.
    fn step(&self, room: &Room, when: Turn) -> bool {
        let mut state = lock(&self.state);
        let next = state.waiting.pop_front();
        if let Some((offset, bytes)) = next {
            state.under_way = true;
            drop(state);
            self.moved.notify_all();
            let under_way = room.turn_to_write(when);
            let wrote = self.file.write_at(&bytes, offset);
            drop((under_way, bytes));
            state = lock(&self.state);
            state.under_way = false;
            if let Err(error) = wrote {
                state.failed = Some(Failure::New(error));
                state.waiting.clear();
            }
        }
        let more = !state.waiting.is_empty();
        state.turn = more;
        self.tell(state);
        more
    }

    /// Wakes all that wait for it.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let waker = state.waker.take();
        drop(state);
        self.moved.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Sees to it that nobody waits for a thread that has panicked.
struct Ends<'a>(&'a Chain);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let mut state = lock(&self.0.state);
        let source = io::Error::other("the thread that made a write has panicked");
        let error = Error::io("write", self.0.file.path(), source);
        state.failed = Some(Failure::New(error));
        state.waiting.clear();
        (state.under_way, state.turn) = (false, false);
        self.0.tell(state);
    }
}

impl Behind {
    pub(super) fn new(room: Arc<Room>, file: Arc<dyn File>, when: Turn) -> Behind {
        let chain = Chain {
            file,
            state: Mutex::default(),
            moved: Condvar::new(),
        };
        Behind {
            room,
            chain: Arc::new(chain),
            when,
        }
    }

    /// Waits, without holding up the thread, until no more than `left` of the given writes are still to be made.
    pub fn written(&self, left: usize) -> Written<'_> {
        Written { behind: self, left }
    }

    /// Takes a write.
    fn bring(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = lock(&self.chain.state);
        while state.waiting.len() >= PIECES_MAX && state.turn {
            state = wait(&self.chain.moved, state);
        }
        state.check(&*self.chain.file)?;
        drop(state);
        // One thread brings the writes of a file, so nobody else takes the room that it has found.
        let mut piece = self.room.pool.take(bytes.len());
        piece.copy_from_slice(bytes);
        let mut state = lock(&self.chain.state);
        state.check(&*self.chain.file)?;
        state.waiting.push_back((offset, piece));
        match &self.room.way {
            Way::Threads { .. } => {
                if std::mem::replace(&mut state.turn, true) {
                    return Ok(());
                }
                drop(state);
                let (chain, room, when) = (self.chain.clone(), self.room.clone(), self.when);
                if let Some(writers) = self.room.writers(when) {
                    writers.bring(Box::new(move || chain.take_turn(room, when)));
                }
            }
            Way::Inline(inline) => {
                let left = inline.up_to(PIECES_MAX);
                self.write_inline(state, left);
            }
        }
        Ok(())
    }

    /// Without threads: makes the writes that wait, but for so many.
    fn write_inline<'a>(&'a self, mut state: MutexGuard<'a, State>, left: usize) {
        while state.waiting.len() > left {
            drop(state);
            let ends = Ends(&self.chain);
            self.chain.step(&self.room, self.when);
            drop(ends);
            state = lock(&self.chain.state);
            // No other thread will come.
            state.turn = false;
        }
    }

    /// Waits until nothing waits to be written; then says what came of it.
    fn settle(&self) -> Result<()> {
        self.settled().check(&*self.chain.file)
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.chain.state);
        if let Way::Inline(_) = &self.room.way {
            self.write_inline(state, 0);
            state = lock(&self.chain.state);
        }
        while state.left() > 0 {
            state = wait(&self.chain.moved, state);
        }
        state
    }
}

impl Future for Written<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let behind = self.behind;
        let mut state = lock(&behind.chain.state);
        if let Way::Inline(_) = &behind.room.way {
            behind.write_inline(state, self.left);
            return Poll::Ready(());
        }
        if state.left() <= self.left {
            return Poll::Ready(());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        lock(&self.chain.state).waiting.clear();
        drop(self.settled());
    }
}

impl std::fmt::Debug for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Behind").field(&self.chain.file).finish()
    }
}

impl File for Behind {
    fn path(&self) -> &Path {
        self.chain.file.path()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.settle()?;
        self.chain.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.bring(bytes, offset)
    }

    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.settle()?;
        self.chain.file.write_tail(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.settle()?;
        self.chain.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.settle()?;
        self.chain.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.settle()?;
        self.chain.file.allocate(offset, len)
    }

    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        self.settle()?;
        self.chain.file.reserve_behind(offset, len)
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.settle()?;
        self.chain.file.sync(site)
    }

    /// None: reads by it would pass over what is not written yet.
    fn raw_fd(&self) -> Option<i32> {
        None
    }
}
