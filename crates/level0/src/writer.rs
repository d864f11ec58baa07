//! Writing a table.
//!
//! # Invariants
//! 1. **Durable before named.** [`PmTableWriter::finish`] gives a table's metadata only after a fence that
//!    covers all of its lines; before that nobody knows it, and no edit can name it. Zone headers are
//!    durable before the first line of a zone is stored (`halloc`, invariant 1). So whatever the moment of
//!    a crash: either an edit names the table, and all of it is there; or none does, and its zones are free
//!    at the next open, whatever they hold. Recovery has nothing to persist again: what an edit names was
//!    fenced before the edit was written, by whoever wrote it, in whatever process.
//! 2. **Never other bytes.** All checksums start from database, table and zone generation. Table ids and
//!    generations are never given out twice, so bytes of an earlier life of a zone verify as nothing of
//!    this table, and a piece in another's place does not either. The last piece says how many entries
//!    the table has, and the edit how many zones: a missing piece is noticed.
//! 3. **Each line once.** Lines are stored past the cache, whole, in order; the header's last.
//! 4. **Bounded.** DRAM is what one zone can hold of keys, a buffer, and the range tombstones, whatever the
//!    table has. Only large entries make a zone wider, and only while the keys of its piece take less than a mebibyte.
//! 5. **Deterministic.** The same entries in zones of the same sizes give the same bytes, but for what
//!    depends on database, table, generation and place.
//! 6. **What fails leaves nothing.** A writer that is dropped gives its zones back, after a fence: stores
//!    that are under way must not arrive in the next owner's. If that fence fails it keeps them: the
//!    store is poisoned then, and opening it frees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{
    BlobRef, CfId, Error, FileId, KeyRange, Kind, PmBlob, PmFamily, PmTableMeta, Result, SeqNo,
    limits,
};
use thermocline_halloc::{Reserve, Space, Zone};
use thermocline_policy::tuning::{PM_TABLE_FULL_PARTS, PM_ZONE_BYTES_MIN};

use crate::format::coding::shared;
use crate::format::header::Totals;
use crate::format::{BLOB_FILES_MAX, TOMBSTONES_LEN_MAX};
use crate::identity::TableIdentity;
use crate::meta::{bytes_of, cover, empty};
use crate::piece::{Growth, NewEntry, Piece};
use crate::tombstones::TombstonesBuilder;
use crate::value::Value;
use crate::{SITE_ABANDONED, SITE_TABLE};

/// Most entries of a group: fewer are faster to read, more take less room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum GroupSize {
    /// 8.
    Eight,
    /// 16.
    #[default]
    Sixteen,
}

impl GroupSize {
    /// As a number.
    pub fn entries(self) -> usize {
        match self {
            GroupSize::Eight => 8,
            GroupSize::Sixteen => 16,
        }
    }
}

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Most entries of a group.
    pub group_size: GroupSize,
    /// Whether its zones may take the one that is kept back.
    pub reserve: Reserve,
    /// Bytes that a zone should have for data at least, so that a small first part of the region does not
    /// make tables of many pieces. Zones are what they are: it is no more than a wish for larger ones.
    pub zone_bytes_min: u64,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            group_size: GroupSize::default(),
            reserve: Reserve::Keep,
            zone_bytes_min: PM_ZONE_BYTES_MIN,
        }
    }
}

/// A table that is durable, and not named yet.
#[derive(Debug)]
pub struct Written {
    /// What an edit needs to name it.
    pub meta: PmTableMeta,
    /// Its zones, in order. They are the caller's now: if no edit can name the table, [`Space::release`]
    /// gives them back.
    pub zones: Vec<Zone>,
}

/// Writes one table, entry by entry, in order.
pub struct PmTableWriter {
    space: Arc<Space>,
    identity: TableIdentity,
    options: WriteOptions,
    zones: Vec<Zone>,
    piece: Option<Piece>,
    /// Bytes of complete pieces.
    bytes: u64,
    /// The last entry.
    last: Option<(CfId, SeqNo)>,
    last_key: Vec<u8>,
    tombstones: TombstonesBuilder,
    entries: u64,
    /// Of the family whose entries come: what was counted, largest key apart.
    counted: Option<PmFamily>,
    /// By family.
    families: BTreeMap<CfId, PmFamily>,
    blobs: BTreeMap<FileId, (u64, u64)>,
}

impl fmt::Debug for PmTableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PmTableWriter")
            .field("identity", &self.identity)
            .field("zones", &self.zones)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

