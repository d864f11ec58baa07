//! A memtable: the records of a stretch of seqnos, and one index for each column family.

use std::sync::Arc;

use thermocline_art::{Leaf, Reckoning, Tree};
use thermocline_base::budget::Account;
use thermocline_base::sync::{AtomicBool, Ordering};
use thermocline_base::{CfId, Error, Kind, Result, SeqNo};
use thermocline_pm::{PmOff, Region};
use thermocline_policy::tuning::{NODES_WAITING_MIN, NODES_WAITING_PARTS};

use crate::chain::Chain;
use crate::format::RECORD_HEADER;
use crate::gaps::{GapList, Gaps};
use crate::home::{Home, Records};
use crate::indexes::{Index, Indexes};
use crate::record::RecordRef;
use crate::tombstones::{self, Cover, Tombstones};

/// A memtable, or a merged index, which leads to the records of several (`merge`): where the records
/// lie, and for each column family an index of them.
#[derive(Debug)]
pub struct Memtable {
    records: Records,
    indexes: Indexes,
    sealed: AtomicBool,
    retired: AtomicBool,
}

impl Memtable {
    /// An empty memtable whose records lie in `chains`, in order of their bases.
    ///
    /// # Panics
    /// If there is no chain.
    pub fn new(region: Region, id: u64, chains: Vec<Chain>) -> Memtable {
        Memtable::with_records(Records::of(Home::new(region, id, chains)))
    }

    /// An empty index that will lead to these records.
    pub(crate) fn with_records(records: Records) -> Memtable {
        Memtable {
            records,
            indexes: Indexes::default(),
            sealed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        }
    }

    /// Its index leads to these records: fewer than it was made with.
    pub(crate) fn lead_to(&mut self, records: Records) {
        self.records = records;
    }

    /// The memtable, still empty, with memory of its indexes that counts in `account`.
    pub fn charged_to(mut self, account: &Arc<Account>) -> Memtable {
        self.indexes.charge_to(account);
        self
    }

    /// A staged chain is adopted: this is its number and its first seqno. Nobody else has the memtable
    /// yet.
    pub(crate) fn adopt(&mut self, id: u64, base: SeqNo) {
        let home = self.records.own_mut();
        home.expect("nobody else has it").adopt(id, base);
        self.indexes.adopt(base);
    }

    /// The memtable's number; of a merged index that of the newest memtable that it leads to.
    pub fn id(&self) -> u64 {
        self.homes().last().map_or(0, |home| home.id())
    }

    /// The homes of the memtables that its index leads to, oldest first; there is one at least.
    pub fn homes(&self) -> &[Arc<Home>] {
        self.records.homes()
    }

    /// The home of the record at an offset that a lookup or scan returned.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is none.
    pub fn home_of(&self, at: PmOff) -> Result<&Arc<Home>> {
        self.records.home(at)
    }

    /// Whether it is a merged index.
    pub fn is_merged(&self) -> bool {
        self.records.is_merged()
    }

    /// The lowest seqno that it may hold.
    pub fn base(&self) -> SeqNo {
        self.homes().first().map_or(SeqNo(0), |home| home.base())
    }

    /// Bytes of its items in persistent memory.
    pub fn bytes(&self) -> u64 {
        self.homes().iter().map(|home| home.bytes()).sum()
    }

    /// Bytes of values in blob files that its records refer to.
    pub fn blob_bytes(&self) -> u64 {
        self.homes().iter().map(|home| home.blobs().bytes()).sum()
    }

