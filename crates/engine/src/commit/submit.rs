//! Submitting a write: alone, as the leader of others, or behind one.

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::Arc;
use thermocline_base::{BatchEntry, Error, Kind, Result, SeqNo, WriteBatch};
use thermocline_halloc::Reserve;
use thermocline_memtable::item_bytes;

use crate::blobs::{Hold, Separated};
use crate::commit::bucket::{Bucket, Joined, Led, Request};
use crate::commit::carry::Durability;
use crate::store::{Engine, Inner};
use crate::sync::{lock_short, try_lock};
use crate::write::busy;

/// How a write is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// When it is acknowledged.
    pub durability: Durability,
    /// Whether to give up with [`Error::Busy`] rather than wait for the manifest, for the region's
    /// growth, for another writer's grant, for room among the writes in flight, for a flush that makes
    /// room, because flushing or compaction are behind, or because too many commits wait for their callbacks. It still waits for
    /// its own persist, and for those of writes before it. A batch over `memtable.item_bytes_max`, or with a
    /// value over `blob.inline_bytes_max`, always waits for the manifest.
    pub no_slowdown: bool,
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions {
            durability,
            ..WriteOptions::default()
        }
    }
}

/// A granted write, acknowledged by [`Inner::acknowledge`].
struct Submitted {
    last: SeqNo,
    /// Whether the store's thread has something to do.
    due: bool,
}

