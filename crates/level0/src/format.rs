//! Every byte of a PM table. All numbers are little-endian; `varint` is 1 to 10 bytes of 7 bits each,
//! lowest first, the high bit set on all but the last.
//!
//! ```text
//!  table: one piece in each of its zones (or runs of zones), in order of the zones' ordinals
//!
//!  piece, from the first byte for data of its zone; offsets count from there
//!    header, 128 bytes
//!    values              those that lie apart from their keys, one behind the other
//!    groups              the entry layer, one behind the other
//!    zeros to a multiple of 256 of the region
//!    arrays              the prefix layer: one for each run, each from a multiple of 64 on
//!    runs                the meta layer
//!    range tombstones    only in the last piece
//!    zeros to the line
//!
//!  header, the same shape in every format version
//!  offset size
//!       0    8  magic "THCLPMTB"
//!       8    4  format version, 1
//!      12    4  CRC of bytes 0..12 and 16..128
//!      16   16  database id
//!      32    8  table id: the owner of its zones
//!      40    8  generation of the zone
//!      48    4  ordinal of the zone
//!      52    1  flags: 1 the last piece
//!      53    1  most entries of a group, 8 or 16
//!      54    2  zeros
//!      56    8  entries of the piece
//!      64    4  offset of the groups: where values end
//!      68    4  offset of the arrays
//!      72    4  offset of the runs
//!      76    4  offset of the range tombstones: where runs end
//!      80    4  where range tombstones end
//!      84    4  groups
//!      88    4  CRC of the runs
//!      92    4  CRC of the range tombstones, 0 if there are none
//!               of the whole table, and only in the last piece; else zeros:
//!      96    8  entries
//!     104    8  smallest seqno, of entries and range tombstones
//!     112    8  largest seqno
//!     120    8  range tombstones
//!
//!  group
//!       0    4  CRC of the rest of it
//!       4    4  length of the group
//!       8    4  offset of its first value that lies apart
//!      12    1  entries, 1 to 16
//!      13       varint: the smallest seqno in the group; entries
//!
//!  entry
//!            1  tag: kind (1 put, 2 delete, 3 merge), plus 16 for a value in a blob file, plus 32
//!               for a value that lies apart
//!       varint  of the first entry: length of the key; of others: length of the key's beginning that
//!               it shares with the entry before
//!       varint  not of the first entry: length of the key's rest
//!       varint  seqno, less the smallest
//!       varint  length of the value; not of a delete or of a value in a blob file
//!            4  CRC of the value, if that lies apart
//!               rest of the key; of the first entry: without what its run and its prefix say
//!               value, if it does not lie apart; in a blob file: file id (8), offset (8), length (4)
//!
//!  array of a run: blocks of 256 bytes, the last one shorter
//!       0    4  CRC of the rest of it
//!       4       for each group: prefix, offset of the group (4); as many as fit
//!
//!  run
//!       0    2  column family
//!       2    1  length of prefixes, 4 to 56, a multiple of 4
//!       3    1  length of what the keys share
//!       4    4  groups
//!       8    4  offset of the array
//!      12    2  length of the separator
//!      14    2  zeros
//!      16    8  seqno of the separator
//!      24       what the keys share; separator
//!
//!  range tombstone: by family, then start, then newest first
//!            2  column family
//!       varint  length of the start plus 1; 0: it is that of the one before
//!       varint  length of the end plus 1; 0: it is that of the one before
//!       varint  seqno
//!               start, end, unless as before
//! ```
//!
//! All CRCs are CRC32C and start from `seeded(seed, place)`: the place is the offset in the region of
//! what they cover (of header, group and block: of its first byte), and the seed XXH3-64 of database id,
//! table id and zone generation, one behind the other.
//!
//! A **prefix** is the bytes of the group's first key behind what the keys of its run share, as many as
//! prefixes of the run have, zeros behind a key that is shorter. The first key of a group is what the run
//! shares, its prefix (cut to the key's length), and the rest in its entry. A **separator** is not above
//! the first entry of its run, and above every entry before it.

pub(crate) mod coding;
pub(crate) mod group;
pub(crate) mod header;
pub(crate) mod runs;

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};
use thermocline_base::limits;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of a piece's header.
pub(crate) const HEADER_LEN: usize = 128;

/// Bytes of a full block of an array: what media like Optane's read at once.
pub(crate) const BLOCK_LEN: usize = 256;

/// Arrays begin at multiples of this.
pub(crate) const ARRAY_ALIGN: usize = 64;

/// Bytes of a group before its smallest seqno.
pub(crate) const GROUP_HEAD: usize = 13;

/// The lengths of prefixes that are tried: multiples of 4 of which a block's bytes are nearly all used.
pub(crate) const PREFIX_LENS: [usize; 9] = [4, 8, 12, 16, 20, 24, 32, 44, 56];

/// The longest prefix.
pub(crate) const PREFIX_MAX: usize = 56;

/// Most bytes that keys of a run are said to share.
pub(crate) const SHARED_MAX: usize = 255;

/// Bytes of a run before its keys.
pub(crate) const RUN_HEAD: usize = 24;

/// A value up to this long lies with its key: it costs less to check than to fetch from elsewhere.
pub(crate) const INLINE_MAX: usize = 32;

/// A group with so many bytes ends, however few its entries: all of it is checked to read one.
pub(crate) const GROUP_LEN_FULL: usize = 4096;

/// Most bytes of a table's range tombstones.
pub const TOMBSTONES_LEN_MAX: usize = 4 << 20;

/// Most blob files that a table refers to.
pub const BLOB_FILES_MAX: usize = 16 << 10;

/// The value lies in a blob file.
pub(crate) const TAG_BLOB: u8 = 16;

/// The value lies apart from its key.
pub(crate) const TAG_APART: u8 = 32;

const _: () = assert!(limits::KEY_LEN_MAX <= u16::MAX as usize);
const _: () = assert!(limits::VALUE_INLINE_MAX < 1 << 28);
const _: () = assert!(PREFIX_LENS[PREFIX_LENS.len() - 1] == PREFIX_MAX);

/// The seed of all checksums in a piece.
pub(crate) fn piece_seed(db_id: &[u8; 16], table: u64, zone_generation: u64) -> u64 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(db_id);
    bytes[16..24].copy_from_slice(&table.to_le_bytes());
    bytes[24..].copy_from_slice(&zone_generation.to_le_bytes());
    hash64_seeded(&bytes, 0)
}

/// The CRC of bytes that belong to what begins at `place` of the region.
pub(crate) fn crc_at(seed: u64, place: u64, bytes: &[u8]) -> u32 {
    crc32c(seeded(seed, place), bytes)
}

/// How many groups a full block of an array names.
pub(crate) fn block_groups(prefix_len: usize) -> usize {
    (BLOCK_LEN - 4) / (prefix_len + 4)
}

/// Bytes of an array of so many groups.
pub(crate) fn array_len(groups: usize, prefix_len: usize) -> usize {
    let full = block_groups(prefix_len);
    let rest = match groups % full {
        0 => 0,
        n => 4 + n * (prefix_len + 4),
    };
    groups / full * BLOCK_LEN + rest
}
