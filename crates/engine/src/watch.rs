//! A moment that is watched: what a transaction is made of.
//!
//! A [`Watch`] is a snapshot, and the promise that every change granted behind it is noted (`commit::recent`). It says
//! whether keys of somebody's concern have changed since, and writes a batch only if none has. Both are one step for all
//! writers: the question is asked under the writer's lock, right before the batch is granted. So there is no change
//! between the answer and the batch, of whoever and in whatever way: plain writes, batches, staged batches and ingested
//! tables are all granted under that lock.
//!
//! What a prepared transaction relies on nobody changes at all (`prepared`): that is asked in the same hold of the lock.
//!
//! The question is asked twice. Before the lock, it goes through all changes since the moment; under it only through
//! those that came meanwhile.

pub(crate) mod guard;

use thermocline_base::Result;
use thermocline_commit::recent::{Footprint, Watching};
use thermocline_commit::{Entries, WriteOptions};

use crate::snapshot::Snapshot;
use guard::Guarded;

/// A moment of a store, with all changes since.
#[derive(Debug)]
pub struct Watch {
    /// From where on changes are noted for it; not above the snapshot's seqno.
    watching: Watching,
    snapshot: Snapshot,
}

impl Watch {
    /// The caller watches, and has taken the snapshot then.
    pub(crate) fn of((watching, snapshot): (Watching, Snapshot)) -> Watch {
        Watch { watching, snapshot }
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
        inner.common.check_writable()?;
        if entries.len() == 0 {
            return Ok(());
        }
        let guard = Guarded::new(self.snapshot.seqno(), footprint);
        inner.write_guarded(entries, mode, &guard)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.snapshot
            .inner()
            .common
            .commits
            .recent
            .leave(&self.watching);
    }
}
