//! Whether an item is there.

use thermocline_base::Result;
use thermocline_base::checksum::crc32c;
use thermocline_base::planted::{Bug, active};
use thermocline_pm::{LINE, PmOff, Region};

use crate::chain::{Chain, Segment};
use crate::format::{
    ITEM_HEADER, ItemHeader, RECORD_HEADER, RecordHeader, item_crc_start, seqno_low, stored_crc,
};

/// Items have seqnos below this one. No manifest takes one from 2^63 on (`version`), and behind the last that recovery has seen
/// it leaves out as many as a region may have held, which are fewer than 2^48. A larger one is damage, whatever the
/// checksum says.
pub(super) const SEQNO_END: u64 = (1 << 63) - (1 << 48);

/// The seqno behind an item with so many records from `first` on; `None` if there is no such item.
pub(crate) fn behind(first: u64, count: u32) -> Option<u64> {
    let behind = first.checked_add(u64::from(count));
    behind.filter(|behind| *behind <= SEQNO_END)
}

/// A valid item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemRef {
    /// Where it begins.
    pub at: PmOff,
    /// Its length on whole lines.
    pub bytes: u32,
    /// Its records.
    pub count: u32,
    /// Seqno of its first record.
    pub first_seqno: u64,
}

impl ItemRef {
    /// The seqno behind its last record.
    pub fn next_seqno(&self) -> u64 {
        self.first_seqno + u64::from(self.count)
    }
}

/// The item at `at`, with its `published`, if header and keys verify.
pub(crate) fn item_at(
    region: &Region,
    chain: &Chain,
    segment: &Segment,
    at: PmOff,
) -> Result<Option<(ItemRef, u64)>> {
    let Some(header) = claim_at(region, chain, segment, at)? else {
        return Ok(None);
    };
    let header_bytes = region.bytes(at, ITEM_HEADER)?;
    let length = u64::from(header.length);
    let mut crc = crc32c(item_crc_start(chain.seed, at.0), &header_bytes[4..]);
    let mut record = at.plus(ITEM_HEADER as u64);
    let end = at.plus(length);
    for stored in (header.first_seqno..).take(header.count as usize) {
        if record.0 + RECORD_HEADER as u64 > end.0 {
            return Ok(None);
        }
        let head = RecordHeader::decode(region.bytes(record, RECORD_HEADER)?);
        // Readers believe the record, so it must not say another seqno than its place.
        let placed = head.seqno_low == seqno_low(stored);
        if record.0 + head.padded() as u64 > end.0 || head.kind().is_none() || !placed {
            return Ok(None);
        }
        crc = crc32c(crc, region.bytes(record, head.head_len())?);
        record = record.plus(head.padded() as u64);
    }
    if record != end || crc != stored_crc(header_bytes) {
        return Ok(None);
    }
    Ok(item_of(chain, at, &header))
}

/// The header at `at`, if it could be one of an item of the chain: what it claims is not yet verified.
pub(super) fn claim_at(
    region: &Region,
    chain: &Chain,
    segment: &Segment,
    at: PmOff,
) -> Result<Option<ItemHeader>> {
    let left = segment.to.0 - at.0;
    if left < LINE {
        return Ok(None);
    }
    let header_bytes = region.bytes(at, ITEM_HEADER)?;
    let header = ItemHeader::decode(header_bytes);
    let length = u64::from(header.length);
    let generation_ok =
        header.zone_generation == segment.zone_generation || active(Bug::StaleZoneGeneration);
    if header.chain != chain.id
        || header.incarnation != chain.incarnation
        || !generation_ok
        || length < ITEM_HEADER as u64
        || header.padded() > left
        || u64::from(header.count) > (length - ITEM_HEADER as u64) / RECORD_HEADER as u64
        || header.first_seqno == 0
        || header.published >= header.first_seqno
        || behind(header.first_seqno, header.count).is_none()
    {
        return Ok(None);
    }
    Ok(Some(header))
}

/// The item whose header, which verifies with its keys, lies at `at`, with its `published`.
pub(super) fn item_of(chain: &Chain, at: PmOff, header: &ItemHeader) -> Option<(ItemRef, u64)> {
    let bytes = u32::try_from(header.padded()).unwrap_or(u32::MAX);
    let first_seqno = chain.seqno(header.first_seqno);
    let first_seqno = first_seqno.filter(|first| behind(*first, header.count).is_some())?;
    let item = ItemRef {
        at,
        bytes,
        count: header.count,
        first_seqno,
    };
    // A staged item vouches for nothing: it did not know what came before.
    let published = if chain.staged { 0 } else { header.published };
    Some((item, published))
}
