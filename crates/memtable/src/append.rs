//! Appending items to a chain: room is granted by one at a time, then filled and persisted by many.

use std::sync::Arc;

use thermocline_base::checksum::crc32c;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{BatchEntry, Error, Result};
use thermocline_halloc::{Reserve, Space, Zone};
use thermocline_pm::{PmOff, Region};
use thermocline_policy::tuning::ITEM_KEPT_BYTES;

use crate::SITE_ITEM;
use crate::chain::{Chain, Segment};
use crate::format::{
    ITEM_HEADER, ItemHeader, RECORD_HEADER, item_crc_start, push_record, record_bytes,
};
use crate::trail::Trail;

/// Builds an item in DRAM, so that each of its lines is stored to persistent memory once.
#[derive(Debug, Default)]
pub struct ItemBuilder {
    bytes: Vec<u8>,
    offsets: Vec<PmOff>,
}

/// Appends items to one chain.
#[derive(Debug)]
pub struct ChainWriter {
    chain: Chain,
    space: Arc<Space>,
    /// Where it began, if that was not in a zone of its own.
    start: Option<Segment>,
    segment: Option<Segment>,
    at: PmOff,
    /// Zones of the chain's own, in order.
    zones: Vec<Zone>,
}

/// What a chain writer holds, for metrics and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriterState {
    /// Where the next item goes, if it fits there.
    pub at: PmOff,
    /// Bytes left in the current zone.
    pub left: u64,
}

impl ChainWriter {
    /// A writer of a new chain that begins in `start`, the unused rest of an older chain's zone,
    /// or with a zone of its own.
    pub fn new(space: Arc<Space>, chain: Chain, start: Option<Segment>) -> ChainWriter {
        ChainWriter {
            chain,
            space,
            at: start.map_or(PmOff(0), |s| s.from),
            start,
            segment: start,
            zones: Vec::new(),
        }
    }

    /// The chain.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Where it stands.
    pub fn state(&self) -> WriterState {
        WriterState {
            at: self.at,
            left: self.segment.map_or(0, |s| s.to.0 - self.at.0),
        }
    }

    /// The zones that were attached for the chain, in order.
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Where a later chain may begin: the unused rest of the current zone.
    pub fn rest(&self) -> Option<Segment> {
        self.segment.map(|s| Segment { from: self.at, ..s })
    }

    /// Where its items lie, in memtable `id`: all there are if `last`, the last seqno, is known; else
    /// there may be more.
    pub fn trail(&self, id: u64, last: Option<u64>) -> Trail {
        let zones = self.zones.iter().map(Segment::of);
        let segments: Vec<Segment> = self.start.into_iter().chain(zones).collect();
        let Some(last) = last else {
            return Trail::open(id, self.chain, segments);
        };
        let end = segments.len().checked_sub(1).map(|i| (i, self.at));
        Trail::complete(id, self.chain, segments, end, last)
    }

    /// Makes room for an item of `bytes` bytes (whole lines). Returns the zone that was attached,
    /// if one was; or the last one, if those behind it have become a part of it.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`]; nothing changed then. A failed persist.
    pub fn ensure(&mut self, bytes: u64, reserve: Reserve) -> Result<Option<Zone>> {
        if self.state().left >= bytes {
            return Ok(None);
        }
        let wider = self.widen(bytes, reserve)?;
        if wider.is_some() {
            return Ok(wider);
        }
        let ordinal = self.zones.len().try_into().unwrap_or(u32::MAX);
        let zone = self
            .space
            .attach_wide(self.chain.id, ordinal, bytes, reserve)?;
        self.zones.push(zone);
        self.at = zone.data;
        self.segment = Some(Segment::of(&zone));
        Ok(Some(zone))
    }

    /// Goes on behind the current zone, where the zones there are free and its rest is worth it: large items leave large
    /// rests. Not in a zone of an older chain, whose end others know.
    fn widen(&mut self, bytes: u64, reserve: Reserve) -> Result<Option<Zone>> {
        let left = self.state().left;
        let Some(last) = self.zones.last_mut() else {
            return Ok(None);
        };
        let wider = self.space.widen_by_sixteenth(last, left, bytes, reserve)?;
        if let Some(zone) = wider {
            *last = zone;
            self.segment = Some(Segment::of(&zone));
        }
        Ok(wider)
    }

    /// Whether [`ChainWriter::ensure`] would go on behind the current zone with an item of `bytes` bytes that does not fit it.
    pub fn can_widen(&self, bytes: u64, reserve: Reserve) -> bool {
        let left = self.state().left;
        let last = self.zones.last();
        last.is_some_and(|last| self.space.can_widen(last, left, bytes, reserve))
    }

