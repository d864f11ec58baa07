//! A prepared transaction at rest: records of the engine's own family ([`CfId::METADATA`]).
//!
//! ```text
//! key                                  value
//!   0   1  0x50                          the part's bytes of the whole, 16 KiB but for the last part
//!   1   1  length n of the name, 1..=64
//!   2   n  name
//! 2+n   4  part, from 0, big-endian
//!
//! whole
//!   0   1  version, 1
//!   1   3  0
//!   4   4  CRC32C of bytes 8..40 and the claims, behind the name
//!   8   8  bytes of the claims, C
//!  16   8  bytes of the changes, B
//!  24   8  changes
//!  32   4  CRC32C of the changes, behind the name
//!  36   4  0
//!  40   C  claims, each: flags (1: 1 it writes, 2 a range, 4 a range with an end), then as varints
//!          column family, length; key or first key; of a range with an end its length and it
//! 40+C  B  changes, each: kind (1; as of records, 4 at most), then as varints column family,
//!          length of the key, length of the value; key; value
//! ```
//! Numbers are little-endian but for the part, which is in the order of keys. The metadata of families, in the same
//! family, has keys of two bytes; these have seven at least. Checksums begin with the name, so that a part of another
//! transaction is found.

use thermocline_base::checksum::crc32c;
use thermocline_base::varint::{put_varint, varint, varlen};
use thermocline_base::{CfId, Error, Kind, Result, WriteBatch, limits};
use thermocline_commit::Entries;

use super::claims::{Claims, RangeClaim};

/// The first byte of its keys.
pub(super) const TAG: u8 = b'P';
/// Bytes of each part but the last.
pub(super) const PART_BYTES: usize = 16 << 10;
const VERSION: u8 = 1;
/// Bytes before the claims.
pub(super) const HEADER_BYTES: usize = 40;

const WRITES: u8 = 1;
const RANGE: u8 = 2;
const END: u8 = 4;

/// The key of a part.
pub(super) fn part_key(name: &[u8], part: u32) -> Vec<u8> {
    // `prepare` has refused a longer one, and what is read has its length in a byte.
    let len = u8::try_from(name.len()).expect("a name has at most 64 bytes");
    [&[TAG, len], name, &part.to_be_bytes()].concat()
}

/// The name and the part that a key of the engine's own family has, if it is one of these.
pub(super) fn of_key(key: &[u8]) -> Option<(&[u8], u32)> {
    let (&[tag, len], rest) = key.split_first_chunk::<2>()?;
    let (name, part) = rest.split_last_chunk::<4>()?;
    let fits = tag == TAG && name.len() == usize::from(len);
    let named = (1..=limits::PREPARED_NAME_LEN_MAX).contains(&name.len());
    (fits && named).then(|| (name, u32::from_be_bytes(*part)))
}

/// Whether a key of the engine's own family is of a prepared transaction.
pub(crate) fn is_key(key: &[u8]) -> bool {
    of_key(key).is_some()
}

/// What stands before the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub claims_bytes: u64,
    pub batch_bytes: u64,
    /// Changes of the batch.
    pub changes: u64,
    batch_crc: u32,
}

impl Header {
    /// Bytes of the whole.
    pub fn bytes(&self) -> u64 {
        let rest = self.claims_bytes.saturating_add(self.batch_bytes);
        rest.saturating_add(HEADER_BYTES as u64)
    }

    /// Parts of the whole.
    pub fn parts(&self) -> u64 {
        self.bytes().div_ceil(PART_BYTES as u64)
    }

    /// Parts that have the claims.
    pub fn claims_parts(&self) -> u64 {
        let bytes = self.claims_bytes.saturating_add(HEADER_BYTES as u64);
        bytes.div_ceil(PART_BYTES as u64)
    }
}

