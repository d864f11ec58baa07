//! A write's way to the pipeline of `commit`. Long values go into a blob file before. A batch that is too large for
//! an item is staged, and so is one that found room in pieces alone (`stage::due`).

pub(crate) mod kinds;

use thermocline_base::{BatchEntry, Error, Result, SeqNo, WriteBatch};
use thermocline_commit::recent::Footprint;
use thermocline_commit::{Callback, CommitEnv, Durability, Entries, Group, Told, WriteOptions};
use thermocline_memtable::item_bytes;

use crate::blobs::{Hold, Separated};
use crate::prepared::claims::Claims;
use crate::prepared::{PreparedState, Resolution};
use crate::stage::due::goes_in_pieces;
use crate::store::{Engine, Inner};
use crate::sync::{Arc, Ordering};
use crate::watch::Watch;
use crate::write::env::Place;

impl Engine {
    /// Applies `entries` as one: visible together on return, and durable as `mode` says. An empty write, too, makes
    /// everything visible durable if `mode` says so.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] naming the budget, and why no flush makes room; [`Error::InvalidArgument`] for a family
    /// that was dropped; [`Error::Busy`] if the mode does not allow waiting: in these cases nothing was written.
    /// [`Error::Poisoned`] after a failed persist: the outcome of the write that met the failure is unknown.
    pub fn write<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        mode: impl Into<WriteOptions>,
    ) -> Result<()> {
        let mode = mode.into();
        let inner = &*self.inner;
        let _settled = inner.common.background.settled_after();
        if entries.len() == 0 {
            // An acknowledged durable write says so of everything before it, too.
            return match mode.durability {
                Durability::Immediate => self.sync(),
                Durability::Buffered => Ok(()),
            };
        }
        inner.common.check_writable()?;
        let bytes = item_bytes(entries.clone());
        if let Some(separated) = inner
            .stager
            .separate(entries.clone(), bytes, mode.no_slowdown)?
        {
            return self.write_separated(entries, separated, mode);
        }
        // A staged batch shares no group with other writes.
        if inner.stager.is_oversized(entries.len(), bytes) {
            return self.write_oversized(entries, bytes, mode);
        }
        let commits = &inner.common.commits;
        match commits.write(inner, entries.clone(), bytes, mode) {
            Err(error) => self.write_refused(entries, (bytes, mode), error),
            written => written,
        }
    }

    /// Stages a batch that was refused with `error` as one item, if it fits in pieces.
    #[cold]
    fn write_refused<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, mode): (u64, WriteOptions),
        error: Error,
    ) -> Result<()> {
        match goes_in_pieces(&error) {
            // It was admitted before it was refused.
            true => self.write_staged(entries, bytes, mode),
            false => Err(error),
        }
    }

    /// Writes a batch whose long values lie in a blob file.
    #[cold]
    fn write_separated<'a>(
        &self,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        separated: Separated,
        mode: WriteOptions,
    ) -> Result<()> {
        let inner = &*self.inner;
        let written = {
            let (entries, bytes) = separated.entries(entries);
            let entries = entries.into_iter();
            if inner.stager.is_oversized(entries.len(), bytes) {
                self.write_oversized(entries, bytes, mode)
            } else {
                let commits = &inner.common.commits;
                let written = commits.write_alone(inner, entries.clone(), bytes, mode);
                written.or_else(|error| self.write_refused(entries, (bytes, mode), error))
            }
        };
        inner.stager.end_separated(separated, &written);
        written
    }

    /// Stages a batch from the first, and waits for the acknowledgement.
    #[cold]
    fn write_oversized<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<()> {
        self.inner.stager.check_waits(bytes, mode.no_slowdown)?;
        self.inner.admit(entries.clone(), bytes, false)?;
        self.write_staged(entries, bytes, mode)
    }

    /// Stages a batch that was admitted, and waits for the acknowledgement.
    fn write_staged<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<()> {
        let inner = &*self.inner;
        let last = inner.stager.write(entries, bytes, mode, None)?;
        let acknowledged = inner
            .common
            .commits
            .acknowledge(inner, last, mode.durability);
        inner.wrote(true);
        acknowledged
    }

    /// Applies `entries` as one: visible together on return, durable when a thread of the runtime calls `done` with the
    /// outcome. If 65,536 commits of the store wait for their callbacks, this call waits for one of those.
    ///
    /// # Errors
    /// As [`Engine::write`], and then `done` is never called. [`Error::Busy`] where this call would wait for callbacks,
    /// and `no_slowdown` is true or the caller is a callback or listener itself.
    pub fn write_with_callback<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        no_slowdown: bool,
        done: Callback,
    ) -> Result<()> {
        let inner = &*self.inner;
        let _settled = inner.common.background.settled_after();
        inner.common.check_writable()?;
        let told = inner.common.commits.take_place(inner, no_slowdown, done)?;
        if entries.len() == 0 {
            self.have_told(inner.common.commits.write_nothing(told));
            return Ok(());
        }
        let bytes = item_bytes(entries.clone());
        let Some(separated) = inner.stager.separate(entries.clone(), bytes, no_slowdown)? else {
            return self.write_told(entries, bytes, no_slowdown, told);
        };
        let written = {
            let (entries, bytes) = separated.entries(entries);
            self.write_told(entries.into_iter(), bytes, no_slowdown, told)
        };
        inner.stager.end_separated(separated, &written);
        written
    }

    /// As [`Engine::write_with_callback`], for a batch that is not empty and without long values.
    fn write_told<'a>(
        &self,
        entries: impl Entries<'a>,
        bytes: u64,
        no_slowdown: bool,
        told: Told<'_>,
    ) -> Result<()> {
        let inner = &*self.inner;
        let size = (bytes, no_slowdown);
        let is_durable = if inner.stager.is_oversized(entries.len(), bytes) {
            inner.stager.check_waits(bytes, no_slowdown)?;
            inner.admit(entries.clone(), bytes, false)?;
            self.write_told_staged(entries, size, told)?
        } else {
            let mut told = Some(told);
            let commits = &inner.common.commits;
            let written = commits.write_told(inner, entries.clone(), size, &mut told);
            match (written, told) {
                (Err(error), Some(told)) if goes_in_pieces(&error) => {
                    self.write_told_staged(entries, size, told)?
                }
                (written, _) => written?,
            }
        };
        self.have_told(is_durable);
        Ok(())
    }

    /// As [`Engine::write_told`], of a batch that was admitted and is staged, and without having it told. Returns whether it is
    /// durable: if not, the store has failed.
    #[cold]
    fn write_told_staged<'a>(
        &self,
        entries: impl Entries<'a>,
        (bytes, no_slowdown): (u64, bool),
        told: Told<'_>,
    ) -> Result<bool> {
        let inner = &*self.inner;
        let mode = WriteOptions {
            durability: Durability::Buffered,
            no_slowdown,
        };
        let last = inner.stager.write(entries, bytes, mode, Some(told))?;
        inner.wrote(true);
        Ok(inner.common.commits.is_durable(last))
    }

    /// Has a courier call the callback of a commit, once a worker has written back if it is not `is_durable` yet. Where the
    /// system gives neither of them this thread does both: perhaps nobody else comes by, and who waits for the commit asks for
    /// nothing.
    fn have_told(&self, is_durable: bool) {
        let inner = &*self.inner;
        let (background, commits) = (&inner.common.background, &inner.common.commits);
        // Before the callback is asked for: a courier that is being started may be refused yet.
        let lacks_couriers = background.lacks_couriers();
        let is_alone = !is_durable && {
            if !lacks_couriers {
                self.request_sync();
            }
            lacks_couriers || background.lacks_workers()
        };
        if is_alone {
            // What fails poisons the store, and is told to the callback.
            let _ = self.sync();
        }
        // If the store is closed no worker comes any more. It has failed and was closed during this write: its callback must be
        // called.
        if is_durable || inner.common.closed.load(Ordering::Acquire) {
            commits.tell(inner);
        }
    }

    /// Makes everything visible durable, `Buffered` writes included.
    ///
    /// # Errors
    /// [`Error::Poisoned`], unless all of it is durable already; a failed persist, which poisons the store.
    pub fn sync(&self) -> Result<()> {
        let inner = &*self.inner;
        let visible = SeqNo(inner.common.commits.ring.visible());
        let _settled = inner.common.background.settled_after();
        let synced = inner.common.commits.sync_up_to(inner, visible);
        inner.common.commits.tell(inner);
        inner.common.compact_for_deletes();
        synced
    }
}