fn refused<T>(why: String) -> Result<T> {
    Err(Error::InvalidArgument(why))
}

/// The beginning of a key, for messages.
fn shown(key: &[u8]) -> String {
    let head = &key[..key.len().min(40)];
    format!("the key '{}' of {} bytes", head.escape_ascii(), key.len())
}

impl PmTableWriter {
    /// For the table `identity`, whose id is reserved for it alone. No zone is taken yet.
    pub fn new(space: Arc<Space>, identity: TableIdentity, options: WriteOptions) -> PmTableWriter {
        PmTableWriter {
            space,
            identity,
            options,
            zones: Vec::new(),
            piece: None,
            bytes: 0,
            last: None,
            last_key: Vec::new(),
            tombstones: TombstonesBuilder::default(),
            entries: 0,
            counted: None,
            families: BTreeMap::new(),
            blobs: BTreeMap::new(),
        }
    }

    /// About how many bytes the table would have if it were finished now, a little too many: for callers
    /// that cut tables by size.
    pub fn bytes(&self) -> u64 {
        let piece = self.piece.as_ref().map_or(0, Piece::len_max);
        self.bytes + (piece + self.tombstones.bytes().len()) as u64
    }

    /// Bytes of DRAM that it takes now: for callers that keep a budget.
    pub fn memory(&self) -> u64 {
        let piece = self.piece.as_ref().map_or(0, Piece::memory);
        (piece + self.tombstones.memory() + self.last_key.capacity()) as u64
    }

    /// Entries and range tombstones so far.
    pub fn entries(&self) -> u64 {
        self.entries + self.tombstones.count()
    }

    /// Whether the table nears a limit of its format: range tombstones of megabytes, or values in thousands
    /// of blob files. The caller finishes it and begins another, as when it is large enough.
    pub fn is_full(&self) -> bool {
        self.tombstones.bytes().len() > TOMBSTONES_LEN_MAX / PM_TABLE_FULL_PARTS
            || self.blobs.len() > BLOB_FILES_MAX / PM_TABLE_FULL_PARTS
    }

    /// The zones that it has taken so far.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Adds an entry. Puts, deletes and merges come by family, user key ascending, then seqno descending,
    /// strictly. Range tombstones ([`Kind::RangeDelete`], with their ends as inline values) come in the
    /// same order, but in a sequence of their own; those of a table overlap as they like.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an entry that is out of order, too long, or cannot be (the seqno
    /// [`SeqNo::MAX`], a delete with a value, an empty range, a blob where none can be, more blob files or
    /// range tombstones than a table has); it is not added then, and others may follow.
    /// [`Error::OutOfSpace`] if there is no zone: the same entry may be tried again when there is room. A
    /// failed persist: what is durable is unknown, and the store must be poisoned.
    pub fn add(
        &mut self,
        cf: CfId,
        user_key: &[u8],
        seqno: SeqNo,
        kind: Kind,
        value: Value<'_>,
    ) -> Result<()> {
        check_key(user_key, seqno)?;
        let same_family = self.last.is_some_and(|(last, _)| last == cf);
        let kept = same_family.then(|| shared(&self.last_key, user_key));
        let len = user_key.len();
        let entry = NewEntry {
            cf,
            user_key,
            seqno,
            kind,
            value,
            kept,
            same_key: kept == Some(len) && len == self.last_key.len(),
        };
        match (kind, value) {
            (Kind::RangeDelete, Value::Inline(end)) => return self.add_range(&entry, end),
            (Kind::Delete, Value::Inline([])) => {}
            (Kind::Put | Kind::Merge, Value::Inline(bytes)) => check_value(bytes.len())?,
            (Kind::Put | Kind::Merge, Value::Blob(to)) => self.check_blob(to)?,
            (_, Value::Inline(bytes)) => {
                let len = bytes.len();
                return refused(format!(
                    "a {kind:?} cannot have a value, and has {len} bytes"
                ));
            }
            (_, Value::Blob(to)) => {
                return refused(format!("a {kind:?} cannot have {to} as its value"));
            }
        }
        self.check_order(&entry)?;
        let growth = self.make_room(&entry)?;
        let piece = self.piece.as_mut().expect("there is room");
        piece.add(&entry, &growth);
        self.count(&entry);
        self.last = Some((cf, seqno));
        let kept = kept.unwrap_or(0);
        self.last_key.truncate(kept);
        self.last_key.extend_from_slice(&user_key[kept..]);
        Ok(())
    }

