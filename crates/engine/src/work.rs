//! What is done to a store through a handle of it, but for writing: families, flushes, compactions, copies, closing.

use std::path::Path;

use thermocline_base::asked::is_asked;
use thermocline_base::bounds::KeyBounds;
use thermocline_base::progress::Progress;
use thermocline_base::{CfId, CfOptions, Error, Result, SeqNo, limits};
use thermocline_copies::{
    ChangeFeed, Exported, Ingested, Installed, NewTables, Store, checkpoint_observed, export,
    ingest_observed,
};
use thermocline_env::Env;
use thermocline_observe::count::Count;
use thermocline_runtime::Task;

use crate::Family;
use crate::capture::Capture;
use crate::copies::Ascending;
use crate::partitions::Adjustment;
use crate::store::Engine;

impl Engine {
    /// The family of this name, made durably if there is none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty or too long name, too many families, or an option
    /// that differs from what the family was made with and stays; those of a write.
    pub fn family(&self, name: &str, options: &CfOptions) -> Result<Family> {
        if let Some(family) = self.find_family(name) {
            let made = self.family_options(family);
            options.check_fixed(&made, name)?;
            if options.merge_operator.is_none() || made.merge_operator.is_some() {
                return Ok(family);
            }
        }
        let _settled = self.inner.common.background.settled_after();
        self.inner.family_changes.family(name, options)
    }

    /// Drops the family of this name, durably, with everything in it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for the default family, and if there is none of this name; those
    /// of a write.
    pub fn drop_family(&self, name: &str) -> Result<()> {
        let _settled = self.inner.common.background.settled_after();
        self.inner.family_changes.drop_family(name)
    }

    /// Whether a family takes writes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes none, and for a family that was dropped; [`Error::Closed`];
    /// [`Error::Poisoned`].
    pub fn check_accepts(&self, cf: CfId) -> Result<()> {
        self.inner.common.check_writable()?;
        self.inner.common.check_family(cf)
    }

    /// Seals the active memtable, unless it is empty, and moves all sealed ones into tables. Returns
    /// how many those were. Where there is no descriptor for another memtable, the active one stays.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes no writes; [`Error::Poisoned`]; a failed persist
    /// of region, folder or manifest, which poisons the store; [`Error::Corruption`] of a record; those
    /// of the file system, after which everything is as before.
    pub fn flush(&self) -> Result<usize> {
        let _settled = self.inner.common.background.settled_after();
        self.inner.memtables.seal_active()?;
        self.inner.flusher.flush()
    }

    /// Drops every memtable in which nothing is alive and that nobody reads, merges indexes where that
    /// pays, rewrites what is mostly dead ([`RewritePlan`](crate::RewritePlan)), and returns how many memtables were
    /// dropped. The store's threads do so by themselves (they rewrite when a flush is due), and a writer that finds no room.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes no writes; [`Error::Poisoned`]; a failed
    /// persist, which poisons the store; [`Error::Corruption`] of a record that had to be read.
    pub fn reclaim(&self) -> Result<usize> {
        let inner = &self.inner;
        let _settled = inner.common.background.settled_after();
        inner.common.check_writable()?;
        let mut dropped = inner.reclaimer.reclaim()?;
        while inner.merger.merge_if_due()? {
            dropped += inner.reclaimer.reclaim()?;
        }
        // What that drops it has dropped when it returns.
        let before = inner.common.counted.get(Count::Dropped);
        if inner.flusher.rewrite()? {
            let now = inner.common.counted.get(Count::Dropped);
            dropped += usize::try_from(now - before).unwrap_or(usize::MAX);
        }
        Ok(dropped)
    }

    /// Does the most urgent compaction, if one is due; returns whether there was one.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a store that takes no writes;
    /// [`thermocline_base::Error::Poisoned`]; a failed sync of the folder or write to the manifest, which
    /// poisons the store; those of the file system and [`thermocline_base::Error::Corruption`] of a
    /// table, after which everything is as before.
    pub fn compact_once(&self) -> thermocline_base::Result<bool> {
        let _settled = self.inner.common.background.settled_after();
        self.inner.compactor.compact_once()
    }

