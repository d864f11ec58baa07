//! Every byte of a blob file. All numbers are little-endian.
//!
//! ```text
//!  blob file NNNNNN.blob: a header, then records, each at a multiple of 8
//!
//!  header, the same shape in every format version
//!  offset size
//!       0    8  magic "THCLBLOB"
//!       8    4  format version, 1
//!      12    4  reserved, 0
//!      16    8  file id
//!      24   16  database id
//!      40   20  reserved, 0
//!      60    4  CRC32C of bytes 0..60
//!
//!  record
//!       0    4  CRC32C of bytes 4..32, started from seeded(blob seed, offset of the record)
//!       4    4  CRC32C of the value, started from the inverse of that
//!       8    4  CRC32C of the key, started from the same inverse
//!      12    4  length n of the value, as it is stored
//!      16    2  length k of the user key
//!      18    2  column family
//!      20    1  how the value is compressed: 0 not at all, 1 LZ4, 2 Zstandard
//!      21    3  reserved, 0
//!      24    4  length of the value, if it is compressed; 0
//!      28    4  reserved, 0
//!      32    n  value
//!    32+n    k  user key
//!               zeros to a multiple of 8
//! ```
//!
//! The *blob seed* is `id_low ^ rotl32(id_high) ^ file id × 0xc2b2ae3d27d4eb4f` of the database id's
//! halves.

use thermocline_base::checksum::crc32c;
use thermocline_base::numbers::{len_of, len32};
use thermocline_base::planted::{self, Bug};
use thermocline_base::{CfId, FileId, limits};

use crate::compress::{TAG_LZ4, TAG_NONE, TAG_ZSTD, decompress};
use crate::format::coding::{Fields, Unreadable, damaged, hex};
use crate::format::trailer::crc_start;
use crate::identity::Identity;

/// The format of blob files that this version writes, and the newest that it reads.
pub const BLOB_FORMAT_VERSION: u32 = 1;
/// Bytes of a blob file before its first record.
pub const BLOB_HEADER_LEN: usize = 64;
/// Bytes of a record before its value.
pub const RECORD_HEADER_LEN: usize = 32;
/// Records begin at multiples of this.
pub(crate) const RECORD_ALIGN: u64 = 8;

const MAGIC: &[u8; 8] = b"THCLBLOB";
const CRC_AT: usize = 60;

pub(crate) fn encode_header(identity: &Identity) -> [u8; BLOB_HEADER_LEN] {
    let mut bytes = [0; BLOB_HEADER_LEN];
    bytes[0..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&BLOB_FORMAT_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&identity.file.0.to_le_bytes());
    bytes[24..40].copy_from_slice(&identity.db_id);
    let crc = crc32c(0, &bytes[..CRC_AT]);
    bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Checks the header of the file that should be `identity`.
pub(crate) fn check_header(
    bytes: &[u8; BLOB_HEADER_LEN],
    identity: &Identity,
) -> Result<(), Unreadable> {
    let mut fields = Fields { bytes, at: 0 };
    let magic = fields.take(8)?;
    if magic != MAGIC {
        let expected = MAGIC.escape_ascii();
        return Err(damaged(
            "magic of a blob file",
            0,
            expected,
            magic.escape_ascii(),
        ));
    }
    let crc = crc32c(0, &bytes[..CRC_AT]);
    let got = Fields { bytes, at: CRC_AT }.u32()?;
    if crc != got {
        return Err(damaged(
            "checksum of the header",
            CRC_AT,
            hex(crc),
            hex(got),
        ));
    }
    let version = fields.u32()?;
    if version > BLOB_FORMAT_VERSION {
        return Err(Unreadable::Newer(format!(
            "the blob file has format version {version}; this program reads up to version \
             {BLOB_FORMAT_VERSION}"
        )));
    }
    if version == 0 {
        return Err(damaged("format version", 8, BLOB_FORMAT_VERSION, version));
    }
    fields.zeros(4)?;
    let file = FileId(fields.u64()?);
    identity.check(&Identity::new(fields.array()?, file), 16)?;
    fields.zeros(20)
}

/// What stands before a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    value_crc: u32,
    key_crc: u32,
    pub value_len: u32,
    pub key_len: u16,
    pub cf: CfId,
    codec: u8,
    /// Of a compressed value, how long it is.
    raw_len: u32,
}

/// A value as it is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub bytes: &'a [u8],
    /// How it is compressed.
    pub codec: u8,
    /// How long it is.
    pub raw_len: usize,
}

/// Of value and key; unlike that of the header, so that neither can stand in for it.
fn part_crc(seed: u64, offset: u64, bytes: &[u8]) -> u32 {
    crc32c(!crc_start(seed, offset), bytes)
}

