//! What is counted of a family and of zones, while a table is written and while it is checked.

use thermocline_base::{CfId, KeyRange, PmFamily, SeqNo};
use thermocline_halloc::{ZONE_HEADER_BYTES, Zone};

/// What a zone takes of the region.
pub(crate) fn bytes_of(zone: &Zone) -> u64 {
    zone.end.0 - zone.data.0 + ZONE_HEADER_BYTES
}

/// Nothing yet.
pub(crate) fn empty(cf: CfId, smallest: &[u8]) -> PmFamily {
    PmFamily {
        cf,
        entries: 0,
        deletes: 0,
        merges: 0,
        range_tombstones: 0,
        key_bytes: 0,
        value_bytes: 0,
        seqnos: (SeqNo::MAX, SeqNo::ZERO),
        range: KeyRange::until(smallest.to_vec(), Vec::new()),
    }
}

/// Takes something in that reaches over `range`.
pub(crate) fn cover(family: &mut PmFamily, range: KeyRange<&[u8]>, seqno: SeqNo) {
    let own = &mut family.range;
    if *range.first < *own.first {
        own.first = range.first.to_vec();
    }
    if range.end() > own.end() {
        // Entries ascend, so this happens for each: reuse the memory.
        own.last.clear();
        own.last.extend_from_slice(range.last);
        own.open = range.open;
    }
    family.seqnos = (family.seqnos.0.min(seqno), family.seqnos.1.max(seqno));
}