    /// Flushes, and compacts the keys of family `cf` from one bound to the other, which are compared
    /// bytewise whatever the family's order, until all of them lie in one level and nothing lies there
    /// that nobody needs: versions that nobody can read any more, and tombstones. So what was deleted
    /// takes no space afterwards, but for what snapshots and iterators still read.
    ///
    /// What is written meanwhile may stay above. A table that only partly lies in the range is compacted
    /// as a whole.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped; those of
    /// [`Engine::flush`] and [`Engine::compact_once`].
    pub fn compact(&self, cf: CfId, range: KeyBounds<'_>) -> Result<()> {
        self.inner.common.check_family(cf)?;
        let by = self.inner.common.compactions.begin_by_hand();
        self.flush()?;
        let _settled = self.inner.common.background.settled_after();
        self.inner.compactor.compact_range(cf, range, by)
    }

    /// Merges what lies of a family in persistent memory, inside persistent memory, until no read has to ask more than
    /// one table of level 0 there. What lies in level 0 beside files stays, and what comes meanwhile. Waits for
    /// compactions that hold it, and for a flush that is promised the room for it.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] where persistent memory, or the share of level 0, has no room for it; those of
    /// [`Engine::flush`] and [`Engine::compact_once`].
    pub fn compact_level0(&self, cf: CfId) -> Result<()> {
        let _settled = self.inner.common.background.settled_after();
        self.inner.compactor.compact_level0(cf)
    }

    /// Does all flushes and compactions that are due, and waits for those that run. What is not due stays
    /// where it is.
    ///
    /// # Errors
    /// As [`Engine::compact_once`] and [`Engine::flush`].
    pub fn drain(&self) -> thermocline_base::Result<()> {
        let inner = &*self.inner;
        let _settled = inner.common.background.settled_after();
        let _hurry = inner.common.compactions.hurry();
        loop {
            inner.common.check_writable()?;
            inner.reclaimer.reclaim()?;
            inner.flusher.flush_deletes()?;
            // Behind a flush that runs.
            let flushed = match inner.flush_due.is_flush_due() {
                true => inner.flusher.flush_due_now()?,
                false => {
                    inner.common.turns.flushing.wait();
                    0
                }
            };
            if flushed == 0
                && !inner.compactor.compact_once()?
                && !inner.common.compactions.wait_for_all()
            {
                return Ok(());
            }
        }
    }

    /// Divides the partition in which `key` lies there; returns whether none began there before. Waits for
    /// compactions of tables that reach over it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an empty or too long key, a family that does not exist, or too many
    /// partitions; [`Error::OutOfSpace`] while the disk is full; those of [`Engine::compact_once`].
    pub fn split_partition(&self, cf: CfId, key: &[u8]) -> Result<bool> {
        let inner = &*self.inner;
        let _settled = inner.common.background.settled_after();
        inner.common.check_family(cf)?;
        if !(1..=limits::KEY_LEN_MAX).contains(&key.len()) {
            return Err(Error::InvalidArgument(format!(
                "a partition is split at a key of 1 to {} bytes; {} were given",
                limits::KEY_LEN_MAX,
                key.len()
            )));
        }
        self.adjust_by_hand(cf, &Adjustment::Split(key.to_vec()))
    }

    /// Gives the keys of the partition that begins at `start` to the one before it; returns whether there was
    /// such a one.
    ///
    /// # Errors
    /// As [`Engine::split_partition`].
    pub fn merge_partition(&self, cf: CfId, start: &[u8]) -> Result<bool> {
        let inner = &*self.inner;
        let _settled = inner.common.background.settled_after();
        inner.common.check_family(cf)?;
        self.adjust_by_hand(cf, &Adjustment::Merge(vec![start.to_vec()]))
    }

    fn adjust_by_hand(&self, cf: CfId, what: &Adjustment) -> Result<bool> {
        let inner = &*self.inner;
        if inner.pressure.is_disk_full() {
            inner.admission.check_disk(0)?;
        }
        inner.partitioner.adjust_by_hand(cf, what)
    }

