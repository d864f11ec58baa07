//! Where the records of a memtable lie, and who keeps them there.
//!
//! A [`Home`] knows the chains of one memtable: how to read a record, and how to tell a sound one from a
//! damaged one. Whoever may read the memtable's records holds it: the memtable's own index, which leads to
//! all of them; each merged index that leads to some of them (`merge`); each value that is read in place. So
//! the memtable's persistent memory may be given back when nobody else holds its home, and nothing else
//! needs to be asked.

use std::sync::Arc;

use thermocline_art::{KeySource, Leaf};
use thermocline_base::sync::{AtomicU64, Ordering};
use thermocline_base::{CfId, Error, Kind, Line, Result, SeqNo};
use thermocline_pm::{LINE, PmOff, Region};
use thermocline_policy::tuning::TRANSLATED_BYTES;

use crate::blobs::BlobUse;
use crate::chain::Chain;
use crate::format::{RECORD_HEADER, RecordHeader, full_seqno, record_crc, seqno_low};
use crate::record::RecordRef;
use thermocline_base::blob_ref::BLOB_REF_LEN;

/// The records of one memtable. See the [module](self).
#[derive(Debug)]
pub struct Home {
    id: u64,
    region: Region,
    /// By base seqno, ascending. The first one's base is the lowest seqno of the memtable.
    chains: Vec<Chain>,
    /// What a record with that seqno stores of it.
    first: u32,
    /// Every write changes it, while every other one reads what is beside it.
    filled: Line<Filled>,
    /// Bytes of values that readers hold in place.
    pinned: AtomicU64,
    /// The blob files that its records refer to.
    blobs: BlobUse,
}

/// How much a memtable holds.
#[derive(Debug, Default)]
struct Filled {
    bytes: AtomicU64,
    records: AtomicU64,
}

impl Home {
    /// That of a memtable whose records lie in `chains`, in order of their bases.
    ///
    /// # Panics
    /// If there is no chain.
    pub(crate) fn new(region: Region, id: u64, chains: Vec<Chain>) -> Home {
        assert!(!chains.is_empty(), "a memtable begins with a chain");
        let first = match chains[0] {
            Chain { staged: true, .. } => 1,
            Chain { base, .. } => seqno_low(base),
        };
        Home {
            id,
            region,
            first,
            chains,
            filled: Line::default(),
            pinned: AtomicU64::new(0),
            blobs: BlobUse::default(),
        }
    }

    /// A staged chain is adopted: this is its number and its first seqno.
    pub(crate) fn adopt(&mut self, id: u64, base: SeqNo) {
        self.id = id;
        self.chains[0].base = base.0;
    }

    /// The seed of its first chain.
    pub(crate) fn seed(&self) -> u64 {
        self.chains[0].seed
    }

    /// The memtable's number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The lowest seqno that it may hold.
    pub fn base(&self) -> SeqNo {
        SeqNo(self.chains[0].base)
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
    pub(crate) fn count_item(&self, bytes: u64, records: u64) {
        let add = |to: &AtomicU64, n: u64| {
            let before = to.load(Ordering::Relaxed);
            to.store(before + n, Ordering::Relaxed);
        };
        add(&self.filled.bytes, bytes);
        add(&self.filled.records, records);
    }

    /// As [`Home::count_item`], beside others.
    pub(crate) fn count_item_beside(&self, bytes: u64, records: u64) {
        self.filled.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.filled.records.fetch_add(records, Ordering::Relaxed);
    }

    /// The region that its records lie in.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Counts `more` bytes of values that somebody holds in place, and `less` that nobody does any
    /// more. Whoever holds one holds this too.
    pub fn pinned(&self, more: u64, less: u64) {
        // Release: what was read of a value is over. Its partner is `pinned_bytes`.
        self.pinned
            .fetch_add(more.wrapping_sub(less), Ordering::Release);
    }

    /// Bytes of values that readers hold in place.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Acquire)
    }

    /// The blob files that its records refer to.
    pub fn blobs(&self) -> &BlobUse {
        &self.blobs
    }