/// Prepared transactions (`prepared`).
impl Engine {
    /// Prepares a transaction under a name. `changes` can be committed or rolled back later, even after a
    /// crash. Until then no other write may change the keys and ranges of `claims`. The preparation is durable on
    /// return. The returned seqno, its last one, is that of no other. With `since`, it is refused if anything of the footprint has
    /// changed since that moment. `claims` has all keys that `changes` write, and all of the footprint.
    ///
    /// # Errors
    /// [`Error::Conflict`] naming the key that was changed, or a prepared transaction with an overlapping claim;
    /// [`Error::InvalidArgument`] for a name that is taken, empty or too long, for a family that was dropped, and for
    /// more than fits a batch; those of a write: nothing was written.
    pub fn prepare<'a>(
        &self,
        name: &[u8],
        (changes, claims): (impl Entries<'a>, Claims),
        since: Option<(&Watch, &dyn Footprint)>,
    ) -> Result<SeqNo> {
        let since = match since {
            None => (SeqNo::ZERO, None),
            Some((watch, footprint)) => (watch.snapshot().seqno(), Some(footprint)),
        };
        self.inner.preparer.prepare(name, (changes, claims), since)
    }

    /// Commits a prepared transaction, as one, or rolls it back. No conflict is looked for any more.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if none of this name is prepared. Those of a write: the transaction is prepared as
    /// before, but after [`Error::Poisoned`] the outcome is unknown until the next open.
    pub fn resolve(
        &self,
        name: &[u8],
        resolution: Resolution,
        mode: impl Into<WriteOptions>,
    ) -> Result<()> {
        let of_this_name = (name, None);
        self.inner
            .preparer
            .resolve(of_this_name, resolution, mode.into())
    }