    /// Records in it, older versions and tombstones included.
    pub fn len(&self) -> u64 {
        self.homes().iter().map(|home| home.len()).sum()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys in its indexes. Exact while nobody inserts.
    pub fn keys(&self) -> u64 {
        self.indexes
            .from(CfId(0))
            .map(|(_, index)| index.tree.len())
            .sum()
    }

    /// Keys of a family in its indexes. Exact while nobody inserts.
    pub fn keys_of(&self, cf: CfId) -> u64 {
        let own = self.indexes.from(cf).next().filter(|(id, _)| *id == cf);
        own.map_or(0, |(_, index)| index.tree.len())
    }

    /// Bytes of a key; no record of a family that its indexes have led to has a longer one. Of the ends of range tombstones it
    /// says nothing.
    pub fn longest_key(&self, cf: CfId) -> usize {
        self.index(cf).map_or(0, Index::longest_key)
    }

    /// Whether it has had a range tombstone.
    pub fn has_tombstones(&self) -> bool {
        let mut indexes = self.indexes.from(CfId(0));
        indexes.any(|(_, index)| index.tombstones().is_some())
    }

    /// Whether it has had an operand.
    pub fn has_operands(&self) -> bool {
        let mut indexes = self.indexes.from(CfId(0));
        indexes.any(|(_, index)| index.has_operands())
    }

    /// Counts an item of `bytes` bytes with `records` records. One thread at a time may call this: no
    /// line is fetched for a locked instruction.
    pub fn count_item(&self, bytes: u64, records: u64) {
        self.homes()[0].count_item(bytes, records);
    }

    /// As [`Memtable::count_item`], beside others.
    pub(crate) fn count_item_beside(&self, bytes: u64, records: u64) {
        self.homes()[0].count_item_beside(bytes, records);
    }

    /// The region that its records lie in.
    pub fn region(&self) -> &Region {
        self.records.region()
    }

    /// Whether it takes no more writes.
    pub fn is_sealed(&self) -> bool {
        self.sealed.load(Ordering::Acquire)
    }

    /// Whether nothing in it is needed any more: it stays only for those who hold it.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// Asks whoever holds it to let it go.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Marks it as taking no more writes.
    pub fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// DRAM of its indexes in bytes, free blocks included.
    pub fn index_bytes(&self) -> u64 {
        self.indexes.bytes()
    }

    /// Waits until few nodes that were replaced are still in memory. The caller holds no guard.
    pub(crate) fn settle(&self) {
        while self.indexes.collect() > self.waiting_max() {
            // Somebody was interrupted while he held a guard.
            std::thread::yield_now();
        }
    }

    /// Bytes of replaced nodes that are few.
    pub(crate) fn waiting_max(&self) -> u64 {
        NODES_WAITING_MIN + self.index_bytes() / NODES_WAITING_PARTS
    }

    /// Most DRAM in bytes that `updates` more writes into family `cf` may take, range tombstones apart.
    pub fn reserve_bound(&self, cf: CfId, updates: u64, readers: Option<usize>) -> u64 {
        self.reckoned(Reckoning::new(0, readers), [(cf, updates)])
    }

    /// Most DRAM in bytes that writes may take together, range tombstones apart: so many into each of these families,
    /// and what `reckoning` has of writes that may be into any of them.
    pub fn reckoned(
        &self,
        mut reckoning: Reckoning,
        writes: impl IntoIterator<Item = (CfId, u64)>,
    ) -> u64 {
        for (cf, updates) in writes {
            reckoning.add(self.tree_or_new(cf), updates);
        }
        reckoning.bytes(self.indexes.memory())
    }

    /// Most DRAM in bytes that `count` more range tombstones may take, whose keys have `key_bytes` bytes
    /// together; 0 for none. `readers` as for [`Memtable::reserve_bound`].
    pub fn tombstones_bound(&self, count: u64, key_bytes: u64, readers: usize) -> u64 {
        tombstones::bound(self.indexes.ledger(), count, key_bytes, readers)
    }

    /// Takes as much DRAM for range tombstones that a write under way will add: until
    /// [`Memtable::tombstones_added`] says that it has.
    ///
    /// # Errors
    /// Those of [`Account::take`]: none, once the store is open.
    pub fn promise_tombstones(&self, bytes: u64) -> Result<()> {
        self.indexes.ledger().promise(bytes)
    }

    /// A write that `bytes` were promised to has added its range tombstones.
    pub fn tombstones_added(&self, bytes: u64) {
        self.indexes.ledger().fulfil(bytes);
    }

    /// Whose DRAM it takes, if it is in a store.
    pub(crate) fn account(&self) -> Option<&Arc<Account>> {
        self.indexes.ledger().account()
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn index(&self, cf: CfId) -> Option<&Index> {
        self.indexes.get(cf)
    }

    pub(crate) fn index_or_new(&self, cf: CfId) -> &Index {
        self.indexes.get_or_new(cf)
    }

    /// The indexes that there are, by family, from `cf` on.
    pub(crate) fn indexes_from(&self, cf: CfId) -> impl Iterator<Item = (CfId, &Index)> {
        self.indexes.from(cf)
    }

    pub(crate) fn tree_or_new(&self, cf: CfId) -> &Tree {
        &self.index_or_new(cf).tree
    }

    pub(crate) fn tombstones_or_new(&self, cf: CfId) -> &Tombstones {
        self.indexes.tombstones_or_new(cf, self.homes()[0].seed())
    }

    /// The gaps of family `cf`, for a cursor that knows at which moment it reads; `None` if there
    /// are none.
    pub fn gaps(&self, cf: CfId) -> Option<Arc<GapList>> {
        self.index(cf)?.gaps()?.list()
    }

    /// Notes that a cursor at `seen` has found nothing visible in family `cf` from `start` up to
    /// `end`. The caller holds the writer's lock; this is the memtable that takes the writes, and
    /// `granted` the last seqno that was given out. Where there is no DRAM for it nothing is noted.
    pub fn note_gap(&self, cf: CfId, range: (&[u8], &[u8]), seen: SeqNo, granted: SeqNo) {
        if Gaps::takes(range) {
            let index = self.index_or_new(cf);
            let gaps = index.gaps_or_new(self.account());
            gaps.note(range, seen, granted);
        }
    }

    /// The range tombstones of family `cf` that a reader at `seqno` sees, who is registered or sees all
    /// that is visible; `None` if there are none.
    pub fn cover(&self, cf: CfId, seqno: SeqNo) -> Option<Cover> {
        self.indexes.get(cf)?.tombstones()?.as_of(seqno)
    }

    /// The newest range tombstone of family `cf`, visible or not.
    pub fn newest_tombstone(&self, cf: CfId) -> Option<SeqNo> {
        self.indexes.get(cf)?.tombstones()?.newest()
    }

    /// The range tombstones of family `cf` as of each moment that is kept, from the oldest one on. Each
    /// of a sealed memtable that somebody may still be answered with is in one of them.
    pub fn covers(&self, cf: CfId) -> Vec<Cover> {
        let tombstones = self.indexes.get(cf).and_then(Index::tombstones);
        tombstones.map(Tombstones::versions).unwrap_or_default()
    }

    /// The record of a leaf, its checksum verified.
    pub(crate) fn leaf_record(&self, leaf: Leaf) -> Result<RecordRef<'_>> {
        self.records.read(Records::at(leaf), true)
    }

    /// Checks the record at `at`: its checksum, and if it is a range tombstone, that it ends behind its start.
    /// Returns it.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset.
    pub fn checked_record(&self, at: PmOff) -> Result<RecordRef<'_>> {
        let record = self.records.read(at, true)?;
        let ends = record.value.is_empty() || record.value > record.key;
        if record.kind == Kind::RangeDelete && !ends {
            return Err(Error::corruption(
                "a range tombstone ends before it begins",
                self.region().path().display().to_string(),
                at.0,
                "an end behind its start",
                "one that is not",
            ));
        }
        Ok(record)
    }

