//! Blob files: values that lie apart from their keys.
//!
//! A blob file is a header and records, nothing behind them: a reference (file, offset, length) is
//! enough to read a value, in one read. Records carry their user key and column family, so that a
//! collector can ask, record by record and without reading values, whether an entry still refers to
//! it. They carry no seqno: a value is durable in its blob file *before* its write is given one.
//!
//! 1. **Durable before it is named.** A reference may enter a memtable or table only after
//!    [`BlobWriter::sync`] has returned, and the name of the file is durable.
//! 2. **Never other bytes.** A value is returned only if its checksum, started from database, file
//!    and offset, and the length in the reference agree; and, for who says whose it is, key and family, too.
//! 3. **Append only.** A record, once synced, is never written again; after a failed write or sync the
//!    writer takes no more, since what lies behind the last good sync is unknown.

mod format;
mod reader;
mod writer;

pub use format::{BLOB_FORMAT_VERSION, BLOB_HEADER_LEN, RECORD_HEADER_LEN};
pub(crate) use format::{RECORD_ALIGN, encode_header};
pub use reader::{
    BlobEntry, BlobFile, BlobRecords, hash_record_headers, read_blob, read_blob_of, verify_blobs,
    verify_blobs_with,
};
pub use writer::{BlobMeta, BlobWriter};