    /// As [`Engine::resolve`], for who has prepared it: `prepared` is what [`Engine::prepare`] has returned. Another one that
    /// was prepared under the name since is left alone.
    ///
    /// # Errors
    /// As [`Engine::resolve`]; [`Error::InvalidArgument`] if it was resolved, whatever is prepared under its name now.
    pub fn resolve_own(
        &self,
        (name, prepared): (&[u8], SeqNo),
        resolution: Resolution,
        mode: impl Into<WriteOptions>,
    ) -> Result<()> {
        let own = (name, Some(prepared));
        self.inner.preparer.resolve(own, resolution, mode.into())
    }

    /// The transactions that are prepared, by name.
    ///
    /// # Errors
    /// [`Error::Closed`]. If the store was opened for reading: those of reading.
    pub fn prepared(&self) -> Result<Vec<PreparedState>> {
        self.inner.preparer.states()
    }

    /// What the prepared transactions claim, by name. Empty if the store was opened for reading.
    pub fn prepared_claims(&self) -> Vec<(Vec<u8>, Claims)> {
        self.inner.preparer.claims_of_all()
    }
}

/// A write in steps, for tests that have several writes in flight on one thread and crash between steps.
#[must_use = "a write that is granted and dropped can never finish"]
pub struct InFlight {
    inner: Arc<Inner>,
    batch: WriteBatch,
    group: Group<Place>,
    durability: Durability,
    /// Keeps the blob file with its long values until the write is carried out.
    _hold: Option<Hold>,
}

impl Engine {
    /// Gives a write its seqnos and its place, and does no more.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn begin(&self, batch: WriteBatch, durability: Durability) -> Result<InFlight> {
        self.inner.common.check_writable()?;
        let bytes = item_bytes(batch.iter());
        let (batch, hold) = match self.inner.stager.separate(batch.iter(), bytes, false)? {
            None => (batch, None),
            Some(separated) => {
                let (entries, _) = separated.entries(batch.iter());
                let batch = WriteBatch::of(entries.into_iter());
                (batch, Some(separated.into_hold()))
            }
        };
        let bytes = item_bytes(batch.iter());
        if self.inner.stager.is_oversized(batch.iter().len(), bytes) {
            return Err(Error::Unsupported(format!(
                "a batch of {bytes} bytes is staged, and is never in flight"
            )));
        }
        let reserved = self.inner.reserve(batch.iter(), bytes, durability.into())?;
        Ok(InFlight {
            inner: self.inner.clone(),
            batch,
            group: reserved.group,
            durability,
            _hold: hold,
        })
    }
}

impl InFlight {
    /// Stores the write, persists it unless that is deferred, indexes and finishes it. It does not wait for writes that
    /// were granted before. Returns whether the write may be acknowledged already.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn carry(self) -> Result<bool> {
        let commits = &self.inner.common.commits;
        let last = self.group.last;
        let entries = self.batch.iter();
        commits.carry(&*self.inner, self.group, entries, self.durability)?;
        Ok(commits.is_acknowledged(last, self.durability))
    }

    /// The write's last seqno.
    pub fn last(&self) -> SeqNo {
        self.group.last
    }
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InFlight")
            .field("last", &self.group.last)
            .finish_non_exhaustive()
    }
}
