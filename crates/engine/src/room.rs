//! Writers that find no room: the region is full, or DRAM for the index, or there is no descriptor for
//! another memtable. A flush makes some.
//!
//! # Steps
//! 1. The attempt has failed under the writer's lock, and what is dead has been dropped there
//!    (`reclaim`). The lock is given up; nothing has happened.
//! 2. Under `flushing`, which comes before the writer's lock: if somebody has made room since the attempt
//!    began, it is tried again.
//! 3. Otherwise the writer itself flushes all that is sealed, and where nothing is, seals the active
//!    memtable before. Then it tries again.
//!
//! # Why nobody waits for ever
//! 1. A writer waits for nobody but the one who holds `flushing`, who writes files and takes the writer's lock
//!    for moments. It does not matter how many job threads there are, or what they do.
//! 2. Each further attempt comes after some memtable was flushed or dropped, by whomever. Who has tried
//!    [`ROOM_ATTEMPTS_MAX`] times, because others took what was made, gives up.
//! 3. Where a flush frees nothing there is no further attempt: it failed (the disk is full), or nothing is left
//!    that could be flushed, because it is flushed and somebody reads it, or does not fit at all. The
//!    error says which. One that met what was about to be settled is tried again.
//!
//! What is kept for change feeds (`feed`) goes first, memtable by memtable. Readers that hold what was
//! flushed are waited for a moment ([`ROOM_READERS_MS`]): a scan may end. So are compactions that work with the DRAM which
//! the write needs ([`ROOM_JOBS_MS`]), and the
//! other stores of the runtime where it is its DRAM that they have together: those are
//! asked to flush what they have beyond their share ([`ROOM_OTHERS_MS`], or while they flush, [`ROOM_JOBS_MS`]).
//!
//! # Deletes
//! They may use the zone that is kept back, and come here only when that is full, too. Sealing the active
//! memtable gives up the rest of its last zone; so that is done only where no sealed one is left
//! that could be flushed instead, not for each attempt on a disk that is full.

pub(crate) mod news;
#[cfg(test)]
mod tests;

use thermocline_base::size::{format_size, index};
use thermocline_base::{Error, Result};
use thermocline_observe::cause::StallCause;
use thermocline_observe::count::Count;
use thermocline_policy::tuning::{
    ROOM_ATTEMPTS_MAX, ROOM_DRAM_PARTS, ROOM_JOBS_MS, ROOM_LOOK_MS, ROOM_OTHERS_MS, ROOM_READERS_MS,
};
use thermocline_runtime::Job;

use crate::busy::busy;
use crate::flush::Extent;
use crate::store::Admission;
use crate::sync::Ordering;

/// A write that is tried until there is room for it.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// `made` before the attempt.
    made: u64,
    attempts: u32,
}

impl Admission {
    /// Tries `attempt`, which takes `bytes` bytes of persistent memory, until there is room for it. The
    /// caller holds no lock but `stages`.
    ///
    /// # Errors
    /// Those of `attempt`; [`Error::Busy`] if it would have to wait and has `no_slowdown`.
    pub fn with_room<T>(
        &self,
        bytes: u64,
        no_slowdown: bool,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut attempts = self.begin_attempts();
        loop {
            match attempt() {
                Err(error @ Error::OutOfSpace(_)) => {
                    self.wait_for_room(&mut attempts, error, bytes, no_slowdown)?;
                }
                done => return done,
            }
        }
    }

    /// Before the first attempt.
    #[inline]
    pub fn begin_attempts(&self) -> Attempts {
        Attempts {
            made: self.common.room.made(),
            attempts: 0,
        }
    }

    /// An attempt has failed with `error`. Returns when another one may do better.
    #[cold]
    pub fn wait_for_room(
        &self,
        attempts: &mut Attempts,
        error: Error,
        bytes: u64,
        no_slowdown: bool,
    ) -> Result<()> {
        let is_space = matches!(error, Error::OutOfSpace(_));
        let fits = bytes < self.common.space.usage().limit_bytes;
        if !is_space || !self.common.flushes() || !fits || attempts.attempts == ROOM_ATTEMPTS_MAX {
            return Err(error);
        }
        if no_slowdown {
            if !self.could_flush() && !self.could_yield_kept() {
                return Err(self.naming_readers(error));
            }
            self.flush_due.want_room();
            return Err(busy("for a flush"));
        }
        attempts.attempts += 1;
        let mut begun = self.common.now_ns();
        let made = self.make_room_by_flushing(attempts.made, error, &mut begun);
        self.common.stalls.held_up(StallCause::Flush, begun);
        // Before the next attempt.
        attempts.made = self.common.room.made();
        made
    }

