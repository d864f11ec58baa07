//! Working ahead, so that slow things do not fall on the put path: naming the next generation,
//! growing the region, covering the last write of a store that fell idle, dropping generations in
//! which nothing is alive.

use std::sync::Weak;
use std::time::Duration;

use thermocline_base::{Error, Result, SeqNo};

use crate::store::{Engine, Inner};
use crate::sync::{Arc, Condvar, Mutex, lock, wait_for};

#[derive(Debug, Default)]
pub(crate) struct Maintainer {
    signal: Arc<Signal>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// What the thread waits for. Its own, so that a waiting thread keeps no store alive.
#[derive(Debug, Default)]
struct Signal {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    nudged: bool,
    /// Whether a commit waits for its callback.
    sync: bool,
    stop: bool,
}

impl Engine {
    /// Starts the store's thread, unless there is nothing for it to do.
    pub(crate) fn start_maintenance(&self) {
        if !self.inner.world.background || self.inner.options.read_only {
            return;
        }
        let weak = Arc::downgrade(&self.inner);
        let signal = self.inner.maintainer.signal.clone();
        let idle = match self.inner.options.memtable.idle_ms {
            0 => Duration::from_secs(3600),
            ms => Duration::from_millis(ms),
        };
        // Buffered writes wait no longer than they may.
        let idle = idle.min(Duration::from_millis(self.inner.options.commit.buffered_ms));
        let thread = std::thread::Builder::new()
            .name("thermocline".into())
            .spawn(move || run(&weak, &signal, idle))
            .ok();
        // Without a thread everything is done when it is due.
        *lock(&self.inner.maintainer.thread) = thread;
    }

    /// Does now what the store's thread would do when woken: grows the region and names the next
    /// generation where that will be needed soon.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes no writes; [`Error::Poisoned`]; a failed
    /// persist, which poisons the store. A full region is no error here.
    pub fn work_ahead(&self) -> Result<()> {
        self.inner.check_writable()?;
        match self.inner.work_ahead() {
            Err(Error::OutOfSpace(_)) => Ok(()),
            other => other,
        }
    }

    /// Does now what the store's thread would do after [`idle_ms`] without a write: covers the last
    /// write by a later `published`, so that rot in it cannot pass for a torn tail.
    ///
    /// # Errors
    /// As [`Engine::work_ahead`].
    ///
    /// [`idle_ms`]: thermocline_base::options::MemtableOptions::idle_ms
    pub fn cover_idle(&self) -> Result<()> {
        let mut writer = lock(&self.inner.writer);
        self.inner.check_writable()?;
        self.inner.cover(&mut writer)
    }

    /// Lets the store's thread make durable what is visible, and acknowledge what waits for that.
    pub(crate) fn request_sync(&self) {
        let signal = &self.inner.maintainer.signal;
        let mut work = lock(&signal.work);
        if !work.sync {
            work.sync = true;
            signal.changed.notify_one();
        }
    }

    /// Wakes the thread.
    pub(crate) fn nudge(&self) {
        self.inner.maintainer.nudge();
    }
}

impl Maintainer {
    /// Wakes the thread. `false` if there is none.
    pub fn nudge(&self) -> bool {
        let mut work = lock(&self.signal.work);
        if !work.nudged {
            work.nudged = true;
            self.signal.changed.notify_one();
        }
        drop(work);
        lock(&self.thread).is_some()
    }
}

impl Inner {
    /// Ends the thread and waits for it.
    pub fn stop_maintenance(&self) {
        lock(&self.maintainer.signal.work).stop = true;
        self.maintainer.signal.changed.notify_one();
        let thread = lock(&self.maintainer.thread).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has been reported by its hook; closing goes on.
            let _ = thread.join();
        }
    }
}

fn run(weak: &Weak<Inner>, signal: &Signal, idle: Duration) {
    let mut last_seen = 0;
    loop {
        let (nudged, sync) = {
            let mut work = lock(&signal.work);
            if !work.nudged && !work.sync && !work.stop {
                work = wait_for(&signal.changed, work, idle);
            }
            if work.stop {
                return;
            }
            let sync = std::mem::take(&mut work.sync);
            (std::mem::take(&mut work.nudged), sync)
        };
        let Some(inner) = weak.upgrade() else { return };
        let now = inner.ring.durable();
        // Failures poison the store, and the next writer reports them.
        if sync || inner.ring.deferred_bytes() > 0 {
            let _ = inner.sync_up_to(SeqNo(inner.ring.visible()));
            inner.acks.run(&inner);
        }
        if nudged {
            let _ = inner.work_ahead();
        } else if now == last_seen {
            let mut writer = lock(&inner.writer);
            if inner.check_writable().is_ok() {
                let _ = inner.cover(&mut writer);
            }
        }
        // When idle, too: a reader may have gone.
        if inner.check_writable().is_ok() {
            let _ = inner.reclaim();
        }
        last_seen = now;
    }
}

impl Inner {
    /// Grows the region and prepares the next generation where that will be needed soon.
    pub fn work_ahead(&self) -> Result<()> {
        // Closing takes this lock before it gives up the region, which somebody else may then grow.
        let _ahead = lock(&self.ahead);
        self.check_writable()?;
        if self.space.wants_growth(self.options.pm_region.zones_ahead) {
            let grown = self.space.grow(self.space.region_bytes());
            grown.map_err(|error| self.poison_unless_full(error))?;
        }
        let mut writer = lock(&self.writer);
        // Again, since the store may have been closed meanwhile.
        self.check_writable()?;
        self.record_chain(&mut writer)?;
        if writer.active.bytes() > self.options.memtable_bytes() / 2 {
            self.prepare(&mut writer)?;
        }
        Ok(())
    }
}
