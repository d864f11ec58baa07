//! A table that is open, and parts of it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use thermocline_base::numbers::len_of;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::sync::{AtomicU64, Ordering};
use thermocline_base::{
    CfId, Error, KeyLimits, PmTableMeta, RangeTombstone, RangeTombstones, Result, SeqNo,
};
use thermocline_halloc::Zone;
use thermocline_pm::{PmOff, Region};

use crate::format::header::{Header, Refused, Totals};
use crate::format::runs::RunHead;
use crate::format::{HEADER_LEN, TOMBSTONES_LEN_MAX, crc_at};
use crate::identity::TableIdentity;
use crate::meta::bytes_of;
use crate::tombstones::head;

/// A table that is open. Immutable; shared as `Arc<PmTable>`. Whoever holds it, a cursor, or a value that
/// was read, keeps its zones from being used again: they are the caller's to release, once nobody does.
pub struct PmTable {
    region: Region,
    identity: TableIdentity,
    meta: PmTableMeta,
    pub(crate) pieces: Vec<Piece>,
    /// Of all pieces, in order.
    pub(crate) runs: Vec<Run>,
    /// By family.
    tombstones: Vec<(CfId, RangeTombstones)>,
    /// Bytes of values that somebody holds in place.
    pinned: AtomicU64,
}

/// One zone's worth of a table.
#[derive(Debug)]
pub(crate) struct Piece {
    pub base: PmOff,
    pub seed: u64,
    pub header: Header,
    /// Its runs among those of the table.
    pub runs: Range<usize>,
}

/// A run: groups of one family whose first keys begin alike. Its copy in DRAM was verified.
#[derive(Debug)]
pub(crate) struct Run {
    pub cf: CfId,
    pub piece: usize,
    pub prefix_len: usize,
    pub groups: u32,
    /// Where its array begins in the piece.
    pub array: u32,
    pub separator_seqno: SeqNo,
    /// What the keys share, then the separator.
    keys: Box<[u8]>,
    shared: u8,
}

impl Run {
    pub fn shared(&self) -> &[u8] {
        &self.keys[..usize::from(self.shared)]
    }

    pub fn separator(&self) -> &[u8] {
        &self.keys[usize::from(self.shared)..]
    }

    /// Whether the run's entries, and all before, lie before version `seqno` of `key`, or begin with it.
    pub fn is_from(&self, cf: CfId, key: &[u8], seqno: SeqNo) -> bool {
        let own = (self.cf, self.separator(), SeqNo(!self.separator_seqno.0));
        own <= (cf, key, SeqNo(!seqno.0))
    }
}

impl fmt::Debug for PmTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PmTable")
            .field("meta", &self.meta)
            .finish_non_exhaustive()
    }
}

impl PmTable {
    /// Opens the table of the database `db_id` that `meta` describes, whose zones `zones` are, in any order. Reads one header and
    /// the meta layer of each piece, and the range tombstones; nothing is built from entries.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset if that is not the table;
    /// [`Error::Unsupported`] if a newer version wrote it.
    pub fn open(
        region: &Region,
        db_id: [u8; 16],
        meta: PmTableMeta,
        zones: &[Zone],
    ) -> Result<Arc<PmTable>> {
        let mut zones: Vec<&Zone> = zones.iter().collect();
        zones.sort_unstable_by_key(|zone| zone.ordinal);
        let mut table = PmTable {
            region: region.clone(),
            identity: TableIdentity::new(db_id, meta.owner),
            pieces: Vec::with_capacity(zones.len()),
            runs: Vec::new(),
            tombstones: Vec::new(),
            pinned: AtomicU64::new(0),
            meta,
        };
        table.check_zones(&zones)?;
        for (n, zone) in zones.iter().enumerate() {
            table.open_piece(n, zone)?;
        }
        let last = table.pieces.last().expect("there is one zone at least");
        let Some(totals) = last.header.table else {
            let at = last.base.plus(52);
            return Err(table.damaged("the last piece", at, "a piece that is the last", "another"));
        };
        table.tombstones = table.read_tombstones()?;
        table.check_totals(&totals)?;
        region.check_media()?;
        Ok(Arc::new(table))
    }

    /// Counts `more` bytes of values that somebody holds in place, and `less` that nobody does any more.
    /// Whoever holds one holds this too.
    pub fn pinned(&self, more: u64, less: u64) {
        // Release: what was read of a value is over. Its partner is `pinned_bytes`.
        self.pinned
            .fetch_add(more.wrapping_sub(less), Ordering::Release);
    }