    /// Does now what a worker would do when asked: grows the region and names the next memtable
    /// where that will be needed soon. A store without background flushes here, too, if that is due.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a store that takes no writes; [`Error::Poisoned`]; a failed
    /// persist, which poisons the store. A full region is no error here.
    pub fn work_ahead(&self) -> Result<()> {
        let _settled = self.inner.common.background.settled_after();
        self.inner.flush_due.flush_if_due();
        self.inner.flusher.flush_inline();
        match self.inner.work_ahead() {
            Err(Error::OutOfSpace(_)) => Ok(()),
            other => other,
        }
    }

    /// Does now what a worker would do after [`idle_ms`] without a write: covers the last write by a
    /// later `published`, so that rot in it cannot pass for a torn tail, and gives DRAM that was
    /// promised to writes back to the runtime.
    ///
    /// # Errors
    /// As [`Engine::work_ahead`].
    ///
    /// [`idle_ms`]: thermocline_base::options::MemtableOptions::idle_ms
    pub fn cover_idle(&self) -> Result<()> {
        let _settled = self.inner.common.background.settled_after();
        self.inner.memtables.rest_now()
    }

    /// Lets a worker make durable what is visible, and acknowledge what waits for that.
    pub(crate) fn request_sync(&self) {
        self.inner.common.background.request(Task::Sync);
    }

    /// Makes `dir` a database of its own with all that is visible now, families, metadata and options
    /// included. Its tables and blob files are hard links where `dir` lies on the same file system, and copies where
    /// not. All of it is durable on return, and in this store, too, all that it has, unless that only reads. Writers go on
    /// meanwhile. Returns the last seqno that the copy has.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if `dir` exists and is not empty, or lies in the store's
    /// folder;
    /// [`Locked`](thermocline_base::Error::Locked) if somebody makes a copy there;
    /// [`Closed`](thermocline_base::Error::Closed); [`Poisoned`](thermocline_base::Error::Poisoned);
    /// [`Unsupported`](thermocline_base::Error::Unsupported) for records that cannot be in tables;
    /// [`Corruption`](thermocline_base::Error::Corruption) of a record; those of the file system. There is no
    /// database in `dir` then (or, where the file system refuses to remove anything either, all of it),
    /// and this store is unharmed.
    pub fn checkpoint(&self, dir: &Path) -> Result<u64> {
        self.checkpoint_observed(dir, &mut |_| {})
    }

    /// As [`Engine::checkpoint`]. `observer` is told how many bytes of the store's files the copy has.
    ///
    /// # Errors
    /// As [`Engine::checkpoint`].
    pub fn checkpoint_observed(
        &self,
        dir: &Path,
        observer: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        let _settled = self.inner.common.background.settled_after();
        checkpoint_observed(self, dir, observer)
    }

    /// Writes what `family` has now within these bounds, the one that comes first in the family's order
    /// first, into one table `path`, for ingestion.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if `path` exists, for a family that was dropped, or
    /// if it is too much for one table or has a value over 1 MiB, which a table cannot hold itself;
    /// [`Corruption`](thermocline_base::Error::Corruption); those of the file system. There is no table then.
    pub fn export(&self, family: Family, bounds: KeyBounds<'_>, path: &Path) -> Result<Exported> {
        export(self, family, bounds, path)
    }

    /// Brings the entries of `tables` into family `cf`, all of them at one moment, above everything that
    /// was written before. Durable on return. The files are read, and stay where they are.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if two tables overlap, naming both, for too many
    /// tables, a family that was dropped, or a store that takes no writes;
    /// [`Corruption`](thermocline_base::Error::Corruption) naming the table that is damaged;
    /// [`Unsupported`](thermocline_base::Error::Unsupported) for a table with merges or separated values;
    /// [`OutOfSpace`](thermocline_base::Error::OutOfSpace), also if the rest of the disk is kept for flushes and compactions;
    /// those of the file system: then nothing was ingested. A failed persist poisons the store.
    pub fn ingest<P: AsRef<Path>>(&self, cf: CfId, tables: &[P]) -> Result<Ingested> {
        self.ingest_observed(cf, tables, &mut |_| {})
    }

