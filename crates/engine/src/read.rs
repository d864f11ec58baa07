//! Reads and reports through a handle of a store.

use std::path::Path;

use thermocline_base::bounds::KeyBounds;
use thermocline_base::merge::MergeOperator;
use thermocline_base::{CfId, CfOptions, Result, SeqNo};
use thermocline_catalog::Pins;
use thermocline_commit::recent::Watching;
use thermocline_observe::latency::Latencies;
use thermocline_tables::{RangeSize, Search, TableIndexes};
use thermocline_version::JobDone;

use crate::awaited::{Begun, PendingRead};
use crate::cursor::Cursor;
use crate::families::table::Family;
use crate::map::FamilyMap;
use crate::operands;
use crate::partitions::PartitionSize;
use crate::plan::Plan;
use crate::report::{EngineMetrics, ReaderKind};
use crate::snapshot::Snapshot;
use crate::snapshot::hit::Hit;
use crate::store::{Engine, Moment};
use crate::sync::{Arc, Ordering};
use crate::value::Value;
use crate::watch::Watch;

impl Engine {
    /// Calls `found` with the value of `key`, where it lies; `None` if there is none.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] naming region and offset;
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped.
    pub fn get<T>(
        &self,
        cf: CfId,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        self.latest((cf, key), |_, hit| found(hit.bytes()))
    }

