//! A memtable generation: the records of a stretch of seqnos, and one index for each column family.

use std::sync::{Arc, OnceLock};

use thermocline_art::{Entry, Leaf, NodeMemory, Slab, Tree};
use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{AtomicBool, AtomicU64, Ordering};
use thermocline_base::{BlobRef, CfId, Error, Kind, Result, SeqNo};
use thermocline_pm::{PmOff, Region};

use crate::chain::Chain;
use crate::format::{RECORD_HEADER, decode_blob_ref};
use crate::gaps::Gaps;
use crate::home::{Home, Records};
use crate::tombstones::{self, Cover, Ledger, Tombstones};

/// A record where it lies.
#[derive(Debug, Clone, Copy)]
pub struct RecordRef<'a> {
    /// Where it begins.
    pub at: PmOff,
    /// Its place in the order of writes.
    pub seqno: SeqNo,
    /// What it says of the key.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// The value; empty for a delete; of a range delete where it ends ([`Kind::RangeDelete`]); of a
    /// [`Kind::PutBlob`] where it lies, as [`RecordRef::blob`] reads it.
    pub value: &'a [u8],
}

/// What a memtable knows of a key.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// Nothing that the reader may see: ask older data.
    Absent,
    /// A put or a delete: the answer.
    Record(RecordRef<'a>),
    /// A range tombstone that is newer than any version here: the key has no value.
    Covered,
}

const PAGE: usize = 256;
/// Indexes are boxed: most families of a page have none.
type IndexPage = Box<[OnceLock<Box<Index>>]>;

/// What a generation has of one family.
#[derive(Debug)]
pub(crate) struct Index {
    pub tree: Tree,
    tombstones: OnceLock<Box<Tombstones>>,
    gaps: OnceLock<Box<Gaps>>,
}

impl Index {
    /// The range tombstones, if there has been one.
    #[inline]
    pub fn tombstones(&self) -> Option<&Tombstones> {
        Some(self.tombstones.get()?)
    }

    /// The gaps, if there has been one.
    #[inline]
    pub fn gaps(&self) -> Option<&Gaps> {
        Some(self.gaps.get()?)
    }

    /// As [`Index::gaps`], made where there are none, unless that fails. One thread at a time calls this.
    pub fn gaps_or(&self, make: impl FnOnce() -> Option<Gaps>) -> Option<&Gaps> {
        if self.gaps.get().is_none() {
            let _ = self.gaps.set(Box::new(make()?));
        }
        self.gaps()
    }
}

/// One generation, or several whose indexes were merged (`merge`): where the records lie, and for each
/// column family an index of them.
#[derive(Debug)]
pub struct Memtable {
    records: Records,
    memory: Arc<Slab>,
    /// The DRAM of range tombstones.
    ledger: Arc<Ledger>,
    /// Index by column family, in two levels, so that looking one up takes no lock.
    indexes: Box<[OnceLock<IndexPage>]>,
    sealed: AtomicBool,
    retired: AtomicBool,
}

impl RecordRef<'_> {
    /// Where its value begins.
    pub fn value_at(&self) -> PmOff {
        self.at.plus((RECORD_HEADER + self.key.len()) as u64)
    }

    /// Where its value lies in a blob file, if it lies there.
    pub fn blob(&self) -> Option<BlobRef> {
        match self.kind {
            Kind::PutBlob => decode_blob_ref(self.value),
            _ => None,
        }
    }
}

impl<'a> Lookup<'a> {
    /// What it is under the newest range tombstone over the key.
    fn under(self, newest: Option<SeqNo>) -> Lookup<'a> {
        match (&self, newest) {
            (_, None) => self,
            (Lookup::Record(record), Some(newest)) if record.seqno > newest => self,
            _ => Lookup::Covered,
        }
    }

    /// Whether what decided it is no newer than `before`: the record, or the `newest` range tombstone that
    /// covers the key.
    #[inline]
    fn is_of(&self, before: SeqNo, newest: Option<SeqNo>) -> bool {
        let decided = match self {
            Lookup::Absent => None,
            Lookup::Record(record) => Some(record.seqno),
            Lookup::Covered => newest,
        };
        decided.is_none_or(|decided| decided <= before) || active(Bug::HalfSeen)
    }
}

impl Memtable {
    /// An empty memtable whose records lie in `chains`, in order of their bases.
    ///
    /// # Panics
    /// If there is no chain.
    pub fn new(region: Region, generation: u64, chains: Vec<Chain>) -> Memtable {
        Memtable::with_records(Records::of(Home::new(region, generation, chains)))
    }