    /// As [`Engine::ingest`]. `observer` is told, once all tables are checked, how many bytes of them are brought in.
    ///
    /// # Errors
    /// As [`Engine::ingest`].
    pub fn ingest_observed<P: AsRef<Path>>(
        &self,
        cf: CfId,
        tables: &[P],
        observer: &mut dyn FnMut(Progress),
    ) -> Result<Ingested> {
        let _settled = self.inner.common.background.settled_after();
        ingest_observed(self, cf, tables, observer)
    }

    /// The id of the database, which no copy of it shares.
    pub fn id(&self) -> [u8; 16] {
        self.inner.common.db_id
    }

    /// What was committed after `since`, the last seqno that the caller has; 0 is the beginning. A group that
    /// `since` lies within is given whole.
    ///
    /// # Errors
    /// [`ChangesGone`](thermocline_base::Error::ChangesGone) with the smallest `since` that can be asked for;
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if this database has no such change, because it was
    /// lost in a crash, or is another database's: then the caller has what the store has not, and begins anew;
    /// [`Closed`](thermocline_base::Error::Closed).
    pub fn changes_since(&self, since: u64) -> Result<ChangeFeed> {
        ChangeFeed::since(self.inner.feeds.clone(), since)
    }

    /// Closes the store: cuts the chain in the manifest, so that the next open has nothing to
    /// decide, and gives up the lock. Snapshots, cursors and values go on; other handles read
    /// nothing from then on. The folder may be removed, and a new database made in its place.
    /// Idempotent: whoever comes second waits for the first.
    ///
    /// On return every callback has been called and every event told. So it waits for one that blocks, but only
    /// when all is durable and the folder given up: the next open waits for none. (A store that has failed gives
    /// its folder up when this has returned.) In a callback or listener, of whatever store, it waits for
    /// none: what is left is called when that has returned. The same holds when the last handle is dropped.
    ///
    /// # Errors
    /// A failed persist, now or earlier; the store is closed all the same, and the next open recovers. A disk without
    /// room for the cuts is none: all is durable. And [`Error::InvalidArgument`] of [`Engine::check_close`].
    pub fn close(&self) -> Result<()> {
        self.check_close()?;
        self.inner.close()
    }

    /// Whether this thread may close a store.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] in a compaction filter, a merge operator or an observer of progress, of whatever store. It would wait
    /// for the work that waits for it.
    pub fn check_close(&self) -> Result<()> {
        match is_asked() {
            true => Err(Error::InvalidArgument(
                "a compaction filter, a merge operator or an observer of progress cannot close the database: that waits \
                 for the work that asks it"
                    .into(),
            )),
            false => Ok(()),
        }
    }
}

impl Store for Engine {
    type Captured = Capture;
    type Family = Family;
    type Entries = Ascending;

    fn env(&self) -> &Env {
        &self.inner.common.world.env
    }

    fn dir(&self) -> &Path {
        &self.inner.common.dir
    }

    fn db_id(&self) -> [u8; 16] {
        self.inner.common.db_id
    }

    fn check_open(&self) -> Result<()> {
        self.inner.common.check_open()
    }

    fn check_accepts(&self, cf: CfId) -> Result<()> {
        Engine::check_accepts(self, cf)
    }

    fn flush(&self) -> Result<()> {
        Engine::flush(self).map(drop)
    }

    fn capture(&self) -> Result<Capture> {
        Capture::of(&self.inner)
    }

    fn entries(&self, family: Family, bounds: KeyBounds<'_>) -> Result<Ascending> {
        Ok(Ascending::new(self.cursor(family)?, family.reverse, bounds))
    }

    fn install(
        &self,
        cf: CfId,
        bytes: u64,
        write: &mut dyn FnMut(SeqNo, &mut dyn NewTables) -> Result<()>,
    ) -> Result<Installed> {
        self.inner.ingester.install_new(cf, bytes, write)
    }
}
