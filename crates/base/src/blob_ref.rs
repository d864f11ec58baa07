//! References to values in blob files. A reference is the value of a record or entry whose own value was written to a
//! blob file.
//!
//! ```text
//!  0   file      8
//!  8   offset    8   of the record in the file
//! 16   len       4   of the value, as it is stored
//! 20
//! ```

use std::fmt;

use crate::file::FileId;
use crate::numbers::{u32_at, u64_at};

/// Bytes of a reference to a value in a blob file.
pub const BLOB_REF_LEN: usize = 20;

/// The place of a value in a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobRef {
    /// The blob file.
    pub file: FileId,
    /// Offset in the file of the value's record, in bytes.
    pub offset: u64,
    /// The value's length in bytes, as it is stored: it may be compressed.
    pub len: u32,
}

/// The bytes of a reference.
pub fn encode_blob_ref(blob: BlobRef) -> [u8; BLOB_REF_LEN] {
    let mut bytes = [0; BLOB_REF_LEN];
    bytes[..8].copy_from_slice(&blob.file.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&blob.offset.to_le_bytes());
    bytes[16..].copy_from_slice(&blob.len.to_le_bytes());
    bytes
}

/// Reads the bytes that [`encode_blob_ref`] wrote; `None` if their length is not that of a reference.
///
/// ```
/// use thermocline_base::blob_ref::{decode_blob_ref, encode_blob_ref};
/// use thermocline_base::{BlobRef, FileId};
/// let blob = BlobRef { file: FileId(7), offset: 4096, len: 100 };
/// let bytes = encode_blob_ref(blob);
/// assert_eq!(decode_blob_ref(&bytes), Some(blob));
/// assert_eq!(decode_blob_ref(&bytes[1..]), None);
/// ```
#[inline]
pub fn decode_blob_ref(bytes: &[u8]) -> Option<BlobRef> {
    (bytes.len() == BLOB_REF_LEN).then(|| BlobRef {
        file: FileId(u64_at(bytes, 0)),
        offset: u64_at(bytes, 8),
        len: u32_at(bytes, 16),
    })
}

impl fmt::Display for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlobRef { file, offset, len } = self;
        write!(f, "{len} bytes at offset {offset} of blob file {file}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_lies_in_its_place() {
        let blob = BlobRef {
            file: FileId(0x0102_0304_0506_0708),
            offset: 0x1112_1314_1516_1718,
            len: 0x2122_2324,
        };
        let bytes = encode_blob_ref(blob);
        let file = [8, 7, 6, 5, 4, 3, 2, 1];
        let offset = [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11];
        let len = [0x24, 0x23, 0x22, 0x21];
        assert_eq!(bytes[..], [&file[..], &offset, &len].concat());
        assert_eq!(decode_blob_ref(&bytes), Some(blob));
        for wrong in [&[][..], &bytes[..19], &[0; 21]] {
            assert_eq!(decode_blob_ref(wrong), None);
        }
    }
}