/// The whole.
pub(super) fn encode<'a>(name: &[u8], claims: &Claims, changes: impl Entries<'a>) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    encode_claims(claims, &mut bytes);
    let (batch_at, count) = (bytes.len(), changes.len() as u64);
    for entry in changes {
        bytes.push(entry.kind as u8);
        put_varint(&mut bytes, u64::from(entry.cf.0));
        put_varint(&mut bytes, entry.key.len() as u64);
        put_varint(&mut bytes, entry.value.len() as u64);
        bytes.extend_from_slice(entry.key);
        bytes.extend_from_slice(entry.value);
    }
    let seed = crc32c(0, name);
    bytes[0] = VERSION;
    let claims_bytes = (batch_at - HEADER_BYTES) as u64;
    let batch_bytes = (bytes.len() - batch_at) as u64;
    bytes[8..16].copy_from_slice(&claims_bytes.to_le_bytes());
    bytes[16..24].copy_from_slice(&batch_bytes.to_le_bytes());
    bytes[24..32].copy_from_slice(&count.to_le_bytes());
    let batch_crc = crc32c(seed, &bytes[batch_at..]);
    bytes[32..36].copy_from_slice(&batch_crc.to_le_bytes());
    let crc = crc32c(seed, &bytes[8..batch_at]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn encode_claims(claims: &Claims, bytes: &mut Vec<u8>) {
    for (cf, key, writes) in claims.keys() {
        bytes.push(if writes { WRITES } else { 0 });
        put_varint(bytes, u64::from(cf.0));
        put_varint(bytes, key.len() as u64);
        bytes.extend_from_slice(key);
    }
    for range in claims.ranges() {
        let writes = if range.writes { WRITES } else { 0 };
        let has_end = range.end.as_ref().map_or(0, |_| END);
        bytes.push(RANGE | writes | has_end);
        put_varint(bytes, u64::from(range.cf.0));
        for key in [Some(&range.start), range.end.as_ref()]
            .into_iter()
            .flatten()
        {
            put_varint(bytes, key.len() as u64);
            bytes.extend_from_slice(key);
        }
    }
}

/// What is wrong with the bytes of a transaction.
pub(super) fn damaged(name: &[u8], offset: usize, what: &str, expected: impl ToString) -> Error {
    Error::corruption(
        format!("{what} of a prepared transaction"),
        format!("prepared transaction '{}'", name.escape_ascii()),
        offset as u64,
        expected,
        "something else",
    )
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

/// Reads what stands before the claims, of at least its first part.
///
/// # Errors
/// [`Error::Corruption`]; [`Error::Unsupported`] for a newer version.
pub(super) fn decode_header(name: &[u8], bytes: &[u8]) -> Result<Header> {
    if bytes.len() < HEADER_BYTES {
        return Err(damaged(name, 0, "length", HEADER_BYTES));
    }
    if bytes[0] > VERSION {
        return Err(Error::Unsupported(format!(
            "prepared transaction '{}' has format version {}, and this version reads {VERSION} at most",
            name.escape_ascii(),
            bytes[0]
        )));
    }
    if bytes[..4] != [VERSION, 0, 0, 0] {
        return Err(damaged(name, 0, "version", VERSION));
    }
    if bytes[36..40] != [0; 4] {
        return Err(damaged(name, 36, "reserved bytes", 0));
    }
    let header = Header {
        claims_bytes: u64::from_le_bytes(word(bytes, 8)),
        batch_bytes: u64::from_le_bytes(word(bytes, 16)),
        changes: u64::from_le_bytes(word(bytes, 24)),
        batch_crc: u32::from_le_bytes(word(bytes, 32)),
    };
    // One batch has put all of it.
    let most = limits::BATCH_BYTES_MAX as u64;
    if header.bytes() > most {
        return Err(damaged(name, 8, "length", format!("at most {most}")));
    }
    Ok(header)
}

/// Reads the claims, of at least the parts that have them.
///
/// # Errors
/// [`Error::Corruption`].
pub(super) fn decode_claims(name: &[u8], header: &Header, bytes: &[u8]) -> Result<Claims> {
    let end =
        HEADER_BYTES.saturating_add(usize::try_from(header.claims_bytes).unwrap_or(usize::MAX));
    let Some(summed) = bytes.get(8..end) else {
        return Err(damaged(name, bytes.len(), "length", end));
    };
    let crc = u32::from_le_bytes(word(bytes, 4));
    if crc32c(crc32c(0, name), summed) != crc {
        return Err(damaged(name, 4, "checksum", crc));
    }
    let mut claims = Claims::default();
    let mut at = HEADER_BYTES;
    while at < end {
        let from = at;
        decode_claim(&bytes[..end], &mut at, &mut claims)
            .ok_or_else(|| damaged(name, from, "claim", "a key or a range"))?;
    }
    Ok(claims)
}

fn decode_claim(bytes: &[u8], at: &mut usize, claims: &mut Claims) -> Option<()> {
    let flags = *bytes.get(*at)?;
    *at += 1;
    let cf = family(bytes, at)?;
    let key = decode_key(bytes, at)?;
    let writes = flags & WRITES != 0;
    match flags & !WRITES {
        0 => claims.add(cf, key, writes),
        RANGE => claims.add_range(RangeClaim {
            cf,
            start: key.into(),
            end: None,
            writes,
        }),
        both if both == RANGE | END => {
            let end = Some(decode_key(bytes, at)?.into());
            claims.add_range(RangeClaim {
                cf,
                start: key.into(),
                end,
                writes,
            });
        }
        _ => return None,
    }
    Some(())
}

fn family(bytes: &[u8], at: &mut usize) -> Option<CfId> {
    let cf = u16::try_from(varint(bytes, at)?).ok().map(CfId)?;
    (cf != CfId::METADATA).then_some(cf)
}

fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let taken = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(taken)
}

fn decode_key<'a>(bytes: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = varlen(bytes, at)?;
    take(bytes, at, len).filter(|key| key.len() <= limits::KEY_LEN_MAX)
}

