//! Every byte of a table. All numbers are little-endian; `varint` is 1 to 10 bytes of 7 bits each,
//! lowest first, the high bit set on all but the last.
//!
//! ```text
//!  table NNNNNN.sst
//!    data blocks, and between or behind them index blocks of level 0 where there is more than one
//!    (zeros, less than a page, may stand before a block, so that it lies on fewer pages of 4096)
//!    filter            if there is one     \
//!    range tombstones  if there are any     | one behind the other, without gaps
//!    index root                             |
//!    properties                             |
//!    footer, 80 bytes                      /
//!
//!  footer, the same shape in every format version
//!  offset size
//!       0   16  database id
//!      16    8  file id
//!      24    8  length of the file, footer included
//!      32    8  offset of the filter: where data and index blocks end
//!      40    4  length of the filter, 0 if there is none
//!      44    4  length of the range tombstones, 0 if there are none
//!      48    4  length of the index root
//!      52    4  length of the properties
//!      56    8  reserved, 0
//!      64    4  CRC32C of bytes 0..64 and 68..80
//!      68    4  format version, 1
//!      72    8  magic "THCLTABL"
//!
//!  block as stored; all lengths above and in handles count the trailer
//!       0    n  payload, compressed or not
//!       n    1  compression: 0 none, 1 LZ4, 2 Zstandard
//!     n+1    1  kind: 1 data, 2 index, 3 filter, 4 range tombstones, 5 properties
//!     n+2    2  reserved, 0
//!     n+4    4  length of the payload before compression
//!     n+8    4  CRC32C of everything before, started from seeded(table seed, offset in the file)
//!
//!  payload of data blocks (head 0 bytes) and index blocks (head 4 bytes)
//!       0    h  head; of an index block: kind of index (1: binary), level, 2 reserved, 0; an index
//!               root of kind 2 (learned) is drawn in `learned/format.rs`, and has no blocks below
//!       h       entries
//!               4 each: offset of a restart point from the first entry
//!            4  number of restart points, at least one in 128 entries
//!
//!  entry
//!       varint  length of the key's beginning that it shares with the entry before; 0 at a
//!               restart point
//!       varint  length of the key's rest
//!       varint  length of the value
//!            1  tag; of a data entry: kind (1 put, 2 delete, 3 merge), plus 16 for a value in a
//!               blob file; of an index entry: 0
//!       varint  seqno
//!               rest of the key, value
//!
//!  value in a blob file      8 file id, 8 offset of the record, 4 length of the value
//!  value of an index entry   varint offset, varint length of a block; its key and seqno are not
//!                            below those of any entry of that block, and below those behind it
//!
//!  payload of the filter
//!       0    1  kind of filter, 1: binary fuse, 8 bits
//!       1    3  reserved, 0
//!       4    8  seed
//!      12    4  length of a segment, a power of two
//!      16    4  length of all first segments, a multiple of it
//!      20       fingerprints, 1 byte each: of all first segments, and of two segments more
//!
//!  payload of the range tombstones: one after the other, by start, then newest first
//!       varint  length of the start; 65,536: it is that of the one before
//!       varint  length of the end; 0: it is that of the one before
//!       varint  seqno
//!               start, end, unless as before
//!
//!  payload of the properties: tag (1), length of the body (4), body; a tag with bit 7 set must be
//!  known, another one may be passed over
//!  0x81 Identity    16 database id, 8 file id, 2 column family
//!  0x82 Counts      8 each: entries, deletes, merges, range tombstones, user keys, bytes of keys,
//!                   bytes of inline values, data blocks, bytes of data blocks
//!  0x83 Seqnos      8 smallest, 8 largest; left out of an empty table
//!  0x84 Smallest    8 seqno, key; left out of an empty table
//!  0x85 Largest     8 seqno, key; left out of an empty table
//!  0x86 Blob        8 file id, 8 values, 8 bytes; once for each blob file, ascending
//!  0x07 Creation    1 why, 1 compression, 4 block size, 2 restart interval
//!  0x08 Index       1: 2 learned, 3 binary since a learned one did not fit; left out of a table that
//!                   was to have a binary one
//!  0x09 Blocks      4 CRC32C of the CRC32Cs of all other blocks, in their order; last; not in older tables
//!  0x0a Prefixes    1 length of prefixes in the filter, from 1 on; before 0x09; left out if it has none
//! ```
//!
//! The *table seed* is `id_low ^ rotl32(id_high) ^ file id × 0x9fb21c651e98df25` of the database id's
//! halves. Filters hold XXH3-64 of user keys under the table seed; and, if there is the property
//! Prefixes, of the first bytes of each user key that is as long, under `table seed ^ 0x6a09e667f3bcc908`.

