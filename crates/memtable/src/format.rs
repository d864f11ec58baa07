//! The bytes of records, items and memtable descriptors. All numbers are little-endian.
//!
//! ```text
//! item, on a 64-byte line                  record, on 8 bytes within its item
//!   0  crc              u32                  0  crc                u32
//!   4  length           u32                  4  seqno, low half    u32
//!   8  first seqno      u64                  8  key length         u16
//!  16  published        u64                 10  column family      u16
//!  24  count            u32                 12  kind, value length u32 (4 bits, 28 bits)
//!  28  incarnation      u32                 16  key, value
//!  32  zone generation  u64                     zeros to a multiple of 8
//!  40  chain            u64
//!  48  records, then zeros to the line      memtable descriptor, an object of 192 bytes
//!                                             0  magic, version   u32, u32
//!                                             8  memtable         u64
//!                                            16  crc              u32   over bytes 0..16
//!                                            20  zeros
//!                                            64  floor, copy A: seqno u64, crc u64 (high half 0)
//!                                           128  floor, copy B
//! ```
//!
//! *length* counts the header and all records with their padding, not the zeros to the line.
//! The value of a record whose kind says that its value lies in a blob file is a *reference*: file u64,
//! offset of the record there u64, length of the value u32.
//!
//! CRC32C throughout. An item's CRC starts from (chain seed, item offset) and covers header bytes
//! 4..48, then of each record the header and the key. A record's CRC starts from (chain seed with
//! its bits inverted, record offset) and covers bytes 4.. to the end of the value. The chain seed
//! is a hash of the database id, the chain's id and the incarnation under the incarnation's random
//! nonce. An item with count 0 carries only `published`.

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};
use thermocline_base::numbers::{u32_at, u64_at};
use thermocline_base::{BatchEntry, Kind};

/// Bytes of an item's header.
pub const ITEM_HEADER: usize = 48;
/// Bytes of a record's header.
pub const RECORD_HEADER: usize = 16;

const VALUE_LEN_BITS: u32 = 28;
const VALUE_LEN_MASK: u32 = (1 << VALUE_LEN_BITS) - 1;

const _: () = assert!(ITEM_HEADER <= 48 && RECORD_HEADER <= 16);
const _: () = assert!(thermocline_base::limits::VALUE_INLINE_MAX <= VALUE_LEN_MASK as usize);

/// The seed of all checksums in a chain.
pub(crate) fn chain_seed(db_id: &[u8; 16], chain: u64, incarnation: u32, nonce: u64) -> u64 {
    let mut bytes = [0; 28];
    bytes[..16].copy_from_slice(db_id);
    bytes[16..24].copy_from_slice(&chain.to_le_bytes());
    bytes[24..].copy_from_slice(&incarnation.to_le_bytes());
    hash64_seeded(&bytes, nonce)
}

/// Bytes that a record takes in its item.
pub(crate) fn record_bytes(key_len: usize, value_len: usize) -> usize {
    (RECORD_HEADER + key_len + value_len).next_multiple_of(8)
}

/// Bytes of persistent memory that an item with these entries takes, whole lines.
pub fn item_bytes<'a>(entries: impl Iterator<Item = BatchEntry<'a>>) -> u64 {
    let records: usize = entries
        .map(|e| record_bytes(e.key.len(), e.value.len()))
        .sum();
    (ITEM_HEADER + records).next_multiple_of(64) as u64
}

/// The header of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemHeader {
    pub length: u32,
    pub first_seqno: u64,
    pub published: u64,
    pub count: u32,
    pub incarnation: u32,
    pub zone_generation: u64,
    pub chain: u64,
}

impl ItemHeader {
    /// Writes the fields behind the CRC.
    pub fn encode(&self, out: &mut [u8]) {
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_seqno.to_le_bytes());
        out[16..24].copy_from_slice(&self.published.to_le_bytes());
        out[24..28].copy_from_slice(&self.count.to_le_bytes());
        out[28..32].copy_from_slice(&self.incarnation.to_le_bytes());
        out[32..40].copy_from_slice(&self.zone_generation.to_le_bytes());
        out[40..48].copy_from_slice(&self.chain.to_le_bytes());
    }

    /// Reads the fields; what they say is not yet believed.
    pub fn decode(bytes: &[u8]) -> ItemHeader {
        ItemHeader {
            length: u32_at(bytes, 4),
            first_seqno: u64_at(bytes, 8),
            published: u64_at(bytes, 16),
            count: u32_at(bytes, 24),
            incarnation: u32_at(bytes, 28),
            zone_generation: u64_at(bytes, 32),
            chain: u64_at(bytes, 40),
        }
    }

    /// Bytes on whole lines.
    pub fn padded(&self) -> u64 {
        u64::from(self.length).next_multiple_of(64)
    }
}

/// The CRC field of an item's or record's header.
pub(crate) fn stored_crc(bytes: &[u8]) -> u32 {
    u32_at(bytes, 0)
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub crc: u32,
    pub seqno_low: u32,
    pub key_len: u16,
    pub cf: u16,
    kind_and_len: u32,
}

impl RecordHeader {
    #[inline]
    pub fn decode(bytes: &[u8]) -> RecordHeader {
        RecordHeader {
            crc: u32_at(bytes, 0),
            seqno_low: u32_at(bytes, 4),
            key_len: u16::from_le_bytes([bytes[8], bytes[9]]),
            cf: u16::from_le_bytes([bytes[10], bytes[11]]),
            kind_and_len: u32_at(bytes, 12),
        }
    }

