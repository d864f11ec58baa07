//! A file of a store that may be closed meanwhile: its syncs are waited for until then, and not longer.
//!
//! A sync lasts as long as the device likes, and cannot be taken back. So it is made on a thread of its own, and whoever
//! wants it waits for its end, or for the closing of the store, whichever comes first.
//!
//! # Why a sync may be given up
//! It is one of a file that no edit names yet. Whoever gives it up names none: the file goes, or the next open removes it.
//! What comes of the sync is of no interest then. The thread that makes it holds the file, and nothing else of the store: its
//! descriptor is closed when the sync ends, whatever has become of the name.
//!
//! # Invariants
//! 1. *Nothing begins.* Once the store is being closed no write and no sync of such a file begins. What has begun, or is just
//!    about to, goes on.
//! 2. *No end is missed.* Whoever waits looks for the answer, and whether the store is being closed, under the lock of
//!    [`Closing::begun`]. That lock is taken behind each answer, and to begin the closing, before those who wait are woken.
//! 3. *The file goes before the answer comes.* Who has waited for a sync to the end is the only one who holds the file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use thermocline_base::sync::{Condvar, Mutex, lock, wait};
use thermocline_base::{Error, Result, Site};
use thermocline_env::File;

use crate::helpers::Helpers;

/// Whether a store is being closed, for whoever waits for a sync of its files.
#[derive(Debug, Default)]
pub struct Closing {
    begun: Mutex<bool>,
    /// It has begun, or a sync has ended.
    changed: Condvar,
}

impl Closing {
    /// From now on nobody waits for a sync, and none begins.
    pub fn begin(&self) {
        *lock(&self.begun) = true;
        self.changed.notify_all();
    }

    /// Refuses what comes behind the beginning.
    fn check(&self) -> Result<()> {
        match *lock(&self.begun) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}

/// See the [module](self).
pub(super) struct UntilClosed {
    file: Arc<dyn File>,
    closing: Arc<Closing>,
    /// Threads that make syncs; `None` without threads: then whoever wants a sync makes it.
    syncers: Option<Arc<Helpers>>,
}

impl UntilClosed {
    pub fn new(
        file: Arc<dyn File>,
        closing: Arc<Closing>,
        syncers: Option<Arc<Helpers>>,
    ) -> UntilClosed {
        UntilClosed {
            file,
            closing,
            syncers,
        }
    }
}

impl fmt::Debug for UntilClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UntilClosed").field(&self.file).finish()
    }
}

/// A sync that somebody waits for.
struct Awaited {
    path: PathBuf,
    closing: Arc<Closing>,
    /// A leaf, which may be taken under the lock of `closing`.
    answer: Mutex<Option<Result<()>>>,
}

impl Awaited {
    /// Makes the sync, unless nobody waits for it any more.
    fn make(&self, file: Arc<dyn File>, site: Site) {
        let ends = Ends(self);
        if self.closing.check().is_ok() {
            let synced = file.sync(site);
            drop(file);
            *lock(&self.answer) = Some(synced);
        }
        drop(ends);
    }

    /// Waits for the answer, or the closing.
    fn wait(&self) -> Result<()> {
        let mut begun = lock(&self.closing.begun);
        loop {
            if let Some(answer) = lock(&self.answer).take() {
                return answer;
            }
            if *begun {
                return Err(Error::Closed);
            }
            begun = wait(&self.closing.changed, begun);
        }
    }
}

/// Wakes who waits for a sync, even if the thread that makes it has panicked.
struct Ends<'a>(&'a Awaited);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let source = io::Error::other("the thread that made a sync has panicked");
            let error = Error::io("sync", &self.0.path, source);
            *lock(&self.0.answer) = Some(Err(error));
        }
        // Whoever has found no answer waits by now.
        drop(lock(&self.0.closing.begun));
        self.0.closing.changed.notify_all();
    }
}

impl File for UntilClosed {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.closing.check()?;
        self.file.write_at(bytes, offset)
    }

    fn direct_unit(&self) -> Option<usize> {
        self.file.direct_unit()
    }

    fn write_tail(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.closing.check()?;
        self.file.write_tail(bytes, offset)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)
    }

    fn reserve_behind(&self, offset: u64, len: u64) -> Result<()> {
        self.file.reserve_behind(offset, len)
    }

    fn sync(&self, site: Site) -> Result<()> {
        self.closing.check()?;
        let Some(syncers) = &self.syncers else {
            return self.file.sync(site);
        };
        let awaited = Arc::new(Awaited {
            path: self.path().to_path_buf(),
            closing: self.closing.clone(),
            answer: Mutex::default(),
        });
        let (own, file) = (awaited.clone(), self.file.clone());
        syncers.bring(Box::new(move || own.make(file, site)));
        awaited.wait()
    }

    fn raw_fd(&self) -> Option<i32> {
        self.file.raw_fd()
    }
}
