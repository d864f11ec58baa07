//! Flushing: sealed memtables become tables of level 0, or of the level below it ([`sink`]).
//!
//! # Steps
//! 1. *Take* the sealed memtables of the view that were not flushed: all, or only the oldest ones, without a gap. For
//!    a flush that is due `policy::flush` says how many.
//! 2. *Merge* them, family by family, in the order of keys (no lock held; no epoch guard outlives a
//!    chunk), and write all needed versions into new tables (`jobs`).
//! 3. *Sync* each table's file, then the folder.
//! 4. *Edit 1*, under the writer's lock: one edit names all tables. A family that was dropped meanwhile
//!    gets none. (With shapes `tiered` and `immutables` there may be several edits, each for ranges of keys: [`evacuate`]; with the others,
//!    too, where one would be too long: [`edits`]. Tables may
//!    lie in persistent memory; with some shapes only if little of the memtables is alive: [`rewrite`].)
//! 5. *Go over*, under the same lock: one view without the memtables and with the tables.
//! 6. The memtables are dead (`reclaim`): once no reader holds them, *edit 2* drops them, and their zones are free.
//!
//! # Invariants
//! 1. *Whole and in order.* A flush takes whole memtables, and none while an older one that was not
//!    flushed stays in the view. So everything in tables is older than everything in memtables that
//!    were not flushed.
//! 2. *Flushed is known by seqnos.* Let F be the largest seqno in a table, or what the manifest says if that
//!    is more (`ingest`). A sealed memtable whose base is at most F was flushed, by 1. A flushed memtable may lie above
//!    F if tables have nothing any more of it or of any younger one: none of its versions was needed, or a compaction
//!    has left them out. Such a memtable counts as not flushed, and may be flushed again: all its seqnos are above F,
//!    and by 4 all younger memtables that were flushed are still there. So a flush of one edit need not be recorded in
//!    the manifest, and no record gets into two tables, which the order of tables by age forbids. What a filter has
//!    removed must not come back: the edit that takes it away says what F is (`compact::filters`, 7). While memtables are
//!    evacuated range by range the manifest says so, too (`evacuate`, 4).
//! 3. *Durable first.* A table has only records that are durable and visible.
//! 4. *Dropped in order.* A flushed memtable is dropped only with, or after, all older
//!    memtables that the manifest names. The exception is an edit after which the manifest says, by a seqno, that the
//!    older ones were flushed. (A reader may hold an older one. That one was flushed before, by 1. Or it was found
//!    dead: then a younger one had all that was needed, and that was flushed.) Memtables are read before tables: an
//!    older memtable that came back into a view after a crash would hide what the tables have of the flushed one.
//! 5. *No table without its name.* An edit names a file only when its bytes and its name are
//!    durable. The next open removes files that no edit names.
//!
//! # What a crash leaves
//! | a crash | finds |
//! |---|---|
//! | before edit 1 | the memtables, and files that no edit names: removed |
//! | between edit 1 and edit 2 | the memtables, and tables with some of the same records |
//! | after edit 2 | the tables |
//!
//! In the second row records are there twice, with equal seqnos. By invariant 2 the open knows the
//! memtables as flushed: it leaves them out of its first view, and hands them to `reclaim` as retired.
//! Readers would find nothing in them that the tables do not have. But tables that were ingested since
//! (`ingest`) are newer than the memtables, which would be asked first and hide them.
//!
//! # What is left out
//! See `jobs`. All tables of the version at hand are below a memtable. A tombstone may be left out
//! although a memtable that is out of the view, and still named, has its key. That memtable is older. By
//! invariant 4 the tombstone's memtable outlives it, or it is known as flushed.
//!
//! A reader inside a call that has an older view still reads the memtables. Their zones stay until the call ends. A
//! reader that stands still has no such view (`holds`): the tables have every version that it may still ask for.

mod ahead;
mod along;
mod deletes;
mod due;
mod edits;
mod evacuate;
mod name;
mod ranges;
pub(crate) mod read_since;
pub(crate) mod rewrite;
mod sink;
#[cfg(test)]
pub(crate) mod tests;
mod told;
mod write;
pub(crate) mod written_since;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_jobs::Outputs;
use thermocline_memtable::Memtable;
use thermocline_version::State;

use crate::store::Flusher;
use crate::sync::Arc;
use crate::turns::HasTurn;
use crate::write::held::HasWriter;
use edits::NAMED_BYTES;
use evacuate::Taken;
use told::Made;
use write::To;

/// How many of the sealed memtables a flush takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them.
    All,
    /// As many as a due flush takes: only the oldest, if they are enough.
    Due,
}

impl Flusher {
    /// As [`Engine::flush`], of the sealed memtables. The caller holds no lock. A store without threads then does the
    /// compactions that are due.
    pub fn flush(&self) -> Result<usize> {
        self.flush_and_compact(Extent::All)
    }