    /// What the seqnos of its records count from.
    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            base: self.chains[0].base,
            first: self.first,
        }
    }

    /// What the checksum of the record with this seqno starts from.
    #[inline]
    pub(crate) fn seed_of(&self, seqno: u64) -> u64 {
        let after = self.chains.partition_point(|chain| chain.base <= seqno);
        self.chains[after.saturating_sub(1)].seed
    }

    /// The record at `at`, which is one of this memtable, with its checksum verified if `verify`.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset.
    pub fn record(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        let header = header(&self.region, at)?;
        if verify {
            self.region.prefetch_range(at, header.len());
        }
        self.record_behind(at, &header, verify)
    }

    /// As [`Home::record`], of a record that was asked for some time before.
    ///
    /// # Errors
    /// As [`Home::record`].
    #[inline]
    pub(crate) fn record_asked_for(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        let header = header(&self.region, at)?;
        self.record_behind(at, &header, verify)
    }

    #[inline]
    fn record_behind(
        &self,
        at: PmOff,
        header: &RecordHeader,
        verify: bool,
    ) -> Result<RecordRef<'_>> {
        let seqno = self.origin().seqno(header);
        let bytes = self.region.bytes(at, header.len())?;
        let seed = verify.then(|| self.seed_of(seqno.0));
        let record = record_of(&self.region, at, header, seqno, bytes, seed)?;
        if verify {
            self.region.check_media()?;
        }
        Ok(record)
    }
}

/// What the seqnos of a memtable's records count from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The lowest seqno of the memtable.
    base: u64,
    /// What a record with that seqno stores of it.
    first: u32,
}

impl Origin {
    #[inline]
    pub fn seqno(&self, header: &RecordHeader) -> SeqNo {
        SeqNo(full_seqno(self.base, self.first, header.seqno_low))
    }
}

/// The record with this header and these bytes, which lie at `at`, or lay there; verified if `seed` says what its
/// checksum starts from.
#[inline]
pub(crate) fn record_of<'b>(
    region: &Region,
    at: PmOff,
    header: &RecordHeader,
    seqno: SeqNo,
    bytes: &'b [u8],
    seed: Option<u64>,
) -> Result<RecordRef<'b>> {
    if let Some(seed) = seed {
        let crc = record_crc(seed, at.0, bytes);
        if crc != header.crc {
            let (expected, got) = (format!("{crc:#010x}"), format!("{:#010x}", header.crc));
            let what = "a record's checksum does not match";
            return Err(bad(region, at, what, expected, got));
        }
    }
    let kind = header.kind().ok_or_else(|| {
        let what = "a record is of no kind that there is";
        bad(region, at, what, "a record kind", "another number")
    })?;
    let (key, value) = bytes[RECORD_HEADER..].split_at(usize::from(header.key_len));
    if kind == Kind::PutBlob && value.len() != BLOB_REF_LEN {
        let expected = format!("a reference of {BLOB_REF_LEN} bytes");
        let what = "what a record refers to a blob file with is none";
        return Err(bad(region, at, what, expected, value.len()));
    }
    Ok(RecordRef {
        at,
        seqno,
        kind,
        key,
        value,
    })
}

/// A stretch of persistent memory with records of one memtable only: a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub from: PmOff,
    pub to: PmOff,
    /// Which of the homes.
    pub home: usize,
}

/// Reads the records that an index leads to. Its key source.
#[derive(Debug)]
pub(crate) struct Records {
    region: Region,
    homes: Homes,
}

#[derive(Debug)]
enum Homes {
    One(Arc<Home>),
    Several {
        /// By age, the oldest first.
        homes: Vec<Arc<Home>>,
        /// By place, ascending.
        spans: Vec<Span>,
    },
}

impl Records {
    /// Those of one memtable.
    pub fn of(home: Home) -> Records {
        Records {
            region: home.region.clone(),
            homes: Homes::One(Arc::new(home)),
        }
    }

    /// Those of several memtables, oldest first, which lie in `spans`.
    pub fn of_several(region: Region, homes: Vec<Arc<Home>>, mut spans: Vec<Span>) -> Records {
        spans.sort_unstable_by_key(|span| span.from);
        Records {
            region,
            homes: Homes::Several { homes, spans },
        }
    }

    pub fn region(&self) -> &Region {
        &self.region
    }

    /// All homes, oldest first. There is one at least.
    pub fn homes(&self) -> &[Arc<Home>] {
        match &self.homes {
            Homes::One(home) => std::slice::from_ref(home),
            Homes::Several { homes, .. } => homes,
        }
    }

    pub fn is_merged(&self) -> bool {
        matches!(self.homes, Homes::Several { .. })
    }

    /// The one home, if nobody else knows it yet.
    pub fn own_mut(&mut self) -> Option<&mut Home> {
        match &mut self.homes {
            Homes::One(home) => Arc::get_mut(home),
            Homes::Several { .. } => None,
        }
    }

