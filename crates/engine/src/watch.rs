//! A moment that is watched: what a transaction is made of.
//!
//! A [`Watch`] is a snapshot, and the promise that every change granted behind it is noted (`commit::recent`). It says
//! whether keys of somebody's concern have changed since, and writes a batch only if none has. Both are one step for all
//! writers: the question is asked under the writer's lock, right before the batch is granted. So there is no change
//! between the answer and the batch, of whoever and in whatever way: plain writes, batches, staged batches and ingested
//! tables are all granted under that lock.
//!
//! The question is asked twice. Before the lock, it goes through all changes since the moment; under it only through
//! those that came meanwhile.

pub(crate) mod guard;

use thermocline_base::{Result, SeqNo};
use thermocline_commit::recent::Footprint;
use thermocline_commit::{CommitEnv, Entries, WriteOptions};
use thermocline_memtable::item_bytes;

use crate::snapshot::Snapshot;
use guard::Guarded;

/// A moment of a store, with all changes since.
#[derive(Debug)]
pub struct Watch {
    /// From where on changes are noted for it; not above the snapshot's seqno.
    floor: SeqNo,
    snapshot: Snapshot,
}

impl Watch {
    /// The caller watches from `floor`, and has taken the snapshot then.
    pub(crate) fn of((floor, snapshot): (SeqNo, Snapshot)) -> Watch {
        Watch { floor, snapshot }
    }

    /// The moment.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Whether nothing of the footprint was changed since the moment, by writes that are not visible yet either.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Conflict`] naming the key, or saying that changes were too many to be remembered.
    pub fn check(&self, footprint: &dyn Footprint) -> Result<()> {
        let guard = Guarded::new(self.snapshot.seqno(), footprint);
        guard.check(&self.snapshot.inner().common)
    }

    /// Applies `entries` as one, if nothing of the footprint was changed between the moment and their place in the order
    /// of all writes. Where there are none, nothing is done.
    ///
    /// # Errors
    /// As [`Watch::check`], and those of a write ([`crate::Engine::write`]): nothing was written.
    pub fn write<'a>(
        &self,
        entries: impl Entries<'a>,
        mode: WriteOptions,
        footprint: &dyn Footprint,
    ) -> Result<()> {
        let inner = &**self.snapshot.inner();
        let _settled = inner.common.background.settled_after();
        inner.common.check_writable()?;
        if entries.len() == 0 {
            return Ok(());
        }
        let guard = Guarded::new(self.snapshot.seqno(), footprint);
        // Most of the work, and no place is taken for what must not be.
        guard.check(&inner.common)?;
        let bytes = item_bytes(entries.clone());
        let separated = inner
            .stager
            .separate(entries.clone(), bytes, mode.no_slowdown)?;
        let Some(separated) = separated else {
            return self.write_one(entries, (bytes, mode), &guard);
        };
        let written = {
            let (entries, bytes) = separated.entries(entries);
            self.write_one(entries.into_iter(), (bytes, mode), &guard)
        };
        drop(separated);
        if written.is_err() {
            inner.sweeper.discard_blobs();
        }
        written
    }

    /// Writes a group of its own, without long values.
    fn write_one<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        guard: &Guarded<'_>,
    ) -> Result<()> {
        let inner = &**self.snapshot.inner();
        let commits = &inner.common.commits;
        inner.admit(entries.clone(), bytes, mode.no_slowdown)?;
        let (last, due) = if inner.stager.is_oversized(entries.len(), bytes) {
            let staged = inner
                .stager
                .write_guarded(entries, (bytes, mode), (None, Some(guard)))?;
            (staged, true)
        } else {
            let reserved = inner.reserve_guarded(entries.clone(), (bytes, mode), Some(guard))?;
            let last = reserved.group.last;
            commits.carry(inner, reserved.group, entries, mode.durability)?;
            (last, reserved.due)
        };
        let acknowledged = commits.acknowledge(inner, last, mode.durability);
        inner.wrote(due);
        acknowledged
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.snapshot
            .inner()
            .common
            .commits
            .recent
            .leave(self.floor);
    }
}
