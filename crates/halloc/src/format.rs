//! The bytes of a region's own structures. All numbers are little-endian.
//!
//! ```text
//! part 0, zone 0 (the meta zone)             every later part
//!      0  superblock, copy A   (64)            0  part header, copy A (64)
//!    256  superblock, copy B   (64)           64  part header, copy B (64)
//!    512  part word, copy A     (8)          256  zone header of zone 0
//!    576  part word, copy B     (8)
//!    640  part header, copy A  (64)          every other zone
//!    704  part header, copy B  (64)            0  zone header, copy A (64)
//!    768  witness word, copy A  (8)           64  zone header, copy B (64)
//!    832  witness word, copy B  (8)          128  data
//!   1024  descriptor pool: head word
//!   1088  descriptor pool: index words
//!   2048  descriptor pool: objects
//!
//! superblock                     part header                   zone header
//!   0  magic            u64        0  magic          u32         0  magic       u32
//!   8  format version   u32        4  crc            u32         4  crc         u32
//!  12  crc              u32        8  offset         u64         8  owner       u64
//!  16  region id       [u8;16]    16  bytes          u64        16  generation  u64
//!  32  reserved, zero  [u8;32]    24  zone bytes     u64        24  ordinal     u32
//!                                 32  index          u32        28  run         u32
//!                                 36  reserved, zero [u8;28]    32  reserved, zero [u8;32]
//! ```
//!
//! Every CRC is CRC32C over the whole structure with the crc field as zero. The superblock's starts
//! from 0; all others start from (region seed, offset), where the region seed is a hash of the
//! region id, so that no structure is valid elsewhere.
//!
//! A *checked word* holds a 32-bit payload (low half) and the CRC of the payload (high half): an
//! 8-byte store that is atomic and carries its own checksum.

use thermocline_base::checksum::{crc32c, hash64, seeded};
use thermocline_base::numbers::{u32_at, u64_at};
use thermocline_base::{Error, Result};
use thermocline_pm::PmOff;

/// The version of the region's format.
pub const FORMAT_VERSION: u32 = 1;

pub(crate) const SUPERBLOCK_COPIES: [u64; 2] = [0, 256];
pub(crate) const PARTS_WORD_COPIES: [u64; 2] = [512, 576];
pub(crate) const PART0_HEADER: u64 = 640;
pub(crate) const WITNESS_COPIES: [u64; 2] = [768, 832];
pub(crate) const DESCRIPTOR_POOL: u64 = 1024;

/// The smallest zone, which the meta zone must fit into.
pub const META_BYTES_MIN: u64 = 16 << 10;

/// Bytes at the start of a part, before its first zone's header.
pub(crate) const PART_HEADER_SPAN: u64 = 256;

/// Bytes that a zone header takes, both copies.
pub const ZONE_HEADER_BYTES: u64 = 128;

/// Bytes of a copy of a superblock or header.
pub(crate) const COPY_BYTES: usize = 64;
const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"THRMCLN\x01");
const PART_MAGIC: u32 = u32::from_le_bytes(*b"PART");
const ZONE_MAGIC: u32 = u32::from_le_bytes(*b"ZONE");

const _: () = assert!(
    SUPERBLOCK_COPIES[1] >= COPY_BYTES as u64
        && PART0_HEADER + 2 * COPY_BYTES as u64 <= WITNESS_COPIES[0]
        && WITNESS_COPIES[1] + 8 <= DESCRIPTOR_POOL
);

/// The id that ties a region to its manifest.
pub(crate) type RegionId = [u8; 16];

pub(crate) fn region_seed(id: &RegionId) -> u64 {
    hash64(id)
}

