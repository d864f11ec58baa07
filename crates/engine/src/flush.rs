//! Flushing: sealed memtables become tables of level 0.
//!
//! # Steps
//! 1. *Take* the sealed memtables of the view that were not flushed: all, or as many of the oldest ones as a flush that is
//!    due takes (`policy::flush`), without a gap.
//! 2. *Merge* them, family by family, in the order of keys (no lock held; no epoch guard outlives a
//!    chunk), and write what somebody may still be answered with into new tables (`jobs`).
//! 3. *Sync* each table's file, then the folder.
//! 4. *Edit 1*, under the writer's lock: one edit names all tables. A family that was dropped meanwhile
//!    gets none. (With shape `tiered` there may be several, one for each range of keys: [`evacuate`]. Tables may lie
//!    in persistent memory, with some shapes if little lives: [`rewrite`].)
//! 5. *Go over*, under the same lock: one view without the memtables and with the tables.
//! 6. The memtables are dead (`reclaim`): once nobody reads them, *edit 2* drops them, and their zones
//!    are free.
//!
//! # Invariants
//! 1. *Whole and in order.* A flush takes whole memtables, and none while an older one that was not
//!    flushed stays in the view. So everything in tables is older than everything in memtables that
//!    were not flushed.
//! 2. *Flushed is known by seqnos.* Let F be the largest seqno in a table, or what the manifest says if that
//!    is more (`ingest`). A sealed memtable whose
//!    base is at most F was flushed, by 1. One that was flushed and of which tables have nothing any more,
//!    nor of any younger one, may lie above F: nothing of it had to stay, or a compaction has left it out.
//!    It counts as one that was not, and may be flushed again: all its seqnos are above F, and by 4 all
//!    younger ones that were flushed are there with it. So a flush of one edit needs no word in the manifest about it,
//!    and no record gets into two tables, which their order by age forbids. While memtables are evacuated
//!    range by range the manifest says what F is (`evacuate`, 4).
//! 3. *Durable first.* A table has nothing that is not durable and visible.
//! 4. *In order they are forgotten.* A flushed memtable is dropped only with, or after, all older
//!    ones that the manifest names, or by an edit after which it says, by a seqno, that those were
//!    flushed. (Somebody may read an older one: it was flushed before, by 1, or was found dead, so
//!    that a younger one had all that was needed, and that was flushed.) Memtables are read
//!    before tables: an older one that came back into a view after a crash would hide what the
//!    tables have of the flushed one.
//! 5. *No table without its name.* A file is named by an edit only when its bytes and its name are
//!    durable; what no edit names, the next open removes.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before edit 1 | the memtables, and files that nobody names: removed |
//! | between edit 1 and edit 2 | the memtables, and tables with some of the same records |
//! | after edit 2 | the tables |
//!
//! In the second row records are there twice, with equal seqnos. By invariant 2 the open knows the
//! memtables as flushed: it leaves them out of its first view, and hands them to `reclaim` as retired.
//! Readers would find in them nothing that the tables do not say. But where tables were ingested since
//! (`ingest`), those are newer than the memtables, which would be asked first and hide them.
//!
//! # What is left out
//! See `jobs`. Below a memtable are all tables of the version at hand. A tombstone may go
//! though a memtable that is out of the view, and still named, has its key: that one is older, and by
//! invariant 4 the tombstone's memtable outlives it, or it is known as flushed.
//!
//! Who is inside a call, with an older view, reads the memtables on; their zones stay until he
//! has gone. Who stands still has none (`holds`): of what he may still ask for the tables have
//! every version.

mod ahead;
mod along;
mod deletes;
mod due;
mod evacuate;
mod name;
mod ranges;
pub(crate) mod read_since;
pub(crate) mod rewrite;
#[cfg(test)]
pub(crate) mod tests;
mod told;
mod write;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_jobs::Outputs;
use thermocline_version::State;

use crate::store::Flusher;
use crate::sync::{MutexGuard, lock};
use crate::write::writer::Writer;
use evacuate::Taken;
use told::Made;
use write::To;

/// How much of what is sealed a flush takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it.
    All,
    /// What a flush takes that is due: the oldest, if that is enough.
    Due,
}

impl Flusher {
    /// As [`Engine::flush`], of what is sealed. The caller holds no lock. A store without threads does the
    /// compactions that are due then.
    pub fn flush(&self) -> Result<usize> {
        self.flush_and_compact(Extent::All)
    }

    pub(super) fn flush_and_compact(&self, extent: Extent) -> Result<usize> {
        let flushed = match self.flush_sealed(extent) {
            Err(error) if error.is_no_room() => {
                // What is dead, of deletes too, need not be written, and its zones may go back to the disk.
                let before = self.common.disk_room();
                self.reclaimer.reclaim()?;
                self.reclaimer.give_space_back(false);
                match (before, self.common.disk_room()) {
                    (Some(before), Some(now)) if now.free > before.free => {
                        self.flush_sealed(extent)?
                    }
                    _ => return Err(error),
                }
            }
            flushed => flushed?,
        };
        self.compact_inline()?;
        Ok(flushed)
    }