    /// An empty index that will lead to these records.
    pub(crate) fn with_records(records: Records) -> Memtable {
        Memtable {
            records,
            memory: Arc::new(Slab::new()),
            ledger: Arc::default(),
            indexes: (0..PAGE).map(|_| OnceLock::new()).collect(),
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
        self.memory = Arc::new(Slab::charged_to(account.clone()));
        self.ledger = Ledger::charged_to(account);
        self
    }

    /// A staged chain is adopted: this is its number and its first seqno. Nobody else has the memtable
    /// yet.
    pub(crate) fn adopt(&mut self, generation: u64, base: SeqNo) {
        let home = self.records.own_mut();
        home.expect("nobody else has it").adopt(generation, base);
        for index in self.indexes.iter_mut().filter_map(OnceLock::get_mut) {
            let indexes = index.iter_mut().filter_map(OnceLock::get_mut);
            let tombstones = indexes.filter_map(|index| index.tombstones.get_mut());
            tombstones.for_each(|tombstones| tombstones.adopt(base));
        }
    }

    /// The number of its generation; of several that of the newest.
    pub fn generation(&self) -> u64 {
        self.homes().last().map_or(0, |home| home.generation())
    }

    /// The generations that its index leads to, oldest first; there is one at least.
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
        self.indexes_from(CfId(0))
            .map(|(_, index)| index.tree.len())
            .sum()
    }

    /// Keys of a family in its indexes. Exact while nobody inserts.
    pub fn keys_of(&self, cf: CfId) -> u64 {
        let own = self.indexes_from(cf).next().filter(|(id, _)| *id == cf);
        own.map_or(0, |(_, index)| index.tree.len())
    }

    /// Whether it has had a range tombstone.
    pub fn has_tombstones(&self) -> bool {
        let mut indexes = self.indexes_from(CfId(0));
        indexes.any(|(_, index)| index.tombstones().is_some())
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
        self.memory.usage().reserved_bytes + self.ledger.held()
    }

    /// Most DRAM in bytes that `updates` more writes into family `cf` may take, range tombstones apart.
    pub fn reserve_bound(&self, cf: CfId, updates: u64, readers: Option<usize>) -> u64 {
        self.index_or_new(cf).tree.reserve_bound(updates, readers)
    }

    /// Most DRAM in bytes that `count` more range tombstones may take, whose keys have `key_bytes` bytes
    /// together; 0 for none. `readers` as for [`Memtable::reserve_bound`].
    pub fn tombstones_bound(&self, count: u64, key_bytes: u64, readers: usize) -> u64 {
        tombstones::bound(&self.ledger, count, key_bytes, readers)
    }

    /// Takes as much DRAM for range tombstones that a write under way will add: until
    /// [`Memtable::tombstones_added`] says that it has.
    ///
    /// # Errors
    /// Those of [`Account::take`]: none, once the store is open.
    pub fn promise_tombstones(&self, bytes: u64) -> Result<()> {
        self.ledger.promise(bytes)
    }

    /// A write that `bytes` were promised to has added its range tombstones.
    pub fn tombstones_added(&self, bytes: u64) {
        self.ledger.fulfil(bytes);
    }

    /// Whose DRAM it takes, if it is in a store.
    pub(crate) fn account(&self) -> Option<&Arc<Account>> {
        self.ledger.account()
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    pub(crate) fn index(&self, cf: CfId) -> Option<&Index> {
        let page = self.indexes[usize::from(cf.0) / PAGE].get()?;
        Some(page[usize::from(cf.0) % PAGE].get()?)
    }

    pub(crate) fn tree(&self, cf: CfId) -> Option<&Tree> {
        Some(&self.index(cf)?.tree)
    }

    /// The indexes that there are, by family, from `cf` on.
    pub(crate) fn indexes_from(&self, cf: CfId) -> impl Iterator<Item = (CfId, &Index)> {
        let used = self.indexes.iter().zip(0usize..);
        let pages = used.filter_map(|(page, p)| Some((page.get()?, p * PAGE)));
        let all = pages.flat_map(|(page, first)| page.iter().zip(first..));
        let made = all.filter_map(|(index, id)| Some((u16::try_from(id).ok()?, index.get()?)));
        made.map(|(id, index)| (CfId(id), &**index))
            .skip_while(move |(id, _)| *id < cf)
    }

    pub(crate) fn index_or_new(&self, cf: CfId) -> &Index {
        let page = self.indexes[usize::from(cf.0) / PAGE]
            .get_or_init(|| (0..PAGE).map(|_| OnceLock::new()).collect());
        page[usize::from(cf.0) % PAGE].get_or_init(|| {
            Box::new(Index {
                tree: Tree::with_memory(self.memory.clone() as Arc<dyn NodeMemory>),
                tombstones: OnceLock::new(),
                gaps: OnceLock::new(),
            })
        })
    }

    pub(crate) fn tree_or_new(&self, cf: CfId) -> &Tree {
        &self.index_or_new(cf).tree
    }

    pub(crate) fn tombstones_or_new(&self, cf: CfId) -> &Tombstones {
        let slot = &self.index_or_new(cf).tombstones;
        if slot.get().is_none() {
            let seed = self.homes()[0].seed();
            // Made before the slot is locked, since it counts its memory: what counts may be where a
            // test's scheduler goes over to another thread. Whoever came first stays.
            let _ = slot.set(Box::new(Tombstones::new(self.ledger.clone(), seed)));
        }
        slot.get().expect("it is set")
    }

    /// What a reader at `seqno` sees of `key`: the newest record, or that a range tombstone is newer.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the record, or the one that may be the key's, is damaged.
    pub fn get(&self, cf: CfId, key: &[u8], seqno: SeqNo, verify: bool) -> Result<Lookup<'_>> {
        let Some(index) = self.index(cf) else {
            return Ok(Lookup::Absent);
        };
        let guard = index.tree.pin();
        let found = match index.tree.get(&guard, key, &self.records)? {
            Some(entry) => self.resolve(entry, seqno, verify)?,
            None => Lookup::Absent,
        };
        Ok(match index.tombstones() {
            None => found,
            Some(tombstones) => found.under(tombstones.newest_over(&tombstones.list(), key, seqno)),
        })
    }

