//! The entry layer: groups and their entries.

use std::ops::Range;

use thermocline_base::blob_ref::{BLOB_REF_LEN, decode_blob_ref, encode_blob_ref};
use thermocline_base::numbers::{len_of, u32_at};
use thermocline_base::varint::{put_varint, varint, varint_len, varlen};
use thermocline_base::{BlobRef, Kind, SeqNo};

use super::coding::take;
use super::{GROUP_HEAD, TAG_APART, TAG_BLOB};

/// The value of an entry, as the entry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stored {
    /// A delete has none.
    None,
    /// At the entry's end: so many bytes.
    Inline(usize),
    /// Elsewhere in the piece.
    Apart { len: u32, crc: u32 },
    /// In a blob file.
    Blob(BlobRef),
}

/// An entry as it is written, without the bytes of key and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryHead {
    pub kind: Kind,
    pub seqno: SeqNo,
    /// Of a group's first entry the length of the key, of others what it shares with the one before.
    pub lead: usize,
    /// Bytes of the key's rest.
    pub rest: usize,
    pub value: Stored,
}

impl EntryHead {
    fn tag(&self) -> u8 {
        let place = match self.value {
            Stored::None | Stored::Inline(_) => 0,
            Stored::Apart { .. } => TAG_APART,
            Stored::Blob(_) => TAG_BLOB,
        };
        self.kind as u8 | place
    }

    /// Appends everything before the rest of the key.
    pub fn encode(&self, smallest: SeqNo, first: bool, out: &mut Vec<u8>) {
        out.push(self.tag());
        put_varint(out, self.lead as u64);
        if !first {
            put_varint(out, self.rest as u64);
        }
        put_varint(out, self.seqno.0 - smallest.0);
        match self.value {
            Stored::None | Stored::Blob(_) => {}
            Stored::Inline(len) => put_varint(out, len as u64),
            Stored::Apart { len, crc } => {
                put_varint(out, u64::from(len));
                out.extend_from_slice(&crc.to_le_bytes());
            }
        }
    }

    /// Most bytes that [`EntryHead::encode`] appends.
    pub fn len_max(&self) -> usize {
        let value = match self.value {
            Stored::None | Stored::Blob(_) => 0,
            Stored::Inline(len) => varint_len(len as u64),
            Stored::Apart { len, .. } => varint_len(u64::from(len)) + 4,
        };
        // The difference of seqnos is no longer than the seqno.
        1 + varint_len(self.lead as u64)
            + varint_len(self.rest as u64)
            + varint_len(self.seqno.0)
            + value
    }

    /// Appends what stands behind the rest of the key, if that is a reference.
    pub fn encode_reference(&self, out: &mut Vec<u8>) {
        if let Stored::Blob(to) = self.value {
            out.extend_from_slice(&encode_blob_ref(to));
        }
    }
}

/// The length that a group says it has; of its first 8 bytes.
pub(crate) fn stored_len(head: &[u8]) -> usize {
    len_of(u32_at(head, 4))
}

/// A group whose checksum holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupBytes<'a> {
    bytes: &'a [u8],
    /// Where its first value lies that lies apart, in the piece.
    values: u32,
    pub count: usize,
}

/// An entry as it was read.
#[derive(Debug, Clone)]
pub(crate) struct RawEntry<'a> {
    pub kind: Kind,
    pub seqno: SeqNo,
    /// As in [`EntryHead`].
    pub lead: usize,
    pub rest: &'a [u8],
    pub value: RawValue,
}

/// Where the value of an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RawValue {
    None,
    /// Within the group.
    Inline(Range<usize>),
    /// Within the piece.
    Apart {
        at: u32,
        len: u32,
        crc: u32,
    },
    Blob(BlobRef),
}

impl<'a> GroupBytes<'a> {
    /// Of a whole group; `None` if it cannot be one.
    pub fn new(bytes: &'a [u8]) -> Option<GroupBytes<'a>> {
        if bytes.len() <= GROUP_HEAD {
            return None;
        }
        let count = usize::from(bytes[12]);
        (1..=16).contains(&count).then_some(GroupBytes {
            bytes,
            values: u32_at(bytes, 8),
            count,
        })
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Its entries in order; of the first key `stripped` bytes are not there.
    pub fn entries(&self, stripped: usize) -> Entries<'a> {
        let mut at = GROUP_HEAD;
        let smallest = varint(self.bytes, &mut at);
        Entries {
            bytes: self.bytes,
            at,
            left: self.count,
            first: true,
            smallest,
            stripped,
            value_at: self.values,
        }
    }
}

/// The entries of a group. It ends with an error where bytes are none.
#[derive(Debug)]
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
    first: bool,
    smallest: Option<u64>,
    stripped: usize,
    value_at: u32,
}

/// Bytes that are no entry, though their checksum holds: at this offset of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoEntry(pub usize);

impl<'a> Entries<'a> {
    /// The next entry; none behind the last.
    #[inline]
    pub fn next(&mut self) -> Result<Option<RawEntry<'a>>, NoEntry> {
        if self.left == 0 {
            return match self.at == self.bytes.len() {
                true => Ok(None),
                false => Err(NoEntry(self.at)),
            };
        }
        self.left -= 1;
        let begin = self.at;
        let entry = self.read().ok_or(NoEntry(begin))?;
        self.first = false;
        Ok(Some(entry))
    }

    #[inline]
    fn read(&mut self) -> Option<RawEntry<'a>> {
        let (bytes, at) = (self.bytes, &mut self.at);
        let tag = *bytes.get(*at)?;
        *at += 1;
        let kind = Kind::from_u8(tag & 15)
            .filter(|kind| !matches!(kind, Kind::RangeDelete | Kind::PutBlob))?;
        let lead = varlen(bytes, at)?;
        let rest = match self.first {
            true => lead.saturating_sub(self.stripped),
            false => varlen(bytes, at)?,
        };
        let seqno = self.smallest?.checked_add(varint(bytes, at)?)?;
        let place = tag & !15;
        let (len, crc) = match (kind, place) {
            (Kind::Delete, 0) => (0, 0),
            (Kind::Delete, _) => return None,
            (_, 0) => (varlen(bytes, at)?, 0),
            (_, TAG_APART) => {
                let len = varlen(bytes, at)?;
                (len, u32_at(take(bytes, at, 4)?, 0))
            }
            (_, TAG_BLOB) => (0, 0),
            _ => return None,
        };
        let rest = take(bytes, at, rest)?;
        let value = match (kind, place) {
            (Kind::Delete, _) => RawValue::None,
            (_, 0) => {
                let begin = *at;
                take(bytes, at, len)?;
                RawValue::Inline(begin..*at)
            }
            (_, TAG_APART) => {
                let (at, len) = (self.value_at, u32::try_from(len).ok()?);
                self.value_at = at.checked_add(len)?;
                RawValue::Apart { at, len, crc }
            }
            _ => RawValue::Blob(decode_blob_ref(take(bytes, at, BLOB_REF_LEN)?)?),
        };
        (seqno != u64::MAX).then_some(RawEntry {
            kind,
            seqno: SeqNo(seqno),
            lead,
            rest,
            value,
        })
    }
}
