//! Bytes of blob files that were read before somebody asked for the values in them.

use thermocline_base::{BlobRef, CfId, FileId};
use thermocline_exec::RangeBuf;
use thermocline_sst::BlobFile;

/// Bytes of a blob file, which need not stay open for them.
#[derive(Debug)]
pub struct Piece {
    pub of: BlobFile,
    pub file: FileId,
    pub at: u64,
    pub bytes: RangeBuf,
}

impl Piece {
    /// The value of `key` at `blob`, if all of it lies here and is what it should be.
    pub fn value(&self, (cf, key): (CfId, &[u8]), blob: BlobRef) -> Option<Vec<u8>> {
        let from = blob.offset.checked_sub(self.at)?;
        if self.file != blob.file || from >= self.bytes.len() as u64 {
            return None;
        }
        let end = self.at + self.bytes.len() as u64;
        let (_, len) = self.of.span_with_key(blob, key.len(), end).ok()?;
        let (from, len) = (usize::try_from(from).ok()?, usize::try_from(len).ok()?);
        let stored = self.bytes.get(from..from.checked_add(len)?)?;
        self.of.decode_of((cf, key), blob, stored).ok()
    }
}
