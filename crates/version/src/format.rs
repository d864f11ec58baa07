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
//!       0    4  payload length n, 1 ..= 256 KiB
//!       4    4  CRC32C of the length, the payload and the padding, started from
//!               seeded(database id, file number; offset of the record)
//!       8    n  payload: one edit
//!     8+n  0-7  padding to a multiple of 8, 0
//!
//!  edit: changes, one after the other
//!       0    1  tag; a tag with bit 7 set must be known, another one may be passed over
//!       1    4  body length m
//!       5    m  body
//!
//!  tag  body
//!  0x81 Created             16 database id, 16 region id
//!  0x82 Options             4 count; each: 4 length, name, 4 length, value (UTF-8)
//!  0x83 ColumnFamilyCreated 2 id; the rest: name (UTF-8)
//!  0x84 ColumnFamilyDropped 2 id
//!  0x85 GenerationCreated   8 id
//!  0x86 GenerationDropped   8 id
//!  0x87 ChainOpened         8 chain, 8 generation, 4 incarnation, 8 nonce, 8 base seqno,
//!                           1 whether it has a start (0 or 1), 8 start (0 if none)
//!  0x88 ChainCut            8 chain, 8 last seqno, 8 end
//!  0x89 NextIds             8 chain, 8 generation, 4 column family, 4 incarnation
//!  0x8a ColumnFamilyOptions 2 id; then as Options
//!  0x8b ChainAdopted        8 chain, 8 generation, 4 incarnation, 8 nonce, 8 base seqno,
//!                           8 last seqno, 8 end
//! ```
//!
//! ## `CURRENT`
//!
//! ```text
//!  the live manifest's name, "\n"
//!  32 hexadecimal digits: the database id, "\n"
//!  8 hexadecimal digits: CRC32C of everything before, "\n"
//! ```

use thermocline_base::checksum::{crc32c, seeded};

use crate::edit::{Change, NextIds, VersionEdit};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes of a manifest's header.
pub const HEADER_LEN: usize = 64;
/// Bytes of a record before its payload.
pub const RECORD_HEADER_LEN: usize = 8;
/// Most bytes of one encoded edit.
pub const PAYLOAD_LEN_MAX: usize = 256 << 10;
/// Records begin at multiples of this.
pub const RECORD_ALIGN: usize = 8;
/// Most bytes of one record, padding included.
pub const RECORD_LEN_MAX: usize = RECORD_HEADER_LEN + PAYLOAD_LEN_MAX;

const MAGIC: &[u8; 8] = b"THCLMANI";
const HEADER_CRC_AT: usize = 60;
const CHANGE_HEADER_LEN: usize = 5;
/// Of a tag: a reader that does not know it must stop.
const CRITICAL: u8 = 0x80;

const _: () = assert!(HEADER_LEN.is_multiple_of(RECORD_ALIGN));
const _: () = assert!(PAYLOAD_LEN_MAX.is_multiple_of(RECORD_ALIGN));

mod tag {
    pub const CREATED: u8 = 0x81;
    pub const OPTIONS: u8 = 0x82;
    pub const CF_CREATED: u8 = 0x83;
    pub const CF_DROPPED: u8 = 0x84;
    pub const GENERATION_CREATED: u8 = 0x85;
    pub const GENERATION_DROPPED: u8 = 0x86;
    pub const CHAIN_OPENED: u8 = 0x87;
    pub const CHAIN_CUT: u8 = 0x88;
    pub const NEXT_IDS: u8 = 0x89;
    pub const CF_OPTIONS: u8 = 0x8a;
    pub const CHAIN_ADOPTED: u8 = 0x8b;
}

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// They are not what was written.
    Damaged {
        /// What is wrong.
        what: &'static str,
        /// Offset from the beginning of what was to be read.
        at: usize,
        /// What should be there.
        expected: String,
        /// What is there.
        got: String,
    },
    /// A newer version wrote them.
    Newer(String),
}

fn damaged(
    what: &'static str,
    at: usize,
    expected: impl ToString,
    got: impl ToString,
) -> Unreadable {
    Unreadable::Damaged {
        what,
        at,
        expected: expected.to_string(),
        got: got.to_string(),
    }
}

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

fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("an edit is far below 4 GiB")
}

fn hex(crc: u32) -> String {
    format!("{crc:#010x}")
}

/// The bytes of an edit.
pub fn encode_edit(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    for change in &edit.changes {
        encode_change(change, &mut bytes);
    }
    bytes
}

