//! Every byte of the manifest and of `CURRENT`. All numbers are little-endian.
//!
//! ## `MANIFEST-nnnnnn`
//!
//! A header of 64 bytes, then records, each at a multiple of 8.
//!
//! ```text
//!  header, the same shape in every format version
//!  offset size
//!       0    8  magic "THCLMANI"
//!       8    4  format version, 1
//!      12    4  reserved, 0
//!      16    8  file number, the one in the name
//!      24   16  database id
//!      40    8  durable length: the snapshot's end, durable before CURRENT named this file
//!      48   12  reserved, 0
//!      60    4  CRC32C of bytes 0..60
//!
//!  record
//!       0    4  payload length n, 1 ..= 64 MiB
//!       4    4  CRC32C of the length, the payload and the padding, started from
//!               seeded(database id, file number; offset of the record)
//!       8    n  payload: one edit, or a pointer
//!     8+n  0-7  padding to a multiple of 8, 0
//!
//!  edit: changes, one after the other
//!       0    1  tag; a tag with bit 7 set must be known, another one may be passed over
//!       1    4  body length m
//!       5    m  body
//!
//!  tag  body
//!  0x01 PartitionRates      4 count; each: 2 column family, 4 partition, then in a thousand seconds
//!                           8 reads, 8 writes, 8 updates
//!  0x02 JobDone             1 whether of one column family (0 or 1), 2 column family (0 if not), 1 level that tables
//!                           left (255: memtables), 1 level that they went to; 8 seconds since 1970; 8 inputs, 8 bytes of them, 8 tables, 8 of those in
//!                           persistent memory, 8 bytes read, 8 bytes written, 8 entries read, 8 dropped;
//!                           nanoseconds: 8 in all, 8 reading, 8 writing, 8 syncing; 4 length, work, 4 length,
//!                           why (UTF-8)
//!  0x81 Created             16 database id, 16 region id
//!  0x82 Options             4 count; each: 4 length, name, 4 length, value (UTF-8)
//!  0x83 ColumnFamilyCreated 2 id; the rest: name (UTF-8)
//!  0x84 ColumnFamilyDropped 2 id
//!  0x85 MemtableCreated     8 id
//!  0x86 MemtableDropped     8 id
//!  0x87 ChainOpened         8 chain, 8 memtable, 4 incarnation, 8 nonce, 8 base seqno,
//!                           1 whether it has a start (0 or 1), 8 start (0 if none)
//!  0x88 ChainCut            8 chain, 8 last seqno, 8 end
//!  0x89 NextIds             8 chain, 8 memtable, 4 column family, 4 incarnation
//!  0x8a ColumnFamilyOptions 2 id; then as Options
//!  0x8b ChainAdopted        8 chain, 8 memtable, 4 incarnation, 8 nonce, 8 base seqno,
//!                           8 last seqno, 8 end
//!  0x8c NextIds             as 0x89; 8 file, not 0; written once there was a file
//!  0x8d TableAdded          place; table reference
//!  0x8e TableRemoved        place, 8 file; the rest: smallest user key of the reference
//!  0x8f BlobFileAdded       8 file, 8 bytes
//!  0x90 BlobFileRemoved     8 file
//!  0x91 PartitionCreated    2 column family, 4 partition; the rest: first user key
//!  0x92 FilesInherited      8 bound, 16 database id; in copies of databases only
//!  0x93 FlushedUpTo         8 seqno; in copies of databases, once tables were ingested, where an evacuation ends, where a
//!                           flushed memtable is dropped before an older one, and where a filter or a TTL has changed tables
//!  0x94 PmTableAdded        PM table
//!  0x95 PmTableRemoved      8 number
//!  0x96 PartitionRemoved    as 0x91
//!  0x98 LongValues          nothing; before the first blob file that a write makes
//!  0x99 Evacuated           8 above, 8 up to (seqnos), 2 column family; the rest: user key
//!  0x9b PreparedTransactions nothing; before the first transaction that is prepared
//!  0x9c WriteTimes          4 count; each: 8 seqno, 8 seconds since 1970; both rise, from those of the change before on
//!  0xb0 BlobValues          8 file, 8 bytes; with each blob file, behind BlobFileAdded
//!
//!  pointer: as a change, alone in its record, which is the last one
//!  0x9a ContinuedIn         8 file number, above this file's: the manifest that goes on
//!
//!  place
//!       0    2  column family
//!       2    4  0: tables stand in levels that all partitions of a family have in common
//!       6    1  level, 0 ..= 7
//!
//!  table reference
//!       0    1  kind: 1 a whole table, 2 a part of one; 3 is reserved: virtual, a key range and
//!               parents, newest first
//!       1    1  flags: 1 the largest user key lies behind the range; of a part: 2 limited below by
//!               the smallest user key, 4 limited above by the largest, which lies behind then
//!       2    8  file
//!      10    8  bytes of the file
//!      18    8  entries
//!      26    8  deletes
//!      34    8  smallest seqno
//!      42    8  largest seqno
//!      50  4+n  length, smallest user key
//!          4+m  length, largest user key
//!            4  count; each: 8 blob file, 8 bytes referred to there; files ascend
//!            8  of a part: estimated bytes
//!
//!  PM table: what is known of a table in persistent memory, beside the references to it
//!       0    8  number, by which references name it (in place of a file)
//!       8    8  owner of its zones
//!      16    4  zones
//!      20    8  bytes of the zones
//!      28    8  bytes written
//!      36    8  entries
//!      44    8  range tombstones
//!      52    8  smallest seqno
//!      60    8  largest seqno
//!      68    4  count of families; each:
//!                 2 family, 1 whether the largest user key lies behind the range,
//!                 8 entries, 8 deletes, 8 merges, 8 range tombstones, 8 bytes of keys,
//!                 8 bytes of inline values, 8 smallest seqno, 8 largest seqno,
//!                 4+n length, smallest user key, 4+m length, largest user key; families ascend
//!            4  count of blob files; each: 8 blob file, 8 values, 8 bytes; files ascend
//! ```
//!
//! Virtual tables are only named here: whoever meets them refuses the manifest as newer, as older
//! builds do with partitions.
//!
//! ## `CURRENT`
//!
//! ```text
//!  the live manifest's name, "\n"
//!  32 hexadecimal digits: the database id, "\n"
//!  8 hexadecimal digits: CRC32C of everything before, "\n"
//! ```
//!
//! `DESTROYING` has the same bytes: it is what `CURRENT` is called while its database is destroyed.