impl Engine {
    /// Applies `entries` as one: visible together on return, and durable as `mode` says. Where there are none,
    /// what is visible is durable on return all the same, if `mode` says so.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] naming the budget, and why no flush makes room; [`Error::InvalidArgument`] for a family that was
    /// dropped, [`Error::Busy`] if the mode asks for it: nothing was written. [`Error::Poisoned`] after
    /// a failed persist: the outcome of the write that met the failure is unknown.
    pub fn write<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        mode: impl Into<WriteOptions>,
    ) -> Result<()> {
        let mode = mode.into();
        let inner = &*self.inner;
        let _settled = inner.background.settled_after();
        if entries.len() == 0 {
            // Who is told that it is durable is told so of all before it, too.
            return match mode.durability {
                Durability::Immediate => self.sync(),
                Durability::Buffered => Ok(()),
            };
        }
        inner.check_writable()?;
        let bytes = item_bytes(entries.clone());
        if let Some(separated) = inner.separate(entries.clone(), bytes, mode.no_slowdown)? {
            return self.write_separated(entries, separated, mode);
        }
        // What returns without a persist gains nothing by waiting for others, and what is staged has
        // nothing in common with them.
        let alone = mode.durability == Durability::Buffered || mode.no_slowdown;
        if alone || inner.is_oversized(entries.len(), bytes) {
            return self.write_alone(entries, bytes, mode);
        }
        let bucket = inner.buckets.mine();
        if let Some(led) = bucket.lead() {
            return self.write_leading(entries, bytes, &led);
        }
        self.write_behind(entries, bytes, bucket)
    }

    /// Writes a batch whose long values lie in a blob file.
    #[cold]
    fn write_separated<'a>(
        &self,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        separated: Separated,
        mode: WriteOptions,
    ) -> Result<()> {
        let written = {
            let (entries, bytes) = separated.entries(entries);
            self.write_alone(entries.into_iter(), bytes, mode)
        };
        drop(separated);
        if written.is_err() {
            self.inner.discard_blobs();
        }
        written
    }

    /// Writes and waits for the acknowledgement.
    fn write_alone<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<()> {
        self.inner
            .hold_back(bytes, mode.no_slowdown, || only_deletes(entries.clone()))?;
        let submitted = self.submit(entries, bytes, mode)?;
        let acknowledged = self.inner.acknowledge(submitted.last, mode.durability);
        self.inner.wrote(submitted.due);
        acknowledged
    }

    /// Grants, stores, indexes and finishes, without waiting for those before.
    fn submit<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<Submitted> {
        if self.inner.is_oversized(entries.len(), bytes) {
            let last = self.write_staged(entries, bytes, mode, None)?;
            return Ok(Submitted { last, due: true });
        }
        let granted = self.grant(entries.clone(), bytes, mode)?;
        self.inner.carry(&granted.group, entries, mode.durability)?;
        Ok(Submitted {
            last: granted.group.last,
            due: granted.due,
        })
    }

    /// Gives a write its place, when there is room for it.
    pub(crate) fn grant<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<Granted> {
        let granted = self.inner.with_room(bytes, mode.no_slowdown, || {
            self.try_grant(entries.clone(), bytes, mode)
        });
        granted.inspect_err(|error| self.inner.events.refused(bytes, error))
    }

    fn try_grant<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        mode: WriteOptions,
    ) -> Result<Granted> {
        let inner = &*self.inner;
        let records = entries.len() as u64;
        if inner.is_oversized(entries.len(), bytes) {
            return Err(Error::Unsupported(format!(
                "a batch of {bytes} bytes is staged, and is never in flight"
            )));
        }
        let deletes_only = only_deletes(entries.clone());
        let deletes = deletes_only || deletes_any(entries.clone());
        let reserve = if deletes_only {
            Reserve::Use
        } else {
            Reserve::Keep
        };
        let mut writer = if mode.no_slowdown {
            try_lock(&inner.writer).ok_or_else(|| busy("for another writer"))?
        } else {
            lock_short(&inner.writer)
        };
        // Again: whoever closed the store meanwhile has cut the chain under this lock, and what
        // came behind the cut would be lost; so would what followed a failed persist.
        inner.check_writable()?;
        inner.families.check_write(entries.clone())?;
        if mode.no_slowdown
            && let Err(error) = inner.check_no_slowdown(&writer, bytes, reserve)
        {
            drop(writer);
            // What it would have waited for is done meanwhile.
            self.nudge();
            return Err(error);
        }
        let (attached, tombstones) = inner
            .reserve_dram(&mut writer, entries, records, deletes_only)
            .and_then(|tombstones| {
                let attached = match mode.no_slowdown {
                    true => inner.find_room(&mut writer, bytes, reserve, false),
                    false => inner.make_room(&mut writer, bytes, reserve),
                };
                Ok((attached?, tombstones))
            })?;
        if !deletes_only {
            inner.events.accepted(bytes);
        }
        if !inner.ring.has_room() && !inner.ring.wait_for_room() {
            inner.poison.check()?;
        }
        if tombstones > 0 {
            // Of the generation that it goes into: room may have been made by a seal.
            writer.active.promise_tombstones(tombstones)?;
        }
        let group = inner.grant(&mut writer, records, bytes, tombstones);
        if deletes {
            inner.deleted(group.last);
        }
        // What will be needed soon changes only with the zones that are taken.
        let due = attached && inner.work_is_due(&writer);
        Ok(Granted { group, due })
    }

    /// Writes `entries` and what has gathered behind them.
    fn write_leading<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        led: &Led<'_>,
    ) -> Result<()> {
        let inner = &*self.inner;
        let commit = &inner.options.commit;
        let most = commit.group_bytes_max;
        let more = most
            .min(inner.options.memtable.item_bytes_max)
            .saturating_sub(bytes);
        if commit.group_wait_us > 0 {
            led.wait_for_followers(more, std::time::Duration::from_micros(commit.group_wait_us));
        }
        let taken = led.take(more);
        let mode = WriteOptions::default();
        if taken.is_empty() {
            return self.write_alone(entries, bytes, mode);
        }
        let result = {
            let mut all: Vec<BatchEntry<'_>> = Vec::new();
            for entry in entries.clone() {
                all.push(entry);
            }
            all.extend(
                taken
                    .requests()
                    .iter()
                    .flat_map(|request| request.batch.iter()),
            );
            let together = all.iter().copied();
            self.write_alone(together.clone(), item_bytes(together), mode)
        };
        if result.is_ok() {
            taken.answer(|_| Ok(()));
            return result;
        }
        if inner.poison.check().is_err() {
            // A member's error is its own: what poisoned the store has been kept.
            taken.answer(|_| inner.poison.check());
            return result;
        }
        // There was no room for all, or one names a family that is gone. Each learns about itself.
        let alone = |batch: &WriteBatch, bytes| self.write_alone(batch.iter(), bytes, mode);
        let own = self.write_alone(entries, bytes, mode);
        taken.answer(|request| alone(&request.batch, request.bytes));
        own
    }

    /// Leaves `entries` to the bucket's leader, or writes them when it is their turn to lead.
    #[cold]
    fn write_behind<'a>(
        &self,
        entries: impl ExactSizeIterator<Item = BatchEntry<'a>> + Clone,
        bytes: u64,
        bucket: &Bucket,
    ) -> Result<()> {
        let request = Request::new(WriteBatch::of(entries.clone()), bytes);
        match bucket.join(&request) {
            Joined::Done(result) => result,
            Joined::Leads(led) => self.write_leading(entries, bytes, &led),
        }
    }

    /// Makes everything visible durable, what was written `Buffered` included.
    ///
    /// # Errors
    /// [`Error::Poisoned`]; a failed persist, which poisons the store.
    pub fn sync(&self) -> Result<()> {
        let visible = SeqNo(self.inner.ring.visible());
        let _settled = self.inner.background.settled_after();
        let synced = self.inner.sync_up_to(visible);
        self.inner.tell_commits();
        synced
    }
}

