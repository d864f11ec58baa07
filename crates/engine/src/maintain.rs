//! Working ahead, so that slow things do not fall on the put path: naming the next generation,
//! growing the region, covering the last write of a store that fell idle, dropping generations in
//! which nothing is alive.

use std::time::Duration;

use thermocline_base::{Error, Result, SeqNo};
use thermocline_observe::event::Event;
use thermocline_policy::{flush, seal, tuning};
use thermocline_runtime::{Client, Job, Task};

use crate::store::{Engine, Inner};
use crate::sync::{Ordering, lock};

/// Time after which a store whose region is full of what readers hold looks at them again.
const READERS_AGAIN: Duration = Duration::from_nanos(tuning::READERS_AGAIN_NS);

impl Engine {
    /// Does now what a worker would do when asked: grows the region and names the next generation
    /// where that will be needed soon. A store without background flushes here, too, if that is due.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes no writes; [`Error::Poisoned`]; a failed
    /// persist, which poisons the store. A full region is no error here.
    pub fn work_ahead(&self) -> Result<()> {
        let _settled = self.inner.background.settled_after();
        self.inner.flush_if_due();
        self.inner.flush_inline();
        match self.inner.work_ahead() {
            Err(Error::OutOfSpace(_)) => Ok(()),
            other => other,
        }
    }

    /// Does now what a worker would do after [`idle_ms`] without a write: covers the last write by a
    /// later `published`, so that rot in it cannot pass for a torn tail, and gives DRAM that was
    /// promised to writes back to the runtime.
    ///
    /// # Errors
    /// As [`Engine::work_ahead`].
    ///
    /// [`idle_ms`]: thermocline_base::options::MemtableOptions::idle_ms
    pub fn cover_idle(&self) -> Result<()> {
        let _settled = self.inner.background.settled_after();
        let mut writer = lock(&self.inner.writer);
        self.inner.check_writable()?;
        self.inner.cover(&mut writer)?;
        self.inner.give_up_credit(&mut writer);
        Ok(())
    }

    /// Lets a worker make durable what is visible, and acknowledge what waits for that.
    pub(crate) fn request_sync(&self) {
        self.inner.background.request(Task::Sync);
    }

    /// Lets a worker work ahead.
    pub(crate) fn nudge(&self) {
        self.inner.background.request(Task::Ahead);
    }
}

impl Client for Inner {
    fn perform(&self, task: Task) {
        // Failures poison the store, and the next writer reports them.
        match task {
            Task::Ahead => drop(self.work_ahead()),
            Task::Idle => self.fell_idle(),
            Task::Sync => self.write_back(),
        }
        // When idle, too: a reader may have gone.
        if task != Task::Sync && self.check_writable().is_ok() {
            let _ = self.reclaim();
            self.flush_if_due();
            self.want_merge();
            self.look_at_readers();
            self.give_space_back(task == Task::Idle);
        }
    }

    fn run_job(&self, job: Job) -> bool {
        match job {
            Job::Flush => {
                // What has not poisoned the store is told to whoever needs the room.
                let _ = self.flush_job();
                self.look_at_readers();
                false
            }
            Job::Merge => {
                // A merge that found no DRAM, or gave way, is tried again when something was sealed or read.
                let merged = self.merge_if_due().unwrap_or(false);
                if merged && self.check_writable().is_ok() {
                    let _ = self.reclaim();
                }
                merged
            }
            // One that failed is tried again after the next flush.
            Job::Compact => self.flushes() && self.compact_once().unwrap_or(false),
        }
    }

    /// What it left behind is unknown.
    fn panicked(&self, what: &str) {
        self.poison.poison(Error::Poisoned(format!(
            "the background task {what} has panicked"
        )));
        self.commits.ring.fail();
    }
}

impl Inner {
    /// A write was granted. `due` if something is to be done ahead of need.
    #[inline]
    pub fn look_after_write(&self, due: bool) {
        if due {
            self.background.request(Task::Ahead);
        }
        self.written();
        if self.is_disk_full() {
            self.note_delete();
        }
        self.flush_inline();
    }

    /// Has a worker look again soon where much of the region is only kept by readers.
    fn look_at_readers(&self) {
        if !self.flushes() || self.held_bytes().0 == 0 {
            return;
        }
        let space = self.space.usage();
        let much = flush::usual_bytes(space.limit_bytes, self.options.flush.pm_percent);
        if space.attached_bytes >= much {
            self.background.request_after(Task::Ahead, READERS_AGAIN);
        }
    }

    /// Lets a worker look, some time from now, whether the store has fallen idle.
    #[inline]
    pub fn written(&self) {
        // Its task takes the writer's lock, under which the write was granted.
        self.background.request_after(Task::Idle, self.idle_after());
    }

    /// The time without a write after which a store is idle.
    fn idle_after(&self) -> Duration {
        match self.options.memtable.idle_ms {
            0 => Duration::from_nanos(tuning::IDLE_NS),
            ms => Duration::from_millis(ms),
        }
    }

    /// Makes durable what is visible, and has those told who wait for that.
    fn write_back(&self) {
        let _ = self
            .commits
            .sync_up_to(self, SeqNo(self.commits.ring.visible_and_listed()));
        self.commits.tell(self);
    }

    /// Some time has passed since the first write after the last call of this. Only if nothing was
    /// written since that call the store is idle: a busy one is looked at once in that time.
    fn fell_idle(&self) {
        let mut writer = lock(&self.writer);
        if self.check_writable().is_err() {
            return;
        }
        let now = self.commits.ring.durable();
        if self.idle_seen.swap(now, Ordering::Relaxed) != now {
            return self.background.request_after(Task::Idle, self.idle_after());
        }
        if self.options.memtable.idle_ms > 0 {
            // Failures poison the store, and the next writer reports them.
            let _ = self.cover(&mut writer);
        }
        // Others may need the room.
        self.give_up_credit(&mut writer);
        drop(writer);
        self.want_relief();
        self.look_whether_readers_have_gone();
    }

    /// Tells if the region has grown since this was asked last.
    pub fn note_growth(&self) -> bool {
        let to_bytes = self.space.region_bytes();
        let from_bytes = self.region_seen.fetch_max(to_bytes, Ordering::Relaxed);
        let grown = to_bytes > from_bytes;
        if grown {
            self.events.emit(Event::RegionGrown {
                from_bytes,
                to_bytes,
            });
        }
        grown
    }

    /// Grows the region and prepares the next generation where that will be needed soon.
    pub fn work_ahead(&self) -> Result<()> {
        // Closing takes this lock before it gives up the region, which somebody else may then grow.
        let _ahead = lock(&self.turns.ahead);
        self.check_writable()?;
        let zones = self.options.pm_region.zones_ahead;
        if self.space.wants_growth(zones) {
            // How far it may.
            self.press();
        }
        if self.space.wants_growth(zones) {
            let grown = self.space.grow(self.space.region_bytes());
            grown.map_err(|error| self.poison.poison_unless_full(error))?;
            self.note_growth();
        }
        self.space
            .populate_ahead(self.options.pm_region.zones_ahead);
        let mut writer = lock(&self.writer);
        // Again, since the store may have been closed meanwhile.
        self.check_writable()?;
        self.record_chain(&mut writer)?;
        let incarnation = writer.chain.chain().incarnation;
        let filling = seal::is_filling(writer.active.bytes(), &self.seal_limits());
        // Writers go on while the manifest is synced.
        drop(writer);
        if filling {
            self.prepare(&mut lock(&self.next), incarnation)?;
        }
        Ok(())
    }
}
