//! Which batches are staged: those that cannot go as one item into what a memtable can get.

use thermocline_base::Error;

use crate::store::Stager;

impl Stager {
    /// Whether a batch of `records` records that would take `bytes` bytes as one item is staged from the first: it is
    /// larger than an item may be, or than the longest run of zones that the region can have.
    #[inline]
    pub fn is_oversized(&self, records: usize, bytes: u64) -> bool {
        let most = self.common.options.memtable.item_bytes_max;
        records > 1 && (bytes > most || self.common.space.needs_pieces(bytes))
    }

    /// Whether such a batch is staged, after it was refused with `error` as one item, and nothing has happened: free zones
    /// have room for it, but do not lie side by side. A flush would have made room, had it helped.
    #[cold]
    pub fn takes_refused(&self, error: &Error, records: usize, bytes: u64) -> bool {
        matches!(error, Error::OutOfSpace(_))
            && records > 1
            && self.common.space.has_pieces_alone(bytes)
            && self.common.poison.check().is_ok()
    }

    /// The error for such a batch that asked not to wait.
    #[cold]
    pub(super) fn always_waits(&self, bytes: u64) -> Error {
        let most = self.common.options.memtable.item_bytes_max;
        let why = match bytes > most {
            true => format!("exceeds memtable.item_bytes_max, {most}"),
            false => "fits the region in several pieces only".to_string(),
        };
        Error::Busy(format!(
            "a batch of {bytes} bytes {why}: it always waits for the manifest, and it asked not to; write smaller \
             batches, or let this one wait"
        ))
    }
}
