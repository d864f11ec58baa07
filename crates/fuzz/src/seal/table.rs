//! Tables.

use thermocline_base::checksum::{crc32c, seeded};

use super::{DB_ID, mixed, put, u32_at, usize_at, varint};

/// The file of all samples.
pub const FILE: u64 = 7;

const FOOTER: usize = 80;
const TRAILER: usize = 12;

fn seed() -> u64 {
    mixed(&DB_ID, FILE, 0x9fb2_1c65_1e98_df25)
}

/// Makes the checksums of footer, of all blocks that the footer or an index tells of, and the length of
/// the file in the footer right.
pub fn seal(bytes: &mut [u8]) {
    if let Some(footer) = bytes.len().checked_sub(FOOTER) {
        // What it tells of may not be there: then the rest stays as it is.
        let _ = seal_from(bytes, footer);
    }
}

fn seal_from(bytes: &mut [u8], footer: usize) -> Option<()> {
    let len = bytes.len() as u64;
    bytes[footer + 24..footer + 32].copy_from_slice(&len.to_le_bytes());
    let crc = crc32c(
        crc32c(0, &bytes[footer..footer + 64]),
        &bytes[footer + 68..],
    );
    put(bytes, footer + 64, crc);
    let mut at = usize_at(bytes, footer + 32)?;
    for n in 0..4 {
        let len = u32_at(bytes, footer + 40 + 4 * n)?;
        if len > 0 {
            block(bytes, at, len)?;
        }
        if n == 2 {
            for (at, len) in pointed_to(bytes, at, len)? {
                index_or_data(bytes, at, len);
            }
        }
        at = at.checked_add(len)?;
    }
    Some(())
}

/// Makes the checksum of a block right.
fn block(bytes: &mut [u8], at: usize, len: usize) -> Option<()> {
    let crc_at = at.checked_add(len.checked_sub(4)?)?;
    let crc = crc32c(seeded(seed(), at as u64), bytes.get(at..crc_at)?);
    put(bytes, crc_at, crc)
}

fn index_or_data(bytes: &mut [u8], at: usize, len: usize) -> Option<()> {
    block(bytes, at, len)?;
    let kind_at = at + len.checked_sub(TRAILER)? + 1;
    if bytes.get(kind_at) == Some(&2) {
        for (at, len) in pointed_to(bytes, at, len)? {
            block(bytes, at, len);
        }
    }
    Some(())
}

/// The kind of an index that has no handles that could be read here: of its table the blocks before the footer are
/// sealed, data blocks are not.
const LEARNED: u8 = 2;

/// Where the blocks lie that an index block points to, as far as it can be read: none if it is compressed.
fn pointed_to(bytes: &[u8], at: usize, len: usize) -> Option<Vec<(usize, usize)>> {
    let end = at.checked_add(len.checked_sub(TRAILER)?)?;
    let mut found = Vec::new();
    if *bytes.get(end)? != 0 || *bytes.get(at)? == LEARNED {
        return Some(found);
    }
    let restarts = u32_at(bytes, end.checked_sub(4)?)?;
    let end = end.checked_sub(4 + restarts.checked_mul(4)?)?;
    let mut at = at + 4;
    while at < end {
        varint(bytes, &mut at)?;
        let rest = varint(bytes, &mut at)?;
        let value = varint(bytes, &mut at)?;
        at += 1;
        varint(bytes, &mut at)?;
        at = at.checked_add(rest)?;
        let mut handle = at;
        found.push((varint(bytes, &mut handle)?, varint(bytes, &mut handle)?));
        at = at.checked_add(value)?;
    }
    Some(found)
}
