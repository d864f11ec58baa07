//! Closing: after it nothing is left to replay.
//!
//! # Who reads on
//! Snapshots, cursors and values that are read in place go on. They hold the folder, and whoever
//! opens the store next drops nothing of what was there (`reclaim`). A handle is no reader, nor is
//! what has one (a family, a batch): from here on it tells what there was, and reads nothing.
//! 1. What holds the folder is [`Pins`](crate::value::Pins). Views hold that, and values that are
//!    read in place. The view that stays in the store does not.
//! 2. The last view that does is set aside for those who are registered, before it leaves its
//!    place, and until the last of them goes. Who leaves first says so (`Readers::leave`), then
//!    looks whether the store is closed; who closes it says that, then looks whether anybody is
//!    registered. Both are sequentially consistent, so one of them sees the other.
//! 3. A read that was under way has a view of before, and holds the folder until it is done.

use std::sync::{PoisonError, Weak};

use thermocline_base::size::format_size;
use thermocline_base::{Error, Result};
use thermocline_observe::event::Event;
use thermocline_version::VersionEdit;

use crate::store::{Engine, Inner};
use crate::sync::{Arc, Ordering, lock, write};
use crate::value::Pins;

/// A store that was closed, and that somebody may read.
struct Left {
    db_id: [u8; 16],
    inner: Weak<Inner>,
    pins: Weak<Pins>,
}

/// Those of this process, for whoever opens one again and has to say who holds its space. Nobody waits while
/// it is locked, and a scheduler that explores orders of threads must not carry it from one to the next: so
/// the lock is the system's.
static LEFT: std::sync::Mutex<Vec<Left>> = std::sync::Mutex::new(Vec::new());

fn all_left() -> std::sync::MutexGuard<'static, Vec<Left>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Closes the store: cuts the chain in the manifest, so that the next open has nothing to
    /// decide, and gives up the lock. Snapshots, cursors and values go on; other handles read
    /// nothing from then on. The folder may be removed, and a new database made in its place.
    /// Idempotent: whoever comes second waits for the first.
    ///
    /// On return every callback has been called and every event told. So it waits for one that blocks, but only
    /// when all is durable and the folder given up: the next open waits for none. (A store that has failed gives
    /// its folder up when this has returned.) In a callback or listener, of whatever store, it waits for
    /// none: what is left is called when that has returned. The same holds when the last handle is dropped.
    ///
    /// # Errors
    /// A failed persist, now or earlier; the store is closed all the same, and the next open recovers. A disk without
    /// room for the cuts is none: all is durable.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl Inner {
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::SeqCst) {
            self.background.wait_ended();
            // What the first was told.
            return self.poison.check();
        }
        self.background.stop();
        // Who works ahead on a thread of the caller's looks at `closed` under this lock.
        drop(lock(&self.ahead));
        // So does whoever ingests or flushes, from time to time.
        drop(lock(&self.ingesting));
        drop(lock(&self.flushing));
        // And each compaction.
        drop(write(&self.compactions.gate));
        // And whoever makes or removes a blob file.
        drop(write(&self.blobs.gate));
        // So does whoever stages a batch, and gives up, or has committed when this returns.
        drop(write(&self.stages));
        let sealed = self.seal_chain();
        self.account.close();
        // After a failure a write that was granted may still be storing its item. Whoever opens the
        // database next must wait until it has gone, and this store with it. A full disk alone has refused
        // the cuts, behind all writes: the next open finds the ends by itself, as after a crash.
        if matches!(sealed, Ok(()) | Err(Error::OutOfSpace(_))) {
            if let Some(wal) = &self.wal {
                wal.close();
            }
            self.let_go();
        }
        // The user's code runs when all else is done: it may block, and whoever opens next does not wait for it.
        self.commits.tell(self);
        let error = sealed.as_ref().err().map(ToString::to_string);
        self.events.emit(Event::Closed { error });
        self.background.end();
        // All is durable: that the next open finds the ends by itself is no failure.
        let sealed = sealed.or_else(|error| match error {
            Error::OutOfSpace(_) => Ok(()),
            other => Err(other),
        });
        // Of a store that was poisoned before its first write, too.
        sealed.and(self.poison.check())
    }

    /// Gives the region and the folder up.
    fn let_go(&self) {
        // For those who read on, and before the lock is given up: whoever opens next asks for it
        // (`reclaim`). Where a folder cannot be held, only their checksums protect them.
        let folder = self.world.env.storage.hold_folder(&self.dir);
        let view = self.view.load_full();
        if let Ok(pins) = view.pins() {
            pins.hold(folder.unwrap_or(None));
            let mut left = all_left();
            left.retain(|left| left.pins.strong_count() > 0);
            left.push(Left {
                db_id: self.db_id,
                inner: self.me.clone(),
                pins: Arc::downgrade(pins),
            });
        }
        *lock(&self.left) = Some(view.clone());
        self.view.store(Arc::new(view.closed()));
        drop(view);
        self.let_left_go();
        self.space.region().unlock();
        drop(lock(&self.lock).take());
    }

    /// If nobody is registered any more: what was set aside for that goes.
    pub fn let_left_go(&self) {
        let mut left = lock(&self.left);
        let gone = self.commits.readers.is_empty().then(|| left.take());
        drop(left);
        if gone.is_some() {
            std::mem::take(&mut *lock(&self.relics));
        }
    }

    /// The readers of earlier openings of this store, in this process.
    pub fn elders_named(&self) -> Vec<String> {
        let mut told = Vec::new();
        let of = |left: &&Left| left.db_id == self.db_id;
        let both = |left: &Left| (left.inner.upgrade(), left.pins.upgrade());
        let held: Vec<_> = all_left().iter().filter(of).map(both).collect();
        for (inner, pins) in held {
            told.extend(inner.iter().flat_map(|inner| inner.named_as_elders()));
            let pinned = pins.map_or(0, |pins| pins.bytes());
            if pinned > 0 {
                told.push(format!("{} of values in place", format_size(pinned)));
            }
        }
        told
    }

    fn seal_chain(&self) -> Result<()> {
        let writer = lock(&self.writer);
        if self.options.read_only {
            return Ok(());
        }
        if !writer.is_recorded() {
            return self.remember_rates();
        }
        self.poison.check()?;
        self.commits.drain(self)?;
        let changes = writer.cuts(lock(&self.next).as_ref());
        let rates = self.rates_to_remember();
        let with_rates = changes.iter().cloned().chain(rates).collect();
        match self.edit(VersionEdit {
            changes: with_rates,
        }) {
            // The cuts alone may find room.
            Err(Error::OutOfSpace(_)) => self.edit(VersionEdit { changes }),
            noted => noted,
        }
    }

    /// Of a store that was only read.
    fn remember_rates(&self) -> Result<()> {
        self.poison.check()?;
        match self
            .rates_to_remember()
            .map(|change| self.edit(change.into()))
        {
            None | Some(Err(Error::OutOfSpace(_))) => Ok(()),
            Some(noted) => noted,
        }
    }
}

/// Closes the store when the last handle goes. Not a part of `Inner`, which workers, snapshots and
/// cursors may hold a little longer.
#[derive(Debug)]
pub(crate) struct Handle(pub Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        // An error here has no caller; the next open recovers as after a crash.
        let _ = self.0.close();
    }
}
