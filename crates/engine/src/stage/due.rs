//! Which batches are staged: those that cannot go as one item into what a memtable can get.

use thermocline_base::{BatchEntry, Error, Result};
use thermocline_commit::Entries;
use thermocline_halloc::Pieces;
use thermocline_memtable::{ITEM_HEADER, RECORD_HEADER};
use thermocline_policy::tuning::STAGED_ITEM_BYTES;

use crate::store::Stager;

/// What is behind the text of the error with which a batch is refused as one item that goes in pieces. That is decided once, where
/// the batch is refused; and an error is all that comes from there, through the groups of `commit`, which other threads may
/// lead.
const IN_PIECES: &str = "; it goes in several pieces";

/// Whether a batch that was refused with `error` as one item is staged.
#[cold]
pub(crate) fn goes_in_pieces(error: &Error) -> bool {
    matches!(error, Error::OutOfSpace(text) if text.ends_with(IN_PIECES))
}

/// Whether a stage, whose items have at most `item_bytes_max` bytes, would find zones for all these records. It goes through them,
/// and goes on behind the zone at hand, as `memtable::stage` does. A batch that it cannot take would have most zones before it was
/// refused, and others none.
fn packs<'a>(
    mut pieces: Pieces,
    entries: impl Iterator<Item = BatchEntry<'a>>,
    item_bytes_max: u64,
) -> bool {
    let most = item_bytes_max.min(STAGED_ITEM_BYTES);
    let item = |records: u64| (ITEM_HEADER as u64 + records).next_multiple_of(64);
    // What is left of the zone at hand, and bytes of the records of the next item, for which there is room.
    let (mut left, mut records) = (0, 0);
    for entry in entries {
        let record = RECORD_HEADER + entry.key.len() + entry.value.len();
        let record = record.next_multiple_of(8) as u64;
        if records > 0 && item(records + record) <= most.min(left) {
            records += record;
            continue;
        }
        if records > 0 {
            left -= item(records);
        }
        if left < item(record) {
            match pieces.take(left, item(record)) {
                Some(data) => left = data,
                None => return false,
            }
        }
        records = record;
    }
    true
}

impl Stager {
    /// Whether a batch of `records` records that would take `bytes` bytes as one item is staged from the first: it is
    /// larger than an item may be, or than the longest run of zones that the region can have.
    #[inline]
    pub fn is_oversized(&self, records: usize, bytes: u64) -> bool {
        let most = self.common.options.memtable.item_bytes_max;
        records > 1 && (bytes > most || self.common.space.needs_pieces(bytes))
    }

    /// The error of such a batch, which was refused with `error` as one item, and nothing has happened. It says whether the batch
    /// [goes in pieces](goes_in_pieces): the region was what was full, and free zones have room for all of its records, but
    /// do not lie side by side. A flush would have made room, had it helped.
    #[cold]
    pub fn refused_as_item<'a>(
        &self,
        error: Error,
        entries: impl Entries<'a>,
        bytes: u64,
    ) -> Error {
        // What lacks something else has waited for that, and would wait again.
        let is_staged = self.common.space.says_full(&error) && self.takes_pieces(entries, bytes);
        match error {
            Error::OutOfSpace(text) if is_staged => Error::OutOfSpace(text + IN_PIECES),
            other => other,
        }
    }

    fn takes_pieces<'a>(&self, entries: impl Entries<'a>, bytes: u64) -> bool {
        let most = self.common.options.memtable.item_bytes_max;
        let pieces = || self.common.space.pieces_alone(bytes);
        entries.len() > 1
            && self.common.poison.check().is_ok()
            && pieces().is_some_and(|pieces| packs(pieces, entries, most))
    }

    /// Refuses a batch that is staged from the first if it asked not to wait. Before it is admitted: it would owe what nobody
    /// writes, and others would wait for that.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[inline]
    pub fn check_waits(&self, bytes: u64, no_slowdown: bool) -> Result<()> {
        match no_slowdown {
            true => Err(self.always_waits(bytes)),
            false => Ok(()),
        }
    }

    /// The error for a batch that is staged, and asked not to wait.
    #[cold]
    fn always_waits(&self, bytes: u64) -> Error {
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