    /// The family of the record at an offset that a scan returned.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is none.
    pub fn family_of(&self, at: PmOff) -> Result<CfId> {
        self.records.family(at)
    }

    /// Asks the CPU to load the header of the record at an offset that a scan returned: a hint, some records before
    /// [`Memtable::prefetch`] is called for it.
    #[inline]
    pub fn prefetch_header(&self, at: PmOff) {
        self.records.prefetch_header(at);
    }

    /// As [`Memtable::prefetch_header`], and if a record with `len` bytes of key and value goes on to the next page, for its first line there:
    /// the address of that page is to be translated, too.
    #[inline]
    pub fn prefetch_pages(&self, at: PmOff, len: usize) {
        self.records.prefetch_pages(at, len);
    }

    /// Asks the CPU to load the whole record at an offset that a scan returned: a hint, some records before it is read.
    /// Its header is read here.
    #[inline]
    pub fn prefetch(&self, at: PmOff) {
        self.records.prefetch_whole(at);
    }

    /// The record at an offset that a scan returned, its checksum verified if `verify`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset.
    pub fn record(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        self.records.read(at, verify)
    }

    /// As [`Memtable::record`], of a record for which [`Memtable::prefetch`] was called some time before.
    ///
    /// # Errors
    /// As [`Memtable::record`].
    #[inline]
    pub fn record_asked_for(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        self.records.read_asked_for(at, verify)
    }

    /// Key and value of the record at `at`, which have so many bytes, as [`Memtable::record`] has told: nothing else is read.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the region has no such bytes.
    #[inline]
    pub fn key_and_value_at(
        &self,
        at: PmOff,
        (key_len, value_len): (usize, usize),
    ) -> Result<(&[u8], &[u8])> {
        let at = at.plus(RECORD_HEADER as u64);
        let bytes = self.region().bytes(at, key_len + value_len)?;
        Ok(bytes.split_at(key_len))
    }

    /// The key of the record at `at`, which has `len` bytes, as [`Memtable::record`] has told: nothing else is read.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the region has no such bytes.
    #[inline]
    pub fn key_at(&self, at: PmOff, len: usize) -> Result<&[u8]> {
        self.region().bytes(at.plus(RECORD_HEADER as u64), len)
    }
}