    /// The home of the record at `at`.
    #[inline]
    pub fn home(&self, at: PmOff) -> Result<&Arc<Home>> {
        let (homes, spans) = match &self.homes {
            Homes::One(home) => return Ok(home),
            Homes::Several { homes, spans } => (homes, spans),
        };
        let behind = spans.partition_point(|span| span.from <= at);
        let span = behind.checked_sub(1).map(|i| spans[i]);
        match span.filter(|span| at < span.to) {
            Some(span) => Ok(&homes[span.home]),
            None => {
                let expected = "a zone of a memtable that was merged";
                let what = "a merged index leads to no record";
                Err(bad(&self.region, at, what, expected, "another place"))
            }
        }
    }

    /// The record at `at`, with its checksum verified if `verify`.
    #[inline]
    pub fn read(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        self.home(at)?.record(at, verify)
    }

    /// As [`Records::read`], of a record that was asked for some time before.
    #[inline]
    pub fn read_asked_for(&self, at: PmOff, verify: bool) -> Result<RecordRef<'_>> {
        self.home(at)?.record_asked_for(at, verify)
    }

    /// Asks for the header of the record at `at`.
    #[inline]
    pub fn prefetch_header(&self, at: PmOff) {
        self.region.prefetch_range(at, RECORD_HEADER);
    }

    /// As [`Records::prefetch_header`], and if a record with so many bytes of key and value goes on to the next page, for its first line
    /// there.
    #[inline]
    pub fn prefetch_pages(&self, at: PmOff, len: usize) {
        self.prefetch_header(at);
        let next = PmOff((at.0 + 1).next_multiple_of(TRANSLATED_BYTES));
        if next < at.plus((RECORD_HEADER + len) as u64) {
            self.region.prefetch(next);
        }
    }

    /// Asks for all of the record at `at`, whose header was asked for before.
    #[inline]
    pub fn prefetch_whole(&self, at: PmOff) {
        // Nothing that the header says is believed: what it asks for in error is never read.
        if let Ok(header) = header(&self.region, at) {
            self.region.prefetch_range(at, header.len());
        }
    }

    /// The family of the record at `at`.
    pub fn family(&self, at: PmOff) -> Result<CfId> {
        Ok(CfId(header(&self.region, at)?.cf))
    }

    pub fn at(leaf: Leaf) -> PmOff {
        PmOff(leaf.offset())
    }
}

impl KeySource for Records {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        let at = Records::at(leaf);
        let header = header(&self.region, at)?;
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

/// The same records, for who asks for each of them some time behind the walk over the index.
pub(crate) struct AskedLater<'a>(pub &'a Records);

impl KeySource for AskedLater<'_> {
    fn key(&self, leaf: Leaf) -> Result<&[u8]> {
        self.0.key(leaf)
    }

    fn ahead(&self) -> usize {
        1
    }

    fn check(&self, leaf: Leaf) -> Result<()> {
        self.0.check(leaf)
    }
}

#[inline]
fn header(region: &Region, at: PmOff) -> Result<RecordHeader> {
    Ok(RecordHeader::decode(region.bytes(at, RECORD_HEADER)?))
}

#[cold]
pub(crate) fn bad(
    region: &Region,
    at: PmOff,
    what: &str,
    expected: impl ToString,
    got: impl ToString,
) -> Error {
    let place = region.path().display().to_string();
    // A page that is gone reads as zeros: name the cause, not the symptom.
    let media = region.check_media().err();
    media.unwrap_or_else(|| Error::corruption(what, place, at.0, expected, got))
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use super::*;
    use crate::{Direction, fixture};

    /// Who reads without checksums is told of none.
    #[test]
    fn an_error_names_what_was_found_to_be_wrong() {
        let space = fixture::space(1 << 20, 256 << 10);
        let memtable = fixture::memtable(&space, 1, &[(0, b"key", 1, true)], &[]);
        let mut found = Vec::new();
        memtable
            .scan(
                CfId(0),
                Bound::Unbounded,
                Direction::Forward,
                SeqNo::MAX,
                10,
                &mut found,
            )
            .unwrap();
        let at = found[0].at;
        let says = |verify| memtable.record(at, verify).unwrap_err().to_string();
        // A kind that there is not.
        fixture::rot(space.region(), at.plus(15), &[0xf0]);
        assert!(says(true).contains("checksum"), "{}", says(true));
        let unverified = says(false);
        assert!(unverified.contains("of no kind"), "{unverified}");
        assert!(!unverified.contains("checksum"), "{unverified}");
    }
}
