//! What is counted of a family, while a table is written and while it is checked.

use thermocline_base::{CfId, PmFamily, SeqNo};

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
        smallest: smallest.to_vec(),
        largest: Vec::new(),
        open: true,
    }
}

/// Takes something in that reaches from `smallest` to `largest`, or, if that is `open`, to before it.
pub(crate) fn cover(
    family: &mut PmFamily,
    (smallest, largest): (&[u8], &[u8]),
    open: bool,
    seqno: SeqNo,
) {
    if *smallest < *family.smallest {
        family.smallest = smallest.to_vec();
    }
    // Of two that end with the same key, the one that holds it reaches further.
    if (largest, !open) > (&family.largest[..], !family.open) {
        // Entries ascend, so this happens for each: reuse the memory.
        family.largest.clear();
        family.largest.extend_from_slice(largest);
        family.open = open;
    }
    family.seqnos = (family.seqnos.0.min(seqno), family.seqnos.1.max(seqno));
}