fn put(block: &mut [u8; COPY_BYTES], at: usize, bytes: &[u8]) {
    block[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Sets the CRC field at `at` over the whole block.
fn seal(block: &mut [u8; COPY_BYTES], at: usize, start: u32) {
    put(block, at, &[0; 4]);
    let crc = crc32c(start, block);
    put(block, at, &crc.to_le_bytes());
}

fn sealed(block: &[u8], at: usize, start: u32) -> bool {
    let mut copy = [0; COPY_BYTES];
    copy.copy_from_slice(block);
    seal(&mut copy, at, start);
    copy[..] == *block
}

pub(crate) fn encode_superblock(id: &RegionId) -> [u8; COPY_BYTES] {
    let mut block = [0; COPY_BYTES];
    put(&mut block, 0, &SUPERBLOCK_MAGIC.to_le_bytes());
    put(&mut block, 8, &FORMAT_VERSION.to_le_bytes());
    put(&mut block, 16, id);
    seal(&mut block, 12, 0);
    block
}

/// What a superblock copy says.
pub(crate) enum SuperblockCopy {
    Valid(RegionId),
    /// Sound, but of a later format.
    Newer(u32),
    /// Not one, or damaged.
    Invalid,
}

pub(crate) fn decode_superblock(block: &[u8]) -> SuperblockCopy {
    if u64_at(block, 0) != SUPERBLOCK_MAGIC || !sealed(block, 12, 0) {
        return SuperblockCopy::Invalid;
    }
    match u32_at(block, 8) {
        FORMAT_VERSION => {
            let mut id = [0; 16];
            id.copy_from_slice(&block[16..32]);
            SuperblockCopy::Valid(id)
        }
        version => SuperblockCopy::Newer(version),
    }
}

/// Whether these bytes can be a superblock of which only some 8-byte words arrived.
pub(crate) fn may_be_torn_superblock(block: &[u8]) -> bool {
    let magic = u64_at(block, 0);
    let version = u32_at(block, 8);
    (magic == 0 || magic == SUPERBLOCK_MAGIC)
        && (version == 0 || version == FORMAT_VERSION)
        && block[32..].iter().all(|&b| b == 0)
}

/// Whether these bytes begin like a part header.
pub(crate) fn has_part_magic(block: &[u8]) -> bool {
    u32_at(block, 0) == PART_MAGIC
}

/// A part: a stretch of the region with zones of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartHeader {
    pub offset: u64,
    pub bytes: u64,
    pub zone_bytes: u64,
    pub index: u32,
}

impl PartHeader {
    /// Where its copies lie.
    pub fn place(index: u32, offset: u64) -> u64 {
        if index == 0 { PART0_HEADER } else { offset }
    }

    pub fn encode(&self, seed: u64) -> [u8; COPY_BYTES] {
        let mut block = [0; COPY_BYTES];
        put(&mut block, 0, &PART_MAGIC.to_le_bytes());
        put(&mut block, 8, &self.offset.to_le_bytes());
        put(&mut block, 16, &self.bytes.to_le_bytes());
        put(&mut block, 24, &self.zone_bytes.to_le_bytes());
        put(&mut block, 32, &self.index.to_le_bytes());
        seal(
            &mut block,
            4,
            seeded(seed, PartHeader::place(self.index, self.offset)),
        );
        block
    }

    /// The part that a copy describes, if the copy is sound and about part `index` at `offset`.
    pub fn decode(block: &[u8], seed: u64, index: u32, offset: u64) -> Option<PartHeader> {
        let place = PartHeader::place(index, offset);
        if u32_at(block, 0) != PART_MAGIC || !sealed(block, 4, seeded(seed, place)) {
            return None;
        }
        let part = PartHeader {
            offset: u64_at(block, 8),
            bytes: u64_at(block, 16),
            zone_bytes: u64_at(block, 24),
            index: u32_at(block, 32),
        };
        let sound = part.offset == offset
            && part.index == index
            && part.zone_bytes >= META_BYTES_MIN
            && part.zone_bytes.is_power_of_two()
            && part.bytes >= part.zone_bytes;
        sound.then_some(part)
    }
}

/// An attachment of a zone, or a run of adjacent zones, to an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZoneHeader {
    pub owner: u64,
    pub generation: u64,
    pub ordinal: u32,
    pub run: u32,
}

