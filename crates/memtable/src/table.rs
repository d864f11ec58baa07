//! A memtable generation: the records of a stretch of seqnos, and one index for each column family.

use std::sync::{Arc, OnceLock};

use thermocline_art::{Entry, KeySource, Leaf, NodeMemory, Slab, Tree};
use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{AtomicBool, AtomicU64, Ordering};
use thermocline_base::{CfId, Error, Kind, Line, Result, SeqNo};
use thermocline_pm::{LINE, PmOff, Region};

use crate::chain::Chain;
use crate::format::{RECORD_HEADER, RecordHeader, full_seqno, record_crc, seqno_low};
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
    /// The value; empty for a delete; of a range delete where it ends ([`Kind::RangeDelete`]).
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
}

impl Index {
    /// The range tombstones, if there has been one.
    #[inline]
    pub fn tombstones(&self) -> Option<&Tombstones> {
        Some(self.tombstones.get()?)
    }
}

/// One generation: its chains, and for each column family an index of its records.
#[derive(Debug)]
pub struct Memtable {
    generation: u64,
    records: Records,
    memory: Arc<Slab>,
    /// The DRAM of range tombstones.
    ledger: Arc<Ledger>,
    /// Index by column family, in two levels, so that looking one up takes no lock.
    indexes: Box<[OnceLock<IndexPage>]>,
    /// Every write changes it, while every other one reads what is beside it.
    filled: Line<Filled>,
    sealed: AtomicBool,
    retired: AtomicBool,
    /// Bytes of values that readers hold in place.
    pinned: AtomicU64,
}

/// How much a generation holds.
#[derive(Debug, Default)]
struct Filled {
    bytes: AtomicU64,
    records: AtomicU64,
}

/// Reads records of one generation. The key source of its indexes.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) region: Region,
    /// By base seqno, ascending. The first one's base is the lowest seqno of the generation.
    chains: Vec<Chain>,
    /// What a record with that seqno stores of it.
    origin: u32,
}

impl Records {
    fn header(&self, at: PmOff) -> Result<RecordHeader> {
        Ok(RecordHeader::decode(self.region.bytes(at, RECORD_HEADER)?))
    }

    /// The family of the record at `at`.
    pub(crate) fn family(&self, at: PmOff) -> Result<CfId> {
        Ok(CfId(self.header(at)?.cf))
    }

    fn seqno(&self, header: &RecordHeader) -> SeqNo {
        SeqNo(full_seqno(
            self.chains[0].base,
            self.origin,
            header.seqno_low,
        ))
    }

    /// The record at `at`, with its checksum verified if `verify`.
    pub(crate) fn read(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        let header = self.header(at)?;
        let seqno = self.seqno(&header);
        let bytes = self.region.bytes(at, header.len())?;
        if verify {
            self.verify(at, &header, seqno, bytes)?;
        }
        let kind = header
            .kind()
            .ok_or_else(|| self.bad(at, "a record kind", "another number"))?;
        let (key, value) = bytes[RECORD_HEADER..].split_at(usize::from(header.key_len));
        Ok(RecordRef {
            at,
            seqno,
            kind,
            key,
            value,
        })
    }

    fn verify(&self, at: PmOff, header: &RecordHeader, seqno: SeqNo, bytes: &[u8]) -> Result<()> {
        let after = self.chains.partition_point(|chain| chain.base <= seqno.0);
        let seed = self.chains[after.saturating_sub(1)].seed;
        let crc = record_crc(seed, at.0, bytes);
        if crc != header.crc {
            return Err(self.bad(at, format!("{crc:#010x}"), format!("{:#010x}", header.crc)));
        }
        self.region.check_media()
    }

    #[cold]
    fn bad(&self, at: PmOff, expected: impl ToString, got: impl ToString) -> Error {
        let place = self.region.path().display().to_string();
        // A page that is gone reads as zeros: name the cause, not the symptom.
        self.region.check_media().err().unwrap_or_else(|| {
            Error::corruption(
                "a record's checksum does not match",
                place,
                at.0,
                expected,
                got,
            )
        })
    }

    fn at(leaf: Leaf) -> PmOff {
        PmOff(leaf.offset())
    }
}

impl KeySource for Records {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        let at = Records::at(leaf);
        let header = self.header(at)?;
        let bytes = self.region.bytes(at, header.head_len())?;
        Ok(&bytes[RECORD_HEADER..])
    }

    fn prefetch(&self, leaf: Leaf) {
        let at = Records::at(leaf);
        // Behind an item's header a record begins near the end of a line: a small one spans three.
        self.region.prefetch(at);
        self.region.prefetch(at.plus(LINE));
        self.region.prefetch(at.plus(2 * LINE));
    }

    fn check(&self, leaf: Leaf) -> Result<()> {
        self.read(Records::at(leaf), true).map(drop)
    }
}