pub(crate) mod coding;
pub(crate) mod entry;
pub(crate) mod footer;
pub(crate) mod properties;
pub(crate) mod trailer;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Blocks are placed so that they lie on as few pages of this size as they can.
pub const PAGE_BYTES: usize = 4096;

/// Bytes that follow the payload of every block.
pub const TRAILER_LEN: usize = 12;

/// Bytes of the footer.
pub const FOOTER_LEN: usize = 80;

/// Longest payload of a data block before compression.
pub const DATA_LEN_MAX: usize = 2 << 20;

/// Longest payload of an index block or filter before compression. This limit and the others here bound
/// what opening a table takes in memory, whoever wrote it, to less than 128 MiB: most of that are a learned index whose groups
/// have long lowest keys, and range tombstones of seven bytes each, which take 32.
pub const INDEX_LEN_MAX: usize = 6 << 20;

/// Longest payload of the range tombstones before compression.
pub const TOMBSTONES_LEN_MAX: usize = 4 << 20;

/// As the length of a range tombstone's start: it is that of the one before.
pub(crate) const START_AS_BEFORE: u64 = 1 << 16;

/// As the length of a range tombstone's end: it is that of the one before.
pub(crate) const END_AS_BEFORE: u64 = 0;

/// Longest payload of the properties before compression.
pub const PROPERTIES_LEN_MAX: usize = 1 << 20;

/// Most entries from one restart point to the next: a look goes through a run one by one.
pub const RUN_LEN_MAX: usize = 128;

/// Most blob files that a table refers to.
pub const BLOB_FILES_MAX: usize = 16 << 10;

/// Bytes before the entries of an index block.
pub(crate) const INDEX_HEAD: usize = 4;

/// The kind of index whose blocks are searched by bisection.
pub(crate) const INDEX_BINARY: u8 = 1;

/// The kind of index that computes where a key lies; its root is all of it.
pub(crate) const INDEX_LEARNED: u8 = 2;

/// Longest payload of a learned index. What is decoded of it takes up to 20 times as much memory, and 32 MiB for keys.
pub(crate) const LEARNED_LEN_MAX: usize = 1 << 20;

/// The kind of filter that is a binary fuse filter with 8-bit fingerprints.
pub(crate) const FILTER_FUSE8: u8 = 1;

/// Bytes of a filter before its fingerprints.
pub(crate) const FILTER_HEAD: usize = 20;

use thermocline_base::limits;

const _: () = assert!(
    limits::VALUE_INLINE_MAX + limits::KEY_LEN_MAX + 64 < DATA_LEN_MAX,
    "a block may have to hold one entry of any size"
);
const _: () = assert!(
    START_AS_BEFORE > limits::KEY_LEN_MAX as u64 && END_AS_BEFORE == 0,
    "no start is so long, and no end is empty"
);
const _: () = assert!(
    BLOB_FILES_MAX * 29 + 4 * limits::KEY_LEN_MAX < PROPERTIES_LEN_MAX,
    "the properties may have to name all blob files and two keys"
);
