//! Parts and zones: how a region is divided, and finding again who owns what.

use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_pm::{PmOff, Region};

use crate::format::{
    META_BYTES_MIN, PART_HEADER_SPAN, PARTS_WORD_COPIES, PartHeader, ZONE_HEADER_BYTES, ZoneHeader,
    checked_word, damaged, narrow, read_checked_word,
};
use crate::{SITE_PART, SITE_PARTS_WORD};

/// Largest part and, below it, how parts double.
pub(crate) const PART_BYTES_MAX: u64 = 64 << 20;
/// Zones per part, where that gives zones of allowed sizes.
const ZONES_PER_PART: u64 = 16;
/// Small beside a table of persistent memory, which leaves half of its last zone unused on average.
const ZONE_BYTES_MAX: u64 = 1 << 20;

/// A rest of a run of zones that is at least one part in so many of a zone is used: by going on in the zones behind the run
/// with what does not fit. Smaller rests are left, so that owners of small items have their zones by sixteenths of a part.
const REST_PARTS: u64 = 4;

/// Bytes of data that every zone has, however small it is, and wherever it lies.
pub(crate) const ZONE_DATA_LEAST: u64 = META_BYTES_MIN - ZONE_HEADER_BYTES - PART_HEADER_SPAN;

/// An attached zone (or run of adjacent ones).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// Whom it belongs to. Ids of owners are never reused.
    pub owner: u64,
    /// Rises with every attachment of the region.
    pub generation: u64,
    /// Position among the owner's zones, from 0.
    pub ordinal: u32,
    /// First byte for data; on a line.
    pub data: PmOff,
    /// Behind its last byte.
    pub end: PmOff,
    pub(crate) part: u32,
    pub(crate) first: u32,
    pub(crate) run: u32,
}

impl Zone {
    /// Those of an owner, of zones by owner and ordinal, as an open gives them. There may be a million, and an open asks for each
    /// chain that there is.
    pub fn of_owner(zones: &[Zone], owner: u64) -> &[Zone] {
        let from = zones.partition_point(|zone| zone.owner < owner);
        let rest = &zones[from..];
        &rest[..rest.partition_point(|zone| zone.owner == owner)]
    }

    /// What its header says.
    pub(crate) fn header(&self) -> ZoneHeader {
        ZoneHeader {
            owner: self.owner,
            generation: self.generation,
            ordinal: self.ordinal,
            run: self.run,
        }
    }

    /// The place of the zone behind it in its part, if the part has one more.
    pub(crate) fn behind(&self) -> usize {
        self.first as usize + self.run as usize
    }
}

/// A stretch of the region with zones of one size.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub header: PartHeader,
    /// One flag a zone: attached, or the meta zone.
    pub taken: Vec<bool>,
    /// One flag a zone: this process has asked for its pages.
    pub present: Vec<bool>,
    pub free: usize,
}

impl Part {
    pub fn new(header: PartHeader) -> Part {
        let zones = index(header.bytes / header.zone_bytes);
        let mut part = Part {
            header,
            taken: vec![false; zones],
            present: vec![false; zones],
            free: zones,
        };
        if header.index == 0 {
            part.take(0, 1);
        }
        part
    }

    /// Takes free zones. Returns whether the pages of all of them have been asked for; they have been
    /// from now on.
    pub fn take_present(&mut self, first: usize, run: usize) -> bool {
        self.take(first, run);
        let present = &mut self.present[first..first + run];
        let all = present.iter().all(|&flag| flag);
        present.fill(true);
        all
    }

    pub fn take(&mut self, first: usize, run: usize) {
        for taken in &mut self.taken[first..first + run] {
            assert!(!*taken, "a zone is attached twice");
            *taken = true;
        }
        self.free -= run;
    }

    /// The header offset of zone `i`.
    pub fn header_at(&self, i: usize) -> PmOff {
        let start = self.header.offset + i as u64 * self.header.zone_bytes;
        PmOff(if i == 0 {
            start + PART_HEADER_SPAN
        } else {
            start
        })
    }

    /// Where zone `i` begins, and how many bytes it has.
    pub fn span(&self, i: usize) -> (PmOff, u64) {
        let bytes = self.header.zone_bytes;
        (PmOff(self.header.offset + i as u64 * bytes), bytes)
    }