    /// Does the compactions that are due, if there are no threads for that.
    pub fn compact_inline(&self) -> Result<()> {
        if !self.common.world.background {
            while self.compactor.compact_once()? {}
        }
        Ok(())
    }

    /// As [`Flusher::flush`], and no more.
    pub fn flush_sealed(&self, extent: Extent) -> Result<usize> {
        self.flush_holding(&lock(&self.common.turns.flushing), extent)
    }

    /// As [`Flusher::flush_sealed`], for whoever holds the turn to flush.
    pub fn flush_holding(&self, flushing: &MutexGuard<'_, ()>, extent: Extent) -> Result<usize> {
        self.flush_to(flushing, extent, false)
    }

    /// As [`Flusher::flush_holding`], but if it does not rewrite ([`rewrite`]) it fails for lack of room.
    fn flush_to(
        &self,
        _flushing: &MutexGuard<'_, ()>,
        extent: Extent,
        only_pm: bool,
    ) -> Result<usize> {
        self.common.check_writable()?;
        let mut flushed = 0;
        loop {
            let sealed = self.flush_due.look();
            let (least, for_scans) = match extent {
                Extent::All => (u64::MAX, false),
                Extent::Due => (sealed.takes_bytes(), sealed.is_for_scans()),
            };
            let taken = Taken {
                for_scans,
                ..self.evacuator.take(least)
            };
            if taken.memtables.is_empty() {
                return Ok(flushed);
            }
            // What an evacuation has left; then what came since (`evacuate`, 5).
            let is_rest = taken.front.is_some();
            let begun = self.begin_flush(&taken.memtables);
            let bytes = taken.memtables.iter().map(|m| m.bytes()).sum();
            // What is taken is known now.
            self.flush_due.look();
            let mut made = Made::default();
            let done = self.flush_taken(taken, only_pm, &mut made);
            self.end_flush(begun, made, done.as_ref().err());
            self.flush_due.look();
            flushed += done?;
            let counted = &self.common.counted;
            self.common.read_since.flushed(counted, bytes, sealed.bytes);
            if !is_rest {
                return Ok(flushed);
            }
        }
    }

    fn flush_taken(&self, mut taken: Taken, only_pm: bool, made: &mut Made) -> Result<usize> {
        let flushed = taken.memtables.iter().map(|m| m.homes().len()).sum();
        let promised = self.flush_writer.promise_for_flush(&taken);
        let promised = promised.and_then(|promise| match promise {
            None if only_pm => Err(Error::OutOfSpace(
                "persistent memory has no room for what lives of sealed memtables".into(),
            )),
            promise => Ok(promise),
        });
        if active(Bug::RewriteLeavesOlder) && taken.memtables.len() > 1 {
            let rewrites = !self.common.options.level0.shape().keeps_tables_in_pm();
            let rewrites = rewrites && matches!(promised, Ok(Some(_)));
            taken.memtables.drain(..usize::from(rewrites));
        }
        let done = promised.and_then(|promise| self.evacuator.flush_ranges(&taken, promise, made));
        self.sweeper.unlink_obsolete();
        self.sweeper.release_pm_tables();
        lock(&self.common.reclaim).taken = 0;
        done?;
        // What is still held here is not free.
        drop(taken);
        // Whoever waits for the turn to flush finds the room that this has made.
        self.common.want_compaction();
        self.reclaimer.reclaim()?;
        Ok(flushed)
    }

    /// As [`Flusher::flush_holding`], for whoever holds the writer's lock, too, and so keeps all writers
    /// waiting. What has died by it goes with the next reclaiming. A merge that is under way finds its inputs
    /// gone when it gets the writer's lock.
    pub fn flush_exclusive(&self, _writer: &mut Writer) -> Result<()> {
        loop {
            let taken = self.evacuator.taken_now(u64::MAX);
            if taken.memtables.is_empty() {
                return Ok(());
            }
            let begun = self.begin_flush(&taken.memtables);
            let (mut outputs, mut made) = (Outputs::default(), Made::default());
            let rest = taken.rest();
            let written = self.flush_writer.write_tables(
                &taken.memtables,
                &rest,
                &[],
                To::Files,
                &mut outputs,
            );
            let done =
                written.and_then(|()| self.evacuator.name_holding(&taken, &rest, &outputs, &[]));
            self.making.release(&outputs);
            made.add(&outputs);
            self.end_flush(begun, made, done.as_ref().err());
            done?;
            self.evacuator.count_flush(&outputs, &[]);
            if taken.front.is_none() {
                return Ok(());
            }
        }
    }
}

/// The largest seqno in a table, or that the manifest says was flushed if that is more; 0 if there is neither.
pub(crate) fn newest_in_tables(state: &State) -> u64 {
    let tables = state.version().tables();
    let largest = tables.map(|(_, table)| table.largest_seqno.0);
    largest.max().unwrap_or(0).max(state.flushed_up_to())
}

/// Memtables with bases up to here were flushed (invariant 2).
pub(crate) fn flushed_up_to(state: &State) -> u64 {
    match state.evacuation() {
        Some(evacuation) if !active(Bug::EvacuatedIsFlushed) => evacuation.above,
        _ => newest_in_tables(state),
    }
}