    fn check_order(&self, entry: &NewEntry<'_>) -> Result<()> {
        let Some((cf, seqno)) = self.last else {
            return Ok(());
        };
        let ascends = match cf == entry.cf {
            false => cf < entry.cf,
            true if entry.same_key => seqno > entry.seqno,
            true => {
                let kept = entry.kept.unwrap_or(0);
                self.last_key.get(kept) < entry.user_key.get(kept)
            }
        };
        if ascends {
            return Ok(());
        }
        refused(format!(
            "{} at {} of family {} must not be written after {} at {seqno} of family {} to PM table {}",
            shown(entry.user_key),
            entry.seqno,
            entry.cf.0,
            shown(&self.last_key),
            cf.0,
            self.identity.table
        ))
    }

    /// Ends the piece if the entry does not fit into it, and begins another one if there is none.
    fn make_room(&mut self, entry: &NewEntry<'_>) -> Result<Growth> {
        let growth = self.piece.as_ref().and_then(|piece| piece.room_for(entry));
        if let Some(growth) = growth {
            return Ok(growth);
        }
        if let Some(growth) = self.widen(entry)? {
            return Ok(growth);
        }
        // The zone first: without one, all is as it was.
        let next = self.begin_piece(Piece::bytes_for(entry))?;
        self.end_piece()?;
        let growth = next.room_for(entry);
        self.piece = Some(next);
        Ok(growth.expect("its zone was chosen to have room"))
    }

    /// Makes the zone of the piece wider, where that is worth it: large entries leave much. Returns what the entry takes then.
    fn widen(&mut self, entry: &NewEntry<'_>) -> Result<Option<Growth>> {
        let (Some(piece), Some(zone)) = (&mut self.piece, self.zones.last_mut()) else {
            return Ok(None);
        };
        let Some((left, needed)) = piece.lacks(entry) else {
            return Ok(None);
        };
        let reserve = self.options.reserve;
        let Some(wider) = self.space.widen(zone, left, needed, reserve)? else {
            return Ok(None);
        };
        *zone = wider;
        piece.widen(wider);
        Ok(piece.room_for(entry))
    }

    fn begin_piece(&mut self, bytes: u64) -> Result<Piece> {
        let ordinal = u32::try_from(self.zones.len())
            .map_err(|_| Error::InvalidArgument("a PM table of too many zones".into()))?;
        let min = bytes.max(self.options.zone_bytes_min);
        let WriteOptions { reserve, .. } = self.options;
        let owner = self.identity.table;
        let zone = match self.space.attach(owner, ordinal, min, reserve) {
            // Smaller ones will do.
            Err(Error::OutOfSpace(_)) if min > bytes => {
                self.space.attach(owner, ordinal, bytes, reserve)?
            }
            zone => zone?,
        };
        self.zones.push(zone);
        let region = self.space.region().clone();
        let group_size = self.options.group_size.entries();
        Ok(Piece::new(region, self.identity, zone, group_size))
    }

    /// Completes the piece and makes it durable.
    fn end_piece(&mut self) -> Result<()> {
        if let Some(piece) = self.piece.take() {
            self.bytes += piece.finish(&[], None) as u64;
            self.space.region().fence(SITE_TABLE)?;
        }
        Ok(())
    }

    fn count(&mut self, entry: &NewEntry<'_>) {
        self.entries += 1;
        let key = entry.user_key;
        if self
            .counted
            .as_ref()
            .is_none_or(|family| family.cf != entry.cf)
        {
            self.end_family();
            self.counted = Some(empty(entry.cf, key));
        }
        let family = self.counted.as_mut().expect("it was just made");
        family.entries += 1;
        family.deletes += u64::from(entry.kind == Kind::Delete);
        family.merges += u64::from(entry.kind == Kind::Merge);
        family.key_bytes += key.len() as u64;
        let (smallest, largest) = family.seqnos;
        family.seqnos = (smallest.min(entry.seqno), largest.max(entry.seqno));
        match entry.value {
            Value::Inline(bytes) => family.value_bytes += bytes.len() as u64,
            Value::Blob(to) => {
                let used = self.blobs.entry(to.file).or_default();
                used.0 += 1;
                used.1 += u64::from(to.len);
            }
        }
    }

