//! Methods that all rooms of a store share: checks whether it takes writes, figures, and requests for work.

use std::time::Duration;

use thermocline_base::shown::shown;
use thermocline_base::{BatchEntry, CfId, Error, Kind, Result, SeqNo};
use thermocline_catalog::kept::Keeping;
use thermocline_catalog::owned::Retired;
use thermocline_commit::readers::moments_of_merge;
use thermocline_commit::recent::{LOG_BYTES_MAX, Met};
use thermocline_compaction::retain;
use thermocline_env::DiskRoom;
use thermocline_env::meter::Meter;
use thermocline_memtable::{Descriptor, OPERANDS_A_BLOCK, decode_blob_ref};
use thermocline_observe::count::Count;
use thermocline_observe::event::Event;
use thermocline_policy::flush::Dram;
use thermocline_policy::pick::Expired;
use thermocline_policy::work::Decision;
use thermocline_policy::{flush, indexes, scans, tuning};
use thermocline_runtime::{Job, Task};
use thermocline_tables::Promise;
use thermocline_version::{PartitionId, PmTotals};

use crate::store::Common;
use crate::sync::{Arc, Ordering};

/// Time after which deleted keys are looked for.
const EXPLORE_AFTER: Duration = Duration::from_nanos(tuning::EXPLORE_AFTER_NS);

/// The sealed memtables that wait to be flushed, and the one that would be the next of them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SealedUse {
    /// Sealed memtables.
    pub memtables: usize,
    /// Persistent memory that they own, in bytes.
    pub bytes: u64,
    /// Bytes of values in blob files that they refer to.
    pub blob_bytes: u64,
    /// The part of `bytes` that a running flush has taken.
    pub taken_bytes: u64,
    /// Their records.
    pub records: u64,
    /// The active memtable's records, and bytes of its items.
    pub active_records: u64,
    pub active_bytes: u64,
}

/// Checks: what the store may do, and what it does by itself.
impl Common {
    /// Whether the store is open, and no persist has failed.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Poisoned`].
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    /// Whether the store takes writes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it was opened for reading; [`Error::Closed`]; [`Error::Poisoned`].
    pub fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::InvalidArgument(
                "the database is open for reading only (Options::read_only), and takes no writes"
                    .into(),
            ));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    /// Whether a family exists.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the one that was dropped.
    pub fn check_family(&self, cf: CfId) -> Result<()> {
        self.families.check(cf, self.families.moment())
    }

    /// How many versions a key's list may have beyond one for each reader. Families with operands need more.
    pub fn operands_a_list(&self) -> usize {
        match self.families.any_operator() {
            true => OPERANDS_A_BLOCK,
            false => 0,
        }
    }

    /// Whether the store flushes by itself.
    pub fn flushes(&self) -> bool {
        self.options.flush.automatic && !self.options.read_only
    }

    /// Whether the store merges indexes by itself.
    pub fn merges_by_itself(&self) -> bool {
        self.options.level0.shape().merges_indexes()
            && self.world.background
            && !self.options.read_only
    }

    /// Whether indexes take their share of this store's DRAM, or of the DRAM of all stores.
    pub fn is_dram_short(&self) -> bool {
        self.dram().is_short()
    }

    /// Whether this store may be short of DRAM because other stores have it.
    pub fn is_crowded(&self) -> bool {
        self.dram().is_crowded(self.background.stores())
    }
}

/// Requests for work, and reports of it.
impl Common {
    /// Has sealed memtables flushed soon.
    pub fn want_flush(&self) {
        match self.world.background {
            true => self.background.request_job(Job::Flush),
            // Relaxed: a thread that sees the flag reads nothing else before it has taken locks.
            false => self.room.flush_wanted.store(true, Ordering::Relaxed),
        }
    }

    /// Has due compactions run soon, where there are threads for that.
    pub fn want_compaction(&self) {
        if self.world.background && self.flushes() {
            self.background.request_job(Job::Compact);
        }
    }