/// Whether a write adds nothing.
pub(crate) fn only_deletes<'a>(mut entries: impl Iterator<Item = BatchEntry<'a>>) -> bool {
    entries.all(is_delete)
}

/// Whether a write takes something away.
pub(crate) fn deletes_any<'a>(mut entries: impl Iterator<Item = BatchEntry<'a>>) -> bool {
    entries.any(is_delete)
}

fn is_delete(entry: BatchEntry<'_>) -> bool {
    matches!(entry.kind, Kind::Delete | Kind::RangeDelete)
}

/// A group with its place, and whether the store's thread has something to do.
pub(crate) struct Granted {
    pub group: crate::commit::carry::Group,
    pub due: bool,
}

/// A write in steps, for tests that let several be in flight on one thread and crash between them.
#[must_use = "a write that is granted and dropped can never finish"]
pub struct InFlight {
    inner: Arc<Inner>,
    batch: WriteBatch,
    group: crate::commit::carry::Group,
    durability: Durability,
    /// Keeps the file with its long values until it is carried.
    _hold: Option<Hold>,
}

impl Engine {
    /// Gives a write its seqnos and its place, and no more.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn begin(&self, batch: WriteBatch, durability: Durability) -> Result<InFlight> {
        self.inner.check_writable()?;
        let bytes = item_bytes(batch.iter());
        let (batch, hold) = match self.inner.separate(batch.iter(), bytes, false)? {
            None => (batch, None),
            Some(separated) => {
                let (entries, _) = separated.entries(batch.iter());
                let batch = WriteBatch::of(entries.into_iter());
                (batch, Some(separated.into_hold()))
            }
        };
        let bytes = item_bytes(batch.iter());
        let granted = self.grant(batch.iter(), bytes, durability.into())?;
        Ok(InFlight {
            inner: self.inner.clone(),
            batch,
            group: granted.group,
            durability,
            _hold: hold,
        })
    }
}

impl InFlight {
    /// Stores, persists unless that is deferred, indexes, and finishes; without waiting for those that
    /// were granted before. Returns whether it may be acknowledged already.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn carry(self) -> Result<bool> {
        let last = self.group.last.0;
        self.inner
            .carry(&self.group, self.batch.iter(), self.durability)?;
        Ok(match self.durability {
            _ if active(Bug::AckOutOfOrder) => true,
            Durability::Immediate if active(Bug::AckAtVisible) => self.inner.ring.visible() >= last,
            Durability::Immediate => self.inner.ring.durable() >= last,
            Durability::Buffered => self.inner.ring.visible() >= last,
        })
    }

    /// Its last seqno.
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