use thermocline_base::checksum::{Sums, crc32c, seeded};

mod change;
mod fields;
mod job_done;
mod pm_table;
mod pointer;
mod table;
mod tag;

pub use change::{decode_edit, encode_change, encode_edit};
pub use fields::Unreadable;
use fields::{Fields, damaged, len32};
pub use pointer::{decode_pointer, encode_pointer};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of a manifest's header.
pub const HEADER_LEN: usize = 64;
/// Bytes of a record before its payload.
pub const RECORD_HEADER_LEN: usize = 8;
/// Most bytes of one encoded edit. It names two keys of up to 65,535 bytes of each table: a flush
/// that writes more tables than one edit can name has several, and a compaction ends before it does.
pub const PAYLOAD_LEN_MAX: usize = 64 << 20;
/// A snapshot's edits are about as large: it is written and read a piece at a time.
pub const SNAPSHOT_EDIT_LEN: usize = 256 << 10;
/// Records begin at multiples of this.
pub const RECORD_ALIGN: usize = 8;
/// Most bytes of one record, padding included.
pub const RECORD_LEN_MAX: usize = RECORD_HEADER_LEN + PAYLOAD_LEN_MAX;

const MAGIC: &[u8; 8] = b"THCLMANI";
const HEADER_CRC_AT: usize = 60;

const _: () = assert!(HEADER_LEN.is_multiple_of(RECORD_ALIGN));
const _: () = assert!(PAYLOAD_LEN_MAX.is_multiple_of(RECORD_ALIGN));

/// What the header of a manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number in the file's name.
    pub file_no: u64,
    /// The database.
    pub db_id: [u8; 16],
    /// Up to here the file was durable before `CURRENT` named it.
    pub durable_len: u64,
}

