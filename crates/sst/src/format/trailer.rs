//! A block as it is stored: payload, compression, checksum.

use std::borrow::Cow;

use thermocline_base::checksum::{crc32c, seeded};
use thermocline_base::numbers::{len_of, len32, u32_at};
use thermocline_base::planted::{self, Bug};

use super::coding::{Unreadable, damaged, hex};
use super::{DATA_LEN_MAX, INDEX_LEN_MAX, PROPERTIES_LEN_MAX, TOMBSTONES_LEN_MAX, TRAILER_LEN};
use crate::compress::{self, Compressor};
use crate::handle::BlockKind;

/// Bytes of the checksum, with which a trailer ends.
pub(crate) const TRAILER_CRC_LEN: usize = 4;

/// Where the checksum of what lies at `offset` of a file starts from.
pub(crate) fn crc_start(seed: u64, offset: u64) -> u32 {
    if planted::active(Bug::ChecksumIgnoresPlace) {
        return 0;
    }
    seeded(seed, offset)
}

/// Longest payload of a block of this kind.
pub(crate) fn payload_len_max(kind: BlockKind) -> usize {
    match kind {
        BlockKind::Data => DATA_LEN_MAX,
        BlockKind::Index | BlockKind::Filter => INDEX_LEN_MAX,
        BlockKind::RangeTombstones => TOMBSTONES_LEN_MAX,
        BlockKind::Properties => PROPERTIES_LEN_MAX,
    }
}

/// A block whose place is not known yet, but its length is. A payload that is stored as it is stays where it lies.
pub(crate) struct Sealing<'a> {
    payload: Cow<'a, [u8]>,
    trailer: [u8; TRAILER_LEN],
}

impl<'a> Sealing<'a> {
    /// Compresses `payload`, if that saves an eighth.
    pub fn new(kind: BlockKind, payload: &'a [u8], compressor: &mut Compressor) -> Sealing<'a> {
        let len = len32(payload.len()).to_le_bytes();
        let (payload, tag) = compressor.compress(payload);
        let mut trailer = [0; TRAILER_LEN];
        trailer[..2].copy_from_slice(&[tag, kind as u8]);
        trailer[4..8].copy_from_slice(&len);
        Sealing { payload, trailer }
    }

    /// Bytes of the block.
    pub fn len(&self) -> usize {
        self.payload.len() + TRAILER_LEN
    }

    /// Fills in the checksum.
    pub fn finish(&mut self, seed: u64, offset: u64) {
        let (before, crc) = self.trailer.split_at_mut(TRAILER_LEN - TRAILER_CRC_LEN);
        let sum = crc32c(crc_start(seed, offset), &self.payload);
        crc.copy_from_slice(&crc32c(sum, before).to_le_bytes());
    }

    /// The checksum of the checksums of several finished blocks, of which this is the next.
    pub fn sum(&self, sum: u32) -> u32 {
        crc32c(sum, &self.trailer[TRAILER_LEN - TRAILER_CRC_LEN..])
    }

    /// Its bytes, in their order.
    pub fn parts(&self) -> [&[u8]; 2] {
        [&self.payload, &self.trailer]
    }
}

/// The payload of a block that was stored at `offset`. Allocates at most what a block of its kind may
/// hold.
pub(crate) fn open(
    stored: Cow<'_, [u8]>,
    kind: BlockKind,
    seed: u64,
    offset: u64,
) -> Result<Vec<u8>, Unreadable> {
    let Some(end) = stored.len().checked_sub(TRAILER_LEN) else {
        return Err(damaged("length of a block", 0, TRAILER_LEN, stored.len()));
    };
    let crc_at = end + 8;
    let got = u32_at(&stored, crc_at);
    let crc = crc32c(crc_start(seed, offset), &stored[..crc_at]);
    if crc != got && !planted::active(Bug::SkipBlockChecksum) {
        let what = format!("checksum of a block ({kind})");
        return Err(damaged(what, 0, hex(crc), hex(got)));
    }
    if stored[end + 1] != kind as u8 {
        let got = stored[end + 1];
        return Err(damaged("kind of a block", end + 1, kind as u8, got));
    }
    if stored[end + 2] != 0 || stored[end + 3] != 0 {
        return Err(damaged("reserved bytes", end + 2, 0, "others"));
    }
    let len = len_of(u32_at(&stored, end + 4));
    let max = payload_len_max(kind);
    if len > max {
        let limit = format!("at most {max}");
        return Err(damaged("length of a block's payload", end + 4, limit, len));
    }
    let tag = stored[end];
    if tag == compress::TAG_NONE {
        if len != end {
            return Err(damaged("length of a block's payload", end + 4, end, len));
        }
        let mut payload = stored.into_owned();
        payload.truncate(end);
        return Ok(payload);
    }
    compress::decompress(tag, &stored[..end], len).map_err(|e| match e {
        Some(why) => damaged(
            format!("compressed payload of a block: {why}"),
            0,
            len,
            "less",
        ),
        None => damaged("compression of a block", end, "0, 1 or 2", tag),
    })
}