    /// Bytes of values that somebody holds in place.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.load(Ordering::Acquire)
    }

    fn check_zones(&self, zones: &[&Zone]) -> Result<()> {
        let (expected, bytes) = (len_of(self.meta.zones), self.meta.zone_bytes);
        let found: u64 = zones.iter().copied().map(bytes_of).sum();
        let in_order = zones
            .iter()
            .enumerate()
            .all(|(n, zone)| zone.ordinal as usize == n);
        if zones.len() == expected && expected > 0 && in_order && found == bytes {
            return Ok(());
        }
        let at = zones.first().map_or(PmOff(0), |zone| zone.data);
        let got = format!("{} zones of {found} bytes", zones.len());
        let expected = format!("{expected} zones of {bytes} bytes, in order");
        Err(self.damaged("zones", at, expected, got))
    }

    fn open_piece(&mut self, n: usize, zone: &Zone) -> Result<()> {
        let base = zone.data;
        let identity = self.identity;
        let seed = identity.seed(zone.generation);
        let bytes = self.region.bytes(base, HEADER_LEN)?;
        let owner = identity.owner(zone.generation);
        let room = zone.end.0 - base.0;
        let header = Header::decode(bytes, &owner, seed, base.0, room);
        let header = header.map_err(|why| match why {
            Refused::Damaged(what, at) => self.damaged(
                what,
                base.plus(at as u64),
                "what was written",
                "other bytes",
            ),
            Refused::Newer(version) => Error::Unsupported(format!(
                "PM table {} has format version {version}, and this version reads up to {}",
                identity.table,
                crate::format::FORMAT_VERSION
            )),
        })?;
        let is_last = n + 1 == len_of(self.meta.zones);
        if header.ordinal as usize != n {
            let at = base.plus(48);
            return Err(self.damaged("ordinal of a piece", at, n, header.ordinal));
        }
        if header.table.is_some() != is_last {
            let (expected, got) = match is_last {
                true => ("the last one", "one that others follow"),
                false => ("one that others follow", "the last one"),
            };
            return Err(self.damaged("a piece", base.plus(52), expected, got));
        }
        let from = self.runs.len();
        self.open_runs(n, base, seed, &header)?;
        self.pieces.push(Piece {
            base,
            seed,
            header,
            runs: from..self.runs.len(),
        });
        Ok(())
    }

    /// Reads the meta layer of a piece.
    fn open_runs(&mut self, n: usize, base: PmOff, seed: u64, header: &Header) -> Result<()> {
        let place = base.plus(header.runs_at.into());
        let region = self.region.clone();
        let bytes = region.bytes(place, len_of(header.tombstones_at - header.runs_at))?;
        if crc_at(seed, place.0, bytes) != header.runs_crc {
            return Err(self.checksum("runs", place));
        }
        let mut at = 0;
        let mut groups = 0u64;
        while at < bytes.len() {
            let begin = place.plus(at as u64);
            let arrays = header.arrays_at..header.runs_at;
            let wrong = |table: &PmTable| table.damaged("a run", begin, "a run", "none");
            let Some(run) = RunHead::decode(bytes, &mut at, arrays) else {
                return Err(wrong(self));
            };
            let ascends = self.runs.last().is_none_or(|last| {
                let own = (run.cf, run.separator, SeqNo(!run.separator_seqno.0));
                (last.cf, last.separator(), SeqNo(!last.separator_seqno.0)) < own
            });
            if !ascends {
                return Err(wrong(self));
            }
            groups += u64::from(run.groups);
            self.runs.push(Run {
                cf: run.cf,
                piece: n,
                prefix_len: run.prefix_len,
                groups: run.groups,
                array: run.array,
                separator_seqno: run.separator_seqno,
                keys: [run.shared, run.separator].concat().into(),
                shared: u8::try_from(run.shared.len()).expect("its length was a byte"),
            });
        }
        if groups != u64::from(header.groups) {
            return Err(self.damaged("groups of runs", place, header.groups, groups));
        }
        Ok(())
    }

    fn read_tombstones(&self) -> Result<Vec<(CfId, RangeTombstones)>> {
        let piece = self.pieces.last().expect("there is one zone at least");
        let header = &piece.header;
        let place = piece.base.plus(header.tombstones_at.into());
        let len = len_of(header.end - header.tombstones_at);
        if len == 0 {
            return Ok(Vec::new());
        }
        if len > TOMBSTONES_LEN_MAX {
            let most = format!("{TOMBSTONES_LEN_MAX} bytes at most");
            return Err(self.damaged("range tombstones", place, most, len));
        }
        let bytes = self.region.bytes(place, len)?;
        if crc_at(piece.seed, place.0, bytes) != header.tombstones_crc {
            return Err(self.checksum("range tombstones", place));
        }
        let wrong = |at: usize| {
            let at = place.plus(at as u64);
            self.damaged("a range tombstone", at, "one behind the one before", "none")
        };
        RangeTombstones::decode(bytes, head).map_err(wrong)
    }

    /// Holds what the last piece says of the table against the pieces and what the edit says.
    fn check_totals(&self, totals: &Totals) -> Result<()> {
        let at = self.pieces.last().expect("there is one").base.plus(96);
        let entries = self.pieces.iter().map(|piece| piece.header.entries);
        let entries = entries.fold(0u64, u64::saturating_add);
        let meta = &self.meta;
        let said = (
            meta.entries,
            meta.range_tombstones,
            meta.seqnos.0.0,
            meta.seqnos.1.0,
        );
        let tombstones = self.tombstones.iter().map(|(_, of)| of.iter().len() as u64);
        let found = (entries, tombstones.sum());
        let own = (
            totals.entries,
            totals.range_tombstones,
            totals.smallest_seqno,
            totals.largest_seqno,
        );
        if said != own || found != (own.0, own.1) {
            return Err(self.damaged(
                "totals",
                at,
                format!("{said:?} as the manifest says"),
                format!("{own:?}, and {found:?} in pieces"),
            ));
        }
        Ok(())
    }

    /// The region that it lies in.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// What it is.
    pub fn meta(&self) -> &PmTableMeta {
        &self.meta
    }

    /// Bytes of DRAM that it takes while it is open.
    pub fn charge(&self) -> usize {
        let keys: usize = self.runs.iter().map(|run| run.keys.len()).sum();
        let lists =
            self.runs.capacity() * size_of::<Run>() + self.pieces.capacity() * size_of::<Piece>();
        // Its families share the bytes.
        let shared = self.tombstones.first().map_or(0, |(_, of)| of.key_bytes());
        let tombstones: usize = self.tombstones.iter().map(|(_, of)| of.charge()).sum();
        size_of::<PmTable>() + keys + lists + shared + tombstones
    }

    /// Its range tombstones of a family, by start, then newest first. They may overlap.
    pub fn range_tombstones(&self, cf: CfId) -> impl Iterator<Item = RangeTombstone<&[u8]>> {
        let tombstones = self.tombstones_of(cf).into_iter();
        tombstones.flat_map(RangeTombstones::iter)
    }

    /// All of its range tombstones.
    pub(crate) fn tombstones_by_family(&self) -> &[(CfId, RangeTombstones)] {
        &self.tombstones
    }

    /// The newest seqno, at or below `at`, of its range tombstones over `key`.
    pub(crate) fn covered_at(&self, cf: CfId, key: &[u8], at: SeqNo) -> Option<SeqNo> {
        let (all, whole) = (self.tombstones_of(cf)?, KeyLimits::default());
        let newest = all.covering(&whole, key, at);
        newest.map(|tombstone| tombstone.seqno)
    }

    fn tombstones_of(&self, cf: CfId) -> Option<&RangeTombstones> {
        let at = self.tombstones.binary_search_by_key(&cf, |(cf, _)| *cf);
        at.ok().map(|at| &self.tombstones[at].1)
    }

    /// The runs of a family.
    pub(crate) fn runs_of(&self, cf: CfId) -> Range<usize> {
        let from = self.runs.partition_point(|run| run.cf < cf);
        let len = self.runs[from..].partition_point(|run| run.cf == cf);
        from..from + len
    }

    /// The run in which version `seqno` of `key` would lie: the last one of the family that does not begin
    /// behind it; none if all do, or there are none.
    pub(crate) fn run_with(&self, cf: CfId, key: &[u8], seqno: SeqNo) -> Option<usize> {
        let behind = self.runs.partition_point(|run| run.is_from(cf, key, seqno));
        let last = behind.checked_sub(1)?;
        (self.runs[last].cf == cf).then_some(last)
    }

    pub(crate) fn piece_of(&self, run: usize) -> &Piece {
        &self.pieces[self.runs[run].piece]
    }

    /// About how many bytes of the table lie before `key` of family `cf`: as many of a piece as groups of it lie
    /// before, by the prefix layer. Reads a few lines and verifies nothing; of what cannot be read one half counts.
    pub fn approximate_bytes_before(&self, cf: CfId, key: &[u8]) -> u64 {
        let behind = self
            .runs
            .partition_point(|run| run.is_from(cf, key, SeqNo::MAX));
        let Some(last) = behind.checked_sub(1) else {
            return 0;
        };
        let run = &self.runs[last];
        let bytes = |piece: &Piece| u64::from(piece.header.end);
        let before: u64 = self.pieces[..run.piece].iter().map(bytes).sum();
        let piece = &self.pieces[run.piece];
        let groups = |runs: Range<usize>| -> u64 {
            self.runs[runs]
                .iter()
                .map(|run| u64::from(run.groups))
                .sum()
        };
        let within = match run.cf == cf {
            true => match self.group_with(last, key, SeqNo::MAX, false) {
                Ok(group) => group.map_or(0, |group| group.number),
                Err(_) => run.groups / 2,
            },
            // All of an earlier family lies before, whatever its keys are.
            false => run.groups,
        };
        let share = groups(piece.runs.start..last) + u64::from(within);
        before + bytes(piece) * share / groups(piece.runs.clone()).max(1)
    }

    #[cold]
    pub(crate) fn damaged(
        &self,
        what: &str,
        at: PmOff,
        expected: impl ToString,
        got: impl ToString,
    ) -> Error {
        // A page that is gone reads as zeros: name the cause, not the symptom.
        if let Err(error) = self.region.check_media() {
            return error;
        }
        let what = format!("PM table {}: {what}", self.identity.table);
        let place = self.region.path().display().to_string();
        Error::corruption(what, place, at.0, expected, got)
    }

    #[cold]
    pub(crate) fn checksum(&self, what: &str, at: PmOff) -> Error {
        self.damaged(what, at, "a matching checksum", "none")
    }

    /// Whether the bytes of what begins at `at` have this checksum.
    #[inline]
    pub(crate) fn check(
        &self,
        seed: u64,
        at: PmOff,
        bytes: &[u8],
        crc: u32,
        what: &str,
    ) -> Result<()> {
        if crc_at(seed, at.0, bytes) != crc && !active(Bug::SkipGroupChecksum) {
            return Err(self.checksum(what, at));
        }
        Ok(())
    }
}