    /// Requests a compaction if tables may go that a range tombstone covers, which is settled by now.
    #[inline]
    pub fn compact_for_deletes(&self) {
        if self.compactions.deleted.is_due(|| self.settled()) {
            self.want_compaction();
        }
    }

    /// Requests a compaction if there are new tables that reads ask in vain. Requests one, too, if level 0 was read so
    /// often that its costs are to be weighed anew.
    #[inline]
    pub fn compact_for_reads(&self) {
        if self.catalog.table_files.reads.has_news() || self.rates.has_news() {
            self.want_compaction();
        }
    }

    /// A lookup has asked `count` sealed indexes beyond the first.
    pub fn asked(&self, count: u64) {
        let before = self.counted.add(Count::Asked, count);
        if indexes::looks(before, count)
            && self.counted.get(Count::Asked) >= self.merges.next.load(Ordering::Relaxed)
            && self.merges_by_itself()
        {
            // The job sets the next count.
            self.merges.next.store(u64::MAX, Ordering::Relaxed);
            self.background.request_job(Job::Merge);
        }
    }

    /// A cursor has collected `count` entries of memtables.
    pub fn scanned(&self, count: u64) {
        let before = self.counted.add(Count::Scanned, count);
        if scans::looks(before, count)
            && self.flushes()
            && self.options.level0.shape().evacuates_by_range()
        {
            self.want_flush();
        }
    }

    /// Has a worker check, some time from now, whether the store has fallen idle.
    #[inline]
    pub fn written(&self) {
        // Its task takes the writer's lock, under which the write was granted.
        self.background.request_after(Task::Idle, self.idle_after());
    }

    /// The time without a write after which a store is idle.
    pub fn idle_after(&self) -> Duration {
        match self.options.memtable.idle_ms {
            0 => Duration::from_nanos(tuning::IDLE_NS),
            ms => Duration::from_millis(ms),
        }
    }

    /// Has a worker look again when more may have expired.
    pub fn look_again_when_more_expires(&self) {
        if let Some(step) = self.expiry.step() {
            self.background.request_after(Task::Expire, step);
        }
    }

    /// Counts what a job reads, and how long it waits for files.
    pub fn meter(&self) -> Arc<Meter> {
        Arc::new(Meter::new(self.world.env.clock.clone()))
    }

    /// Reports that the work of `decision` begins.
    pub fn decided(&self, decision: &Decision) {
        self.events.emit(Event::Decided {
            work: decision.work.name(),
            because: decision.because.to_string(),
        });
    }

    /// Reports that the store was opened, and which memtables the open dropped.
    pub fn tell_opened(&self, dropped: &[u64]) {
        let recovery = self.recovery;
        self.events.emit(Event::Opened {
            records: recovery.records,
            cut_records: recovery.cut_records,
            after_crash: recovery.sealed_by_recovery,
            took: Duration::from_nanos(recovery.nanos),
        });
        if !self.options.read_only {
            for &id in dropped {
                self.events.emit(Event::MemtableDropped { id });
            }
        }
        self.background.settle();
    }

    /// Counts records that were written.
    pub fn count_entries<'a>(&self, entries: impl Iterator<Item = BatchEntry<'a>>) {
        let (mut puts, mut deletes, mut ranges, mut user) = (0, 0, 0, 0);
        let (mut deleted, mut cleared) = (None, None);
        for entry in entries {
            match entry.kind {
                Kind::Delete => {
                    deletes += 1;
                    deleted = Some((entry.cf, entry.key));
                }
                Kind::RangeDelete => {
                    ranges += 1;
                    cleared = Some((entry.cf, entry.key));
                }
                _ => puts += 1,
            }
            let value = match entry.kind {
                Kind::PutBlob => decode_blob_ref(entry.value).map_or(0, |blob| blob.len.into()),
                _ => entry.value.len() as u64,
            };
            user += entry.key.len() as u64 + value;
        }
        self.counted.add(Count::Puts, puts);
        if let Some((cf, key)) = deleted {
            let before = self.counted.add(Count::Deletes, deletes);
            if self.probes.deleted((before, deletes), cf, key) {
                self.background.request_after(Task::Explore, EXPLORE_AFTER);
            }
        }
        if let Some((cf, key)) = cleared {
            self.compactions.deleted.written();
            let records = self.catalog.view().memtables[0].len();
            self.probes.range_deleted(cf, key, records);
            self.background.request_after(Task::Explore, EXPLORE_AFTER);
            self.counted.add(Count::RangeDeletes, ranges);
        }
        self.counted.add(Count::UserBytes, user);
    }
}

