//! Pieces of PM tables.

use thermocline_base::checksum::{crc32c, hash64_seeded, seeded};

use super::{DB_ID, put, u16_at, u32_at, varint};

/// The table of all samples.
pub const TABLE: u64 = 7;

const HEADER: usize = 128;

/// A piece whose zone has this generation, and whose first byte lies at `base` of the region.
struct Piece<'a> {
    bytes: &'a mut [u8],
    seed: u64,
    base: u64,
}

/// Makes the checksums of header, runs, arrays, groups, values and range tombstones right, as far as one leads to
/// the next.
pub fn seal(bytes: &mut [u8], zone_generation: u64, base: u64) {
    let identity = [
        &DB_ID[..],
        &TABLE.to_le_bytes(),
        &zone_generation.to_le_bytes(),
    ];
    let mut piece = Piece {
        bytes,
        seed: hash64_seeded(&identity.concat(), 0),
        base,
    };
    // What it tells of may not be there: then the rest stays as it is.
    let _ = piece.layers();
    let _ = piece.header();
}

impl Piece<'_> {
    fn crc(&self, place: usize, from: usize, to: usize) -> Option<u32> {
        let start = seeded(self.seed, self.base + place as u64);
        Some(crc32c(start, self.bytes.get(from..to)?))
    }

    fn header(&mut self) -> Option<()> {
        let start = self.crc(0, 0, 12)?;
        let crc = crc32c(start, self.bytes.get(16..HEADER)?);
        put(self.bytes, 12, crc)
    }

    fn layers(&mut self) -> Option<()> {
        let (runs, tombstones, end) = (
            u32_at(self.bytes, 72)?,
            u32_at(self.bytes, 76)?,
            u32_at(self.bytes, 80)?,
        );
        if tombstones < end {
            let crc = self.crc(tombstones, tombstones, end)?;
            put(self.bytes, 92, crc)?;
        }
        let crc = self.crc(runs, runs, tombstones)?;
        put(self.bytes, 88, crc)?;
        let mut at = runs;
        while at < tombstones {
            at = self.run(at)?;
        }
        Some(())
    }

    /// Seals what a run leads to; returns where the next one begins.
    fn run(&mut self, at: usize) -> Option<usize> {
        let prefix = usize::from(*self.bytes.get(at + 2)?);
        let shared = usize::from(*self.bytes.get(at + 3)?);
        let (groups, array) = (u32_at(self.bytes, at + 4)?, u32_at(self.bytes, at + 8)?);
        let separator = u16_at(self.bytes, at + 12)?;
        let stride = prefix + 4;
        let full = 252 / stride;
        for group in 0..groups {
            let block = array.checked_add(group / full.max(1) * 256)?;
            let in_block = group % full.max(1);
            let offset = u32_at(self.bytes, block + 4 + in_block * stride + prefix)?;
            let _ = self.group(offset, shared + prefix);
            let is_last = in_block + 1 == full || group + 1 == groups;
            if is_last {
                let len = match in_block + 1 == full {
                    true => 256,
                    false => 4 + (in_block + 1) * stride,
                };
                let crc = self.crc(block, block + 4, block + len)?;
                put(self.bytes, block, crc)?;
            }
        }
        at.checked_add(24 + shared + separator)
    }

    fn group(&mut self, at: usize, stripped: usize) -> Option<()> {
        let len = u32_at(self.bytes, at + 4)?;
        let end = at.checked_add(len)?;
        let _ = self.values(at, end, stripped);
        let crc = self.crc(at, at + 4, end)?;
        put(self.bytes, at, crc)
    }

    /// Seals the values of a group that lie apart.
    fn values(&mut self, group: usize, end: usize, stripped: usize) -> Option<()> {
        let mut value = u32_at(self.bytes, group + 8)?;
        let count = usize::from(*self.bytes.get(group + 12)?);
        let mut at = group + 13;
        varint(self.bytes, &mut at)?;
        for n in 0..count.min(16) {
            if at >= end {
                return None;
            }
            let tag = *self.bytes.get(at)?;
            at += 1;
            let lead = varint(self.bytes, &mut at)?;
            let rest = match n {
                0 => lead.saturating_sub(stripped),
                _ => varint(self.bytes, &mut at)?,
            };
            varint(self.bytes, &mut at)?;
            let (kind, place) = (tag & 15, tag & !15);
            let mut inline = 0;
            if kind != 2 && place == 0 {
                inline = varint(self.bytes, &mut at)?;
            } else if place == 32 {
                let len = varint(self.bytes, &mut at)?;
                let crc = self.crc(value, value, value.checked_add(len)?)?;
                put(self.bytes, at, crc)?;
                value += len;
                at += 4;
            } else if place == 16 {
                inline = 20;
            }
            at = at.checked_add(rest)?.checked_add(inline)?;
        }
        Some(())
    }
}
