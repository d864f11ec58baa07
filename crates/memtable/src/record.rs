//! A record where it lies.

use thermocline_base::{BlobRef, Kind, SeqNo};
use thermocline_pm::PmOff;

use crate::format::RECORD_HEADER;
use thermocline_base::blob_ref::decode_blob_ref;

/// A record where it lies.
#[derive(Debug, Clone, Copy)]
pub struct RecordRef<'a> {
    /// Where it begins.
    pub at: PmOff,
    /// Its place in the order of writes.
    pub seqno: SeqNo,
    /// What it says of the key.
    pub kind: Kind,
    /// The user key.
    pub key: &'a [u8],
    /// The value; empty for a delete; of a range delete where it ends ([`Kind::RangeDelete`]); of a
    /// [`Kind::PutBlob`] where it lies, as [`RecordRef::blob`] reads it.
    pub value: &'a [u8],
}

impl RecordRef<'_> {
    /// Where its value begins.
    pub fn value_at(&self) -> PmOff {
        self.at.plus((RECORD_HEADER + self.key.len()) as u64)
    }

    /// Where its value lies in a blob file, if it lies there.
    pub fn blob(&self) -> Option<BlobRef> {
        match self.kind {
            Kind::PutBlob => decode_blob_ref(self.value),
            _ => None,
        }
    }
}