    /// The kind, if the number is one.
    #[inline]
    pub fn kind(&self) -> Option<Kind> {
        Kind::from_u8((self.kind_and_len >> VALUE_LEN_BITS) as u8)
    }

    #[inline]
    pub fn value_len(&self) -> usize {
        (self.kind_and_len & VALUE_LEN_MASK) as usize
    }

    /// Bytes of header, key and value, without padding.
    #[inline]
    pub fn len(&self) -> usize {
        RECORD_HEADER + usize::from(self.key_len) + self.value_len()
    }

    /// Bytes of header and key: what the item's CRC covers.
    #[inline]
    pub fn head_len(&self) -> usize {
        RECORD_HEADER + usize::from(self.key_len)
    }

    /// Bytes in the item.
    pub fn padded(&self) -> usize {
        self.len().next_multiple_of(8)
    }
}

/// Where an item's CRC starts from.
pub(crate) fn item_crc_start(seed: u64, item: u64) -> u32 {
    seeded(seed, item)
}

/// The CRC that the record at offset `at` should have. `bytes` are its header, key and value.
pub(crate) fn record_crc(seed: u64, at: u64, bytes: &[u8]) -> u32 {
    crc32c(seeded(!seed, at), &bytes[4..])
}

/// Appends a record for offset `at` to an item under construction.
pub(crate) fn push_record(
    out: &mut Vec<u8>,
    entry: &BatchEntry<'_>,
    seqno: u64,
    seed: u64,
    at: u64,
) {
    let start = out.len();
    // Lengths are checked by the batch; the limits fit the fields (asserted above and by u16).
    let key_len = u16::try_from(entry.key.len()).unwrap_or(u16::MAX);
    let value_len = u32::try_from(entry.value.len()).unwrap_or(VALUE_LEN_MASK) & VALUE_LEN_MASK;
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&seqno_low(seqno).to_le_bytes());
    out.extend_from_slice(&key_len.to_le_bytes());
    out.extend_from_slice(&entry.cf.0.to_le_bytes());
    out.extend_from_slice(&((entry.kind as u32) << VALUE_LEN_BITS | value_len).to_le_bytes());
    out.extend_from_slice(entry.key);
    out.extend_from_slice(entry.value);
    let crc = record_crc(seed, at, &out[start..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
}

/// The half of a seqno that a record stores.
pub(crate) fn seqno_low(seqno: u64) -> u32 {
    u32::try_from(seqno & 0xffff_ffff).unwrap_or(0)
}

/// The seqno that a record's low half stands for, where `origin` is the low half of `base`'s: at or
/// after `base` (a memtable spans less than 2^32 of them).
pub(crate) fn full_seqno(base: u64, origin: u32, low: u32) -> u64 {
    base.wrapping_add(u64::from(low.wrapping_sub(origin)))
}

const DESCRIPTOR_MAGIC: u32 = u32::from_le_bytes(*b"GENR");
const DESCRIPTOR_VERSION: u32 = 1;

/// Offsets of the two copies of the floor in a descriptor.
pub(crate) const FLOOR_COPIES: [u64; 2] = [64, 128];

pub(crate) fn encode_descriptor(memtable: u64, seed: u64, at: u64) -> [u8; 64] {
    let mut block = [0; 64];
    block[0..4].copy_from_slice(&DESCRIPTOR_MAGIC.to_le_bytes());
    block[4..8].copy_from_slice(&DESCRIPTOR_VERSION.to_le_bytes());
    block[8..16].copy_from_slice(&memtable.to_le_bytes());
    let crc = crc32c(seeded(seed, at), &block[..16]);
    block[16..20].copy_from_slice(&crc.to_le_bytes());
    block
}

pub(crate) fn decode_descriptor(block: &[u8], seed: u64, at: u64) -> Option<u64> {
    let sound = u32_at(block, 0) == DESCRIPTOR_MAGIC
        && u32_at(block, 4) == DESCRIPTOR_VERSION
        && u32_at(block, 16) == crc32c(seeded(seed, at), &block[..16])
        && block[20..64].iter().all(|&b| b == 0);
    sound.then(|| u64_at(block, 8))
}

pub(crate) fn encode_floor(floor: u64, seed: u64, at: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&floor.to_le_bytes());
    let crc = crc32c(seeded(seed, at), &bytes[..8]);
    bytes[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn decode_floor(bytes: &[u8], seed: u64, at: u64) -> Option<u64> {
    let floor = u64_at(bytes, 0);
    (encode_floor(floor, seed, at) == bytes[..16]).then_some(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_put_keeps_the_budget() {
        let entry = BatchEntry {
            kind: Kind::Put,
            cf: thermocline_base::CfId::DEFAULT,
            key: &[0; 16],
            value: &[0; 100],
        };
        assert_eq!(item_bytes(std::iter::once(entry)), 192);
    }

    #[test]
    fn seqnos_come_back_whole_across_the_wrap_of_their_low_half() {
        for base in [1u64, 0xffff_fff0, 0x1_0000_0000, 0x7_ffff_ffff] {
            for delta in [0u64, 1, 0x20, 0xffff_fffe] {
                let low = seqno_low(base + delta);
                assert_eq!(full_seqno(base, seqno_low(base), low), base + delta);
            }
        }
    }
}