    pub(super) fn flush_and_compact(&self, extent: Extent) -> Result<usize> {
        let flushed = match self.flush_sealed(extent) {
            Err(error) if error.is_no_room() => {
                // Dead memtables, those of deletes too, need not be written, and their zones may go back to the disk.
                let before = self.common.disk_room();
                self.reclaimer.reclaim_readable()?;
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

    /// As [`Flusher::flush`], without compactions, and without making room.
    pub fn flush_sealed(&self, extent: Extent) -> Result<usize> {
        self.flush_holding(&self.common.turns.flushing.take(), extent)
    }

    /// As [`Flusher::flush_sealed`]. The caller holds the turn to flush.
    pub fn flush_holding(&self, flushing: &HasTurn<'_>, extent: Extent) -> Result<usize> {
        self.flush_to(flushing, extent, false)
    }

    /// As [`Flusher::flush_holding`]. With `only_pm` it fails for lack of room if it would not rewrite ([`rewrite`]).
    fn flush_to(&self, _flushing: &HasTurn<'_>, extent: Extent, only_pm: bool) -> Result<usize> {
        self.common.check_writable()?;
        let mut flushed = 0;
        loop {
            let sealed = self.flush_due.look();
            let (least, for_scans) = match extent {
                Extent::All => (u64::MAX, false),
                Extent::Due => (self.evacuator.due_bytes(&sealed)?, sealed.is_for_scans()),
            };
            let taken = Taken {
                for_scans,
                ..self.evacuator.take(least)
            };
            if taken.memtables.is_empty() {
                return Ok(flushed);
            }
            // First the rest of an unfinished evacuation, then what came since (`evacuate`, 5).
            let is_rest = taken.front.is_some();
            let because = match (only_pm, extent, sealed.plan().because) {
                _ if is_rest => "flush: the rest of one that was begun before".into(),
                (true, ..) => "rewrite: little of it lives".into(),
                (_, Extent::Due, Some(because)) => because.to_string(),
                _ => "flush: somebody wants it, or room".into(),
            };
            let mut made = self.begin_flush(&taken.memtables, because);
            // As what waits is measured: zones, not what is in them.
            let own = |m: &Arc<Memtable>| self.common.reclaim.bytes_of(m);
            let bytes = taken.memtables.iter().map(own).sum();
            // The figures change: it is known now what is taken.
            self.flush_due.look();
            let done = self.flush_taken(taken, only_pm, &mut made);
            self.end_flush(&made, done.as_ref().err());
            self.flush_due.look();
            flushed += done?;
            let counted = &self.common.counted;
            let all = sealed.bytes.saturating_add(sealed.scans.active_bytes);
            self.common.read_since.flushed(counted, bytes, all);
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
        self.common.reclaim.take_up_to(0);
        done?;
        // Zones of memtables that are held here would not be freed.
        drop(taken);
        // Reclaims now, so that the next holder of the turn finds the room that this flush has made.
        self.common.want_compaction();
        self.reclaimer.reclaim_readable()?;
        // The DRAM of indexes that have gone others may have, once this store is idle. Perhaps nobody writes.
        self.common.written();
        Ok(flushed)
    }

    /// As [`Flusher::flush_holding`]. The caller holds the writer's lock, too, and so keeps all writers waiting. The
    /// next reclaiming drops the memtables that die here. A merge that is under way finds its inputs gone when it gets
    /// the writer's lock.
    pub fn flush_exclusive(&self, _holds: &impl HasWriter) -> Result<()> {
        loop {
            let taken = self.evacuator.taken_now(u64::MAX);
            if taken.memtables.is_empty() {
                return Ok(());
            }
            let because = "flush: tables are ingested above it".into();
            let mut made = self.begin_flush(&taken.memtables, because);
            let done = self.write_exclusive(&taken, &mut made);
            self.end_flush(&made, done.as_ref().err());
            done?;
            if taken.front.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes into files and names all that was taken, for whoever holds the writer's lock.
    fn write_exclusive(&self, taken: &Taken, made: &mut Made) -> Result<()> {
        let rest = vec![taken.rest()];
        for span in taken
            .cut_for_edits(&self.evacuator, rest, NAMED_BYTES)?
            .spans
        {
            let mut outputs = Outputs::default();
            let (memtables, files) = (&taken.memtables, To::Files);
            let written =
                self.flush_writer
                    .write_tables(memtables, &span, &[], files, &mut outputs);
            made.add(&outputs, &[]);
            let named = (&outputs, &[][..]);
            let done =
                written.and_then(|()| self.evacuator.name_holding(taken, &span, named, made));
            self.making.release(&outputs);
            done?;
            self.evacuator.count_flush(&outputs, &[]);
        }
        Ok(())
    }
}

/// The largest seqno in a table, or the flushed seqno of the manifest if that is more; 0 if there is neither.
pub(crate) fn newest_in_tables(state: &State) -> u64 {
    let tables = state.version().tables();
    let largest = tables.map(|(_, table)| table.largest_seqno.0);
    largest.max().unwrap_or(0).max(state.flushed_up_to())
}

/// The seqno F of invariant 2: memtables with bases up to it were flushed.
pub(crate) fn flushed_up_to(state: &State) -> u64 {
    match state.evacuation() {
        Some(evacuation) if !active(Bug::EvacuatedIsFlushed) => evacuation.above,
        _ => newest_in_tables(state),
    }
}
