//! Working ahead, so that slow things do not fall on the put path: naming the next memtable,
//! growing the region, covering the last write of a store that fell idle, dropping memtables in
//! which nothing is alive.

use std::time::Duration;

use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_observe::count::Count;
use thermocline_policy::{flush, room, tuning};
use thermocline_runtime::{Client, Job, Task};

use crate::cursor::Cursor;
use crate::store::{Above, Inner, Moment};
use crate::write::writer::Writer;

/// Time after which a store whose region is full of what readers hold looks at them again.
const READERS_AGAIN: Duration = Duration::from_nanos(tuning::READERS_AGAIN_NS);

impl Above for Inner {
    fn sealed(&self, writer: &mut Writer) -> Result<()> {
        self.upkeep.sealed(writer)
    }

    fn reclaim_or(&self, writer: &mut Writer, error: Error) -> Result<()> {
        self.upkeep.reclaim_or(writer, error)
    }

    fn reclaim_descriptors(&self, writer: &mut Writer) -> Result<()> {
        self.upkeep.reclaim_descriptors(writer)
    }
}

impl Client for Inner {
    fn perform(&self, task: Task) {
        // Failures poison the store, and the next writer reports them.
        match task {
            Task::Ahead => drop(self.work_ahead()),
            Task::Idle => self.fell_idle(),
            Task::Sync => self.write_back(),
            Task::Expire => self.look_at_expired(),
            Task::Explore => self.explore(),
            Task::Retry => self.look_again(),
        }
        self.common.compact_for_deletes();
        // When idle, too: a reader may have gone.
        let looks = matches!(task, Task::Ahead | Task::Idle);
        if looks && self.common.check_writable().is_ok() {
            let _ = self.reclaimer.reclaim();
            self.flush_due.flush_if_due();
            self.merger.want_merge();
            self.look_at_readers();
            self.reclaimer.give_space_back(task == Task::Idle);
        }
    }

    fn run_job(&self, job: Job) -> bool {
        match job {
            Job::Flush => {
                // What has not poisoned the store is told to whoever needs the room.
                let _ = self.flusher.flush_job();
                self.look_at_readers();
                false
            }
            Job::Merge => {
                // A merge that found no DRAM, or gave way, is tried again when something was sealed or read.
                let merged = self.merger.merge_if_due().unwrap_or(false);
                if merged && self.common.check_writable().is_ok() {
                    let _ = self.reclaimer.reclaim();
                }
                merged
            }
            Job::Compact => {
                let begun = self.common.now_ns();
                let ran = self.common.flushes().then(|| self.compactor.compact_once());
                if let Some(pause) = self.retries_after(ran.as_ref(), begun) {
                    self.common.background.request_after(Task::Retry, pause);
                }
                ran.is_some_and(|ran| ran.unwrap_or(false))
            }
        }
    }

    /// What it left behind is unknown.
    fn panicked(&self, what: &str) {
        self.common.poison.poison(Error::Poisoned(format!(
            "the background task {what} has panicked"
        )));
        self.common.commits.ring.fail();
    }
}

impl Inner {
    /// After how long somebody looks again for a compaction that has failed, or for one that tables may take which rested when one was
    /// looked for, at `begun`; none if one `ran`, behind which the next one comes anyhow. Not as late as the longest rest: a timer
    /// that is set is not set anew, and another rest may end before. On a full disk most of what is due is left alone, and there may be room
    /// without a word: somebody else has made it.
    fn retries_after(&self, ran: Option<&Result<bool>>, begun: u64) -> Option<Duration> {
        if matches!(ran, None | Some(Ok(true))) || self.common.check_writable().is_err() {
            return None;
        }
        // Nor later there than deletes are flushed, which have the same timer.
        let relieving = self.pressure.is_relieving();
        let latest = match relieving {
            true => tuning::DELETES_PAUSE_NS,
            false => tuning::AGAIN_NS,
        };
        let latest = Duration::from_nanos(latest);
        let rest = self.common.compactions.first_rest_ends_after(begun);
        let failed = ran.is_some_and(Result::is_err);
        rest.map(|rest| rest.min(latest))
            .or_else(|| (failed || relieving).then_some(latest))
    }