    /// Steps 2 and 3. The writer waits since `begun` for a flush, which is moved on by what counts as another delay.
    fn make_room_by_flushing(&self, seen: u64, error: Error, begun: &mut u64) -> Result<()> {
        let flushing = self.common.turns.flushing.take();
        self.common.check_writable()?;
        let charged = self.common.account.charged();
        let before = self.common.room.made();
        if before != seen {
            return Ok(());
        }
        // Nobody waits for change feeds. Where DRAM is short, what is kept for them has none to give.
        if !self.common.is_dram_short() && self.reclaimer.yield_kept()? {
            return Ok(());
        }
        if self.evacuator.to_flush().is_empty() {
            self.seal_apart(begun)?;
        }
        let dropped = || self.common.counted.get(Count::Dropped);
        let had = dropped();
        match self.flusher.flush_holding(&flushing, Extent::All) {
            Ok(0) if self.reclaimer.yield_kept()? => return Ok(()),
            Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(cause) => return self.flush_failed(error, cause, dropped() > had),
        }
        drop(flushing);
        let made = self.common.room.made() != before;
        let waited = || self.wait_for_jobs(charged, before) || self.wait_for_others();
        if made || waited() || self.wait_for_readers(before)? {
            return Ok(());
        }
        // Nobody waits for room in a store that is being closed.
        self.common.check_writable()?;
        Err(self.naming_readers(error))
    }

    /// A flush that was to make room has failed with `cause`, but has perhaps `made` some before: with the rest of an evacuation,
    /// behind which it has failed with what came since. Returns when the write may be tried again all the same.
    fn flush_failed(&self, error: Error, cause: Error, made: bool) -> Result<()> {
        match cause {
            cause @ (Error::Poisoned(_) | Error::Closed) => Err(cause),
            // It has met what was written a moment ago, and is about to be settled.
            Error::Busy(_) => {
                self.common.world.env.clock.sleep_ms(ROOM_LOOK_MS);
                Ok(())
            }
            cause => {
                self.common.poison.check()?;
                if made {
                    return Ok(());
                }
                let text = space_text(error);
                let text = format!("{text}; flushing, which would make room, failed: {cause}");
                Err(Error::OutOfSpace(text))
            }
        }
    }

    /// Seals the active memtable. What takes long there is to name the next one, and that counts by itself (`next_memtable`).
    fn seal_apart(&self, begun: &mut u64) -> Result<()> {
        let since = self.common.now_ns();
        let sealed = self.memtables.seal_active();
        *begun += self.common.now_ns().saturating_sub(since);
        sealed
    }

    /// Waits while a compaction works with the DRAM that the write needs: where `dram` is small, a compaction
    /// may leave too little for an index, since it takes what it needs (`budget`). Returns whether one has
    /// ended since room was made `made` times, or has given back some of the `charged` bytes; or did so before those were
    /// looked at, behind the attempt that was refused: then what that lacked is there.
    fn wait_for_jobs(&self, charged: u64, made: u64) -> bool {
        let lacking = self.common.room.lacking();
        let _hurry = self.common.compactions.hurry();
        for _ in 0..ROOM_JOBS_MS {
            let ended = self.common.room.made() != made || !self.waits();
            if ended || !self.is_full(lacking) || !self.common.compactions.is_any_running() {
                break;
            }
            self.common.world.env.clock.sleep_ms(ROOM_LOOK_MS);
        }
        let given_back = || self.common.account.charged() < charged;
        self.common.room.made() != made || given_back() || self.is_there(lacking)
    }

    /// Whether there is too little DRAM for a write that lacks so much. What it lacks has what writes under way were promised in
    /// it already.
    fn is_full(&self, lacking: u64) -> bool {
        let (account, share) = (
            &self.common.account,
            self.common.options.dram / ROOM_DRAM_PARTS,
        );
        account.is_full(share) || !account.fits_beside_used(lacking)
    }