    /// The free zones, and whether the pages of each have been asked for.
    pub fn free_zones(&self) -> impl Iterator<Item = (usize, bool)> {
        let flags = self.taken.iter().zip(&self.present).enumerate();
        flags.filter_map(|(i, (&taken, &present))| (!taken).then_some((i, present)))
    }

    /// Bytes of data in each run of its free zones, which has one header.
    pub fn free_runs(&self) -> impl Iterator<Item = u64> {
        let mut behind = 0;
        let runs = self.taken.chunk_by(|one, next| one == next);
        runs.filter_map(move |run| {
            let first = behind;
            behind += run.len();
            let end = self.header.offset + behind as u64 * self.header.zone_bytes;
            let is_free = run.first() == Some(&false);
            is_free.then(|| end - self.header_at(first).0 - ZONE_HEADER_BYTES)
        })
    }

    /// Bytes of data that a sixteenth of the part has, wherever it begins: so sixteenths leave nothing between them.
    pub fn wide_bytes(&self) -> u64 {
        let zones = self.taken.len() as u64 / ZONES_PER_PART;
        zones.max(1) * self.header.zone_bytes - ZONE_HEADER_BYTES - PART_HEADER_SPAN
    }

    /// The first run of `min_bytes` of data in free zones: its first zone and length.
    pub fn find(&self, min_bytes: u64) -> Option<(usize, usize)> {
        let mut start = 0;
        let mut len = 0;
        for (i, &taken) in self.taken.iter().enumerate() {
            if taken {
                len = 0;
                continue;
            }
            if len == 0 {
                start = i;
            }
            len += 1;
            let end = self.header.offset + (start + len) as u64 * self.header.zone_bytes;
            if end - self.header_at(start).0 - ZONE_HEADER_BYTES >= min_bytes {
                return Some((start, len));
            }
        }
        None
    }

    /// The free zones from `first` on, right behind somebody's, as many as `min_bytes` of data need that begin with his last `left`
    /// bytes: the first, and how many. `None` if there are not so many, or they are more than `most`; or where so little is left
    /// that it is not worth it.
    pub fn find_behind(
        &self,
        first: usize,
        (left, min_bytes): (u64, u64),
        most: usize,
    ) -> Option<(usize, usize)> {
        let bytes = self.header.zone_bytes;
        if left < bytes / REST_PARTS {
            return None;
        }
        let more = min_bytes.saturating_sub(left).div_ceil(bytes).max(1);
        let more = index(more);
        let behind = self.taken.get(first..)?.get(..more)?;
        let is_free = more <= most && !behind.contains(&true);
        is_free.then_some((first, more))
    }
}

/// Bytes of data in the longest run of zones that such a part has, were all of them free but `kept`.
pub(crate) fn longest_run(header: &PartHeader, kept: u64) -> u64 {
    // The first zone of the region is the meta zone. In another part it has the part's header.
    let (meta, span) = match header.index {
        0 => (1, 0),
        _ => (0, PART_HEADER_SPAN),
    };
    let zones = (header.bytes / header.zone_bytes).saturating_sub(meta + kept);
    (zones * header.zone_bytes).saturating_sub(ZONE_HEADER_BYTES + span)
}

pub(crate) fn end_of(parts: &[Part]) -> u64 {
    parts.last().map_or(0, |p| p.header.offset + p.header.bytes)
}

pub(crate) fn zone(part: &Part, first: usize, header: &ZoneHeader) -> Result<Zone> {
    let end = part.header.offset + (first as u64 + u64::from(header.run)) * part.header.zone_bytes;
    Ok(Zone {
        owner: header.owner,
        generation: header.generation,
        ordinal: header.ordinal,
        data: part.header_at(first).plus(ZONE_HEADER_BYTES),
        end: PmOff(end),
        part: part.header.index,
        first: narrow(first as u64)?,
        run: header.run,
    })
}

/// The zone size of a part: a power of two that gives about [`ZONES_PER_PART`] zones.
pub(crate) fn zone_bytes(part_bytes: u64) -> u64 {
    let wanted = (part_bytes / ZONES_PER_PART).max(1);
    let power = 1 << wanted.ilog2();
    u64::clamp(power, META_BYTES_MIN, ZONE_BYTES_MAX)
}

pub(crate) fn write_part_header(region: &Region, seed: u64, header: &PartHeader) -> Result<()> {
    let at = PartHeader::place(header.index, header.offset);
    let block = header.encode(seed);
    for copy in [at, at + 64] {
        // SAFETY: the part word does not count the part yet, and an open reads no header beyond it.
        unsafe { region.write(PmOff(copy), &block) };
        region.persist(PmOff(copy), 64, SITE_PART)?;
    }
    Ok(())
}

