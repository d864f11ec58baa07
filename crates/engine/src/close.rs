//! Closing: after it nothing is left to replay.

use thermocline_base::{Error, Result};
use thermocline_version::VersionEdit;

use crate::events::Event;
use crate::store::{Engine, Inner};
use crate::sync::{Arc, Ordering, lock, write};

impl Engine {
    /// Closes the store: cuts the chain in the manifest, so that the next open has nothing to
    /// decide, and gives up the lock. Reads by other handles go on; the folder may be removed, and a
    /// new database made in its place. Idempotent: whoever comes second waits for the first, except
    /// in a callback of the store's runtime.
    ///
    /// # Errors
    /// A failed persist, now or earlier; the store is closed all the same, and the next open recovers.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl Inner {
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
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
        self.acks.run(self);
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
        let error = sealed.as_ref().err().map(ToString::to_string);
        self.events.emit(Event::Closed { error });
        self.background.end();
        // Of a store that was poisoned before its first write, too.
        sealed.and(self.poison.check())
    }

    /// Gives the region and the folder up.
    fn let_go(&self) {
        // For those who read on, and before the lock is given up: whoever opens next asks for it
        // (`reclaim`). Where a folder cannot be held, only their checksums protect them.
        let folder = self.world.env.storage.hold_folder(&self.dir);
        self.pins.hold(folder.unwrap_or(None));
        self.space.region().unlock();
        drop(lock(&self.lock).take());
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
        self.drain()?;
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