    /// Takes the room that [`ChainWriter::ensure`] made for an item of `bytes` bytes.
    ///
    /// # Panics
    /// If there is no such room.
    pub fn grant(&mut self, bytes: u64) -> Grant {
        assert!(bytes <= self.state().left, "ensure made room");
        let segment = self
            .segment
            .unwrap_or_else(|| unreachable!("a chain with room has a zone"));
        let at = self.at;
        self.at = at.plus(bytes);
        Grant {
            chain: self.chain,
            zone_generation: segment.zone_generation,
            at,
            bytes,
        }
    }
}

/// Room for one item, of nobody else's.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    chain: Chain,
    zone_generation: u64,
    at: PmOff,
    bytes: u64,
}

impl Grant {
    /// Where the item begins.
    pub fn at(&self) -> PmOff {
        self.at
    }

    /// How many bytes it takes, whole lines.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// When an item becomes durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persist {
    /// Before [`ItemBuilder::store`] returns.
    Now,
    /// When somebody flushes its range and fences. It is stored through the cache, so that any
    /// thread can.
    Deferred,
}

impl ItemBuilder {
    /// Builds one item with `entries` at `first_seqno` in the room granted, stores it, and persists it
    /// now or leaves that to others. Returns the offset of each record.
    ///
    /// # Errors
    /// A failed persist: the item may or may not be there, and the store must be poisoned.
    pub fn store<'a>(
        &mut self,
        region: &Region,
        grant: &Grant,
        entries: impl Iterator<Item = BatchEntry<'a>> + Clone,
        first_seqno: u64,
        published: u64,
        persist: Persist,
    ) -> Result<&[PmOff]> {
        self.build(grant, entries, first_seqno, published)?;
        assert_eq!(
            self.bytes.len() as u64,
            grant.bytes,
            "the grant is the item's size"
        );
        let deferred = persist == Persist::Deferred;
        // SAFETY: the room was granted to this item alone, and its records have no offsets in an index yet.
        unsafe {
            if deferred || active(Bug::SkipFlush) {
                region.write(grant.at, &self.bytes);
            } else {
                region.write_nt(grant.at, &self.bytes);
            }
        }
        if !deferred && !active(Bug::SkipFence) {
            region.fence(SITE_ITEM)?;
        }
        Ok(&self.offsets)
    }

    /// Gives large buffers back.
    pub fn trim(&mut self) {
        if self.bytes.capacity() > ITEM_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        if self.offsets.capacity() * size_of::<PmOff>() > ITEM_KEPT_BYTES {
            self.offsets = Vec::new();
        }
    }

    fn build<'a>(
        &mut self,
        grant: &Grant,
        entries: impl Iterator<Item = BatchEntry<'a>> + Clone,
        first_seqno: u64,
        published: u64,
    ) -> Result<()> {
        let Grant {
            chain,
            zone_generation,
            at,
            ..
        } = *grant;
        let too_big = |n: usize| {
            Error::InvalidArgument(format!("{n} is more than one item of a memtable can hold"))
        };
        self.offsets.clear();
        self.bytes.clear();
        self.bytes.resize(ITEM_HEADER, 0);
        for (seqno, entry) in (first_seqno..).zip(entries.clone()) {
            let record_at = at.plus(self.bytes.len() as u64);
            push_record(&mut self.bytes, &entry, seqno, chain.seed, record_at.0);
            self.offsets.push(record_at);
        }
        let header = ItemHeader {
            length: u32::try_from(self.bytes.len()).map_err(|_| too_big(self.bytes.len()))?,
            first_seqno,
            published,
            count: u32::try_from(self.offsets.len()).map_err(|_| too_big(self.offsets.len()))?,
            incarnation: chain.incarnation,
            zone_generation,
            chain: chain.id,
        };
        header.encode(&mut self.bytes);
        let mut crc = crc32c(
            item_crc_start(chain.seed, at.0),
            &self.bytes[4..ITEM_HEADER],
        );
        let mut record = ITEM_HEADER;
        for entry in entries {
            crc = crc32c(
                crc,
                &self.bytes[record..][..RECORD_HEADER + entry.key.len()],
            );
            record += record_bytes(entry.key.len(), entry.value.len());
        }
        self.bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let padded = index(header.padded());
        self.bytes.resize(padded, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::{CfId, Kind};
    use thermocline_testkit::golden;

    use super::*;
    use crate::fixture;

    /// A value of a mebibyte is an item that is longer than a zone of that size. All of them lie behind each other, as far as a
    /// part goes; were each in zones of its own, or three in four zones, they would have 131 zones, with 109,445,120 bytes.
    #[test]
    fn items_a_little_longer_than_a_zone_leave_no_zone_half_empty() {
        let space = fixture::space(128 << 20, 1 << 20);
        let chain = Chain::new(&[1; 16], 7, 1, 5, 1);
        let mut writer = ChainWriter::new(space.clone(), chain, None);
        for _ in 0..66 {
            let bytes = (1 << 20) + 128;
            writer.ensure(bytes, Reserve::Keep).unwrap();
            writer.grant(bytes);
        }
        let usage = space.usage();
        assert_eq!(
            (usage.zones_attached, usage.attached_bytes),
            (97, 75_366_400)
        );
        // One in each part but the first, in which none fits.
        assert_eq!(writer.zones().len(), 6);
    }

    /// Who stages a batch reckons so when he finds out whether it fits the zones that are free (`halloc::Pieces`).
    #[test]
    fn a_chain_goes_on_behind_its_zone_whether_it_is_staged_or_not() {
        let zones = |is_staged: bool| {
            let space = fixture::space(1 << 20, 1 << 20);
            let chain = Chain::new(&[1; 16], 7, 1, 5, 1);
            let chain = if is_staged { chain.staged() } else { chain };
            let mut writer = ChainWriter::new(space, chain, None);
            for _ in 0..2 {
                // One and a half zones.
                let bytes = 3 << 15;
                writer.ensure(bytes, Reserve::Keep).unwrap();
                writer.grant(bytes);
            }
            writer.zones().len()
        };
        assert_eq!((zones(false), zones(true)), (1, 1));
    }

    #[test]
    fn the_bytes_of_an_item_are_those_of_version_1() {
        let chain = Chain::new(&[1; 16], 7, 3, 99, 5);
        let grant = |at, bytes| Grant {
            chain,
            zone_generation: 11,
            at: PmOff(at),
            bytes,
        };
        let put = BatchEntry {
            kind: Kind::Put,
            cf: CfId(0),
            key: b"key",
            value: b"value",
        };
        let delete = BatchEntry {
            kind: Kind::Delete,
            cf: CfId(2),
            key: b"",
            value: b"",
        };
        let mut builder = ItemBuilder::default();
        builder
            .build(
                &grant(4096, 192),
                [put, delete].into_iter(),
                0x1_0000_0005,
                4,
            )
            .unwrap();
        let item = golden::annotate(
            &builder.bytes,
            &[
                (4, "item: crc"),
                (4, "length"),
                (8, "first seqno"),
                (8, "published"),
                (4, "count"),
                (4, "incarnation"),
                (8, "zone generation"),
                (8, "chain"),
                (4, "record 0: crc"),
                (4, "seqno, low half"),
                (2, "key length"),
                (2, "column family"),
                (4, "kind and value length"),
                (3, "key"),
                (5, "value"),
                (4, "record 1: crc"),
                (4, "seqno, low half"),
                (2, "key length"),
                (2, "column family"),
                (4, "kind and value length"),
                (40, "zeros to the line"),
            ],
        );
        golden::check("item", include_str!("../tests/golden/item-v1.txt"), &item);
        let range = |value| BatchEntry {
            kind: Kind::RangeDelete,
            cf: CfId(2),
            key: b"from",
            value,
        };
        let ranges = [range(b"to"), range(b"")];
        builder
            .build(&grant(4352, 128), ranges.into_iter(), 9, 8)
            .unwrap();
        let ranges = golden::annotate(
            &builder.bytes[ITEM_HEADER..],
            &[
                (4, "record 0: crc"),
                (4, "seqno, low half"),
                (2, "key length"),
                (2, "column family"),
                (4, "kind and value length"),
                (4, "key: the start"),
                (2, "value: the end"),
                (2, "zeros"),
                (4, "record 1: crc"),
                (4, "seqno, low half"),
                (2, "key length"),
                (2, "column family"),
                (4, "kind and value length"),
                (4, "key: the start; no end"),
                (36, "zeros to the line"),
            ],
        );
        let expected = include_str!("../tests/golden/range-deletes-v1.txt");
        golden::check("range-deletes", expected, &ranges);
        builder
            .build(&grant(4160, 64), [].into_iter(), 9, 8)
            .unwrap();
        assert_eq!(
            builder.bytes.len(),
            64,
            "an item without records takes one line"
        );
    }
}