impl RecordRef<'_> {
    /// Where its value begins.
    pub fn value_at(&self) -> PmOff {
        self.at.plus((RECORD_HEADER + self.key.len()) as u64)
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
}

impl Memtable {
    /// An empty memtable whose records lie in `chains`, in order of their bases.
    ///
    /// # Panics
    /// If there is no chain.
    pub fn new(region: Region, generation: u64, chains: Vec<Chain>) -> Memtable {
        assert!(!chains.is_empty(), "a generation begins with a chain");
        let origin = match chains[0] {
            Chain { staged: true, .. } => 1,
            Chain { base, .. } => seqno_low(base),
        };
        Memtable {
            generation,
            records: Records {
                region,
                chains,
                origin,
            },
            memory: Arc::new(Slab::new()),
            ledger: Arc::default(),
            indexes: (0..PAGE).map(|_| OnceLock::new()).collect(),
            filled: Line::default(),
            sealed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            pinned: AtomicU64::new(0),
        }
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
        self.generation = generation;
        self.records.chains[0].base = base.0;
        for index in self.indexes.iter_mut().filter_map(OnceLock::get_mut) {
            let indexes = index.iter_mut().filter_map(OnceLock::get_mut);
            let tombstones = indexes.filter_map(|index| index.tombstones.get_mut());
            tombstones.for_each(|tombstones| tombstones.adopt(base));
        }
    }

    /// Its number.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The lowest seqno that it may hold.
    pub fn base(&self) -> SeqNo {
        SeqNo(self.records.chains[0].base)
    }

    /// Bytes of its items in persistent memory.
    pub fn bytes(&self) -> u64 {
        self.filled.bytes.load(Ordering::Relaxed)
    }

    /// Records in it, older versions and tombstones included.
    pub fn len(&self) -> u64 {
        self.filled.records.load(Ordering::Relaxed)
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts an item of `bytes` bytes with `records` records. One thread at a time may call this: no
    /// line is fetched for a locked instruction.
    pub fn count_item(&self, bytes: u64, records: u64) {
        let add = |to: &AtomicU64, n: u64| {
            let before = to.load(Ordering::Relaxed);
            to.store(before + n, Ordering::Relaxed);
        };
        add(&self.filled.bytes, bytes);
        add(&self.filled.records, records);
    }

    /// As [`Memtable::count_item`], beside others.
    pub(crate) fn count_item_beside(&self, bytes: u64, records: u64) {
        self.filled.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.filled.records.fetch_add(records, Ordering::Relaxed);
    }

    /// The region that its records lie in.
    pub fn region(&self) -> &Region {
        &self.records.region
    }

    /// Counts `more` bytes of values that somebody holds in place, and `less` that nobody does any
    /// more. Whoever holds one holds this memtable too.
    pub fn pinned(&self, more: u64, less: u64) {
        self.pinned
            .fetch_add(more.wrapping_sub(less), Ordering::Relaxed);
    }

    /// Bytes of values that readers hold in place.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
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

    fn index_or_new(&self, cf: CfId) -> &Index {
        let page = self.indexes[usize::from(cf.0) / PAGE]
            .get_or_init(|| (0..PAGE).map(|_| OnceLock::new()).collect());
        page[usize::from(cf.0) % PAGE].get_or_init(|| {
            Box::new(Index {
                tree: Tree::with_memory(self.memory.clone() as Arc<dyn NodeMemory>),
                tombstones: OnceLock::new(),
            })
        })
    }

    pub(crate) fn tree_or_new(&self, cf: CfId) -> &Tree {
        &self.index_or_new(cf).tree
    }

    pub(crate) fn tombstones_or_new(&self, cf: CfId) -> &Tombstones {
        let slot = &self.index_or_new(cf).tombstones;
        if slot.get().is_none() {
            let seed = self.records.chains[0].seed;
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
        let found = {
            let guard = index.tree.pin();
            match index.tree.get(&guard, key, &self.records)? {
                Some(entry) => self.resolve_latest(entry, visible, verify)?.0,
                None => Lookup::Absent,
            }
        };
        // Behind `visible`: see `tombstones`, invariant 3.
        match index.tombstones() {
            None => Ok(found),
            Some(tombstones) => self.latest_under(index, tombstones, key, visible, verify),
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
            let list = tombstones.list();
            let guard = index.tree.pin();
            let (found, seqno) = match index.tree.get(&guard, key, &self.records)? {
                Some(entry) => self.resolve_latest(entry, visible, verify)?,
                None => (Lookup::Absent, SeqNo(visible.load(Ordering::Acquire))),
            };
            if tombstones.is_still(&list) || active(Bug::StaleTombstones) {
                return Ok(found.under(tombstones.newest_over(&list, key, seqno)));
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

    /// The record at an offset that a scan returned, its checksum verified if `verify`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset.
    pub fn record(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        self.records.read(at, verify)
    }
}