/// Notes of changes, for transactions that watch. The caller of a `note` holds the writer's lock. A note returns
/// whether any transaction still watches.
impl Common {
    /// Notes the changes of a group that was granted the seqnos from `first` on.
    #[cold]
    pub fn note_recent<'a>(
        &self,
        first: SeqNo,
        entries: impl Iterator<Item = BatchEntry<'a>>,
    ) -> bool {
        let visible = self.commits.ring.visible();
        self.commits.recent.record(first, entries, visible)
    }

    /// Notes that anything in a family may have changed.
    pub fn note_family(&self, seqno: SeqNo, cf: CfId) -> bool {
        let visible = self.commits.ring.visible();
        self.commits.recent.record_family(seqno, cf, visible)
    }

    /// The error for a transaction whose footprint has met a change since `since`.
    pub fn conflict(&self, since: SeqNo, met: &Met) -> Error {
        Error::Conflict(match met {
            Met::Change { seqno, cf, key } => {
                let family = self.families.told_name(*cf);
                format!(
                    "key '{}' of column family '{family}' was changed (sequence number {seqno}) after the \
                     transaction's snapshot ({since}); roll back and begin anew",
                    shown(key)
                )
            }
            Met::Forgotten(up_to) => format!(
                "the transaction's snapshot ({since}) is so old that changes since then, up to {up_to}, are not \
                 remembered any more ({LOG_BYTES_MAX} bytes of keys are), so nobody knows whether they conflict; begin \
                 anew, with shorter transactions"
            ),
        })
    }
}

/// Figures.
impl Common {
    /// Nanoseconds by the clock of the store's world.
    pub fn now_ns(&self) -> u64 {
        self.world.env.clock.now_ns()
    }

    /// From then, in nanoseconds by that clock, until now.
    pub fn since(&self, then_ns: u64) -> Duration {
        Duration::from_nanos(self.now_ns().saturating_sub(then_ns))
    }

    /// The room on the disk, if the file system reports it.
    pub fn disk_room(&self) -> Option<DiskRoom> {
        let room = self.world.env.storage.room(&self.dir);
        // A disk that does not answer fails the next operation that needs it.
        room.unwrap_or(None)
    }

    /// DRAM of this store, and of all stores of the runtime.
    pub fn dram(&self) -> Dram {
        let budget = self.account.budget();
        Dram {
            used: self.account.used(),
            limit: self.options.dram,
            percent: self.options.flush.dram_percent,
            held_by_all: budget.held(),
            budget: budget.limit(),
        }
    }

    /// Most DRAM that indexes of this store may have.
    pub fn dram_limit(&self) -> u64 {
        self.options.dram.min(self.account.budget().limit())
    }

    /// The sealed memtables that wait to be flushed, by their numbers.
    pub fn sealed(&self) -> SealedUse {
        let view = self.catalog.view();
        let homes = view.memtables[1..].iter().flat_map(|m| m.homes());
        let mut all = SealedUse {
            active_records: view.memtables[0].len(),
            active_bytes: view.memtables[0].bytes(),
            ..SealedUse::default()
        };
        self.reclaim.each_unflushed(homes, |home, bytes, is_taken| {
            all.memtables += 1;
            all.bytes += bytes;
            if is_taken {
                all.taken_bytes += bytes;
            }
            all.blob_bytes += home.blobs().bytes();
            all.records += home.len();
        });
        all
    }