/// A table, or the part of it whose user keys lie within limits: what a reader reads. Entries outside of
/// the limits are as if they were not there; range tombstones end there. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PmPart {
    table: Arc<PmTable>,
    cf: CfId,
    limits: KeyLimits,
}

impl PmPart {
    /// All that it has of a family.
    pub fn whole(table: Arc<PmTable>, cf: CfId) -> PmPart {
        PmPart::limited(table, cf, None, None)
    }

    /// Of a family the keys from `lower` up to, and not with, `upper`.
    pub fn limited(
        table: Arc<PmTable>,
        cf: CfId,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> PmPart {
        let limits = KeyLimits::new(lower, upper);
        PmPart { table, cf, limits }
    }

    /// The table.
    pub fn table(&self) -> &Arc<PmTable> {
        &self.table
    }

    /// The family.
    pub fn cf(&self) -> CfId {
        self.cf
    }

    /// The limits of its user keys.
    pub fn limits(&self) -> &KeyLimits {
        &self.limits
    }

    /// The newest range tombstone at or below `at` that covers `key`, as the limits cut it.
    pub fn covering(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        let tombstones = self.table.tombstones_of(self.cf)?;
        tombstones.covering(&self.limits, key, at)
    }

    /// What the range tombstones at or below `at` cover right before `key`: see [`RangeTombstones::reaching`].
    pub fn reaching(&self, key: &[u8], at: SeqNo) -> Option<RangeTombstone<&[u8]>> {
        let tombstones = self.table.tombstones_of(self.cf)?;
        tombstones.reaching(&self.limits, key, at)
    }

    /// Its range tombstones, as [`RangeTombstones::within`] has them. They may overlap.
    pub fn range_tombstones(&self) -> impl Iterator<Item = RangeTombstone<&[u8]>> {
        let tombstones = self.table.tombstones_of(self.cf).into_iter();
        tombstones.flat_map(|all| all.within(&self.limits))
    }
}

/// A place of the region, from an offset within a piece.
pub(crate) fn place(piece: &Piece, at: u32) -> PmOff {
    piece.base.plus(at.into())
}

/// How many bytes of a piece lie from `at` up to `end`; none if `at` lies behind.
pub(crate) fn bytes_between(at: u32, end: u32) -> Option<usize> {
    Some(index(end.checked_sub(at)?.into()))
}