/// Adds the bytes of one change.
pub fn encode_change(change: &Change, bytes: &mut Vec<u8>) {
    let header_at = bytes.len();
    bytes.extend_from_slice(&[0; CHANGE_HEADER_LEN]);
    let tag = encode_body(change, bytes);
    let body_len = len32(bytes.len() - header_at - CHANGE_HEADER_LEN);
    bytes[header_at] = tag;
    bytes[header_at + 1..header_at + CHANGE_HEADER_LEN].copy_from_slice(&body_len.to_le_bytes());
}

fn encode_body(change: &Change, bytes: &mut Vec<u8>) -> u8 {
    match change {
        Change::Created { db_id, region_id } => {
            bytes.extend_from_slice(db_id);
            bytes.extend_from_slice(region_id);
            tag::CREATED
        }
        Change::Options(options) => {
            encode_options(options, bytes);
            tag::OPTIONS
        }
        Change::ColumnFamilyCreated { id, name } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(name.as_bytes());
            tag::CF_CREATED
        }
        Change::ColumnFamilyDropped { id } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            tag::CF_DROPPED
        }
        Change::ColumnFamilyOptions { id, options } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            encode_options(options, bytes);
            tag::CF_OPTIONS
        }
        Change::GenerationCreated { id } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            tag::GENERATION_CREATED
        }
        Change::GenerationDropped { id } => {
            bytes.extend_from_slice(&id.to_le_bytes());
            tag::GENERATION_DROPPED
        }
        Change::ChainOpened {
            chain,
            generation,
            incarnation,
            nonce,
            base_seqno,
            start,
        } => {
            bytes.extend_from_slice(&chain.to_le_bytes());
            bytes.extend_from_slice(&generation.to_le_bytes());
            bytes.extend_from_slice(&incarnation.to_le_bytes());
            bytes.extend_from_slice(&nonce.to_le_bytes());
            bytes.extend_from_slice(&base_seqno.to_le_bytes());
            bytes.push(u8::from(start.is_some()));
            bytes.extend_from_slice(&start.unwrap_or(0).to_le_bytes());
            tag::CHAIN_OPENED
        }
        Change::ChainCut {
            chain,
            last_seqno,
            end,
        } => {
            for number in [chain, last_seqno, end] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            tag::CHAIN_CUT
        }
        Change::ChainAdopted {
            chain,
            generation,
            incarnation,
            nonce,
            base_seqno,
            last_seqno,
            end,
        } => {
            bytes.extend_from_slice(&chain.to_le_bytes());
            bytes.extend_from_slice(&generation.to_le_bytes());
            bytes.extend_from_slice(&incarnation.to_le_bytes());
            for number in [nonce, base_seqno, last_seqno, end] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            tag::CHAIN_ADOPTED
        }
        Change::NextIds(next) => {
            bytes.extend_from_slice(&next.chain.to_le_bytes());
            bytes.extend_from_slice(&next.generation.to_le_bytes());
            bytes.extend_from_slice(&next.cf.to_le_bytes());
            bytes.extend_from_slice(&next.incarnation.to_le_bytes());
            tag::NEXT_IDS
        }
    }
}

fn encode_options(options: &[(String, String)], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&len32(options.len()).to_le_bytes());
    for text in options.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(&len32(text.len()).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
}

/// Reads an edit. Allocates no more than the length of `bytes`, up to a small factor.
///
/// # Errors
/// What is wrong with it, or the tag that only a newer version knows.
pub fn decode_edit(bytes: &[u8]) -> Result<VersionEdit, Unreadable> {
    let mut fields = Fields { bytes, at: 0 };
    let mut changes = Vec::new();
    while fields.at < bytes.len() {
        let tag_at = fields.at;
        let tag = fields.u8()?;
        let len = fields.len32()?;
        let end = fields.at.saturating_add(len);
        if end > bytes.len() {
            let room = bytes.len() - fields.at;
            return Err(damaged("length of a change", tag_at + 1, room, len));
        }
        let mut body = Fields {
            bytes: &bytes[..end],
            at: fields.at,
        };
        fields.at = end;
        match decode_body(tag, &mut body)? {
            Some(change) => changes.push(change),
            None if tag & CRITICAL == 0 => continue,
            None => {
                return Err(Unreadable::Newer(format!(
                    "the manifest holds a change of kind {tag:#04x}, which a newer format version \
                     than {FORMAT_VERSION} wrote"
                )));
            }
        }
        if body.at != end {
            return Err(damaged("end of a change", body.at, body.at, end));
        }
    }
    Ok(VersionEdit { changes })
}