    /// As [`Memtable::get`], for a reader that takes whatever is visible and is not registered.
    ///
    /// It asks what is visible before and after it reads the key's entry. After: see
    /// [`Memtable::resolve_latest`]. Before: all that was visible then is in the entry, so an answer from
    /// there is the one that the key had at that moment. What became visible since may be in the entry in
    /// part: the first of two writes that a batch has for the key, and not the second. So whoever finds
    /// such a version reads again; that is once for each time that the key itself was written meanwhile.
    /// An entry that has nothing to be seen had nothing at that moment either.
    ///
    /// # Errors
    /// As [`Memtable::get`].
    pub fn get_latest(
        &self,
        cf: CfId,
        key: &[u8],
        visible: &AtomicU64,
        verify: bool,
    ) -> Result<Lookup<'_>> {
        let Some(index) = self.index(cf) else {
            return Ok(Lookup::Absent);
        };
        loop {
            let before = SeqNo(visible.load(Ordering::Acquire));
            let found = {
                let guard = index.tree.pin();
                match index.tree.get(&guard, key, &self.records)? {
                    Some(entry) => self.resolve_latest(entry, visible, verify)?.0,
                    None => Lookup::Absent,
                }
            };
            // Behind `visible`: see `tombstones`, invariant 3.
            if let Some(tombstones) = index.tombstones() {
                return self.latest_under(index, tombstones, key, visible, verify);
            }
            if found.is_of(before, None) {
                return Ok(found);
            }
        }
    }

    /// As [`Memtable::get_latest`], in a family that has range tombstones here.
    #[cold]
    fn latest_under(
        &self,
        index: &Index,
        tombstones: &Tombstones,
        key: &[u8],
        visible: &AtomicU64,
        verify: bool,
    ) -> Result<Lookup<'_>> {
        loop {
            let before = SeqNo(visible.load(Ordering::Acquire));
            let list = tombstones.list();
            let guard = index.tree.pin();
            let (found, seqno) = match index.tree.get(&guard, key, &self.records)? {
                Some(entry) => self.resolve_latest(entry, visible, verify)?,
                None => (Lookup::Absent, SeqNo(visible.load(Ordering::Acquire))),
            };
            let newest = tombstones.newest_over(&list, key, seqno);
            let found = found.under(newest);
            if found.is_of(before, newest) {
                return Ok(found);
            }
        }
    }

    /// The range tombstones of family `cf` that a reader at `seqno` sees, who is registered or sees all
    /// that is visible; `None` if there are none.
    pub fn cover(&self, cf: CfId, seqno: SeqNo) -> Option<Cover> {
        self.index(cf)?.tombstones()?.as_of(seqno)
    }

    /// The range tombstones of family `cf` as of each moment that is kept, from the oldest one on. Each
    /// of a sealed generation that somebody may still be answered with is in one of them.
    pub fn covers(&self, cf: CfId) -> Vec<Cover> {
        let tombstones = self.index(cf).and_then(Index::tombstones);
        tombstones.map(Tombstones::versions).unwrap_or_default()
    }

    /// As [`Memtable::resolve`] at what is visible, and what that is.
    #[inline]
    fn resolve_latest(
        &self,
        entry: Entry<'_>,
        visible: &AtomicU64,
        verify: bool,
    ) -> Result<(Lookup<'_>, SeqNo)> {
        // After the entry was read, not before. Writers keep, of each key, what is visible when
        // they write and what registered readers see; we are not registered, so by a `visible` that
        // is older than the entry we could get what was kept for an iterator, long outdated.
        // Partner: the release store after the last index insert of a group.
        let seqno = SeqNo(visible.load(Ordering::Acquire));
        Ok((self.resolve(entry, seqno, verify)?, seqno))
    }

    fn resolve(&self, entry: Entry<'_>, seqno: SeqNo, verify: bool) -> Result<Lookup<'_>> {
        let Some(leaf) = entry.at(seqno) else {
            return Ok(Lookup::Absent);
        };
        let record = self.records.read(Records::at(leaf), verify)?;
        Ok(if record.seqno <= seqno {
            Lookup::Record(record)
        } else {
            Lookup::Absent
        })
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

    /// The record at an offset that a scan returned, its checksum verified if `verify`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset.
    pub fn record(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        self.records.read(at, verify)
    }
}