impl RecordHeader {
    /// The header of a record at `offset` of a file with this seed.
    ///
    /// # Panics
    /// If key or value are longer than the limits.
    pub fn encode(
        (cf, key): (CfId, &[u8]),
        value: Stored<'_>,
        (seed, offset): (u64, u64),
    ) -> [u8; 32] {
        let mut bytes = [0; RECORD_HEADER_LEN];
        bytes[4..8].copy_from_slice(&part_crc(seed, offset, value.bytes).to_le_bytes());
        bytes[8..12].copy_from_slice(&part_crc(seed, offset, key).to_le_bytes());
        bytes[12..16].copy_from_slice(&len32(value.bytes.len()).to_le_bytes());
        let key_len = u16::try_from(key.len()).expect("the caller checks the limit");
        bytes[16..18].copy_from_slice(&key_len.to_le_bytes());
        bytes[18..20].copy_from_slice(&cf.0.to_le_bytes());
        if value.codec != TAG_NONE {
            bytes[20] = value.codec;
            bytes[24..28].copy_from_slice(&len32(value.raw_len).to_le_bytes());
        }
        let crc = crc32c(crc_start(seed, offset), &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads and checks the header of the record at `offset`.
    pub fn decode(bytes: &[u8; 32], seed: u64, offset: u64) -> Result<RecordHeader, Unreadable> {
        let mut fields = Fields { bytes, at: 0 };
        let got = fields.u32()?;
        let crc = crc32c(crc_start(seed, offset), &bytes[4..]);
        if crc != got && !planted::active(Bug::SkipBlockChecksum) {
            return Err(damaged("checksum of a blob record", 0, hex(crc), hex(got)));
        }
        let [value_crc, key_crc, value_len] = [fields.u32()?, fields.u32()?, fields.u32()?];
        let (key_len, cf) = (fields.u16()?, CfId(fields.u16()?));
        let codec = fields.u8()?;
        fields.zeros(3)?;
        let raw_len = fields.u32()?;
        fields.zeros(4)?;
        let header = RecordHeader {
            value_crc,
            key_crc,
            value_len,
            key_len,
            cf,
            codec,
            raw_len,
        };
        header.check_codec()?;
        if len_of(header.value_len) > limits::VALUE_LEN_MAX {
            let (max, len) = (limits::VALUE_LEN_MAX, header.value_len);
            return Err(damaged(
                "length of a blob",
                12,
                format!("at most {max}"),
                len,
            ));
        }
        Ok(header)
    }

    /// A value that is compressed is no longer than one that may lie in a table, so that nobody takes much memory for what he reads.
    fn check_codec(&self) -> Result<(), Unreadable> {
        let most = match self.codec {
            TAG_NONE => 0,
            TAG_LZ4 | TAG_ZSTD => len32(limits::VALUE_INLINE_MAX),
            other => {
                let known = "0, 1 or 2";
                return Err(damaged("compression of a blob", 20, known, other));
            }
        };
        if self.raw_len > most {
            let most = format!("at most {most}");
            return Err(damaged(
                "length of a compressed blob",
                24,
                most,
                self.raw_len,
            ));
        }
        Ok(())
    }

    /// Whether its value is stored otherwise than it is.
    pub fn is_compressed(&self) -> bool {
        self.codec != TAG_NONE
    }

    /// The value that is stored as these bytes, whose checksum fits.
    pub fn value_of(&self, stored: &[u8]) -> Result<Vec<u8>, Unreadable> {
        if !self.is_compressed() {
            return Ok(stored.to_vec());
        }
        let value = decompress(self.codec, stored, len_of(self.raw_len));
        value.map_err(|why| {
            let got = why.unwrap_or_else(|| "other bytes".to_string());
            damaged(
                "compressed blob",
                RECORD_HEADER_LEN,
                "what was compressed",
                got,
            )
        })
    }

    pub fn check_value(&self, value: &[u8], seed: u64, offset: u64) -> Result<(), Unreadable> {
        check_part(
            "value",
            self.value_crc,
            part_crc(seed, offset, value),
            RECORD_HEADER_LEN,
        )
    }

    pub fn check_key(&self, key: &[u8], seed: u64, offset: u64) -> Result<(), Unreadable> {
        let at = RECORD_HEADER_LEN + len_of(self.value_len);
        check_part("key", self.key_crc, part_crc(seed, offset, key), at)
    }

    /// Bytes of the record up to the end of the key.
    pub fn used(&self) -> u64 {
        RECORD_HEADER_LEN as u64 + u64::from(self.value_len) + u64::from(self.key_len)
    }

    /// Bytes of the record with the zeros behind it.
    pub fn len(&self) -> u64 {
        self.used().next_multiple_of(RECORD_ALIGN)
    }
}

fn check_part(part: &str, stored: u32, crc: u32, at: usize) -> Result<(), Unreadable> {
    if stored != crc && !planted::active(Bug::SkipBlockChecksum) {
        let what = format!("checksum of the {part} of a blob record");
        return Err(damaged(what, at, hex(stored), hex(crc)));
    }
    Ok(())
}