fn decode_body(tag: u8, body: &mut Fields<'_>) -> Result<Option<Change>, Unreadable> {
    Ok(Some(match tag {
        tag::CREATED => Change::Created {
            db_id: body.array()?,
            region_id: body.array()?,
        },
        tag::OPTIONS => Change::Options(body.options()?),
        tag::CF_CREATED => Change::ColumnFamilyCreated {
            id: body.u16()?,
            name: body.text_of(body.bytes.len() - body.at)?,
        },
        tag::CF_DROPPED => Change::ColumnFamilyDropped { id: body.u16()? },
        tag::CF_OPTIONS => Change::ColumnFamilyOptions {
            id: body.u16()?,
            options: body.options()?,
        },
        tag::GENERATION_CREATED => Change::GenerationCreated { id: body.u64()? },
        tag::GENERATION_DROPPED => Change::GenerationDropped { id: body.u64()? },
        tag::CHAIN_OPENED => Change::ChainOpened {
            chain: body.u64()?,
            generation: body.u64()?,
            incarnation: body.u32()?,
            nonce: body.u64()?,
            base_seqno: body.u64()?,
            start: body.optional_u64()?,
        },
        tag::CHAIN_CUT => Change::ChainCut {
            chain: body.u64()?,
            last_seqno: body.u64()?,
            end: body.u64()?,
        },
        tag::CHAIN_ADOPTED => Change::ChainAdopted {
            chain: body.u64()?,
            generation: body.u64()?,
            incarnation: body.u32()?,
            nonce: body.u64()?,
            base_seqno: body.u64()?,
            last_seqno: body.u64()?,
            end: body.u64()?,
        },
        tag::NEXT_IDS => Change::NextIds(NextIds {
            chain: body.u64()?,
            generation: body.u64()?,
            cf: body.u32()?,
            incarnation: body.u32()?,
        }),
        _ => return Ok(None),
    }))
}

/// Reads fields one after the other and never past the end.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Unreadable> {
        let rest = &self.bytes[self.at..];
        let field = rest
            .get(..len)
            .ok_or_else(|| damaged("length of a field", self.at, len, rest.len()))?;
        self.at += len;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let field = self.take(N)?;
        Ok(field.try_into().expect("as many bytes as were taken"))
    }

    fn u8(&mut self) -> Result<u8, Unreadable> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn u16(&mut self) -> Result<u16, Unreadable> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, Unreadable> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, Unreadable> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn len32(&mut self) -> Result<usize, Unreadable> {
        Ok(usize::try_from(self.u32()?).unwrap_or(usize::MAX))
    }

    fn zeros(&mut self, len: usize) -> Result<(), Unreadable> {
        let at = self.at;
        match self.take(len)?.iter().position(|b| *b != 0) {
            None => Ok(()),
            Some(i) => Err(damaged("reserved byte", at + i, 0, self.bytes[at + i])),
        }
    }

    /// Grows as it reads: a count that lies allocates nothing.
    fn options(&mut self) -> Result<Vec<(String, String)>, Unreadable> {
        let count = self.u32()?;
        let mut options = Vec::new();
        for _ in 0..count {
            options.push((self.text()?, self.text()?));
        }
        Ok(options)
    }

    fn text(&mut self) -> Result<String, Unreadable> {
        let len = self.len32()?;
        self.text_of(len)
    }

    fn text_of(&mut self, len: usize) -> Result<String, Unreadable> {
        let at = self.at;
        let field = self.take(len)?;
        match std::str::from_utf8(field) {
            Ok(text) => Ok(text.to_string()),
            Err(e) => Err(damaged("text", at, "UTF-8", e)),
        }
    }

    /// One byte that says whether, eight that say which; 0 if none, so that each value has one
    /// encoding.
    fn optional_u64(&mut self) -> Result<Option<u64>, Unreadable> {
        let at = self.at;
        match (self.u8()?, self.u64()?) {
            (0, 0) => Ok(None),
            (1, number) => Ok(Some(number)),
            (0, number) => Err(damaged("absent number", at + 1, 0, number)),
            (flag, _) => Err(damaged("presence of a number", at, "0 or 1", flag)),
        }
    }
}

/// The file that names the live manifest.
pub const CURRENT: &str = "CURRENT";
/// What becomes [`CURRENT`] by a rename.
pub const CURRENT_TEMP: &str = "CURRENT.tmp";
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

#[cfg(test)]
mod tests;
