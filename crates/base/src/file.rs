//! Numbers of files, and where a separated value lies.

use std::fmt;

/// The number of a table or blob file within its database. Never given out twice, so that bytes of
/// an earlier file are never taken for another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct FileId(pub u64);

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where the value of a key lies that was written to a blob file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobRef {
    /// The blob file.
    pub file: FileId,
    /// Where its record begins, in bytes.
    pub offset: u64,
    /// The value's length in bytes.
    pub len: u32,
}

impl fmt::Display for BlobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BlobRef { file, offset, len } = self;
        write!(f, "{len} bytes at offset {offset} of blob file {file}")
    }
}
