//! The tombstones of ranges of keys.

use thermocline_base::SeqNo;

/// All keys from `start` up to, and not with, `end` have no value older than `seqno`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The first key that it covers.
    pub start: Vec<u8>,
    /// The first key behind it.
    pub end: Vec<u8>,
    /// When it was written.
    pub seqno: SeqNo,
}

impl RangeTombstone {
    /// What of it lies from `lower` on and before `upper`, if anything does.
    pub fn cut(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Option<RangeTombstone> {
        let start = lower.map_or(&self.start[..], |lower| lower.max(&self.start));
        let end = upper.map_or(&self.end[..], |upper| upper.min(&self.end));
        (start < end).then(|| RangeTombstone {
            start: start.to_vec(),
            end: end.to_vec(),
            seqno: self.seqno,
        })
    }
}
