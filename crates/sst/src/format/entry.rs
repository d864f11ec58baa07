//! One entry of a data or index block.

use std::ops::Range;

use thermocline_base::varint::{put_varint, varint, varint_len, varlen};
use thermocline_base::{Kind, limits};

use crate::handle::BlockHandle;

/// Tag of an index entry.
pub(crate) const TAG_INDEX: u8 = 0;
/// Of a data entry's tag: the value lies in a blob file.
pub(crate) const TAG_BLOB: u8 = 16;
/// More bytes than the parts of an entry before its key can take.
pub(crate) const ENTRY_HEAD_MAX: usize = 4 * 10 + 1;

/// Where the parts of an entry lie.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RawEntry {
    pub shared: usize,
    pub rest: Range<usize>,
    pub tag: u8,
    pub seqno: u64,
    pub value: Range<usize>,
}

impl RawEntry {
    /// Where the next entry begins.
    pub fn end(&self) -> usize {
        self.value.end
    }
}

/// Appends an entry.
pub(crate) fn encode(
    out: &mut Vec<u8>,
    shared: usize,
    rest: &[u8],
    tag: u8,
    seqno: u64,
    value: &[u8],
) {
    put_varint(out, shared as u64);
    put_varint(out, rest.len() as u64);
    put_varint(out, value.len() as u64);
    out.push(tag);
    put_varint(out, seqno);
    out.extend_from_slice(rest);
    out.extend_from_slice(value);
}

/// Bytes of an entry with lengths like these.
pub(crate) fn encoded_len(shared: usize, rest: usize, seqno: u64, value: usize) -> usize {
    let lens = [shared as u64, rest as u64, value as u64, seqno].map(varint_len);
    // The tag is a byte.
    lens.iter().sum::<usize>() + 1 + rest + value
}

/// The entry at `at`, if one can be there; `bytes` end where the entries do.
#[inline]
pub(crate) fn decode(bytes: &[u8], mut at: usize) -> Option<RawEntry> {
    let shared = varlen(bytes, &mut at)?;
    let rest = varlen(bytes, &mut at)?;
    let value = varlen(bytes, &mut at)?;
    let tag = *bytes.get(at)?;
    at += 1;
    let seqno = varint(bytes, &mut at)?;
    let value_at = at.checked_add(rest)?;
    let end = value_at.checked_add(value)?;
    let fits = end <= bytes.len() && shared.checked_add(rest)? <= limits::KEY_LEN_MAX;
    fits.then_some(RawEntry {
        shared,
        rest: at..value_at,
        tag,
        seqno,
        value: value_at..end,
    })
}

/// What a data entry's tag says, if it says something.
#[inline]
pub(crate) fn decode_tag(tag: u8) -> Option<(Kind, bool)> {
    let blob = tag & TAG_BLOB != 0;
    match Kind::from_u8(tag & !TAG_BLOB)? {
        Kind::RangeDelete | Kind::PutBlob => None,
        Kind::Delete if blob => None,
        kind => Some((kind, blob)),
    }
}

pub(crate) fn encode_handle(out: &mut Vec<u8>, handle: BlockHandle) {
    put_varint(out, handle.offset);
    put_varint(out, u64::from(handle.len));
}

/// Offset and length in the value of an index entry.
#[inline]
pub(crate) fn decode_handle(bytes: &[u8]) -> Option<(u64, u32)> {
    let mut at = 0;
    let offset = varint(bytes, &mut at)?;
    let len = u32::try_from(varint(bytes, &mut at)?).ok()?;
    (at == bytes.len()).then_some((offset, len))
}
