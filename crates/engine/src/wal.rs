//! Stores whose records lie in DRAM: the log that makes them durable (shape `ssd`).
//!
//! The classic baseline differs from the rest in one place: what *persisted* means. Its region is plain
//! memory (`pm`, kind `dram`), so the write journey, memtables, indexes and views are as they are
//! anywhere. Each chain has a log of its own, to which its items are copied, in the order of their seqnos,
//! before `durable` moves over them; opening puts them back into a region.
//!
//! # Invariants
//! 1. *A chain has a log.* The log has the chain's id and nonce. It is durable, name included, before the
//!    edit that names the chain, and goes after the edit that drops the chain's memtable. So for each
//!    chain that the manifest names there is a log, and a missing one is damage.
//! 2. *In order.* Every group finishes deferred (`ring`), a durable one, too: it is on the list of what is to
//!    be written back, which is in the order of tickets. One at a time takes the list, under `syncing`,
//!    appends it and syncs, while followers gather; then `durable` moves over it.
//! 3. *One log at a time.* A chain is left (`rotate`, `stage`) under the writer's lock when all that was
//!    granted is durable: the list is empty. So what is on the list belongs to the chain of today.
//! 4. *A copy as it lies.* What a frame carries is a run of items, byte by byte. Read again they are
//!    stored anew, with other offsets, and so other checksums; first seqno and `published` stay. So rules 1
//!    and 2 of recovery are those of the walk (`memtable::walk`), which looks at what was loaded: a frame
//!    that is torn is an item that is missing, behind it lies the next one, and its `published` tells
//!    whether that is the end or corruption.
//! 5. *Floors are found anew.* A memtable's descriptor is gone with the region. A memtable counts as
//!    sealed if a later memtable was used, or if tables have records of it (`flush`, invariant 2), were it
//!    only of some keys (`flush::evacuate`, 4): nobody would find what was written to that one before the front. A
//!    memtable was *used* if it has an item; the item without records that covers an idle store is enough.
//!    It was used, too, if one of its chains begins with a seqno that the manifest knows, as behind an
//!    ingestion, or behind a memtable that was dropped. Both come only after the seal of the memtable
//!    before. If neither shows that a memtable was sealed, it takes writes again, in a chain of its own.
//!
//! 6. *Room before the grant.* A write that finds no room on the disk is refused before it has a seqno: the log
//!    has bytes to be written over for all that was granted ([`Wal::reserve`]). Writes that do not only delete leave
//!    the last of those to deletes. So nothing but a failed sync poisons a store whose disk is full.
//! 7. *Nobody else's.* Logs outside of the database's folder are read, used again or removed only by a
//!    store that has claimed them ([`claim`]). Two stores may find the same logs because the folder of one
//!    was copied; claims tell them apart before anything is read.
//!
//! # Recovery
//! 1. *Load*: for each chain, in the manifest's order, the frames of its log, whatever lies between them.
//!    What lies behind a cut that is known is left out.
//! 2. Walk, rebuild, decide: as anywhere.
//! 3. *Keep* (rule 3): of chains without a cut, frames that are not known to be durable are written again
//!    and synced, before the first edit.
//! 4. *Seal* (rule 4): as anywhere; the new chain's log is made before.
//! 5. *Sweep*: logs that nobody names are removed. A file of somebody that has the name of one stays. So does what there is no room
//!    to remove: the chain that gets its id begins its log there, under another nonce.
//!
//! A crash before 4 finds the same logs, of which more is durable; after it the chains are complete at
//! their cuts. Rule 5: what was granted and never logged lay in the region, so the base of the new
//! incarnation exceeds all seqnos found by as many records as that could have held.
//!
//! A log needs room on the disk, which may be full. Then the seal cuts what was found and says where the new chain begins
//! ([`start`](crate::start)); the chain is named before its first grant (`write`).
//!
//! A manifest that lost its last edit is told by a log that it should know: one with an id that was
//! not given out yet, and with frames, for the first grant comes after the edit.
//!
//! # Where logs lie
//! In the database's folder as `NNNNNN.log`, or in the folder `wal_path`, with the database's id in their
//! names; `-LOCK` and `-OWNER` there say who has them. Logs of chains from before are found where they were made: there, in the database's folder, or
//! where the manifest says that `wal_path` was last; an open for writing brings them to the new place.
//!
//! # Rejected
//! - *Tables at open*, as elsewhere: records that were loaded are in memory already, and are flushed as any
//!   others. Opening is then as fast as reading the log, and a crash in the middle has nothing to undo.
//! - *One log for many memtables*: a log could go only when all of them are flushed.
//! - *A copy of each group when it is granted*: it would lie in two places in DRAM, and the writer would do
//!   what the one who syncs does for many at once.