    /// Whether what was noted as lacking is there. Once for what was noted: this write may lack something else.
    fn is_there(&self, lacking: u64) -> bool {
        !self.is_full(lacking) && !self.common.is_crowded() && self.common.room.forget_lacking()
    }

    /// Whether somebody may bring what a write waits for, and the write still waits: closing waits for a batch that is being
    /// staged.
    fn waits(&self) -> bool {
        self.common.world.background && !self.common.closed.load(Ordering::Relaxed)
    }

    /// Whether other stores of the runtime have given back DRAM, of which there is too little for all. Who flushes is waited for as
    /// long as a compaction would be.
    fn wait_for_others(&self) -> bool {
        let budget = self.common.account.budget();
        let held = budget.held();
        if !self.waits() {
            return false;
        }
        if !self.common.is_crowded() {
            // They have given it back since the jobs of this store were looked at.
            return self.is_there(self.common.room.lacking());
        }
        self.common.background.request_job_of_all(Job::Flush);
        let flushes = || self.common.background.is_under_way_elsewhere(Job::Flush);
        for waited in 0..ROOM_JOBS_MS {
            if budget.held() < held {
                return true;
            }
            if !self.waits() || (waited >= ROOM_OTHERS_MS && !flushes()) {
                return false;
            }
            self.common.world.env.clock.sleep_ms(ROOM_LOOK_MS);
        }
        false
    }

    /// Whether readers have let go of something.
    pub fn wait_for_readers(&self, made: u64) -> Result<bool> {
        for _ in 0..ROOM_READERS_MS {
            // Not whether somebody reads it: who did when it was last tried may have left since.
            let retired = !self.common.reclaim.is_nothing_retired()
                || self.common.pm_tables_use().retired > 0;
            if !retired || !self.waits() {
                break;
            }
            self.reclaimer.reclaim_readable()?;
            // What was read may be kept for feeds, too.
            let made_room = self.common.room.made() != made;
            if made_room || (!self.common.is_dram_short() && self.reclaimer.yield_kept()?) {
                return Ok(true);
            }
            self.common.world.env.clock.sleep_ms(ROOM_LOOK_MS);
        }
        Ok(false)
    }

    /// How many memtables are flushed or dead, and read, and how many PM tables are compacted, and read; and the
    /// persistent memory that both take.
    pub fn held_bytes(&self) -> (usize, u64) {
        let keeping = self.common.keeping();
        let held = self.common.elders.held();
        let (memtables, bytes) = self.common.reclaim.held_bytes(&keeping, &held);
        let tables = self.common.pm_tables_use();
        let count = memtables + index(tables.retired);
        (count, bytes + tables.retired_bytes)
    }

    /// Whether a flush might free anything.
    fn could_flush(&self) -> bool {
        let active = self.common.catalog.view().memtables[0].clone();
        !active.is_empty() || !self.evacuator.to_flush().is_empty()
    }

    /// Whether what is kept for change feeds could go, and make room.
    fn could_yield_kept(&self) -> bool {
        // It has no DRAM to give. And what somebody reads stays, though nobody keeps it.
        if self.common.is_dram_short() {
            return false;
        }
        let held = self.common.elders.held();
        (self.common.reclaim).could_yield(&self.common.keeping(), &held)
    }

    /// There is no room, and what could be flushed was: who has it?
    fn naming_readers(&self, error: Error) -> Error {
        let (held, bytes) = self.held_bytes();
        if held == 0 {
            return error;
        }
        let tables = self.common.pm_tables_use().retired;
        let memtables = held.saturating_sub(index(tables));
        let of_tables = match tables {
            0 => String::new(),
            _ => format!(", and of {tables} PM tables that are compacted,"),
        };
        let text = space_text(error);
        let who = self.reads.who_reads();
        Error::OutOfSpace(format!(
            "{text}; {} of {memtables} memtables that are flushed or dead{of_tables} are held by readers \
             ({who}): let go of snapshots, iterators and values",
            format_size(bytes)
        ))
    }
}

fn space_text(error: Error) -> String {
    match error {
        Error::OutOfSpace(text) => text,
        other => other.to_string(),
    }
}