/// Reads the changes, of all parts.
///
/// # Errors
/// [`Error::Corruption`]; [`Error::InvalidArgument`] past the limit of a batch.
pub(super) fn decode_batch(name: &[u8], header: &Header, bytes: &[u8]) -> Result<WriteBatch> {
    if bytes.len() as u64 != header.bytes() {
        return Err(damaged(name, bytes.len(), "length", header.bytes()));
    }
    let mut at = bytes.len() - usize::try_from(header.batch_bytes).unwrap_or(bytes.len());
    if crc32c(crc32c(0, name), &bytes[at..]) != header.batch_crc {
        return Err(damaged(name, 32, "checksum", header.batch_crc));
    }
    let mut batch = WriteBatch::new();
    while at < bytes.len() {
        let from = at;
        decode_change(bytes, &mut at, &mut batch)
            .unwrap_or_else(|| Err(damaged(name, from, "change", "a put, delete or merge")))?;
    }
    match batch.len() as u64 == header.changes {
        true => Ok(batch),
        false => Err(damaged(name, 24, "number of changes", header.changes)),
    }
}

fn decode_change(bytes: &[u8], at: &mut usize, batch: &mut WriteBatch) -> Option<Result<()>> {
    let kind = Kind::from_u8(*bytes.get(*at)?)?;
    *at += 1;
    let cf = family(bytes, at)?;
    let (key_len, value_len) = (varlen(bytes, at)?, varlen(bytes, at)?);
    let key = take(bytes, at, key_len)?;
    let value = take(bytes, at, value_len)?;
    match kind {
        Kind::Put => Some(batch.put(cf, key, value)),
        Kind::Merge => Some(batch.merge(cf, key, value)),
        Kind::Delete if value.is_empty() => Some(batch.delete(cf, key)),
        Kind::RangeDelete if value.is_empty() => Some(batch.delete_range(cf, key, None)),
        Kind::RangeDelete if key < value => Some(batch.delete_range(cf, key, Some(value))),
        Kind::Delete | Kind::RangeDelete | Kind::PutBlob => None,
    }
}

#[cfg(test)]
mod tests;