    /// What has failed, or rested behind that, may have its time now.
    fn look_again(&self) {
        self.common.want_compaction();
        self.pressure.want_relief();
    }

    /// A write was granted. `due` if something is to be done ahead of need.
    #[inline]
    pub fn look_after_write(&self, due: bool) {
        if due {
            self.common.background.request(Task::Ahead);
        }
        self.common.written();
        if self.pressure.is_disk_full() {
            self.pressure.note_delete();
        }
        self.common.compact_for_deletes();
        self.flusher.flush_inline();
    }

    /// Has what has expired go, where nobody writes and so no other compaction comes.
    fn look_at_expired(&self) {
        if self.common.check_writable().is_err() {
            return;
        }
        if self.common.flushes() && self.compactor.picker.has_expired_tables() {
            self.common.want_compaction();
        }
        self.common.look_again_when_more_expires();
    }

    /// Looks for deleted keys that lie beside each other.
    fn explore(&self) {
        let common = &self.common;
        if !common.probes.pay(common.counted.get(Count::Deletes)) {
            return;
        }
        let cursor = |cf: CfId| {
            let me = self.me.upgrade()?;
            common.check_writable().ok()?;
            let family = common.families.find(&common.families.name_of(cf)?)?;
            Some(Cursor::of_engine(Moment::now(&me), family))
        };
        // What cannot be read is for its readers to hear of.
        let explore = |cf: CfId, key: &[u8], direction, most| {
            let stepped = cursor(cf).map(|mut cursor| cursor.explore(key, direction, most));
            stepped.and_then(Result::ok).unwrap_or(0)
        };
        if common.probes.look(explore) {
            common.background.request(Task::Explore);
        }
    }

    /// Has a worker look again soon where much of the region is only kept by readers.
    fn look_at_readers(&self) {
        if !self.common.flushes() || self.admission.held_bytes().0 == 0 {
            return;
        }
        let space = self.common.space.usage();
        let much = flush::usual_bytes(space.limit_bytes, self.common.options.flush.pm_percent);
        if space.attached_bytes >= much {
            self.common
                .background
                .request_after(Task::Ahead, READERS_AGAIN);
        }
    }

    /// Makes durable what is visible, and has those told who wait for that.
    fn write_back(&self) {
        let _ = self
            .common
            .commits
            .sync_up_to(self, SeqNo(self.common.commits.ring.visible_and_listed()));
        // Without couriers whoever has committed has it told (`Engine::write_with_callback`): a call that is asked for here would
        // wait for another one of the store.
        if self.common.commits.places() > 0 && !self.common.background.lacks_couriers() {
            self.common.commits.tell(self);
        }
    }

    /// Some time has passed since a write: if the store is idle, it does what was put off till then.
    fn fell_idle(&self) {
        if !self.memtables.rest_if_idle() {
            return;
        }
        self.explore();
        self.pressure.want_relief();
        self.pressure.look_whether_readers_have_gone();
    }

    /// Grows the region and prepares the next memtable where that will be needed soon. Neither waits for the other: a
    /// region that cannot grow has zones that are free, or that a flush makes free, and they take a memtable with a name.
    pub fn work_ahead(&self) -> Result<()> {
        // Closing takes this lock before it gives up the region, which somebody else may then grow.
        let _ahead = self.common.turns.ahead.take();
        self.common.check_writable()?;
        let grown = self.grow_ahead();
        let named = self.memtables.name_ahead();
        // The first error: where it poisoned the store, the second one says only that.
        grown.and(named)
    }

    /// Grows the region where it lacks zones, or a run of them, and has the pages made that are needed next.
    fn grow_ahead(&self) -> Result<()> {
        let space = &self.common.space;
        if self.memtables.lacks().zones {
            // How far it may.
            self.pressure.press();
        }
        let mut done = Ok(());
        // Parts double: a long run may come with a later one.
        while done.is_ok() && self.memtables.lacks().zones {
            let grown = space.grow(space.region_bytes());
            done = grown
                .map(|_| ())
                .map_err(|error| self.common.poison.poison_unless_full(error));
            if done.is_ok() {
                self.memtables.note_growth();
            }
        }
        space.populate_ahead(room::zones_ahead(space.newest_zones()));
        done
    }
}