    /// As [`Engine::get`], with the value copied or pinned.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn value(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        self.latest((cf, key), |pins, hit| self.inner.reads.value(pins, hit))
    }

    /// As [`Engine::value`], while nobody waits: see [`PendingRead`].
    pub fn value_async(&self, cf: CfId, key: &[u8]) -> PendingRead<Option<Value>> {
        PendingRead::one(Begun::latest(&self.inner, (cf, key)), key)
    }

    /// Calls `found` with the visible version of a key, and with the pins that hold values of that view.
    #[inline]
    fn latest<T>(
        &self,
        (cf, key): (CfId, &[u8]),
        found: impl FnOnce(&Pins, Hit<'_>) -> T,
    ) -> Result<Option<T>> {
        let inner = &*self.inner;
        let verify = inner.common.options.read.verify_checksums;
        // A memtable that comes after this holds only records that were not visible when the read began.
        let view = inner.common.catalog.view();
        let pins = view.pins()?;
        // Asked after the view is loaded: a family that was dropped by now may be missing from it, or in part.
        inner.common.check_family(cf)?;
        let visible = inner.common.commits.ring.visible_mark();
        inner.reads.find(
            &view,
            (cf, key),
            |memtable| memtable.get_latest(cf, key, visible, verify),
            // Ingested tables may be in the view and not visible yet (`ingest`).
            |tables| Search::at_once((cf, key), SeqNo(visible.load(Ordering::SeqCst)), tables),
            || self.folded_now(cf, key),
            |hit| found(pins, hit),
        )
    }

    /// The value of a key with operands, as of now. The reader is registered, so that no operand goes while they are
    /// collected.
    #[cold]
    fn folded_now(&self, cf: CfId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let moment = Moment::now(&self.inner);
        // Dropped since it was asked for, it may have no tables any more, and what its operands are on would be missing.
        moment.check(cf)?;
        let view = moment.view(cf)?;
        operands::folded(&self.inner.common, &view, (cf, key), moment.seqno())
    }

    /// A cursor over `family` at what is visible now, not yet at any key.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped.
    pub fn cursor(&self, family: Family) -> Result<Cursor> {
        let moment = Moment::now(&self.inner);
        moment.check(family.id)?;
        Ok(Cursor::new(moment, family))
    }

    /// A snapshot of what is visible now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(Moment::now(&self.inner), ReaderKind::Snapshot)
    }

    /// A snapshot of what is visible now; all changes granted from then on are noted. For transactions.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Poisoned`]; [`thermocline_base::Error::Closed`].
    pub fn watch(&self) -> Result<Watch> {
        self.inner.common.check_open()?;
        if let Some(noted) = self.snapshot_if_noted() {
            return Ok(Watch::of(noted));
        }
        let mut held_up = self.inner.memtables.hold_writer_up();
        let ring = &self.inner.common.commits.ring;
        if !ring.wait_empty() {
            self.inner.common.check_open()?;
        }
        self.inner.common.commits.recent.begin(ring.visible());
        held_up.watch();
        // Taken under the lock: many notes of other writes could otherwise end the noting before this thread watches.
        let noted = self.snapshot_if_noted();
        drop(held_up);
        Ok(Watch::of(noted.expect(
            "noting begun under the writer's lock, which ends under it only",
        )))
    }

    /// A snapshot, and the moment from which changes are noted for it, if they are.
    fn snapshot_if_noted(&self) -> Option<(Watching, Snapshot)> {
        let commits = &self.inner.common.commits;
        let watching = commits.recent.watch(|| commits.ring.visible())?;
        Some((watching, self.snapshot()))
    }

    /// The family of this name, if there is one.
    pub fn find_family(&self, name: &str) -> Option<Family> {
        self.inner.common.families.find(name)
    }

    /// The names of all families, in the order in which they were made.
    pub fn families(&self) -> Vec<String> {
        self.inner.common.families.names()
    }

    /// The options that a family was made with. The database's options hold where these do not say how the family is
    /// divided.
    pub fn family_options(&self, family: Family) -> CfOptions {
        self.inner.common.families.options_of(family)
    }

    /// Whether this opening has a TTL or a compaction filter for the family of this name, which may be made later.
    pub fn loses_entries(&self, family: &str) -> bool {
        let common = &self.inner.common;
        common.expiry.ttl(family).is_some() || common.families.is_filtered(family)
    }

    /// The merge operator of a family. A writer asks it whether it takes an operand
    /// ([`check_operand`](thermocline_base::merge::check_operand)).
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] naming a family that has none, or was dropped.
    pub fn merge_operator(&self, cf: CfId) -> Result<Arc<dyn MergeOperator>> {
        self.inner.common.check_family(cf)?;
        self.inner.common.families.checked_operator(cf)
    }

    /// Calls `found` with the metadata of family `cf` as it is now; `None` if none was ever set.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn metadata<T>(&self, cf: CfId, found: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let value = self.get(CfId::METADATA, &cf.metadata_key(), found)?;
        // Asked after the read, as for a get.
        self.inner.common.check_family(cf)?;
        Ok(value)
    }

    /// The name of a family for a message; its number if it was dropped.
    pub fn name_of_family(&self, cf: CfId) -> String {
        self.inner.common.families.told_name(cf)
    }

    /// Nanoseconds by the store's clock.
    pub fn clock_ns(&self) -> u64 {
        self.inner.common.now_ns()
    }

    /// As [`Engine::clock_ns`], but of its last tick: see [`thermocline_env::Clock::tick_ns`].
    pub fn tick_ns(&self) -> u64 {
        self.inner.common.world.env.clock.tick_ns()
    }

    /// Whether both are handles of one open store.
    pub fn is_same(&self, other: &Engine) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The last seqno that survives a crash, together with all before it.
    pub fn durable(&self) -> SeqNo {
        SeqNo(self.inner.common.commits.ring.durable())
    }

    /// The last seqno that readers see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.inner.common.commits.ring.visible())
    }

    /// About how large each of these ranges of a family is now. Bounds are by bytes, also where the
    /// family's order is the reverse; a range that ends before it begins is empty.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped;
    /// [`thermocline_base::Error::Corruption`] of an index; those of reading it.
    pub fn approximate_sizes(&self, cf: CfId, ranges: &[KeyBounds<'_>]) -> Result<Vec<RangeSize>> {
        self.inner.reads.approximate_sizes(cf, ranges)
    }

    /// The partitions of a family, in the order of keys, and about how many bytes of tables lie in each. The figures
    /// come from the tables' indexes: tables that lie in several partitions are opened.
    pub fn partitions(&self, cf: CfId) -> Vec<PartitionSize> {
        self.inner.partitioner.sizes(cf)
    }

    /// The keys of the partition of a family that begins with `start`: from `start` up to the second key, or without an end.
    /// Where keys are divided by prefix, any prefix of the right length is such a partition, and has the keys that begin with it.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] if no partition begins there, or the keys are not divided at all.
    pub fn partition_at(&self, cf: CfId, start: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        self.inner.common.check_family(cf)?;
        self.inner.partitioner.keys_from(cf, start)
    }

    /// Where the data of each family lies, for families with tables or several partitions. [`Engine::metrics`] has the
    /// memtables, with the data that is in no table yet.
    pub fn map(&self) -> Vec<FamilyMap> {
        self.inner.reporter.map()
    }

    /// The background work that comes next, and why. Changes nothing.
    pub fn plan(&self) -> Plan {
        self.inner.reporter.plan()
    }

    /// Bytes of the region behind huge pages; see [`Region::huge_bytes`](thermocline_pm::Region::huge_bytes).
    pub fn pm_huge_bytes(&self) -> Option<u64> {
        self.inner.common.space.region().huge_bytes()
    }

    /// Decides now how reads of futures and of jobs reach the device, as the first of them would. A closed store decides nothing.
    pub fn decide_io(&self) {
        let common = &self.inner.common;
        if common.closed.load(Ordering::Acquire) {
            return;
        }
        let files = &common.catalog.table_files;
        files.async_reader().decide(common.options.read.async_io);
        if let Some(staged) = files.staged() {
            staged.decide_io();
        }
    }

    /// Which indexes tables have: reads the end of each that is not open.
    ///
    /// # Errors
    /// Those of reading; [`thermocline_base::Error::Closed`].
    pub fn table_indexes(&self) -> Result<TableIndexes> {
        let view = self.inner.common.catalog.view();
        // Nothing is opened once the store is closed.
        view.pins()?;
        view.tables.indexes()
    }

    /// The last flushes and compactions, oldest first, each with its family's name, if that exists. May wait for an edit of the manifest.
    pub fn jobs_done(&self) -> Vec<(Arc<JobDone>, Option<String>)> {
        let common = &self.inner.common;
        let jobs = Arc::clone(common.catalog.edits().state().jobs_done());
        let named = |job: &Arc<JobDone>| {
            let name = job.family.and_then(|cf| common.families.name_of(cf));
            (job.clone(), name)
        };
        jobs.iter().map(named).collect()
    }

    /// Reads all counters.
    pub fn metrics(&self) -> EngineMetrics {
        self.inner.reporter.metrics()
    }

    /// From now on the longest delay of each cause is one that comes later. Their number and sum go on.
    pub fn forget_longest_stalls(&self) {
        self.inner.common.stalls.forget_longest();
    }

    /// Where the times of operations go.
    #[inline]
    pub fn latencies(&self) -> &Latencies {
        &self.inner.common.latencies
    }

    /// The folder, as it was given to the opening.
    pub fn given_dir(&self) -> &Path {
        &self.inner.common.given
    }

    /// The options in force.
    pub fn options(&self) -> &thermocline_base::options::Options {
        &self.inner.common.options
    }
}

#[cfg(test)]
mod tests;