    /// Persistent memory of dead memtables that merged indexes lead to, in bytes.
    pub fn dead_in_merged(&self) -> u64 {
        let view = self.catalog.view();
        let merged = view.memtables.iter().filter(|m| m.is_merged());
        let homes = merged.flat_map(|m| m.homes());
        self.reclaim.dead_bytes(homes.map(|home| home.id()))
    }

    /// The persistent memory of all PM tables that the manifest names.
    pub fn pm_tables_use(&self) -> PmTotals {
        self.catalog.version().pm_totals()
    }

    /// Promises the bytes that are left until all PM tables together have `limit` bytes, at most `most`. `None` if less
    /// than `least` are left.
    pub fn promise_pm(&self, limit: u64, least: u64, most: u64) -> Option<Promise> {
        let taken = || self.pm_tables_use().bytes;
        let promised = &self.catalog.table_files.pm.promised;
        promised.promise(taken, limit, (least, most))
    }

    /// Whether a family has this partition now. It takes no lock.
    pub fn has_partition(&self, cf: CfId, partition: PartitionId) -> bool {
        self.families.exists(cf, b"") && self.catalog.version().partitions(cf).has(partition)
    }

    /// The limits on what is kept for feeds now. The oldest memtable is not kept where descriptors of memtables run
    /// short: else a flush would be due all the time.
    pub fn keeping(&self) -> Keeping {
        let feed = &self.options.feed;
        let limit = self.space.usage().limit_bytes;
        Keeping {
            retain_bytes: feed.retain_bytes,
            pinned_bytes_max: limit / 100 * feed.pins_percent_max,
            yields: flush::yields_kept(self.space.descriptors().free()),
        }
    }

    /// The retired memtables, oldest first: they are dead, and an older view or a feed holds them.
    pub fn retired(&self) -> Vec<Retired> {
        self.reclaim.retired()
    }

    /// The seqno up to which everything is durable and visible. A job that leaves versions out asks this before it asks
    /// for the registered readers (`memtable::needed::Readers`).
    pub fn settled(&self) -> SeqNo {
        let ring = &self.commits.ring;
        SeqNo(ring.durable().min(ring.visible()))
    }

    /// The moments at which readers may read, for a merge.
    pub fn moments_of_merge(&self) -> retain::Moments {
        let (moments, horizon) = moments_of_merge(&self.commits.ring, &self.commits.readers);
        retain::Moments::new(moments, horizon)
    }

    /// The TTL of a family in seconds, if it has one.
    pub fn ttl(&self, cf: CfId) -> Option<u64> {
        match self.expiry.is_any() {
            true => self.families.by_name(cf, |name| self.expiry.ttl(name)),
            false => None,
        }
    }

    /// Whether what a family has expires some time.
    pub fn expires(&self, cf: CfId) -> bool {
        self.ttl(cf).is_some()
    }

    /// The last expired seqno of a family; `None` if nothing has expired.
    pub fn expired(&self, cf: CfId) -> Option<SeqNo> {
        let ttl = self.ttl(cf)?;
        self.expiry.expired(ttl, &self.catalog.write_times())
    }

    /// The same, as the job picker needs it.
    pub fn expired_for(&self, cf: CfId) -> Option<Expired> {
        let up_to = self.expired(cf)?;
        let seen = self.commits.readers.last();
        Some(Expired { up_to, seen })
    }

    /// Gives the descriptor of a memtable back to its pool.
    pub fn give_descriptor_back(&self, descriptor: Option<Descriptor>) -> Result<()> {
        let released = descriptor.map_or(Ok(()), |descriptor| descriptor.release(&self.space));
        released.map_err(|error| self.poison.poison(error))
    }
}