impl Header {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file_no.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.db_id);
        bytes[40..48].copy_from_slice(&self.durable_len.to_le_bytes());
        let crc = crc32c(0, &bytes[..HEADER_CRC_AT]);
        bytes[HEADER_CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, Unreadable> {
        let mut fields = Fields { bytes, at: 0 };
        let magic = fields.take(8)?;
        if magic != MAGIC {
            let expected = MAGIC.escape_ascii();
            return Err(damaged("magic", 0, expected, magic.escape_ascii()));
        }
        let crc = crc32c(0, &bytes[..HEADER_CRC_AT]);
        let stored = Fields {
            bytes,
            at: HEADER_CRC_AT,
        }
        .u32()?;
        if stored != crc {
            return Err(damaged(
                "header checksum",
                HEADER_CRC_AT,
                hex(crc),
                hex(stored),
            ));
        }
        let version = fields.u32()?;
        if version > FORMAT_VERSION {
            return Err(Unreadable::Newer(format!(
                "the manifest has format version {version}; this program reads up to version \
                 {FORMAT_VERSION}"
            )));
        }
        if version == 0 {
            return Err(damaged("format version", 8, FORMAT_VERSION, version));
        }
        fields.zeros(4)?;
        let header = Header {
            file_no: fields.u64()?,
            db_id: fields.array()?,
            durable_len: fields.u64()?,
        };
        fields.zeros(12)?;
        Ok(header)
    }

    /// Where the checksum of a record at `offset` starts from.
    fn crc_start(&self, offset: u64) -> u32 {
        let (low, high) = self.db_id.split_at(8);
        let half = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight bytes"));
        let file = self.file_no.wrapping_mul(0xd6e8_feb8_6659_fd93);
        seeded(half(low) ^ half(high).rotate_left(32) ^ file, offset)
    }

    fn record_crc(&self, offset: u64, len: &[u8], rest: &[u8]) -> u32 {
        crc32c(crc32c(self.crc_start(offset), len), rest)
    }

    /// The record that holds `payload` at `offset`.
    ///
    /// # Panics
    /// If the payload is empty or longer than [`PAYLOAD_LEN_MAX`].
    pub fn encode_record(&self, payload: &[u8], offset: u64) -> Vec<u8> {
        assert!((1..=PAYLOAD_LEN_MAX).contains(&payload.len()));
        let len = len32(payload.len()).to_le_bytes();
        let mut record = vec![0; record_len(payload.len())];
        record[0..4].copy_from_slice(&len);
        record[RECORD_HEADER_LEN..][..payload.len()].copy_from_slice(payload);
        let crc = self.record_crc(offset, &len, &record[RECORD_HEADER_LEN..]);
        record[4..8].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// The payload of the record at the beginning of `bytes`, which lie at `offset`, and the
    /// record's length; `None` if there is no whole and undamaged record.
    pub fn decode_record<'a>(&self, bytes: &'a [u8], offset: u64) -> Option<(&'a [u8], usize)> {
        let len = record_len_of(bytes)?;
        let record = bytes.get(..len)?;
        let (header, rest) = record.split_at(RECORD_HEADER_LEN);
        let crc = u32::from_le_bytes(header[4..8].try_into().ok()?);
        if crc != self.record_crc(offset, &header[..4], rest) {
            return None;
        }
        let payload_len = usize::try_from(u32::from_le_bytes(header[..4].try_into().ok()?)).ok()?;
        Some((&rest[..payload_len], len))
    }
}

/// Bytes among which records are looked for, in time that does not depend on the lengths that they claim.
pub(crate) struct Searched<'a> {
    bytes: &'a [u8],
    sums: Sums,
}