mod claim;
mod load;
pub(crate) mod logs;
mod place;
#[cfg(test)]
mod tests;

use thermocline_base::{Error, Result};
use thermocline_commit::Persists;
use thermocline_commit::ring::Range;
use thermocline_observe::poison::is_sync;
use thermocline_pm::PmOff;
use thermocline_wal::LogWriter;

use crate::store::Memtables;
pub(crate) use claim::{Claimant, Claims};
pub(crate) use load::Loaded;
use logs::without_log;
pub(crate) use place::{LogDirs, check_place};

impl Persists for Memtables {
    fn check_poison(&self) -> Result<()> {
        self.common.poison.check()
    }

    fn write_back(&self, ranges: &[Range]) -> Result<()> {
        self.persist_ranges(ranges)
    }

    fn poison(&self, cause: Error) -> Error {
        self.common.poison.poison(cause)
    }
}

impl Memtables {
    /// Whether groups finish deferred whatever was asked for, because a log makes them durable.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.wal.is_some()
    }

    /// Makes durable what lies in `ranges`, which are in the order of seqnos and belong to the chain that is
    /// written to.
    pub fn persist_ranges(&self, ranges: &[Range]) -> Result<()> {
        let region = self.common.space.region();
        if let Some(wal) = &self.wal {
            return wal.write(region, ranges);
        }
        for range in ranges {
            region.flush(PmOff(range.at), range.bytes);
        }
        region.fence(thermocline_memtable::SITE_DEFERRED)
    }

    /// Makes the log of a chain that is about to be named, where the store has logs. A failed sync poisons the
    /// store, and what is left of a log that cannot be removed; else nothing has happened.
    pub fn begin_log(&self, chain: u64, nonce: u64) -> Result<Option<LogWriter>> {
        let Some(wal) = &self.wal else {
            return Ok(None);
        };
        let log =
            wal.begin(chain, nonce)
                .map_err(|error| match !is_sync(&error) && wal.abandon(chain) {
                    true => without_log(error),
                    false => self.common.poison.poison(error),
                });
        log.map(Some)
    }

    /// The edit that was to name a chain has failed. If nothing has happened, its log goes, and the next attempt may
    /// begin it again; else the store is poisoned.
    pub fn without_edit(&self, log: &Option<LogWriter>, error: Error) -> Error {
        let (Some(wal), Some(log)) = (&self.wal, log) else {
            return error;
        };
        let nothing = matches!(error, Error::OutOfSpace(_) | Error::InvalidArgument(_));
        match nothing && self.common.poison.check().is_ok() && wal.abandon(log.id().log) {
            true => error,
            false => self.common.poison.poison(error),
        }
    }

    /// Goes over to the log of a chain that is written to from now on.
    pub fn go_over_to_log(&self, log: Option<LogWriter>) {
        if let (Some(wal), Some(log)) = (&self.wal, log) {
            wal.go_over(log);
        }
    }

    /// The logs of these chains are not needed any more: the edit that drops them is durable.
    pub fn retire_logs(&self, chains: &[u64]) {
        if let Some(wal) = &self.wal {
            wal.retire(chains);
        }
    }
}