    /// Takes what was counted of the entries of a family in.
    fn end_family(&mut self) {
        let Some(counted) = self.counted.take() else {
            return;
        };
        let (cf, smallest) = (counted.cf, counted.range.first.clone());
        let family = self.families.entry(cf);
        let family = family.or_insert_with(|| empty(cf, &smallest));
        family.entries = counted.entries;
        family.deletes = counted.deletes;
        family.merges = counted.merges;
        family.key_bytes = counted.key_bytes;
        family.value_bytes = counted.value_bytes;
        // Entries ascend: the last key is the largest.
        for seqno in [counted.seqnos.0, counted.seqnos.1] {
            let range = KeyRange::inclusive(&smallest, &self.last_key);
            cover(family, range.borrowed(), seqno);
        }
    }

    fn check_blob(&self, to: BlobRef) -> Result<()> {
        if self.blobs.len() == BLOB_FILES_MAX && !self.blobs.contains_key(&to.file) {
            return refused(format!(
                "a PM table refers to at most {BLOB_FILES_MAX} blob files"
            ));
        }
        Ok(())
    }

    fn add_range(&mut self, entry: &NewEntry<'_>, end: &[u8]) -> Result<()> {
        let (cf, start, seqno) = (entry.cf, entry.user_key, entry.seqno);
        check_key(end, seqno)?;
        if start >= end {
            let (start, end) = (shown(start), shown(end));
            return refused(format!("the range from {start} to {end} is empty"));
        }
        self.tombstones.add(cf, start, end, seqno)?;
        let family = self.families.entry(cf);
        let family = family.or_insert_with(|| empty(cf, start));
        family.range_tombstones += 1;
        cover(family, KeyRange::until(start, end), seqno);
        Ok(())
    }

    /// Completes the table and makes all of it durable; `None`, and no zone taken, if nothing was added.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if there is no zone for range tombstones; a failed persist. Its zones are
    /// given back then, as far as they can be.
    pub fn finish(mut self) -> Result<Option<Written>> {
        if self.entries() == 0 {
            return Ok(None);
        }
        self.end_family();
        let tombstones = self.tombstones.take();
        let fits = |piece: &Piece| piece.has_room_for_tombstones(tombstones.len());
        if !self.piece.as_ref().is_some_and(fits) {
            let next = self.begin_piece(Piece::bytes_for_tombstones(tombstones.len()))?;
            self.end_piece()?;
            self.piece = Some(next);
        }
        let seqnos = self.families.values().map(|family| family.seqnos);
        let seqnos = seqnos.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (smallest, largest) = seqnos.expect("something was added");
        let range_tombstones = self.tombstones.count();
        let table = Totals {
            entries: self.entries,
            smallest_seqno: smallest.0,
            largest_seqno: largest.0,
            range_tombstones,
        };
        let piece = self.piece.take().expect("there is a piece");
        self.bytes += piece.finish(&tombstones, Some(table)) as u64;
        if !active(Bug::NameTableUnpersisted) {
            self.space.region().fence(SITE_TABLE)?;
        }
        let zones = std::mem::take(&mut self.zones);
        let blobs = std::mem::take(&mut self.blobs).into_iter();
        let meta = PmTableMeta {
            owner: self.identity.table,
            zones: u32::try_from(zones.len()).expect("ordinals have 32 bits"),
            zone_bytes: zones.iter().map(bytes_of).sum(),
            bytes: self.bytes,
            entries: self.entries,
            range_tombstones,
            seqnos: (smallest, largest),
            families: std::mem::take(&mut self.families).into_values().collect(),
            blobs: blobs
                .map(|(file, (values, bytes))| PmBlob {
                    file,
                    values,
                    bytes,
                })
                .collect(),
        };
        Ok(Some(Written { meta, zones }))
    }
}

impl Drop for PmTableWriter {
    /// Gives back the zones of a table that was not finished (6).
    fn drop(&mut self) {
        self.piece = None;
        let zones = std::mem::take(&mut self.zones);
        if !zones.is_empty() && self.space.region().fence(SITE_ABANDONED).is_ok() {
            self.space.release(&zones);
        }
    }
}

fn check_key(user_key: &[u8], seqno: SeqNo) -> Result<()> {
    let (max, len) = (limits::KEY_LEN_MAX, user_key.len());
    if len > max {
        return refused(format!("a key has at most {max} bytes, not {len}"));
    }
    if seqno == SeqNo::MAX {
        return refused(format!("no entry has the seqno {seqno}"));
    }
    Ok(())
}

fn check_value(len: usize) -> Result<()> {
    let max = limits::VALUE_INLINE_MAX;
    if len > max {
        return refused(format!(
            "a value in a PM table has at most {max} bytes, not {len}"
        ));
    }
    Ok(())
}