impl<'a> Searched<'a> {
    pub fn new(bytes: &'a [u8]) -> Searched<'a> {
        // A sixteenth of the bytes more, and little to sum behind what is noted.
        let mut sums = Sums::new(64);
        sums.append(bytes);
        Searched { bytes, sums }
    }

    /// Whether a whole and undamaged record begins at `from`, which is `offset` in the file: whether
    /// [`Header::decode_record`] would find one there.
    pub fn has_record(&self, header: &Header, from: usize, offset: u64) -> bool {
        let bytes = &self.bytes[from..];
        let Some(len) = record_len_of(bytes).filter(|len| *len <= bytes.len()) else {
            return false;
        };
        let up_to = |at: usize| {
            let noted = at - at % 64;
            self.sums.up_to(at as u64, &self.bytes[noted..at])
        };
        let start = crc32c(header.crc_start(offset), &bytes[..4]);
        let rest = (up_to(from + RECORD_HEADER_LEN), up_to(from + len));
        let stored = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        self.sums.between(start, rest.0, rest.1) == stored
    }
}

/// The bytes that a payload of this length takes as a record.
pub fn record_len(payload_len: usize) -> usize {
    RECORD_HEADER_LEN + payload_len.next_multiple_of(RECORD_ALIGN)
}

/// The length that the record at the beginning of `bytes` claims, if it can be one.
pub fn record_len_of(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let len = usize::try_from(len).ok()?;
    (1..=PAYLOAD_LEN_MAX)
        .contains(&len)
        .then(|| record_len(len))
}

fn hex(crc: u32) -> String {
    format!("{crc:#010x}")
}

/// The file that names the live manifest.
pub const CURRENT: &str = "CURRENT";
/// What becomes [`CURRENT`] by a rename.
pub const CURRENT_TEMP: &str = "CURRENT.tmp";
/// What [`CURRENT`] is called, with the same bytes, once its database is being destroyed.
pub const DESTROYING: &str = "DESTROYING";
/// No `CURRENT` is longer.
pub const CURRENT_LEN_MAX: usize = 128;

const NAME_PREFIX: &str = "MANIFEST-";

/// The name of manifest `file_no`.
///
/// ```
/// use thermocline_version::format::{manifest_name, manifest_no};
/// assert_eq!(manifest_name(7), "MANIFEST-000007");
/// assert_eq!(manifest_no("MANIFEST-000007"), Some(7));
/// assert_eq!(manifest_no("MANIFEST-7"), None);
/// ```
pub fn manifest_name(file_no: u64) -> String {
    format!("{NAME_PREFIX}{file_no:06}")
}

/// The number in a manifest's name; `None` for any other name.
pub fn manifest_no(name: &str) -> Option<u64> {
    let file_no = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
    (manifest_name(file_no) == name).then_some(file_no)
}

/// Whether a file that begins with `start` can be a manifest, perhaps one whose first bytes a
/// crash has lost.
pub fn may_be_manifest(start: &[u8]) -> bool {
    start == MAGIC || start.iter().all(|b| *b == 0)
}

/// Bytes of a file that [`may_be_manifest`] wants to see.
pub const MAGIC_LEN: usize = MAGIC.len();

/// The bytes of `CURRENT`.
pub fn encode_current(file_no: u64, db_id: &[u8; 16]) -> Vec<u8> {
    let id = u128::from_be_bytes(*db_id);
    let body = format!("{}\n{id:032x}\n", manifest_name(file_no));
    let crc = crc32c(0, body.as_bytes());
    format!("{body}{crc:08x}\n").into_bytes()
}

/// Reads `CURRENT`: the manifest's number and the database's id.
///
/// # Errors
/// What is wrong with it.
pub fn decode_current(bytes: &[u8]) -> Result<(u64, [u8; 16]), Unreadable> {
    let bad = || {
        let shown = &bytes[..bytes.len().min(CURRENT_LEN_MAX)];
        damaged("CURRENT", 0, "the name of a manifest", shown.escape_ascii())
    };
    let text = std::str::from_utf8(bytes).map_err(|_| bad())?;
    let mut lines = text.lines();
    let file_no = lines.next().and_then(manifest_no).ok_or_else(bad)?;
    let id = lines.next().ok_or_else(bad)?;
    let db_id = u128::from_str_radix(id, 16)
        .map_err(|_| bad())?
        .to_be_bytes();
    // There is one way to write it: the rest of the check is to write it.
    if encode_current(file_no, &db_id) != bytes {
        return Err(bad());
    }
    Ok((file_no, db_id))
}

/// Whether these bytes, which [`decode_current`] refuses, may be what a crash has left of what was to become `CURRENT`.
pub fn may_be_torn_current(bytes: &[u8]) -> bool {
    let begin = NAME_PREFIX.as_bytes();
    begin.starts_with(bytes) || bytes.starts_with(begin) || bytes.iter().all(|b| *b == 0)
}

#[cfg(test)]
mod tests;