impl ZoneHeader {
    pub fn encode(&self, seed: u64, at: PmOff) -> [u8; COPY_BYTES] {
        let mut block = [0; COPY_BYTES];
        put(&mut block, 0, &ZONE_MAGIC.to_le_bytes());
        put(&mut block, 8, &self.owner.to_le_bytes());
        put(&mut block, 16, &self.generation.to_le_bytes());
        put(&mut block, 24, &self.ordinal.to_le_bytes());
        put(&mut block, 28, &self.run.to_le_bytes());
        seal(&mut block, 4, seeded(seed, at.0));
        block
    }

    /// `at` is where copy A lies; both copies carry the same bytes.
    pub fn decode(block: &[u8], seed: u64, at: PmOff) -> Option<ZoneHeader> {
        if u32_at(block, 0) != ZONE_MAGIC || !sealed(block, 4, seeded(seed, at.0)) {
            return None;
        }
        Some(ZoneHeader {
            owner: u64_at(block, 8),
            generation: u64_at(block, 16),
            ordinal: u32_at(block, 24),
            run: u32_at(block, 28),
        })
    }
}

/// A 32-bit payload and its CRC in one 8-byte word.
pub(crate) fn checked_word(payload: u32, seed: u64, at: u64) -> u64 {
    let crc = crc32c(seeded(seed, at), &payload.to_le_bytes());
    u64::from(crc) << 32 | u64::from(payload)
}

/// The payload of a checked word.
pub(crate) fn read_checked_word(word: u64, seed: u64, at: u64) -> Option<u32> {
    let payload = u32::try_from(word & 0xffff_ffff).ok()?;
    (checked_word(payload, seed, at) == word).then_some(payload)
}

/// The error for a structure of which no copy is sound.
#[cold]
pub(crate) fn damaged(what: &str, place: &std::path::Path, offset: u64) -> Error {
    Error::corruption(
        format!("{what} is damaged"),
        place.display().to_string(),
        offset,
        "a matching checksum",
        "none",
    )
}

/// Narrows a count that a limit keeps small.
pub(crate) fn narrow(n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::InvalidArgument(format!("{n} is too many")))
}

#[cfg(test)]
mod tests {
    use thermocline_testkit::golden;

    use super::*;

    #[test]
    fn the_bytes_of_a_region_are_those_of_version_1() {
        let id = [7; 16];
        let seed = region_seed(&id);
        let part = PartHeader {
            offset: 1 << 20,
            bytes: 2 << 20,
            zone_bytes: 1 << 17,
            index: 1,
        };
        let zone = ZoneHeader {
            owner: 5,
            generation: 9,
            ordinal: 3,
            run: 2,
        };
        let bytes = [
            &encode_superblock(&id)[..],
            &part.encode(seed),
            &zone.encode(seed, PmOff(4096)),
            &checked_word(2, seed, PARTS_WORD_COPIES[0]).to_le_bytes(),
        ]
        .concat();
        let text = golden::annotate(
            &bytes,
            &[
                (8, "superblock: magic"),
                (4, "format version"),
                (4, "crc"),
                (16, "region id"),
                (32, "reserved"),
                (4, "part header: magic"),
                (4, "crc"),
                (8, "offset"),
                (8, "bytes"),
                (8, "zone bytes"),
                (4, "index"),
                (28, "reserved"),
                (4, "zone header: magic"),
                (4, "crc"),
                (8, "owner"),
                (8, "generation"),
                (4, "ordinal"),
                (4, "run"),
                (32, "reserved"),
                (4, "part word: payload"),
                (4, "crc"),
            ],
        );
        golden::check(
            "region",
            include_str!("../tests/golden/region-v1.txt"),
            &text,
        );
    }
}