pub(crate) fn write_parts_word(region: &Region, seed: u64, parts: u32) -> Result<()> {
    for at in PARTS_WORD_COPIES {
        // SAFETY: the part word is read and stored as a word alone.
        unsafe { region.store_u64(PmOff(at), checked_word(parts, seed, at), SITE_PARTS_WORD) };
        region.persist(PmOff(at), 8, SITE_PARTS_WORD)?;
    }
    Ok(())
}

/// The parts, and whether both copies of the part word count them.
pub(crate) fn read_parts(region: &Region, seed: u64) -> Result<(Vec<Part>, bool)> {
    let (count, whole) = count_parts(region, seed)?;
    let mut parts: Vec<Part> = Vec::new();
    for index in 0..count {
        parts.push(read_part(region, seed, index, end_of(&parts))?);
    }
    Ok((parts, whole))
}

/// How many parts there are, and whether both copies of the part word say so.
pub(crate) fn count_parts(region: &Region, seed: u64) -> Result<(u32, bool)> {
    let mut count = None;
    let mut whole = true;
    for at in PARTS_WORD_COPIES {
        let copy = read_checked_word(region.load_u64(PmOff(at))?, seed, at);
        whole &= copy.is_some() && (count.is_none() || copy == count);
        count = count.max(copy);
    }
    let count = count.filter(|&n| n > 0);
    let count =
        count.ok_or_else(|| damaged("the part word", region.path(), PARTS_WORD_COPIES[0]))?;
    Ok((count, whole))
}

/// The part of that number, which begins at `offset`.
pub(crate) fn read_part(region: &Region, seed: u64, index: u32, offset: u64) -> Result<Part> {
    let at = PartHeader::place(index, offset);
    let mut header = None;
    for copy in [at, at + 64] {
        let block = region
            .bytes(PmOff(copy), 64)
            .map_err(|_| cut_short(region, copy + 64))?;
        header = header.or(PartHeader::decode(block, seed, index, offset));
    }
    let header = header.ok_or_else(|| damaged("a part header", region.path(), at))?;
    let end = offset.checked_add(header.bytes);
    let end = end.ok_or_else(|| damaged("a part header", region.path(), at))?;
    if end > region.len() {
        return Err(cut_short(region, end));
    }
    Ok(Part::new(header))
}

#[cold]
pub(crate) fn cut_short(region: &Region, needed: u64) -> Error {
    Error::corruption(
        "the region is shorter than its parts: it was cut short",
        region.path().display().to_string(),
        region.len(),
        format!("at least {needed} bytes"),
        format!("{} bytes", region.len()),
    )
}

/// The header of a zone, whoever had that last: the newer one of its sound copies (invariant 2).
pub(crate) fn last_header(
    region: &Region,
    seed: u64,
    part: &Part,
    zone: usize,
) -> Result<Option<ZoneHeader>> {
    let at = part.header_at(zone);
    let copies = [at, at.plus(64)].map(|copy| {
        region
            .bytes(copy, 64)
            .map(|block| ZoneHeader::decode(block, seed, at))
    });
    let [a, b] = copies;
    let stale_first = active(Bug::StaleZoneGeneration);
    // Of two with one generation the first was stored first, when the zone was made wider.
    Ok([a?, b?].into_iter().flatten().reduce(|a, b| {
        if (b.generation > a.generation) != stale_first {
            b
        } else {
            a
        }
    }))
}

/// Reads the zone headers of a part (invariants 2 and 3).
pub(crate) fn scan_part(
    region: &Region,
    seed: u64,
    part: &mut Part,
    live: &impl Fn(u64) -> bool,
    generation: &mut u64,
    zones: &mut Vec<Zone>,
) -> Result<()> {
    let mut i = usize::from(part.header.index == 0);
    while i < part.taken.len() {
        let mut step = 1;
        if let Some(header) = last_header(region, seed, part, i)? {
            *generation = (*generation).max(header.generation);
            if live(header.owner) {
                let run = header.run as usize;
                if run == 0 || i + run > part.taken.len() {
                    let at = part.header_at(i);
                    return Err(damaged("a zone header", region.path(), at.0));
                }
                zones.push(zone(part, i, &header)?);
                part.take(i, run);
                step = run;
            }
        }
        i += step;
    }
    Ok(())
}
